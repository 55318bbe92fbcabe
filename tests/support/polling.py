"""Polling for what other processes do, within one generous time-out."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

TIMEOUT_SECONDS = 60.0  # for what takes one or two on an idle machine


def wait_until(
    condition: Callable[[], Any],
    timeout: float = TIMEOUT_SECONDS,
    message: str | Callable[[], str] = "the condition did not become true",
) -> Any:
    """Return the first true value of a condition; fail with a message after the time-out."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            reason = message if isinstance(message, str) else message()
            raise AssertionError(f"{reason} (waited {timeout:g} s)")
        time.sleep(0.02)
    return value


def run_counts(folder: Path) -> dict[int, int]:
    """How often each task ran, from the files of `executor_tasks.record_run`."""
    return {int(path.name): len(path.read_text().splitlines()) for path in folder.iterdir()}


def recorded_processes(folder: Path) -> set[int]:
    """The processes that recorded a run; a file that exists and is still empty counts for none."""
    return {
        int(line)
        for path in folder.iterdir()
        for line in path.read_text().splitlines(keepends=True)
        if line[-1] == "\n"
    }


def is_alive(process: int) -> bool:
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
