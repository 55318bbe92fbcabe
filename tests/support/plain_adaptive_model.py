"""The model of one action of AdaptiveReleaf in plain numpy: the reference for its kernels.

Slow, and written from the rules alone: dense columns, matrix inverses, recursion. Constants are the package's.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from plain_levels import MISSING_BIN, Features, PlainLevels
from plain_regression import PlainEffects, PlainTrend, Posterior, solve, solve_lines
from plain_trees import PlainForest, SplitMix

from releaf.core.adaptive import fitting, gains, model, ridge, table_selection, trees
from releaf.core.adaptive.levels import FINE, ROUGH, SLOPE
from releaf.core.adaptive.state import MOST_COLUMNS
from releaf.core.adaptive.table_columns import MOST_OUTSIDE

Table = tuple[int, int | None, int]  # first feature, second one, resolution


def gain_of(cells: Any, residuals: Any) -> tuple[float, int]:
    _, places = np.unique(cells, return_inverse=True)
    sums, sizes = np.bincount(places, residuals), np.bincount(places)
    return float((sums**2 / (sizes + gains.SOFTENING)).sum()), len(sums)


def by_chance(cells: float) -> float:
    freedom = max(cells, 1)
    return float(freedom + table_selection.DEVIATIONS * np.sqrt(2 * freedom))


def third(bins: Any, count: int) -> Any:
    share = bins / (count - 1) if count > 1 else bins
    grouped = bins if count <= 3 else np.where(share < 0.4, 0, np.where(share > 0.6, 2, 1))
    return np.where(bins == MISSING_BIN, 3, grouped)


class Given(NamedTuple):
    """What a model follows from."""

    contexts: Any
    rewards: Any
    keys: list[int]
    levels: PlainLevels
    offset: float
    least_leaf: int


class PlainModel:
    """Tables, both regressions, category effects and trees of an action."""

    def __init__(self, features: Features, given: Given) -> None:
        self.features, self.levels, self.offset = features, given.levels, given.offset
        self.effects = PlainEffects(features)
        self.forest: PlainForest | None = None
        self.low, self.high = np.zeros(len(features.categories)), np.ones(len(features.categories))
        if len(given.rewards):
            self.fit(given)
        else:
            self.start()
        self.trend = PlainTrend(len(self.wide.weights), len(self.tables))
        self.predicted = self.missed = 0.0

    @property
    def count(self) -> int:
        return len(self.features.categories)

    def start(self) -> None:
        """Lines of numbers and tables of categories, as far as they fit, with their prior."""
        self.tables: list[Table] = []
        for feature in range(self.count):
            table = (feature, None, SLOPE)
            if not self.features.is_wide(feature) and self.fits([*self.tables, table]):
                self.tables.append(table)
        columns = 2 + sum(map(self.width, self.tables))
        prior = np.full(columns, ridge.TABLE_PRECISION * np.sqrt(self.count))
        prior[:2] = ridge.CONSTANT_PRECISION, ridge.UNLIKE_PRECISION
        self.wide, self.lines = (
            Posterior(np.zeros(columns), np.diag(1.0 / prior), None, ridge.FIRST_VARIANCE) for _ in range(2)
        )

    def fits(self, tables: list[Table]) -> bool:
        return 2 + sum(map(self.width, tables)) <= table_selection.MOST_SINGLE_COLUMNS

    def width(self, table: Table) -> int:
        first, second, resolution = table
        own = self.levels.width(first, resolution)
        return own if second is None else own * self.levels.width(second, resolution)

    def owners(self, tables: list[Table]) -> Any:
        return np.repeat(np.arange(len(tables)), [self.width(table) for table in tables])

    def rows(self, contexts: Any, tables: list[Table], outside: Any = 0.0) -> Any:
        """The dense columns of contexts."""
        parts = [np.ones((len(contexts), 1)), np.full((len(contexts), 1), outside)]
        for first, second, resolution in tables:
            columns = self.levels.columns(contexts, first, resolution)
            if second is not None:
                others = self.levels.columns(contexts, second, resolution)
                columns = (columns[:, :, None] * others[:, None, :]).reshape(len(contexts), -1)
            parts.append(columns)
        return np.concatenate(parts, axis=1)

    # --- fit ------------------------------------------------------------------------------------------------

    def fit(self, given: Given) -> None:
        contexts, targets = given.contexts, given.rewards - given.offset
        margin = model.MARGIN * (contexts.max(axis=0) - contexts.min(axis=0))
        self.low, self.high = contexts.min(axis=0) - margin, contexts.max(axis=0) + margin
        self.tables = self.selected(contexts, targets)
        matrix, remaining = self.rows(contexts, self.tables), targets
        for turn in range(model.EFFECT_TURNS if self.features.wide else 1):
            if turn:  # tables explain all but the effects
                remaining = targets - self.effects.of(contexts)[0]
            self.wide = solve(matrix, remaining, self.owners(self.tables), self.count, model.ROUNDS)
            self.effects.fit(contexts, targets - matrix @ self.wide.weights, self.wide.variance)
        slopes = list(itertools.takewhile(lambda table: table[1:] == (None, SLOPE), self.tables))
        lines = 2 + sum(map(self.width, slopes))
        self.lines = solve_lines(matrix[:, :lines], remaining, self.count, self.wide.variance)
        self.ranks = {
            feature: self.ranked(self.features.category(contexts, feature), targets, categories)
            for feature, categories in enumerate(self.features.categories)
            if categories
        }
        if len(targets) >= trees.FEWEST_ROWS:
            grains = np.floor(given.rewards * trees.GRAINS + 0.5).sum()
            generator = SplitMix((len(targets) << 40) ^ int(grains))
            candidates = min(max(self.count // 3, fitting.FEWEST_CANDIDATES), fitting.MOST_CANDIDATES)
            seen = np.array([self.as_trees_see(context) for context in contexts])
            self.forest = PlainForest(seen, given.rewards, generator, candidates, given.least_leaf)

    def selected(self, contexts: Any, targets: Any) -> list[Table]:
        """The tables of an action: those of one feature, less idle ones, and more that explain the residuals."""
        rows = len(targets)
        spaced = range(rows) if rows <= model.BLOCK else [place * rows // model.BLOCK for place in range(model.BLOCK)]
        some, some_targets = contexts[spaced], targets[spaced]
        tables = self.first_tables(some, some_targets)
        if len(targets) < model.FROM_PAIRS:
            return tables
        matrix = self.rows(some, tables)
        found = solve(matrix, some_targets, self.owners(tables), self.count, model.ROUNDS_TO_SELECT)
        residuals = PlainEffects(self.features).fit(some, some_targets - matrix @ found.weights, found.variance)
        if len(targets) >= model.ENOUGH_TO_DROP:
            tables = self.without_idle(tables, found)
        return self.with_more(tables, some, residuals, found.variance)

    def first_tables(self, contexts: Any, targets: Any) -> list[Table]:
        around, scores = targets - targets.mean(), np.zeros(self.count)
        for feature in range(self.count):
            if not self.features.is_wide(feature):
                gain, cells = gain_of(self.levels.bins(contexts, feature), around)
                scores[feature] = gain / ((around**2).mean() + 1e-9) - cells
        order = [int(place) for place in np.argsort(-scores, kind="stable") if not self.features.is_wide(place)]
        tables: list[Table] = []
        for feature in order:
            if self.fits([*tables, (feature, None, SLOPE)]):
                tables.append((feature, None, SLOPE))
        for resolution in (FINE, ROUGH):
            bent = [(feature, None, resolution) for feature in order if not self.features.categories[feature]]
            if self.fits([*tables, *bent]):
                return [*tables, *bent]
        return tables

    def without_idle(self, tables: list[Table], found: Posterior) -> list[Table]:
        owners, variances, kept = self.owners(tables), np.diag(found.covariance)[2:], []
        for place, table in enumerate(tables):
            mine = owners == place
            determined = (1.0 - found.precisions[place] * variances[mine]).sum()
            squares = (found.weights[2:][mine] ** 2 / variances[mine]).sum()
            chance = determined + table_selection.LEAST_EXCESS * np.sqrt(2 * max(determined, 0.0))
            if table[2] == SLOPE or squares > chance:
                kept.append(table)
        return kept

    def with_more(self, tables: list[Table], contexts: Any, residuals: Any, variance: float) -> list[Table]:
        bins = [self.levels.bins(contexts, feature) for feature in range(self.count)]
        inside = list(dict.fromkeys(table[0] for table in tables))
        bent = {table[0] for table in tables if table[2] != SLOPE}
        found: list[tuple[float, Table]] = []
        for feature in inside:
            if feature not in bent and not self.features.categories[feature]:
                gain, cells = gain_of(bins[feature], residuals)
                found.append((gain / variance - by_chance(cells - 2), (feature, None, FINE)))
        paired = inside[: table_selection.PAIRED]
        found += [
            self.pair(paired[i], paired[j], bins, residuals, variance) for i in range(len(paired)) for j in range(i)
        ]
        tables, used = list(tables), 2 + sum(map(self.width, tables))
        for _, table in sorted((entry for entry in found if entry[0] > 0), key=lambda entry: -entry[0]):
            if used + self.width(table) <= MOST_COLUMNS:
                tables.append(table)
                used += self.width(table)
        return tables

    def pair(self, first: int, second: int, bins: Any, residuals: Any, variance: float) -> tuple[float, Table]:
        """The gain of a pair in excess of chance, with the better of both resolutions."""
        thirds = [third(bins[feature], self.levels.count(feature)) for feature in (first, second)]
        rough, fine = (
            gain_of(places[0] * 2 * MISSING_BIN + places[1], residuals)
            for places in (thirds, (bins[first], bins[second]))
        )
        roughly, finely = (
            gain / variance - by_chance(cells - table_selection.SHARED_CELLS) for gain, cells in (rough, fine)
        )
        return (finely, (first, second, FINE)) if finely > roughly else (roughly, (first, second, ROUGH))

    def ranked(self, places: Any, targets: Any, categories: int) -> Any:
        """Rank of each category by its mean reward, shrunk to the mean of all."""
        counts = np.bincount(places, minlength=categories) + model.RANK_SHRINKAGE
        ranks = np.empty(categories, dtype=np.float32)
        ranks[np.argsort(np.bincount(places, targets, categories) / counts, kind="stable")] = (
            np.arange(categories) + 0.5
        ) / categories
        return ranks

    def as_trees_see(self, context: Any) -> Any:
        seen = context.astype(np.float32)
        for feature, ranks in self.ranks.items():
            seen[feature] = ranks[self.features.category(context, feature)]
        return seen

    # --- decide and learn -----------------------------------------------------------------------------------

    def row(self, context: Any) -> Any:
        outside = int(((context < self.low) | (context > self.high)).sum())
        return self.rows(context[None], self.tables, 0.5 * min(outside, MOST_OUTSIDE))[0]

    def predict(self, context: Any) -> tuple[list[float], float]:
        """The prediction of each expert, and the variance of the additive one."""
        row, (effect, effect_variance) = self.row(context), self.effects.of(context)
        lines, additive = (
            float(np.clip(self.offset + effect + row[: len(known.weights)] @ known.weights, 0.0, 1.0))
            for known in (self.lines, self.wide)
        )
        trees = self.forest.predict(self.as_trees_see(context)) if self.forest else (additive,) * 3
        return [lines, additive, *trees], max(row @ self.wide.covariance @ row, 0.0) + effect_variance

    def learn(self, context: Any, reward: float, fading: float, watches: bool = False) -> list[float]:
        """Predict a reward, then learn it, after the covariances have grown by a factor."""
        predictions, _ = self.predict(context)
        row, (effect, effect_variance) = self.row(context), self.effects.of(context)
        if self.forest:
            self.forest.learn(self.as_trees_see(context), reward)
        for known in (self.lines, self.wide):
            known.covariance = known.covariance * fading
        target, first = reward - self.offset - effect, row[: len(self.lines.weights)]
        self.lines.learn(first, target - first @ self.lines.weights, self.wide.variance, 0.0)
        error = target - row @ self.wide.weights
        self.missed += error
        self.predicted = self.trend.learn(row, error, self.wide.variance) if watches else 0.0
        error, scale = self.wide.learn(row, error, self.wide.variance, effect_variance)
        self.effects.learn(context, error, scale)
        return predictions
