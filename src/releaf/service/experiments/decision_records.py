"""Recorded decisions: read from the log with their outcomes, filtered, page by page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from releaf.service.errors import ApiError
from releaf.service.experiments.served_experiment import ServedExperiment
from releaf.service.experiments.time_slices import TimeSlice
from releaf.service.log.decision_record import decision_record, outcome_of
from releaf.service.log.events import DECISIONS, redaction_level
from releaf.service.log.page_lookup import DecisionHead, find_decisions, find_heads
from releaf.service.messages import Recorded, RecordedPage
from releaf.service.store.base import LogPage, RewardRow
from releaf.service.timestamps import format_timestamp

MAX_LISTED = 1000
MAX_SCANNED = 50_000  # decisions read for one page of a list
OUTCOMES = ("waiting", "rewarded", "default", "dropped", "unasked")
GROUP = 200  # decisions whose rewards are read together


class RecordFilter(NamedTuple):
    """Which decisions to list; None where all match."""

    action: str | None = None
    explored: bool | None = None
    outcome: str | None = None
    since: str | None = None  # as `format_timestamp` has it, whose order as text is the order in time
    until: str | None = None

    def is_open(self) -> bool:
        """Whether all decisions match."""
        return all(value is None for value in self)

    def may_match(self, head: DecisionHead) -> bool:
        """Whether a decision matches, whatever its outcome."""
        if self.since is not None or self.until is not None:
            at = format_timestamp(head.at)
            if (self.since is not None and at < self.since) or (self.until is not None and at >= self.until):
                return False
        return (self.explored is None or head.explored == self.explored) and (
            self.action is None or str(head.action) == self.action
        )


class ScanLimit:
    """Lets one filtered list scan a log at a time, and a few wait."""

    def __init__(self, most: int) -> None:
        self._free, self._scanning = most, asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the turn to scan; an error with status 429 if many wait."""
        if not self._free:
            raise ApiError(429, "too_many_lists", "other filtered lists are read: try again soon", retry_after=1)
        self._free -= 1
        try:
            async with self._scanning:
                yield
        finally:
            self._free += 1


async def list_decisions(
    experiment: ServedExperiment, limit: int, before: int | None, matches: RecordFilter
) -> RecordedPage:
    """The latest decisions before ``before`` that match, the latest first.

    Fewer than ``limit``, or none, come with the number to go on with after MAX_SCANNED decisions.
    """
    state = experiment.live()
    last = min(state.decisions, (before or state.decisions + 1) - 1)
    await experiment.flush()
    listed: list[Recorded] = []
    scanned, reached, current = 0, last, TimeSlice()
    if last < 1:
        return RecordedPage(decisions=[], next=None)
    async for page in experiment.store.pages_back(experiment.id, last):
        heads = [head for head in find_heads(page.body) if head.number <= last][::-1]
        for first in range(0, len(heads), GROUP):
            group = heads[first : first + GROUP]
            found = await _match(experiment, group, limit - len(listed), matches)
            is_full = len(listed) + len(found) == limit
            reached = (found if is_full else group)[-1].number
            listed += await _records(experiment, page, found)
            scanned += len(group)
            await current.pause_if_over()
            if is_full or scanned >= MAX_SCANNED:
                return RecordedPage(decisions=listed, next=reached if reached > 1 else None)
        if redaction_level(page.body) == DECISIONS:  # as all earlier ones
            return RecordedPage(decisions=listed, next=None)
        await current.pause_if_over()
    return RecordedPage(decisions=listed, next=reached if reached > 1 else None)


async def _match(
    experiment: ServedExperiment, heads: list[DecisionHead], limit: int, matches: RecordFilter
) -> list[DecisionHead]:
    """The first decisions that match, at most so many."""
    may_match = [head for head in heads if matches.may_match(head)]
    if matches.outcome is None or not may_match:
        return may_match[:limit]
    rows, waiting = await _outcomes(experiment, may_match)
    return [
        head
        for head in may_match
        if outcome_of(head.wants_reward, rows.get(head.number), head.number in waiting) == matches.outcome
    ][:limit]


async def _outcomes(experiment: ServedExperiment, heads: list[DecisionHead]) -> tuple[dict[int, RewardRow], set[int]]:
    """Outcomes of decisions, and those decisions that are pending."""
    pending = experiment.live().pending
    waiting = {head.number for head in heads if head.number in pending}
    await experiment.flush()  # a reward is then either in the table or still pending above
    asked = [head.number for head in heads if head.wants_reward]
    return await experiment.store.rewards_of(experiment.id, asked), waiting


async def _records(experiment: ServedExperiment, page: LogPage, heads: list[DecisionHead]) -> list[Recorded]:
    """The records of decisions of a page."""
    if not heads:
        return []
    names = tuple(experiment.live().learner.schema.inputs)
    events = find_decisions(page.body, [head.number for head in heads])
    rows, waiting = await _outcomes(experiment, heads)
    numbers = [head.number for head in heads]
    return [decision_record(events[one], rows.get(one), names, one in waiting) for one in numbers]


def make_filter(
    action: str | None, explored: str | None, outcome: str | None, since: str | None, until: str | None
) -> RecordFilter:
    """Build a filter from the parameters of a query; an error if one is invalid."""
    if explored not in (None, "true", "false"):
        raise ApiError(422, "invalid", f"explored is {explored!r}: expected true or false")
    if outcome is not None and outcome not in OUTCOMES:
        raise ApiError(422, "invalid", f"outcome is {outcome!r}: expected one of {', '.join(OUTCOMES)}")
    wanted = None if explored is None else explored == "true"
    return RecordFilter(action, wanted, outcome, _time("since", since), _time("until", until))


def _time(name: str, text: str | None) -> str | None:
    """Normalize a time to the format of records, whose order as text is the order in time."""
    moment = parse_time(name, text)
    return None if moment is None else format_timestamp(moment)


def parse_time(name: str, text: str | None) -> float | None:
    """Parse a time of a query, in UTC unless it has a zone, to seconds since 1970."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        format_timestamp(seconds)
    except (ValueError, OverflowError, OSError):
        raise ApiError(422, "invalid", f"{name} is {text!r}: expected a time such as 2026-01-31T12:00:00Z") from None
    return seconds
