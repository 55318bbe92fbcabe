"""Leases of processes that stop without an end: others take over after the time-out, and the epoch fences them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import postgres_server
import pytest
from event_stores import acquire_lease, commit, last_event_numbers, run_async
from polling import TIMEOUT_SECONDS, wait_until

from releaf.service.errors import StoreError
from releaf.service.store import migrations, open_store
from releaf.service.store.base import EventStore, LeaseLost, Snapshot
from releaf.service.store.lease_heartbeat import SilenceWatch
from releaf.service.store.postgres import PostgresStore
from releaf.service.store.sqlite import SqliteStore
from releaf.service.store.sqlite_leases import write_lock_owner

TIMEOUT = 1.0  # seconds: lease time-out of the stores here


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "store.db") if request.param == "sqlite" else postgres_server.new_database()


HOLDER = """
import asyncio, sys
from releaf.service.errors import StoreError
from releaf.service.store import open_store
from releaf.service.store.base import Commit, FIRST_CHECKSUM, LogPage, RewardRow

async def hold():
    store = open_store(sys.argv[1], lease_timeout=1.0)
    await store.open()
    number, rewards = int(sys.argv[2]), sys.argv[3] == "rewards"
    assert await store.acquire(number)
    last = 0
    while True:
        last += 1
        rows = [RewardRow(last, "rewarded", "1", 0.0)] if rewards else []
        try:
            await store.commit([Commit(LogPage(number, last, 1, last, 0.0, FIRST_CHECKSUM, b"x" * 500), rows)])
        except StoreError as error:
            print(type(error).__name__, store.holds(number), flush=True)
            break
        print(last, flush=True)
    while await store.acquire(number):
        pass
    print("standby", flush=True)
    await asyncio.sleep(1000)

asyncio.run(hold())
"""


class Holder:
    """A process that commits without end, and tells of every commit."""

    def __init__(self, address: str, number: int, folder: Path, rewards: str) -> None:
        self.output = folder / "output"
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", HOLDER, address, str(number), rewards], stdout=output
            )
        wait_until(lambda: len(self.lines()) > 40)

    @property
    def pid(self) -> int:
        return self._process.pid

    def lines(self) -> list[str]:
        return self.output.read_text().split("\n")[:-1]

    def send(self, what: signal.Signals) -> None:
        os.kill(self._process.pid, what)

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def holder_of(address: str, number: int, folder: Path, rewards: str = "none") -> Iterator[Holder]:
    holder = Holder(address, number, folder, rewards)
    try:
        yield holder
    finally:
        holder.end()


async def opened(address: str) -> EventStore:
    store = open_store(address, lease_timeout=TIMEOUT)
    await store.open()
    return store


@pytest.mark.parametrize("rewards", ["none", "rewards"])
def test_a_stopped_process_loses_its_lease_and_commits_nothing_when_it_continues(
    address: str, tmp_path: Path, rewards: str
) -> None:
    async def test() -> None:
        store = await opened(address)
        number = (await store.create("shop", 1.0, b"{}", b"")).id
        with holder_of(address, number, tmp_path, rewards) as holder:
            stop_between_commits(address, holder)
            started = time.monotonic()
            assert await acquire_lease(store, number)
            assert TIMEOUT <= time.monotonic() - started < 5 * TIMEOUT
            told = [int(line) for line in holder.lines()]
            written = await last_event_numbers(store, number)
            assert written == list(range(1, len(written) + 1))
            assert len(written) - told[-1] in (0, 1)  # the last may not have been told
            await store.commit([commit(number, len(written) + 1)])
            holder.send(signal.SIGCONT)
            await asyncio.to_thread(wait_until, lambda: holder.lines()[-1] == "standby")
            assert holder.lines()[-2] == "LeaseLost False"
            assert set(holder.lines()[len(told) : -2]) <= {str(len(written))}  # acknowledged, and in the log
            assert store.holds(number)
            await store.commit([commit(number, len(written) + 2)])
            assert await last_event_numbers(store, number) == list(range(1, len(written) + 3))
        await store.close()

    run_async(test())


def stop_between_commits(address: str, holder: Holder) -> None:
    """Stop a process; SQLite's lock would otherwise be left to the test of a process that stops within a commit."""
    while True:
        holder.send(signal.SIGSTOP)
        time.sleep(0.05)
        if address.startswith("postgresql") or write_lock_owner(Path(address)) != holder.pid:
            return
        holder.send(signal.SIGCONT)
        time.sleep(0.01)


def test_the_epoch_is_checked_by_every_write(address: str) -> None:
    """Without a heartbeat that could notice it: the writes alone."""

    async def test() -> None:
        first, second = await opened(address), await opened(address)
        number = (await first.create("shop", 1.0, b"{}", b"")).id
        for write in (
            lambda: first.commit([commit(number, 1)]),
            lambda: first.commit([commit(number, 1, 1)]),
            lambda: first.commit([commit(number, 1), commit(number, 2)]),
            lambda: first.add_snapshot(Snapshot(number, 1, b"", b"", b"")),
            lambda: first.drop_snapshots(number, [0]),
            lambda: first.set_aside(number, 0, "why"),
        ):
            assert await acquire_lease(first, number)
            await second.acquire(number)
            await first.commit([commit(number, 90)])  # there is something to set aside
            await raise_epoch(address)
            with pytest.raises(LeaseLost, match="taken over"):
                await write()
            assert not first.holds(number)
            assert await last_event_numbers(second, number) == [90]
            assert await second.snapshots(number) == [0]
            assert await acquire_lease(first, number)  # it has the highest epoch again
            await first.set_aside(number, 0, "the next one begins anew")
        await first.close()
        await second.close()

    run_async(test())


async def raise_epoch(address: str) -> None:
    """Take over all leases, as a process does that claims them."""
    if address.startswith("postgresql"):
        import asyncpg

        connection = await asyncpg.connect(address)
        await connection.execute("UPDATE releaf.leases SET epoch = epoch + 1")
        await connection.close()
        return
    import apsw

    connection = apsw.Connection(address)
    connection.execute("UPDATE leases SET epoch = epoch + 1")
    connection.close()


def test_an_idle_process_notices_that_it_is_fenced(address: str) -> None:
    async def test() -> None:
        first, second = await opened(address), await opened(address)
        number = (await first.create("shop", 1.0, b"{}", b"")).id
        assert await first.acquire(number)
        await raise_epoch(address)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while first.holds(number):
                await asyncio.sleep(0.01)
        await first.close()
        await second.close()

    run_async(test())


def test_a_process_with_a_heartbeat_keeps_its_lease(address: str) -> None:
    async def test() -> None:
        first, second = await opened(address), await opened(address)
        number = (await first.create("shop", 1.0, b"{}", b"")).id
        assert await first.acquire(number)
        until = time.monotonic() + 3 * TIMEOUT
        while time.monotonic() < until:
            assert not await second.acquire(number)
            await asyncio.sleep(0.05)
        assert first.holds(number)
        await first.commit([commit(number, 1)])
        await first.close()
        assert await second.acquire(number)  # at once
        await second.close()

    run_async(test())


WRITER = """
import apsw, sys, time
from pathlib import Path
from releaf.service.store.sqlite import SqliteStore
import asyncio

async def hold():
    store = SqliteStore(sys.argv[1], lease_timeout=1.0)
    await store.open()
    assert await store.acquire(1)
    await store._writing.run(store._writer.execute, "BEGIN IMMEDIATE")
    print("in a transaction", flush=True)
    time.sleep(1000)

asyncio.run(hold())
"""


def test_a_process_that_stopped_within_a_write_to_the_file_is_killed(tmp_path: Path) -> None:
    address = str(tmp_path / "store.db")

    async def test() -> None:
        store = await opened(address)
        number = (await store.create("shop", 1.0, b"{}", b"")).id
        with subprocess.Popen([sys.executable, "-c", WRITER, address], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline()
            assert write_lock_owner(Path(address)) == writer.pid
            os.kill(writer.pid, signal.SIGSTOP)
            assert await acquire_lease(store, number)
            await store.commit([commit(number, 1)])
            assert writer.wait(TIMEOUT_SECONDS) == -signal.SIGKILL
        await store.close()

    run_async(test())


def test_another_program_that_locks_the_file_is_not_killed(tmp_path: Path) -> None:
    """A silent holder, but the write lock is that of a shell, say."""
    address = str(tmp_path / "store.db")
    program = (
        "import apsw, sys, time; c = apsw.Connection(sys.argv[1]); c.execute('BEGIN IMMEDIATE'); print(1, flush=True)"
    )

    async def test() -> None:
        store = await opened(address)
        number = (await store.create("shop", 1.0, b"{}", b"")).id
        with holder_of(address, number, tmp_path) as holder:
            stop_between_commits(address, holder)
            with subprocess.Popen(
                [sys.executable, "-c", f"{program}; time.sleep(1000)", address], stdout=subprocess.PIPE
            ) as other:
                assert other.stdout is not None
                assert other.stdout.readline()
                with pytest.raises(StoreError, match="another program has locked the file"):
                    await acquire_lease(store, number)
                assert other.poll() is None
                assert not holder.has_ended()
                other.kill()
            assert await acquire_lease(store, number)
        await store.close()

    run_async(test())


def test_no_files_are_left_of_ended_processes(tmp_path: Path) -> None:
    address = str(tmp_path / "store.db")

    async def test() -> None:
        store = await opened(address)
        number = (await store.create("shop", 1.0, b"{}", b"")).id
        with holder_of(address, number, tmp_path):
            pass
        await store.close()
        assert len(list(tmp_path.glob("store.db-leases/holder-*"))) == 1  # of the killed one
        await store.open()
        assert len(list(tmp_path.glob("store.db-leases/holder-*"))) == 1  # the own one
        await store.close()
        assert list(tmp_path.glob("store.db-leases/holder-*")) == []

    run_async(test())


def test_a_store_is_not_migrated_while_an_older_version_uses_it(address: str) -> None:
    is_postgres = address.startswith("postgresql")

    async def test() -> None:
        older: EventStore
        if is_postgres:
            older = PostgresStore(address, migrations.POSTGRES[:1])
        else:
            older = SqliteStore(address, migrations.SQLITE[:1])
        await older.open()
        if isinstance(older, PostgresStore):
            await older._write("SELECT pg_advisory_lock($1, 1)", 0x5EAF)  # as older versions held a lease
        with pytest.raises(StoreError, match="in use by an older releaf: stop that before"):
            await open_store(address).open()
        await older.close()
        store = await opened(address)
        await store.close()

    run_async(test())


# --- the time-out -----------------------------------------------------------------------------------------------


def test_a_heartbeat_that_stands_still_for_the_timeout_is_silence() -> None:
    now = 0.0
    watch: SilenceWatch[str] = SilenceWatch(4.0, lambda: now)
    looks = [(0.0, 7), (1.0, 7), (2.0, 8), (3.0, 8), (4.0, 8), (5.0, 8), (5.9, 8), (6.1, 8), (6.2, 9)]
    silent = []
    for at, beat in looks:
        now = at
        silent.append(watch.is_silent("a", beat))
        assert not watch.is_silent("another", int(10 * at))
    assert silent == [False] * 7 + [True, False]


def test_a_process_that_was_paused_itself_does_not_take_the_pause_for_silence() -> None:
    now = 0.0
    watch: SilenceWatch[str] = SilenceWatch(4.0, lambda: now)
    watch.is_silent("a", 1)
    now = 3600.0
    assert not watch.is_silent("a", 1)
