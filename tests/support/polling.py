"""What tests of other processes wait for, and what these leave behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

PATIENCE = 60.0  # seconds


def until(happened: Callable[[], Any]) -> Any:
    """What happens before long."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = happened()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def times(folder: Path) -> dict[int, int]:
    """How often each number was done."""
    return {int(path.name): len(path.read_text().splitlines()) for path in folder.iterdir()}


def noted_processes(folder: Path) -> set[int]:
    """The processes that left a note; a file that is there and still empty is not written yet."""
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
