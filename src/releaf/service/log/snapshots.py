"""Snapshots of an experiment: captured in an instant, kept in the background, old ones until the new is verified."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import NamedTuple

from releaf.service.experiments import serialization as memory
from releaf.service.experiments.state import Experiment
from releaf.service.log.snapshot_check import Place, state_of
from releaf.service.settings import Settings
from releaf.service.store.base import Snapshot, Store, body_checksum

MOST_TIME = 0.02  # that making snapshots may take, since requests want it too
KEPT = 2  # besides the first, from which the whole log can be lived through again

log = logging.getLogger("releaf.service")


class Captured(NamedTuple):
    """A snapshot that has still to be made into bytes."""

    place: Place
    to_bytes: Callable[[], bytes]


class Snapshots:
    """Makes snapshots of one experiment when they are due.

    Parameters
    ----------
    store
        Where they are kept.
    experiment
        Its number there.
    settings
        When they are due.
    note
        Told where one could not be made.

    Attributes
    ----------
    last
        The event after which the latest was made.
    unreadable
        Those that are damaged: dropped when there is a good one.
    """

    def __init__(self, store: Store, experiment: int, settings: Settings, note: Callable[[str, int], None]) -> None:
        self._store, self._id, self._settings, self._note = store, experiment, settings, note
        self.last = 0
        self.unreadable: set[int] = set()
        self._captured: Captured | None = None
        self._next_at = -math.inf
        self._saving: asyncio.Task[None] | None = None

    def consider(self, state: Experiment, place: Place) -> None:
        """Capture the state, which is as the log will be, where a snapshot is due."""
        due = place.last - self.last >= self._settings.snapshot_events
        if due and time.monotonic() >= self._next_at and (self._saving is None or self._saving.done()):
            self._captured = Captured(place, memory.freeze(state))

    def forget(self) -> None:
        """What was captured never came to be."""
        self._captured = None

    def save_captured(self) -> None:
        """Begin to save what was captured, now that the log has it."""
        if self._captured is not None:
            captured, self._captured = self._captured, None
            self._saving = asyncio.create_task(self._save(captured), name=f"snapshot of experiment {self._id}")

    async def finished(self) -> None:
        """Wait for the one that is being saved."""
        if self._saving is not None:
            await asyncio.gather(self._saving, return_exceptions=True)

    async def save(self, state: Experiment, place: Place) -> None:
        """Save the state, all of which is in the log, unless the latest snapshot has it."""
        if place.last > self.last:
            await self._save(Captured(place, memory.freeze(state)))

    async def _save(self, captured: Captured) -> None:
        """Keep a snapshot, read it again, and only then drop older ones."""
        (last, page_checksum), to_bytes = captured
        started = time.monotonic()
        try:
            body = await asyncio.to_thread(lambda: memory.packed(to_bytes()))
            await self._store.add_snapshot(Snapshot(self._id, last, body_checksum(body), body, page_checksum))
            await asyncio.to_thread(state_of, await self._store.snapshot(self._id, last))
            self.last = last
            self.unreadable.discard(last)
            sound = [last for last in await self._store.snapshots(self._id) if last not in self.unreadable]
            old = [last for last in sound[KEPT:] if last]
            await self._store.drop_snapshots(self._id, [*old, *self.unreadable])
            self.unreadable.clear()
        except Exception as error:  # whatever it is, the log is whole without a snapshot, and others want theirs
            message = f"a snapshot could not be made ({error!r}); older ones stay, and it is tried again later"
            self._note(message, logging.WARNING)
        took = time.monotonic() - started
        self._next_at = started + max(self._settings.snapshot_seconds, took / MOST_TIME)
        log.debug("experiment %d: a snapshot took %.2f s", self._id, took)
