"""Recorded decisions: read from the log with their outcomes, filtered, page by page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from releaf.service.errors import ApiError
from releaf.service.experiments.served_experiment import ServedExperiment
from releaf.service.log.decision_record import decision_record
from releaf.service.log.events import DECISIONS, Decided, decode_page, redaction_level
from releaf.service.messages import Recorded, RecordedPage
from releaf.service.timestamps import format_timestamp

MAX_LISTED = 1000
MAX_SCANNED = 200_000  # decisions read for one page of a list
OUTCOMES = ("waiting", "rewarded", "default", "dropped", "unasked")
RecordFilter = Callable[[Recorded], bool]


async def list_decisions(
    experiment: ServedExperiment, limit: int, before: int | None, matches: RecordFilter
) -> RecordedPage:
    """The latest decisions before ``before`` that match, the latest first."""
    state = experiment.live()
    last = min(state.decisions, (before or state.decisions + 1) - 1)
    await experiment.flush()
    matching: list[Recorded] = []
    scanned, reached = 0, last
    if last < 1:
        return RecordedPage(decisions=[], next=None)
    async for page in experiment.store.pages_back(experiment.id, last):
        events = [event for event in decode_page(page.body) if isinstance(event, Decided) and event.number <= last]
        for record in reversed(await with_rewards(experiment, events)):
            if len(matching) == limit:
                break
            reached = record.decision
            if matches(record):
                matching.append(record)
        scanned += len(events)
        if redaction_level(page.body) == DECISIONS:  # as all earlier ones
            return RecordedPage(decisions=matching, next=None)
        if len(matching) == limit or scanned >= MAX_SCANNED:
            break
    return RecordedPage(decisions=matching, next=reached if reached > 1 else None)


async def with_rewards(experiment: ServedExperiment, events: list[Decided]) -> list[Recorded]:
    """Join decisions with their rewards."""
    if not events:
        return []
    state = experiment.live()
    names = tuple(state.learner.schema.inputs)
    pending = {event.number for event in events if event.number in state.pending}
    await experiment.flush()  # a reward is then either in the table or still pending above
    rows = await experiment.store.rewards(experiment.id, events[0].number, events[-1].number)
    return [decision_record(event, rows.get(event.number), names, event.number in pending) for event in events]


def make_filter(
    action: str | None, explored: str | None, outcome: str | None, since: str | None, until: str | None
) -> RecordFilter:
    """Build a filter from the parameters of a query; an error if one is invalid."""
    if explored not in (None, "true", "false"):
        raise ApiError(422, "invalid", f"explored is {explored!r}: expected true or false")
    if outcome is not None and outcome not in OUTCOMES:
        raise ApiError(422, "invalid", f"outcome is {outcome!r}: expected one of {', '.join(OUTCOMES)}")
    first, last = _time("since", since), _time("until", until)

    def matches(record: Recorded) -> bool:
        return (
            (action is None or str(record.action) == action)
            and (explored is None or record.explored == (explored == "true"))
            and (outcome is None or record.outcome == outcome)
            and (first is None or record.at >= first)
            and (last is None or record.at < last)
        )

    return matches


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
