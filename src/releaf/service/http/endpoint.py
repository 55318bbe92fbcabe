"""From an operation of the API to a route: who asks, what they send, what they get, and what is measured.

One small ASGI application for each path, since a decision takes microseconds and general middleware would take longer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import msgspec

from releaf.service.auth.access_control import JSON_HEADERS, Guard, answer_headers, client_of
from releaf.service.auth.api_keys import NOBODY, Identity
from releaf.service.errors import Problem
from releaf.service.experiments.registry import Hub
from releaf.service.http.metrics import Metrics
from releaf.service.http.read_timeouts import Patience
from releaf.service.messages import ErrorAnswer, ErrorDetail
from releaf.service.settings import Settings
from releaf.service.store.base import StoreError
from releaf.service.structured_logging import SLOW, log_answer, mask

JSON, NDJSON = b"application/json", b"application/x-ndjson"
CLIENT_GONE = 499  # as other servers note it; nobody is there to be told
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
encoder = msgspec.json.Encoder()


@dataclass(slots=True)
class Call:
    """A request on its way to a handler."""

    hub: Hub
    settings: Settings
    metrics: Metrics
    identity: Identity
    scope: Scope
    path: Mapping[str, str]
    guard: Guard
    body: Any = None
    lines: list[bytes] | None = None  # of newline-delimited JSON
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Raw:
    """An answer that is not JSON: bytes, or a stream of them."""

    content: bytes | AsyncIterator[bytes]
    type: bytes
    headers: Sequence[tuple[bytes, bytes]] = ()


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a query, for the description of the API."""

    name: str
    about: str
    schema: Mapping[str, Any]
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that the API can do.

    Attributes
    ----------
    method, path
        How it is called; ``{experiment}`` in the path is the experiment that the scope is asked for.
    handler
        What does it.
    body, answer
        The types of what is sent and answered; an answer that is text names its media type.
    scope
        What the key must allow; "any" for every valid key, "none" where no key is needed.
    status
        Of the answer.
    lines
        Whether newline-delimited JSON is taken as well.
    problems
        The statuses with which it may refuse, besides those of every operation.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answer: Any
    body: Any = None
    scope: str = "read"
    status: int = 200
    lines: bool = False
    query: tuple[Parameter, ...] = ()
    problems: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Its name in metrics and in the description of the API."""
        return self.handler.__name__


class Endpoint:
    """All operations of one path, as an ASGI application.

    Parameters
    ----------
    operations
        Of one path, with different methods.
    hub, guard, metrics, settings
        Those of the service.
    """

    def __init__(
        self, operations: Sequence[Operation], hub: Hub, guard: Guard, metrics: Metrics, settings: Settings
    ) -> None:
        self._operations = {operation.method: operation for operation in operations}
        if "GET" in self._operations:
            self._operations.setdefault("HEAD", self._operations["GET"])
        self._decoders = {
            operation.method: msgspec.json.Decoder(operation.body) for operation in operations if operation.body
        }
        self._hub, self._guard, self._metrics, self._settings = hub, guard, metrics, settings
        self._patience = Patience(settings.read_timeout)
        self._allow = ", ".join(sorted(self._operations)).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        started = time.perf_counter()
        operation = self._operations.get(scope["method"])
        name = operation.name if operation else "unknown"
        identity = NOBODY
        try:
            identity = self._guard.admit(scope, public=operation is None or operation.scope == "none")
            if operation is None:
                raise Problem(405, "method_not_allowed", f"{scope['method']} is not one of {self._allow.decode()}")
            status = await self._answer(operation, identity, scope, receive, send)
        except Problem as problem:
            status = problem.status
            await self._refuse(problem, send)
        except StoreError as error:
            status = 503
            await self._refuse(Problem(503, "unavailable", mask(str(error)), retry_after=1), send)
        except asyncio.CancelledError:
            raise
        except ConnectionError:
            status = CLIENT_GONE
        except Exception:
            status = 500
            log.exception("%s %s failed", scope["method"], scope["path"])
            await self._refuse(Problem(500, "error", "an error of the program; its log says more"), send)
        seconds = time.perf_counter() - started
        self._metrics.answered(name, status, seconds)
        expected = status == 503 and name == "readyz"  # a standby is asked every few seconds
        if (status >= 400 and not expected) or seconds > SLOW or log.isEnabledFor(logging.DEBUG):
            client, key = client_of(scope), identity.id
            log_answer(name, scope["method"], scope["path"], status, seconds, client=client, key=key)

    async def _answer(
        self, operation: Operation, identity: Identity, scope: Scope, receive: Receive, send: Send
    ) -> int:
        path = scope.get("path_params", {})
        if operation.scope not in ("any", "none") and "experiment" in path:
            identity.demand(path["experiment"], operation.scope)
        call = Call(self._hub, self._settings, self._metrics, identity, scope, path, self._guard)
        if operation.body is not None:
            await self._read(operation, call, receive)
        if scope["query_string"]:
            call.query = _parsed_query(scope["query_string"], operation)
        elif operation.query:
            _parsed_query(b"", operation)
        answer = await operation.handler(call)
        if isinstance(answer, Raw):
            await _send_raw(answer, operation.status, scope["method"] == "HEAD", receive, send)
        else:
            content = b"" if scope["method"] == "HEAD" else encoder.encode(answer)
            await send_whole(send, operation.status, content, _JSON_HEADERS)
        return operation.status

    async def _read(self, operation: Operation, call: Call, receive: Receive) -> None:
        kind = _content_type(call.scope)
        if kind != JSON and not (kind == NDJSON and operation.lines):
            expected = "application/json" + (" or application/x-ndjson" if operation.lines else "")
            raise Problem(415, "content_type", f"the Content-Type is {kind.decode('latin-1')!r}: expected {expected}")
        content = await read_body(receive, self._settings.body_limit, self._patience)
        if kind == NDJSON:
            call.lines = [line for line in content.split(b"\n") if line.strip()]
        else:
            call.body = decoded(self._decoders[call.scope["method"]], content)

    async def _refuse(self, problem: Problem, send: Send) -> None:
        content = encoder.encode(error_answer(problem))
        headers = [(b"content-type", JSON), *answer_headers(problem)]
        if problem.status == 405:
            headers.append((b"allow", self._allow))
        await send_whole(send, problem.status, content, headers)


_JSON_HEADERS = [(b"content-type", JSON), *JSON_HEADERS]
log = logging.getLogger("releaf.service")


def error_answer(problem: Problem) -> ErrorAnswer:
    """What whoever asked is told of a problem."""
    return ErrorAnswer(ErrorDetail(problem.status, problem.code, problem.message))


def decoded(decoder: msgspec.json.Decoder[Any], content: bytes) -> Any:
    """What a body or a line says; a Problem where it is no JSON or not as described."""
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        raise Problem(422, "invalid", str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "not_json", f"the body is no JSON: {error}") from None


def _content_type(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == b"content-type":
            kind: bytes = value.partition(b";")[0].strip().lower()
            return kind
    return b""


def header(scope: Scope, wanted: bytes) -> str | None:
    """A header of a request."""
    for name, value in scope["headers"]:
        if name == wanted:
            return str(value.decode("latin-1"))
    return None


async def read_body(receive: Receive, limit: int, patience: Patience) -> bytes:
    """The body, if it is not too long and does not take too long to come."""
    parts: list[bytes] = []
    length = 0
    try:
        with patience.limit():
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionError("the client has gone")
                part: bytes = message.get("body", b"")
                length += len(part)
                if length > limit:
                    raise Problem(413, "too_large", f"the body is longer than {limit:,} bytes: send less at a time")
                if not message.get("more_body"):
                    return part if not parts else b"".join([*parts, part])
                parts.append(part)
    except TimeoutError:
        raise Problem(408, "too_slow", f"the body did not arrive within {patience.seconds:g} seconds") from None


def _parsed_query(text: bytes, operation: Operation) -> dict[str, str]:
    known = {parameter.name for parameter in operation.query}
    try:
        given = parse_qs(text.decode("ascii"), keep_blank_values=True, max_num_fields=20, errors="strict")
    except (ValueError, UnicodeDecodeError):
        raise Problem(422, "invalid", "the query can't be read: expected name=value&…, percent-encoded") from None
    unknown = [name for name in given if name not in known]
    if unknown:
        expected = ", ".join(sorted(known)) or "none"
        raise Problem(422, "invalid", f"unknown parameter {unknown[0]!r}: expected {expected}")
    twice = [name for name, values in given.items() if len(values) > 1]
    if twice:
        raise Problem(422, "invalid", f"parameter {twice[0]!r} is given twice")
    for parameter in operation.query:
        if parameter.required and parameter.name not in given:
            raise Problem(422, "invalid", f"parameter {parameter.name!r} is missing: {parameter.about}")
    return {name: values[0] for name, values in given.items()}


async def send_whole(send: Send, status: int, content: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Send an answer in one piece."""
    length = (b"content-length", str(len(content)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": content})


async def _send_raw(raw: Raw, status: int, head: bool, receive: Receive, send: Send) -> None:
    headers = [(b"content-type", raw.type), (b"x-content-type-options", b"nosniff"), *raw.headers]
    if isinstance(raw.content, bytes):
        await send_whole(send, status, b"" if head else raw.content, headers)
        return
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if head:
        await send({"type": "http.response.body", "body": b""})
        return
    streaming = asyncio.create_task(_stream(raw.content, send))
    leaving = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait((streaming, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (streaming, leaving):
            task.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
    if not streaming.cancelled():
        await asyncio.gather(streaming, return_exceptions=not streaming.done())


async def _stream(content: AsyncIterator[bytes], send: Send) -> None:
    async for part in content:
        if part:
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
