"""Recovery: restore an experiment's state from its latest sound snapshot and the log after it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Generic

from releaf.service.log.page_chain import LogPosition, decode_events, is_intact
from releaf.service.log.snapshot_check import load_snapshot
from releaf.service.log.state_format import StateFormat, StateT
from releaf.service.store.base import EventStore, Snapshot

EVENTS_PER_SLICE = 500  # replayed before other tasks of the event loop get their turn


class LogDamaged(Exception):
    """A part of the log is damaged, and the recovery may not set it aside."""


class Recovery(Generic[StateT]):
    """Restores a state, and reports damage of the store on the way.

    Parameters
    ----------
    store
        Where the experiment is stored.
    experiment
        Its id there.
    state_format
        Serialization of the state.
    report
        Called with a message about damage and a logging level.
    salvage
        Whether to set a damaged part of the log aside; otherwise `run` raises :class:`LogDamaged`.

    Attributes
    ----------
    state
        The restored state; None before `run`, and if no snapshot is readable.
    position
        Position in the log of that state.
    snapshot_event
        Event number of the snapshot that recovery started from.
    last_known_decision
        Latest decision that the log mentions, even in a damaged page.
    damaged_snapshots
        Event numbers of damaged snapshots.
    replayed
        Number of events replayed so far.
    """

    def __init__(
        self,
        store: EventStore,
        experiment: int,
        state_format: StateFormat[StateT],
        report: Callable[[str, int], None],
        *,
        salvage: bool = False,
    ) -> None:
        self._store, self._id, self._format, self._report = store, experiment, state_format, report
        self._salvage = salvage
        self.state: StateT | None = None
        self.position = LogPosition(0, b"")
        self.snapshot_event = self.last_known_decision = self.replayed = 0
        self.damaged_snapshots: set[int] = set()

    async def run(self) -> StateT | None:
        """Restore the state; None if no snapshot is readable."""
        snapshot = await self._load_snapshot()
        if snapshot is None or self.state is None:
            return None
        self.position, self.snapshot_event = LogPosition(snapshot.last, snapshot.page_checksum), snapshot.last
        await self._check_pages_before(snapshot)
        await self._replay(self.state)
        self.last_known_decision = max(self.last_known_decision, await self._store.latest_set_aside(self._id))
        if self.state.diverged is not None:
            self._report(
                f"the replay of decision {self.state.diverged} chose another action than the log has. The log is "
                "authoritative, but the learner may differ from the one before the restart: check whether the "
                "processor or the version changed",
                logging.WARNING,
            )
        return self.state

    async def _load_snapshot(self) -> Snapshot | None:
        for last in await self._store.snapshots(self._id):
            try:
                snapshot = await self._store.snapshot(self._id, last)
                self.state = await asyncio.to_thread(load_snapshot, snapshot, self._format)
            except (ValueError, KeyError) as error:
                self.damaged_snapshots.add(last)
                self._report(f"the snapshot after event {last} is damaged ({error}); using an older one", logging.ERROR)
            else:
                return snapshot
        self._report("no snapshot can be read: restore the store from a backup", logging.ERROR)
        return None

    async def _replay(self, state: StateT) -> None:
        """Replay the log after the snapshot, up to its end or the first damaged page."""
        paused_at = 0
        async for page in self._store.pages(self._id, self.position.last):
            try:
                position, events = self.position.advance(page), decode_events(page)
            except ValueError as error:
                self.last_known_decision = await self._set_aside(state.decisions, str(error))
                return
            for event in events:
                state.apply(event)
            state.take_outcomes()
            self.position = position
            self.replayed += len(events)
            if self.replayed - paused_at >= EVENTS_PER_SLICE:
                paused_at = self.replayed
                await asyncio.sleep(0)
        self.last_known_decision = state.decisions

    async def _set_aside(self, decisions: int, why: str) -> int:
        """Move the damaged rest of the log aside; return the latest decision in it, as far as it can be known."""
        last = self.position.last
        rest = [(page.decision, page.events) async for page in self._store.pages(self._id, last)]
        possible = decisions + sum(events for _, events in rest)
        known = max(decisions, min(possible, max(decision for decision, _ in rest)))
        lost = f" with decisions {decisions + 1} to {known}" if known > decisions else ""
        if not self._salvage:
            raise LogDamaged(
                f"the log is damaged after event {last} ({why}). Restore a backup of the store. Or start once with "
                f"releaf serve --salvage, which sets {len(rest)} pages{lost} aside, continues from the last sound "
                "state, and never issues the lost numbers again"
            )
        moved = await self._store.set_aside(self._id, last, why)
        later = [number for number in await self._store.snapshots(self._id) if number > last]
        await self._store.drop_snapshots(self._id, later)
        self._report(
            f"the log is damaged after event {last} ({why}): {moved} pages{lost} were set aside; the experiment "
            "continues from the last sound state",
            logging.ERROR,
        )
        return known

    async def _check_pages_before(self, snapshot: Snapshot) -> None:
        """Report a damaged log between the two latest snapshots; the state itself is sound."""
        older = next((last for last in await self._store.snapshots(self._id) if last < snapshot.last), None)
        if older is None:
            return
        start = LogPosition(older, (await self._store.snapshot(self._id, older)).page_checksum)
        if not await is_intact(self._store, self._id, start, LogPosition(snapshot.last, snapshot.page_checksum)):
            self._report(
                f"the log between events {older} and {snapshot.last} is damaged: the snapshot after it has the right "
                "state, but part of the history is lost",
                logging.ERROR,
            )
