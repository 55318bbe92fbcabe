"""Checksum chain of log pages: each page must follow the previous one, with the right checksum.

A redacted page keeps the checksum of its original body, with which the chain goes on, and has one of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from releaf.service.log.events import AnyEvent, decode_page, is_redacted, is_redaction_sound
from releaf.service.store.base import EventStore, LogPage, page_checksum


class LogPosition(NamedTuple):
    """A position in a log: the number of the last event before it, and the checksum of the page that ends there."""

    last: int
    checksum: bytes

    def advance(self, page: LogPage) -> LogPosition:
        """The position after a page that follows this one; a ``ValueError`` if the page does not follow."""
        if page.last - page.events != self.last:
            raise ValueError(f"events {self.last + 1} to {page.last - page.events} are missing")
        if is_redacted(page.body):
            if not is_redaction_sound(page.body, self.checksum, page.checksum):
                raise ValueError("it is redacted, and the checksum of what is left does not match")
        elif page_checksum(self.checksum, page.last, page.body) != page.checksum:
            raise ValueError("its checksum does not match")
        return LogPosition(page.last, page.checksum)


def decode_events(page: LogPage) -> list[AnyEvent]:
    """Decode the events of a page; a ``ValueError`` if their number is wrong."""
    events = decode_page(page.body)
    if is_redacted(page.body):
        raise ValueError("it is redacted: a replay needs a later snapshot")
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
