"""Snapshots of an experiment: captured in an instant, saved in the background, and verified before old ones go."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import Generic, NamedTuple

from releaf.service.log.page_chain import LogPosition
from releaf.service.log.snapshot_check import load_snapshot
from releaf.service.log.state_format import StateFormat, StateT, compress
from releaf.service.settings import ServiceSettings
from releaf.service.store.base import EventStore, Snapshot, body_checksum

MAX_TIME_SHARE = 0.02  # of the time may go into snapshots: they compete with requests
OVERDUE = 3  # times the events after which one is due: then it is saved all the same, since a recovery replays them
SIZE_SHARE = (
    0.5  # of its entries, after so many events a state may be overdue: to save them takes longer than to replay
)
SNAPSHOTS_KEPT = 2  # besides the first, from which the whole log can be replayed

log = logging.getLogger("releaf.service")


class CapturedState(NamedTuple):
    """A state that was captured, and still has to be serialized."""

    position: LogPosition
    to_bytes: Callable[[], bytes]


class SnapshotWriter(Generic[StateT]):
    """Saves snapshots of one experiment when they are due.

    Parameters
    ----------
    store
        Where to save.
    experiment
        Id of the experiment in the store.
    state_format
        Serialization of the state.
    settings
        When snapshots are due.
    report
        Called with a message and a logging level if a snapshot fails.

    Attributes
    ----------
    last
        Event number of the latest snapshot.
    damaged
        Event numbers of damaged snapshots, to be dropped after the next good one.
    """

    def __init__(
        self,
        store: EventStore,
        experiment: int,
        state_format: StateFormat[StateT],
        settings: ServiceSettings,
        report: Callable[[str, int], None],
    ) -> None:
        self._store, self._id, self._format = store, experiment, state_format
        self._settings, self._report = settings, report
        self.last = 0
        self.damaged: set[int] = set()
        self._captured: CapturedState | None = None
        self._next_at = -math.inf
        self._saving: asyncio.Task[None] | None = None

    def capture_if_due(self, state: StateT, position: LogPosition) -> None:
        """Capture a state whose log ends at this position, if a snapshot is due."""
        events, due = position.last - self.last, self._settings.snapshot_events
        overdue = max(OVERDUE * due, int(SIZE_SHARE * state.size))
        is_due = events >= due and (time.monotonic() >= self._next_at or events >= overdue)
        if is_due and (self._saving is None or self._saving.done()):
            self._captured = CapturedState(position, self._format.freeze(state))

    def discard_captured(self) -> None:
        """Discard a captured state whose events were not committed."""
        self._captured = None

    def save_captured(self) -> None:
        """Start to save the captured state, now that its events are committed."""
        if self._captured is not None:
            captured, self._captured = self._captured, None
            self._saving = asyncio.create_task(self._save(captured), name=f"snapshot of experiment {self._id}")

    async def wait(self) -> None:
        """Wait for the snapshot that is being saved."""
        if self._saving is not None:
            await asyncio.gather(self._saving, return_exceptions=True)

    async def save(self, state: StateT, position: LogPosition) -> None:
        """Save a committed state, unless the latest snapshot is at its position."""
        if position.last > self.last:
            await self._save(CapturedState(position, self._format.freeze(state)))

    async def _save(self, captured: CapturedState) -> None:
        """Save a snapshot, read it back, and only then drop older ones."""
        (last, page_checksum), to_bytes = captured
        started = time.monotonic()
        try:
            body = await asyncio.to_thread(lambda: compress(to_bytes()))
            await self._store.add_snapshot(Snapshot(self._id, last, body_checksum(body), body, page_checksum))
            await asyncio.to_thread(load_snapshot, await self._store.snapshot(self._id, last), self._format)
            self.last = last
            self.damaged.discard(last)
            sound = [last for last in await self._store.snapshots(self._id) if last not in self.damaged]
            old = [last for last in sound[SNAPSHOTS_KEPT:] if last]
            await self._store.drop_snapshots(self._id, [*old, *self.damaged])
            self.damaged.clear()
        except Exception as error:  # whatever it is: the log is complete without this snapshot
            message = f"saving a snapshot failed ({error!r}); older ones stay, and the service tries again later"
            self._report(message, logging.WARNING)
        took = time.monotonic() - started
        self._next_at = started + max(self._settings.snapshot_seconds, took / MAX_TIME_SHARE)
        log.debug("experiment %d: a snapshot took %.2f s", self._id, took)
