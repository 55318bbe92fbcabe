"""The SQLite store when its file is damaged, truncated, moved, or its disk is full."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import apsw
import pytest

from releaf.service.errors import StoreError
from releaf.service.store.base import FIRST_CHECKSUM, Commit, LogPage, RewardRow
from releaf.service.store.migrations import SQLITE
from releaf.service.store.number_marks import read_marks
from releaf.service.store.sqlite import SqliteStore

PAGES = 400
BODY = b"body of a page, " * 60


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 120))


def commit(last: int, body: bytes = BODY) -> Commit:
    return Commit(LogPage(1, last, 1, last, 0.5, FIRST_CHECKSUM, body), [RewardRow(last, "rewarded", "1", 0.5)])


async def lasts(store: SqliteStore) -> list[int]:
    return [page.last async for page in store.pages(1)]


async def filled(path: Path) -> SqliteStore:
    """An open store with an experiment, a snapshot and some pages."""
    store = SqliteStore(path)
    await store.open()
    await store.create("shop", 1.0, b"{}", b"state" * 100)
    assert await store.acquire(1)
    for first in range(1, PAGES + 1, 100):
        await store.commit([commit(last) for last in range(first, first + 100)])
    return store


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A store's file after it was closed."""
    path = tmp_path / "store.db"

    async def fill() -> None:
        await (await filled(path)).close()

    run(fill())
    return path


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A store's files as a process leaves them that dies, with commits in the write-ahead log."""
    path, copy = tmp_path / "alive.db", tmp_path / "store.db"

    async def fill() -> None:
        store = await filled(path)
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
        await store.close()

    run(fill())
    return copy


def overwrite(path: Path, start: float, length: int) -> None:
    """Damage a stretch of a file that begins at a fraction of its length."""
    with path.open("r+b") as file:
        file.seek(round(path.stat().st_size * start / 4096) * 4096)
        file.write(b"\xa5" * length)


def cut(path: Path, share: float) -> None:
    os.truncate(path, int(path.stat().st_size * share) + 7)


def flip_in_the_middle(path: Path) -> None:
    overwrite(path, 0.5, 4096)


def flip_the_last_page(path: Path) -> None:
    overwrite(path, 1 - 4096 / path.stat().st_size, 4096)


def flip_the_head(path: Path) -> None:
    overwrite(path, 0, 4096)


def cut_in_half(path: Path) -> None:
    pages = path.stat().st_size // 4096
    os.truncate(path, pages // 2 * 4096 + 7)  # SQLite reads the missing half of a page as zeros, without an error


def replace_by_a_text(path: Path) -> None:
    path.write_text("Dear diary, today somebody put a text where a database was.\n" * 5)


def kept(message: str) -> Path:
    """Where the damaged file is, as a message says."""
    return Path(message.split("the damaged file is ")[1])


@pytest.mark.parametrize("harm", [flip_in_the_middle, flip_the_last_page, cut_in_half])
def test_a_repair_keeps_all_readable_rows_of_a_damaged_file(closed: Path, harm: Callable[[Path], None]) -> None:
    harm(closed)
    damaged = closed.read_bytes()

    async def test() -> None:
        store = SqliteStore(closed, salvage=True)
        (message,) = await store.open()
        assert "was damaged" in message
        assert kept(message).read_bytes() == damaged
        assert [row.name for row in await store.experiments()] == ["shop"]
        saved = await lasts(store)
        assert 50 < len(saved) <= PAGES
        assert f"{len(saved)} pages" in message
        damaged_bodies = [page async for page in store.pages(1) if page.body != BODY]
        assert len(damaged_bodies) <= 1  # the row at the cut, which its checksum reveals later
        assert await store.acquire(1)
        await store.commit([commit(saved[-1] + 1)])
        await store.close()
        assert await store.open() == []
        assert await lasts(store) == [*saved, saved[-1] + 1]
        await store.close()

    run(test())


def test_a_repair_deletes_rows_of_lost_events_and_experiments(closed: Path) -> None:
    async def test() -> None:
        store = SqliteStore(closed, salvage=True)
        await store.open()
        assert (await store.create("other", 1.0, b"{}", b"")).id == 2
        assert await store.acquire(2)
        await store.commit([Commit(LogPage(2, 1, 1, 1, 0.5, FIRST_CHECKSUM, BODY), [])])
        store._writer.execute("DELETE FROM pages WHERE experiment = 1 AND last > 100")
        store._writer.execute("DELETE FROM experiments WHERE id = 2")
        root = store._writer.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'pages_by_decision'").get
        await store.close()
        overwrite(closed, (root - 1) * 4096 / closed.stat().st_size, 4096)
        (message,) = await store.open()
        assert "was damaged" in message
        assert await lasts(store) == list(range(1, 101))
        assert max(await store.rewards(1, 1, PAGES)) <= 100
        assert await store.acquire(1)
        await store.commit([commit(101)])
        assert (await store.create("third", 1.0, b"{}", b"")).id == 2
        assert [page async for page in store.pages(2)] == []
        await store.close()

    run(test())


@pytest.mark.parametrize("harm", [flip_the_head, replace_by_a_text])
def test_an_unreadable_file_is_moved_aside_and_a_new_one_created(closed: Path, harm: Callable[[Path], None]) -> None:
    harm(closed)
    damaged = closed.read_bytes()

    async def test() -> None:
        store = SqliteStore(closed, salvage=True)
        (message,) = await store.open()
        assert "0 experiments, 0 pages" in message
        assert kept(message).read_bytes() == damaged
        assert await store.experiments() == []
        await store.create("shop", 1.0, b"{}", b"")
        await store.close()

    run(test())


@pytest.mark.parametrize("harm", [flip_in_the_middle, flip_the_head, cut_in_half, replace_by_a_text])
def test_a_damaged_file_is_refused_and_unchanged_without_salvage(closed: Path, harm: Callable[[Path], None]) -> None:
    harm(closed)
    before = files(closed)
    with pytest.raises(StoreError, match=r"is damaged .*start once with releaf serve --salvage, which copies all"):
        asyncio.run(SqliteStore(closed).open())
    assert files(closed) == before


def files(path: Path) -> dict[str, bytes]:
    """The database and what is kept beside it, without the locks and the index of the write-ahead log."""
    found = {file.name: file.read_bytes() for file in path.parent.glob(f"{path.name}*") if file.is_file()}
    return {name: content for name, content in found.items() if content and not name.endswith("-shm")}


def empty(path: Path) -> None:
    os.truncate(path, 0)


def remove(path: Path) -> None:
    path.unlink()


def replace_by_an_empty_database(path: Path) -> None:
    remove(path)
    other = apsw.Connection(str(path))
    other.pragma("journal_mode", "WAL")
    other.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
    other.close()


def replace_by_an_older_file(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM pages WHERE last > 10; DELETE FROM rewards WHERE event > 10")
    connection.close()


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        (empty, "was in use and is now empty"),
        (remove, "was in use and is now missing"),
        (replace_by_an_empty_database, "experiment shop lacks events 1 to 400"),
        (replace_by_an_older_file, "experiment shop lacks events 11 to 400"),
    ],
)
def test_a_file_that_lacks_events_needs_salvage_and_numbers_continue_after_them(
    closed: Path, harm: Callable[[Path], None], found: str
) -> None:
    harm(closed)
    before = files(closed)

    async def test() -> None:
        for _ in range(2):
            with pytest.raises(StoreError, match=f"{found}.*releaf serve --salvage"):
                await SqliteStore(closed).open()
        assert files(closed) == before
        store = SqliteStore(closed, salvage=True)
        (message,) = await store.open()
        assert found in message
        assert "of shop" in message
        if not await store.experiments():
            await store.create("other", 1.0, b"{}", b"")
            await store.create("shop", 1.0, b"{}", b"")
        ids = {row.name: row.id for row in await store.experiments()}
        assert PAGES <= await store.latest_set_aside(ids["shop"]) <= PAGES + 20_000
        if "other" in ids:
            assert await store.latest_set_aside(ids["other"]) == 0
        await store.close()
        store = SqliteStore(closed)
        assert await store.open() == []
        assert await store.latest_set_aside(ids["shop"]) >= PAGES
        await store.close()

    run(test())


@pytest.mark.parametrize("name", ["store.db-wal", "store.db"])
def test_a_lost_write_ahead_log_or_file_of_a_killed_process_needs_salvage(tmp_path: Path, name: str) -> None:
    path = tmp_path / "store.db"
    killed(path)
    (tmp_path / name).unlink()

    async def test() -> None:
        with pytest.raises(StoreError, match="releaf serve --salvage"):
            await SqliteStore(path).open()
        store = SqliteStore(path, salvage=True)
        await store.open()
        if not await store.experiments():
            await store.create("shop", 1.0, b"{}", b"")
        assert await store.latest_set_aside(1) >= 50
        await store.close()

    run(test())


def test_a_killed_process_needs_no_salvage(tmp_path: Path) -> None:
    killed(tmp_path / "store.db")

    async def test() -> None:
        store = SqliteStore(tmp_path / "store.db")
        assert await store.open() == []
        assert await lasts(store) == list(range(1, 51))
        assert await store.latest_set_aside(1) == 0
        await store.close()

    run(test())


KILLED = """
import asyncio, os, signal, sys
from releaf.service.store.base import FIRST_CHECKSUM, Commit, LogPage
from releaf.service.store.sqlite import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    await store.create("shop", 1.0, b"{}", b"")
    await store.acquire(1)
    for last in range(1, 51):
        await store.commit([Commit(LogPage(1, last, 1, last, 0.0, FIRST_CHECKSUM, b"x"), [])])
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def killed(path: Path) -> None:
    """Leave the files of a process that was killed after 50 commits."""
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)]).returncode == -9


def test_decisions_are_reserved_before_their_commit_and_a_new_store_needs_no_salvage(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def test() -> None:
        store = SqliteStore(path)
        assert await store.open() == []
        await store.create("été ☀", 1.0, b"{}", b"")
        assert await store.acquire(1)
        for last, decision in ((1, 1), (2, 10_000), (3, 10_001), (4, 25_000)):
            await store.commit([Commit(LogPage(1, last, 1, decision, 0.5, FIRST_CHECKSUM, b""), [])])
            (mark,) = read_marks(tmp_path / "store.db-leases")
            assert (mark.name, mark.event) == ("été ☀", last)
            assert decision <= mark.reserved <= decision + 10_000
        await store.close()

    run(test())


def test_the_file_of_a_dead_process_needs_no_repair(left: Path) -> None:
    async def test() -> None:
        store = SqliteStore(left)
        assert await store.open() == []
        assert await lasts(store) == list(range(1, PAGES + 1))
        await store.close()

    run(test())


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9])
def test_complete_commits_of_a_truncated_write_ahead_log_are_kept(left: Path, share: float) -> None:
    cut(Path(f"{left}-wal"), share)

    async def test() -> None:
        store = SqliteStore(left)
        messages = await store.open()
        assert "ends in the middle of a write" in messages[0]
        saved = await lasts(store) if await store.experiments() else []
        assert saved == list(range(1, len(saved) + 1))
        assert len(saved) % 100 == 0
        assert len(saved) < PAGES
        assert sorted(await store.rewards(1, 1, PAGES)) == saved
        await store.close()

    run(test())


def test_a_damaged_file_in_use_is_not_repaired(closed: Path) -> None:
    async def test() -> None:
        first, second = SqliteStore(closed, salvage=True), SqliteStore(closed)
        await first.open()
        flip_in_the_middle(closed)
        assert await second.open() == []  # the first would go on writing to a file that was moved away
        with pytest.raises(StoreError, match="the file is damaged; stop the service, and start it with --salvage"):
            await lasts(second)
        await second.close()
        await first.close()
        (message,) = await first.open()
        assert "was damaged" in message
        await first.close()

    run(test())


def test_an_interrupted_repair_is_finished(closed: Path) -> None:
    async def test() -> None:
        closed.rename(f"{closed}-salvage")  # complete, but not yet in its place
        store = SqliteStore(closed)
        (message,) = await store.open()
        assert "A fresh file has all readable rows" in message
        assert await lasts(store) == list(range(1, PAGES + 1))
        await store.close()

    run(test())


def test_a_damaged_file_of_an_older_version_is_repaired_and_migrated(closed: Path) -> None:
    flip_in_the_middle(closed)

    async def test() -> None:
        store = SqliteStore(closed, (*SQLITE, "ALTER TABLE pages_set_aside ADD COLUMN note TEXT"), salvage=True)
        (message,) = await store.open()
        assert "1 experiments" in message
        assert len(await lasts(store)) > 50
        await store.close()

    run(test())


def test_a_database_of_another_program_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    with pytest.raises(StoreError, match="database of another program: use another file for the store"):
        asyncio.run(SqliteStore(path).open())


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="create the folder"):
        asyncio.run(SqliteStore(tmp_path / "nowhere" / "store.db").open())


def test_a_file_that_was_moved_while_in_use_rejects_commits(closed: Path) -> None:
    async def test() -> None:
        store = SqliteStore(closed)
        await store.open()
        assert await store.acquire(1)
        closed.rename(closed.with_name("elsewhere.db"))
        for attempt in (store.commit([commit(PAGES + 1)]), store.ping()):
            with pytest.raises(StoreError, match="restore the file"):
                await attempt
        closed.with_name("elsewhere.db").rename(closed)
        await store.commit([commit(PAGES + 1)])
        await store.close()

    run(test())


def test_a_full_file_accepts_commits_again_when_there_is_space(closed: Path) -> None:
    async def test() -> None:
        store = SqliteStore(closed)
        await store.open()
        assert await store.acquire(1)
        store._writer.pragma("max_page_count", 1)  # which is raised to the present size
        with pytest.raises(StoreError, match="the disk is full; free some space"):
            await store.commit([commit(PAGES + 1), commit(PAGES + 2, bytes(1 << 20))])
        assert store.holds(1)
        assert await lasts(store) == list(range(1, PAGES + 1))
        store._writer.pragma("max_page_count", 1 << 30)
        await store.commit([commit(PAGES + 1)])
        assert (await lasts(store))[-1] == PAGES + 1
        await store.close()

    run(test())


ON_A_SMALL_DISK = """
import asyncio, resource, signal, sys
from releaf.service.errors import StoreError
from releaf.service.store import open_store
from releaf.service.store.base import FIRST_CHECKSUM, Commit, LogPage

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

async def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = open_store(sys.argv[1])
    await store.open()
    number = (await store.create("shop", 1.0, b"{}", b"")).id
    await store.acquire(number)
    limit(300_000)
    last = 0
    try:
        while last < 1000:
            await store.commit([Commit(LogPage(number, last + 1, 1, 1, 0.0, FIRST_CHECKSUM, bytes(10_000)), [])])
            last += 1
    except StoreError as error:
        print(error)
    try:
        await store.ping()
    except StoreError:
        print("still full")
    assert [page.last async for page in store.pages(number)] == list(range(1, last + 1))
    limit(resource.RLIM_INFINITY)
    await store.ping()
    await store.commit([Commit(LogPage(number, last + 1, 1, 1, 0.0, FIRST_CHECKSUM, bytes(10_000)), [])])
    await store.close()
    assert await store.open() == []
    assert [page.last async for page in store.pages(number)] == list(range(1, last + 2))
    await store.close()
    print(last, "commits")

asyncio.run(main())
"""


def test_a_file_that_can_not_grow_keeps_all_acknowledged_commits(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ON_A_SMALL_DISK, str(tmp_path / "store.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "check its health and free space" in done.stdout
    assert int(done.stdout.split()[-2]) > 5


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("mount") is None, reason="only root may mount a small disk")
def test_a_full_disk_is_an_error_and_the_store_recovers(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk]).returncode != 0:
        pytest.skip("root may not mount here")

    acknowledged: list[int] = []

    async def commit_until_full(store: SqliteStore) -> None:
        for last in range(1, 1000):
            await store.commit([commit(last, bytes(10_000))])
            acknowledged.append(last)

    async def test() -> None:
        store = SqliteStore(disk / "store.db")
        await store.open()
        await store.create("shop", 1.0, b"{}", b"")
        assert await store.acquire(1)
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(1_000_000))
        with pytest.raises(StoreError, match=r"the disk is full; free some space|free space"):
            await commit_until_full(store)
        last = acknowledged[-1]
        assert await lasts(store) == acknowledged
        ballast.unlink()
        await store.ping()
        await store.commit([commit(last + 1)])
        await store.close()
        assert await store.open() == []
        assert await lasts(store) == list(range(1, last + 2))
        await store.close()

    try:
        run(test())
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
