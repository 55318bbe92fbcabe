"""Charts of a learner's features: their intervals, or their effects on the estimates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from releaf.chart_import import import_charts
from releaf.datetimes import Trend
from releaf.evaluate.ledger import Ledger
from releaf.features import Continuous, Feature
from releaf.inspection import Interval
from releaf.plot.heat_map import LETTER, relevance_of
from releaf.policy import Policy

MAX_INTERVALS = 24  # features
MAX_EFFECTS = 9  # features
MAX_CATEGORIES = 12  # of a feature, those with the largest effects
COLUMNS = 3  # of the grid of effects


def partition(learner: Policy | Ledger, feature: int | str | None = None, *, most: int | None = None) -> Any:
    """Partitions or effects of a learner's features.

    For :class:`releaf.Releaf` and other learners with a method ``partition``: the intervals of each feature, darker
    with more arrivals. For :class:`releaf.AdaptiveReleaf`: the additive effect of each feature on the estimate of each
    action, over the feature's range (see its method ``effect``), the most relevant features first.

    Parameters
    ----------
    learner
        A learner, or the ledger of its run if it has intervals.
    feature
        One feature, by name or position; when None, all of them.
    most
        Maximum number of features, the most relevant ones; when None, 24 with intervals and 9 with effects.
    """
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise ValueError(f"most must be a whole number of at least 1, got most={most!r}")
    if isinstance(learner, Policy) and learner.traits.has_effects:
        return _effects(learner, feature, most or MAX_EFFECTS)
    if _has_intervals(learner):
        return _intervals(learner, feature, most or MAX_INTERVALS)
    raise ValueError(f"{learner!r} has neither partitions nor effects: expected Releaf, GreedyReleaf or AdaptiveReleaf")


def _has_intervals(learner: Policy | Ledger) -> bool:
    if isinstance(learner, Ledger):
        return learner.partition is not None
    return isinstance(learner, Policy) and learner.traits.has_intervals


def _shown(learner: Policy | Ledger, names: Sequence[str], feature: int | str | None, most: int) -> list[int]:
    """Positions of the features to show: the given one, or the most relevant first."""
    if feature is not None:
        if not isinstance(learner, Ledger):
            return [learner.schema.index(feature)]
        if not isinstance(feature, int) or not 0 <= feature < len(names):
            raise ValueError(f"unknown feature {feature!r}; the ledger has features 0 to {len(names) - 1}")
        return [feature]
    order = np.argsort(-relevance_of(learner).max(axis=0), kind="stable")
    return [int(index) for index in order[:most]]


def _partitions(source: Policy | Ledger) -> tuple[Sequence[str], Sequence[Feature], Callable[[int], list[Interval]]]:
    """Names of the features, the features, and the function that returns the intervals of one."""
    if not isinstance(source, Ledger):
        return source.schema.names, source.schema.features, source.partition
    stored = source.partition or []
    names = [f"x{index}" for index in range(len(stored))]
    return (
        names,
        [Continuous()] * len(stored),
        lambda index: [Interval(a, b, None, int(n)) for a, b, n in stored[index]],
    )


def _intervals(learner: Policy | Ledger, feature: int | str | None, most: int) -> Any:
    charts = import_charts()
    names, features, intervals_of = _partitions(learner)
    indices = sorted(_shown(learner, names, feature, most))
    kinds = [features[index] for index in indices]
    low, high, axis = 0.0, 1.0, "value, scaled to [0, 1]"
    if len(kinds) == 1 and type(kinds[0]) is Continuous:  # the parts of a date have no plain scale
        low, high, axis = kinds[0].low, kinds[0].high, "value"
    rows, end = [], 1.0
    for index, kind in zip(indices, kinds, strict=True):
        for start, stop, _, arrivals in intervals_of(index):
            row: dict[str, Any] = {"y": names[index], "value": arrivals, "where": "missing", "text": "missing"}
            if start == start:
                row |= {"where": kind.describe(start, stop), "text": None}
                if kind.categories and LETTER * len(row["where"]) <= charts.WIDTH * (stop - start):
                    row["text"] = row["where"].removeprefix("equal to ").strip("'")
            else:  # to the right of all others
                start, stop, end = 1.02, 1.12, 1.12
            rows.append({**row, "low": low + start * (high - low), "high": low + stop * (high - low)})
    ticks = None if end == 1.0 else np.linspace(low, high, 6).tolist()  # no ticks over the missing values
    drawn = charts.intervals(rows, axis, domain=(low, low + end * (high - low)), values=ticks)
    return charts.finished(drawn.properties(width=charts.WIDTH, height=26 * len(indices) + 10))


def _effects(learner: Policy, feature: int | str | None, most: int) -> Any:
    charts = import_charts()
    indices = _shown(learner, learner.schema.names, feature, most)
    effects = [learner.effect(index) for index in indices]
    amounts = [point.amount for effect in effects for points in effect.values() for point in points]
    low, high = min(amounts), max(amounts)
    margin = max(0.05 * (high - low), 0.01 * (learner.reward_range[1] - learner.reward_range[0]))
    limits = (low - margin, high + margin)
    actions = [str(action) for action in learner.actions]
    size = {"width": charts.WIDTH, "height": charts.HEIGHT} if len(indices) == 1 else {"width": 210, "height": 150}
    parts = []
    for turn, (index, effect) in enumerate(zip(indices, effects, strict=True)):
        title = "added to the estimate" if turn % COLUMNS == 0 else None
        kind = learner.schema.features[index]
        rows = _effect_rows(effect, kind.categories > 0)
        if kind.categories:
            part = charts.points(rows, title, actions, limits)
        else:
            part = charts.effect(rows, title, actions, limits, over_time=isinstance(kind, Trend))
        left_out = kind.categories - MAX_CATEGORIES
        cut = f" ({MAX_CATEGORIES} of {MAX_CATEGORIES + left_out} categories)" if left_out > 0 else ""
        parts.append(part.properties(title=learner.schema.names[index] + cut, **size))
    return charts.finished(parts[0] if len(parts) == 1 else charts.Grid(concat=parts, columns=COLUMNS))


def _milliseconds(value: Any) -> Any:
    """A date as the number that Vega takes; numbers unchanged."""
    return value.replace(tzinfo=UTC).timestamp() * 1e3 if isinstance(value, datetime) else value


def _effect_rows(effect: Mapping[Any, Any], are_categories: bool) -> list[dict[str, Any]]:
    """Points of a feature's effects; of many categories, those with the largest effects."""
    rows = [
        {"x": point.value, "y": point.amount, "series": str(action)}
        for action, points in effect.items()
        for point in points
    ]
    if not are_categories:
        return [{**row, "x": _milliseconds(row["x"])} for row in rows]
    strengths: dict[Any, float] = {}
    for row in rows:
        row["x"] = "missing" if row["x"] is None else str(row["x"])
        strengths[row["x"]] = max(strengths.get(row["x"], 0.0), abs(row["y"]))
    shown = sorted(strengths, key=lambda name: -strengths[name])[:MAX_CATEGORIES]
    return [row for row in rows if row["x"] in shown]
