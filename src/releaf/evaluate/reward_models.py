"""Cross-fitted models of rewards, for the direct method and doubly robust estimates."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from releaf.arrays import Array
from releaf.ensembles.experts import columns_of
from releaf.policies import AdaptiveReleaf
from releaf.schema import Schema
from releaf.streams import Log

RIDGE = 1.0  # penalty


def cross_fit_rewards(
    log: Log, model: Literal["linear", "adaptive"] = "linear", *, folds: int = 5, seed: int = 0
) -> Array:
    """Predict the reward of each action in each row of a log (T × A), by a model that did not see the row's fold.

    A model that has seen a row's reward predicts it too well, which biases doubly robust estimates.

    Parameters
    ----------
    log
        A log, with propensities or without.
    model
        "linear": a ridge regression per action on the numbers and categories of the context. "adaptive": the estimates
        of :class:`releaf.AdaptiveReleaf`, which takes longer and finds curves and interactions.
    folds
        Number of random parts; each is predicted from all others.
    seed
        Seed of the folds.
    """
    if model not in ("linear", "adaptive"):
        raise ValueError(f"model must be 'linear' or 'adaptive', got model={model!r}")
    fold_of = random_folds(len(log), folds, seed)
    return _linear(log, fold_of, folds) if model == "linear" else _adaptive(log, fold_of, folds)


def random_folds(rows: int, folds: int, seed: int) -> Array:
    """Fold of each row: folds of equal size, in random order."""
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer) or folds < 2:
        raise ValueError(f"folds must be a whole number of at least 2, got folds={folds!r}")
    fold_of: Array = np.random.default_rng([seed, len("folds")]).permutation(np.arange(rows) % folds)
    return fold_of


def design_matrix(log: Log) -> Array:
    """Columns of a log's contexts: numbers in [0, 1], an indicator of each category, and of missing numbers."""
    schema = Schema.of(log.features)
    return columns_of(schema.encoder().encode_many(log.contexts), schema)


def rows_of(contexts: Any, rows: Array) -> Any:
    """Some of the contexts of a log, which are a matrix or a list."""
    return contexts[rows] if isinstance(contexts, np.ndarray) else [contexts[row] for row in rows.tolist()]


def _linear(log: Log, fold_of: Array, folds: int) -> Array:
    columns = np.column_stack([np.ones(len(log)), design_matrix(log)])
    predicted = np.zeros((len(log), len(log.actions)))
    for action in range(len(log.actions)):
        grams, products = _sums_by_fold(columns, log.rewards, np.where(log.taken == action, fold_of, -1), folds)
        for fold in range(folds):
            gram = grams.sum(axis=0) - grams[fold] + RIDGE * np.eye(columns.shape[1])
            weights = np.linalg.solve(gram, products.sum(axis=0) - products[fold])
            held_out = fold_of == fold
            predicted[held_out, action] = columns[held_out] @ weights
    return predicted


def _sums_by_fold(columns: Array, rewards: Array, fold_of: Array, folds: int) -> tuple[Array, Array]:
    """Σ x xᵀ and Σ r x of each fold."""
    parts = [(columns[fold_of == fold], rewards[fold_of == fold]) for fold in range(folds)]
    return np.array([x.T @ x for x, _ in parts]), np.array([x.T @ r for x, r in parts])


def _adaptive(log: Log, fold_of: Array, folds: int) -> Array:
    predicted = np.zeros((len(log), len(log.actions)))
    low, high = float(log.rewards.min(initial=0.0)), float(log.rewards.max(initial=1.0))
    for fold in range(folds):
        held_out, others = np.flatnonzero(fold_of == fold), np.flatnonzero(fold_of != fold)
        learner = AdaptiveReleaf(log.actions, log.features, seed=0, reward_range=(low, high))
        taken = [log.actions[index] for index in log.taken[others].tolist()]
        learner.learn_log(rows_of(log.contexts, others), taken, log.rewards[others])
        predicted[held_out] = learner.estimate(rows_of(log.contexts, held_out))
    return predicted
