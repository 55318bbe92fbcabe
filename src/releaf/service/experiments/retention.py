"""Retention: drops contexts and decisions that are older than an experiment's rules from the pages of its log.

It may leave keyed hashes of the contexts. What the learner has learnt stays.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import NamedTuple

import msgspec

from releaf.service.experiments.redaction import PAGES_PER_WRITE, cover, write_redacted
from releaf.service.experiments.served_experiment import ServedExperiment
from releaf.service.log.events import (
    CONTEXTS,
    DECISIONS,
    HASHED,
    Activated,
    AnyEvent,
    Decided,
    Discarded,
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
OF_DECISIONS = (Decided, Rewarded, Expired, Activated, Discarded)
PAGES_PER_RUN = 2_000  # so that other work of the service gets its turn


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
        self._done = {level: LogPosition(0, FIRST_CHECKSUM) for level in (DECISIONS, CONTEXTS, HASHED)}

    async def run_if_due(self) -> None:
        """Redact some pages if a run is due."""
        rules = self._experiment.live().retention
        if rules != self._rules:
            self._restart(rules)
        if time.monotonic() >= self._next_at:
            async with self._experiment.redacting:
                is_complete = await self._run()
            self._next_at = time.monotonic() + INTERVAL_SECONDS if is_complete else -math.inf

    async def _run(self) -> bool:
        """Redact up to PAGES_PER_RUN pages; return whether no further ones are due."""
        now, is_complete = self._experiment.now(), True
        decisions_before, contexts_before = (
            _limit(now, days) for days in (self._rules.decisions_days, self._rules.contexts_days)
        )
        of_contexts = HASHED if self._rules.hash_contexts else CONTEXTS
        limits = {DECISIONS: decisions_before, of_contexts: contexts_before}
        for level, limit in limits.items():
            if limit is None:
                continue
            due, end = await self._find_due(level, limit)
            if due:
                latest = due[-1].page
                dropped = latest.decision if level == DECISIONS else 0
                if not await cover(self._experiment, latest.last, contexts_before, decisions_before, dropped):
                    return True  # try again after the interval
            for first in range(0, len(due), PAGES_PER_WRITE):
                await self._redact(due[first : first + PAGES_PER_WRITE], level, due[-1].page.last)
            self._done[level] = end
            is_complete = is_complete and len(due) < PAGES_PER_RUN
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
            if redaction_level(page.body) not in (DECISIONS, level) and self._redact_events(events, level) != events:
                due.append(_DuePage(page, position.checksum))
            position = following
            await asyncio.sleep(0)  # decisions go on meanwhile
        return due, position

    async def _redact(self, due: list[_DuePage], level: bytes, last: int) -> None:
        bodies = []
        for page, before in due:
            events = self._redact_events(decode_page(page.body), level)
            bodies.append((page.last, encode_redacted(events, level, before, page.checksum)))
        rewards_until = due[-1].page.last if level == DECISIONS else 0
        await write_redacted(self._experiment, bodies, rewards_until, last)

    def _redact_events(self, events: list[AnyEvent], level: bytes) -> list[AnyEvent]:
        if level == DECISIONS:
            return [event for event in events if not isinstance(event, OF_DECISIONS)]
        return [self._without_context(event, level) if isinstance(event, Decided) else event for event in events]

    def _without_context(self, event: Decided, level: bytes) -> Decided:
        hashed = None
        if level == HASHED:
            hashed = self._experiment.hashes.context(event.context) if event.context else event.context_hash
        many = event.many
        if many is not None and many.actions is not None:  # their features may tell of the context
            many = msgspec.structs.replace(many, actions=dict.fromkeys(many.actions))
        return msgspec.structs.replace(event, context=[], context_hash=hashed, many=many)


def _limit(now: float, days: float | None) -> float | None:
    return None if days is None else now - days * DAY_SECONDS
