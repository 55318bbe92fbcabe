"""Connection to a Ray cluster."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger("releaf.executors")
CONNECT_TIMEOUT = 10.0  # seconds; Ray itself would retry for minutes, and then end the program
# Environment of a cluster that is started here: no usage statistics, and loopback addresses only. (Despite its name,
# the second variable works on Linux; Ray reads both on import.)
LOCAL_CLUSTER_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
HINT = 'start one with "ray start --head", name the address of one (host:port), or use "local" for this machine'


def check_address(address: str) -> str:
    """Raise a ValueError unless this is a valid address."""
    expected = f'address is {address!r}: expected "auto", "local" or host:port'
    if "://" in address:
        raise ValueError(f"{expected}; run this on a node of the cluster, or send it there with `ray job submit`")
    host, _, port = address.rpartition(":")
    if address not in ("auto", "local") and not (host and port.isdigit()):
        raise ValueError(expected)
    return address


def connect(address: str, workers: int | None, runtime_env: dict[str, Any] | None) -> bool:
    """Connect this program to Ray; False if it was connected already."""
    with _environment_defaults(LOCAL_CLUSTER_ENVIRONMENT if address == "local" else {}):
        import ray

        if ray.is_initialized():
            return False
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "runtime_env": runtime_env}
        if address == "local":
            options |= {"num_cpus": workers, "include_dashboard": False}
        else:
            _check_reachable(os.environ.get("RAY_ADDRESS", address) if address == "auto" else address)
        try:
            ray.init(address, **options)
        except (ConnectionError, RuntimeError) as error:  # RuntimeError: another version of Ray or Python
            raise ConnectionError(_problem(address, error)) from error
    _redirect_worker_output()
    return True


def disconnect() -> None:
    import ray

    ray.shutdown()


def _problem(address: str, error: Exception) -> str:
    if address == "auto" and isinstance(error, ConnectionError):
        return f"there is no Ray cluster: {HINT}"
    return f"Ray at {address} can't be used: {error}"


def _check_reachable(address: str) -> None:
    """Raise a ConnectionError if nothing listens at an address."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdigit()):  # Ray resolves it
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(f"there is no Ray cluster at {address} ({error}): {HINT}") from error


@contextmanager
def _environment_defaults(defaults: dict[str, str]) -> Iterator[None]:
    """Set environment variables within the block, unless they are set already."""
    added = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ |= added
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _redirect_worker_output() -> None:
    """Send Ray's messages about workers to the log; by default it prints them to the program's stdout."""
    import ray

    def log_lines(data: dict[str, Any], ignore_prefix: bool = False) -> None:
        for line in data.get("lines", ()):
            logger.info("Ray: %s", line)

    if hasattr(ray._private.worker, "print_to_stdstream"):
        ray._private.worker.print_to_stdstream = log_lines
