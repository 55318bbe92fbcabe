"""Sums over the decisions that took an action, from which its share, mean reward and value follow."""

from __future__ import annotations

from msgspec import Struct

from releaf import statistics


class ActionSums(Struct, array_like=True, gc=False):
    """Sums of one action. Snapshots store the fields by position: new ones go to the end.

    The weighted sums are over decisions with a known propensity p, with the weight w = 1 / p; or over all decisions
    with w = 1 where clients send the rewards of all actions.
    """

    decisions: int = 0
    floored: int = 0  # decisions with the lowest propensity that the policy allows
    rewards: int = 0
    reward_sum: float = 0.0
    reward_squares: float = 0.0
    matched: int = 0  # rewards with a weight
    w: float = 0.0
    wr: float = 0.0
    ww: float = 0.0
    wwr: float = 0.0
    wwrr: float = 0.0
    wrr: float = 0.0

    def add_weighted(self, weight: float, reward: float) -> None:
        """Add a reward with its weight."""
        weighted = weight * reward
        self.matched += 1
        self.w += weight
        self.wr += weighted
        self.ww += weight * weight
        self.wwr += weight * weighted
        self.wwrr += weighted * weighted
        self.wrr += weighted * reward

    def merge(self, other: ActionSums) -> None:
        """Add the sums of other decisions; written out, because early decisions pay for it."""
        self.decisions += other.decisions
        self.floored += other.floored
        if not (other.rewards or other.matched):
            return
        self.rewards += other.rewards
        self.reward_sum += other.reward_sum
        self.reward_squares += other.reward_squares
        self.matched += other.matched
        self.w += other.w
        self.wr += other.wr
        self.ww += other.ww
        self.wwr += other.wwr
        self.wwrr += other.wwrr
        self.wrr += other.wrr

    def minus(self, other: ActionSums) -> ActionSums:
        """The sums without those of other decisions."""
        return ActionSums(*(getattr(self, name) - getattr(other, name) for name in self.__struct_fields__))

    def is_supported(self, rewarded: int) -> bool:
        """Whether rewards tell what the action would earn everywhere."""
        return statistics.is_weight_supported(self.w, self.ww, rewarded)

    def value(self) -> float:
        """Self-normalised estimate (SNIPS) of the mean reward if the action were always taken."""
        return self.wr / self.w

    def variance(self, rewarded: int) -> float:
        """Variance of the estimate, times the number of rewarded decisions (delta method)."""
        return statistics.snips_variance(self.w, self.wr, self.ww, self.wwr, self.wwrr) * rewarded

    def covariance_with_mean(self, mean: float) -> float:
        """Covariance of the estimate with the mean reward of all decisions, times their number (delta method)."""
        value = self.value()
        return (self.wrr - (mean + value) * self.wr + mean * value * self.w) / self.w
