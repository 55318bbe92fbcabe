"""Group commit: events of many requests share one write to the store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from releaf.service.errors import ApiError, StoreError, service_unavailable
from releaf.service.log.events import AnyEvent, encode_page
from releaf.service.log.write_timeout import commit_timed_out, write_timeout
from releaf.service.store.base import ChangeRow, Commit, EventStore, LogPage, RewardRow, page_checksum


class LogOwner(Protocol):
    """The owner of a log: an experiment whose events are committed."""

    id: int
    last: int  # number of the latest event that was passed to the store
    checksum: bytes  # of the page that ends with it

    def decisions(self) -> int: ...

    def before_commit(self) -> None:
        """The store is about to write all events so far; the state in memory is what the log will hold."""

    def after_commit(self, events: Sequence[AnyEvent]) -> None:
        """The events are on disk."""

    def commit_failed(self, error: StoreError) -> None:
        """The events are not on disk: the state in memory is ahead of the log, and has to be recovered from it."""


class _Batch:
    """Events of one experiment that share a page, and the requests that wait for it."""

    __slots__ = ("changes", "events", "rewards", "since", "waiters")

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        self.rewards: list[RewardRow] = []
        self.changes: list[ChangeRow] = []
        self.waiters: list[asyncio.Future[None]] = []
        self.since = time.perf_counter()

    def succeed(self) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)

    def fail(self, error: ApiError) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_exception(error)
                waiter.exception()  # mark as retrieved: the client may have disconnected


class GroupCommit:
    """Commits appended events as fast as the disk allows: while one commit runs, the next batch fills.

    Parameters
    ----------
    store
        Where to commit.
    timeout
        Write time-out: seconds after which waiting requests are answered with 503.
    on_commit
        Called after each commit with its duration in seconds and its number of events.
    on_failure
        Called after each failed commit.
    """

    def __init__(
        self,
        store: EventStore,
        timeout: float,
        on_commit: Callable[[float, int], None],
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._timeout, self._on_commit, self._on_failure = store, timeout, on_commit, on_failure
        self._filling: dict[LogOwner, _Batch] = {}
        self._in_flight: dict[LogOwner, _Batch] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._timed_out = False  # whether the commit that runs has taken longer than the time-out
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="group commit")

    async def stop(self) -> None:
        """Commit all appended events, then stop."""
        if self._task is not None:
            await self._idle.wait()
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def append(
        self,
        owner: LogOwner,
        events: Sequence[AnyEvent],
        rewards: Sequence[RewardRow] = (),
        changes: Sequence[ChangeRow] = (),
    ) -> asyncio.Future[None]:
        """Append events to a log, and their changes to the audit log; the future is done when they are on disk."""
        batch = self._filling.get(owner)
        if batch is None:
            batch = self._filling[owner] = _Batch()
        batch.events.extend(events)
        batch.rewards.extend(rewards)
        batch.changes.extend(changes)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        batch.waiters.append(waiter)
        self._wake.set()
        self._idle.clear()
        return waiter

    async def flush(self, owner: LogOwner) -> None:
        """Wait until all events of a log so far are on disk."""
        if owner in self._filling or owner in self._in_flight:
            await self.append(owner, ())

    def abort(self, owner: LogOwner, error: StoreError) -> None:
        """Fail all events of a log that no commit has taken yet: the owner's state is invalid."""
        batch = self._filling.pop(owner, None)
        if batch is not None:
            batch.fail(_commit_failed(error))

    def require_answering(self) -> None:
        """Refuse a request, before it changes anything, while a commit takes longer than the time-out."""
        if self._timed_out:
            raise service_unavailable("the store does not answer: try again soon")

    def lag(self) -> tuple[int, float]:
        """Number of events that are not on disk yet, and the age of the oldest in seconds."""
        batches = [*self._filling.values(), *self._in_flight.values()]
        if not batches:
            return 0, 0.0
        oldest = min(batch.since for batch in batches)
        return sum(len(batch.events) for batch in batches), time.perf_counter() - oldest

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._in_flight, self._filling = self._filling, {}
            try:
                await self._write(self._in_flight)
            finally:
                self._in_flight, self._timed_out = {}, False
            if not self._filling:
                self._idle.set()

    def _time_out(self) -> None:
        """Answer all requests that wait: those of the commit that runs, and those that wait for its end."""
        self._timed_out = True
        for batch in (*self._in_flight.values(), *self._filling.values()):
            batch.fail(commit_timed_out())

    async def _write(self, batches: dict[LogOwner, _Batch]) -> None:
        started = time.perf_counter()
        try:
            commits = [_next_page(owner, batch) for owner, batch in batches.items() if batch.events]
            if commits:
                with write_timeout(self._timeout, self._time_out):
                    await self._store.commit(commits)
        except Exception as failure:  # whatever it is, waiting requests must get an answer, and the next commit runs
            error = failure if isinstance(failure, StoreError) else StoreError(f"internal error: {failure!r}")
            self._on_failure()
            for owner, batch in batches.items():
                if batch.events:
                    owner.commit_failed(error)
                    self.abort(owner, error)
                batch.fail(_commit_failed(error))
            return
        self._on_commit(time.perf_counter() - started, sum(len(batch.events) for batch in batches.values()))
        for owner, batch in batches.items():
            batch.succeed()
            owner.after_commit(batch.events)


def _next_page(owner: LogOwner, batch: _Batch) -> Commit:
    body = encode_page(batch.events)
    owner.last += len(batch.events)
    owner.checksum = page_checksum(owner.checksum, owner.last, body)
    page = LogPage(
        owner.id, owner.last, len(batch.events), owner.decisions(), batch.events[-1].at, owner.checksum, body
    )
    owner.before_commit()
    return Commit(page, batch.rewards, batch.changes)


def _commit_failed(error: StoreError) -> ApiError:
    return service_unavailable(f"the commit failed; retry with the same idempotency key: {error}")
