"""Pending decisions: those that wait for their reward."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

from releaf.service.log.events import ExperimentAction

# Action, propensity, deadline, choices of the shadows. A plain tuple, because every decision makes one.
PendingDecision = tuple[ExperimentAction, float | None, float | None, dict[str, ExperimentAction] | None]
MAX_EXPIRED_AT_ONCE = 1000


class NotPending(Exception):
    """A reward for a decision that is not pending; the log tells why."""


class PendingDecisions(OrderedDict[int, PendingDecision]):
    """Pending decisions by number, the oldest first."""

    def overdue(self, now: float) -> list[int]:
        """Numbers of the oldest decisions whose deadline has passed, at most MAX_EXPIRED_AT_ONCE."""
        numbers = []
        for number, (_, _, deadline, _) in islice(self.items(), MAX_EXPIRED_AT_ONCE):
            if deadline is None or deadline > now:
                break
            numbers.append(number)
        return numbers

    def with_action(self, action: ExperimentAction) -> list[int]:
        """Numbers of the decisions that took an action."""
        return [number for number, pending in self.items() if pending[0] == action]

    def drop_oldest(self, most: int) -> None:
        """Keep only the newest ``most`` decisions."""
        while len(self) > most:
            self.popitem(last=False)
