"""Decisions of an experiment, read from its log by their numbers: each page once, however many are asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from releaf.service.experiments.time_slices import TimeSlice
from releaf.service.log.events import Decided
from releaf.service.log.page_lookup import find_decisions, find_requested
from releaf.service.store.base import EventStore

NEAR = 1_000  # decisions before a page, for which going on page by page is cheaper than to search the next one
T = TypeVar("T")


class DecisionLog:
    """Reads decisions from the log of one experiment.

    Parameters
    ----------
    store
        Where the log is.
    experiment
        Id of the experiment in the store.
    """

    def __init__(self, store: EventStore, experiment: int) -> None:
        self._store, self._experiment = store, experiment

    async def read(self, numbers: Iterable[int]) -> dict[int, Decided]:
        """Decisions by number; those that the log has no longer are missing."""
        return await self._search(numbers, find_decisions)

    async def read_requested(self, numbers: Iterable[int]) -> dict[int, bool]:
        """Whether each decision asked for its reward; those that the log has no longer are missing."""
        return await self._search(numbers, find_requested)

    async def _search(
        self, numbers: Iterable[int], find: Callable[[bytes, Collection[int]], dict[int, T]]
    ) -> dict[int, T]:
        """What is found in the pages that may have these decisions, from the last page back."""
        left, found, current = sorted(set(numbers)), dict[int, T](), TimeSlice()
        while left:
            start = left.pop()  # in the first page, or in none
            candidates, page = [start], None
            async for page in self._store.pages_back(self._experiment, start):
                while left and left[-1] > page.decision - page.events:
                    candidates.append(left.pop())
                in_page = find(page.body, candidates)
                found |= in_page
                earlier = [one for one in candidates if one not in in_page and one != start and one <= page.decision]
                left += reversed(earlier)
                candidates = []
                await current.pause_if_over()
                if not left or left[-1] <= page.decision - page.events - NEAR:
                    break
            else:
                if page is not None:  # it was the log's first one
                    break
        return found
