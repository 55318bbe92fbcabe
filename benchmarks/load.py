"""Load on a service on the loopback address, bounded in time: as much as it takes (wrk), or at a given pace."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

CONNECTIONS = 64
_LUA = """wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = [==[{body}]==]
local rejected = false
function response(status, headers, body)
  if status ~= 200 and not rejected then
    rejected = true
    print("first rejected:", status, body)
  end
end
"""


def throughput(url: str, body: str, seconds: float, connections: int = CONNECTIONS) -> float:
    """Requests a second that are answered with 200; an error where one is not."""
    if shutil.which("wrk") is None:
        return asyncio.run(_closed_loop(url, body, seconds, connections))
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "post.lua"
        script.write_text(_LUA.replace("{body}", body))
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "-s", str(script), url]
        told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 60).stdout
    if "Non-2xx" in told or "Socket errors" in told:
        raise RuntimeError(f"not all requests were answered:\n{told}")
    found = re.search(r"Requests/sec:\s+([0-9.]+)", told)
    if found is None:
        raise RuntimeError(f"wrk said nothing of its rate:\n{told}")
    return float(found[1])


class _Connection:
    """One connection that is kept, over which requests go one after the other."""

    def __init__(self, url: str, body: str) -> None:
        parts = urlsplit(url)
        self._address = parts.hostname or "127.0.0.1", parts.port or 80
        head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        self._request = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(*self._address)

    async def ask(self) -> None:
        self._writer.write(self._request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"not answered: {head!r}")
        length = re.search(rb"content-length: (\d+)", head)
        await self._reader.readexactly(int(length[1]) if length else 0)

    def close(self) -> None:
        self._writer.close()


async def _closed_loop(url: str, body: str, seconds: float, connections: int) -> float:
    """As many requests as are answered, where there is no wrk; this process may be slower than the service."""
    answered = 0
    until = time.perf_counter() + seconds

    async def go_on() -> None:
        nonlocal answered
        connection = _Connection(url, body)
        await connection.open()
        while time.perf_counter() < until:
            await connection.ask()
            answered += 1
        connection.close()

    started = time.perf_counter()
    await asyncio.gather(*(go_on() for _ in range(connections)))
    return answered / (time.perf_counter() - started)


def latencies(url: str, body: str, rate: float, seconds: float, connections: int = CONNECTIONS) -> list[float]:
    """Seconds from when each request was due until it was answered, at a pace that does not wait for answers."""
    return asyncio.run(_paced(url, body, rate, seconds, connections))


async def _paced(url: str, body: str, rate: float, seconds: float, connections: int) -> list[float]:
    taken: list[float] = []
    idle: asyncio.Queue[Any] = asyncio.Queue()
    for _ in range(connections):
        connection = _Connection(url, body)
        await connection.open()
        idle.put_nowait(connection)

    async def ask(due: float) -> None:
        connection = await idle.get()
        await connection.ask()
        taken.append(time.perf_counter() - due)
        idle.put_nowait(connection)

    start, tasks = time.perf_counter(), []
    for number in range(int(rate * seconds)):
        due = start + number / rate
        wait = due - time.perf_counter()
        if wait > 0.0005:
            await asyncio.sleep(wait)
        tasks.append(asyncio.create_task(ask(due)))
    await asyncio.gather(*tasks)
    while not idle.empty():
        idle.get_nowait().close()
    return sorted(taken)
