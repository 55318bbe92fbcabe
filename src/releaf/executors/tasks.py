"""The `Executor` protocol, and what executors share: errors, retries and checks."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from traceback import format_exception, format_exception_only
from typing import Any, Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")
MAX_TASK_CHARACTERS = 300  # length of a task in an error message


class Executor(Protocol):
    """Maps a function over tasks in parallel, and yields results as they complete.

    An exception of the function is raised unchanged, with a note that names the task, after all completed results;
    other tasks are cancelled. If a worker dies, only its task is retried.

    Data that all tasks need, such as a table, belongs to the function: ``functools.partial(work, table)``. It is sent
    once, and processes on one machine share its arrays, which they must not modify.
    """

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """Yield each task's index and result, in order of completion."""
        ...


class LostWorkerError(OSError):
    """Every worker that ran a task died, up to the number of retries. ``index`` is that of the task."""

    def __init__(self, message: str, index: int = 0) -> None:
        super().__init__(message)
        self.index = index


class RetryCounter:
    """Counts the lost workers of each task."""

    def __init__(self, retries: int) -> None:
        self._most = retries
        self._lost: Counter[int] = Counter()

    def lost(self, index: int, task: Any, why: str) -> LostWorkerError | None:
        """Count a lost worker; returns an error if the task has no retries left."""
        self._lost[index] += 1
        if self._lost[index] <= self._most:
            return None
        times = "once" if self._most == 0 else f"{self._lost[index]} times"
        return LostWorkerError(f"{describe_task(index, task)} failed: its worker died {times}. {why}", index)


class RemoteTraceback(Exception):
    """Traceback of an error in another process."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class RemoteError:
    """An exception that is sent to another process, with its traceback.

    An exception that can't be unpickled, for example because its constructor takes other arguments than its message,
    arrives as a RuntimeError with its name and text; otherwise it would look like a dead worker.

    Parameters
    ----------
    error
        The exception.
    pickler
        The module that pickles it.
    traceback
        The formatted traceback, once it was received.
    """

    def __init__(self, error: BaseException, pickler: Any = pickle, traceback: str = "") -> None:
        self.error = error
        self._pickler = pickler
        self._traceback = traceback

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self._picklable(), self._traceback or "".join(format_exception(self.error)))

    def _picklable(self) -> BaseException:
        try:
            self._pickler.loads(self._pickler.dumps(self.error))
        except Exception:
            return RuntimeError(format_exception_only(self.error)[0].strip())
        return self.error

    def restore(self) -> BaseException:
        """The exception, with the remote traceback as its cause."""
        if self._traceback:
            self.error.__cause__ = RemoteTraceback(self._traceback)
        return self.error


def _received(error: BaseException, traceback: str) -> RemoteError:
    return RemoteError(error, traceback=traceback)


def run_task(function: Callable[[Any], Any], task: Any, pickler: Any = pickle) -> tuple[Any, RemoteError | None]:
    """Result of a function, or its exception; SystemExit too, which must not end the worker."""
    try:
        return function(task), None
    except (Exception, SystemExit) as error:
        return None, RemoteError(error, pickler)


def describe_task(index: int, task: Any) -> str:
    """Index and abbreviated repr of a task, for error messages."""
    shown = repr(task)
    return f"task {index} ({shown if len(shown) <= MAX_TASK_CHARACTERS else shown[:MAX_TASK_CHARACTERS] + '…'})"


def add_task_note(error: BaseException, index: int, task: Any) -> BaseException:
    """Add a note to an exception that names the task."""
    error.add_note(f"{describe_task(index, task)} raised this")
    return error


def check_retries(retries: int) -> int:
    if retries < 0:
        raise ValueError(f"retries must be at least 0, got retries={retries}")
    return retries


def check_workers(workers: int | None) -> int | None:
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got workers={workers}")
    return workers
