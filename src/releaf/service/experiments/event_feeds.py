"""Those who watch what happens in experiments: how many there may be, and that they leave when the service ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary

from releaf.service.errors import Problem, unavailable
from releaf.service.log.events import AnyEvent

FEED_LENGTH = 1000
LOOK_SECONDS = 2.0
Feed = asyncio.Queue[AnyEvent | None]


class Watchers:
    """The feeds of a service.

    Parameters
    ----------
    most
        How many feeds one key may have, or one address where no key is needed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._owners: WeakKeyDictionary[Feed, str] = WeakKeyDictionary()  # one that is never read is forgotten
        self._ended = False

    def __len__(self) -> int:
        return len(self._owners)

    def admit(self, owner: str) -> Feed:
        """A new feed; a problem with the status 429 where its owner has too many."""
        if self._ended:
            raise unavailable("the service is stopping")
        if sum(other == owner for other in self._owners.values()) >= self._most:
            raise Problem(429, "too_many", f"{self._most} feeds are open already: close one", retry_after=1)
        feed: Feed = asyncio.Queue(FEED_LENGTH)
        self._owners[feed] = owner
        return feed

    def leave(self, feed: Feed) -> None:
        """Make room for another feed."""
        self._owners.pop(feed, None)

    async def next(self, feed: Feed, may_watch: Callable[[], bool]) -> AnyEvent | None:
        """The next event of a feed, or None where there was none for two seconds.

        Raises
        ------
        EOFError
            When the service ends, or whoever watches may no longer: their key may have been revoked.
        """
        event = None
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                event = await feed.get()
        except TimeoutError:
            pass
        if self._ended or not may_watch():
            raise EOFError("the feed has ended")
        return event

    def end(self) -> None:
        """End all feeds now, whatever is still in them."""
        self._ended = True
        for feed in list(self._owners):
            if feed.empty():
                feed.put_nowait(None)  # wakes whoever waits
