"""Time that a process spends on compiling kernels, and on reading compiled ones from the cache."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

EVENT = "numba:compiler_lock"  # held to compile a kernel, and to load it from the cache


class CompileClock(event.Listener):  # type: ignore[misc]
    """Counts seconds; kernels compile the kernels that they call, so only the outermost event counts."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth, self._started = 0, 0.0

    def on_start(self, happened: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._started = time.perf_counter()

    def on_end(self, happened: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._started


@contextmanager
def compile_clock() -> Iterator[CompileClock]:
    """Count the seconds of the block in which this process made kernels ready to run."""
    clock = CompileClock()
    event.register(EVENT, clock)
    try:
        yield clock
    finally:
        event.unregister(EVENT, clock)
