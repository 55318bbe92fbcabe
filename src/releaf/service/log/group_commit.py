"""Group commit: events wait here until they are on disk, and many requests share one write."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from releaf.service.errors import Problem, unavailable
from releaf.service.log.events import AnyEvent, encode_page
from releaf.service.store.base import Commit, Page, RewardRow, Store, StoreError, page_checksum


class Author(Protocol):
    """Whose events are written: an experiment in the hub."""

    id: int
    last: int  # the number of the latest event that is on its way to the disk
    checksum: bytes  # of the page that ends with it

    def decisions(self) -> int: ...

    def page_taken(self) -> None:
        """The events so far are about to be written; memory is as it will be after them."""

    def page_written(self, events: Sequence[AnyEvent]) -> None:
        """They are on disk."""

    def page_lost(self, error: StoreError) -> None:
        """They are not: memory is ahead of the log, and has to be made from it anew."""


class _Batch:
    """The events of one experiment that share a page, and those who wait for it."""

    __slots__ = ("events", "rewards", "since", "waiters")

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        self.rewards: list[RewardRow] = []
        self.waiters: list[asyncio.Future[None]] = []
        self.since = time.perf_counter()


class Desk:
    """Writes what was put on it as fast as the disk allows: while one write runs, the next one gathers.

    Parameters
    ----------
    store
        Where to.
    timeout
        Seconds after which a write counts as failed for those who wait.
    written
        Told how long a write took, in seconds, and how many events it had.
    failed
        Told of each write that failed.
    """

    def __init__(
        self,
        store: Store,
        timeout: float,
        written: Callable[[float, int], None],
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._timeout, self._written, self._failed = store, timeout, written, failed
        self._gathering: dict[Author, _Batch] = {}
        self._in_flight: dict[Author, _Batch] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write."""
        self._task = asyncio.create_task(self._run(), name="desk")

    async def stop(self) -> None:
        """Write what is there, then end."""
        if self._task is not None:
            await self._idle.wait()
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def put(
        self, author: Author, events: Sequence[AnyEvent], rewards: Sequence[RewardRow] = ()
    ) -> asyncio.Future[None]:
        """Events to be written; what is returned is done when they are on disk."""
        batch = self._gathering.get(author)
        if batch is None:
            batch = self._gathering[author] = _Batch()
        batch.events.extend(events)
        batch.rewards.extend(rewards)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        batch.waiters.append(waiter)
        self._wake.set()
        self._idle.clear()
        return waiter

    async def flushed(self, author: Author) -> None:
        """Wait until all events of an experiment so far are on disk."""
        if author in self._gathering or author in self._in_flight:
            await self.put(author, ())

    def forget(self, author: Author, error: StoreError) -> None:
        """Fail all that an experiment has on its way here: its memory is no longer to be trusted."""
        batch = self._gathering.pop(author, None)
        if batch is not None:
            _fail(batch, error)

    def lag(self) -> tuple[int, float]:
        """How many events are not on disk yet, and for how many seconds the oldest has waited."""
        batches = [*self._gathering.values(), *self._in_flight.values()]
        if not batches:
            return 0, 0.0
        oldest = min(batch.since for batch in batches)
        return sum(len(batch.events) for batch in batches), time.perf_counter() - oldest

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._in_flight, self._gathering = self._gathering, {}
            try:
                await self._write(self._in_flight)
            finally:
                self._in_flight = {}
            if not self._gathering:
                self._idle.set()

    async def _write(self, batches: dict[Author, _Batch]) -> None:
        started = time.perf_counter()
        try:
            commits = [_commit(author, batch) for author, batch in batches.items() if batch.events]
            if commits:
                await self._commit(commits, batches)
        except Exception as failure:  # whatever it is, those who wait have to hear of it, and the next write goes on
            error = failure if isinstance(failure, StoreError) else StoreError(f"an error of the program: {failure!r}")
            self._failed()
            for author, batch in batches.items():
                if batch.events:
                    author.page_lost(error)
                    self.forget(author, error)
                _fail(batch, error)
            return
        self._written(time.perf_counter() - started, sum(len(batch.events) for batch in batches.values()))
        for author, batch in batches.items():
            for waiter in batch.waiters:
                if not waiter.done():
                    waiter.set_result(None)
            author.page_written(batch.events)

    async def _commit(self, commits: list[Commit], batches: dict[Author, _Batch]) -> None:
        """Write; those who wait are told after a while that it takes too long, but the write itself is seen through."""
        late = asyncio.get_running_loop().call_later(self._timeout, _fail_all, list(batches.values()))
        try:
            await self._store.commit(commits)
        finally:
            late.cancel()


def _commit(author: Author, batch: _Batch) -> Commit:
    body = encode_page(batch.events)
    author.last += len(batch.events)
    author.checksum = page_checksum(author.checksum, author.last, body)
    page = Page(
        author.id, author.last, len(batch.events), author.decisions(), batch.events[-1].at, author.checksum, body
    )
    author.page_taken()
    return Commit(page, batch.rewards)


def _fail_all(batches: list[_Batch]) -> None:
    problem = unavailable("the store takes too long to say whether this was kept: try again, with the same key")
    for batch in batches:
        _tell(batch, problem)


def _fail(batch: _Batch, error: StoreError) -> None:
    _tell(batch, unavailable(f"this could not be kept, so it was not done: {error}"))


def _tell(batch: _Batch, problem: Problem) -> None:
    for waiter in batch.waiters:
        if not waiter.done():
            waiter.set_exception(problem)
            waiter.exception()  # retrieved, also where the client has gone
