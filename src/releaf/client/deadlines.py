"""Deadlines of attempts: for asyncio by cancellation, for blocking calls by the time-out of every read and write.

httpx has time-outs for one read or one write: a server that sends a byte now and then would never reach them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from ssl import SSLContext
from typing import Any

import anyio
import httpcore
import httpx

WRITE_BYTES = 1 << 16  # per write: the time that is left is looked up before each

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)  # of the call in this thread, monotonic


@contextmanager
def blocking_deadline(seconds: float | None) -> Iterator[None]:
    """Bound what `bounded_client` does inside the block; None for no bound."""
    token = _deadline.set(None if seconds is None else time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


@contextmanager
def async_deadline(seconds: float | None) -> Iterator[None]:
    """Cancel what is awaited inside the block, and raise a TimeoutError; None for no bound."""
    with anyio.fail_after(seconds):
        yield


def bounded_client(**options: Any) -> httpx.Client:
    """An ``httpx.Client`` that keeps to `blocking_deadline`."""
    http = httpx.Client(**options)
    # Network backends are a public part of httpcore, but httpx has no option for them; a transport of our own would
    # lose the proxies of the environment.
    for transport in (http._transport, *http._mounts.values()):
        if isinstance(transport, httpx.HTTPTransport):
            pool: Any = transport._pool
            pool._network_backend = DeadlineBackend(pool._network_backend)
    return http


def _left(timeout: float | None, error: type[httpcore.TimeoutException]) -> float | None:
    """The given time-out, or the time until the deadline if that is shorter; raise the error if it has passed."""
    deadline = _deadline.get()
    if deadline is None:
        return timeout
    left = deadline - time.monotonic()
    if left <= 0:
        raise error("timed out")
    return left if timeout is None else min(timeout, left)


class DeadlineBackend(httpcore.NetworkBackend):
    """Opens connections whose reads and writes keep to the deadline."""

    def __init__(self, backend: httpcore.NetworkBackend) -> None:
        self._backend = backend

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return DeadlineStream(self._backend.connect_tcp(host, port, left, local_address, socket_options))

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return DeadlineStream(self._backend.connect_unix_socket(path, left, socket_options))

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


class DeadlineStream(httpcore.NetworkStream):
    """A connection whose reads and writes keep to the deadline."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), WRITE_BYTES):
            self._stream.write(buffer[start : start + WRITE_BYTES], _left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return DeadlineStream(self._stream.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
