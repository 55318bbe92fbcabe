"""Counterfactual of a decision: the smallest change of one feature after which another action is estimated highest."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.decision_step import predict_many
from releaf.core.adaptive.engine import MixtureEngine
from releaf.datetimes import DateParts, YearWave
from releaf.features import MISSING, Quantile
from releaf.policies.context_values import value_text
from releaf.schema import Encoder

TRIED = 32  # values of a number, at equal shares of the contexts seen
MOST_CATEGORIES = 64  # of a feature, those seen most often
MOST_FEATURES = 64  # those with the highest relevance
HALVINGS = 12  # of the interval in which the decision changes
STEPS_OUTWARD = 33  # observed values at which the change of a rank is tried
MOST_DAYS = 366  # by which a date is moved
HOURS = 24


class Change(NamedTuple):
    """A change of one feature's encoded value after which an action leads; ``share`` of contexts lies between both.

    A date is moved as a whole: ``feature`` is then its trend, and ``moved_to`` the new date.
    """

    feature: int
    value: float
    action: int
    share: float
    moved_to: datetime | date | None = None
    holds_beyond: bool = True  # for all values further away, of a number

    def input_of(self, encoder: Encoder, context: Array) -> tuple[str, Any]:
        """Name of the input and its new value: where the feature is a part of a date, a date that has the others."""
        name, date_ = encoder.input_name(self.feature), encoder.date_at(self.feature)
        if self.moved_to is not None:
            return name, self.moved_to
        if date_ is None:
            return name, encoder.from_unit(self.feature, self.value)
        feature, where = date_
        row = context.copy()
        row[self.feature] = self.value
        return name, feature.value_of(feature.moment_like(row[where]))

    def text(self, encoder: Encoder, context: Array) -> str:
        """The change for people."""
        name, value = self.input_of(encoder, context)
        is_date = self.moved_to is not None or encoder.date_at(self.feature) is not None
        if value is None:
            return f"{name} missing"
        if not is_date and not encoder.schema.features[self.feature].categories and self.holds_beyond:
            return f"{name} {'above' if self.value > context[self.feature] else 'below'} {value_text(value)}"
        part = encoder.schema.names[self.feature].removeprefix(f"{name}: ")
        told = f" ({part} {encoder.from_unit(self.feature, self.value)})" if is_date and self.moved_to is None else ""
        return f"{name} = {value_text(value)}{told}"


def smallest_change(
    engine: MixtureEngine, encoder: Encoder, context: Array, leader: int, order: Array
) -> Change | None:
    """Find the change; ``order`` are the features that may change, by relevance."""
    seen = engine.state.seen[: int(engine.state.seen_counts[0])].astype(np.float64)
    dates = encoder.date_parts()
    # Parts of a date change with the day, and a sine alone is no season.
    of_dates = {position for parts in dates for position in parts.of_day}
    of_dates |= {position for position, feature in enumerate(encoder.schema.features) if isinstance(feature, YearWave)}
    features = [feature for feature in order[:MOST_FEATURES].tolist() if feature not in of_dates]
    allowed = set(order.tolist())
    found = [
        _nearest_date(engine, context, leader, parts, seen) for parts in dates if not allowed.isdisjoint(parts.of_day)
    ]
    hours = encoder.hour_positions()
    found += [
        _nearest_value(engine, context, leader, feature, seen[:, feature], feature in hours) for feature in features
    ]
    usable = [change for change in found if change is not None and not _is_part_missing(encoder, change)]
    changes = sorted(usable, key=lambda change: change.share)
    for change in changes:
        exact = _exact(engine, encoder, context, leader, change)
        if exact is not None:
            return exact
    return None


def _is_part_missing(encoder: Encoder, change: Change) -> bool:
    """Whether the change is a date of which only a part is missing, which none is."""
    is_part = encoder.date_at(change.feature) is not None
    return is_part and encoder.from_unit(change.feature, change.value) is None


def _exact(engine: MixtureEngine, encoder: Encoder, context: Array, leader: int, change: Change) -> Change | None:
    """The change with a value as near to the current one as it can be, or at which the feature was observed."""
    if change.moved_to is not None or engine.settings.categories[change.feature]:
        return change
    found: Change | None = _refined(engine, context, leader, change)
    if found is not None and isinstance(encoder.schema.features[change.feature], Quantile):
        found = _at_an_observed_value(engine, encoder, context, leader, found)
    return found and found._replace(holds_beyond=_holds_beyond(engine, context, leader, found))


def _nearest_value(
    engine: MixtureEngine, context: Array, leader: int, feature: int, seen: Array, is_hour: bool
) -> Change | None:
    values, shares = _values_of(engine, seen, feature, context[feature], is_hour)
    rows = np.repeat(context[None, :], len(values), axis=0)
    rows[:, feature] = values
    leaders = _leaders(engine, rows)
    changed = np.flatnonzero(leaders != leader)
    if not len(changed):
        return None
    nearest = changed[np.argmin(shares[changed])]
    return Change(feature, float(values[nearest]), int(leaders[nearest]), float(shares[nearest]))


def _nearest_date(engine: MixtureEngine, context: Array, leader: int, parts: DateParts, seen: Array) -> Change | None:
    """The nearest day on which another action leads, with all parts of the date as they are then."""
    moments = parts.moments_around(context, MOST_DAYS)
    if not len(moments):
        return None
    rows = np.repeat(context[None, :], len(moments), axis=0)
    rows[:, parts.where] = parts.feature.encode_moments(moments).T
    leaders = _leaders(engine, rows)
    changed = np.flatnonzero(leaders != leader)  # moments are sorted, the nearest first
    if not len(changed):
        return None
    nearest, trend = changed[0], parts.trend
    trends = np.sort(seen[seen[:, trend] != MISSING, trend])
    ends = np.searchsorted(trends, [rows[nearest, trend], context[trend]])
    share = abs(int(ends[0] - ends[1])) / max(len(trends), 1)
    moved_to = parts.feature.value_of(int(moments[nearest]))
    return Change(trend, float(rows[nearest, trend]), int(leaders[nearest]), share, moved_to)


def _values_of(engine: MixtureEngine, seen: Array, feature: int, current: float, is_hour: bool) -> tuple[Array, Array]:
    """Other values of a feature, and the share of contexts between each and the current one.

    Categories have no order, but for hours: the more contexts have one, the smaller is a change to it.
    """
    categories = int(engine.settings.categories[feature])
    if categories:
        counts = np.bincount((seen * categories).astype(np.int64), minlength=categories)
        present = np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]
        present = present[(counts[present] > 0) & (present != int(current * categories))]
        if is_hour:
            apart = np.abs(present - int(current * categories))
            return (present + 0.5) / categories, np.minimum(apart, HOURS - apart) / HOURS
        return (present + 0.5) / categories, 1.0 - counts[present] / max(len(seen), 1)
    numbers = np.sort(seen[seen != MISSING])
    if not len(numbers) or current == MISSING:
        return np.empty(0), np.empty(0)
    values = np.unique(np.quantile(numbers, np.linspace(0.0, 1.0, TRIED)))
    values = values[values != current]
    ranks = np.searchsorted(numbers, values) - np.searchsorted(numbers, current)
    return values, np.abs(ranks) / len(numbers)


def _leaders(engine: MixtureEngine, rows: Array) -> Array:
    """Action with the highest estimate in each of some contexts."""
    estimates = np.empty((len(rows), len(engine.samples)))
    predict_many(engine.state.pointer_table, rows, estimates)
    leaders: Array = estimates.argmax(axis=1)
    return leaders


def _leader_at(engine: MixtureEngine, context: Array, feature: int, value: float) -> int:
    row = context.copy()
    row[feature] = value
    return int(_leaders(engine, row[None, :])[0])


def _refined(engine: MixtureEngine, context: Array, leader: int, change: Change) -> Change:
    """Move a number as near to the current value as the decision stays changed."""
    inside, outside, action = float(context[change.feature]), change.value, change.action
    for _ in range(HALVINGS):
        middle = 0.5 * (inside + outside)
        there = _leader_at(engine, context, change.feature, middle)
        if there == leader:
            inside = middle
        else:
            outside, action = middle, there
    return change._replace(value=outside, action=action)


def _at_an_observed_value(
    engine: MixtureEngine, encoder: Encoder, context: Array, leader: int, change: Change
) -> Change | None:
    """The nearest observed value of a quantile feature at which the change holds: ranks between two are no values."""
    sketch, end = encoder.sketches[change.feature], float(change.value > context[change.feature])
    for rank in np.linspace(change.value, end, STEPS_OUTWARD):
        unit = float(sketch.rank(sketch.value(float(rank))))
        action = _leader_at(engine, context, change.feature, unit)
        if action != leader:
            return change._replace(value=unit, action=action)
    return None


def _holds_beyond(engine: MixtureEngine, context: Array, leader: int, change: Change) -> bool:
    """Whether the decision stays changed from a value on."""
    rows = np.repeat(context[None, :], STEPS_OUTWARD, axis=0)
    rows[:, change.feature] = np.linspace(change.value, float(change.value > context[change.feature]), STEPS_OUTWARD)
    return bool((_leaders(engine, rows) != leader).all())
