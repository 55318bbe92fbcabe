"""Event stores to test with, and pages and commits to write to them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from polling import TIMEOUT_SECONDS

from releaf.service.store import open_store
from releaf.service.store.base import FIRST_CHECKSUM, Commit, EventStore, LogPage, RewardRow


@asynccontextmanager
async def open_event_store(address: str) -> AsyncIterator[EventStore]:
    store = open_store(address)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def store_with_experiment(address: str) -> AsyncIterator[tuple[EventStore, int]]:
    """A store and the number of an experiment whose lease it holds."""
    async with open_event_store(address) as store:
        made = await store.create("shop", 1.0, b"{}", b"first")
        assert await store.acquire(made.id)
        yield store, made.id


def run_async(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 2 * TIMEOUT_SECONDS))


def page(number: int, last: int, events: int = 1, decision: int | None = None, body: bytes = b"events") -> LogPage:
    return LogPage(number, last, events, last if decision is None else decision, 0.1 + last, FIRST_CHECKSUM, body)


def commit(number: int, last: int, *rewarded: int) -> Commit:
    return Commit(page(number, last), [RewardRow(n, "rewarded", "0.5", 7.25) for n in rewarded])


async def last_event_numbers(store: EventStore, number: int, after: int = 0) -> list[int]:
    return [page.last async for page in store.pages(number, after)]


async def acquire_lease(store: EventStore, number: int) -> bool:
    """Ask for a lease until it is granted; False after the time-out."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not await store.acquire(number):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True
