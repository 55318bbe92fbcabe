"""Whole requests and responses of an HTTP connection, without the steps of ASGI.

ASGI receives a body and sends a response in parts, each with checks and a system call of its own. Most requests of this
service have arrived as a whole when they are handled, and most responses are ready as a whole: one write is enough.
Where that can't be done, such as under another server, ASGI is what remains.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from releaf.service.http.asgi import Scope
from releaf.service.http.security_headers import Headers

EXTENSION = "releaf.cycle"  # uvicorn's state of the request, in the extensions of its scope
_heads: dict[tuple[int, Headers], bytes] = {}  # of the few pairs of status and headers that responses have


def offer(scope: Any, cycle: RequestResponseCycle) -> None:
    """Let a request be read, and answered, as a whole."""
    scope["extensions"] = {EXTENSION: cycle}


def received_body(scope: Scope) -> bytes | None:
    """The whole body of a request if it has arrived already; None if it has to be waited for."""
    cycle = _cycle(scope)
    if cycle is None or cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue:
        return None
    body, cycle.body = bytes(cycle.body), bytearray()
    cycle.message_event.clear()
    return body


def respond(scope: Scope, status: int, content: bytes, headers: Headers, own: bytes) -> bool:
    """Send a response in one write; False, and nothing was sent, if that can't be done now.

    Parameters
    ----------
    headers
        Those that many responses have.
    own
        Lines of further headers, each with its end.
    """
    cycle = _cycle(scope)
    if cycle is None or cycle.response_started or cycle.disconnected or cycle.flow.write_paused:
        return False
    if cycle.default_headers or not cycle.keep_alive or scope["method"] == "HEAD":
        return False
    head = _heads.get((status, headers))
    if head is None:
        lines = [b"%b: %b\r\n" % header for header in headers]
        head = _heads[status, headers] = b"".join([STATUS_LINE[status], *lines])
    cycle.transport.write(b"%bcontent-length: %d\r\n%b\r\n%b" % (head, len(content), own, content))
    cycle.waiting_for_100_continue = False
    cycle.response_started = cycle.response_complete = True
    cycle.message_event.set()
    cycle.on_response()
    return True


def _cycle(scope: Scope) -> RequestResponseCycle | None:
    extensions = scope.get("extensions")
    return None if extensions is None else extensions.get(EXTENSION)
