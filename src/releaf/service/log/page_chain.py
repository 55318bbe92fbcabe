"""Checksum chain of log pages: each page must follow the previous one, with the right checksum."""

from __future__ import annotations

from typing import NamedTuple

from releaf.service.log.events import AnyEvent, decode_page
from releaf.service.store.base import EventStore, LogPage, page_checksum


class LogPosition(NamedTuple):
    """A position in a log: the number of the last event before it, and the checksum of the page that ends there."""

    last: int
    checksum: bytes

    def advance(self, page: LogPage) -> LogPosition:
        """The position after a page that follows this one; a ``ValueError`` if the page does not follow."""
        if page.last - page.events != self.last:
            raise ValueError(f"events {self.last + 1} to {page.last - page.events} are missing")
        if page_checksum(self.checksum, page.last, page.body) != page.checksum:
            raise ValueError("its checksum does not match")
        return LogPosition(page.last, page.checksum)


def decode_events(page: LogPage) -> list[AnyEvent]:
    """Decode the events of a page; a ``ValueError`` if their number is wrong."""
    events = decode_page(page.body)
    if len(events) != page.events:
        raise ValueError(f"it has {len(events)} events instead of {page.events}")
    return events


async def is_intact(store: EventStore, experiment: int, start: LogPosition, end: LogPosition) -> bool:
    """Whether the pages between two positions form an unbroken chain."""
    position = start
    async for page in store.pages(experiment, start.last):
        if page.last > end.last:
            break
        try:
            position = position.advance(page)
        except ValueError:
            return False
    return position == end
