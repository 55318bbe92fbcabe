"""The EventStore interface, tested on SQLite and PostgreSQL: atomic commits, durability, leases, errors with advice."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import postgres_server
import pytest
from event_stores import (
    acquire_lease,
    commit,
    last_event_numbers,
    open_event_store,
    page,
    run_async,
    store_with_experiment,
)

from releaf.service.errors import StoreError
from releaf.service.store import open_store
from releaf.service.store.base import (
    FIRST_CHECKSUM,
    Commit,
    EventStore,
    KeyRow,
    LeaseLost,
    LogPage,
    RewardRow,
    Snapshot,
    body_checksum,
    page_checksum,
)
from releaf.service.store.migrations import POSTGRES, SQLITE
from releaf.service.store.postgres import PostgresStore
from releaf.service.store.sqlite import SqliteStore


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "store.db") if request.param == "sqlite" else postgres_server.new_database()


# --- experiments, snapshots, keys


def test_an_experiment_is_created_with_its_first_snapshot(address: str) -> None:
    async def test() -> None:
        async with open_event_store(address) as store:
            made = await store.create("shop", 12.5, b'{"name": "shop"}', b"first state")
            other = await store.create("été ☀", 13.5, b"{}", b"")
            assert made == (made.id, "shop", 12.5, b'{"name": "shop"}', False)
            assert await store.experiments() == [made, other]
            assert await store.snapshots(made.id) == [0]
            expected = Snapshot(made.id, 0, body_checksum(b"first state"), b"first state", FIRST_CHECKSUM)
            assert await store.snapshot(made.id, 0) == expected

    run_async(test())


def test_the_name_of_an_experiment_is_unique(address: str) -> None:
    async def test() -> None:
        async with open_event_store(address) as store:
            await store.create("shop", 1.0, b"{}", b"")
            with pytest.raises(KeyError, match="shop"):
                await store.create("shop", 2.0, b"{}", b"")
            assert [row.created for row in await store.experiments()] == [1.0]
            await store.create("other", 3.0, b"{}", b"")

    run_async(test())


def test_a_retired_experiment_is_marked(address: str) -> None:
    async def test() -> None:
        async with store_with_experiment(address) as (store, number):
            await store.retire(number)
            assert [row.retired for row in await store.experiments()] == [True]

    run_async(test())


def test_snapshots_are_listed_from_the_latest_and_dropped(address: str) -> None:
    async def test() -> None:
        async with store_with_experiment(address) as (store, number):
            added = [Snapshot(number, last, bytes([last]), b"x" * 3_000_000, b"after") for last in (5, 9, 7)]
            for snapshot in added:
                await store.add_snapshot(snapshot)
            assert await store.snapshots(number) == [9, 7, 5, 0]
            assert await store.snapshot(number, 7) == added[2]
            await store.add_snapshot(added[2]._replace(body=b"again"))
            assert (await store.snapshot(number, 7)).body == b"again"
            await store.drop_snapshots(number, [0, 7, 8])
            assert await store.snapshots(number) == [9, 5]
            with pytest.raises(KeyError):
                await store.snapshot(number, 7)

    run_async(test())


def test_keys_are_stored_and_revoked_once(address: str) -> None:
    async def test() -> None:
        async with open_event_store(address) as store:
            key = KeyRow("k1", "till", b"\x00digest", "shop:decide *:read", 3.0, None)
            await store.add_key(key)
            with pytest.raises(KeyError, match="k1"):
                await store.add_key(key._replace(name="another"))
            assert await store.keys() == [key]
            assert await store.revoke_key("k1", 4.0)
            assert not await store.revoke_key("k1", 5.0)
            assert not await store.revoke_key("k2", 5.0)
            assert await store.keys() == [key._replace(revoked=4.0)]

    run_async(test())


# --- the log


def test_pages_are_read_in_order_as_written(address: str) -> None:
    async def test() -> None:
        async with store_with_experiment(address) as (store, number):
            other = (await store.create("other", 1.0, b"{}", b"")).id
            assert await store.acquire(other)
            written, before = [], FIRST_CHECKSUM
            for last in range(3, 303, 3):
                body = os.urandom(last)
                before = page_checksum(before, last, body)
                written.append(LogPage(number, last, 3, last // 2, last + 0.1, before, body))
            for one in written:
                await store.commit([Commit(one, []), commit(other, one.last)])
            assert [found async for found in store.pages(number)] == written
            assert [found async for found in store.pages(number, 150)] == written[50:]
            assert [found async for found in store.pages(number, 151)] == written[50:]
            assert await last_event_numbers(store, other, 297) == [300]
            assert await last_event_numbers(store, number, 300) == []

    run_async(test())


def test_a_long_log_of_large_pages_is_read_in_chunks(address: str) -> None:
    async def test() -> None:
        async with store_with_experiment(address) as (store, number):
            large = [Commit(page(number, last, body=bytes(3 << 20)), []) for last in range(1, 6)]
            await store.commit(large)
            await store.commit([commit(number, last) for last in range(6, 5006)])
            assert await last_event_numbers(store, number) == list(range(1, 5006))
            assert [found.last async for found in store.pages_back(number, 5005)] == list(range(5005, 0, -1))

    run_async(test())


def test_the_log_is_read_backwards_from_the_page_of_a_decision(address: str) -> None:
    async def test() -> None:
        async with store_with_experiment(address) as (store, number):
            decisions = {2: 2, 3: 2, 6: 5, 7: 5, 9: 7}  # pages 3 and 7 hold no decision of their own
            await store.commit([Commit(page(number, last, decision=n), []) for last, n in decisions.items()])

            async def back(decision: int) -> list[int]:
                return [found.last async for found in store.pages_back(number, decision)]

            assert await back(1) == await back(2) == [2]
            assert await back(3) == await back(5) == [6, 3, 2]
            assert await back(7) == [9, 7, 6, 3, 2]
            assert await back(8) == []

    run_async(test())


def test_rewards_are_found_by_a_range_of_decisions(address: str) -> None:
    async def test() -> None:
        async with store_with_experiment(address) as (store, number):
            rows = [
                RewardRow(4, "rewarded", "1.5", 2.0),
                RewardRow(2, "default", "0", 2.5),
                RewardRow(9, "dropped", None, 3.0),
            ]
            await store.commit([Commit(page(number, 9), rows[:2]), Commit(page(number, 10), rows[2:])])
            assert await store.rewards(number, 1, 100) == {row.decision: row for row in rows}
            assert await store.rewards(number, 4, 8) == {4: rows[0]}
            assert await store.rewards(number + 1, 1, 100) == {}
            assert await store.rewards_of(number, [4, 5, 10**9]) == {4: rows[0]}
            assert await store.rewards_of(number, [*range(1, 3001)]) == {row.decision: row for row in rows}
            assert await store.rewards_of(number, []) == {}

    run_async(test())


def test_commit_writes_all_or_nothing(address: str) -> None:
    async def test() -> None:
        async with store_with_experiment(address) as (store, number):
            await store.commit([commit(number, 1, 1)])
            with pytest.raises(LeaseLost):  # the second page exists already
                await store.commit([commit(number, 2, 2), commit(number, 1, 3)])
            with pytest.raises(LeaseLost):  # the reward exists already
                await store.commit([commit(number, 2, 2), commit(number, 3, 1)])
            assert await last_event_numbers(store, number) == [1]
            assert list(await store.rewards(number, 1, 9)) == [1]
            await store.commit([commit(number, 2, 2)])
            assert await last_event_numbers(store, number) == [1, 2]
            await store.commit([])

    run_async(test())


@pytest.mark.parametrize(("last", "events"), [(7, 3), (6, 2), (9, 5), (5, 1), (12, 8)])
def test_an_event_number_is_written_once_whatever_its_page(address: str, last: int, events: int) -> None:
    async def test() -> None:
        async with store_with_experiment(address) as (store, number):
            await store.commit([Commit(page(number, 4, 4), []), Commit(page(number, 7, 3), [])])
            with pytest.raises(LeaseLost, match="read it again"):
                await store.commit([Commit(page(number, last, events), [])])
            assert await last_event_numbers(store, number) == [4, 7]
            await store.commit([Commit(page(number, 20, 4), [])])  # a snapshot may have outlived pages

    run_async(test())


def test_a_redaction_replaces_bodies_and_drops_rewards_and_snapshots_or_nothing(address: str) -> None:
    async def test() -> None:
        async with store_with_experiment(address) as (store, number):
            await store.commit([commit(number, last, last) for last in range(1, 6)])
            for last in (2, 4, 5):
                await store.add_snapshot(Snapshot(number, last, b"", b"", b""))
            await store.redact(number, [(1, b"x"), (3, b"y")], 2, 4)
            assert [found.body async for found in store.pages(number)] == [b"x", b"events", b"y", b"events", b"events"]
            assert list(await store.rewards(number, 1, 9)) == [3, 4, 5]
            assert await store.snapshots(number) == [5, 4]
            await store.redact(number, [], 0, 0)
            await store.release(number)
            with pytest.raises(LeaseLost):
                await store.redact(number, [(2, b"z")], 5, 6)
            assert await store.snapshots(number) == [5, 4]

    run_async(test())


def test_pages_that_are_set_aside_take_their_rewards_along(address: str) -> None:
    async def test() -> None:
        async with store_with_experiment(address) as (store, number):
            await store.commit([commit(number, last, last) for last in range(1, 8)])
            assert await store.set_aside(number, 4, "the checksum of page 5 is wrong") == 3
            assert await last_event_numbers(store, number) == [1, 2, 3, 4]
            assert sorted(await store.rewards(number, 1, 9)) == [1, 2, 3, 4]
            await store.commit([commit(number, 5, 5)])
            assert await store.set_aside(number, 4, "again") == 1
            assert await store.set_aside(number, 4, "nothing left") == 0
            assert await count(address, "pages_set_aside") == await count(address, "rewards_set_aside") == 4

    run_async(test())


async def count(address: str, table: str) -> int:
    if address.startswith("postgresql"):
        import asyncpg

        connection = await asyncpg.connect(address)
        try:
            return int(await connection.fetchval(f"SELECT count(*) FROM releaf.{table}"))
        finally:
            await connection.close()
    import apsw

    with closing(apsw.Connection(address)) as file:
        return int(file.execute(f"SELECT count(*) FROM {table}").get)


def test_a_reopened_store_has_everything(address: str) -> None:
    async def test() -> None:
        async with store_with_experiment(address) as (store, number):
            await store.commit([commit(number, 1, 1)])
            rows = await store.experiments()
        messages = await store.open()
        try:
            assert messages == []
            assert await store.experiments() == rows
            assert await last_event_numbers(store, number) == [1]
            assert not store.holds(number)
            with pytest.raises(StoreError, match="already open"):
                await store.open()
        finally:
            await store.close()
            await store.close()
        with pytest.raises(StoreError, match="not open"):
            await store.experiments()
        with pytest.raises(StoreError, match="not open"):
            await store.commit([commit(number, 2)])

    run_async(test())


def test_several_processes_can_open_a_new_store_at_once(address: str) -> None:
    async def test() -> None:
        stores = [open_store(address) for _ in range(4)]
        assert await asyncio.gather(*(store.open() for store in stores)) == [[]] * 4
        await asyncio.gather(*(store.create(f"shop {n}", 1.0, b"{}", b"") for n, store in enumerate(stores)))
        for store in stores:
            assert len(await store.experiments()) == 4
            await store.close()

    run_async(test())


def test_reads_do_not_block_commits(address: str) -> None:
    async def test() -> None:
        async with store_with_experiment(address) as (store, number):
            await store.commit([Commit(page(number, last, body=bytes(100_000)), []) for last in range(1, 301)])
            reading = store.pages(number)
            assert (await anext(reading)).last == 1
            for last in range(301, 351):  # while a reader stands in the middle of the log
                await store.commit([commit(number, last, last)])
            assert [found.last async for found in reading] == list(range(2, 351))
            several = [asyncio.create_task(last_event_numbers(store, number)) for _ in range(6)]
            await asyncio.gather(*(store.commit([commit(number, last)]) for last in range(351, 371)))
            for seen in await asyncio.gather(*several):
                assert seen == list(range(1, len(seen) + 1))
                assert len(seen) >= 350

    run_async(test())


# --- leases


def test_only_the_holder_of_the_lease_can_write(address: str) -> None:
    async def test() -> None:
        async with store_with_experiment(address) as (first, number), open_event_store(address) as second:
            assert await first.acquire(number)  # has it already
            assert first.holds(number)
            assert not await second.acquire(number)
            assert not second.holds(number)
            with pytest.raises(LeaseLost):
                await second.commit([commit(number, 1)])
            with pytest.raises(LeaseLost):
                await second.set_aside(number, 0, "why")
            with pytest.raises(LeaseLost):
                await second.add_snapshot(Snapshot(number, 1, b"", b"", b""))
            with pytest.raises(LeaseLost):
                await second.drop_snapshots(number, [0])
            await first.commit([commit(number, 1)])
            await first.release(number)
            await first.release(number)
            assert await second.acquire(number)
            with pytest.raises(LeaseLost):
                await first.commit([commit(number, 2)])
            await second.commit([commit(number, 2)])
            assert await last_event_numbers(first, number) == [1, 2]

    run_async(test())


def test_two_stores_hold_leases_of_different_experiments(address: str) -> None:
    async def test() -> None:
        async with store_with_experiment(address) as (first, one), open_event_store(address) as second:
            two = (await second.create("other", 1.0, b"{}", b"")).id
            assert await second.acquire(two)
            for last in range(1, 21):
                await asyncio.gather(first.commit([commit(one, last)]), second.commit([commit(two, last)]))
            assert await last_event_numbers(first, two) == await last_event_numbers(second, one) == list(range(1, 21))

    run_async(test())


def test_close_releases_all_leases(address: str) -> None:
    async def test() -> None:
        async with open_event_store(address) as second:
            async with store_with_experiment(address) as (_, number):
                assert not await second.acquire(number)
            assert await acquire_lease(second, number)

    run_async(test())


HOLDER = """
import asyncio, sys
from releaf.service.store import open_store
from releaf.service.store.base import Commit, FIRST_CHECKSUM, LogPage

async def hold():
    store = open_store(sys.argv[1])
    await store.open()
    number = int(sys.argv[2])
    assert await store.acquire(number)
    last = 0
    while True:
        last += 1
        await store.commit([Commit(LogPage(number, last, 1, last, 0.0, FIRST_CHECKSUM, b"x" * 500), [])])
        print(last, flush=True)

asyncio.run(hold())
"""


def test_another_process_gets_the_lease_of_a_killed_one(address: str) -> None:
    async def test() -> None:
        async with open_event_store(address) as store:
            number = (await store.create("shop", 1.0, b"{}", b"")).id
            for _ in range(3):
                acknowledged = await asyncio.to_thread(write_until_killed, address, number)
                assert await acquire_lease(store, number)
                written = await last_event_numbers(store, number)
                assert written == list(range(1, len(written) + 1))
                assert len(written) - acknowledged in (0, 1)  # the last may not have been told
                await store.commit([commit(number, len(written) + 1)])
                await store.set_aside(number, 0, "the next holder begins anew")
                await store.release(number)

    run_async(test())


def write_until_killed(address: str, number: int) -> int:
    """The number of commits that a process acknowledged before it was killed in the middle of its work."""
    command = [sys.executable, "-c", HOLDER, address, str(number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        for line in holder.stdout:
            if int(line) == 40:
                break
        holder.kill()
        rest = holder.stdout.read().split("\n")[:-1]
    return int(rest[-1]) if rest else 40


# --- versions


def with_tables(address: str, scripts: Sequence[str]) -> EventStore:
    is_postgres = address.startswith("postgresql")
    return PostgresStore(address, scripts) if is_postgres else SqliteStore(address, scripts)


def test_tables_of_an_older_version_are_migrated(address: str) -> None:
    current = POSTGRES if address.startswith("postgresql") else SQLITE
    scripts = (*current, "ALTER TABLE keys ADD COLUMN note TEXT")
    versions = f"schema version {len(scripts)}, this releaf supports versions up to {len(current)}"

    async def test() -> None:
        async with store_with_experiment(address) as (store, number):
            await store.commit([commit(number, 1)])
        newer = with_tables(address, scripts)
        for _ in range(2):
            assert await newer.open() == []
            assert await last_event_numbers(newer, number) == [1]
            await newer.close()
        assert await count(address, "keys WHERE note IS NULL") == 0
        with pytest.raises(StoreError, match=versions):
            await open_store(address).open()

    run_async(test())


def test_a_failed_migration_leaves_the_tables_unchanged(address: str) -> None:
    current = POSTGRES if address.startswith("postgresql") else SQLITE
    broken = (*current, "ALTER TABLE keys ADD COLUMN note TEXT; ALTER TABLE nowhere ADD COLUMN note TEXT")

    async def test() -> None:
        async with store_with_experiment(address) as (_, number):
            pass
        with pytest.raises(StoreError, match="nowhere"):
            await with_tables(address, broken).open()
        async with open_event_store(address) as store:
            assert [row.id for row in await store.experiments()] == [number]
            with pytest.raises(Exception, match="note"):
                await count(address, "keys WHERE note IS NULL")

    run_async(test())


def test_only_files_and_postgresql_addresses_are_stores() -> None:
    with pytest.raises(ValueError, match="store is mysql://…: expected a file or a postgresql:// address"):
        open_store("mysql://root:secret@127.0.0.1/x")
