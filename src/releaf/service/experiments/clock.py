"""A clock that never goes back, and notices when the machine's clock jumps."""

from __future__ import annotations

import time
from collections.abc import Callable

JUMP_SECONDS = 5.0  # by which the machine's clock moves against the monotonic one; less is an adjustment


class MonotonicClock:
    """The time of day at the start of the process, plus the monotonic time since then.

    A jump of the machine's clock does not change it: deadlines neither pass at once nor move away.

    Parameters
    ----------
    time_of_day
        The machine's clock: seconds since 1970.
    monotonic
        The monotonic clock.

    Attributes
    ----------
    jumps
        Number of jumps that `find_jump` found.
    """

    def __init__(
        self, time_of_day: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._time_of_day, self._monotonic = time_of_day, monotonic
        self._start = time_of_day() - monotonic()
        self._known_offset = 0.0
        self.jumps = 0

    def now(self) -> float:
        """Seconds since 1970."""
        return self._start + self._monotonic()

    def offset(self) -> float:
        """Seconds by which the machine's clock is ahead of this one."""
        return self._time_of_day() - self.now()

    def find_jump(self) -> float | None:
        """Seconds by which the machine's clock jumped since the last call; None if it did not."""
        jump = self.offset() - self._known_offset
        self._known_offset += jump
        if abs(jump) < JUMP_SECONDS:
            return None
        self.jumps += 1
        return jump
