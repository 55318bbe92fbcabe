"""Off-policy estimate of a shadow's value, and of its difference from the policy in charge, reward by reward."""

from __future__ import annotations

import math

from msgspec import Struct, field

from releaf import statistics
from releaf.confidence_sequence import DifferenceSums, PairedDifference

Bounds = tuple[float | None, float | None, float | None]


class WeightedSums(Struct):
    """Sums over rewarded decisions with a known propensity. Snapshots store the fields by name."""

    seen: int = 0
    matched: int = 0  # those of them with a weight
    untested: int = 0  # those whose action was certain, and not the shadow's
    w: float = 0.0
    wr: float = 0.0
    ww: float = 0.0
    wwr: float = 0.0
    wwrr: float = 0.0

    def add(self, weight: float, reward: float) -> None:
        """Add a reward that counts, with its weight."""
        self.matched += 1
        self.w += weight
        self.wr += weight * reward
        self.ww += weight * weight
        self.wwr += weight * weight * reward
        self.wwrr += weight * weight * reward * reward

    def add_sums(self, other: WeightedSums) -> None:
        """Add the sums of other decisions."""
        for name in WeightedSums.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class UnsettledSums(WeightedSums):
    """Sums of a cohort of decisions that does not count yet."""

    paired: DifferenceSums = field(default_factory=DifferenceSums)


class ShadowEstimate(WeightedSums):
    """Sums over rewarded decisions from which the value of a shadow follows.

    A reward counts for a shadow if the shadow chose the same action, with the importance weight w = 1 / p of the
    action's propensity p. If the rewards of all actions are known, the reward of the shadow's own action counts, with
    weight 1. Snapshots store the fields by name.
    """

    since: int = 0  # decisions before the shadow started, which don't count
    agreed: int = 0  # decisions for which it chose the same action
    decisions: int = 0
    refused: int = 0  # rewards that it could not learn, because they are out of its range
    paired: PairedDifference = field(default_factory=PairedDifference)  # with the policy in charge, scaled to [0, 1]
    unsettled: dict[int, UnsettledSums] = {}

    def add_logged(
        self, agrees: bool, probability: float | None, reward: float, share: float, cohort: int | None = None
    ) -> None:
        """Add the reward of the action taken, which the shadow chose too if it ``agrees``.

        Parameters
        ----------
        agrees, probability, reward
            Of the decision; without a propensity it tells nothing.
        share
            The reward scaled to [0, 1].
        cohort
            Key of the decision's cohort, which counts once it is settled; None to count the reward at once.
        """
        if not probability:
            return
        sums = self._sums(cohort)
        sums.seen += 1
        weight = 1.0 / probability if agrees else 0.0
        sums.paired.add(weight, share)
        if agrees:
            sums.add(weight, reward)
        elif probability >= 1.0:
            sums.untested += 1

    def add_pair(self, reward: float, share: float, share_in_charge: float, cohort: int | None = None) -> None:
        """Add the reward of the shadow's own action where those of all actions are known, and both scaled."""
        sums = self._sums(cohort)
        sums.seen += 1
        sums.add(1.0, reward)
        sums.paired.add_pair(share, share_in_charge)

    def settle(self, cohort: int) -> None:
        """Count a cohort: no decision before its end waits for a reward."""
        sums = self.unsettled.pop(cohort, None)
        if sums is not None:
            self.add_sums(sums)
            self.paired.add_sums(sums.paired)

    def _sums(self, cohort: int | None) -> ShadowEstimate | UnsettledSums:
        return self if cohort is None else self.unsettled.setdefault(cohort, UnsettledSums())

    def mean_weight(self) -> float | None:
        """Mean weight: about 1 if the policy in charge sometimes takes every action that the shadow would take."""
        return self.w / self.seen if self.seen else None

    def is_supported(self) -> bool:
        """Whether the rewards determine most of the value: the mean weight is about 1, up to random variation.

        If the policy in charge never takes the actions that the shadow prefers, no reward tells their value, and the
        estimate would only cover the decisions on which both agree.
        """
        is_tested = self.untested <= statistics.MAX_WEIGHT_BIAS * self.seen
        return is_tested and statistics.is_weight_supported(self.w, self.ww, self.seen)

    def _unsupported_share(self) -> float:
        """Share of the decisions on which the policy in charge could not take the shadow's action.

        Those with another, certain action are known. Of the others it is what the mean weight lacks, if that is more
        than random variation.
        """
        tested = self.seen - self.untested
        if not tested:
            return 1.0
        mean = self.w / tested
        error = math.sqrt(max(self.ww / tested - mean * mean, 0.0) / tested)
        lacking = 1.0 - mean if 1.0 - mean > 2.0 * error else 0.0
        return (self.untested + tested * lacking) / self.seen

    def value(self, reward_range: tuple[float, float]) -> Bounds:
        """Self-normalised estimate (SNIPS) of the mean reward, with its 95 % confidence interval (delta method).

        None if the estimate is not supported. On the share of the decisions that is not supported the reward may be
        any in its range, and the interval covers all of them.
        """
        if not self.w or not self.is_supported():
            return None, None, None
        value, half = statistics.snips_estimate(self.w, self.wr, self.ww, self.wwr, self.wwrr)
        if self.matched < 2:
            return value, None, None
        (least, most), unknown = reward_range, self._unsupported_share()
        low = (1.0 - unknown) * (value - half) + unknown * least
        high = (1.0 - unknown) * (value + half) + unknown * most
        return value, max(low, least), min(high, most)

    def effective_sample_size(self) -> float:
        """Effective sample size of the estimate (Kish)."""
        return statistics.effective_sample_size(self.w, self.ww)
