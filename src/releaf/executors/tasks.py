"""What all engines agree on: what they are asked, what they raise, and how often a task is tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")
SHOWN = 300  # characters of a task that an error shows


class Executor(Protocol):
    """Runs a function over tasks somewhere, and tells of each as soon as it is done.

    What the function raises comes out as it is, with the task in a note; all else is given up. A worker that dies costs
    only its task, which is tried again elsewhere.

    What all tasks need, such as a table, belongs to the function: ``functools.partial(work, table)``. It is sent once,
    and processes on one machine share its arrays, which they must not change.
    """

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """The place of each task and its result, in the order in which they are done."""
        ...


class LostWorkerError(OSError):
    """A task was given up: every worker that it was given to died."""


class Attempts:
    """How often the workers of each task died, and when that is enough."""

    def __init__(self, retries: int) -> None:
        self._most = retries
        self._lost: Counter[int] = Counter()

    def lost(self, place: int, task: Any, why: str) -> None:
        """Count a worker that died with a task; raise when it was the last that the task was to get."""
        self._lost[place] += 1
        if self._lost[place] > self._most:
            times = "once" if self._most == 0 else f"{self._lost[place]} times"
            raise LostWorkerError(f"{named(place, task)} was given up: its worker died {times}. {why}")


def named(place: int, task: Any) -> str:
    """A task in an error."""
    shown = repr(task)
    return f"task {place} ({shown if len(shown) <= SHOWN else shown[:SHOWN] + '…'})"


def noted(error: BaseException, place: int, task: Any) -> BaseException:
    """An error of a task, which tells now of which."""
    error.add_note(f"{named(place, task)} raised this")
    return error


def checked_retries(retries: int) -> int:
    if retries < 0:
        raise ValueError(f"retries must be at least 0, got retries={retries}")
    return retries


def checked_workers(workers: int | None) -> int | None:
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got workers={workers}")
    return workers
