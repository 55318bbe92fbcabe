"""Writing connection of the SQLite store: commits inline while the disk is fast, otherwise in a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar, TypeVarTuple

import apsw

BUSY_SECONDS = 10.0  # how long to wait for another process's write
BUSY_POLL_SECONDS = 0.001
INLINE_SECONDS = 0.002  # mean commit time below which commits may block the event loop
DECAY = 0.9  # of that exponential moving average, per commit
THREAD_FACTOR = 50  # after slow inline commits, commit in the thread for so many times as long as they took
CHECKPOINT_PAGES = 1000  # of the write-ahead log between checkpoints: SQLite's own default

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SqliteWriter:
    """Runs statements in its own thread, and commits inline, on the event loop, while that is faster.

    To hand a commit over to a thread and back takes longer than a fast disk does, because both threads compete for the
    interpreter's lock. So the writer commits inline while the disk is fast, the connection is free and no other process
    writes. Checkpoints of the write-ahead log always run in the thread.
    """

    connection: apsw.Connection

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "store-write")
        self._lock = threading.Lock()
        self._waits_when_busy = True
        self._mean_seconds = 0.0  # moving average of inline commits
        self._thread_until = 0.0  # when to try an inline commit again
        self._checkpoint_at = CHECKPOINT_PAGES

    def use(self, connection: apsw.Connection) -> None:
        """Write to this connection from now on."""
        self.connection = connection
        connection.set_busy_handler(self._on_busy)
        connection.set_wal_hook(self._on_commit)

    async def run(self, do: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run a function in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._with_lock, do, *args)

    async def commit(self, do: Callable[[*Ts], None], *args: *Ts) -> None:
        """Run a function that waits for the disk: inline if that is fast, otherwise in the thread."""
        if not self._commit_inline(do, *args):
            await self.run(do, *args)

    def shutdown(self) -> None:
        """Finish running work, and end the thread."""
        self._thread.shutdown()

    def _commit_inline(self, do: Callable[[*Ts], None], *args: *Ts) -> bool:
        started = time.perf_counter()
        if started < self._thread_until or not self._lock.acquire(blocking=False):
            return False
        self._waits_when_busy = False
        try:
            do(*args)
        except apsw.BusyError:
            return False
        finally:
            self._waits_when_busy = True
            self._lock.release()
            self._measure(time.perf_counter() - started)
        return True

    def _measure(self, seconds: float) -> None:
        self._mean_seconds += (1 - DECAY) * (seconds - self._mean_seconds)
        if self._mean_seconds >= INLINE_SECONDS:
            self._thread_until = time.perf_counter() + THREAD_FACTOR * self._mean_seconds / (1 - DECAY)
            self._mean_seconds = 0.0

    def _with_lock(self, do: Callable[[*Ts], T], *args: *Ts) -> T:
        with self._lock:
            return do(*args)

    def _on_busy(self, attempts: int) -> bool:
        """Whether to retry while another process writes (SQLite's busy handler)."""
        if self._waits_when_busy and attempts * BUSY_POLL_SECONDS < BUSY_SECONDS:
            time.sleep(BUSY_POLL_SECONDS)
            return True
        return False

    def _on_commit(self, connection: apsw.Connection, database: str, pages: int) -> int:
        """Schedule a checkpoint if the write-ahead log is long (SQLite's WAL hook)."""
        if pages < CHECKPOINT_PAGES:
            self._checkpoint_at = CHECKPOINT_PAGES
        elif pages >= self._checkpoint_at:
            self._checkpoint_at = pages + CHECKPOINT_PAGES
            self._thread.submit(self._with_lock, self._checkpoint)
        return int(apsw.SQLITE_OK)

    def _checkpoint(self) -> None:
        with suppress(
            apsw.Error
        ):  # nothing is lost: the write-ahead log stays, and a later commit schedules another one
            self.connection.wal_checkpoint()
