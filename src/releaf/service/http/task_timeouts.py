"""Time-outs of tasks: one periodic check of all that run, instead of a timer for each."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Any

CHECK_SECONDS = 0.5  # between checks, at most
CHECKS = 8  # within a short time-out


class TaskTimeout:
    """Cancels blocks that take too long, each in its task.

    Most blocks are left at once, and a timer for each would cost more than the block.

    Parameters
    ----------
    seconds
        Time-out; a task is cancelled within CHECK_SECONDS after it, or an eighth of it.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._check_seconds = min(CHECK_SECONDS, seconds / CHECKS)
        self._started: dict[asyncio.Task[Any], float] = {}
        self._timed_out: set[asyncio.Task[Any]] = set()
        self._is_checking = False

    def limit(self) -> TaskLimit:
        """A block to enter in the current task: it raises a ``TimeoutError`` if it takes too long."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a time-out needs a running asyncio task")
        return TaskLimit(self, task)

    def start(self, task: asyncio.Task[Any]) -> None:
        self._started[task] = time.monotonic()
        if not self._is_checking:
            self._is_checking = True
            asyncio.get_running_loop().call_later(self._check_seconds, self._check)

    def end(self, task: asyncio.Task[Any]) -> bool:
        """Whether the task was cancelled because it took too long."""
        del self._started[task]
        was_cancelled = task in self._timed_out
        self._timed_out.discard(task)
        return was_cancelled

    def _check(self) -> None:
        now = time.monotonic()
        for task, started in self._started.items():
            if now - started > self.seconds and task not in self._timed_out:
                self._timed_out.add(task)
                task.cancel()
        self._is_checking = bool(self._started)
        if self._is_checking:
            asyncio.get_running_loop().call_later(self._check_seconds, self._check)


class TaskLimit:
    """A ``with`` block of a task with a time-out; written out, since a generator would take longer than most blocks."""

    __slots__ = ("_task", "_timeout")

    def __init__(self, timeout: TaskTimeout, task: asyncio.Task[Any]) -> None:
        self._timeout, self._task = timeout, task

    def __enter__(self) -> None:
        self._timeout.start(self._task)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timeout.end(self._task) and kind is asyncio.CancelledError and self._task.uncancel() == 0:
            raise TimeoutError from None
