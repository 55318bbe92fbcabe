"""``releaf serve`` in a process of its own, on a free port of the loopback address."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

START_TIMEOUT_SECONDS = 120.0  # on a busy machine
COMPILE_TIMEOUT_SECONDS = 300.0  # for a first request, where kernels are not cached yet
STOP_TIMEOUT_SECONDS = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def run_service(folder: Path, *options: str, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of ``releaf serve`` with these options, run in a folder; ended by the signal of Ctrl-C."""
    port = free_port()
    process = start_service(folder, port, *options, environment=environment)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def start_service(
    folder: Path, port: int, *options: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A process of the service that is ready; whoever starts it has to end it."""
    command = [sys.executable, "-m", "releaf", "serve", "--port", str(port), *options]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | dict(environment or {})
    with (folder / "service.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, env=variables, stdout=log, stderr=log)
    try:
        _wait_until_ready(process, f"http://127.0.0.1:{port}", folder / "service.log")
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            if httpx.get(f"{url}/readyz", timeout=5, trust_env=False).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError(f"the service did not start:\n{log.read_text()}")
