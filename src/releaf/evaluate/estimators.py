"""Off-policy estimators of a policy's mean reward, from a log of another policy's decisions.

With w = π(a|x) / p, the policy's probability of the logged action over its propensity, and q a model of rewards:

========================  ============================================================
:func:`ips`               mean of w·r
:func:`snips`             Σ w·r / Σ w
:func:`direct_method`     mean of q(x, π)
:func:`doubly_robust`     mean of q(x, π) + w·(r - q(x, a))
:func:`sndr`              mean of q(x, π) + Σ w·(r - q(x, a)) / Σ w
:func:`switch_dr`         as doubly robust, without the correction where w exceeds a threshold
========================  ============================================================
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.evaluate.confidence_intervals import (
    Interval95,
    WeightedRewards,
    confidence_interval,
    including,
    normal_interval,
    widened,
)
from releaf.evaluate.reward_models import cross_fit_rewards
from releaf.statistics import effective_sample_size, standard_error
from releaf.streams import Log

RewardModel = Array | Callable[[Array, Array], Array]  # T × A predictions, or a function of rows and actions
_FAR, _LEAST_LACK = 4.0, 0.01  # standard errors, and distance, of a mean weight that is not 1
_SUM_TOLERANCE = 1e-6  # of the probabilities of a row


class SupportWarning(UserWarning):
    """The log seems to lack some of a policy's decisions, or its propensities are wrong."""


class Estimate(NamedTuple):
    """Estimated mean reward of a policy, its 95 % confidence interval, and the number of matched decisions.

    ``observed`` is the number of rewards that the policy asked for, if it learnt from the log; ``threshold`` is the
    largest weight that :func:`switch_dr` corrects.
    """

    value: float
    low: float
    high: float
    matched: int
    observed: int = 0
    threshold: float | None = None


def ips(log: Log, chosen: Any, *, interval: str = "auto", reward_range: tuple[float, float] | None = None) -> Estimate:
    """Inverse-propensity estimate (IPS) of the value of ``chosen``: the mean of w·r.

    Unbiased for any number of rows, if the propensities are right and above 0 wherever the policy acts.

    Parameters
    ----------
    log
        A log with propensities.
    chosen
        The policy to evaluate: the position of its action in each row (T), or its probability of each action (T × A).
        It must choose among the actions that were eligible in the log.
    interval
        The confidence interval. "auto": normal with a correction for skewness; where fewer than 50 rows carry the
        variance of the weights, or their mean is below 1, widened by what the missing rows could earn. "normal":
        asymptotic only. "bernstein": holds for any number of rows, and is wide.
    reward_range
        Lowest and highest possible reward, which wide intervals rest on; those of the log when None.
    """
    rows = weighted_rewards(log, chosen, reward_range)
    return _mean(rows, rows.weights * rows.rewards, interval)


def snips(
    log: Log, chosen: Any, *, interval: str = "auto", reward_range: tuple[float, float] | None = None
) -> Estimate:
    """Self-normalised estimate (SNIPS): the weighted mean of rewards. Less variance than :func:`ips`, small bias.

    Parameters
    ----------
    log, chosen, interval, reward_range
        As for :func:`ips`.
    """
    rows = weighted_rewards(log, chosen, reward_range)
    total = float(rows.weights.sum())
    if not total:
        return Estimate(math.nan, math.nan, math.nan, 0)
    centre = float(rows.rewards.mean())  # centred sums, against cancellation
    value = centre + float(rows.weights @ (rows.rewards - centre)) / total
    return _mean(rows, _normalised(rows.weights, rows.rewards, value), interval, value)


def direct_method(
    log: Log,
    chosen: Any,
    model: RewardModel | None = None,
    *,
    interval: str = "auto",
    reward_range: tuple[float, float] | None = None,
) -> Estimate:
    """Direct method (DM): the mean reward that a model predicts for the policy's actions.

    A wrong model biases it, and no confidence interval of its own can tell. So its interval is that of
    :func:`doubly_robust`, which measures the bias with propensities, widened to include the value.

    Parameters
    ----------
    log, chosen, model, interval, reward_range
        As for :func:`doubly_robust`.
    """
    rows = weighted_rewards(log, chosen, reward_range)
    expected, residuals = _predictions(log, chosen, model)
    value = _mean_of(expected)
    corrected = _mean(rows, expected + rows.weights * residuals, interval)
    found = including(Interval95(corrected.low, corrected.high), value)
    return Estimate(value, found.low, found.high, corrected.matched)


def doubly_robust(
    log: Log,
    chosen: Any,
    model: RewardModel | None = None,
    *,
    interval: str = "auto",
    reward_range: tuple[float, float] | None = None,
) -> Estimate:
    """Doubly robust estimate (DR): a reward model plus weighted residuals.

    Unbiased if the model or the propensities are right.

    Parameters
    ----------
    log, chosen, interval, reward_range
        As for :func:`ips`.
    model
        Expected reward of each action in each row (T × A), or a function from rows and actions (positions) to expected
        rewards. When None, that of :func:`cross_fit_rewards`. A model must not have seen the reward of the row that it
        predicts.
    """
    rows = weighted_rewards(log, chosen, reward_range)
    expected, residuals = _predictions(log, chosen, model)
    return _mean(rows, expected + rows.weights * residuals, interval)


def sndr(
    log: Log,
    chosen: Any,
    model: RewardModel | None = None,
    *,
    interval: str = "auto",
    reward_range: tuple[float, float] | None = None,
) -> Estimate:
    """Self-normalised doubly robust estimate (SNDR): the correction is a weighted mean, as in :func:`snips`.

    Parameters
    ----------
    log, chosen, model, interval, reward_range
        As for :func:`doubly_robust`.
    """
    rows = weighted_rewards(log, chosen, reward_range)
    expected, residuals = _predictions(log, chosen, model)
    total = float(rows.weights.sum())
    if not total:
        return Estimate(math.nan, math.nan, math.nan, 0)
    correction = float(rows.weights @ residuals) / total
    values = expected + _normalised(rows.weights, residuals, correction)
    return _mean(rows, values, interval, _mean_of(expected) + correction)


def switch_dr(
    log: Log,
    chosen: Any,
    model: RewardModel | None = None,
    *,
    threshold: float | None = None,
    interval: str = "auto",
    reward_range: tuple[float, float] | None = None,
) -> Estimate:
    """Switch-DR (Wang, Agarwal and Dudík 2017): doubly robust, but the model alone where a weight is too large.

    When ``threshold`` is None, it leaves out the 0, 1, 2, 4, 8, … largest weights, whichever has the least estimated
    mean squared error: the variance of the estimate plus the square of its largest possible bias, which is the share of
    the weight above the threshold times the range of rewards. The interval is widened by that bias.

    Parameters
    ----------
    log, chosen, model, interval, reward_range
        As for :func:`doubly_robust`.
    threshold
        Largest weight that is corrected (τ).
    """
    rows = weighted_rewards(log, chosen, reward_range)
    expected, residuals = _predictions(log, chosen, model)
    if threshold is None:
        threshold = _least_error_threshold(rows, expected, residuals)
    kept = np.where(rows.weights <= threshold, rows.weights, 0.0)
    found = _mean(rows, expected + kept * residuals, interval)
    ends = widened(Interval95(found.low, found.high), _largest_bias(rows, threshold))
    return found._replace(low=ends.low, high=ends.high, threshold=float(threshold))


ESTIMATORS: dict[str, Callable[..., Estimate]] = {
    "ips": ips,
    "snips": snips,
    "dm": direct_method,
    "dr": doubly_robust,
    "sndr": sndr,
    "switch-dr": switch_dr,
}
WITHOUT_MODEL = ("ips", "snips")


def estimate_all(
    log: Log,
    chosen: Any,
    model: RewardModel | None = None,
    *,
    interval: str = "auto",
    reward_range: tuple[float, float] | None = None,
) -> dict[str, Estimate]:
    """All estimates of a policy's value by name: ips, snips, dm, dr, sndr and switch-dr.

    Parameters
    ----------
    log, chosen, model, interval, reward_range
        As for :func:`doubly_robust`. The model is fitted once for all.

    Examples
    --------
    >>> import numpy as np
    >>> from releaf import evaluate, streams
    >>> stream = streams.clicks(4_000)
    >>> log = evaluate.sample_log(stream)
    >>> always_first = np.zeros(len(log), dtype=int)
    >>> found = evaluate.estimate_all(log, always_first)
    >>> bool(found["dr"].low < stream.expected[:, 0].mean() < found["dr"].high)
    True
    """
    weighted_rewards(log, chosen, reward_range)  # warns
    predictions = cross_fit_rewards(log) if model is None else model
    further = {"interval": interval, "reward_range": reward_range}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # once is enough
        return {
            name: estimator(log, chosen, **further)
            if name in WITHOUT_MODEL
            else estimator(log, chosen, predictions, **further)
            for name, estimator in ESTIMATORS.items()
        }


def effective_rows(log: Log, chosen: Any) -> float:
    """Effective sample size (Kish): (Σ w)² / Σ w².

    If it is small, the log hardly overlaps with the policy, and no estimator is reliable.

    Parameters
    ----------
    log, chosen
        As for :func:`ips`.
    """
    weights = importance_weights(log, chosen)
    return effective_sample_size(float(weights.sum()), float((weights**2).sum()))


def importance_weights(log: Log, chosen: Any) -> Array:
    """Weight of each row: the policy's probability of the logged action over its propensity.

    Parameters
    ----------
    log, chosen
        As for :func:`ips`.
    """
    if log.probabilities is None:
        raise ValueError(
            "the log has no probabilities: off-policy estimates need the propensity of each action "
            "(releaf.evaluate.estimate_propensities estimates them)"
        )
    target = checked_target(log, chosen)
    agreed = target == log.taken if target.ndim == 1 else target[np.arange(len(log)), log.taken]
    weights: Array = agreed / log.probabilities
    return weights


def checked_target(log: Log, chosen: Any) -> Array:
    """Positions of a policy's actions (T), or its probabilities (T × A), checked."""
    target, actions = np.asarray(chosen), len(log.actions)
    if target.ndim == 2:
        if target.shape != (len(log), actions):
            raise ValueError(f"chosen has shape {target.shape}: expected ({len(log)}, {actions}) probabilities")
        if not ((target >= 0).all() and np.allclose(target.sum(axis=1), 1.0, rtol=0.0, atol=_SUM_TOLERANCE)):
            raise ValueError("chosen must have probabilities of at least 0 that sum to 1 in each row")
        _require_eligible(log, target > 0.0)
        return target
    if target.shape != (len(log),):
        raise ValueError(f"chosen has {len(target)} actions, the log {len(log)} rows")
    if target.dtype.kind not in "iu" or not ((target >= 0) & (target < actions)).all():
        raise ValueError(f"chosen must be positions of actions, from 0 to {actions - 1}, got {chosen!r}")
    _require_eligible(log, target[:, None] == np.arange(actions))
    return target


def _require_eligible(log: Log, takes: Array) -> None:
    """Raise unless a policy takes only actions that were eligible; ``takes`` tells which it may take (T × A)."""
    if log.eligible is None:
        return
    wrong = np.argwhere(takes & ~log.eligible)
    if len(wrong):
        row, action = wrong[0].tolist()
        raise ValueError(
            f"chosen takes {log.actions[action]!r} in row {row}, which was not eligible there: decide with "
            "eligible=log.eligible, as releaf.evaluate.choices does"
        )


def weighted_rewards(log: Log, chosen: Any, reward_range: tuple[float, float] | None) -> WeightedRewards:
    """Weights and rewards of a log's rows, with the range of rewards."""
    weights, rewards = importance_weights(log, chosen), np.asarray(log.rewards, dtype=np.float64)
    if reward_range is None:
        reward_range = (float(rewards.min()), float(rewards.max())) if len(rewards) else (0.0, 1.0)
    low, high = reward_range
    if len(rewards) and not low <= float(rewards.min()) <= float(rewards.max()) <= high:
        raise ValueError(
            f"reward_range is {reward_range!r}: the log has rewards from {rewards.min()} to {rewards.max()}"
        )
    problem = support_problem(float(weights.mean()), standard_error(weights)) if len(weights) else None
    if problem is not None:
        warnings.warn(f"Off-policy estimate: {problem}", SupportWarning, stacklevel=3)
    return WeightedRewards(weights, rewards, float(low), float(high))


def support_problem(mean: float, error: float) -> str | None:
    """What is wrong if the mean weight differs from 1 by more than chance; ``error`` is its standard error."""
    if abs(mean - 1.0) <= max(_FAR * error, _LEAST_LACK):
        return None
    text = f"the mean weight is {mean:.3f} ± {error:.3f}, expected 1: the propensities are wrong"
    if mean > 1.0:
        return text
    return (
        f"{text}, or the log never takes some of the policy's actions ({1.0 - mean:.1%} of its decisions, about which "
        "nothing is known: intervals contain any reward there)"
    )


def mean_estimate(values: Array, matched: int) -> Estimate:
    """Mean of rewards with its normal interval."""
    if not len(values):
        return Estimate(math.nan, math.nan, math.nan, 0)
    return Estimate(float(values.mean()), *normal_interval(values), matched)


def _mean(rows: WeightedRewards, values: Array, interval: str, value: float | None = None) -> Estimate:
    """Estimate from row values; ``value`` is their mean, if it is known more precisely."""
    matched = int((rows.weights > 0).sum())
    if not len(values):
        return Estimate(math.nan, math.nan, math.nan, 0)
    value = float(values.mean()) if value is None else value
    return Estimate(value, *confidence_interval(interval, values, rows), matched)


def _mean_of(values: Array) -> float:
    return float(values.mean()) if len(values) else math.nan


def _normalised(weights: Array, amounts: Array, ratio: float) -> Array:
    """Row values of Σ w·y / Σ w, whose mean is the ratio and whose variance is that of the delta method."""
    values: Array = ratio + weights * (amounts - ratio) / float(weights.mean())
    return values


def _predictions(log: Log, chosen: Any, model: RewardModel | None) -> tuple[Array, Array]:
    """Predicted reward of the policy in each row, and what the logged reward differs from its own prediction."""
    target, rows = checked_target(log, chosen), np.arange(len(log))
    table = _table(log, cross_fit_rewards(log) if model is None else model)
    expected = table[rows, target] if target.ndim == 1 else (table * target).sum(axis=1)
    return expected, log.rewards - table[rows, log.taken]


def _table(log: Log, model: RewardModel) -> Array:
    shape = (len(log), len(log.actions))
    if callable(model):
        rows = np.arange(len(log))
        columns = [model(rows, np.full(len(log), action)) for action in range(len(log.actions))]
        model = np.column_stack(columns) if columns else np.empty(shape)
    table = np.asarray(model, dtype=np.float64)
    if table.shape != shape or not np.isfinite(table).all():
        raise ValueError(f"model must have {shape[0]} × {shape[1]} finite predictions, got {table.shape}")
    return table


def _least_error_threshold(rows: WeightedRewards, expected: Array, residuals: Array) -> float:
    weights = np.sort(rows.weights[rows.weights > 0])[::-1]
    best, least, left_out = math.inf, math.inf, 0
    while left_out < len(weights):
        threshold = float(weights[left_out])
        values = expected + np.where(rows.weights <= threshold, rows.weights, 0.0) * residuals
        error = float(values.var()) / len(values) + _largest_bias(rows, threshold) ** 2
        if error < least:  # on ties the larger threshold, which is nearer to DR
            best, least = threshold, error
        left_out = max(2 * left_out, 1)
    return best


def _largest_bias(rows: WeightedRewards, threshold: float) -> float:
    """Largest possible bias if weights above a threshold are not corrected: their share times the range of rewards.

    Weights have the mean 1. So the share of the large ones is their mean, and also what the others lack to 1; the first
    is precise where the large weights are many, the second where they are few and huge. Both are averaged by precision.
    """
    large = np.where(rows.weights > threshold, rows.weights, 0.0)
    if not large.any():
        return 0.0
    others = rows.weights - large
    noise = float(large.var()), float(others.var())
    if noise == (0.0, 0.0):  # all weights are equal
        return float(large.mean()) * (rows.highest - rows.lowest)
    share = (float(large.mean()) * noise[1] + (1.0 - float(others.mean())) * noise[0]) / (noise[0] + noise[1])
    return max(share, 0.0) * (rows.highest - rows.lowest)
