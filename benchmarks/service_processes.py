"""The processes that are measured: the service on its stores, a server of a constant, and PostgreSQL."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TIMEOUT = 180.0
NAME = "cases"


@contextmanager
def service(
    store: str, *options: str, graceful: bool = True, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """A service on a store; gives its address."""
    port = _free_port()
    command = [sys.executable, "-m", "releaf", "serve", "--port", str(port), "--store", store, "--rate-limit", "0"]
    with _process([*command, *options], environment or {}) as process:
        url = f"http://127.0.0.1:{port}"
        _wait_for(f"{url}/readyz", process)
        yield url
        if not graceful:
            process.kill()  # so that it leaves no snapshot


@contextmanager
def embedded(*options: str) -> Iterator[str]:
    """A service on a new SQLite store."""
    with tempfile.TemporaryDirectory() as folder, service(f"{folder}/bench.db", *options) as url:
        yield url


@contextmanager
def constant() -> Iterator[str]:
    """A server that answers a constant; gives its address."""
    port = _free_port()
    with _process([sys.executable, "-m", "benchmarks.constant", str(port)], {}) as process:
        _wait_for(f"http://127.0.0.1:{port}/readyz", process)
        yield f"http://127.0.0.1:{port}"


@contextmanager
def postgres() -> Iterator[Any]:
    """A PostgreSQL server of the tests' own, each of whose databases is a store; None without its programs."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
    import postgres_server

    if postgres_server.find_binaries() is None:
        print("PostgreSQL's server programs are not here: that side is left out", file=sys.stderr)
        yield None
        return
    with postgres_server.own_server() as server:
        yield server


def create(url: str, **spec: Any) -> str:
    """Create the experiment; gives its address."""
    post(f"{url}/v1/experiments", {"name": NAME, "policy": {"parameters": {"seed": 0}}, **spec})
    return f"{url}/v1/experiments/{NAME}"


def post(url: str, content: Any) -> Any:
    body = json.dumps(content).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        return json.load(answer)


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
        return json.load(answer)


@contextmanager
def _process(command: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(command, stdout=told, stderr=told, env={**os.environ, **environment})
        try:
            yield process
        except BaseException:
            told.seek(0)
            print(told.read()[-5_000:].decode(errors="replace"), file=sys.stderr)  # it may say why
            raise
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait(TIMEOUT)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.02)
    raise RuntimeError(f"{url} does not answer")
