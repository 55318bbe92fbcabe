"""The writing connection of the SQLite store, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from releaf.service.store.sqlite_writer import CHECKPOINT_PAGES, SqliteWriter

INSERT = "INSERT INTO numbers VALUES (?, ?)"


def connected(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "WAL")
    connection.execute("CREATE TABLE IF NOT EXISTS numbers (number INTEGER PRIMARY KEY, filler BLOB)")
    return connection


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[SqliteWriter]:
    made = SqliteWriter()
    with closing(connected(tmp_path / "file.db")) as connection:
        made.use(connection)
        yield made
        made.shutdown()


def inserted(writer: SqliteWriter, number: int, filler: bytes = b"") -> None:
    writer.connection.execute(INSERT, (number, filler))


def kept(path: Path) -> list[int]:
    with closing(connected(path)) as connection:
        return [row[0] for row in connection.execute("SELECT number FROM numbers ORDER BY number")]


def test_a_disk_that_hangs_does_not_hold_up_the_event_loop(writer: SqliteWriter) -> None:
    """Also if it was fast until then."""
    hanging, ticks = threading.Event(), 0

    async def commit_until_it_hangs() -> None:
        nonlocal ticks
        for number in range(100):
            await writer.run(inserted, writer, number)
        commit = asyncio.create_task(writer.run(hanging.wait))
        while ticks < 20:
            await asyncio.sleep(0.001)
            ticks += 1
        assert not commit.done()
        hanging.set()
        assert await commit

    asyncio.run(commit_until_it_hangs())


def test_the_writer_waits_for_another_process_in_the_thread(writer: SqliteWriter, tmp_path: Path) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    async def commit_beside(other: apsw.Connection) -> None:
        other.execute("BEGIN IMMEDIATE")
        ticking = asyncio.create_task(tick())
        commit = asyncio.create_task(writer.run(inserted, writer, 2))
        while ticks < 20:
            await asyncio.sleep(0.001)
        assert not commit.done()
        other.execute(INSERT, (1, b""))
        other.execute("COMMIT")
        await commit
        ticking.cancel()

    with closing(connected(tmp_path / "file.db")) as other:
        asyncio.run(commit_beside(other))
    assert kept(tmp_path / "file.db") == [1, 2]


def test_checkpoints_bound_the_write_ahead_log(writer: SqliteWriter, tmp_path: Path) -> None:
    size = writer.connection.pragma("page_size")
    filler = bytes(4 * size)

    async def commit_much() -> None:
        for number in range(2 * CHECKPOINT_PAGES):
            await writer.run(inserted, writer, number, filler)

    asyncio.run(commit_much())
    assert len(kept(tmp_path / "file.db")) == 2 * CHECKPOINT_PAGES
    written, left = 8 * CHECKPOINT_PAGES * size, (tmp_path / "file.db-wal").stat().st_size
    assert left < written / 2
