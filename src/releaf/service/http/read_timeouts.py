"""Read time-outs: one periodic check of all running reads, instead of a timer for each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CHECK_SECONDS = 0.5


class ReadTimeout:
    """Cancels reads that take too long.

    Most reads complete at once, and a timer for each would cost more than the read.

    Parameters
    ----------
    seconds
        Time-out; a read is cancelled within CHECK_SECONDS after it.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._started: dict[asyncio.Task[Any], float] = {}
        self._timed_out: set[asyncio.Task[Any]] = set()
        self._is_checking = False

    @contextmanager
    def enforce(self) -> Iterator[None]:
        """Raise a ``TimeoutError`` in the current task if the block takes too long."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("enforce needs a running asyncio task")
        self._started[task] = time.monotonic()
        if not self._is_checking:
            self._is_checking = True
            asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check)
        try:
            yield
        except asyncio.CancelledError:
            if task in self._timed_out and task.uncancel() == 0:
                raise TimeoutError from None
            raise
        finally:
            del self._started[task]
            self._timed_out.discard(task)

    def _check(self) -> None:
        now = time.monotonic()
        for task, started in self._started.items():
            if now - started > self.seconds and task not in self._timed_out:
                self._timed_out.add(task)
                task.cancel()
        self._is_checking = bool(self._started)
        if self._is_checking:
            asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check)
