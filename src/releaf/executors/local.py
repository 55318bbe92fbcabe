"""The cores of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Executor(Protocol):
    """Runs a function over tasks somewhere, and tells of each as soon as it is done."""

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """The place of each task and its result, in the order in which they are done."""
        ...


class Local:
    """Processes on this machine; with one worker, this process itself.

    An interrupt ends the processes at once: only what is in flight is lost.

    Parameters
    ----------
    workers
        How many processes; one for each core when None.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, got workers={workers}")
        self.workers = workers or os.cpu_count() or 1

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """The place of each task and its result, in the order in which they are done."""
        if self.workers == 1 or len(tasks) < 2:
            yield from ((place, function(task)) for place, task in enumerate(tasks))
            return
        context = multiprocessing.get_context("spawn")  # a fork would copy locks that other threads hold
        pool = ProcessPoolExecutor(min(self.workers, len(tasks)), mp_context=context, initializer=_leave_interrupts)
        try:
            places = {pool.submit(function, task): place for place, task in enumerate(tasks)}
            for future in as_completed(places):
                yield places[future], future.result()
        except BaseException:
            for process in list((pool._processes or {}).values()):  # compiled code would not hear of it
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _leave_interrupts() -> None:
    """An interrupt is for the process that a person sees, which ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
