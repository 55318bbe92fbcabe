"""The cores of this machine."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from threading import Thread
from typing import Any

from releaf.executors.sharing import Shared, shared
from releaf.executors.tasks import Attempts, Result, Task, attempted, checked_retries, checked_workers, noted

LOOK_AGAIN = 5.0  # seconds after which a worker looks whether its program is still there
WHY = "Was it killed, or out of memory? In a script, this must be called under `if __name__ == '__main__':`."


class Local:
    """Processes on this machine; with one worker, this process itself.

    They start with the first tasks and stay for further ones until :meth:`close`, the end of a ``with`` block, or until
    nobody holds the executor any more. An interrupt ends them at once: only what is in flight is lost; so does the end
    of the program, whatever ends it. A process that dies is replaced, and its task is done again.

    Parameters
    ----------
    workers
        How many processes; one for each core when None.
    retries
        How often a task is tried again when its process died. What the function raises is never tried again.
    """

    def __init__(self, workers: int | None = None, *, retries: int = 3) -> None:
        self.workers = checked_workers(workers) or os.cpu_count() or 1
        self.retries = checked_retries(retries)
        self._idle: list[_Seat] = []
        weakref.finalize(self, _leave, self._idle)

    def __enter__(self) -> Local:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes; further tasks would start new ones."""
        _leave(self._idle)

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """The place of each task and its result, in the order in which they are done."""
        if self.workers == 1 or len(tasks) < 2:
            yield from _here(function, tasks)
            return
        seats = self._take(min(self.workers, len(tasks)))
        try:
            with shared(function) as work:
                yield from self._seated(work, tasks, seats)
        except BaseException:
            for seat in seats:
                seat.kill()
            raise
        self._idle.extend(seats)

    def _take(self, count: int) -> list[_Seat]:
        """Seats that no other call uses, new ones where there are too few."""
        taken = [self._idle.pop() for _ in range(min(count, len(self._idle)))]
        return taken + [_Seat() for _ in range(count - len(taken))]

    def _seated(self, work: Shared, tasks: Sequence[Any], seats: list[_Seat]) -> Iterator[tuple[int, Any]]:
        """Give each seat a task, and another as soon as it is free."""
        attempts, free, busy = Attempts(self.retries), list(seats), dict[Future[Any], tuple[int, _Seat]]()
        waiting = deque(range(len(tasks)))
        done: list[tuple[int, Any]] = []
        failures: list[BaseException] = []
        while waiting or busy or done or failures:
            while waiting and free and not failures:  # before results are told, which may take their reader a while
                place, seat = waiting.popleft(), free.pop()
                busy[seat.begin(work, tasks[place])] = (place, seat)
            yield from done
            if failures:
                raise failures[0]
            done = []
            for future in wait(busy, return_when=FIRST_COMPLETED).done:
                place, seat = busy.pop(future)
                free.append(seat)
                result, error = _outcome(future, place, tasks[place])
                if error is None:
                    done.append((place, result))
                elif not isinstance(error, BrokenProcessPool):
                    failures.append(error)
                elif (lost := attempts.lost(place, tasks[place], WHY)) is not None:
                    failures.append(lost)
                else:
                    waiting.appendleft(place)


class _Seat:
    """A process that does one task at a time; when it dies, another takes its place."""

    def __init__(self) -> None:
        self._pool = _new_pool()

    def begin(self, work: Shared, task: Any) -> Future[Any]:
        with _uninterrupted_start():
            try:
                return self._pool.submit(_do, work, task)
            except BrokenProcessPool:
                self._pool = _new_pool()
                return self._pool.submit(_do, work, task)

    def kill(self) -> None:
        for process in list((self._pool._processes or {}).values()):  # compiled code would not hear of it
            process.terminate()
        self.leave()

    def leave(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _new_pool() -> ProcessPoolExecutor:
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        sys.exit(1)  # a worker that runs a script without `if __name__ == '__main__':` anew; the program says so itself
    context = multiprocessing.get_context("spawn")  # a fork would copy locks that other threads hold
    return ProcessPoolExecutor(1, mp_context=context, initializer=_begin)


def _leave(seats: list[_Seat]) -> None:
    while seats:
        seats.pop().leave()


@contextmanager
def _uninterrupted_start() -> Iterator[None]:
    """A process that is started meanwhile does not hear interrupts, not even before it is a worker."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Become a worker. An interrupt is for the process that a person sees, which ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_the_program, daemon=True).start()


def _end_with_the_program() -> None:
    """A program that is killed can't end its workers, so they watch it."""
    program, parent = multiprocessing.parent_process(), os.getppid()
    while program is not None and os.getppid() == parent:  # a copy of the program may hold on to the sentinel
        if multiprocessing.connection.wait([program.sentinel], LOOK_AGAIN):
            break
    try:
        for work in list(_loaded):
            work.remove()
    finally:
        os._exit(1)


_loaded: dict[Shared, Callable[[Any], Any]] = {}  # what this process does, once it is a worker: one thing at a time


def _do(work: Shared, task: Any) -> bytes:
    """One task, on a worker. Its outcome is unpickled where an error can be told from the death of a worker."""
    if work not in _loaded:
        _loaded.clear()
        _loaded[work] = work.load()
    return pickle.dumps(attempted(_loaded[work], task))


def _outcome(future: Future[bytes], place: int, task: Any) -> tuple[Any, BaseException | None]:
    """What a task gave, or what it raised or its process died of."""
    error = future.exception()
    if isinstance(error, BrokenProcessPool):
        return None, error
    try:
        result, raised = pickle.loads(future.result())
    except Exception as unreadable:
        return None, noted(unreadable, place, task)
    return result, None if raised is None else noted(raised.told(), place, task)


def _here(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
    for place, task in enumerate(tasks):
        try:
            result = function(task)
        except (Exception, SystemExit) as error:
            noted(error, place, task)
            raise
        yield place, result
