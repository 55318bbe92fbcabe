"""A clock that never goes back."""

from __future__ import annotations

import time


class MonotonicClock:
    """The time of day at the start of the process, plus the monotonic time since then."""

    def __init__(self) -> None:
        self._start = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since 1970."""
        return self._start + time.monotonic()
