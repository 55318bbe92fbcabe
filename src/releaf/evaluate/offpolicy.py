"""What a policy would have earned, from a log of another policy's decisions.

A log tells the reward of one action only. Rejection (Li et al. 2011) lets the policy live through the decisions of the
log that it would have made too, and learn from them. The estimators weigh them by the inverse of their probability
(IPS), divide by the sum of the weights (SNIPS), or correct a model of the rewards (doubly robust, Dudík et al. 2011).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from releaf.schema import Schema
from releaf.streams import Log

Array = np.ndarray[Any, np.dtype[Any]]
_Z95 = 1.959963984540054


class Estimate(NamedTuple):
    """The mean reward of a policy, its 95 % interval, and the number of decisions of the log that it would make.

    ``observed`` is how many of their rewards it asked for, where it learnt from them.
    """

    value: float
    low: float
    high: float
    matched: int
    observed: int = 0


def rejection(policy: Any, log: Log, seed: int = 0, progress: Callable[[int, int], None] | None = None) -> Estimate:
    """Let a policy live through the decisions of a log that it would have made, and learn from their rewards.

    A row counts when the policy would have done the same, and then with the probability min p / p, so that actions the
    log preferred don't count for more; that makes the estimate unbiased. A log without probabilities is taken for one
    where all actions were equally likely. Rows that don't count leave no trace in the policy. The interval is Wilson's,
    or the normal one where rewards are not from 0 to 1.

    Parameters
    ----------
    policy
        Any policy that asks for no more than the reward of its action; it learns.
    log
        Of the same actions and features.
    seed
        For leaving out rows where the log's actions were not equally likely.
    progress
        Told the rows so far and in all.
    """
    _require_same(policy, log)
    if policy.observe in ("all-actions", "labels"):
        raise ValueError(f"{type(policy).__name__} asks for the rewards of all actions, which a log does not have")
    chances = np.ones(len(log)) if log.probabilities is None else log.probabilities.min() / log.probabilities
    counts = _own_generator(seed).random(len(log)) < chances
    gained, observed = [], 0
    for row in range(len(log)):
        if counts[row] and policy.preview(log.contexts[row]).index == log.taken[row]:
            choice = policy.decide(log.contexts[row])
            gained.append(float(log.rewards[row]))
            if choice.wants_reward:
                observed += 1
                policy.learn(choice, gained[-1])
        if progress is not None:
            progress(row + 1, len(log))
    unit = all(0.0 <= reward <= 1.0 for reward in gained)
    found = _wilson(gained) if unit else _mean(np.array(gained), 0)[:3]
    return Estimate(*found, len(gained), observed)


def _own_generator(seed: int) -> np.random.Generator:
    """Not the numbers of ``default_rng(seed)``, which a user may well have made the contexts of the log with."""
    return np.random.default_rng([seed, len("off-policy")])


def _wilson(gained: list[float]) -> tuple[float, float, float]:
    """A mean of numbers from 0 to 1, with an interval that holds also where few of them, or none, are above 0."""
    count = len(gained)
    if not count:
        return math.nan, 0.0, 1.0
    mean, square = float(np.mean(gained)), _Z95**2
    centre = (mean + square / (2 * count)) / (1 + square / count)
    half = _Z95 * math.sqrt(mean * (1 - mean) / count + square / (4 * count**2)) / (1 + square / count)
    return mean, max(0.0, centre - half), min(1.0, centre + half)


def choices(policy: Any, log: Log, seed: int = 0) -> Array:
    """The action that a policy, as it is now, takes in each context of a log; it learns nothing, and stays as it is.

    Where it draws at random, it draws anew for each row; estimates of it are then unbiased too.
    """
    _require_same(policy, log)
    twin = copy.deepcopy(policy)
    states = _own_generator(seed).integers(-(2**63), 2**63 - 1, len(log))
    taken = np.zeros(len(log), dtype=np.int64)
    for row, context in enumerate(log.contexts):
        twin._set_generator(int(states[row]))
        taken[row] = twin.preview(context).index
    return taken


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
    if matched == 1:
        return Estimate(value, math.nan, math.nan, 1)
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


def effective_rows(log: Log, chosen: Array) -> float:
    """Of how many equally weighted rows an estimate is worth: (Σ w)² / Σ w², Kish's effective sample size.

    Few of them, and the log hardly ever did what the policy would do: no estimator can make up for that.
    """
    weights = _weights(log, chosen)
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 0.0


def halves(log: Log) -> tuple[Log, Log]:
    """The first and the second half of a log, to learn from one and to estimate on the other."""
    half = len(log) // 2
    return _part(log, slice(0, half)), _part(log, slice(half, None))


def _part(log: Log, rows: slice) -> Log:
    chances = None if log.probabilities is None else log.probabilities[rows]
    return replace(
        log, contexts=log.contexts[rows], taken=log.taken[rows], rewards=log.rewards[rows], probabilities=chances
    )


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

    schema = Schema.of(log.features)
    units = schema.encoder().encode_many(log.contexts)
    return np.column_stack([np.ones(len(log)), columns_of(units, schema)])


def _weights(log: Log, chosen: Array) -> Array:
    if log.probabilities is None:
        raise ValueError("the log has no probabilities: off-policy estimates need how likely each action was")
    positions = np.asarray(chosen)
    if positions.shape != (len(log),):
        raise ValueError(f"chosen has {len(positions)} actions, the log {len(log)} rows")
    if positions.dtype.kind not in "iu" or not ((positions >= 0) & (positions < len(log.actions))).all():
        raise ValueError(f"chosen must be positions of actions, from 0 to {len(log.actions) - 1}, got {chosen!r}")
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
        hint = "read the log with actions=policy.actions"
        raise ValueError(f"the policy's actions are {policy.actions!r}, the log's {log.actions!r}: {hint}")
    ours, theirs = policy.schema.names, Schema.of(log.features).names
    if ours not in (theirs, Schema.of(len(ours)).names):  # features that were only counted have no names
        hint = "read the log with features=policy.schema"
        raise ValueError(f"the policy's features are {ours!r}, the log's {theirs!r}: {hint}")
