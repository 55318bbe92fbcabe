"""The PostgreSQL store when its server, connection, address or privileges fail."""

from __future__ import annotations

import asyncio
import signal

import asyncpg
import postgres_server
import pytest
from event_stores import acquire_lease, commit, last_event_numbers, open_event_store, run_async, store_with_experiment
from polling import TIMEOUT_SECONDS

from releaf.service.errors import StoreError
from releaf.service.store import open_store
from releaf.service.store.base import EventStore, LeaseLost
from releaf.service.store.postgres import PostgresStore


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
def test_the_store_recovers_when_postgresql_restarts(how: signal.Signals) -> None:
    with postgres_server.own_server() as server:

        async def test() -> None:
            async with store_with_experiment(server.database()) as (store, number):
                acknowledged = 0

                async def load() -> None:
                    nonlocal acknowledged
                    for last in range(1, 1_000_000):
                        await store.commit([commit(number, last, last)])
                        acknowledged = last

                loading = asyncio.create_task(load())
                while acknowledged < 20:
                    await asyncio.sleep(0.001)
                await asyncio.to_thread(server.stop, how)
                with pytest.raises(StoreError, match=r"server is unreachable|does not hold the lease") as gone:
                    await loading
                assert postgres_server.PASSWORD not in str(gone.value)
                assert not store.holds(number)
                with pytest.raises(LeaseLost):
                    await store.commit([commit(number, acknowledged + 1)])
                for attempt in (store.ping(), store.experiments(), store.acquire(number)):
                    with pytest.raises(StoreError, match="check that it runs"):
                        await attempt
                await asyncio.to_thread(server.start)
                await store.ping()
                with pytest.raises(LeaseLost):
                    await store.commit([commit(number, acknowledged + 1)])
                assert await acquire_lease(store, number)
                written = await last_event_numbers(store, number)
                assert written == list(range(1, len(written) + 1))
                assert len(written) - acknowledged in (0, 1)
                assert list(await store.rewards(number, 1, 1_000_000)) == written
                await store.commit([commit(number, len(written) + 1)])

        run_async(test())


async def until_lost(store: EventStore, number: int) -> None:
    while store.holds(number):
        await asyncio.sleep(0.01)


def test_a_lost_connection_loses_the_lease() -> None:
    address = postgres_server.new_database()

    async def test() -> None:
        async with store_with_experiment(address) as (store, number), open_event_store(address) as second:
            admin = await asyncpg.connect(address)
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
            )
            await admin.close()
            assert await acquire_lease(second, number)
            await asyncio.wait_for(until_lost(store, number), TIMEOUT_SECONDS)
            assert isinstance(store, PostgresStore)
            store._epochs[number] = 1  # as if the connection had been cut in the moment the lease was given
            with pytest.raises(LeaseLost):
                await store.commit([commit(number, 1)])
            assert not await store.acquire(number)
            await second.commit([commit(number, 1)])
            with pytest.raises(LeaseLost):
                await store.commit([commit(number, 2)])

    run_async(test())


def test_a_cancelled_commit_loses_the_lease_because_its_outcome_is_unknown() -> None:
    async def test() -> None:
        async with store_with_experiment(postgres_server.new_database()) as (store, number):
            writing = asyncio.create_task(store.commit([commit(number, 1)]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await writing
            assert not store.holds(number)
            assert await acquire_lease(store, number)
            assert await last_event_numbers(store, number) in ([], [1])

    run_async(test())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("postgresql://postgres:open-sesame@127.0.0.1:1/x", "check that it runs"),
        ("postgresql://postgres:open-sesame@nowhere.invalid/x", "check that it runs"),
        ("postgresql://postgres:open-sesame/7@127.0.0.1/x", "is no valid address"),
        ("postgres://127.0.0.1:1/x?user=me&password=open-sesame", "check that it runs"),
    ],
)
def test_the_error_for_a_wrong_address_has_no_password(wrong: str, message: str) -> None:
    with pytest.raises(StoreError, match=message) as raised:
        asyncio.run(open_store(wrong).open())
    assert "open-sesame" not in f"{raised.value!r} {raised.value.__cause__!r}"


def test_a_missing_database_or_privilege_is_an_error_with_advice() -> None:
    address = postgres_server.new_database()

    async def test() -> None:
        with pytest.raises(StoreError, match="database does not exist; create it"):
            await open_store(address + "x").open()
        admin = await asyncpg.connect(address)
        await admin.execute("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN")
        await admin.close()
        with pytest.raises(StoreError, match="grant it CREATE on the database"):
            await open_store(address.replace("postgres:", "guest:")).open()

    run_async(test())
