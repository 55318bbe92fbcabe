"""Confidence sequences: bounds of a mean that hold at all times at once, so that one may read them after every value.

An interval of fixed size covers the mean with 95 % when it is read once. Whoever reads it after every reward, and
stops when it is favourable, is wrong much more often. A confidence sequence covers at all times with 95 %.

>>> bound = LowerBound()
>>> for _ in range(1_000):
...     bound.add(0.5)
>>> 0.4 < bound.value < 0.5
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

LEVEL = 0.025  # α of one side, so that two sides have 0.05
TIGHTEST_AT = 1_000  # values at which `running_half_width` is closest to the interval of fixed size
BETS = tuple(0.5**power for power in range(1, 17))  # λ


@dataclass(slots=True)
class LowerBound:
    """Lower bound of the mean of values that are no less than -1, however large they are.

    For a bet λ in (0, 1), and x̂ the mean of the values before x, at most 0, so that x - x̂ ≥ -1,

        mean - (ln(1/α) + (-ln(1 - λ) - λ) Σ (x - x̂)²) / (λ t)

    is below the true mean at all times t at once with probability 1 - α (Fan, Grama and Liu 2015; Howard et al. 2021).
    A small λ gives a close bound late, a large one early; the highest of some bounds with their share of α each is one
    too.
    """

    count: int = 0
    total: float = 0.0
    squares: float = 0.0  # Σ (x - x̂)²

    def add(self, value: float) -> None:
        """Add a value, which must be at least -1."""
        expected = min(self.total / self.count, 0.0) if self.count else 0.0
        self.count += 1
        self.total += value
        self.squares += (value - expected) ** 2

    def add_sums(self, count: int, total: float, squares: float) -> None:
        """Add values of which only the number, the sum and the sum of squares are known; x̂ is the same for all."""
        expected = min(self.total / self.count, 0.0) if self.count else 0.0
        self.count += count
        self.total += total
        self.squares += max(squares - 2.0 * expected * total + count * expected * expected, 0.0)

    @property
    def value(self) -> float:
        """The bound; -1, which all values reach, before there are any."""
        if not self.count:
            return -1.0
        share = math.log(len(BETS) / LEVEL)
        width = min((share + self.squares * (-math.log1p(-bet) - bet)) / bet for bet in BETS)
        return max((self.total - width) / self.count, -1.0)


@dataclass(slots=True)
class DifferenceSums:
    """Sums over decisions that a `PairedDifference` takes later, whatever the order of their rewards.

    A sequence bounds a mean at every end of the *order of decisions*. If rewards of 1 come before those of 0, that of
    the rewards that are there is another mean.
    """

    count: int = 0
    rewards: float = 0.0
    gain: float = 0.0
    gain_squares: float = 0.0
    loss: float = 0.0
    loss_squares: float = 0.0

    def add(self, weight: float, reward: float) -> None:
        """Add a rewarded decision."""
        self._add(reward, (weight - 1.0) * reward, (weight - 1.0) * (1.0 - reward))

    def add_pair(self, other: float, own: float) -> None:
        """Add a decision for which both rewards are known."""
        self._add(own, other - own, own - other)

    def _add(self, reward: float, gain: float, loss: float) -> None:
        self.count += 1
        self.rewards += reward
        self.gain += gain
        self.gain_squares += gain * gain
        self.loss += loss
        self.loss_squares += loss * loss


@dataclass(slots=True)
class PairedDifference:
    """What another policy would have earned more than the one in charge, on the same decisions.

    With the reward r of the action taken, its propensity p, and the weight w = 1/p where the other policy takes the
    same action, else 0, the values (w - 1) r have the difference as their mean, and (w - 1) (1 - r) its negative.
    Neither is below -1, so that both bounds hold however small propensities are. Where the policy in charge never takes
    what the other would, w is too small on average, and the bounds are wider than they need to be, not wrong.

    Rewards are scaled to [0, 1].
    """

    rewards: float = 0.0  # of the policy in charge
    gain: LowerBound = field(default_factory=LowerBound)
    loss: LowerBound = field(default_factory=LowerBound)

    def add(self, weight: float, reward: float) -> None:
        """Add a rewarded decision."""
        self.rewards += reward
        self.gain.add((weight - 1.0) * reward)
        self.loss.add((weight - 1.0) * (1.0 - reward))

    def add_pair(self, other: float, own: float) -> None:
        """Add a decision for which both rewards are known."""
        self.rewards += own
        self.gain.add(other - own)
        self.loss.add(own - other)

    def add_sums(self, sums: DifferenceSums) -> None:
        """Add the decisions that follow those so far."""
        self.rewards += sums.rewards
        self.gain.add_sums(sums.count, sums.gain, sums.gain_squares)
        self.loss.add_sums(sums.count, sums.loss, sums.loss_squares)

    @property
    def count(self) -> int:
        """Number of compared decisions."""
        return self.gain.count

    @property
    def mean(self) -> float:
        """Estimated difference."""
        return self.gain.total / self.count if self.count else 0.0

    @property
    def low(self) -> float:
        """Lower bound of the difference, at all times at once with 97.5 %."""
        return self.gain.value

    @property
    def high(self) -> float:
        """Upper bound of the difference, at all times at once with 97.5 %."""
        return -self.loss.value

    @property
    def mean_in_charge(self) -> float | None:
        """Mean reward of the policy in charge on the compared decisions."""
        return self.rewards / self.count if self.count else None


def running_half_width(variance: float, count: int, level: float = 2 * LEVEL) -> float:
    """Half-width of an asymptotic confidence sequence of a mean, for values of any range (Waudby-Smith et al. 2024).

    Parameters
    ----------
    variance
        Variance of one value.
    count
        Number of values.
    level
        α: with probability 1 - α the mean is within it at all times at once, once there are some dozen values.

    >>> round(running_half_width(0.25, 1_000), 3), round(running_half_width(0.25, 100_000), 4)
    (0.048, 0.0056)
    """
    if not count:
        return math.inf
    surprise = -2.0 * math.log(level)
    square = (surprise + math.log(surprise + 1.0)) / TIGHTEST_AT  # ρ²
    grown = count * square + 1.0
    return math.sqrt(variance * 2.0 * grown / (count * count * square) * math.log(math.sqrt(grown) / level))
