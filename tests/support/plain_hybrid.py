"""HybridLinUCB in plain Python, written for reading: one ridge regression on all weights, solved anew for each score.

Li et al. (2010) eliminate the weights of single actions block by block; the regression is the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


def columns(values: Any) -> Array:
    """Intercept, and numbers in [0, 1] moved to [-1, 1]."""
    return np.array([1.0, *(2.0 * value - 1.0 for value in values)])


class PlainHybrid:
    """Rewards y = zᵀβ + xᵀθₐ + noise, with all rows and a ridge penalty."""

    def __init__(self, features: int, action_features: int, ridge: float = 1.0) -> None:
        self.shared, self.own, self.ridge = (1 + features) * (1 + action_features), 1 + features, ridge
        self.rows: list[tuple[Array, Array, Any]] = []  # z, x, and the action
        self.rewards: list[float] = []

    def learn(self, context: Any, name: Any, action: Any, reward: float) -> None:
        self.rows.append((self.products(context, action), columns(context), name))
        self.rewards.append(reward)

    def products(self, context: Any, action: Any) -> Array:
        return np.outer(columns(action), columns(context)).ravel()

    def score(self, context: Any, name: Any, action: Any) -> tuple[float, float]:
        """Estimate and standard deviation."""
        names = list(dict.fromkeys([*(row[2] for row in self.rows), name]))
        matrix = np.array([self.whole(*row, names) for row in self.rows]).reshape(len(self.rows), -1)
        width = self.shared + self.own * len(names)
        gram = self.ridge * np.eye(width) + (matrix.T @ matrix if len(matrix) else 0.0)
        query = self.whole(self.products(context, action), columns(context), name, names)
        weights = np.linalg.solve(gram, matrix.T @ np.array(self.rewards)) if len(matrix) else np.zeros(width)
        return float(query @ weights), float(np.sqrt(query @ np.linalg.solve(gram, query)))

    def whole(self, shared: Array, own: Array, name: Any, names: list[Any]) -> Array:
        """A row with the columns of every action, zero for those of others."""
        row = np.zeros(self.shared + self.own * len(names))
        row[: self.shared] = shared
        start = self.shared + self.own * names.index(name)
        row[start : start + self.own] = own
        return row
