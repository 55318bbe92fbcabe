"""An experiment's state made from the store: the latest good snapshot, and the log after it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from releaf.service.experiments.state import Experiment
from releaf.service.log.snapshot_check import Place, events_of, leads_to, state_of
from releaf.service.store.base import Snapshot, Store

EVENTS_IN_A_ROW = 2000  # of a replay, before other requests get their turn


class Recovery:
    """Finds out how far the store can be trusted; says so where that is not all the way.

    Parameters
    ----------
    store
        Where the experiment is kept.
    experiment
        Its number there.
    note
        Told what its owner has to know.

    Attributes
    ----------
    state
        The experiment; None while none was made, or where no snapshot can be read.
    place
        Where in the log it is.
    begun_at
        The event after which the snapshot was made that it began from.
    known
        The latest decision that the log speaks of, be it in a page that can't be trusted.
    unreadable
        Snapshots that are damaged.
    """

    def __init__(self, store: Store, experiment: int, note: Callable[[str, int], None]) -> None:
        self._store, self._id, self._note = store, experiment, note
        self.state: Experiment | None = None
        self.place = Place(0, b"")
        self.begun_at, self.known = 0, 0
        self.unreadable: set[int] = set()

    async def run(self) -> Experiment | None:
        """Make the state."""
        snapshot = await self._read_snapshot()
        if snapshot is None or self.state is None:
            return None
        self.place, self.begun_at = Place(snapshot.last, snapshot.page_checksum), snapshot.last
        await self._check_before(snapshot)
        await self._follow(self.state)
        self.known = max(self.known, await self._store.latest_set_aside(self._id))
        if self.state.diverged is not None:
            self._note(
                f"decision {self.state.diverged} came out differently when its log was replayed: the log stands as it "
                "was answered, but the learner may not be bit for bit what it was (another processor or version?)",
                logging.WARNING,
            )
        return self.state

    async def _read_snapshot(self) -> Snapshot | None:
        for last in await self._store.snapshots(self._id):
            try:
                snapshot = await self._store.snapshot(self._id, last)
                self.state = await asyncio.to_thread(state_of, snapshot)
            except (ValueError, KeyError) as error:
                self.unreadable.add(last)
                self._note(f"the snapshot after event {last} is damaged ({error}); an older one is used", logging.ERROR)
            else:
                return snapshot
        self._note("no snapshot can be read: restore the store from a backup", logging.ERROR)
        return None

    async def _follow(self, state: Experiment) -> None:
        """Live through the log after the snapshot, up to its end or the first page that can't be trusted."""
        applied = 0
        async for page in self._store.pages(self._id, self.place.last):
            try:
                place, events = self.place.after(page), events_of(page)
            except ValueError as error:
                self.known = await self._set_aside(state.tally.decisions, str(error))
                return
            for event in events:
                state.apply(event)
            state.take_outcomes()
            self.place = place
            applied += len(events)
            if applied >= EVENTS_IN_A_ROW:
                applied = 0
                await asyncio.sleep(0)
        self.known = state.tally.decisions

    async def _set_aside(self, decisions: int, why: str) -> int:
        """Go on without the rest of the log; returns the latest decision in it, as far as that can be known."""
        last = self.place.last
        rest = [(page.decision, page.events) async for page in self._store.pages(self._id, last)]
        possible = decisions + sum(events for _, events in rest)
        known = max(decisions, min(possible, max(decision for decision, _ in rest)))
        moved = await self._store.set_aside(self._id, last, why)
        later = [number for number in await self._store.snapshots(self._id) if number > last]
        await self._store.drop_snapshots(self._id, later)
        lost = f" with decisions {decisions + 1} to {known}" if known > decisions else ""
        self._note(
            f"the log is damaged after event {last} ({why}): {moved} pages{lost} were set aside, and it goes on from "
            "the last good state",
            logging.ERROR,
        )
        return known

    async def _check_before(self, snapshot: Snapshot) -> None:
        """Say so where the log between the latest two snapshots was altered: the state is good all the same."""
        older = next((last for last in await self._store.snapshots(self._id) if last < snapshot.last), None)
        if older is None:
            return
        start = Place(older, (await self._store.snapshot(self._id, older)).page_checksum)
        if not await leads_to(self._store, self._id, start, Place(snapshot.last, snapshot.page_checksum)):
            self._note(
                f"the log between events {older} and {snapshot.last} is damaged: what happened there is in the "
                "snapshot after it, so the state is right, but the log no longer tells all of it",
                logging.ERROR,
            )
