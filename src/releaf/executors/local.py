"""`Local`: an executor on this machine's cores."""

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

from releaf.executors.shared_function import SharedFunction, share
from releaf.executors.tasks import Result, RetryCounter, Task, add_task_note, check_retries, check_workers, run_task

PARENT_POLL_SECONDS = 5.0  # interval at which a worker checks that its parent process is alive
LOST_WORKER_HINT = (
    "Was it killed, or out of memory? In a script, this must be called under `if __name__ == '__main__':`."
)


class Local:
    """A pool of worker processes on this machine; with one worker, this process itself.

    Workers start with the first tasks and stay until :meth:`close`, the end of a ``with`` block, or until the executor
    is garbage collected. An interrupt terminates them at once, and so does the end of the program, even if it is
    killed; only tasks in flight are lost. A worker that dies is replaced, and its task is retried.

    Parameters
    ----------
    workers
        Number of processes; one per core when None.
    retries
        How often a task is retried after its worker died. A task that raises is never retried.
    """

    def __init__(self, workers: int | None = None, *, retries: int = 3) -> None:
        self.workers = check_workers(workers) or os.cpu_count() or 1
        self.retries = check_retries(retries)
        self._idle: list[_Worker] = []
        weakref.finalize(self, _shut_down, self._idle)

    def __enter__(self) -> Local:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Shut down the workers; further tasks start new ones."""
        _shut_down(self._idle)

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """Yield each task's index and result, in order of completion."""
        if self.workers == 1 or len(tasks) < 2:
            yield from _map_in_process(function, tasks)
            return
        workers = self._acquire(min(self.workers, len(tasks)))
        try:
            with share(function) as work:
                yield from self._schedule(work, tasks, workers)
        except BaseException:
            for worker in workers:
                worker.kill()
            raise
        self._idle.extend(workers)

    def _acquire(self, count: int) -> list[_Worker]:
        """Idle workers, and new ones if there are too few."""
        taken = [self._idle.pop() for _ in range(min(count, len(self._idle)))]
        return taken + [_Worker() for _ in range(count - len(taken))]

    def _schedule(
        self, work: SharedFunction, tasks: Sequence[Any], workers: list[_Worker]
    ) -> Iterator[tuple[int, Any]]:
        """Keep every worker busy until all tasks are done."""
        retries, free, busy = RetryCounter(self.retries), list(workers), dict[Future[Any], tuple[int, _Worker]]()
        waiting = deque(range(len(tasks)))
        done: list[tuple[int, Any]] = []
        failures: list[BaseException] = []
        while waiting or busy or done or failures:
            while waiting and free and not failures:  # before yielding results, since the consumer may be slow
                index, worker = waiting.popleft(), free.pop()
                busy[worker.submit(work, tasks[index])] = (index, worker)
            yield from done
            if failures:
                raise failures[0]
            done = []
            for future in wait(busy, return_when=FIRST_COMPLETED).done:
                index, worker = busy.pop(future)
                free.append(worker)
                result, error = _outcome(future, index, tasks[index])
                if error is None:
                    done.append((index, result))
                elif not isinstance(error, BrokenProcessPool):
                    failures.append(error)
                elif (lost := retries.lost(index, tasks[index], LOST_WORKER_HINT)) is not None:
                    failures.append(lost)
                else:
                    waiting.appendleft(index)


class _Worker:
    """A process that runs one task at a time; it is replaced if it dies."""

    def __init__(self) -> None:
        self._pool = _new_pool()

    def submit(self, work: SharedFunction, task: Any) -> Future[Any]:
        with _sigint_blocked():
            try:
                return self._pool.submit(_run_on_worker, work, task)
            except BrokenProcessPool:
                self._pool = _new_pool()
                return self._pool.submit(_run_on_worker, work, task)

    def kill(self) -> None:
        for process in list((self._pool._processes or {}).values()):  # compiled code ignores a cancellation
            process.terminate()
        self.shut_down()

    def shut_down(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _new_pool() -> ProcessPoolExecutor:
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        sys.exit(1)  # a worker re-imports a script without `if __name__ == '__main__':`; its parent reports it
    context = multiprocessing.get_context("spawn")  # a fork would copy locks held by other threads
    return ProcessPoolExecutor(1, mp_context=context, initializer=_initialize_worker)


def _shut_down(workers: list[_Worker]) -> None:
    while workers:
        workers.pop().shut_down()


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block SIGINT for processes that start within the block, until they are initialized."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _initialize_worker() -> None:
    """Ignore SIGINT, which the parent handles by terminating its workers, and watch the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """End this worker when its parent is gone; a killed parent can't terminate its workers."""
    program, parent = multiprocessing.parent_process(), os.getppid()
    while program is not None and os.getppid() == parent:  # a fork of the parent may keep the sentinel open
        if multiprocessing.connection.wait([program.sentinel], PARENT_POLL_SECONDS):
            break
    try:
        for work in list(_loaded):
            work.remove()
    finally:
        os._exit(1)


_loaded: dict[SharedFunction, Callable[[Any], Any]] = {}  # the function that this worker runs; one at a time


def _run_on_worker(work: SharedFunction, task: Any) -> bytes:
    """Run one task on a worker. Pickled here, so that an unpicklable result does not look like a dead worker."""
    if work not in _loaded:
        _loaded.clear()
        _loaded[work] = work.load()
    return pickle.dumps(run_task(_loaded[work], task))


def _outcome(future: Future[bytes], index: int, task: Any) -> tuple[Any, BaseException | None]:
    """Result of a task, or its error, or the failure of its worker."""
    error = future.exception()
    if isinstance(error, BrokenProcessPool):
        return None, error
    try:
        result, raised = pickle.loads(future.result())
    except Exception as unreadable:
        return None, add_task_note(unreadable, index, task)
    return result, None if raised is None else add_task_note(raised.restore(), index, task)


def _map_in_process(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
    for index, task in enumerate(tasks):
        try:
            result = function(task)
        except (Exception, SystemExit) as error:
            add_task_note(error, index, task)
            raise
        yield index, result
