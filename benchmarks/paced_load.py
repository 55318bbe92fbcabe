"""Requests at a pace that does not wait for answers, or as fast as they are answered, and how long each waited."""

from __future__ import annotations

import asyncio
import gc
import random
import re
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import uvloop

TICK = 0.0005  # seconds between looks at the clock
GRACE = 30.0  # seconds within which the last answers must have come
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_DECISION = re.compile(rb'"decision":(\d+)')


@dataclass(slots=True)
class Waits:
    """Seconds from when each request was due until it was answered."""

    decided: list[float] = field(default_factory=list)
    rewarded: list[float] = field(default_factory=list)

    def quantile(self, share: float) -> float:
        """Of all requests."""
        waits = sorted([*self.decided, *self.rewarded])
        return waits[min(int(share * len(waits)), len(waits) - 1)]


def paced(
    url: str,
    bodies: Sequence[str],
    seconds: float,
    *,
    rate: float | None = None,
    connections: int = 64,
    rewards: str | None = None,
) -> Waits:
    """Send requests for decisions, and if an address for ``rewards`` is given, after each the reward of an earlier one.

    ``rate`` is that of all requests together; without one, each connection sends the next as soon as it has an answer.
    """
    load = _Load(url, bodies, rewards)
    gc.collect()
    gc.disable()  # else its pauses would look like the service's
    try:
        uvloop.run(load.run(seconds, rate, connections))
    finally:
        gc.enable()
    return load.waits


class _Load:
    """What is due, the connections that are idle, and decisions that wait for a reward."""

    def __init__(self, url: str, bodies: Sequence[str], rewards: str | None) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._asks = [_post(url, body) for body in bodies]
        self._rewards, self._draw = rewards, random.Random(0)
        self.waits = Waits()
        self.due: deque[float] = deque()
        self.idle: list[_Connection] = []
        self.unrewarded: deque[bytes] = deque()
        self.failure: Exception | None = None
        self._sent = self._open = 0
        self._until = 0.0
        self.is_paced = True

    async def run(self, seconds: float, rate: float | None, connections: int) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            _, connection = await loop.create_connection(lambda: _Connection(self), self._host, self._port)
            self.idle.append(connection)
        start = time.perf_counter()
        self._until, self.is_paced = start + seconds, rate is not None
        for connection in [] if self.is_paced else list(self.idle):
            self.idle.remove(connection)
            self.send(connection, start)
        count = 0
        while time.perf_counter() < self._until and self.failure is None:
            while rate is not None and start + count / rate <= time.perf_counter():
                self._send_or_queue(start + count / rate)
                count += 1
            await asyncio.sleep(TICK)
        while len(self.idle) < connections and self.failure is None:
            if time.perf_counter() > self._until + GRACE:
                self.failure = RuntimeError(f"{connections - len(self.idle)} requests were not answered")
            await asyncio.sleep(TICK)
        for connection in self.idle:
            connection.transport.close()
        if self.failure is not None:
            raise self.failure

    def _send_or_queue(self, due: float) -> None:
        if self.idle:
            self.send(self.idle.pop(), due)
        else:
            self.due.append(due)

    def send(self, connection: _Connection, due: float) -> None:
        self._sent += 1
        if self._rewards is not None and self._sent % 2 == 0 and self.unrewarded:
            decision = self.unrewarded.popleft().decode()
            reward = self._draw.randint(0, 1)
            request = _post(self._rewards, f'{{"decision":{decision},"reward":{reward}}}')
            connection.send(request, due, self.waits.rewarded)
        else:
            connection.send(self._asks[self._sent % len(self._asks)], due, self.waits.decided)

    def answered(self, connection: _Connection) -> None:
        if not self.is_paced and time.perf_counter() < self._until:
            self.send(connection, time.perf_counter())
        elif self.due:
            self.send(connection, self.due.popleft())
        else:
            self.idle.append(connection)


class _Connection(asyncio.Protocol):
    """One connection that is kept, over which requests go one after the other."""

    transport: asyncio.Transport

    def __init__(self, load: _Load) -> None:
        self._load, self._buffer, self._due = load, b"", 0.0
        self._waits: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        if time.perf_counter() < self._load._until:
            self._load.failure = RuntimeError(f"the service closed a connection: {exc}")

    def send(self, request: bytes, due: float, waits: list[float]) -> None:
        self._due, self._waits = due, waits
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        length = _LENGTH.search(self._buffer, 0, head)
        if len(self._buffer) < head + 4 + (int(length[1]) if length else 0):
            return
        self._waits.append(time.perf_counter() - self._due)
        if not self._buffer.startswith(b"HTTP/1.1 200"):
            self._load.failure = RuntimeError(f"not answered with 200: {self._buffer[:500]!r}")
            return
        if self._waits is self._load.waits.decided:
            self._load.unrewarded.extend(_DECISION.findall(self._buffer, head))
        self._buffer = b""
        self._load.answered(self)


def _post(url: str, body: str) -> bytes:
    parts = urlsplit(url)
    head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
