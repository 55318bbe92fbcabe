"""Sensitivity of an estimate to unobserved confounders: the marginal sensitivity model (Tan 2006).

Let p be the propensity given the features, and p* given the features and what nobody recorded. The model bounds their
odds ratio: 1/Λ ≤ [p* / (1 - p*)] / [p / (1 - p)] ≤ Λ. So the true weight 1/p* of a row is between 1 + (1/p - 1)/Λ and
1 + (1/p - 1)·Λ, and the bounds of the self-normalised estimate over all such weights are exact (Zhao, Small and
Bhattacharya 2019).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.evaluate.estimators import checked_target, importance_weights
from releaf.statistics import Z95
from releaf.streams import Log

LAMBDAS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)
_PRECISION = 0.005  # of the breakdown value


class SensitivityBound(NamedTuple):
    """Bounds of a policy's value if hidden confounders change the odds of an action by a factor of Λ at most.

    ``low`` and ``high`` bound the estimate; ``low95`` and ``high95`` are the ends of its 95 % interval.
    """

    lam: float
    low: float
    high: float
    low95: float
    high95: float


def sensitivity(log: Log, chosen: Any, lambdas: Sequence[float] = LAMBDAS) -> list[SensitivityBound]:
    """Bounds of a policy's value under hidden confounding of a given strength Λ (lambda).

    Λ = 1 means none, and gives :func:`snips`. Λ = 2 means that, for two cases with the same features, the odds of an
    action may differ by a factor of up to 2 from those that the propensity says.

    Parameters
    ----------
    log, chosen
        As for :func:`ips`.
    lambdas
        Values of Λ, each at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> from releaf import evaluate, streams
    >>> log = evaluate.sample_log(streams.clicks(4_000))
    >>> none, some = evaluate.sensitivity(log, np.zeros(len(log), dtype=int), [1.0, 1.5])
    >>> some.low < none.low == none.high < some.high
    True
    """
    for lam in lambdas:
        if not (isinstance(lam, int | float) and 1.0 <= lam < math.inf):
            raise ValueError(f"lambdas must be finite numbers of at least 1, got {lam!r}")
    share, odds, rewards = _matched(log, chosen)
    if not len(share):
        return [SensitivityBound(float(lam), *[math.nan] * 4) for lam in lambdas]
    return [_bound(share, odds, rewards, float(lam)) for lam in lambdas]


def breakdown(log: Log, chosen: Any, value: float, *, most: float = 20.0) -> float:
    """Largest Λ at which a policy's value is still shown to be above ``value``, with 95 % confidence.

    1 or less is impossible: then the estimate does not show it even without confounders, and the result is 0. A result
    of 1.2 means that hidden confounders which change the odds of an action by a factor of 1.2 could explain the
    difference.

    Parameters
    ----------
    log, chosen
        As for :func:`ips`.
    value
        For example the mean reward of the log, ``log.rewards.mean()``.
    most
        Largest Λ to try.
    """
    rows = _matched(log, chosen)
    if not len(rows[0]) or _bound(*rows, 1.0).low95 <= value:
        return 0.0
    low, high = 1.0, most
    if _bound(*rows, most).low95 > value:
        return most
    while high - low > _PRECISION:
        middle = (low + high) / 2.0
        low, high = (middle, high) if _bound(*rows, middle).low95 > value else (low, middle)
    return low


def _matched(log: Log, chosen: Any) -> tuple[Array, Array, Array]:
    """The policy's probability of the logged action, 1/p - 1, and the reward, of the rows with a weight."""
    weights, target = importance_weights(log, chosen), checked_target(log, chosen)
    matched = np.flatnonzero(weights > 0)
    share = np.ones(len(matched)) if target.ndim == 1 else target[matched, log.taken[matched]]
    return share, weights[matched] / share - 1.0, np.asarray(log.rewards, dtype=np.float64)[matched]


def _bound(share: Array, odds: Array, rewards: Array, lam: float) -> SensitivityBound:
    low, low_error = _extreme(share, odds, rewards, lam)
    high, high_error = _extreme(share, odds, -rewards, lam)
    return SensitivityBound(lam, low, -high, low - Z95 * low_error, -high + Z95 * high_error)


def _extreme(share: Array, odds: Array, rewards: Array, lam: float) -> tuple[float, float]:
    """Smallest Σ w·r / Σ w over the possible weights, and its standard error at those weights.

    At the optimum the weights are the largest for the rewards below some value, and the smallest for those above.
    """
    order = np.argsort(rewards, kind="stable")
    sorted_rewards, share = rewards[order], share[order]
    light, heavy = share * (1.0 + odds[order] / lam), share * (1.0 + odds[order] * lam)
    sums = _prefix(heavy) + (light.sum() - _prefix(light))
    products = _prefix(heavy * sorted_rewards) + ((light * sorted_rewards).sum() - _prefix(light * sorted_rewards))
    cut = int(np.argmin(products / sums))
    weights = np.where(np.arange(len(order)) < cut, heavy, light)
    value = float(weights @ sorted_rewards / weights.sum())
    residuals = weights * (sorted_rewards - value)
    return value, float(np.sqrt((residuals**2).sum()) / weights.sum())


def _prefix(values: Array) -> Array:
    return np.concatenate([[0.0], np.cumsum(values)])
