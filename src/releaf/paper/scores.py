"""Precision and recall of the relevant features that a learner reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.evaluate import Ledger

LEAST_SHARE = 0.25  # of an action's relevance, for a feature to be reported


class Score(NamedTuple):
    """How well the reported features agree with the relevant ones, over all actions.

    ``precision`` is NaN where no feature was reported, and ``f1`` is 0 then.
    """

    precision: float
    recall: float
    f1: float


class Scored(NamedTuple):
    """The score of one run at each of its checkpoints."""

    labels: Array
    scores: list[Score]


def reported(relevance: Any, least: float = LEAST_SHARE) -> Array:
    """Which features are reported for each action: those with at least this share of the action's relevance (A × D).

    The rule is the same for all learners and does not know how many features are relevant. RELEAF's relevance of an
    action sums to ``gamma_rel`` at most, that of others to 1; so it is divided by its sum first.
    """
    shares = np.asarray(relevance, dtype=np.float64)
    totals = shares.sum(axis=1, keepdims=True)
    named: Array = (shares >= least * totals) & (totals > 0)
    return named


def score(named: Array, relevant: Sequence[Sequence[int]]) -> Score:
    """Precision and recall of reported features, counted over all actions, and F1, their harmonic mean."""
    truth = np.zeros_like(named)
    for action, features in enumerate(relevant):
        truth[action, list(features)] = True
    right = int((named & truth).sum())
    precision = right / int(named.sum()) if named.any() else math.nan
    recall = right / int(truth.sum())
    return Score(precision, recall, 2.0 * right / int(named.sum() + truth.sum()))


def current(checkpoints: dict[str, list[Any]], cumulative: bool) -> Array:
    """The relevance at each checkpoint by what the learner finds then (checkpoints × A × D).

    RELEAF and CMAB-RL report shares of all exploitations so far, in which their first guesses count for ever. Of these
    the exploitations since the checkpoint before are taken; where there were none, what was found before stands.
    """
    tables = np.array(checkpoints["relevance"])
    if not cumulative:
        return tables
    exploited = np.array(checkpoints["steps"]) - np.array(checkpoints["explored"])
    counts = np.diff(tables * exploited[:, None, None], axis=0, prepend=0.0)
    fresh = np.diff(exploited, prepend=0)
    latest = np.zeros_like(tables[0])
    for index, count in enumerate(fresh):
        if count:
            latest = np.maximum(counts[index] / count, 0.0)  # rounding may leave a little below 0
        tables[index] = latest
    return tables


def scored(ledger: Ledger, relevant: Sequence[Sequence[int]], cumulative: bool, least: float = LEAST_SHARE) -> Scored:
    """The scores of a run with checkpoints."""
    if ledger.checkpoints is None:
        raise ValueError("the ledger has no checkpoints: expected a run with checkpoints")
    tables = current(ledger.checkpoints, cumulative)
    return Scored(np.array(ledger.checkpoints["labels"]), [score(reported(table, least), relevant) for table in tables])


def averaged(runs: Sequence[Scored], of: str, labels: Array) -> Array:
    """A figure of several runs at these numbers of observed rewards, averaged.

    A run has the figure of its last checkpoint that needed no more rewards; so its last figure stands where other runs
    asked for more. The mean is NaN before the first checkpoint of a run.
    """
    values_by_run = np.full((len(runs), len(labels)), np.nan)
    for row, run in enumerate(runs):
        values = np.array([getattr(score, of) for score in run.scores])
        indices = np.searchsorted(run.labels, labels, side="right") - 1
        values_by_run[row] = np.where(indices >= 0, values[indices], np.nan)
    known = ~np.isnan(values_by_run)
    needed = len(runs) if of != "precision" else 1  # a run that reports nothing has no precision
    totals = np.where(known, values_by_run, 0.0).sum(axis=0)
    means: Array = np.where(known.sum(axis=0) >= needed, totals / np.maximum(known.sum(axis=0), 1), np.nan)
    return means


def rewards_until(runs: Sequence[Scored], least: float = 0.9) -> float | None:
    """The number of observed rewards from which on the mean F1 of the runs stays at this level; None where it never is.

    F1 stays there to the end; the last checkpoint alone does not count, since it may be lucky.
    """
    labels = np.unique(np.concatenate([run.labels for run in runs]))
    means = averaged(runs, "f1", labels)
    labels, means = labels[~np.isnan(means)], means[~np.isnan(means)]
    below = np.flatnonzero(means < least)
    first = below[-1] + 1 if len(below) else 0
    if first == len(labels) - 1 and np.mean([run.scores[-2:][0].f1 for run in runs]) < least:
        return None
    return float(labels[first]) if first < len(labels) else None
