"""The writing connection of the SQLite store: inline on a fast disk, otherwise in its thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from releaf.service.store.sqlite_writer import CHECKPOINT_PAGES, INLINE_SECONDS, THREAD_FACTOR, SqliteWriter

MODULE = "releaf.service.store.sqlite_writer"
HERE = threading.get_ident
INSERT = "INSERT INTO numbers VALUES (?, ?)"


class Clock:
    """The writer's clock, which stands still unless a commit is said to take a while."""

    sleep = staticmethod(time.sleep)

    def __init__(self) -> None:
        self.now = 1_000.0

    def perf_counter(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(f"{MODULE}.time", made)
    return made


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


def test_commits_run_inline_while_the_disk_is_fast(writer: SqliteWriter, clock: Clock) -> None:
    threads: list[int] = []

    def fast() -> None:
        threads.append(HERE())
        clock.advance(INLINE_SECONDS / 2)

    async def commit_often() -> None:
        for _ in range(100):
            await writer.commit(fast)

    asyncio.run(commit_often())
    assert set(threads) == {HERE()}


def test_commits_run_in_the_thread_when_the_disk_becomes_slow(writer: SqliteWriter, clock: Clock) -> None:
    threads: list[int] = []

    def slow() -> None:
        threads.append(HERE())
        clock.advance(20 * INLINE_SECONDS)

    async def commit_slowly() -> None:
        for _ in range(5):
            await writer.commit(slow)

    asyncio.run(commit_slowly())
    assert threads[0] == HERE()
    assert HERE() not in threads[1:]


def test_commits_run_inline_again_when_the_disk_is_fast_again(writer: SqliteWriter, clock: Clock) -> None:
    threads: list[int] = []

    async def commit_until_fast() -> None:
        await writer.commit(clock.advance, 20 * INLINE_SECONDS)
        await writer.commit(lambda: threads.append(HERE()))
        clock.advance(1_000 * THREAD_FACTOR * INLINE_SECONDS)
        await writer.commit(lambda: threads.append(HERE()))

    asyncio.run(commit_until_fast())
    assert threads[0] != HERE()
    assert threads[1] == HERE()


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
        commit = asyncio.create_task(writer.commit(inserted, writer, 2))
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


def test_inline_commits_and_the_thread_exclude_each_other(writer: SqliteWriter) -> None:
    inside = 0
    most = 0

    def enter() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.0005)
        inside -= 1

    async def both() -> None:
        await asyncio.gather(*(writer.run(enter) for _ in range(20)), *(writer.commit(enter) for _ in range(20)))

    asyncio.run(both())
    assert most == 1


def test_checkpoints_bound_the_write_ahead_log(writer: SqliteWriter, tmp_path: Path) -> None:
    size = writer.connection.pragma("page_size")
    filler = bytes(4 * size)

    async def commit_much() -> None:
        for number in range(2 * CHECKPOINT_PAGES):
            await writer.commit(inserted, writer, number, filler)
            if number % 50 == 0:
                await writer.run(lambda: None)  # the thread gets its turn, however busy the machine is

    asyncio.run(commit_much())
    assert len(kept(tmp_path / "file.db")) == 2 * CHECKPOINT_PAGES
    written, left = 8 * CHECKPOINT_PAGES * size, (tmp_path / "file.db-wal").stat().st_size
    assert left < written / 2
