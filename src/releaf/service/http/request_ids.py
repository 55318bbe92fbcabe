"""Request ids: every response has an ``X-Request-ID``, which error responses and the log repeat."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from releaf.service.http.asgi import Scope, Send

HEADER = b"x-request-id"
ID_BYTES, IDS_DRAWN = 16, 256
ALLOWED = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")


_unused = bytearray()  # random bytes, drawn for many ids at once: a system call for each would take longer


def make_request_id() -> str:
    if not _unused:
        _unused.extend(os.urandom(IDS_DRAWN * ID_BYTES))
    made = _unused[-ID_BYTES:].hex()
    del _unused[-ID_BYTES:]
    return made


def sent_request_id(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The id that the client sent; None unless it sent exactly one of 1 to 128 plain characters."""
    sent = [value for name, value in headers if name == HEADER]
    if len(sent) != 1 or not ALLOWED.fullmatch(sent[0]):
        return None
    return sent[0].decode()


def with_request_id(scope: Scope, send: Send) -> Send:
    """Set ``scope["request_id"]``, and return a ``send`` that adds the id to the headers of the response."""
    request_id = scope["request_id"] = sent_request_id(scope["headers"]) or make_request_id()
    header = (HEADER, request_id.encode())

    async def send_with_id(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), header]}
        await send(message)

    return send_with_id
