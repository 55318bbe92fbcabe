"""ASGI helpers: read a request's body, and send whole or streamed responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from releaf.service.errors import ApiError
from releaf.service.http.task_timeouts import TaskTimeout

NO_CONTENT, NOT_MODIFIED = 204, 304
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(slots=True)
class RawResponse:
    """A response that is not JSON: bytes, or a stream of bytes."""

    content: bytes | AsyncIterator[bytes]
    type: bytes
    headers: Sequence[tuple[bytes, bytes]] = ()
    not_modified: bool = False  # status 304: the client has the content


def find_header(scope: Scope, wanted: bytes) -> str | None:
    """A header of a request; None if it has none."""
    for name, value in scope["headers"]:
        if name == wanted:
            return str(value.decode("latin-1"))
    return None


def content_type(scope: Scope) -> bytes:
    """The media type of a request, without parameters."""
    for name, value in scope["headers"]:
        if name == b"content-type":
            kind: bytes = value.partition(b";")[0].strip().lower()
            return kind
    return b""


async def read_body(receive: Receive, limit: int, timeout: TaskTimeout) -> bytes:
    """Read a body; an error if it is too large or arrives too slowly."""
    parts: list[bytes] = []
    length = 0
    try:
        with timeout.limit():
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionError("the client has disconnected")
                part: bytes = message.get("body", b"")
                length += len(part)
                if length > limit:
                    raise too_large(limit)
                if not message.get("more_body"):
                    return part if not parts else b"".join([*parts, part])
                parts.append(part)
    except TimeoutError:
        raise ApiError(408, "too_slow", f"the body did not arrive within {timeout.seconds:g} seconds") from None


def too_large(limit: int) -> ApiError:
    return ApiError(413, "too_large", f"the body is longer than {limit:,} bytes: send less at a time")


async def send_response(send: Send, status: int, content: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
    length = (b"content-length", str(len(content)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": content})


async def send_empty(send: Send, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Send a response that has no content, and so no length."""
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": b""})


async def send_raw(raw: RawResponse, status: int, head: bool, receive: Receive, send: Send) -> None:
    """Send a raw response; a stream ends when its client disconnects."""
    if raw.not_modified:
        await send_empty(send, NOT_MODIFIED, raw.headers)
        return
    headers = [(b"content-type", raw.type), (b"x-content-type-options", b"nosniff"), *raw.headers]
    if isinstance(raw.content, bytes):
        await send_response(send, status, b"" if head else raw.content, headers)
        return
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if head:
        await send({"type": "http.response.body", "body": b""})
        return
    streaming = asyncio.create_task(_stream(raw.content, send))
    disconnect = asyncio.create_task(_wait_for_disconnect(receive))
    try:
        await asyncio.wait((streaming, disconnect), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (streaming, disconnect):
            task.cancel()
        await asyncio.gather(disconnect, return_exceptions=True)
    if not streaming.cancelled():
        await asyncio.gather(streaming, return_exceptions=not streaming.done())


async def _stream(content: AsyncIterator[bytes], send: Send) -> None:
    async for part in content:
        if part:
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
