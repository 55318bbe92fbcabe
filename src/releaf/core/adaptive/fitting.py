"""Fit of a model to rows of a sample: allocates its arrays, calls the kernel, and trims them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.category_effects import FIRST_EFFECT_VARIANCE
from releaf.core.adaptive.drift_detection import prior_of_trend
from releaf.core.adaptive.initial_state import Settings
from releaf.core.adaptive.levels import MOST_TABLED, SLOPE
from releaf.core.adaptive.model import BLOCK, fit_regressions, set_ranked_columns, set_relevance
from releaf.core.adaptive.ridge import CONSTANT_PRECISION, FIRST_VARIANCE, TABLE_PRECISION, UNLIKE_PRECISION
from releaf.core.adaptive.state import (
    AUTO,
    COLUMNS,
    CONSTANT,
    FIRST_COLUMN,
    LINE_COLUMNS,
    MOST_COLUMNS,
    MOST_TABLES,
    NO_FEATURE,
    SHARP_TREES,
    SMOOTH_TREES,
    STEADY_TREES,
    TABLES,
    TREES,
    UNLIKE,
    VARIANCE,
    WINDOW,
    Model,
)
from releaf.core.adaptive.table_selection import MOST_SINGLE_COLUMNS
from releaf.core.adaptive.trees import FEWEST_ROWS, GRAINS, LEAST_LEAF, TREE_COUNT, grow_trees

FEWEST_CANDIDATES, MOST_CANDIDATES = 5, 16  # features tried at a node of a tree: a third of all between these
COARSE_LEAVES = 256  # most leaves of a tree that counts nothing
NODE_BYTES = 64 << 20  # of all trees of all actions


class Fit(NamedTuple):
    """What a model follows from. Each row counts as one reward: a thinned sample knows no more than its rows."""

    contexts: Array
    rewards: Array
    keys: Array
    knots: Array
    levels: Array
    offset: float
    least_leaf: int


def least_leaf(rows: int, actions: int, weights: Array) -> int:
    """Fewest rewards in a leaf, so that the trees of all actions fit into ``NODE_BYTES``.

    Where trees count nothing so far, there is much noise or little to find: coarse trees, which cost less, are better
    at the former and can come back by the latter.
    """
    nodes_of_a_tree = NODE_BYTES // (16 * TREE_COUNT * actions)
    coarse = 0 if weights[[SHARP_TREES, SMOOTH_TREES, STEADY_TREES]].any() else rows // COARSE_LEAVES
    return max(LEAST_LEAF, -(-2 * rows // nodes_of_a_tree), coarse)


def fit(settings: Settings, given: Fit) -> Model:
    """Build the model that follows from rows."""
    rows = len(given.rewards)
    if rows == 0:
        return prior_model(settings, given)
    model = _empty_model(settings, given, trees=TREE_COUNT if rows >= FEWEST_ROWS else 0)
    targets = given.rewards - given.offset
    spaced = np.arange(rows) if rows <= BLOCK else np.arange(BLOCK) * rows // BLOCK  # so that their order tells nothing
    some = np.ascontiguousarray(given.contexts[spaced]), targets[spaced]
    scratch = _scratch(rows, settings.features)
    fit_regressions(model.pointer_table, given.contexts, targets, some, _features(settings), scratch)
    nodes = 0
    if rows >= FEWEST_ROWS:
        nodes = _grow(model, settings, given)
        model.counts[TREES] = TREE_COUNT
    _trim(model, nodes)
    return model


def ensure_relevance(settings: Settings, model: Model, contexts: Array) -> None:
    """Find the relevance of each feature of a model over contexts, unless that is done."""
    if not np.isnan(model.strengths[0]):
        return
    if len(contexts):
        scratch = _scratch(len(contexts), settings.features)
        set_relevance(model.pointer_table, np.ascontiguousarray(contexts), _features(settings), scratch)
    else:
        model.strengths[:] = 0.0


def _features(settings: Settings) -> tuple[Array, ...]:
    return settings.limits, settings.categories, settings.first_category, settings.first_effect


def prior_model(settings: Settings, given: Fit) -> Model:
    """Model before any fit: lines of numbers and tables of categories, as far as they fit, with their prior.

    Made without kernels, so that the first decision does not wait for those of a fit to compile.
    """
    model, columns, used = _empty_model(settings, given, trees=0), FIRST_COLUMN, 0
    for feature, categories in enumerate(settings.categories.tolist()):
        width = categories or 1
        if width <= MOST_TABLED and columns + width <= MOST_SINGLE_COLUMNS and used < MOST_TABLES:
            model.tables[used] = feature, NO_FEATURE, SLOPE, columns, width
            columns, used = columns + width, used + 1
    precisions = np.full(columns, TABLE_PRECISION * np.sqrt(settings.features))
    precisions[[CONSTANT, UNLIKE]] = CONSTANT_PRECISION, UNLIKE_PRECISION
    model.covariance[:columns, :columns] = model.line_covariance[:columns, :columns] = np.diag(1.0 / precisions)
    model.precisions[:used] = precisions[-1]
    model.counts[[TABLES, COLUMNS, LINE_COLUMNS]] = used, columns, columns
    model.numbers[VARIANCE] = FIRST_VARIANCE
    _trim(model, 0)
    return model


def _scratch(rows: int, features: int) -> tuple[Any, ...]:
    """Sparse columns of a block of rows (indices, values and their number), its bins, and residuals of all rows."""
    block = min(rows, BLOCK)
    columns = (
        np.empty((block, MOST_COLUMNS), dtype=np.int64),
        np.empty((block, MOST_COLUMNS)),
        np.empty(block, dtype=np.int64),
    )
    return columns, np.empty((block, features), dtype=np.int64), np.zeros(rows), np.zeros(rows)


def _grow(model: Model, settings: Settings, given: Fit) -> int:
    """Grow the trees; returns the number of nodes."""
    rows = len(given.rewards)
    columns = np.empty((settings.features, rows), dtype=np.float32)
    set_ranked_columns(given.contexts, settings.categories, settings.first_category, model.ranks, columns)
    candidates = min(max(settings.features // 3, FEWEST_CANDIDATES), MOST_CANDIDATES)
    order = np.arange(rows, dtype=np.int32)
    rewards = np.floor(given.rewards * GRAINS + 0.5).astype(np.int32)
    generator = np.array([(rows << 40) ^ int(rewards.sum(dtype=np.int64))])  # by the rows alone, not by the seed
    nodes: int = grow_trees(columns, rewards, generator, candidates, given.least_leaf, order, model.nodes, model.roots)
    return nodes


def _empty_model(settings: Settings, given: Fit, trees: int) -> Model:
    rows, features, effects = len(given.rewards), settings.features, int(settings.effects.sum())
    trends = MOST_COLUMNS if settings.params[WINDOW] == AUTO else 0
    return Model(
        counts=np.zeros(4),
        numbers=np.array([0.0, given.offset, 0.0]),
        knots=given.knots.copy(),
        levels=given.levels.copy(),
        ranges=np.tile([0.0, 1.0], (features, 1)),
        tables=np.zeros((MOST_TABLES, 5)),
        precisions=np.ones(MOST_TABLES),
        weights=np.zeros(MOST_COLUMNS),
        covariance=np.zeros((MOST_COLUMNS, MOST_COLUMNS)),
        line_weights=np.zeros(MOST_COLUMNS),
        line_covariance=np.zeros((MOST_COLUMNS, MOST_COLUMNS)),
        typical=np.zeros(MOST_COLUMNS),
        trend=np.zeros(trends),
        trend_covariance=np.zeros((trends, trends)),
        effect_means=np.zeros(effects),
        effect_variances=np.full(effects, FIRST_EFFECT_VARIANCE),
        ranks=np.zeros(int(settings.categories.sum())),
        nodes=np.zeros((trees * (2 * (rows // given.least_leaf) + 1), 4)),
        roots=np.zeros(trees),
        strengths=np.full(features, np.nan),
        certainties=np.zeros(features),
    )


def _trim(model: Model, nodes: int) -> None:
    """Copy what is used of each array."""
    tables, columns, lines = (int(model.counts[field]) for field in (TABLES, COLUMNS, LINE_COLUMNS))
    model.tables, model.precisions = model.tables[:tables].copy(), model.precisions[:tables].copy()
    model.weights, model.typical = model.weights[:columns].copy(), model.typical[:columns].copy()
    model.covariance = model.covariance[:columns, :columns].copy()
    if len(model.trend):
        model.trend, model.trend_covariance = model.trend[:columns].copy(), prior_of_trend(tables, columns)
    model.line_weights = model.line_weights[:lines].copy()
    model.line_covariance = model.line_covariance[:lines, :lines].copy()
    model.nodes = model.nodes[:nodes].copy()
