"""Time-outs for what is mostly done at once: one look a second at what takes long, instead of a timer each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LOOK_SECONDS = 0.5


class Patience:
    """Ends what takes longer than it may.

    Parameters
    ----------
    seconds
        How long something may take; it is ended within half a second after that.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._since: dict[asyncio.Task[Any], float] = {}
        self._over: set[asyncio.Task[Any]] = set()
        self._looking = False

    @contextmanager
    def limit(self) -> Iterator[None]:
        """Raise a ``TimeoutError`` in the task that does this, where it takes too long."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("patience is for tasks")
        self._since[task] = time.monotonic()
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)
        try:
            yield
        except asyncio.CancelledError:
            if task in self._over and task.uncancel() == 0:
                raise TimeoutError from None
            raise
        finally:
            del self._since[task]
            self._over.discard(task)

    def _look(self) -> None:
        now = time.monotonic()
        for task, since in self._since.items():
            if now - since > self.seconds and task not in self._over:
                self._over.add(task)
                task.cancel()
        self._looking = bool(self._since)
        if self._looking:
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)
