"""Counters of an experiment."""

from __future__ import annotations

from msgspec import Struct, structs

from releaf.service.messages import Counts


class ExperimentCounters(Struct):
    """Counts since the experiment was created. Snapshots store the fields by name."""

    decisions: int = 0
    explored: int = 0
    asked: int = 0
    rewards: int = 0
    defaults: int = 0
    dropped: int = 0
    discarded: int = 0  # of those that were dropped: their clients took a default instead
    reward_sum: float = 0.0
    spent: float = 0.0  # sum of the costs of the actions taken

    def to_message(self, pending: int, made: int, unsettled: int = 0, unsettled_sum: float = 0.0) -> Counts:
        """The counts for the API.

        Parameters
        ----------
        pending
            Number of pending decisions.
        made
            Number of decisions made: numbers may be skipped.
        unsettled, unsettled_sum
            Number and sum of the rewards that do not count yet, because earlier decisions wait.
        """
        rewarded = self.rewards + self.defaults - unsettled
        fields = structs.asdict(self)
        total, _ = fields.pop("reward_sum") - unsettled_sum, fields.pop("spent")
        fields["decisions"] = made
        return Counts(**fields, waiting=pending, mean_reward=total / rewarded if rewarded else None)
