"""Header limits: uvicorn's HTTP protocol with a header size limit and a read time-out."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from releaf.service.settings import ServiceSettings

HEADER_LIMIT = 64 << 10
_MESSAGE = b'{"error":{"status":431,"code":"head_too_large","message":"more than %d bytes of headers"}}' % HEADER_LIMIT
TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_MESSAGE), _MESSAGE)
)


class LimitedConnection(HttpToolsProtocol):
    """A connection that closes if its client sends endless headers, or none.

    The parser buffers headers until they are complete, however many there are. So this class counts the bytes received
    since the last progress: complete headers, a part of a body, or the end of a request. That limits headers, and
    trailers as well.
    """

    read_timeout: float

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._buffered = 0
        self._before_body = True
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time-out of the first request."""
        super().connection_made(transport)
        self._start_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time-out."""
        self._stop_timeout()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass data to the parser, no more at a time than may be buffered."""
        if self._before_body:  # even for blank lines, which start no request
            self._start_timeout()
        rest = memoryview(data)
        while rest and not self.transport.is_closing():
            part = rest[: HEADER_LIMIT - self._buffered]
            rest = rest[len(part) :]
            self._buffered += len(part)
            super().data_received(part)  # type: ignore[arg-type]
            if self._buffered >= HEADER_LIMIT:
                self._reject()

    def on_message_begin(self) -> None:
        """Start the time-out of a pipelined request."""
        super().on_message_begin()
        self._start_timeout()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Ignore trailers: they would become headers of a request that was admitted already."""
        if self._before_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop the time-out: the application has its own for the body."""
        self._buffered, self._before_body = 0, False
        self._stop_timeout()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Receive a part of a body."""
        self._buffered = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Prepare for the next request."""
        self._buffered, self._before_body = 0, True
        self._stop_timeout()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Start a time-out for the rest of a body whose request was answered early."""
        super().on_response_complete()
        if not self._before_body and self.cycle.response_complete:
            self._start_timeout()

    def _start_timeout(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.read_timeout, self._on_timeout)

    def _stop_timeout(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        self._timer = None
        if self._is_responding():  # the connection does not read during a response
            self._start_timeout()
        elif not self.transport.is_closing():
            self.transport.close()

    def _reject(self) -> None:
        if not self._is_responding():  # otherwise this would become part of the response
            self.transport.write(TOO_LARGE)
        self.transport.close()

    def _is_responding(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


def connection_class(settings: ServiceSettings) -> type[LimitedConnection]:
    """The protocol class for a service with these settings."""
    return type("LimitedConnection", (LimitedConnection,), {"read_timeout": settings.read_timeout})
