"""Event feeds: subscriptions to the events of experiments, limited per client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from releaf.service.errors import ApiError, service_unavailable
from releaf.service.experiments.state import ExperimentState
from releaf.service.log.decision_record import decision_record
from releaf.service.log.events import AnyEvent, Decided, Expired, Rewarded

FEED_LENGTH = 1000  # events; a reader that is slower misses the oldest
POLL_SECONDS = 2.0
Feed = asyncio.Queue[AnyEvent | None]


class EventFeeds:
    """All open feeds of a service.

    Parameters
    ----------
    limit
        Largest number of open feeds of one key, or of one address if no key is needed.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._owners: WeakKeyDictionary[Feed, str] = WeakKeyDictionary()  # a feed that is never read is collected
        self._stopped = False

    def __len__(self) -> int:
        return len(self._owners)

    def open(self, owner: str) -> Feed:
        """Open a feed; an error with status 429 if its owner has too many."""
        if self._stopped:
            raise service_unavailable("the service is stopping")
        if sum(other == owner for other in self._owners.values()) >= self._limit:
            raise ApiError(429, "too_many", f"{self._limit} feeds are open, the maximum: close one", retry_after=1)
        feed: Feed = asyncio.Queue(FEED_LENGTH)
        self._owners[feed] = owner
        return feed

    def close(self, feed: Feed) -> None:
        self._owners.pop(feed, None)

    async def next_event(self, feed: Feed, is_allowed: Callable[[], bool]) -> AnyEvent | None:
        """The next event of a feed, or None if there was none for POLL_SECONDS.

        Raises
        ------
        EOFError
            If the service stops, or ``is_allowed`` returns False: the key may have been revoked.
        """
        event = None
        try:
            async with asyncio.timeout(POLL_SECONDS):
                event = await feed.get()
        except TimeoutError:
            pass
        if self._stopped or not is_allowed():
            raise EOFError("the feed has ended")
        return event

    def stop(self) -> None:
        """End all feeds now, without their remaining events."""
        self._stopped = True
        for feed in list(self._owners):
            if feed.empty():
                feed.put_nowait(None)  # wakes its reader


def publish(feeds: set[Feed], events: Sequence[AnyEvent]) -> None:
    """Append events to feeds; a full feed loses its oldest event."""
    for feed in feeds:
        for event in events:
            if feed.full():
                feed.get_nowait()
            feed.put_nowait(event)


def feed_messages(event: AnyEvent, state: ExperimentState | None) -> list[tuple[str, Any]]:
    """The messages of an event: pairs of a name ("decision", "reward", "change") and its data."""
    match event:
        case Decided():
            names = tuple(state.learner.schema.inputs) if state else ()
            return [("decision", decision_record(event, None, names, True))]
        case Rewarded(_, decision, reward):
            return [("reward", {"decision": decision, "reward": reward, "outcome": "rewarded"})]
        case Expired(_, decisions, deferred):
            return [("reward", _expired(number, None if number in deferred else state)) for number in decisions]
        case _:
            return [("change", {})]


def _expired(number: int, state: ExperimentState | None) -> dict[str, Any]:
    default = state.actions.default_reward(number, state.spec.rewards) if state else None
    return {"decision": number, "reward": default, "outcome": "dropped" if default is None else "default"}
