"""Counterfactual of a decision: the smallest change of one feature after which another action is estimated highest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.decision_step import predict_many
from releaf.core.adaptive.engine import MixtureEngine
from releaf.features import MISSING

TRIED = 32  # values of a number, at equal shares of the contexts seen
MOST_CATEGORIES = 64  # of a feature, those seen most often
MOST_FEATURES = 64  # those with the highest relevance
HALVINGS = 12  # of the interval in which the decision changes


class Change(NamedTuple):
    """A change of one feature's encoded value after which an action leads; ``share`` of contexts lies between both."""

    feature: int
    value: float
    action: int
    share: float


def smallest_change(engine: MixtureEngine, context: Array, leader: int, order: Array) -> Change | None:
    """Find the change; ``order`` are the features by relevance."""
    seen = engine.state.seen[: int(engine.state.seen_counts[0])].astype(np.float64)
    found: list[Change] = []
    for feature in order[:MOST_FEATURES].tolist():
        values, shares = _values_of(engine, seen[:, feature], feature, context[feature])
        if len(values):
            leaders = leaders_at(engine, context, feature, values)
            changed = np.flatnonzero(leaders != leader)
            if len(changed):
                nearest = changed[np.argmin(shares[changed])]
                value = float(values[nearest])
                found.append(Change(feature, value, int(leaders[nearest]), float(shares[nearest])))
    if not found:
        return None
    best = min(found, key=lambda change: change.share)
    return best if engine.settings.categories[best.feature] else _refined(engine, context, leader, best)


def _values_of(engine: MixtureEngine, seen: Array, feature: int, current: float) -> tuple[Array, Array]:
    """Other values of a feature, and the share of contexts between each and the current one.

    Categories have no order: the more contexts have one, the smaller is a change to it.
    """
    categories = int(engine.settings.categories[feature])
    if categories:
        counts = np.bincount((seen * categories).astype(np.int64), minlength=categories)
        present = np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]
        present = present[(counts[present] > 0) & (present != int(current * categories))]
        return (present + 0.5) / categories, 1.0 - counts[present] / max(len(seen), 1)
    numbers = np.sort(seen[seen != MISSING])
    if not len(numbers) or current == MISSING:
        return np.empty(0), np.empty(0)
    values = np.unique(np.quantile(numbers, np.linspace(0.0, 1.0, TRIED)))
    values = values[values != current]
    ranks = np.searchsorted(numbers, values) - np.searchsorted(numbers, current)
    return values, np.abs(ranks) / len(numbers)


def leaders_at(engine: MixtureEngine, context: Array, feature: int, values: Array) -> Array:
    """Action with the highest estimate, for each of some values of a feature."""
    rows = np.repeat(context[None, :], len(values), axis=0)
    rows[:, feature] = values
    estimates = np.empty((len(values), len(engine.samples)))
    predict_many(engine.state.pointer_table, rows, estimates)
    leaders: Array = estimates.argmax(axis=1)
    return leaders


def _refined(engine: MixtureEngine, context: Array, leader: int, change: Change) -> Change:
    """Move a number as near to the current value as the decision stays changed."""
    inside, outside, action = float(context[change.feature]), change.value, change.action
    for _ in range(HALVINGS):
        middle = 0.5 * (inside + outside)
        there = int(leaders_at(engine, context, change.feature, np.array([middle]))[0])
        if there == leader:
            inside = middle
        else:
            outside, action = middle, there
    return change._replace(value=outside, action=action)
