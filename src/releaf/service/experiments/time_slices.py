"""Time slices: long work on the event loop, in short pieces between which other requests run."""

from __future__ import annotations

import asyncio
import time

SLICE_SECONDS = 0.005  # a request takes several turns of the event loop, each of which may wait for a slice
FIRST_PART = 64  # items, for which a slice is long enough in general
TINY = 1e-9


class TimeSlice:
    """The time for which work may go on before other requests must run."""

    def __init__(self) -> None:
        self._started = time.perf_counter()

    def is_over(self) -> bool:
        return time.perf_counter() >= self._started + SLICE_SECONDS

    def fit(self, done: int) -> int:
        """How many items a slice is long enough for, if this one had time for so many; at most twice as many."""
        return max(1, int(done * min(2.0, SLICE_SECONDS / (time.perf_counter() - self._started + TINY))))

    async def pause(self) -> None:
        """Let other requests run, and begin the next slice."""
        await asyncio.sleep(0)
        self._started = time.perf_counter()

    async def pause_if_over(self) -> None:
        """Pause at the end of the slice only."""
        if self.is_over():
            await self.pause()


def first_part(seconds: float) -> int:
    """How many items to do in the first slice, if one takes so many seconds in part."""
    return max(1, min(FIRST_PART, int(SLICE_SECONDS / (seconds + TINY))))
