"""Cohorts of decisions: figures count a cohort once the outcome of each of its decisions is known.

Where rewards have a deadline, some values come earlier than others: a click at once, the default of 0 at the end. The
mean of the rewards that are there is then not the mean reward. So decisions are counted in their order, cohort by
cohort, when none before them waits for its reward any more.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter

from msgspec import Struct

COHORTS = 32  # within the deadline of rewards


class Cohort(Struct, array_like=True, gc=False):
    """Consecutive decisions. Snapshots store the fields by position: new ones go to the end."""

    first: int  # ordinal of the first decision
    until: float  # time from which on decisions belong to the next cohort
    waiting: int = 0  # decisions without an outcome
    rewards: int = 0
    reward_sum: float = 0.0


class OpenCohorts(Struct, array_like=True):
    """The cohorts with decisions that wait for their reward, and those after them, in order.

    Without a deadline a reward may never come, and there are none. ``since`` is the ordinal after which decisions are
    counted by cohort: snapshots of earlier versions counted each reward when it came.
    """

    length: float | None  # seconds
    since: int = 0
    cohorts: list[Cohort] = []

    @classmethod
    def of(cls, within_seconds: float | None) -> OpenCohorts:
        """Cohorts of an experiment whose rewards have a deadline, or none."""
        return cls(None if within_seconds is None else within_seconds / COHORTS, 0, [])

    @property
    def unsettled_from(self) -> int | None:
        """Ordinal of the first decision that does not count yet; None if all count."""
        return self.cohorts[0].first if self.cohorts else None

    @property
    def unsettled_rewards(self) -> tuple[int, float]:
        """Number and sum of the rewards that do not count yet."""
        return sum(one.rewards for one in self.cohorts), sum(one.reward_sum for one in self.cohorts)

    def add_decisions(self, at: float, first: int, waiting: int) -> None:
        """Add decisions made at the same time: the ordinal of the first that waits for a reward, and how many do."""
        if self.length is None:
            return
        if not self.cohorts or at >= self.cohorts[-1].until:
            self.cohorts.append(Cohort(first, at + self.length))
        self.cohorts[-1].waiting += waiting

    def add_reward(self, ordinal: int, reward: float) -> None:
        """Add the reward of a decision."""
        cohort = self._cohort(ordinal)
        if cohort is not None:
            cohort.rewards += 1
            cohort.reward_sum += reward

    def key(self, ordinal: int) -> int | None:
        """Ordinal of the first decision of the cohort of a decision; None if it counts at once."""
        cohort = self._cohort(ordinal)
        return None if cohort is None else cohort.first

    def settle(self, ordinal: int) -> list[int]:
        """Note that a decision waits no more; returns the keys of the cohorts that count from now on."""
        cohort = self._cohort(ordinal)
        if cohort is None:
            return []
        cohort.waiting -= 1
        settled = 0
        while settled < len(self.cohorts) and self.cohorts[settled].waiting <= 0:
            settled += 1
        keys = [one.first for one in self.cohorts[:settled]]
        del self.cohorts[:settled]
        return keys

    def _cohort(self, ordinal: int) -> Cohort | None:
        place = bisect_right(self.cohorts, ordinal, key=attrgetter("first"))
        return self.cohorts[place - 1] if place else None
