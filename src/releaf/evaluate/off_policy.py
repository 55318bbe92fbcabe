"""Rejection sampling over a log (Li et al. 2011), and the decisions of a fixed policy on it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.decision import ActionName
from releaf.evaluate.estimators import Estimate, mean_estimate
from releaf.policy import Policy, Previewable, WeighsCosts
from releaf.progress import Progress, report_progress
from releaf.schema import Schema
from releaf.statistics import wilson_interval
from releaf.streams import Log, Stream


def rejection(policy: Previewable, log: Log, seed: int = 0, progress: Progress = None) -> Estimate:
    """Rejection sampling: run and train a policy on the logged decisions that it would have taken too.

    A matching row is accepted with probability min p / p, which makes the estimate unbiased. A log without
    propensities counts as uniform over the eligible actions, among which the policy chooses too, at the costs of the
    log if it weighs costs. Rejected rows leave the policy unchanged. The confidence interval is Wilson's, or a normal
    one if rewards are outside [0, 1].

    Parameters
    ----------
    policy
        Any policy that needs the reward of its own action only; it learns.
    log
        A log with the same actions and features.
    seed
        Seed of the acceptance draws, if the log's propensities differ.
    progress
        True for a bar, in a notebook or a terminal; or a function, called with the rows done and the rows in total.
    """
    _check_same_problem(policy, log)
    if isinstance(policy, Policy) and policy.wants_all:
        raise ValueError(f"{type(policy).__name__} asks for the rewards of all actions, which a log does not have")
    propensities = _uniform_propensities(log) if log.probabilities is None else log.probabilities
    counts = _generator(seed).random(len(log)) < propensities.min(initial=1.0) / propensities
    gained, observed, costs = [], 0, costs_for(policy, log)
    report = report_progress(progress, f"Rejection sampling with {type(policy).__name__}", "rows")
    for row in range(len(log)):
        given = (log.contexts[row], *_eligible_names(log, row))
        further = {} if costs is None else {"cost": costs[row]}
        if counts[row] and policy.preview(*given, **further).index == log.taken[row]:
            choice = policy.decide(*given, **further)
            gained.append(float(log.rewards[row]))
            if choice.wants_reward:
                observed += 1
                policy.learn(choice, gained[-1])
        report(row + 1, len(log))
    unit = all(0.0 <= reward <= 1.0 for reward in gained)
    if not unit:
        return mean_estimate(np.array(gained), len(gained))._replace(observed=observed)
    mean = float(np.mean(gained)) if gained else math.nan
    return Estimate(mean, *wilson_interval(mean, len(gained)), len(gained), observed)


def _uniform_propensities(log: Log) -> Array:
    """Propensities of a uniform choice among the eligible actions."""
    if log.eligible is None:
        return np.ones(len(log))
    shares: Array = 1.0 / log.eligible.sum(axis=1)
    return shares


def _eligible_names(log: Log, row: int) -> tuple[list[ActionName], ...]:
    """Argument of a decision for the eligible actions of a row; nothing where all actions are."""
    if log.eligible is None or log.eligible[row].all():
        return ()
    return ([log.actions[place] for place in np.flatnonzero(log.eligible[row]).tolist()],)


def costs_for(policy: Any, data: Stream | Log) -> Array | None:
    """The costs of a stream or a log (T × A), if there are any and the policy weighs costs."""
    return data.costs if isinstance(policy, WeighsCosts) and policy.cost_weight is not None else None


def _generator(seed: int) -> np.random.Generator:
    """A stream other than ``default_rng(seed)``, which may have generated the log itself."""
    return np.random.default_rng([seed, len("off-policy")])


def choices(policy: Policy, log: Log, seed: int = 0) -> Array:
    """The action that a policy takes in each context of a log, without learning; the policy stays unchanged.

    It chooses among the actions that were eligible in the log, and a policy that weighs costs at the costs of the log.
    One with a budget chooses in each row as it would now, with its current weight, and spends nothing.

    A randomised policy draws independently for each row, so that estimates stay unbiased.

    Parameters
    ----------
    policy
        A policy with the actions and features of the log.
    log
        The log.
    seed
        Seed of the draws.
    """
    _check_same_problem(policy, log)
    given = {"eligible": log.eligible, "cost": costs_for(policy, log)}
    return policy.preview_actions(
        log.contexts, seed=seed, **{name: value for name, value in given.items() if value is not None}
    )


def sample_log(stream: Stream, probabilities: Array | None = None, seed: int = 0) -> Log:
    """A log of decisions on a stream whose rewards are all known, to try estimators on.

    Parameters
    ----------
    stream
        Any stream.
    probabilities
        Probability of each action in each row (T × A); uniform over the eligible ones when None.
    seed
        Seed of the actions.

    Examples
    --------
    >>> from releaf import evaluate, streams
    >>> evaluate.sample_log(streams.clicks(1_000))
    Log(1,000 decisions, 5 actions, with probabilities)
    """
    rows, actions = stream.rewards.shape
    allowed = np.ones((rows, actions)) if stream.eligible is None else stream.eligible.astype(np.float64)
    table = allowed / allowed.sum(axis=1, keepdims=True) if probabilities is None else np.asarray(probabilities)
    if table.shape != (rows, actions) or not np.allclose(table.sum(axis=1), 1.0) or (table < 0).any():
        raise ValueError(f"probabilities must be {rows} × {actions} numbers of at least 0 that sum to 1 in each row")
    if (table[allowed == 0.0] > 0.0).any():
        raise ValueError("probabilities must be 0 for actions that are not eligible")
    drawn = _generator(seed).random((rows, 1)) * table.sum(axis=1, keepdims=True)
    last = actions - 1 - np.argmax(table[:, ::-1] > 0.0, axis=1)  # that can be taken
    taken = np.minimum((np.cumsum(table, axis=1) <= drawn).sum(axis=1), last)
    row = np.arange(rows)
    gained, chances = stream.rewards[row, taken], table[row, taken]
    described = stream.features, stream.actions
    return Log(stream.contexts, taken, gained, chances, *described, eligible=stream.eligible, costs=stream.costs)


def halves(log: Log) -> tuple[Log, Log]:
    """Split a log into its first and second half, for training and for evaluation."""
    half = len(log) // 2
    return _slice(log, slice(0, half)), _slice(log, slice(half, None))


def _slice(log: Log, rows: slice) -> Log:
    probabilities = None if log.probabilities is None else log.probabilities[rows]
    eligible = None if log.eligible is None else log.eligible[rows]
    half = {"contexts": log.contexts[rows], "taken": log.taken[rows], "rewards": log.rewards[rows]}
    costs = None if log.costs is None else log.costs[rows]
    return replace(log, **half, probabilities=probabilities, eligible=eligible, costs=costs)


def _check_same_problem(policy: Previewable, log: Log) -> None:
    if tuple(policy.actions) != tuple(log.actions):
        hint = "read the log with actions=policy.actions"
        raise ValueError(f"the policy's actions are {policy.actions!r}, the log's {log.actions!r}: {hint}")
    ours, theirs = policy.schema.names, Schema.of(log.features).names
    if ours not in (theirs, Schema.of(len(ours)).names):  # features that were only counted have no names
        hint = "read the log with features=policy.schema"
        raise ValueError(f"the policy's features are {ours!r}, the log's {theirs!r}: {hint}")
