"""AdaptiveReleaf in plain numpy, for numbers without missing values: the reference for its kernels.

Slow, and written from the rules alone: dense columns, matrix inverses, no rings.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

SINGLES, MOST, LINE, ROUGH, FINE = 130, 180, 0, 1, 2


def logistic(value: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-np.clip(value, -30, 30)))


def knots_of(values: Any) -> Any:
    """The ends of the range, and up to four quantiles of the values, equal ones counted as the root of their number."""
    different, counts = np.unique(values, return_counts=True)
    inside = different
    if len(different) > 4:
        weights = np.sqrt(counts)
        reached = np.concatenate([[0.0], np.cumsum((weights[1:] + weights[:-1]) / 2)])
        goals = weights.sum() * (np.arange(4) + 0.5) / 4 - weights[0] / 2
        inside = np.interp(goals, reached, different)
    knots = [0.0]
    for knot in [*inside, 1.0]:
        if knot > knots[-1] + 1e-6:
            knots.append(float(knot))
    return np.array(knots)


class Levels:
    """The knots of every feature, and the mean and deviation that lines are measured by."""

    def __init__(self, seen: Any = None, features: int = 0) -> None:
        if seen is None:
            self.knots = [np.array([0.0, 0.5, 1.0])] * features
            self.centre, self.scale = np.full(features, 0.5), np.full(features, np.sqrt(12.0))
        else:
            self.knots = [knots_of(column) for column in seen.T]
            self.centre, self.scale = seen.mean(axis=0), 1.0 / np.maximum(seen.std(axis=0), 1e-3)

    def place(self, context: Any, feature: int) -> float:
        knots = self.knots[feature]
        return float(np.interp(context[feature], knots, np.arange(len(knots))))

    def columns(self, context: Any, feature: int, resolution: int) -> Any:
        if resolution == LINE:
            height = (context[feature] - self.centre[feature]) * self.scale[feature]
            return np.clip([height], -3, 3)
        levels = len(self.knots[feature])
        kept = min(levels, 4) if resolution == ROUGH else levels
        place = self.place(context, feature) * (kept - 1) / (levels - 1)
        return np.maximum(0.0, 1.0 - np.abs(np.arange(kept) - place))

    def width(self, feature: int, resolution: int) -> int:
        levels = len(self.knots[feature])
        return 1 if resolution == LINE else min(levels, 4) if resolution == ROUGH else levels

    def bin(self, context: Any, feature: int) -> int:
        return int(self.place(context, feature) + 0.5)


class PlainAction:
    """One action: its rewards, its tables and its regression."""

    def __init__(self, features: int) -> None:
        self.features = features
        self.rows: list[Any] = []
        self.rewards: list[float] = []
        self.next = 0
        self.low, self.high = np.zeros(features), np.ones(features)

    def row(self, context: Any, tables: Any = None, known: bool = False) -> Any:
        """The columns of a context."""
        outside = 0 if known else int(((context < self.low) | (context > self.high)).sum())
        parts = [[1.0, 0.5 * min(outside, 4)]]
        for first, second, resolution in self.tables if tables is None else tables:
            columns = self.levels.columns(context, first, resolution)
            if second is not None:
                columns = np.outer(columns, self.levels.columns(context, second, resolution)).ravel()
            parts.append(columns)
        return np.concatenate(parts)

    def width(self, table: Any) -> int:
        first, second, resolution = table
        return self.levels.width(first, resolution) * (1 if second is None else self.levels.width(second, resolution))

    def fit(self, tables: Any, rows: Any, rewards: Any, rounds: int) -> tuple[Any, Any, Any, float]:
        """Newton's method, with the precision of each table found between its rounds."""
        owners = np.repeat(np.arange(len(tables)), [self.width(table) for table in tables])
        matrix = np.array([self.row(row, tables, known=True) for row in rows]).reshape(len(rows), 2 + len(owners))
        first = 0.5 * np.sqrt(self.features)
        precisions, theta, dispersion = np.full(len(tables), first), np.zeros(2 + len(owners)), 1.0
        for turn in range(rounds):
            ridge = np.concatenate([[0.3, 0.3], precisions[owners]])
            mean = logistic(matrix @ theta)
            error, weight = rewards - mean, np.maximum(mean * (1 - mean), 1e-3) / dispersion
            found = np.clip((1 + (error**2).sum()) / (1 + (mean * (1 - mean)).sum()), 0.02, 1.0)
            covariance = np.linalg.inv((matrix * weight[:, None]).T @ matrix + np.diag(ridge))
            step = covariance @ (matrix.T @ error / dispersion - ridge * theta)
            longest = max(np.abs(matrix @ step).max(initial=0.0), 1e-9)
            theta = theta + step * min(1.0, 4.0 / longest)
            if 0 < turn < rounds - 1:
                precisions = self.shrunk(owners, theta, covariance, precisions, first, len(rows))
                dispersion = found
        self.precisions, self.owners = precisions, owners
        return theta, covariance, rewards - logistic(matrix @ theta), float(dispersion)

    def shrunk(self, owners: Any, theta: Any, covariance: Any, precisions: Any, first: float, count: int) -> Any:
        determined = np.bincount(owners, 1.0 - precisions[owners] * np.diag(covariance)[2:], len(precisions))
        squares = np.bincount(owners, theta[2:] ** 2, len(precisions))
        found = (np.maximum(determined, 0) + 1.0) / (squares + 1.0 / (first * (1.0 + count / 100.0)))
        return np.clip(found, 0.01, 1e4)

    def renew(self, levels: Levels) -> None:
        """Choose the tables by the rewards and fit them."""
        self.levels = levels
        rows, rewards = np.array(self.rows).reshape(-1, self.features), np.array(self.rewards)
        if len(rows):
            margin = 0.05 * (rows.max(axis=0) - rows.min(axis=0))
            self.low, self.high = rows.min(axis=0) - margin, rows.max(axis=0) + margin
        tables = self.first_tables(rows, rewards)
        if len(rows) >= 40:
            late, late_rewards = rows[-2048:], rewards[-2048:]
            theta, covariance, residuals, dispersion = self.fit(tables, late, late_rewards, 4)
            if len(rows) >= 256:
                tables = self.without_idle(tables, theta, covariance)
            tables = self.with_more(tables, late, late_rewards, residuals, dispersion)
        self.tables = tables
        self.theta, self.covariance, _, self.dispersion = self.fit(tables, rows, rewards, 5)
        if len(rows) >= 2048:
            self.tables = self.without_idle(tables, self.theta, self.covariance)
            self.theta, self.covariance, _, self.dispersion = self.fit(self.tables, rows, rewards, 5)
        grown = int(1.5 * len(rows)) + 1 - len(rows)
        self.next = len(rows) + max(min(grown, 4096 - len(rows)), 8)

    def first_tables(self, rows: Any, rewards: Any) -> Any:
        scores = np.zeros(self.features)
        if len(rows):
            mean = rewards.mean()
            information = np.full(len(rows), max(mean * (1 - mean), 0.02))
            for feature in range(self.features):
                gain, cells = gain_of([self.levels.bin(row, feature) for row in rows], rewards - mean, information)
                scores[feature] = gain - cells
        order = [int(feature) for feature in np.argsort(-scores, kind="stable")]
        tables = [(feature, None, LINE) for feature in order]
        for resolution in (FINE, ROUGH):
            levels = [(feature, None, resolution) for feature in order]
            if 2 + len(tables) + sum(map(self.width, levels)) <= SINGLES:
                return tables + levels
        return tables

    def without_idle(self, tables: Any, theta: Any, covariance: Any) -> Any:
        variances, kept = np.diag(covariance)[2:], []
        for place, table in enumerate(tables):
            mine = self.owners == place
            determined = (1.0 - self.precisions[place] * variances[mine]).sum()
            squares = (theta[2:][mine] ** 2 / variances[mine]).sum()
            if table[2] == LINE or squares > determined + np.sqrt(2 * max(determined, 0)):
                kept.append(table)
        return kept

    def with_more(self, tables: Any, rows: Any, rewards: Any, residuals: Any, dispersion: float) -> Any:
        mean = rewards - residuals
        information = np.maximum(mean * (1 - mean), 0.02)
        bins = np.array([[self.levels.bin(row, feature) for feature in range(self.features)] for row in rows])
        order = list(dict.fromkeys(table[0] for table in tables))
        bent = {table[0] for table in tables if table[2] != LINE}
        found = []
        for feature in order:
            if feature not in bent:
                gain, cells = gain_of(bins[:, feature], residuals, information)
                found.append((gain / dispersion - by_chance(cells - 2), (feature, None, FINE)))
        for i, j in itertools.combinations(range(min(len(order), 64)), 2):
            found.append(self.pair(order[j], order[i], bins, residuals, information, dispersion))
        ranks = {table: rank for rank, table in enumerate(self.in_turn(order, bent))}
        found = [entry for entry in found if entry[0] > 0]
        found.sort(key=lambda entry: (-entry[0], ranks[entry[1][:2]]))
        columns, tables = 2 + sum(map(self.width, tables)), list(tables)
        for _, table in found:
            if columns + self.width(table) <= MOST:
                tables.append(table)
                columns += self.width(table)
        return tables

    def in_turn(self, order: Any, bent: Any) -> Any:
        yield from ((feature, None) for feature in order if feature not in bent)
        yield from ((order[i], order[j]) for i in range(len(order)) for j in range(i))

    def pair(self, first: int, second: int, bins: Any, residuals: Any, information: Any, dispersion: float) -> Any:
        cells = bins[:, first] * 9 + bins[:, second]
        thirds = [third(bins[:, feature], len(self.levels.knots[feature])) for feature in (first, second)]
        rough, groups = gain_of(thirds[0] * 4 + thirds[1], residuals, information)
        fine, visited = gain_of(cells, residuals, information)
        roughly, finely = (
            gain / dispersion - by_chance(count - 5) for gain, count in ((rough, groups), (fine, visited))
        )
        return (finely, (first, second, FINE)) if finely > roughly else (roughly, (first, second, ROUGH))

    def look(self, context: Any) -> tuple[float, float]:
        row = self.row(context)
        return float(row @ self.theta), float(np.sqrt(max(row @ self.covariance @ row, 0.0)))

    def learn(self, context: Any, reward: float) -> bool:
        """Update the posterior, unless tables are due to be chosen anew; whether they are."""
        row = self.row(context)
        self.rows.append(context)
        self.rewards.append(reward)
        if len(self.rows) >= self.next:
            return True
        push, mean = self.covariance @ row, logistic(row @ self.theta)
        weight, spread = max(mean * (1 - mean), 1e-3) / self.dispersion, row @ push
        scale = 1.0 / (1.0 + weight * spread)
        step = (reward - mean) / self.dispersion * scale
        step *= min(1.0, 20.0 / max(abs(step) * spread, 1e-300))
        self.theta = self.theta + push * step
        if 1.0 - scale >= 0.005:
            self.covariance = self.covariance - np.outer(push, push) * weight * scale
        return False


def by_chance(cells: int) -> float:
    freedom = max(cells, 1)
    return float(freedom + 1.5 * np.sqrt(2 * freedom))


def third(bins: Any, levels: int) -> Any:
    if levels <= 3:
        return bins
    share = bins / (levels - 1)
    return np.where(share < 0.4, 0, np.where(share > 0.6, 2, 1))


def gain_of(cells: Any, residuals: Any, information: Any) -> tuple[float, int]:
    sums, sizes = np.bincount(cells, residuals), np.bincount(cells, information)
    return float((sums**2 / (sizes + 0.25))[sizes > 0].sum()), int((sizes > 0).sum())


class PlainAdaptive:
    """All actions, and the contexts seen. The action that is taken is told, since it is drawn."""

    def __init__(self, actions: int, features: int, optimism: float = 0.5) -> None:
        self.levels, self.optimism = Levels(features=features), optimism
        self.seen: list[Any] = []
        self.actions = [PlainAction(features) for _ in range(actions)]
        for action in self.actions:
            action.renew(self.levels)

    def chances(self, context: Any) -> tuple[Any, Any]:
        """The estimate and the probability of each action, after seeing one more context."""
        self.seen.append(context)
        count = len(self.seen)
        if count >= 8 and count & (count - 1) == 0:
            self.levels = Levels(np.array(self.seen[-1024:]))
        logits, spreads = np.array([action.look(context) for action in self.actions]).T
        chances = np.zeros(len(logits))
        for mood in range(16):
            hoped = logits + 2 * self.optimism * (mood + 0.5) / 16 * spreads
            chances += (hoped == hoped.max()) / (hoped == hoped.max()).sum() / 16
        return logistic(logits), chances

    def learn(self, context: Any, action: int, reward: float) -> None:
        if self.actions[action].learn(context, reward):
            self.actions[action].renew(self.levels)
