"""The cores of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from typing import Any

from releaf.executors.sharing import Shared, shared
from releaf.executors.tasks import Attempts, Result, Task, checked_retries, checked_workers, noted

WHY = "Was it killed, or out of memory? In a script, this must be called under `if __name__ == '__main__':`."


class Local:
    """Processes on this machine; with one worker, this process itself.

    They start with the first tasks and stay for further ones until :meth:`close`, the end of a ``with`` block, or until
    nobody holds the executor any more. An interrupt ends them at once: only what is in flight is lost. A process that
    dies is replaced, and its task is done again.

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
        ended: list[tuple[int, Future[Any]]] = []
        while waiting or busy or ended:
            while waiting and free:  # before results are told, which may take their reader a while
                place, seat = waiting.popleft(), free.pop()
                busy[seat.begin(work, tasks[place])] = (place, seat)
            for place, future in ended:
                yield place, _result(future, place, tasks[place])
            ended = []
            for future in wait(busy, return_when=FIRST_COMPLETED).done:
                place, seat = busy.pop(future)
                free.append(seat)
                if isinstance(future.exception(), BrokenProcessPool):
                    attempts.lost(place, tasks[place], WHY)
                    waiting.appendleft(place)
                else:
                    ended.append((place, future))


class _Seat:
    """A process that does one task at a time; when it dies, another takes its place."""

    def __init__(self) -> None:
        self._pool = _new_pool()

    def begin(self, work: Shared, task: Any) -> Future[Any]:
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
    context = multiprocessing.get_context("spawn")  # a fork would copy locks that other threads hold
    return ProcessPoolExecutor(1, mp_context=context, initializer=_begin)


def _leave(seats: list[_Seat]) -> None:
    while seats:
        seats.pop().leave()


def _begin() -> None:
    """Become a worker. An interrupt is for the process that a person sees, which ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _do(work: Shared, task: Any) -> Any:
    return _loaded(work)(task)


@lru_cache(maxsize=1)
def _loaded(work: Shared) -> Callable[[Any], Any]:
    """What this process does now, once it is a worker."""
    return work.load()


def _here(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
    for place, task in enumerate(tasks):
        try:
            result = function(task)
        except Exception as error:
            noted(error, place, task)
            raise
        yield place, result


def _result(future: Future[Any], place: int, task: Any) -> Any:
    error = future.exception()
    if error is not None:
        raise noted(error, place, task)
    return future.result()
