"""Ridge regression and category effects of AdaptiveReleaf in plain numpy: the reference for its kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from plain_levels import Features

from releaf.core.adaptive import category_effects, drift_detection, ridge
from releaf.core.adaptive.model import ROUNDS
from releaf.core.adaptive.state import MOST_EFFECTS


class PlainEffects:
    """A mean and a variance for each category of the wide features."""

    def __init__(self, features: Features) -> None:
        sizes = {feature: min(features.categories[feature], MOST_EFFECTS) for feature in features.wide}
        self.features = features
        self.means = {feature: np.zeros(size) for feature, size in sizes.items()}
        self.variances = {
            feature: np.full(size, category_effects.FIRST_EFFECT_VARIANCE) for feature, size in sizes.items()
        }

    def places(self, contexts: Any, feature: int) -> Any:
        return self.features.category(contexts, feature) % MOST_EFFECTS

    def of(self, contexts: Any) -> tuple[Any, Any]:
        """Sum of the effects of each context, and its variance."""
        total, variance = (
            sum((known[feature][self.places(contexts, feature)] for feature in known), np.zeros(contexts.shape[:-1]))
            for known in (self.means, self.variances)
        )
        return total, variance

    def fit(self, contexts: Any, residuals: Any, variance: float) -> Any:
        """Fit one feature after the other; returns what the effects leave."""
        for feature in self.features.wide:
            places, size = self.places(contexts, feature), len(self.means[feature])
            sums, counts = np.bincount(places, residuals, size), np.bincount(places, minlength=size)
            prior = self.prior_variance(sums[counts > 0], counts[counts > 0], variance)
            self.variances[feature] = 1.0 / (1.0 / prior + counts / variance)
            self.means[feature] = self.variances[feature] * sums / variance
            residuals = residuals - self.means[feature][places]
        return residuals

    def prior_variance(self, sums: Any, counts: Any, variance: float) -> float:
        first = prior = category_effects.FIRST_EFFECT_VARIANCE
        for _ in range(8):
            left = 1.0 / (1.0 / prior + counts / variance)
            found = (first + ((left * sums / variance) ** 2 + left).sum()) / (1.0 + len(sums))
            prior = np.clip(found, category_effects.LEAST_EFFECT_VARIANCE, category_effects.MOST_EFFECT_VARIANCE).item()
        return prior

    def learn(self, context: Any, error: float, scale: float) -> None:
        for feature in self.features.wide:
            place = self.places(context, feature)
            before = self.variances[feature][place]
            self.means[feature][place] += before * error * scale
            self.variances[feature][place] -= before**2 * scale


class Posterior:
    """Weights of columns and their covariance, given the rewards."""

    def __init__(self, weights: Any, covariance: Any, precisions: Any, variance: float) -> None:
        self.weights, self.covariance, self.precisions, self.variance = weights, covariance, precisions, variance

    def learn(self, row: Any, error: float, variance: float, other_spread: float) -> tuple[float, float]:
        """Learn a reward's error; returns it, and 1 / its variance."""
        push = self.covariance @ row
        scale = 1.0 / (variance + other_spread + row @ push)
        self.weights = self.weights + push * error * scale
        if (row @ push) * scale >= ridge.LEAST_CHANGE:
            self.covariance = self.covariance - np.outer(push, push) * scale
        return error, scale


class PlainTrend:
    """Change of the weights of a regression: a process that returns to 0, learnt from residuals (Kalman filter)."""

    def __init__(self, columns: int, tables: int) -> None:
        self.prior = drift_detection.TREND_VARIANCE / (1.0 + tables)
        self.change = Posterior(np.zeros(columns), self.prior * np.eye(columns), None, 0.0)

    def learn(self, row: Any, error: float, variance: float) -> float:
        """Predict a residual, then learn it; returns the prediction."""
        kept, known = 1.0 - 1.0 / drift_detection.TREND_REWARDS, self.change
        known.weights = kept * known.weights
        known.covariance = kept**2 * known.covariance + (1.0 - kept**2) * self.prior * np.eye(len(row))
        predicted = float(row @ known.weights)
        known.learn(row, error - predicted, variance, 0.0)
        return predicted


def residual_variance(squares: float, rewards: int, determined: float) -> float:
    free = max(rewards - determined, 0.25 * rewards)
    found = (squares + ridge.VARIANCE_ROWS * ridge.FIRST_VARIANCE) / (free + ridge.VARIANCE_ROWS)
    return float(np.clip(found, ridge.LEAST_VARIANCE, ridge.MOST_VARIANCE))


def shrunk(determined: Any, squares: Any, first: float, rewards: int) -> Any:
    """Precision of each table from its number of effective parameters and its squared weights."""
    found = (np.maximum(determined, 0.0) + 1.0) / (squares + 1.0 / (first * (1.0 + rewards / ridge.DOUBLING)))
    return np.clip(found, ridge.LEAST_PRECISION, ridge.MOST_PRECISION)


def solve(matrix: Any, targets: Any, owners: Any, features: int, rounds: int) -> Posterior:
    """Ridge regression with a precision for each table, which is found between rounds."""
    first, variance, rewards = ridge.TABLE_PRECISION * np.sqrt(features), ridge.FIRST_VARIANCE, len(targets)
    count = owners.max(initial=-1) + 1
    precisions = np.full(count, first)
    for turn in range(rounds):
        prior = np.concatenate([[ridge.CONSTANT_PRECISION, ridge.UNLIKE_PRECISION], precisions[owners]])
        covariance = np.linalg.inv(matrix.T @ matrix / variance + np.diag(prior))
        weights = covariance @ (matrix.T @ targets) / variance
        if turn < rounds - 1:
            determined = 1.0 - prior * np.diag(covariance)
            precisions = shrunk(
                np.bincount(owners, determined[2:], count),
                np.bincount(owners, weights[2:] ** 2, count),
                first,
                rewards,
            )
            squares = ((targets - matrix @ weights) ** 2).sum()
            variance = residual_variance(squares, rewards, determined.sum())
    return Posterior(weights, covariance, precisions, variance)


def solve_lines(matrix: Any, targets: Any, features: int, variance: float) -> Posterior:
    """Ridge regression with one precision for all columns but the constant ones."""
    first = precision = ridge.TABLE_PRECISION * np.sqrt(features)
    rewards = len(targets)
    for turn in range(ROUNDS):
        prior = np.full(matrix.shape[1], precision)
        prior[:2] = ridge.CONSTANT_PRECISION
        covariance = np.linalg.inv(matrix.T @ matrix / variance + np.diag(prior))
        weights = covariance @ (matrix.T @ targets) / variance
        if turn < ROUNDS - 1:
            determined = (1.0 - precision * np.diag(covariance)[2:]).sum()
            precision = float(shrunk(determined, (weights[2:] ** 2).sum(), first, rewards))
            squares = ((targets - matrix @ weights) ** 2).sum()
            variance = residual_variance(squares, rewards, determined)
    return Posterior(weights, covariance, None, variance)
