"""Audit of a store: replay every log from its start, and compare the result with the snapshots and rewards."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Generic

from releaf.service.log.events import AnyEvent, Decided, Rewarded, is_redacted
from releaf.service.log.page_chain import LogPosition, decode_events
from releaf.service.log.snapshot_check import load_snapshot
from releaf.service.log.state_format import StateFormat, StateT
from releaf.service.store.base import FIRST_CHECKSUM, EventStore, ExperimentRow, LogPage, RewardRow, Snapshot

MAX_FINDINGS = 20  # per experiment; later ones are mostly consequences of these
ROWS_PER_READ = 10_000


@dataclass(slots=True)
class ExperimentAudit(Generic[StateT]):
    """Result of the audit of one experiment.

    Attributes
    ----------
    name
        Of the experiment.
    pages, events, decisions, rewards
        Their numbers; rewards counts the decisions with a known outcome.
    replayed_from
        Number of the event after which the replay starts: 0, or that of the first snapshot after redacted pages, of
        which only the checksums are checked.
    snapshots
        Event numbers of the snapshots that agree with the log.
    findings
        What is wrong, in sentences; empty if the experiment is sound.
    state
        The state at the end of the log.
    """

    name: str
    pages: int = 0
    events: int = 0
    decisions: int = 0
    rewards: int = 0
    replayed_from: int = 0
    snapshots: list[int] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    state: StateT | None = field(default=None, repr=False)

    def add_finding(self, finding: str) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(finding)


@dataclass(slots=True)
class AuditReport(Generic[StateT]):
    """Result of the audit of a store."""

    experiments: list[ExperimentAudit[StateT]]

    @property
    def is_sound(self) -> bool:
        """Whether no experiment has findings."""
        return not any(audit.findings for audit in self.experiments)


async def audit(store: EventStore, state_format: StateFormat[StateT]) -> AuditReport[StateT]:
    """Audit all experiments of an open store, without changing it.

    Replays each log from its first snapshot and checks that every page follows the previous one, that every decision
    comes out as the log has it, and that outcomes and snapshots agree with the replay, bit for bit. Raises a
    ``ValueError`` if another process serves an experiment.
    """
    return AuditReport([await _audit_with_lease(store, state_format, row) for row in await store.experiments()])


async def _audit_with_lease(
    store: EventStore, state_format: StateFormat[StateT], row: ExperimentRow
) -> ExperimentAudit[StateT]:
    was_held = store.holds(row.id)
    if not await store.acquire(row.id):
        raise ValueError(f"another process serves experiment {row.name!r}: stop the service first")
    try:
        return await _Auditor(store, state_format, row).run()
    finally:
        if not was_held:
            await store.release(row.id)


class _Auditor(Generic[StateT]):
    """Replays and checks the log of one experiment."""

    def __init__(self, store: EventStore, state_format: StateFormat[StateT], row: ExperimentRow) -> None:
        self._store, self._format, self._id = store, state_format, row.id
        self._audit: ExperimentAudit[StateT] = ExperimentAudit(row.name)
        self._outcomes: dict[int, RewardRow] = {}
        self._at = self._replayed_at = 0.0

    async def run(self) -> ExperimentAudit[StateT]:
        audit, numbers = self._audit, set(await self._store.snapshots(self._id))
        start = await self._load_first(numbers)
        if start is None:
            return audit
        position, state = start
        if position.last:
            await self._check_before(position)
        audit.replayed_from, self._replayed_at = position.last, state.last_at
        numbers = {last for last in numbers if last > position.last}
        audit.state, audit.snapshots = state, [position.last]
        async for page in self._pages(position):
            try:
                position, events = position.advance(page), decode_events(page)
            except ValueError as error:
                audit.add_finding(f"the log is damaged after event {position.last}: {error}")
                break
            self._replay_page(state, page, events)
            if page.last in numbers:
                numbers.discard(page.last)
                await self._compare_snapshot(position, state)
        for last in sorted(numbers):
            audit.add_finding(f"the snapshot after event {last} belongs to no page of the log")
        audit.events, audit.decisions = position.last, state.decisions
        if state.unaccounted():
            audit.add_finding(
                f"{state.unaccounted():,} decisions asked for a reward, and are neither rewarded, defaulted, dropped "
                "nor pending"
            )
        await self._compare_rewards()
        return audit

    async def _load_first(self, numbers: set[int]) -> tuple[LogPosition, StateT] | None:
        """Load the first readable snapshot."""
        for last in sorted(numbers):
            try:
                snapshot = await self._store.snapshot(self._id, last)
                state = load_snapshot(snapshot, self._format)
            except ValueError as error:
                self._audit.add_finding(f"the snapshot after event {last} is damaged: {error}")
                continue
            return LogPosition(last, snapshot.page_checksum), state
        self._audit.add_finding("no snapshot can be read: restore the store from a backup")
        return None

    async def _check_before(self, end: LogPosition) -> None:
        """Check the checksums of the pages that can't be replayed, because they are redacted."""
        position, is_any_redacted = LogPosition(0, FIRST_CHECKSUM), False
        async for page in self._pages(position):
            if page.last > end.last:
                break
            try:
                position = position.advance(page)
            except ValueError as error:
                self._audit.add_finding(f"the log is damaged after event {position.last}: {error}")
                return
            is_any_redacted |= is_redacted(page.body)
        if not is_any_redacted:
            self._audit.add_finding(f"events up to {end.last} can't be checked: no earlier snapshot is sound")
        elif position != end:
            self._audit.add_finding(f"the snapshot after event {end.last} belongs to another log")

    async def _pages(self, position: LogPosition) -> AsyncIterator[LogPage]:
        async for page in self._store.pages(self._id, position.last):
            yield page
            await asyncio.sleep(0)

    def _replay_page(self, state: StateT, page: LogPage, events: list[AnyEvent]) -> None:
        audit = self._audit
        for event in events:
            if isinstance(event, Decided) and event.number != state.decisions + 1:
                audit.add_finding(f"decision {event.number} follows decision {state.decisions}")
            if event.at < self._at:
                audit.add_finding(
                    f"in the page that ends with event {page.last}, an event is earlier than the previous"
                )
            self._at = event.at
            self._apply(state, event)
        if (page.decision, page.at) != (state.decisions, self._at):
            audit.add_finding(f"the page that ends with event {page.last} is listed under another decision or time")
        audit.pages += 1

    def _apply(self, state: StateT, event: AnyEvent) -> None:
        had_diverged = state.diverged
        if isinstance(event, Rewarded) and not state.is_pending(event.decision):
            self._audit.add_finding(f"decision {event.decision} has a reward but was not pending")
        state.apply(event)
        if state.diverged != had_diverged:
            self._audit.add_finding(f"the replay of decision {state.diverged} chose another action than the log has")
        self._outcomes.update({row.decision: row for row in state.take_outcomes()})

    async def _compare_snapshot(self, position: LogPosition, state: StateT) -> None:
        audit, last = self._audit, position.last
        snapshot: Snapshot = await self._store.snapshot(self._id, last)
        try:
            saved = load_snapshot(snapshot, self._format)
        except ValueError as error:
            audit.add_finding(f"the snapshot after event {last} is damaged: {error}")
            return
        if snapshot.page_checksum != position.checksum:
            audit.add_finding(f"the snapshot after event {last} belongs to another log")
        elif not self._format.agree(saved, state):
            audit.add_finding(f"the snapshot after event {last} differs from the replayed state")
        else:
            audit.snapshots.append(last)

    async def _compare_rewards(self) -> None:
        """Compare the table of rewards with the outcomes in the log."""
        audit, ordered = self._audit, sorted(self._outcomes)
        audit.rewards, begin, place = len(ordered), 1, 0
        while True:  # from one row to the next: numbers may be skipped by the billion
            following = await self._store.next_reward(self._id, begin)
            known = [*ordered[place : place + 1], *([] if following is None else [following])]
            if not known:
                return
            first, begin = min(known), min(known) + ROWS_PER_READ
            stored = await self._store.rewards(self._id, first, begin - 1)
            until = bisect_left(ordered, begin)
            for number in sorted({*stored, *ordered[place:until]}):
                expected, row = self._outcomes.get(number), stored.get(number)
                if expected is None and row is not None and row.at <= self._replayed_at:
                    continue  # before the start of the replay
                if row != expected:
                    audit.add_finding(f"the table of rewards has {row} for decision {number}, the log {expected}")
            place = until
