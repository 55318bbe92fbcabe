"""JointReleaf in plain Python, written for reading: the reference for its kernels.

Rows of the regression are kept, and each posterior is solved anew from all of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
LEVELS = 16


def columns(values: Array) -> tuple[Array, list[int], list[int]]:
    """Columns of numbers in [0, 1]: values, feature and degree of each."""
    made, features, degrees = [1.0], [-1], [0]
    for feature, value in enumerate(values):
        line = 2 * value - 1
        made += [line, 1.5 * line**2 - 0.5]
        features += [feature] * 2
        degrees += [1, 2]
    return np.array(made), features, degrees


class PlainJoint:
    """The regression on terms x f, with an effect for each action."""

    def __init__(self, features: int, action_features: int) -> None:
        _, contexts, degrees = columns(np.zeros(features))
        _, actions, others = columns(np.zeros(action_features))
        self.terms = [
            (i, j)
            for j in range(len(actions))
            for i in range(len(contexts))
            if min(contexts[i], actions[j]) < 0 or degrees[i] + others[j] <= 3
        ]
        pairs = [(contexts[i], actions[j]) for i, j in self.terms]
        self.groups = list(dict.fromkeys(pair for pair in pairs if max(pair) >= 0))
        self.group = np.array([self.groups.index(pair) if max(pair) >= 0 else -1 for pair in pairs])
        self.rows: list[Array] = []
        self.shares: list[float] = []
        self.targets: list[float] = []
        self.variance, self.effect_variance, self.due = 0.15, 0.01, 8
        self.precisions = np.full(len(self.groups), self.first)
        self.history: dict[Any, list[tuple[Array, float]]] = {}  # of each action: its rows and rewards
        self.effects: dict[Any, float] = {}
        self.solve()

    @property
    def first(self) -> float:
        return 8 * math.sqrt(len(self.groups))

    def row(self, context: Array, action: Array) -> Array:
        x, f = columns(context)[0], columns(action)[0]
        return np.array([x[i] * f[j] for i, j in self.terms])

    def prior(self) -> Array:
        return np.where(self.group < 0, 5.0, self.precisions[self.group])

    def solve(self) -> None:
        matrix, shares = np.array(self.rows).reshape(-1, len(self.terms)), np.array(self.shares)
        self.gram = matrix.T @ (shares[:, None] * matrix)
        self.moment = matrix.T @ (shares * np.array(self.targets))
        self.covariance = np.linalg.inv(self.gram / self.variance + np.diag(self.prior()))
        self.weights = self.covariance @ self.moment / self.variance

    def score(self, context: Array, name: Any, action: Array) -> tuple[float, float]:
        """Estimate and standard deviation."""
        z, count = self.row(context, action), len(self.history.get(name, []))
        own = 1 / (1 / self.effect_variance + count / self.variance)
        return 0.5 + z @ self.weights + self.effects.get(name, 0.0), math.sqrt(z @ self.covariance @ z + own)

    def effect(self, name: Any) -> float:
        past = self.history[name]
        rest = sum(reward - z @ self.weights for z, reward in past)
        return float(rest / (len(past) + self.variance / self.effect_variance))

    def learn(self, context: Array, name: Any, action: Array, reward: float) -> None:
        z, past, target = self.row(context, action), self.history.setdefault(name, []), reward - 0.5
        c = len(past) + self.variance / self.effect_variance
        self.rows.append(z - sum((row for row, _ in past), np.zeros(len(z))) / c)
        self.targets.append(target - sum(own for _, own in past) / c)
        self.shares.append(c / (c + 1))
        past.append((z, target))
        self.solve()
        self.effects[name] = self.effect(name)
        if len(self.rows) >= self.due:
            self.fit()
            self.due = math.ceil(1.5 * len(self.rows))

    def fit(self) -> None:
        count = len(self.rows)
        self.precisions[:], self.variance = self.first, 0.15
        self.solve()
        for _ in range(3):
            sure = 1 - self.prior() * np.diag(self.covariance)
            squares = sum(s * t**2 for s, t in zip(self.shares, self.targets, strict=True))
            for group in range(len(self.groups)):
                own = self.group == group
                b = 1 / (self.first * (1 + count / 100))
                found = (max(sure[own].sum(), 0) + 1) / ((self.weights[own] ** 2).sum() + b)
                self.precisions[group] = min(max(found, 0.16), 1.6e5)
            sure = 1 - self.prior() * np.diag(self.covariance)
            left = squares - 2 * self.weights @ self.moment + self.weights @ self.gram @ self.weights
            free = max(count - sure.sum(), 0.25 * count)
            self.variance = min(max((max(left, 0) + 4 * 0.15) / (free + 4), 0.004), 0.25)
            self.solve()
        self.effects = {name: self.effect(name) for name in self.history}
        total = 4 * 0.01 + sum(
            self.effects[name] ** 2 + self.variance / (len(past) + self.variance / self.effect_variance)
            for name, past in self.history.items()
        )
        self.effect_variance = min(max(total / (4 + len(self.history)), 1e-5), 0.1)


def marginals(scores: list[tuple[float, float]], k: int, optimism: float, least: float) -> tuple[Array, Array]:
    """Probability of each action to be one of the k with the highest upper bounds, and to be the first of them."""
    count = len(scores)
    uniform = min(1.0, least * count)
    inclusions, firsts = np.full(count, uniform * k / count), np.full(count, uniform / count)
    for level in range(LEVELS):
        bounds = np.array([mean + 2 * optimism * (level + 0.5) / LEVELS * spread for mean, spread in scores])
        lowest = np.sort(bounds)[-k]
        above, equal = bounds > lowest, bounds == lowest
        share = above + equal * (k - above.sum()) / equal.sum()
        inclusions += (1 - uniform) * share / LEVELS
        best = bounds == bounds.max()
        firsts += (1 - uniform) * best / best.sum() / LEVELS
    return inclusions, firsts
