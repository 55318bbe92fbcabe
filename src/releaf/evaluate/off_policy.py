"""Off-policy evaluation: estimates of a policy's value from a log of another policy's decisions.

A log has the reward of one action per step only. Rejection sampling (Li et al. 2011) runs and trains the policy on the
logged decisions that it would have taken too. The other estimators weight rewards by inverse propensity (IPS),
normalise by the sum of the weights (SNIPS), or correct a reward model (doubly robust, Dudík et al. 2011).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.policy import Policy, Previewable
from releaf.schema import Schema
from releaf.statistics import Z95, effective_sample_size, snips_estimate, standard_error, wilson_interval
from releaf.streams import Log


class Estimate(NamedTuple):
    """Estimated mean reward of a policy, its 95 % confidence interval, and the number of matched decisions.

    ``observed`` is the number of rewards that the policy asked for, if it learnt from the log.
    """

    value: float
    low: float
    high: float
    matched: int
    observed: int = 0


def rejection(
    policy: Previewable, log: Log, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> Estimate:
    """Rejection sampling: run and train a policy on the logged decisions that it would have taken too.

    A matching row is accepted with probability min p / p, which makes the estimate unbiased. A log without
    propensities counts as uniform. Rejected rows leave the policy unchanged. The confidence interval is Wilson's, or a
    normal one if rewards are outside [0, 1].

    Parameters
    ----------
    policy
        Any policy that needs the reward of its own action only; it learns.
    log
        A log with the same actions and features.
    seed
        Seed of the acceptance draws, if the log's propensities differ.
    progress
        Called with the rows done and the rows in total.
    """
    _check_same_problem(policy, log)
    if isinstance(policy, Policy) and policy.wants_all:
        raise ValueError(f"{type(policy).__name__} asks for the rewards of all actions, which a log does not have")
    probabilities = np.ones(len(log)) if log.probabilities is None else log.probabilities.min() / log.probabilities
    counts = _generator(seed).random(len(log)) < probabilities
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
    if not unit:
        return mean_estimate(np.array(gained), len(gained))._replace(observed=observed)
    mean = float(np.mean(gained)) if gained else math.nan
    return Estimate(mean, *wilson_interval(mean, len(gained)), len(gained), observed)


def _generator(seed: int) -> np.random.Generator:
    """A stream other than ``default_rng(seed)``, which may have generated the log itself."""
    return np.random.default_rng([seed, len("off-policy")])


def choices(policy: Policy, log: Log, seed: int = 0) -> Array:
    """The action that a policy takes in each context of a log, without learning; the policy stays unchanged.

    A randomised policy draws independently for each row, so that estimates stay unbiased.
    """
    _check_same_problem(policy, log)
    twin = copy.deepcopy(policy)
    states = _generator(seed).integers(-(2**63), 2**63 - 1, len(log))
    taken = np.zeros(len(log), dtype=np.int64)
    for row, context in enumerate(log.contexts):
        twin.set_random_state(int(states[row]))
        taken[row] = twin.preview(context).index
    return taken


def ips(log: Log, chosen: Array) -> Estimate:
    """Inverse-propensity estimate (IPS) of the value of ``chosen``: the mean of 1{chosen = taken} r / p."""
    weights = _weights(log, chosen)
    return mean_estimate(weights * log.rewards, int((weights > 0).sum()))


def snips(log: Log, chosen: Array) -> Estimate:
    """Self-normalised estimate (SNIPS): the weighted mean of rewards. Less variance than :func:`ips`, small bias."""
    weights = _weights(log, chosen)
    matched, total = int((weights > 0).sum()), float(weights.sum())
    if not matched:
        return Estimate(math.nan, math.nan, math.nan, 0)
    mean = float(log.rewards.mean())  # centred sums, against cancellation
    rewards = log.rewards - mean
    squares = weights**2
    value, half = snips_estimate(
        total, float(weights @ rewards), float(squares.sum()), float(squares @ rewards), float(squares @ rewards**2)
    )
    value += mean
    if matched == 1:
        return Estimate(value, math.nan, math.nan, 1)
    return Estimate(value, value - half, value + half, matched)


def doubly_robust(log: Log, chosen: Array, model: Callable[[Array, Array], Array] | None = None) -> Estimate:
    """Doubly robust estimate: a reward model plus weighted residuals; unbiased if the model or the propensities hold.

    Parameters
    ----------
    log
        A log with propensities.
    chosen
        Position of the action that the policy takes in each row.
    model
        Function from rows and actions (positions) to expected rewards. When None, a ridge regression per action,
        cross-fitted on the two halves of the log.
    """
    weights = _weights(log, chosen)
    predict = model or _cross_fitted(log)
    rows = np.arange(len(log))
    hoped, known = predict(rows, chosen), predict(rows, log.taken)
    return mean_estimate(hoped + weights * (log.rewards - known), int((weights > 0).sum()))


def effective_rows(log: Log, chosen: Array) -> float:
    """Effective sample size (Kish): (Σ w)² / Σ w².

    If it is small, the log hardly overlaps with the policy, and no estimator is reliable.
    """
    weights = _weights(log, chosen)
    return effective_sample_size(float(weights.sum()), float((weights**2).sum()))


def halves(log: Log) -> tuple[Log, Log]:
    """Split a log into its first and second half, for training and for evaluation."""
    half = len(log) // 2
    return _slice(log, slice(0, half)), _slice(log, slice(half, None))


def _slice(log: Log, rows: slice) -> Log:
    probabilities = None if log.probabilities is None else log.probabilities[rows]
    return replace(
        log, contexts=log.contexts[rows], taken=log.taken[rows], rewards=log.rewards[rows], probabilities=probabilities
    )


def _cross_fitted(log: Log) -> Callable[[Array, Array], Array]:
    columns = _design_matrix(log)
    half = np.arange(len(log)) % 2
    tables = np.zeros((len(log), len(log.actions)))
    for fold in (0, 1):
        for action in range(len(log.actions)):
            fitted = (half != fold) & (log.taken == action)
            x, y = columns[fitted], log.rewards[fitted]
            theta = np.linalg.solve(x.T @ x + np.eye(columns.shape[1]), x.T @ y)
            tables[half == fold, action] = columns[half == fold] @ theta
    return lambda rows, actions: tables[rows, actions]


def _design_matrix(log: Log) -> Array:
    """Encoded contexts with an intercept column."""
    from releaf.ensembles.experts import columns_of

    schema = Schema.of(log.features)
    units = schema.encoder().encode_many(log.contexts)
    return np.column_stack([np.ones(len(log)), columns_of(units, schema)])


def _weights(log: Log, chosen: Array) -> Array:
    if log.probabilities is None:
        raise ValueError("the log has no probabilities: off-policy estimates need the propensity of each action")
    positions = np.asarray(chosen)
    if positions.shape != (len(log),):
        raise ValueError(f"chosen has {len(positions)} actions, the log {len(log)} rows")
    if positions.dtype.kind not in "iu" or not ((positions >= 0) & (positions < len(log.actions))).all():
        raise ValueError(f"chosen must be positions of actions, from 0 to {len(log.actions) - 1}, got {chosen!r}")
    weights: Array = (np.asarray(chosen) == log.taken) / log.probabilities
    return weights


def mean_estimate(values: Array, matched: int) -> Estimate:
    if not len(values):
        return Estimate(math.nan, math.nan, math.nan, 0)
    value, half = float(values.mean()), Z95 * standard_error(values)
    return Estimate(value, value - half, value + half, matched)


def _check_same_problem(policy: Previewable, log: Log) -> None:
    if tuple(policy.actions) != tuple(log.actions):
        hint = "read the log with actions=policy.actions"
        raise ValueError(f"the policy's actions are {policy.actions!r}, the log's {log.actions!r}: {hint}")
    ours, theirs = policy.schema.names, Schema.of(log.features).names
    if ours not in (theirs, Schema.of(len(ours)).names):  # features that were only counted have no names
        hint = "read the log with features=policy.schema"
        raise ValueError(f"the policy's features are {ours!r}, the log's {theirs!r}: {hint}")
