"""Levels of AdaptiveReleaf's features in plain numpy, with dense columns: the reference for its kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from releaf.core.adaptive import levels
from releaf.core.adaptive.levels import ROUGH, SLOPE

MISSING_BIN = 1000


class Features(NamedTuple):
    """Number of categories of each feature, 0 for a number; and which numbers may be missing."""

    categories: list[int]
    optional: list[bool]

    def is_wide(self, feature: int) -> bool:
        return self.categories[feature] > levels.MOST_TABLED

    @property
    def wide(self) -> list[int]:
        return [feature for feature in range(len(self.categories)) if self.is_wide(feature)]

    def category(self, contexts: Any, feature: int) -> Any:
        return (contexts[..., feature] * self.categories[feature]).astype(int)


class PlainLevels:
    """The knots of every number, and the mean and deviation by which lines are measured."""

    def __init__(self, features: Features, before: PlainLevels | None = None, seen: Any = ()) -> None:
        self.features = features
        count = len(features.categories)
        self.knots: list[Any] = list(before.knots) if before else [np.array([0.0, 0.5, 1.0])] * count
        self.centre: Any = before.centre.copy() if before else np.full(count, 0.5)
        self.scale: Any = before.scale.copy() if before else np.full(count, np.sqrt(12.0))
        for feature in range(count if len(seen) else 0):
            present = seen[seen[:, feature] >= 0.0, feature]
            if features.categories[feature] == 0 and len(present) > 1:
                self.knots[feature] = knots_of(present)
                self.centre[feature] = present.mean()
                self.scale[feature] = 1.0 / max(present.std(), levels.LEAST_DEVIATION)

    def count(self, feature: int) -> int:
        return self.features.categories[feature] or len(self.knots[feature])

    def width(self, feature: int, resolution: int) -> int:
        if self.features.categories[feature]:
            return self.features.categories[feature]
        if resolution == SLOPE:
            return 1
        kept = min(self.count(feature), levels.COARSE) if resolution == ROUGH else self.count(feature)
        return kept + self.features.optional[feature]

    def columns(self, contexts: Any, feature: int, resolution: int) -> Any:
        """The dense columns of a feature (rows by columns)."""
        if self.features.categories[feature]:
            return np.eye(self.features.categories[feature])[self.features.category(contexts, feature)]
        values, width = contexts[:, feature], self.width(feature, resolution)
        missing = values < 0.0
        if resolution == SLOPE:
            heights = (values - self.centre[feature]) * self.scale[feature]
            return np.where(missing, 0.0, np.clip(heights, -levels.HIGHEST, levels.HIGHEST))[:, None]
        kept = width - self.features.optional[feature]
        places = self.places(values, feature) * (kept - 1) / (self.count(feature) - 1)
        hats = np.maximum(0.0, 1.0 - np.abs(np.arange(kept) - places[:, None])) * ~missing[:, None]
        return np.column_stack([hats, missing]) if self.features.optional[feature] else hats

    def places(self, values: Any, feature: int) -> Any:
        return np.interp(values, self.knots[feature], np.arange(len(self.knots[feature])))

    def bins(self, contexts: Any, feature: int) -> Any:
        """The level nearest to each value, and one more for missing values."""
        if self.features.is_wide(feature):
            return np.zeros(len(contexts), dtype=int)
        if self.features.categories[feature]:
            return self.features.category(contexts, feature)
        values = contexts[:, feature]
        return np.where(values < 0.0, MISSING_BIN, (self.places(values, feature) + 0.5).astype(int))


def knots_of(values: Any) -> Any:
    """The ends of the range, and some quantiles of the values, equal ones counted as the root of their number."""
    different, counts = np.unique(values, return_counts=True)
    inside = different
    if len(different) > levels.INSIDE:
        weights = np.sqrt(counts)
        reached = np.concatenate([[0.0], np.cumsum((weights[1:] + weights[:-1]) / 2)])
        goals = weights.sum() * (np.arange(levels.INSIDE) + 0.5) / levels.INSIDE - weights[0] / 2
        inside = np.interp(goals, reached, different)
    knots = [0.0]
    for knot in [*inside, 1.0]:
        if knot > knots[-1] + levels.LEAST_GAP:
            knots.append(float(knot))
    return np.array(knots)
