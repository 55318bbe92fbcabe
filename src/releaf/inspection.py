"""Results of inspecting a learner: intervals, their rewards, and the effects of features."""

from __future__ import annotations

from typing import Any, NamedTuple


class Interval(NamedTuple):
    """One leaf of a feature's partition (p_{i,t}).

    ``low`` and ``high`` are encoded values in [0, 1]; both are NaN for the interval of missing values. ``level`` (l(p))
    is None for intervals that never split. ``arrivals`` counts the contexts since the interval exists; the latest
    context is counted with the next decision.
    """

    low: float
    high: float
    level: int | None
    arrivals: int


class IntervalReward(NamedTuple):
    """Reward statistics of one action in one interval: number of rewards and their mean, NaN without any."""

    count: int  # type: ignore[assignment]  # hides tuple.count
    mean: float


class Effect(NamedTuple):
    """Effect of a feature's value on an action's estimate; the value is None where it is missing."""

    value: Any
    amount: float  # in reward
