"""The connection that writes to a SQLite file: where its work is done, and who else may be kept waiting for it."""

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
LOOK_AGAIN = 0.001
FAST = 0.002  # seconds for which all other requests may be kept waiting, on average
DECAY = 0.9  # of that average, from one commit to the next
REST = 50  # times as long as they took, nobody is kept waiting after commits that were slow
CHECKPOINT_PAGES = 1000  # of the write-ahead log, after which they are brought into the file: SQLite's own default

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Writer:
    """Writes in a thread of its own, or at once, by a thread that can't wait.

    Handing a commit over to a thread and back takes longer than a good disk does, because both threads want the
    interpreter's lock. So commits are made at once while the disk is fast, the connection is free, and no other process
    writes; brought into the file is the write-ahead log always in the thread.
    """

    connection: apsw.Connection

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "store-write")
        self._free = threading.Lock()
        self._is_patient = True
        self._pace = 0.0  # what commits that were made at once took, on average
        self._rests_until = 0.0  # when the disk may have become fast again
        self._checkpoint_at = CHECKPOINT_PAGES

    def use(self, connection: apsw.Connection) -> None:
        """From here on, write to this connection."""
        self.connection = connection
        connection.set_busy_handler(self._wait_for_others)
        connection.set_wal_hook(self._on_commit)

    async def run(self, do: Callable[[*Ts], T], *args: *Ts) -> T:
        """Do something in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._alone, do, *args)

    async def commit(self, do: Callable[[*Ts], None], *args: *Ts) -> None:
        """Do something that takes as long as the disk: at once where that is not long."""
        if not self._done_at_once(do, *args):
            await self.run(do, *args)

    def shutdown(self) -> None:
        """Finish what was begun, and end the thread."""
        self._thread.shutdown()

    def _done_at_once(self, do: Callable[[*Ts], None], *args: *Ts) -> bool:
        started = time.perf_counter()
        if started < self._rests_until or not self._free.acquire(blocking=False):
            return False
        self._is_patient = False
        try:
            do(*args)
        except apsw.BusyError:
            return False
        finally:
            self._is_patient = True
            self._free.release()
            self._took(time.perf_counter() - started)
        return True

    def _took(self, seconds: float) -> None:
        self._pace += (1 - DECAY) * (seconds - self._pace)
        if self._pace >= FAST:
            self._rests_until = time.perf_counter() + REST * self._pace / (1 - DECAY)
            self._pace = 0.0

    def _alone(self, do: Callable[[*Ts], T], *args: *Ts) -> T:
        with self._free:
            return do(*args)

    def _wait_for_others(self, attempts: int) -> bool:
        """Whether to try again where another process writes."""
        if self._is_patient and attempts * LOOK_AGAIN < BUSY_SECONDS:
            time.sleep(LOOK_AGAIN)
            return True
        return False

    def _on_commit(self, connection: apsw.Connection, database: str, pages: int) -> int:
        """Have a long write-ahead log brought into the file."""
        if pages < CHECKPOINT_PAGES:
            self._checkpoint_at = CHECKPOINT_PAGES
        elif pages >= self._checkpoint_at:
            self._checkpoint_at = pages + CHECKPOINT_PAGES
            self._thread.submit(self._alone, self._checkpoint)
        return int(apsw.SQLITE_OK)

    def _checkpoint(self) -> None:
        with suppress(apsw.Error):  # nothing is lost: the write-ahead log stays, and it is tried again
            self.connection.wal_checkpoint()
