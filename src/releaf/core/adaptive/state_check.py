"""Consistency check of a loaded state of AdaptiveReleaf, since kernels check no bounds."""

from __future__ import annotations

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.levels import MOST_LEVELS, ROUGH, SLOPE
from releaf.core.adaptive.state import (
    COLUMNS,
    FIRST,
    FIRST_COLUMN,
    FITS,
    FORGOTTEN,
    LEARNT,
    MOST_COLUMNS,
    MOST_TABLES,
    NEXT,
    NO_FEATURE,
    REQUESTED,
    RESOLUTION,
    SECOND,
    SINCE_REWARD,
    START,
    TABLES,
    WIDTH,
    Adaptive,
)
from releaf.core.adaptive.table_columns import width_of


def is_valid_state(state: Adaptive) -> bool:
    """Whether no kernel would access an array out of bounds, divide by zero or take the root of a negative number."""
    counts, actions = state.counts, len(state.counts)
    fits = bool((state.clock[[REQUESTED, FITS]] >= 0).all() and (counts[:, LEARNT] >= counts[:, FORGOTTEN]).all())
    fits = fits and bool((counts[:, NEXT] > 0).all() and (counts[:, TABLES] <= MOST_TABLES).all())
    fits = fits and bool(((counts[:, COLUMNS] >= FIRST_COLUMN) & (counts[:, COLUMNS] <= MOST_COLUMNS)).all())
    fits = fits and bool((state.precisions > 0).all() and (state.dispersion > 0).all())
    fits = fits and bool(((state.payoffs >= 0) & (state.payoffs <= 1)).all())
    watch, since = state.watch, state.watch[:, SINCE_REWARD]
    fits = fits and bool((watch >= 0).all() and (state.sums >= 0).all() and (since <= counts[:, LEARNT]).all())
    fits = fits and _are_contexts(state, state.seen) and _are_contexts(state, state.rows)
    fits = fits and _are_levels(state, state.fresh_knots, state.fresh_levels)
    return fits and all(
        _are_levels(state, state.knots[action], state.levels[action]) and _are_tables(state, action)
        for action in range(actions)
    )


def _are_contexts(state: Adaptive, contexts: Array) -> bool:
    """Whether values lie between the lower limit and 1, and below 1 for categories."""
    highest = np.where(state.categories > 0, np.nextafter(np.float32(1), np.float32(0)), np.float32(1))
    return bool(((contexts >= state.limits) & (contexts <= highest)).all())


def _are_levels(state: Adaptive, knots: Array, levels: Array) -> bool:
    given = np.where(state.categories > 0, np.minimum(state.categories, MOST_LEVELS), levels)
    least = np.where(state.categories > 0, 1, 2)
    if not ((levels == given) & (levels >= least) & (levels <= MOST_LEVELS)).all():
        return False
    numbers = state.categories == 0
    rises = np.diff(knots[:, :MOST_LEVELS], axis=1) > 0
    needed = np.arange(1, MOST_LEVELS) < levels[:, None]
    return bool((rises | ~needed)[numbers].all() and (knots[numbers, 0] == 0.0).all())


def _are_tables(state: Adaptive, action: int) -> bool:
    """Whether tables have known features and adjacent columns."""
    column, features, levels = FIRST_COLUMN, len(state.categories), state.levels[action]
    for table in state.tables[action, : state.counts[action, TABLES]]:
        first, second, resolution = (int(table[part]) for part in (FIRST, SECOND, RESOLUTION))
        if not (0 <= first < features and NO_FEATURE <= second < features and SLOPE <= resolution <= ROUGH + 1):
            return False
        width = width_of(first, second, resolution, levels, state.categories, state.limits)
        if table[START] != column or table[WIDTH] != width:
            return False
        column += width
    return bool(column == state.counts[action, COLUMNS])
