"""Whether a store is sound: every log is lived through from its beginning and compared with all else that is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from releaf.service.experiments import serialization as memory
from releaf.service.experiments.state import Experiment
from releaf.service.log.events import AnyEvent, Decided, Rewarded
from releaf.service.log.snapshot_check import Place, events_of, state_of
from releaf.service.store.base import ExperimentRow, Page, RewardRow, Snapshot, Store

MOST_FINDINGS = 20  # of one experiment; whatever comes after is mostly a consequence of these
ROWS_AT_ONCE = 10_000


@dataclass(slots=True)
class Audit:
    """What was found out about one experiment.

    Attributes
    ----------
    name
        Of the experiment.
    pages, events, decisions, rewards
        How many there are; rewards are decisions of which it is known what became of them.
    snapshots
        The events after which there are snapshots that are as the log says.
    findings
        What is wrong, in sentences; empty where all is well.
    state
        The experiment at the end of its log.
    """

    name: str
    pages: int = 0
    events: int = 0
    decisions: int = 0
    rewards: int = 0
    snapshots: list[int] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    state: Experiment | None = field(default=None, repr=False)

    def find(self, finding: str) -> None:
        """Note something that is wrong."""
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)


@dataclass(slots=True)
class Report:
    """What was found out about a store."""

    experiments: list[Audit]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not any(audit.findings for audit in self.experiments)


async def audit(store: Store) -> Report:
    """Check all experiments of an open store; a ValueError where another process serves one of them.

    Nothing is changed. The logs are replayed from their first snapshots: page after page has to follow the one before,
    decision after decision has to come out as it was answered, and what became of decisions, and the state at every
    snapshot, has to be what the store keeps, bit for bit.
    """
    return Report([await _audit_held(store, row) for row in await store.experiments()])


async def _audit_held(store: Store, row: ExperimentRow) -> Audit:
    """Check an experiment while nobody else can write to it."""
    was_held = store.holds(row.id)
    if not await store.acquire(row.id):
        raise ValueError(f"experiment {row.name!r} is served by another process: stop the service first")
    try:
        return await _Auditor(store, row).run()
    finally:
        if not was_held:
            await store.release(row.id)


class _Auditor:
    """Lives through the log of one experiment."""

    def __init__(self, store: Store, row: ExperimentRow) -> None:
        self._store, self._id, self._audit = store, row.id, Audit(row.name)
        self._outcomes: dict[int, RewardRow] = {}
        self._at = 0.0

    async def run(self) -> Audit:
        found, numbers = self._audit, set(await self._store.snapshots(self._id))
        start = await self._first(numbers)
        if start is None:
            return found
        place, state = start
        numbers = {last for last in numbers if last > place.last}
        found.state, found.snapshots = state, [place.last]
        async for page in self._pages(place):
            try:
                place, events = place.after(page), events_of(page)
            except ValueError as error:
                found.find(f"the log is damaged after event {place.last}: {error}")
                break
            self._live_through(state, page, events)
            if page.last in numbers:
                numbers.discard(page.last)
                await self._compare_snapshot(place, state)
        for last in sorted(numbers):
            found.find(f"the snapshot after event {last} belongs to no page of the log")
        found.events, found.decisions = place.last, state.tally.decisions
        await self._compare_rewards()
        return found

    async def _first(self, numbers: set[int]) -> tuple[Place, Experiment] | None:
        """Where the log begins, or the first snapshot that can be read."""
        for last in sorted(numbers):
            try:
                snapshot = await self._store.snapshot(self._id, last)
                state = state_of(snapshot)
            except ValueError as error:
                self._audit.find(f"the snapshot after event {last} is damaged: {error}")
                continue
            if last:
                self._audit.find(f"what happened up to event {last} can't be checked: no earlier snapshot is sound")
            return Place(last, snapshot.page_checksum), state
        self._audit.find("no snapshot can be read: restore the store from a backup")
        return None

    async def _pages(self, place: Place) -> AsyncIterator[Page]:
        async for page in self._store.pages(self._id, place.last):
            yield page
            await asyncio.sleep(0)

    def _live_through(self, state: Experiment, page: Page, events: list[AnyEvent]) -> None:
        found = self._audit
        for event in events:
            if isinstance(event, Decided) and event.number != state.tally.decisions + 1:
                found.find(f"decision {event.number} follows decision {state.tally.decisions}")
            if event.at < self._at:
                found.find(f"an event of the page that ends with event {page.last} happened before the one before it")
            self._at = event.at
            self._apply(state, event)
        if (page.decision, page.at) != (state.tally.decisions, self._at):
            found.find(f"the page that ends with event {page.last} is listed under another decision or time")
        found.pages += 1

    def _apply(self, state: Experiment, event: AnyEvent) -> None:
        outcomes, had_diverged = [], state.diverged
        if isinstance(event, Rewarded):
            if event.decision not in state.waiting:
                self._audit.find(f"decision {event.decision} got a reward that it did not wait for")
            outcomes = [RewardRow(event.decision, "rewarded", json.dumps(event.reward), event.at)]
        state.apply(event)
        if state.diverged != had_diverged:
            self._audit.find(f"decision {state.diverged} comes out differently now than it was answered")
        self._outcomes.update({row.decision: row for row in (*outcomes, *state.take_outcomes())})

    async def _compare_snapshot(self, place: Place, state: Experiment) -> None:
        found, last = self._audit, place.last
        snapshot: Snapshot = await self._store.snapshot(self._id, last)
        try:
            kept = state_of(snapshot)
        except ValueError as error:
            found.find(f"the snapshot after event {last} is damaged: {error}")
            return
        if snapshot.page_checksum != place.checksum:
            found.find(f"the snapshot after event {last} was made of another log")
        elif memory.as_bytes(kept) != memory.as_bytes(state):
            found.find(f"the snapshot after event {last} is not what the log leads to")
        else:
            found.snapshots.append(last)

    async def _compare_rewards(self) -> None:
        """What became of decisions has to stand in its table as it stands in the log."""
        found, last = self._audit, max([self._audit.decisions, *self._outcomes])
        found.rewards = len(self._outcomes)
        for first in range(1, last + 1, ROWS_AT_ONCE):
            kept = await self._store.rewards(self._id, first, first + ROWS_AT_ONCE - 1)
            for number in range(first, first + ROWS_AT_ONCE):
                expected, row = self._outcomes.get(number), kept.get(number)
                if row != expected:
                    found.find(f"the table of rewards has {row} for decision {number}, the log {expected}")
