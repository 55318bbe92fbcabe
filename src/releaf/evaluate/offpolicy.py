"""What a policy would have earned, from a log of another policy's decisions.

A log tells the reward of one action only. Rejection (Li et al. 2011) lets the policy live through the decisions of the
log that it would have made too, and learn from them. The estimators weigh them by the inverse of their probability
(IPS), divide by the sum of the weights (SNIPS), or correct a model of the rewards (doubly robust, Dudík et al. 2011).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from releaf.streams import Log

Array = np.ndarray[Any, np.dtype[Any]]
_Z95 = 1.959963984540054


class Estimate(NamedTuple):
    """The mean reward of a policy, its 95 % interval, and the number of decisions of the log that it would make."""

    value: float
    low: float
    high: float
    matched: int


def rejection(policy: Any, log: Log, progress: Callable[[int, int], None] | None = None) -> Estimate:
    """Let a policy live through the decisions of a log that it would have made, and learn from their rewards.

    Unbiased where the log's actions were drawn at random with equal probabilities. The rows where the policy would have
    done otherwise leave no trace in it.

    Parameters
    ----------
    policy
        Any policy that asks for no more than the reward of its action; it learns.
    log
        Of the same actions and features.
    progress
        Told the rows so far and in all.
    """
    _require_same(policy, log)
    if policy.observe in ("all-actions", "labels"):
        raise ValueError(f"{type(policy).__name__} asks for the rewards of all actions, which a log does not have")
    gained = []
    for row in range(len(log)):
        if policy.preview(log.contexts[row]).index == log.taken[row]:
            choice = policy.decide(log.contexts[row])
            gained.append(float(log.rewards[row]))
            if choice.wants_reward:
                policy.learn(choice, gained[-1])
        if progress is not None:
            progress(row + 1, len(log))
    return _mean(np.array(gained), len(gained))


def choices(policy: Any, log: Log) -> Array:
    """The action that a policy, as it is now, would take in each context of a log; it learns nothing."""
    _require_same(policy, log)
    return np.array([policy.preview(context).index for context in log.contexts], dtype=np.int64)


def ips(log: Log, chosen: Array) -> Estimate:
    """Inverse-propensity estimate of what always taking ``chosen`` earns: the mean of 1{chosen = taken} r / p."""
    weights = _weights(log, chosen)
    return _mean(weights * log.rewards, int((weights > 0).sum()))


def snips(log: Log, chosen: Array) -> Estimate:
    """Self-normalised: the weighted mean of the rewards. Slightly biased, far less variable than :func:`ips`."""
    weights = _weights(log, chosen)
    matched, total = int((weights > 0).sum()), float(weights.sum())
    if not matched:
        return Estimate(math.nan, math.nan, math.nan, 0)
    value = float(weights @ log.rewards) / total
    spread = math.sqrt(float((weights**2) @ (log.rewards - value) ** 2)) / total  # delta method
    return Estimate(value, value - _Z95 * spread, value + _Z95 * spread, matched)


def doubly_robust(log: Log, chosen: Array, model: Callable[[Array, Array], Array] | None = None) -> Estimate:
    """A model of the rewards, corrected by what it got wrong: right on average when either it or the log's p is.

    Parameters
    ----------
    log
        With probabilities.
    chosen
        The action that the policy would take at each row.
    model
        Given rows and actions (positions), the expected rewards. When None, a ridge regression of the rewards on the
        contexts for each action, each half of the log predicted from the other.
    """
    weights = _weights(log, chosen)
    predict = model or _cross_fitted(log)
    rows = np.arange(len(log))
    hoped, known = predict(rows, chosen), predict(rows, log.taken)
    return _mean(hoped + weights * (log.rewards - known), int((weights > 0).sum()))


def _cross_fitted(log: Log) -> Callable[[Array, Array], Array]:
    columns = _columns(log)
    half = np.arange(len(log)) % 2
    tables = np.zeros((len(log), len(log.actions)))
    for fold in (0, 1):
        for action in range(len(log.actions)):
            fitted = (half != fold) & (log.taken == action)
            x, y = columns[fitted], log.rewards[fitted]
            theta = np.linalg.solve(x.T @ x + np.eye(columns.shape[1]), x.T @ y)
            tables[half == fold, action] = columns[half == fold] @ theta
    return lambda rows, actions: tables[rows, actions]


def _columns(log: Log) -> Array:
    """A constant, and the contexts as columns of numbers."""
    from releaf.ensembles.experts import columns_of
    from releaf.schema import Schema

    schema = Schema.of(log.features)
    units = schema.encoder().encode_many(log.contexts)
    return np.column_stack([np.ones(len(log)), columns_of(units, schema)])


def _weights(log: Log, chosen: Array) -> Array:
    if log.probabilities is None:
        raise ValueError("the log has no probabilities: off-policy estimates need how likely each action was")
    if len(chosen) != len(log):
        raise ValueError(f"chosen has {len(chosen)} actions, the log {len(log)} rows")
    weights: Array = (np.asarray(chosen) == log.taken) / log.probabilities
    return weights


def _mean(values: Array, matched: int) -> Estimate:
    if not len(values):
        return Estimate(math.nan, math.nan, math.nan, 0)
    value = float(values.mean())
    spread = float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    return Estimate(value, value - _Z95 * spread, value + _Z95 * spread, matched)


def _require_same(policy: Any, log: Log) -> None:
    if tuple(policy.actions) != tuple(log.actions):
        raise ValueError(f"the policy's actions are {policy.actions!r}, the log's {log.actions!r}")
