"""95 % confidence intervals of off-policy estimates, from the rows' weights, rewards and values.

Every estimate is the mean of one value per row. Where the weights are well behaved, that mean is nearly normal. Where
a few rows carry the weights, it is not: the rows that would matter most are missing from the log. Then the only safe
statement is what the rewards of the missing rows could be at worst and at best.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.statistics import Z95, standard_error

INTERVALS = ("auto", "normal", "bernstein")
MIN_VARIANCE_ROWS = (
    50.0  # below which the asymptotic interval is not trusted; benchmarks/off_policy.py counts what that gives
)
THRESHOLDS = 10  # of the weights, from which the clipped interval takes the best
_ROUNDING = 1e-6  # of propensities in a file
_MISS = 0.025  # probability that one end misses


class Interval95(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


class WeightedRewards(NamedTuple):
    """Weights and rewards of a log's rows, and the lowest and the highest reward there can be."""

    weights: Array
    rewards: Array
    lowest: float
    highest: float


def confidence_interval(kind: str, values: Array, rows: WeightedRewards) -> Interval95:
    """Interval of the mean of ``values``.

    Parameters
    ----------
    kind
        "normal": from the standard error. "auto": also corrected for skewness, and widened by the clipped interval
        where fewer than 50 rows carry the variance of the weights, or their mean is below 1 by more than chance.
        "bernstein": holds for any number of rows.
    values
        The value of each row.
    rows
        Weights and rewards of the same rows.
    """
    if kind not in INTERVALS:
        raise ValueError(f"interval must be one of {', '.join(map(repr, INTERVALS))}, got interval={kind!r}")
    mean = float(values.mean())
    if kind == "bernstein":
        return _hull(Interval95(mean, mean), bernstein_interval(rows))
    normal = normal_interval(values)
    if kind == "normal":
        return normal
    found = _hull(normal, skewed_interval(values))
    trusted = variance_rows(rows.weights) >= MIN_VARIANCE_ROWS and missing_share(rows.weights, Z95) == 0.0
    return found if trusted else _hull(found, clipped_interval(rows))


def normal_interval(values: Array) -> Interval95:
    """Interval of a mean from its standard error."""
    mean, half = float(values.mean()), Z95 * standard_error(values)
    return Interval95(mean - half, mean + half)


def skewed_interval(values: Array) -> Interval95:
    """Interval of a mean by Hall's transformation (1992), which removes skewness from Student's statistic.

    Rare rewards and unequal weights make the values skewed: a few large ones. Then the truth is above the normal
    interval more often than below it.
    """
    count, mean = len(values), float(values.mean())
    error, deviations = standard_error(values), values - mean
    spread = math.sqrt(float((deviations**2).mean()))
    skewness = float((deviations**3).mean()) / spread**3 if spread > 0 else 0.0
    if not math.isfinite(error) or abs(skewness) < 1e-9:
        return normal_interval(values)
    ends = []
    for quantile in (Z95, -Z95):
        shifted = quantile / math.sqrt(count) - skewness / (6 * count)
        student = 3.0 / skewness * (math.cbrt(1.0 + skewness * shifted) - 1.0)
        ends.append(mean - error * math.sqrt(count) * student)
    return Interval95(ends[0], ends[1])


def clipped_interval(rows: WeightedRewards) -> Interval95:
    """Interval that counts rows with large weights, and rows that the log lacks, at the worst and the best reward.

    For a threshold τ the mean of w·(r - lowest) over weights w ≤ τ underestimates the value, whatever the other rows
    would have earned; likewise from above (Bottou et al. 2013). Both means are of bounded values, so they are nearly
    normal. The best of a few thresholds is taken, quantiles of the weights.
    """
    low, high = rows.lowest, rows.highest
    taken = rows.weights[rows.weights > 0]
    for threshold in np.unique(np.quantile(taken, np.linspace(0.1, 1.0, THRESHOLDS))) if len(taken) else ():
        below, above = _clipped_values(rows, float(threshold))
        low, high = max(low, normal_interval(below).low), min(high, normal_interval(above).high)
    return Interval95(low, high)


def bernstein_interval(rows: WeightedRewards) -> Interval95:
    """Interval by the empirical Bernstein bound (Maurer and Pontil 2009) of the clipped values.

    It holds for any number of rows, if rows are independent, and is wide for few. Weights are clipped at √T / 4: a
    threshold that does not depend on the rewards and weights, as the bound demands.
    """
    count = len(rows.weights)
    if count < 2:
        return Interval95(rows.lowest, rows.highest)
    threshold = max(math.sqrt(count) / 4.0, 1.0)
    bound, log_term = threshold * (rows.highest - rows.lowest), math.log(2.0 / _MISS)
    below, above = _clipped_values(rows, threshold)
    margins = [
        math.sqrt(2.0 * float(values.var(ddof=1)) * log_term / count) + 7.0 * bound * log_term / (3.0 * (count - 1))
        for values in (below, above)
    ]
    low, high = float(below.mean()) - margins[0], float(above.mean()) + margins[1]
    return Interval95(max(low, rows.lowest), min(high, rows.highest))


def _clipped_values(rows: WeightedRewards, threshold: float) -> tuple[Array, Array]:
    """Values whose means are below and above the policy's value, from weights up to a threshold."""
    weights = np.where(rows.weights <= threshold, rows.weights, 0.0)
    below: Array = rows.lowest + weights * (rows.rewards - rows.lowest)
    above: Array = rows.highest - weights * (rows.highest - rows.rewards)
    return below, above


def variance_rows(weights: Array) -> float:
    """Number of rows that carry the variance of the weights: (Σ w²)² / Σ w⁴, the effective sample size of w²."""
    squares = weights**2
    fourth = float((squares**2).sum())
    return float(squares.sum()) ** 2 / fourth if fourth else 0.0


def missing_share(weights: Array, errors: float) -> float:
    """Share of the policy's decisions that the log lacks: what the mean weight is below 1, if by so many errors."""
    count = len(weights)
    missing = 1.0 - float(weights.mean()) if count else 0.0
    return missing if missing > max(errors * float(weights.std()) / math.sqrt(max(count, 1)), _ROUNDING) else 0.0


def widened(interval: Interval95, by: float) -> Interval95:
    return Interval95(interval.low - by, interval.high + by)


def including(interval: Interval95, value: float) -> Interval95:
    return _hull(interval, Interval95(value, value))


def _hull(one: Interval95, other: Interval95) -> Interval95:
    return Interval95(min(one.low, other.low), max(one.high, other.high))
