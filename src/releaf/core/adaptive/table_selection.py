"""Selection of an action's tables: tables of one feature first, then of pairs that explain the residuals."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from releaf.core.adaptive.gains import pair_gain, single_gain
from releaf.core.adaptive.levels import FINE, ROUGH, SLOPE, is_wide
from releaf.core.adaptive.sorting import ascending_order
from releaf.core.adaptive.state import (
    FIRST,
    FIRST_COLUMN,
    MOST_COLUMNS,
    MOST_TABLES,
    NO_FEATURE,
    RESOLUTION,
    SECOND,
    START,
    WIDTH,
)
from releaf.core.adaptive.table_columns import set_table, width_of
from releaf.core.runtime.jit import inlined, outlined

MOST_SINGLE_COLUMNS = 96  # columns of tables of one feature
PAIRED = 64  # features whose pairs are candidates, those with the highest gain alone
DEVIATIONS = 1.5  # above the gain by chance, for a table to be added
SHARED_CELLS = 5.0  # of a pair's table that tables of one feature could explain
LEAST_EXCESS = 1.0  # of a table's weights above chance, in standard deviations, for it to be kept


@outlined
def start_tables(scores, levels, categories, limits, tables):
    """Start with a linear term for each number and a table for each category, and levels for all numbers if they fit.

    Features with high scores come first, in case not all fit. Returns the numbers of tables and columns.
    """
    features = len(levels)
    order = ascending_order(-scores)
    used, columns = 0, FIRST_COLUMN
    for rank in range(features):
        if is_wide(categories[order[rank]]):
            continue
        wide = width_of(order[rank], NO_FEATURE, SLOPE, levels, categories, limits)
        if columns + wide <= MOST_SINGLE_COLUMNS:
            set_table(tables[used], order[rank], NO_FEATURE, SLOPE, columns, wide)
            columns += wide
            used += 1
    resolution = FINE
    while (
        resolution > SLOPE and columns_for_all(resolution, levels, categories, limits) > MOST_SINGLE_COLUMNS - columns
    ):
        resolution -= 1
    if resolution > SLOPE:
        for rank in range(features):
            if categories[order[rank]] == 0:
                wide = width_of(order[rank], NO_FEATURE, resolution, levels, categories, limits)
                set_table(tables[used], order[rank], NO_FEATURE, resolution, columns, wide)
                columns += wide
                used += 1
    return used, columns


@inlined
def columns_for_all(resolution, levels, categories, limits):
    """Number of columns of tables of all numbers."""
    total = 0
    for feature in range(len(levels)):
        if categories[feature] == 0:
            total += width_of(feature, NO_FEATURE, resolution, levels, categories, limits)
    return total


@outlined
def drop_idle(tables, used, weights, covariance, precisions):
    """Remove tables whose weights are within noise; returns the numbers of tables and columns left.

    For a table without effect and with γ effective parameters, the squared weights over their variances add up to γ,
    with standard deviation √(2γ).
    """
    kept, columns = 0, FIRST_COLUMN
    for table in range(used):
        start, wide = tables[table, START], tables[table, WIDTH]
        determined, squares = 0.0, 0.0
        for i in range(start, start + wide):
            determined += 1.0 - precisions[table] * covariance[i, i]
            squares += weights[i] * weights[i] / covariance[i, i]
        chance = determined + LEAST_EXCESS * np.sqrt(2.0 * max(determined, 0.0))
        if squares > chance or tables[table, RESOLUTION] == SLOPE:
            line = tables[table]
            set_table(tables[kept], line[FIRST], line[SECOND], line[RESOLUTION], columns, wide)
            columns += wide
            kept += 1
    return kept, columns


@outlined
def add_tables(bins, residuals, variance, levels, categories, limits, tables, used, columns):
    """Add the tables with the highest gain: levels of numbers that have a linear term only, and pairs."""
    inside, bent = features_of(tables, used, len(levels))
    most = len(inside) + len(inside) * (len(inside) - 1) // 2
    gains, wanted, found = np.empty(most), np.empty((most, 3), dtype=np.int64), 0
    for feature in inside:
        if not bent[feature] and categories[feature] == 0:
            gain, cells = single_gain(bins, feature, residuals)
            gains[found] = gain / variance - by_chance(cells - 2.0)
            set_wanted(wanted[found], feature, NO_FEATURE, FINE)
            found += gains[found] > 0.0
    paired = inside[:PAIRED]
    for i in range(len(paired)):
        for j in range(i):
            rough, groups, fine, cells = pair_gain(bins, paired[i], paired[j], residuals, levels)
            gains[found] = rough / variance - by_chance(groups - SHARED_CELLS)
            set_wanted(wanted[found], paired[i], paired[j], ROUGH)
            finely = fine / variance - by_chance(cells - SHARED_CELLS)
            if finely > gains[found]:
                gains[found] = finely
                wanted[found, 2] = FINE
            found += gains[found] > 0.0
    order = ascending_order(-gains[:found])
    for rank in range(found):
        first, second, resolution = wanted[order[rank], 0], wanted[order[rank], 1], wanted[order[rank], 2]
        wide = width_of(first, second, resolution, levels, categories, limits)
        if columns + wide <= MOST_COLUMNS and used < MOST_TABLES:
            set_table(tables[used], first, second, resolution, columns, wide)
            columns += wide
            used += 1
    return used, columns


@inlined
def set_wanted(line, first, second, resolution):
    line[0] = first
    line[1] = second
    line[2] = resolution


@inlined
def by_chance(cells):
    """Upper limit of the gain of so many cells by chance (chi-square)."""
    freedom = max(cells, 1.0)
    return freedom + DEVIATIONS * np.sqrt(2.0 * freedom)


@inlined
def features_of(tables, used, features):
    """Features with a table, in the order of the tables, and which of them have a table of levels."""
    taken, bent = np.zeros(features, dtype=np.bool_), np.zeros(features, dtype=np.bool_)
    inside, listed = np.empty(features, dtype=np.int64), 0
    for table in range(used):
        feature = tables[table, FIRST]
        if tables[table, SECOND] == NO_FEATURE:
            bent[feature] |= tables[table, RESOLUTION] != SLOPE
            if not taken[feature]:
                inside[listed] = feature
                listed += 1
            taken[feature] = True
    return inside[:listed], bent
