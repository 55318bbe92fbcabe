"""Writing connection of the SQLite store, in a thread of its own: a disk that hangs holds up no other request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar, TypeVarTuple

import apsw

BUSY_SECONDS = 10.0  # how long to wait for another process's write
BUSY_POLL_SECONDS = 0.001
CHECKPOINT_PAGES = 1000  # of the write-ahead log between checkpoints: SQLite's own default

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SqliteWriter:
    """Runs statements in its own thread, and checkpoints of the write-ahead log between them."""

    connection: apsw.Connection

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "store-write")
        self._checkpoint_at = CHECKPOINT_PAGES

    def use(self, connection: apsw.Connection) -> None:
        """Write to this connection from now on."""
        self.connection = connection
        connection.set_busy_handler(_on_busy)
        connection.set_wal_hook(self._on_commit)

    async def run(self, do: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run a function in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, do, *args)

    def shutdown(self) -> None:
        """Finish running work, and end the thread."""
        self._thread.shutdown()

    def _on_commit(self, connection: apsw.Connection, database: str, pages: int) -> int:
        """Schedule a checkpoint if the write-ahead log is long (SQLite's WAL hook)."""
        if pages < CHECKPOINT_PAGES:
            self._checkpoint_at = CHECKPOINT_PAGES
        elif pages >= self._checkpoint_at:
            self._checkpoint_at = pages + CHECKPOINT_PAGES
            self._thread.submit(self._checkpoint)
        return int(apsw.SQLITE_OK)

    def _checkpoint(self) -> None:
        with suppress(
            apsw.Error
        ):  # nothing is lost: the write-ahead log stays, and a later commit schedules another one
            self.connection.wal_checkpoint()


def _on_busy(attempts: int) -> bool:
    """Whether to retry while another process writes (SQLite's busy handler)."""
    if attempts * BUSY_POLL_SECONDS >= BUSY_SECONDS:
        return False
    time.sleep(BUSY_POLL_SECONDS)
    return True
