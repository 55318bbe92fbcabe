"""Retention: drops contexts and decisions that are older than an experiment's rules from the pages of its log.

A page that lost something can't be replayed. So two snapshots must exist after it first, and the snapshots before it go
in the transaction that redacts it. What the learner has learnt stays.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import NamedTuple

import msgspec

from releaf.service.experiments.served_experiment import ServedExperiment
from releaf.service.log.events import (
    CONTEXTS,
    DECISIONS,
    AnyEvent,
    Decided,
    Expired,
    Rewarded,
    decode_page,
    encode_redacted,
    redaction_level,
)
from releaf.service.log.page_chain import LogPosition
from releaf.service.messages import RetentionRules
from releaf.service.store.base import FIRST_CHECKSUM, LogPage

INTERVAL_SECONDS = 3600.0  # between two runs
DAY_SECONDS = 86_400.0
PAGES_PER_RUN = 2_000  # so that other work of the service gets its turn
PAGES_PER_WRITE = 100
SNAPSHOTS_NEEDED = 2  # after a redacted page, in case one is damaged


class _DuePage(NamedTuple):
    """A page to redact, and the checksum of the page before it."""

    page: LogPage
    before: bytes


class RetentionRunner:
    """Applies the retention of one experiment, hourly and after a change of its rules.

    Parameters
    ----------
    experiment
        A live experiment.
    """

    def __init__(self, experiment: ServedExperiment) -> None:
        self._experiment = experiment
        self._restart(RetentionRules())

    def _restart(self, rules: RetentionRules) -> None:
        self._rules, self._next_at = rules, -math.inf
        # For each level, the end of the pages that need no further look, because earlier runs redacted them.
        self._done = {level: LogPosition(0, FIRST_CHECKSUM) for level in (DECISIONS, CONTEXTS)}

    async def run_if_due(self) -> None:
        """Redact some pages if a run is due."""
        rules = self._experiment.live().retention
        if rules != self._rules:
            self._restart(rules)
        if time.monotonic() >= self._next_at:
            is_complete = await self._run()
            self._next_at = time.monotonic() + INTERVAL_SECONDS if is_complete else -math.inf

    async def _run(self) -> bool:
        """Redact up to PAGES_PER_RUN pages; return whether no further ones are due."""
        now, is_complete = self._experiment.now(), True
        limits = {DECISIONS: _limit(now, self._rules.decisions_days), CONTEXTS: _limit(now, self._rules.contexts_days)}
        for level, limit in limits.items():
            if limit is None:
                continue
            due, end = await self._find_due(level, limit)
            if due and not await self._cover(due[-1].page.last, limits):
                return True  # try again after the interval
            for first in range(0, len(due), PAGES_PER_WRITE):
                await self._redact(due[first : first + PAGES_PER_WRITE], level, due[-1].page.last)
            self._done[level] = end
            is_complete = is_complete and len(due) < PAGES_PER_RUN
        self._experiment.clear_cache()
        return is_complete

    async def _find_due(self, level: bytes, limit: float) -> tuple[list[_DuePage], LogPosition]:
        """Pages whose events are all older than the limit and that still have what this level drops."""
        due: list[_DuePage] = []
        position = self._done[level]
        async for page in self._experiment.store.pages(self._experiment.id, position.last):
            if page.at >= limit or len(due) == PAGES_PER_RUN:
                break
            try:
                following = position.advance(page)
            except ValueError as error:
                message = f"retention stops at event {position.last}: the log is damaged after it ({error})"
                self._experiment.report(message, logging.ERROR)
                break
            events = decode_page(page.body)
            if redaction_level(page.body) not in (DECISIONS, level) and _redact_events(events, level) != events:
                due.append(_DuePage(page, position.checksum))
            position = following
            await asyncio.sleep(0)  # decisions go on meanwhile
        return due, position

    async def _cover(self, last: int, limits: dict[bytes, float | None]) -> bool:
        """Make sure that two sound snapshots are at or after an event; each needs an event of its own."""
        experiment = self._experiment
        for _ in range(SNAPSHOTS_NEEDED):
            await experiment.change("note_redaction", limits[CONTEXTS], limits[DECISIONS])
            await asyncio.shield(experiment.save_snapshot())
            known = await experiment.store.snapshots(experiment.id)
            sound = [number for number in known if number >= last and number not in experiment.snapshots.damaged]
            if len(sound) >= SNAPSHOTS_NEEDED:
                return True
        experiment.report("retention drops nothing: it needs two snapshots, and could not save them", logging.ERROR)
        return False

    async def _redact(self, due: list[_DuePage], level: bytes, last: int) -> None:
        bodies = []
        for page, before in due:
            events = _redact_events(decode_page(page.body), level)
            bodies.append((page.last, encode_redacted(events, level, before, page.checksum)))
        rewards_until = due[-1].page.last if level == DECISIONS else 0
        writing = self._experiment.store.redact(self._experiment.id, bodies, rewards_until, last)
        await asyncio.shield(writing)  # the outcome of a cancelled write would be unknown


def _limit(now: float, days: float | None) -> float | None:
    return None if days is None else now - days * DAY_SECONDS


def _redact_events(events: list[AnyEvent], level: bytes) -> list[AnyEvent]:
    if level == DECISIONS:
        return [event for event in events if not isinstance(event, Decided | Rewarded | Expired)]
    return [msgspec.structs.replace(event, context=[]) if isinstance(event, Decided) else event for event in events]
