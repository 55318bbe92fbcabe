"""To a Ray cluster and back: found, named, or started here."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger("releaf.executors")
PATIENCE = 10.0  # seconds to reach a cluster; Ray itself would try for minutes, and end the program
# For a cluster that is started here: no word to Ray's makers, and nothing that listens beyond this machine (the name
# notwithstanding; Ray heeds it everywhere, when it is imported).
OURS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
TO_DO = 'start one with "ray start --head", name the address of one (host:port), or use "local" for this machine'


def checked_address(address: str) -> str:
    """Raise where an address can't be one."""
    expected = f'address is {address!r}: expected "auto", "local" or host:port'
    if "://" in address:
        raise ValueError(f"{expected}; run this on a node of the cluster, or send it there with `ray job submit`")
    host, _, port = address.rpartition(":")
    if address not in ("auto", "local") and not (host and port.isdigit()):
        raise ValueError(expected)
    return address


def connect(address: str, workers: int | None, runtime_env: dict[str, Any] | None) -> bool:
    """Connect this program to Ray, unless it is already; whether that was needed."""
    with _environment(OURS if address == "local" else {}):
        import ray

        if ray.is_initialized():
            return False
        given: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "runtime_env": runtime_env}
        if address == "local":
            given |= {"num_cpus": workers, "include_dashboard": False}
        else:
            _reach(os.environ.get("RAY_ADDRESS", address) if address == "auto" else address)
        try:
            ray.init(address, **given)
        except (ConnectionError, RuntimeError) as error:  # the latter where versions differ
            raise ConnectionError(_problem(address, error)) from error
    _hush()
    return True


def disconnect() -> None:
    import ray

    ray.shutdown()


def _problem(address: str, error: Exception) -> str:
    if address == "auto" and isinstance(error, ConnectionError):
        return f"there is no Ray cluster: {TO_DO}"
    return f"Ray at {address} can't be used: {error}"


def _reach(address: str) -> None:
    """Raise where nobody is at an address."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdigit()):  # it is for Ray to find out
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(f"there is no Ray cluster at {address} ({error}): {TO_DO}") from error


@contextmanager
def _environment(given: dict[str, str]) -> Iterator[None]:
    """Some variables for what is started meanwhile; those that someone has set stay."""
    added = {name: value for name, value in given.items() if name not in os.environ}
    os.environ |= added
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _hush() -> None:
    """Ray prints the fate of workers to stdout, into what a program reads from it; a log is the place."""
    import ray

    def told(data: dict[str, Any], ignore_prefix: bool = False) -> None:
        for line in data.get("lines", ()):
            logger.info("Ray: %s", line)

    if hasattr(ray._private.worker, "print_to_stdstream"):
        ray._private.worker.print_to_stdstream = told
