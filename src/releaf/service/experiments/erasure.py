"""Erasure of one subject: its decisions leave the log, the rewards, the learners and the snapshots.

First an event with the numbers of the decisions is committed, with which all that the state has of them goes but models
that were fitted to their contexts. A thread fits others, which take effect with a second event. Then two snapshots are
saved, and only then are pages redacted, rewards deleted and earlier snapshots dropped. So the process may die at any
point: the state is recovered from the log as it is, and the same request goes on with what is left.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from releaf.service.errors import ApiError, StoreError, service_unavailable
from releaf.service.experiments.change_records import Sender, record_erasure
from releaf.service.experiments.redaction import PAGES_PER_WRITE, cover, sound_snapshots, write_redacted
from releaf.service.experiments.served_experiment import ServedExperiment
from releaf.service.log.events import (
    ERASED,
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
from releaf.service.messages import ErasureProof
from releaf.service.store.base import FIRST_CHECKSUM, LogPage
from releaf.service.timestamps import format_timestamp

MOST_ROUNDS = 10  # for decisions of the subject that others make meanwhile
KEPT = [
    "the numbers of the decisions, in the event of the erasure",
    "counts, time series and comparisons of policies, in which the decisions are added up",
    "what learners added up over contexts: sums, means, regressions and losses",
    "single values rounded to about three digits, of any decisions: those that quantiles of features are found from, "
    "and places in the space of contexts of ContextualZooming and HybridEpsilon",
]


class SubjectSearch:
    """Finds the decisions of a subject in the log, and the pages that have something of them.

    Parameters
    ----------
    experiment
        A live experiment.
    subject
        The keyed hash that stands for the subject in the log.

    Attributes
    ----------
    decisions, rewards
        Numbers of the decisions, and of those of them that were rewarded.
    first_at
        Time of the first decision; None if there is none.
    bodies
        Event number and redacted body of each page that has something of the subject.
    pages
        Number of pages searched.
    position
        Where the search has arrived.
    """

    def __init__(self, experiment: ServedExperiment, subject: str) -> None:
        self._experiment, self._subject = experiment, subject
        self.decisions: set[int] = set()
        self.rewards: set[int] = set()
        self.first_at: float | None = None
        self.bodies: list[tuple[int, bytes]] = []
        self.pages = 0
        self.position = LogPosition(0, FIRST_CHECKSUM)

    async def run(self, until: int) -> list[int]:
        """Search the pages up to the one that ends with an event; returns the decisions that this run found."""
        known, mark = set(self.decisions), self._subject.encode()
        async for page in self._experiment.store.pages(self._experiment.id, self.position.last):
            if page.last > until:
                break
            if self.decisions or mark in page.body:
                self._search_page(page)
            self._advance(page)
            self.pages += 1
            await asyncio.sleep(0)  # decisions go on meanwhile
        return sorted(self.decisions - known)

    def _advance(self, page: LogPage) -> None:
        try:
            self.position = self.position.advance(page)
        except ValueError as error:
            raise ApiError(
                409,
                "damaged",
                f"the log is damaged after event {self.position.last} ({error}), so that it can't be searched: restart "
                "the service, which tells what can be done, and erase then",
            ) from None

    def _search_page(self, page: LogPage) -> None:
        events = decode_page(page.body)
        left = [kept for event in events if (kept := self._without_subject(event)) is not None]
        if left != events:
            level = redaction_level(page.body) or ERASED
            self.bodies.append((page.last, encode_redacted(left, level, self.position.checksum, page.checksum)))

    def _without_subject(self, event: AnyEvent) -> AnyEvent | None:
        """What is left of an event: None if it is of a decision of the subject."""
        match event:
            case Decided() if event.subject == self._subject:
                self.decisions.add(event.number)
                self.first_at = event.at if self.first_at is None else self.first_at
                return None
            case Rewarded(_, decision) if decision in self.decisions:
                self.rewards.add(decision)
                return None
            case Activated(_, decision) if decision in self.decisions:
                return None
            case Expired(_, decisions) if not self.decisions.isdisjoint(decisions):
                left = [number for number in decisions if number not in self.decisions]
                deferred = [number for number in event.deferred if number in left]
                return msgspec.structs.replace(event, decisions=left, deferred=deferred) if left else None
            case Discarded(_, keys, decisions) if not self.decisions.isdisjoint(decisions):
                kept = [pair for pair in zip(keys, decisions, strict=True) if pair[1] not in self.decisions]
                names, numbers = [key for key, _ in kept], [number for _, number in kept]
                return msgspec.structs.replace(event, keys=names, decisions=numbers) if kept else None
            case _:
                return event


async def erase_subject(experiment: ServedExperiment, subject: str, sender: Sender) -> ErasureProof:
    """Erase all decisions of a subject, and prove it; repeated, it goes on with what is left."""
    async with experiment.redacting:
        experiment.live()
        hashed = experiment.hashes.subject(subject)
        await experiment.flush()
        search, counts = SubjectSearch(experiment, hashed), {"pending": 0, "learner_rows": 0}
        for _ in range(MOST_ROUNDS):
            found = await search.run(experiment.last)
            if not found:
                break
            _add(counts, await _commit_erasure(experiment, hashed, found, sender))
            await asyncio.shield(experiment.finish_erasure())
        if search.bodies:
            await _redact(experiment, search, experiment.last)
        return await _prove(experiment, hashed, search, counts)


async def _commit_erasure(
    experiment: ServedExperiment, hashed: str, decisions: list[int], sender: Sender
) -> dict[str, int]:
    """Commit the event of the erasure with its record; returns what the state had of the decisions."""
    state = experiment.live()
    pending = sum(state.is_pending(number) for number in decisions)
    record = record_erasure(experiment.now(), sender, experiment.name, hashed, len(decisions))
    await experiment.change("erase", decisions, changes=[record])
    return {"pending": pending, "learner_rows": state.rows_erased}


def _add(counts: dict[str, int], more: dict[str, int]) -> None:
    for name, count in more.items():
        counts[name] += count


async def _redact(experiment: ServedExperiment, search: SubjectSearch, erased_at: int) -> None:
    """Redact the pages that have something of the subject, after two snapshots that have nothing of it."""
    if not await cover(experiment, erased_at):
        raise service_unavailable("the erasure needs two snapshots, and could not save them: try again")
    numbers = sorted(search.decisions)
    for first in range(0, len(search.bodies), PAGES_PER_WRITE):
        await write_redacted(experiment, search.bodies[first : first + PAGES_PER_WRITE], 0, erased_at, numbers)


async def _prove(
    experiment: ServedExperiment, hashed: str, search: SubjectSearch, counts: dict[str, Any]
) -> ErasureProof:
    """Search the log again, and tell what was done."""
    again = SubjectSearch(experiment, hashed)
    left = await again.run(search.position.last)
    if left:
        raise StoreError(f"the erasure left {len(left):,} decisions in the log: try again")
    now, is_any = format_timestamp(experiment.now()), bool(search.decisions)
    return ErasureProof(
        experiment=experiment.name,
        subject=hashed,
        at=now,
        decisions=len(search.decisions),
        rewards=len(search.rewards),
        **counts,
        redacted_pages=len(search.bodies),
        searched_pages=again.pages,
        searched_events=again.position.last,
        found_after=len(left),
        snapshots=sorted(await sound_snapshots(experiment, 0)),
        set_aside_pages=await experiment.store.count_set_aside(experiment.id),
        backups_since=None if search.first_at is None else format_timestamp(search.first_at),
        backups_before=now if is_any else None,
        kept=[*KEPT, *experiment.store.remains],
    )
