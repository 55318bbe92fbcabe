"""Event-loop lag: how late a timer of the event loop is, which is how long anything blocked it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PERIOD = 0.05  # seconds


async def watch_event_loop(on_lag: Callable[[float], None]) -> None:
    """Report the lag of the event loop, again and again, in seconds."""
    while True:
        due = time.perf_counter() + PERIOD
        await asyncio.sleep(PERIOD)
        on_lag(max(time.perf_counter() - due, 0.0))
