"""What a store gives back is believed only where its checksum is right and it follows what came before."""

from __future__ import annotations

from typing import NamedTuple

from releaf.service.experiments import serialization as memory
from releaf.service.experiments.state import Experiment
from releaf.service.log.events import AnyEvent, decode_page
from releaf.service.store.base import Page, Snapshot, Store, body_checksum, page_checksum


class Place(NamedTuple):
    """Where one is in a log: after which event, and the checksum of the page that ends with it."""

    last: int
    checksum: bytes

    def after(self, page: Page) -> Place:
        """The place after a page that follows this one; a ValueError where it does not."""
        if page.last - page.events != self.last:
            raise ValueError(f"events {self.last + 1} to {page.last - page.events} are missing")
        if page_checksum(self.checksum, page.last, page.body) != page.checksum:
            raise ValueError("its checksum does not match")
        return Place(page.last, page.checksum)


def events_of(page: Page) -> list[AnyEvent]:
    """The events of a page; a ValueError where it holds others than it says."""
    events = decode_page(page.body)
    if len(events) != page.events:
        raise ValueError(f"it has {len(events)} events instead of {page.events}")
    return events


def state_of(snapshot: Snapshot) -> Experiment:
    """The experiment that a snapshot holds; a ValueError where it holds none."""
    if body_checksum(snapshot.body) != snapshot.checksum:
        raise ValueError("its checksum does not match")
    return memory.from_bytes(memory.unpacked(snapshot.body))


async def leads_to(store: Store, experiment: int, start: Place, end: Place) -> bool:
    """Whether the log between two places is as it was written."""
    place = start
    async for page in store.pages(experiment, start.last):
        if page.last > end.last:
            break
        try:
            place = place.after(page)
        except ValueError:
            return False
    return place == end
