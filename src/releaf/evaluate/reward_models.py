"""Cross-fitted models of rewards, for the direct method and doubly robust estimates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from releaf.arrays import Array
from releaf.ensembles.experts import columns_of
from releaf.policies import AdaptiveReleaf
from releaf.schema import Schema
from releaf.streams import Log

RIDGE = 1.0  # penalty
BLOCK = 4_096  # rows whose design matrix is in memory


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


def random_folds(rows: int, folds: int, seed: int, strata: Array | None = None) -> Array:
    """Fold of each row: folds of equal size, in random order, with equal shares of each stratum."""
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer) or folds < 2:
        raise ValueError(f"folds must be a whole number of at least 2, got folds={folds!r}")
    generator = np.random.default_rng([seed, len("folds")])
    if strata is None:
        fold_of: Array = generator.permutation(np.arange(rows) % folds)
        return fold_of
    order = generator.permutation(rows)
    fold_of = np.empty(rows, dtype=np.int64)
    fold_of[order[np.argsort(strata[order], kind="stable")]] = np.arange(rows) % folds
    return fold_of


def encoded_contexts(log: Log) -> tuple[Array, Schema]:
    """The contexts of a log as numbers in [0, 1], and their schema."""
    schema = Schema.of(log.features)
    return schema.encoder().encode_many(log.contexts), schema


def design_matrix(log: Log) -> Array:
    """Columns of a log's contexts: numbers in [0, 1], an indicator of each category, and of missing numbers."""
    return columns_of(*encoded_contexts(log))


def rows_of(contexts: Any, rows: Array) -> Any:
    """Some of the contexts of a log, which are a matrix or a list."""
    return contexts[rows] if isinstance(contexts, np.ndarray) else [contexts[row] for row in rows.tolist()]


def _linear(log: Log, fold_of: Array, folds: int) -> Array:
    units, schema = encoded_contexts(log)
    weights = []  # of each action and fold
    for action in range(len(log.actions)):
        sums = [
            _sums(units, schema, log.rewards, np.flatnonzero((log.taken == action) & (fold_of == fold)))
            for fold in range(folds)
        ]
        gram, products = (np.sum(parts, axis=0) for parts in zip(*sums, strict=True))
        ridge = RIDGE * np.eye(len(products))
        weights.append([np.linalg.solve(gram - part + ridge, products - own) for part, own in sums])
    predicted = np.zeros((len(log), len(log.actions)))
    for fold in range(folds):
        of_actions = np.array([of_action[fold] for of_action in weights]).T
        for rows, columns in _blocks(units, schema, np.flatnonzero(fold_of == fold)):
            predicted[rows] = columns @ of_actions
    return predicted


def _sums(units: Array, schema: Schema, rewards: Array, rows: Array) -> tuple[Array, Array]:
    """Σ x xᵀ and Σ r x of some rows."""
    width = 1 + columns_of(units[:0], schema).shape[1]
    gram, products = np.zeros((width, width)), np.zeros(width)
    for some, columns in _blocks(units, schema, rows):
        gram += columns.T @ columns
        products += columns.T @ rewards[some]
    return gram, products


def _blocks(units: Array, schema: Schema, rows: Array) -> Iterator[tuple[Array, Array]]:
    """Rows with their columns, the first of them 1, in blocks: all columns of a log with many categories are large."""
    for start in range(0, len(rows), BLOCK):
        some = rows[start : start + BLOCK]
        yield some, np.column_stack([np.ones(len(some)), columns_of(units[some], schema)])


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
