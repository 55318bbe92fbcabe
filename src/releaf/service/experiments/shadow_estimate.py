"""Off-policy estimate of a shadow's value, and of its difference from the policy in charge, reward by reward."""

from __future__ import annotations

from msgspec import Struct, field

from releaf import statistics
from releaf.confidence_sequence import PairedDifference


class ShadowEstimate(Struct):
    """Sums over rewarded decisions from which the value of a shadow follows.

    A reward counts for a shadow if the shadow chose the same action, with the importance weight w = 1 / p of the
    action's propensity p. If the rewards of all actions are known, the reward of the shadow's own action counts, with
    weight 1. Snapshots store the fields by name.
    """

    since: int = 0  # decisions before the shadow started, which don't count
    agreed: int = 0  # decisions for which it chose the same action
    decisions: int = 0
    refused: int = 0  # rewards that it could not learn, because they are out of its range
    seen: int = 0  # rewards of decisions with a known propensity
    matched: int = 0  # those of them with a weight
    w: float = 0.0
    wr: float = 0.0
    ww: float = 0.0
    wwr: float = 0.0
    wwrr: float = 0.0
    paired: PairedDifference = field(default_factory=PairedDifference)  # with the policy in charge, scaled to [0, 1]

    def add_logged(self, agrees: bool, probability: float | None, reward: float, share: float) -> None:
        """Add the reward of the action taken, which the shadow chose too if it ``agrees``.

        Parameters
        ----------
        agrees, probability, reward
            Of the decision; without a propensity it tells nothing.
        share
            The reward scaled to [0, 1].
        """
        if not probability:
            return
        self.seen += 1
        weight = 1.0 / probability if agrees else 0.0
        self.paired.add(weight, share)
        if agrees:
            self.add(weight, reward)

    def add_pair(self, reward: float, share: float, share_in_charge: float) -> None:
        """Add the reward of the shadow's own action where those of all actions are known, and both scaled."""
        self.seen += 1
        self.add(1.0, reward)
        self.paired.add_pair(share, share_in_charge)

    def add(self, weight: float, reward: float) -> None:
        self.matched += 1
        self.w += weight
        self.wr += weight * reward
        self.ww += weight * weight
        self.wwr += weight * weight * reward
        self.wwrr += weight * weight * reward * reward

    def mean_weight(self) -> float | None:
        """Mean weight: about 1 if the policy in charge sometimes takes every action that the shadow would take."""
        return self.w / self.seen if self.seen else None

    def is_supported(self) -> bool:
        """Whether the rewards determine the value: the mean weight is 1, up to random variation.

        If the policy in charge never takes the actions that the shadow prefers, no reward tells their value, and the
        estimate would only cover the decisions on which both agree.
        """
        return statistics.is_weight_supported(self.w, self.ww, self.seen)

    def value(self) -> tuple[float | None, float | None, float | None]:
        """Self-normalised estimate (SNIPS) of the mean reward, with its 95 % confidence interval (delta method).

        None if the estimate is not supported.
        """
        if not self.w or not self.is_supported():
            return None, None, None
        value, half = statistics.snips_estimate(self.w, self.wr, self.ww, self.wwr, self.wwrr)
        return (value, None, None) if self.matched < 2 else (value, value - half, value + half)

    def effective_sample_size(self) -> float:
        """Effective sample size of the estimate (Kish)."""
        return statistics.effective_sample_size(self.w, self.ww)
