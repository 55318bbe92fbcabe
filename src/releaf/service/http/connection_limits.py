"""What a connection may cost before a request is complete: uvicorn's protocol, with limits of size and of time."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from releaf.service.settings import Settings

HEAD_LIMIT = 64 << 10
_MESSAGE = b'{"error":{"status":431,"code":"head_too_large","message":"more than %d bytes of headers"}}' % HEAD_LIMIT
TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_MESSAGE), _MESSAGE)
)


class Connection(HttpToolsProtocol):
    """A connection that is closed when its client sends endless headers, or none.

    The parser keeps headers until they are complete, however many come. So bytes are counted that have come since
    anything was of use: since a head was complete, a part of a body was there, or a request ended. That limits heads,
    and trailers as well.
    """

    read_timeout: float

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held = 0
        self._before_body = True
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Let the parser have no more at a time than may be held."""
        if self._before_body:  # even if these are blank lines, which begin no request
            self._wait()
        rest = memoryview(data)
        while rest and not self.transport.is_closing():
            part = rest[: HEAD_LIMIT - self._held]
            rest = rest[len(part) :]
            self._held += len(part)
            super().data_received(part)  # type: ignore[arg-type]
            if self._held >= HEAD_LIMIT:
                self._refuse()

    def on_message_begin(self) -> None:
        """A request follows another at once."""
        super().on_message_begin()
        self._wait()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Headers that come after the body would become a part of a request that was let in already."""
        if self._before_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The application takes over; it has its own patience with the body."""
        self._held, self._before_body = 0, False
        self._wait_no_longer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._held = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Be ready for the next request."""
        self._held, self._before_body = 0, True
        self._wait_no_longer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The rest of a body that was answered early is thrown away, but not for ever."""
        super().on_response_complete()
        if not self._before_body and self.cycle.response_complete:
            self._wait()

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.read_timeout, self._time_is_up)

    def _wait_no_longer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_is_up(self) -> None:
        self._timer = None
        if self._is_answering():  # it could not read on, or need not yet
            self._wait()
        elif not self.transport.is_closing():
            self.transport.close()

    def _refuse(self) -> None:
        if not self._is_answering():  # else this would become a part of the answer
            self.transport.write(TOO_LARGE)
        self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


def connections_with(settings: Settings) -> type[Connection]:
    """The protocol for a service with these settings."""
    return type("Connection", (Connection,), {"read_timeout": settings.read_timeout})
