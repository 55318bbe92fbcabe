"""Counters of an experiment."""

from __future__ import annotations

from msgspec import Struct

from releaf.service.messages import Counts


class ExperimentCounters(Struct):
    """Counts since the experiment was created. Snapshots store the fields by name."""

    decisions: int = 0
    explored: int = 0
    asked: int = 0
    rewards: int = 0
    defaults: int = 0
    dropped: int = 0
    reward_sum: float = 0.0

    def to_message(self, pending: int) -> Counts:
        """The counts for the API; ``pending`` is the number of pending decisions."""
        rewarded = self.rewards + self.defaults
        return Counts(
            decisions=self.decisions,
            explored=self.explored,
            asked=self.asked,
            rewards=self.rewards,
            defaults=self.defaults,
            dropped=self.dropped,
            waiting=pending,
            mean_reward=self.reward_sum / rewarded if rewarded else None,
        )
