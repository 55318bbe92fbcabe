"""Lift of a learner over a control group, with bounds that hold at all times at once.

Each decision is one of control with a fixed probability s, whatever the context and whatever happened before. So with a
reward r, and a guess m of it that only earlier rewards enter, the value (r - m) / (1 - s) of a decision of the learner,
or -(r - m) / s of one of control, has the difference of both as its mean. That holds while the learner changes. Bounds
of the running mean of these values are a confidence sequence: one may read them after every reward.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from releaf.confidence_sequence import LowerBound


@dataclass(frozen=True, slots=True)
class ControlLift:
    """By how much the learner earns more per decision than the control group.

    Attributes
    ----------
    difference
        The learner's mean reward minus that of control, in the user's units; None before both have rewards.
    lower, upper
        Bounds of the difference on average so far. They hold at all times at once with 95 %, however often one looks.
    learner_mean, control_mean
        Mean reward of each group; None without rewards.
    learner_rewards, control_rewards
        Number of rewards of each group.
    control_share
        The share of decisions that belongs to control.
    """

    difference: float | None
    lower: float
    upper: float
    learner_mean: float | None
    control_mean: float | None
    learner_rewards: int
    control_rewards: int
    control_share: float

    @property
    def is_shown(self) -> bool:
        """Whether the bounds exclude 0, so that one group is shown to earn more."""
        return self.lower > 0.0 or self.upper < 0.0


@dataclass(slots=True)
class GroupSums:
    """Rewards of the two groups, scaled to [0, 1], and the bounds of their difference.

    Parameters
    ----------
    share
        The probability with which a decision is one of control, in (0, 1).
    since
        Number of decisions before the first one whose reward counts.
    """

    share: float
    since: int = 0
    counts: list[int] = field(default_factory=lambda: [0, 0])  # rewards of the learner, of control
    totals: list[float] = field(default_factory=lambda: [0.0, 0.0])
    gain: LowerBound = field(default_factory=LowerBound)
    loss: LowerBound = field(default_factory=LowerBound)

    def add(self, is_control: bool, reward: float) -> None:
        """Add the reward of a decision."""
        count, total = sum(self.counts), sum(self.totals)
        surprise = reward - (total + 0.5) / (count + 1)
        value = self._scale * (-surprise / self.share if is_control else surprise / (1.0 - self.share))
        self.gain.add(value)
        self.loss.add(-value)
        self.counts[is_control] += 1
        self.totals[is_control] += reward

    @property
    def _scale(self) -> float:
        """Factor that makes values at least -1, as the bounds need."""
        return min(self.share, 1.0 - self.share)

    def lift(self, low: float = 0.0, span: float = 1.0) -> ControlLift:
        """The lift in the user's units.

        Parameters
        ----------
        low, span
            The lowest reward, and the width of the rewards' range.
        """
        learner, control = (
            low + span * total / count if count else None for count, total in zip(self.counts, self.totals, strict=True)
        )
        return ControlLift(
            difference=None if learner is None or control is None else learner - control,
            lower=span * max(self.gain.value / self._scale, -1.0),
            upper=span * min(-self.loss.value / self._scale, 1.0),
            learner_mean=learner,
            control_mean=control,
            learner_rewards=self.counts[0],
            control_rewards=self.counts[1],
            control_share=self.share,
        )

    def merge(self, other: GroupSums) -> GroupSums:
        """Sums of both, of the same share: rewards of different decisions."""
        bounds = (
            LowerBound(one.count + two.count, one.total + two.total, one.squares + two.squares)
            for one, two in ((self.gain, other.gain), (self.loss, other.loss))
        )
        counts = [one + two for one, two in zip(self.counts, other.counts, strict=True)]
        totals = [one + two for one, two in zip(self.totals, other.totals, strict=True)]
        return GroupSums(self.share, 0, counts, totals, *bounds)

    def to_list(self) -> list[float]:
        """All numbers but the share, for a state file."""
        bounds = [number for bound in (self.gain, self.loss) for number in (bound.total, bound.squares)]
        return [self.since, *self.counts, *self.totals, *bounds]

    @classmethod
    def from_list(cls, share: float, numbers: list[float]) -> GroupSums:
        """Read what ``to_list`` returned."""
        since, learner, control, learner_total, control_total, gain, gained, loss, lost = numbers
        counts = [int(learner), int(control)]
        if min(since, *counts, learner_total, control_total, gained, lost) < 0:
            raise ValueError("its rewards of the control group contradict the rest")
        both = sum(counts)
        return cls(
            share,
            int(since),
            counts,
            [float(learner_total), float(control_total)],
            LowerBound(both, float(gain), float(gained)),
            LowerBound(both, float(loss), float(lost)),
        )
