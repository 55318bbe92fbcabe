"""Stores to test with, and what is written to them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from releaf.service.store import open_store
from releaf.service.store.base import FIRST_CHECKSUM, Commit, EventStore, LogPage, RewardRow

PATIENCE = 20.0  # seconds until a lease has to be free


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[EventStore]:
    store = open_store(address)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def experiment(address: str) -> AsyncIterator[tuple[EventStore, int]]:
    """A store with an experiment that it may write to."""
    async with opened(address) as store:
        made = await store.create("shop", 1.0, b"{}", b"first")
        assert await store.acquire(made.id)
        yield store, made.id


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 120))


def page(number: int, last: int, events: int = 1, decision: int | None = None, body: bytes = b"events") -> LogPage:
    return LogPage(number, last, events, last if decision is None else decision, 0.1 + last, FIRST_CHECKSUM, body)


def commit(number: int, last: int, *rewarded: int) -> Commit:
    return Commit(page(number, last), [RewardRow(n, "rewarded", "0.5", 7.25) for n in rewarded])


async def lasts(store: EventStore, number: int, after: int = 0) -> list[int]:
    return [found.last async for found in store.pages(number, after)]


async def acquired(store: EventStore, number: int) -> bool:
    """Ask for a lease until it is there; False when it takes too long."""
    until = time.monotonic() + PATIENCE
    while not await store.acquire(number):
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.02)
    return True
