"""Connection limits: uvicorn's HTTP protocol with limits of connections and header sizes, and time-outs."""

from __future__ import annotations

import asyncio
import logging
import math
import sys
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from releaf.service.auth.rate_limiter import address_block
from releaf.service.auth.trusted_proxies import TrustedProxies
from releaf.service.errors import ApiError
from releaf.service.http import whole_messages
from releaf.service.http.asgi import Receive, Scope, Send, send_response
from releaf.service.http.problems import problem_document, problem_headers, raw_problem
from releaf.service.http.request_ids import make_request_id, with_request_id
from releaf.service.settings import ServiceSettings

HEADER_LIMIT = 64 << 10
TOO_LARGE = ApiError(431, "head_too_large", f"more than {HEADER_LIMIT} bytes of headers")
MALFORMED = ApiError(400, "not_http", "the request is malformed: expected HTTP/1.1")
TOO_MANY = ApiError(503, "connection_limit", "too many connections are open: try again later", retry_after=1)
TOO_MANY_OF_CLIENT = ApiError(
    503, "client_connection_limit", "too many connections of this address are open: close some", retry_after=1
)
WARNING_SECONDS = 1.0  # between warnings of rejected connections: a flood of them must not flood the log
log = logging.getLogger("releaf.service")


class ClientConnections:
    """Counts the open connections of each client: an IPv4 address, or an IPv6 /64.

    Parameters
    ----------
    limit
        Largest number of connections of one client.
    proxies
        Trusted proxies, which have no limit: their connections are those of many clients.
    """

    def __init__(self, limit: int, proxies: TrustedProxies) -> None:
        self._limit, self._proxies = limit, proxies
        self._open: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def is_limited(self, address: str) -> bool:
        return not self._proxies.contains(address)

    def open(self, address: str) -> bool:
        """Count a connection; False, and not counted, if its client has too many."""
        client = address_block(address)
        count = self._open.get(client, 0)
        if count >= self._limit:
            return False
        self._open[client] = count + 1
        return True

    def close(self, address: str) -> None:
        client = address_block(address)
        self._open[client] -= 1
        if not self._open[client]:
            del self._open[client]


class LimitedConnection(HttpToolsProtocol):
    """A connection that closes if its client has too many, or sends endless headers, or none.

    A connection beyond the limit of its client closes at once, before a request, so that slow requests can't keep it.

    The parser buffers headers until they are complete, however many there are. So this class counts the bytes received
    since the last progress: complete headers, a part of a body, or the end of a request. That limits headers, and
    trailers as well.
    """

    read_timeout: float
    send_timeout: float
    connection_limit: int
    clients: ClientConnections
    next_warning: ClassVar[list[float]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._buffered = 0
        self._before_body = True
        self._timer: asyncio.TimerHandle | None = None  # one for all time-outs: to set it anew costs more than to look
        self._read_by = self._used_by = math.inf  # times of the loop at which the connection closes
        self._send_by = math.inf  # time at which the connection ends unless its client receives something
        self._unsent: float = math.inf  # bytes that waited to be sent when the client last received something
        self._counted: str | None = None  # address that the connection counts for

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time-out of the first request, or reject the connection."""
        super().connection_made(transport)
        address = self.client[0] if self.client else None
        if address is not None and self.clients.is_limited(address):
            if not self.clients.open(address):
                self._reject(TOO_MANY_OF_CLIENT)
                return
            self._counted = address
        self._start_timeout()
        self._check_timeouts()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._counted is not None:
            self.clients.close(self._counted)
            self._counted = None
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        """Note that the client receives its response."""
        self._unsent = math.inf
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Pass data to the parser, no more at a time than may be buffered."""
        self._used_by = math.inf
        if self._before_body:  # even for blank lines, which start no request
            self._start_timeout()
        rest = memoryview(data)
        while rest and not self.transport.is_closing():
            part = rest[: HEADER_LIMIT - self._buffered]
            rest = rest[len(part) :]
            self._buffered += len(part)
            super().data_received(part)  # type: ignore[arg-type]
            if self._buffered >= HEADER_LIMIT:
                self._reject(TOO_LARGE)

    def on_message_begin(self) -> None:
        """Start the time-out of a pipelined request."""
        super().on_message_begin()
        self._start_timeout()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Ignore trailers: they would become headers of a request that was admitted already."""
        if self._before_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop the time-out: the application has its own for the body. Reject a request on a connection too many."""
        self._buffered, self._before_body = 0, False
        self._stop_timeout()
        self.app = self.config.loaded_app if len(self.connections) <= self.connection_limit else _reject_request
        super().on_headers_complete()
        whole_messages.offer(self.scope, self.cycle)

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
        """Wait for the next request; or, with a time-out, for the rest of a body whose request was answered early."""
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
        else:
            self.server_state.total_requests += 1
            self.flow.resume_reading()
            self._used_by = self.loop.time() + self.timeout_keep_alive
        if not self._before_body and self.cycle.response_complete:
            self._start_timeout()

    def _start_timeout(self) -> None:
        if self._read_by == math.inf:
            self._read_by = self.loop.time() + self.read_timeout

    def _stop_timeout(self) -> None:
        self._read_by = math.inf

    def _check_timeouts(self) -> None:
        """Close the connection if a time-out has passed; look again when one may have."""
        now = self.loop.time()
        if now >= self._read_by:
            self._stop_timeout()
            if self._is_responding():  # the connection does not read during a response
                self._start_timeout()
            else:
                self.transport.close()
        elif now >= self._used_by:
            self.transport.close()
        is_sending = self._check_sending(now)
        if is_sending or not self.transport.is_closing():
            shortest = min(self.read_timeout, self.send_timeout, self.timeout_keep_alive)
            times = (self._read_by, self._used_by) if not self.transport.is_closing() else ()
            self._timer = self.loop.call_at(min(*times, self._send_by, now + shortest), self._check_timeouts)

    def _check_sending(self, now: float) -> bool:
        """Whether a response waits for its client; if it has received nothing for too long, the connection ends."""
        unsent = self.transport.get_write_buffer_size()
        if unsent:
            unsent += _unacknowledged(self.transport)
        if not unsent or not (self.flow.write_paused or self.transport.is_closing()):
            self._unsent = self._send_by = math.inf
        elif unsent < self._unsent:
            self._unsent, self._send_by = unsent, now + self.send_timeout
        elif now >= self._send_by:
            self.transport.abort()
            return False
        return self._send_by < math.inf

    def send_400_response(self, msg: str) -> None:
        """Reject what the parser can't parse."""
        self._reject(MALFORMED)

    def _reject(self, error: ApiError) -> None:
        """Send an error and close the connection."""
        request_id, client = make_request_id(), self.client[0] if self.client else ""
        is_due = self.loop.time() >= self.next_warning[0]
        if is_due:
            self.next_warning[0] = self.loop.time() + WARNING_SECONDS
        level = logging.WARNING if is_due else logging.DEBUG
        log.log(level, "connection rejected: %s", error, extra={"client": client, "request_id": request_id})
        if not self._is_responding():  # otherwise this would become part of the response
            self.transport.write(raw_problem(error, request_id))
        self.transport.close()

    def _is_responding(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


def _unacknowledged(transport: asyncio.Transport) -> int:
    """Bytes that the system has of a connection, and its client does not yet; 0 where the system does not tell."""
    try:
        count = ioctl(transport.get_extra_info("socket").fileno(), TIOCOUTQ, bytes(4))
    except (OSError, ValueError):
        return 0
    return int.from_bytes(count, sys.byteorder)


def connection_class(settings: ServiceSettings) -> type[LimitedConnection]:
    """The protocol class for a service with these settings."""
    limits = {
        "read_timeout": settings.read_timeout,
        "send_timeout": settings.send_timeout,
        "connection_limit": settings.connection_limit,
        "clients": ClientConnections(settings.connections_per_client, TrustedProxies(settings.trusted_proxies)),
        "next_warning": [0.0],
    }
    return type("LimitedConnection", (LimitedConnection,), limits)


async def _reject_request(scope: Scope, receive: Receive, send: Send) -> None:
    send = with_request_id(scope, send)
    log.warning("request rejected: %s", TOO_MANY, extra={"request_id": scope["request_id"]})
    content = problem_document(TOO_MANY, scope["path"], scope["request_id"])
    await send_response(send, TOO_MANY.status, content, [*problem_headers(TOO_MANY), (b"connection", b"close")])
