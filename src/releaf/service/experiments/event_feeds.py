"""Event feeds: subscriptions to the events of experiments, limited per client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from releaf.service.errors import ApiError, service_unavailable
from releaf.service.experiments.state import ExperimentState
from releaf.service.log.decision_record import decision_record
from releaf.service.log.events import AnyEvent, Decided, Discarded, Expired, Rewarded

FEED_LENGTH = 1000  # commits; a reader that is slower misses the oldest
MAX_PUBLISHED = 100  # messages of one commit
POLL_SECONDS = 2.0
PACE_SECONDS = 0.1  # between two parts of a feed
Feed = asyncio.Queue[bytes]  # of messages as server-sent events
_encode = msgspec.json.Encoder().encode


class EventFeeds:
    """All open feeds of a service.

    Parameters
    ----------
    limit
        Largest number of open feeds of one key, or of one address if no key is needed.
    total
        Largest number of open feeds of all together.
    """

    def __init__(self, limit: int, total: int) -> None:
        self._limit, self._total = limit, total
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
        if len(self._owners) >= self._total:
            message = f"{self._total} feeds of all clients are open, the maximum: try again later"
            raise ApiError(429, "too_many", message, retry_after=5)
        feed: Feed = asyncio.Queue(FEED_LENGTH)
        self._owners[feed] = owner
        return feed

    def close(self, feed: Feed) -> None:
        self._owners.pop(feed, None)

    async def next_messages(self, feed: Feed, is_allowed: Callable[[], bool]) -> bytes:
        """The next messages of a feed, as server-sent events; empty if there were none for POLL_SECONDS.

        Raises
        ------
        EOFError
            If the service stops, or ``is_allowed`` returns False: the key may have been revoked.
        """
        parts = []
        try:
            async with asyncio.timeout(POLL_SECONDS):
                parts.append(await feed.get())
        except TimeoutError:
            pass
        if parts and not self._stopped:
            await asyncio.sleep(PACE_SECONDS)
            parts += [feed.get_nowait() for _ in range(feed.qsize())]
        if self._stopped or not is_allowed():
            raise EOFError("the feed has ended")
        return b"".join(parts)

    def stop(self) -> None:
        """End all feeds now, without their remaining events."""
        self._stopped = True
        for feed in list(self._owners):
            if feed.empty():
                feed.put_nowait(b"")  # wakes its reader


def publish(feeds: set[Feed], events: Sequence[AnyEvent], state: ExperimentState | None) -> None:
    """Append the events of a commit to feeds, encoded once; a full feed loses its oldest commit.

    Without a state, which is then recovered from the log, feeds miss the events.
    """
    if not feeds or state is None:
        return
    content = encode_messages(events, state)
    for feed in feeds:
        if feed.full():
            feed.get_nowait()
        feed.put_nowait(content)


def encode_messages(events: Sequence[AnyEvent], state: ExperimentState | None) -> bytes:
    """The messages of events as server-sent events: the latest MAX_PUBLISHED, after the number of those left out."""
    messages: list[tuple[str, Any]] = []
    for event in reversed(events):
        if len(messages) < MAX_PUBLISHED:
            messages += feed_messages(event, state)[: -(MAX_PUBLISHED - len(messages)) - 1 : -1]
    count = sum(len(event.decisions) if isinstance(event, Expired) else 1 for event in events)
    if count > len(messages):
        messages.append(("skipped", {"events": count - len(messages)}))
    return b"".join(b"event: %s\ndata: %s\n\n" % (name.encode(), _encode(data)) for name, data in messages[::-1])


def feed_messages(event: AnyEvent, state: ExperimentState | None) -> list[tuple[str, Any]]:
    """The latest messages of an event: pairs of a name ("decision", "reward", "change") and its data."""
    match event:
        case Decided():
            names = tuple(state.learner.schema.inputs) if state else ()
            return [("decision", decision_record(event, None, names, True))]
        case Rewarded(_, decision, reward):
            return [("reward", {"decision": decision, "reward": reward, "outcome": "rewarded"})]
        case Expired(_, decisions, deferred):
            latest = decisions[-MAX_PUBLISHED:]
            return [("reward", _expired(number, None if number in deferred else state)) for number in latest]
        case Discarded(_, _, decisions):
            latest = [number for number in decisions if number][-MAX_PUBLISHED:]
            return [("reward", _expired(number, None)) for number in latest]
        case _:
            return [("change", {})]


def _expired(number: int, state: ExperimentState | None) -> dict[str, Any]:
    default = state.actions.default_reward(number, state.spec.rewards) if state else None
    return {"decision": number, "reward": default, "outcome": "dropped" if default is None else "default"}
