"""Heartbeats of lease holders: how a process shows that it runs, and how others notice that it stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from releaf.service.errors import StoreError
from releaf.service.store.base import BEATS_PER_TIMEOUT

MAX_GAPS = 4  # in a lease time-out: the least number of observations before a holder counts as silent

HolderT = TypeVar("HolderT", bound=Hashable)


class _Observation(NamedTuple):
    """A holder's heartbeat, when it was observed, and for how long it has stood still."""

    beat: int
    at: float
    silent: float


class SilenceWatch(Generic[HolderT]):
    """Notices holders whose heartbeat stands still for the lease time-out.

    It compares no clocks of different processes: a heartbeat is a counter, and the time-out is measured by the own
    monotonic clock. A process that was itself paused counts at most a fraction of its pause, so that it does not take
    the lease of a holder that was paused with it, and continues too.

    Parameters
    ----------
    timeout
        The lease time-out in seconds.
    clock
        A monotonic clock.
    """

    def __init__(self, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout, self._clock = timeout, clock
        self._observations: dict[HolderT, _Observation] = {}

    def is_silent(self, holder: HolderT, beat: int) -> bool:
        """Whether the heartbeat of a holder, which is now at this number, has stood still for the time-out."""
        now, before = self._clock(), self._observations.get(holder)
        if before is None or before.beat != beat:
            self._observations[holder] = _Observation(beat, now, 0.0)
            return False
        silent = before.silent + min(now - before.at, self._timeout / MAX_GAPS)
        self._observations[holder] = _Observation(beat, now, silent)
        return silent >= self._timeout

    def forget(self, holder: HolderT) -> None:
        """Forget a holder that has ended."""
        self._observations.pop(holder, None)


class Heartbeat:
    """Calls a function several times in each lease time-out, whatever errors of the store it raises.

    Parameters
    ----------
    timeout
        The lease time-out in seconds.
    beat
        What to call.
    """

    def __init__(self, timeout: float, beat: Callable[[], Awaitable[None]]) -> None:
        self._period, self._beat = timeout / BEATS_PER_TIMEOUT, beat
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="heartbeat of leases")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            with suppress(StoreError):  # whoever writes meets the same error, and reports it
                await self._beat()
            await asyncio.sleep(self._period)
