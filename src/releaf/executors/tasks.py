"""What all engines agree on: what they are asked, what they raise, and how often a task is tried."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from traceback import format_exception, format_exception_only
from typing import Any, Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")
SHOWN = 300  # characters of a task that an error shows


class Executor(Protocol):
    """Runs a function over tasks somewhere, and tells of each as soon as it is done.

    What the function raises comes out as it is, with the task in a note, once all that is done by then has been told;
    what is in flight and what waits is given up. A worker that dies costs only its task, which is tried again
    elsewhere.

    What all tasks need, such as a table, belongs to the function: ``functools.partial(work, table)``. It is sent once,
    and processes on one machine share its arrays, which they must not change.
    """

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """The place of each task and its result, in the order in which they are done."""
        ...


class LostWorkerError(OSError):
    """A task was given up: every worker that it was given to died. ``place`` tells which task."""

    def __init__(self, message: str, place: int = 0) -> None:
        super().__init__(message)
        self.place = place


class Attempts:
    """How often the workers of each task died, and when that is enough."""

    def __init__(self, retries: int) -> None:
        self._most = retries
        self._lost: Counter[int] = Counter()

    def lost(self, place: int, task: Any, why: str) -> LostWorkerError | None:
        """Count a worker that died with a task; an error when it was the last that the task was to get."""
        self._lost[place] += 1
        if self._lost[place] <= self._most:
            return None
        times = "once" if self._most == 0 else f"{self._lost[place]} times"
        return LostWorkerError(f"{named(place, task)} was given up: its worker died {times}. {why}", place)


class Elsewhere(Exception):
    """Where in another process an error was raised."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Raised:
    """An error on its way from one process to another.

    One that could not be read there, such as an exception whose constructor takes other arguments than its message,
    would be taken for the death of the worker: it arrives as a RuntimeError that has its name and its text.

    Parameters
    ----------
    error
        What was raised.
    pickler
        The module that the error is sent with.
    traceback
        Where it was raised, once it has arrived in another process.
    """

    def __init__(self, error: BaseException, pickler: Any = pickle, traceback: str = "") -> None:
        self.error = error
        self._pickler = pickler
        self._traceback = traceback

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self._legible(), self._traceback or "".join(format_exception(self.error)))

    def _legible(self) -> BaseException:
        try:
            self._pickler.loads(self._pickler.dumps(self.error))
        except Exception:
            return RuntimeError(format_exception_only(self.error)[0].strip())
        return self.error

    def told(self) -> BaseException:
        """The error, with where it was raised as its cause."""
        if self._traceback:
            self.error.__cause__ = Elsewhere(self._traceback)
        return self.error


def _arrived(error: BaseException, traceback: str) -> Raised:
    return Raised(error, traceback=traceback)


def attempted(function: Callable[[Any], Any], task: Any, pickler: Any = pickle) -> tuple[Any, Raised | None]:
    """What a function gives on a worker, or what it raised; an exit too, which is not the worker's."""
    try:
        return function(task), None
    except (Exception, SystemExit) as error:
        return None, Raised(error, pickler)


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
