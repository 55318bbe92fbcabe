"""Overlap of a log with a policy: how much of the log tells something about the policy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.decision import ActionName
from releaf.evaluate.confidence_intervals import MIN_VARIANCE_ROWS, variance_rows
from releaf.evaluate.estimators import checked_target, importance_weights, support_problem
from releaf.evaluate.propensities import Propensities
from releaf.statistics import effective_sample_size
from releaf.streams import Log

TINY = 0.01  # propensities below that are tiny
MIN_EFFECTIVE_ROWS = 100.0  # effective sample size below which an estimate is unreliable
MOST_UNSUPPORTED = 0.01  # share of rows in which the log hardly ever takes the policy's action
MIN_ACTION_ROWS = 20  # of the log, below which an action that the policy often takes is hardly logged


@dataclass(frozen=True, slots=True)
class Overlap:
    """How well a log covers the decisions of a policy.

    Attributes
    ----------
    rows, matched
        Number of rows; of those with a weight above 0, in which the policy may take the logged action.
    effective_rows
        Effective sample size: as many rows of equal weight would tell as much.
    variance_rows
        Number of rows that carry the variance of the weights. Below 50, intervals are not asymptotic.
    mean_weight, mean_weight_error
        Mean of the weights and its standard error. It is 1 where the propensities are right and the log takes every
        action of the policy.
    largest_weight
        The largest weight.
    top_share
        Share of all weight in the one percent of rows with the largest weights.
    least_propensity
        The smallest propensity of a logged action.
    tiny_share
        Share of rows whose logged action had a propensity below 0.01.
    unsupported_share
        Share of rows in which the policy's action has a propensity below 0.01; None unless the propensities of all
        actions are known (:class:`Propensities`).
    rare
        Actions of the policy whose propensity was not estimated from the features, because the log rarely took them.
    hardly_logged
        Actions that the policy takes in more than 1 % of rows, and the log in fewer than 20; with their logged rows.
    """

    rows: int
    matched: int
    effective_rows: float
    variance_rows: float
    mean_weight: float
    mean_weight_error: float
    largest_weight: float
    top_share: float
    least_propensity: float
    tiny_share: float
    unsupported_share: float | None = None
    rare: tuple[ActionName, ...] = ()
    hardly_logged: dict[ActionName, int] = field(default_factory=dict)

    @property
    def problems(self) -> list[str]:
        """What speaks against an estimate, in words; none if the overlap is good."""
        found = []
        if self.effective_rows < MIN_EFFECTIVE_ROWS:
            found.append(
                f"the effective sample size is {self.effective_rows:,.0f} of {self.rows:,} rows: "
                "the log rarely took the policy's actions"
            )
        if self.variance_rows < MIN_VARIANCE_ROWS:
            found.append(
                f"{self.variance_rows:,.0f} rows carry the variance of the weights: intervals are widened by what "
                "other rows could have earned"
            )
        if (problem := support_problem(self.mean_weight, self.mean_weight_error)) is not None:
            found.append(problem)
        if self.unsupported_share is not None and self.unsupported_share > MOST_UNSUPPORTED:
            found.append(
                f"in {self.unsupported_share:.1%} of rows the policy's action has a propensity below {TINY:g}: "
                "nothing in the log tells what it earns there"
            )
        if self.rare:
            names = ", ".join(map(repr, self.rare))
            found.append(f"the log rarely took {names}: its propensity is its share of all rows, whatever the features")
        for action, rows in self.hardly_logged.items():
            if action in self.rare:
                continue
            found.append(
                f"it takes {action!r} often, which the log has in {rows:,} of {self.rows:,} rows: nothing tells what "
                "it earns (is the name misspelt?)"
            )
        return found


def overlap(log: Log | Propensities, chosen: Any) -> Overlap:
    """Diagnose the overlap of a log with a policy.

    Parameters
    ----------
    log
        A log with propensities, or the result of :func:`estimate_propensities`.
    chosen
        As for :func:`ips`.

    Examples
    --------
    >>> import numpy as np
    >>> from releaf import evaluate, streams
    >>> log = evaluate.sample_log(streams.clicks(4_000))
    >>> found = evaluate.overlap(log, np.zeros(len(log), dtype=int))
    >>> round(found.mean_weight), found.problems
    (1, [])
    """
    known = log.log if isinstance(log, Propensities) else log
    weights = importance_weights(known, chosen)
    if known.probabilities is None or not len(known):
        raise ValueError("the log is empty: expected at least one row")
    count, total = len(weights), float(weights.sum())
    target = checked_target(known, chosen)
    top = np.sort(weights)[count - max(1, count // 100) :]
    return Overlap(
        rows=count,
        matched=int((weights > 0).sum()),
        effective_rows=effective_sample_size(total, float((weights**2).sum())),
        variance_rows=variance_rows(weights),
        mean_weight=total / count,
        mean_weight_error=float(weights.std()) / math.sqrt(count),
        largest_weight=float(weights.max()),
        top_share=float(top.sum()) / total if total else 0.0,
        least_propensity=float(known.probabilities.min()),
        tiny_share=float((known.probabilities < TINY).mean()),
        unsupported_share=_unsupported(log.table, target) if isinstance(log, Propensities) else None,
        rare=tuple(action for action in log.rare if _takes(target, known.actions.index(action)))
        if isinstance(log, Propensities)
        else (),
        hardly_logged=_hardly_logged(known, target),
    )


def _takes(target: Array, action: int) -> bool:
    """Whether a policy takes an action in any row."""
    return bool((target[:, action] > 0.0).any() if target.ndim == 2 else (target == action).any())


def _hardly_logged(log: Log, target: Array) -> dict[ActionName, int]:
    logged = np.bincount(log.taken, minlength=len(log.actions))
    taken = target.sum(axis=0) if target.ndim == 2 else np.bincount(target, minlength=len(log.actions))
    rare = np.flatnonzero((logged < MIN_ACTION_ROWS) & (taken > MOST_UNSUPPORTED * len(log)))
    return {log.actions[index]: int(logged[index]) for index in rare.tolist()}


def _unsupported(table: Array, target: Array) -> float:
    """Share of the policy's decisions on actions with a tiny propensity."""
    if target.ndim == 2:
        return float((target * (table < TINY)).sum(axis=1).mean())
    return float((table[np.arange(len(target)), target] < TINY).mean())
