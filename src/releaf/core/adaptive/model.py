"""The model of an action as a function of its sample: tables, regressions, category effects and trees; relevance."""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from releaf.core.adaptive.category_effects import fit_effects
from releaf.core.adaptive.gains import find_bins, single_gain
from releaf.core.adaptive.levels import SLOPE, is_wide
from releaf.core.adaptive.relevance import credit_effects, find_relevance
from releaf.core.adaptive.ridge import add_up, clear, complete, product, solve, solve_lines
from releaf.core.adaptive.sorting import ascending_order
from releaf.core.adaptive.state import (
    COLUMNS,
    FIRST_COLUMN,
    LINE_COLUMNS,
    MOST_COLUMNS,
    RESOLUTION,
    START,
    TABLES,
    VARIANCE,
    WIDTH,
    open_model,
)
from releaf.core.adaptive.table_columns import find_places, lay_out
from releaf.core.adaptive.table_selection import add_tables, drop_idle, start_tables
from releaf.core.runtime.jit import entry_point, inlined, outlined

FROM_PAIRS = 40  # rewards
ENOUGH_TO_DROP = 256
BLOCK = 2048  # rows laid out at a time, and those on which tables are selected
ROUNDS_TO_SELECT, ROUNDS = 3, 4
MARGIN = 0.05  # of a range, by which a value may exceed it without counting as outside
RANK_SHRINKAGE = 5.0  # rewards that the mean counts as, where categories are ranked by their rewards
EFFECT_TURNS = 3


def fit_kernel(pointer_table, contexts, targets, some, features, scratch):
    """Fit both regressions and the category effects; ``some`` are contexts and targets of some rows."""
    model = open_model(pointer_table)
    some_contexts, some_targets = some
    limits, categories, first_category, first_effect = features
    rows, bins, residuals, remaining = scratch
    find_ranges(contexts, model.ranges)
    find_bins(some_contexts, model.knots, model.levels, categories, bins)
    gram, slope = np.empty((MOST_COLUMNS, MOST_COLUMNS)), np.empty(MOST_COLUMNS)
    select_tables(
        model, some_contexts, some_targets, limits, categories, first_effect, rows, bins, residuals, gram, slope
    )
    squares = fit_tables(
        model, contexts, targets, limits, categories, first_effect, rows, residuals, remaining, gram, slope
    )
    model.counts[LINE_COLUMNS] = line_columns(model.tables, model.counts[TABLES])
    solve_lines(
        gram,
        slope,
        squares,
        1.0 * len(targets),
        model.counts[LINE_COLUMNS],
        len(categories),
        ROUNDS,
        model.numbers[VARIANCE],
        model.line_weights,
        model.line_covariance,
    )
    find_ranks(contexts, targets, categories, first_category, model.ranks)


def relevance_kernel(pointer_table, contexts, features, scratch):
    """Set the relevance of each feature over contexts of all decisions, also where the action was not taken."""
    model = open_model(pointer_table)
    limits, categories, _, first_effect = features
    rows, bins, _, _ = scratch
    find_bins(contexts, model.knots, model.levels, categories, bins)
    lay_out_all(model, contexts, limits, categories, rows)
    find_relevance(
        contexts,
        (model.knots, model.levels, categories, limits),
        first_rows(rows, len(contexts)),
        bins,
        model.tables,
        model.counts[TABLES],
        model.counts[COLUMNS],
        model.weights,
        model.covariance,
        model.typical,
        (model.strengths, model.certainties),
    )
    credit_effects(
        contexts,
        categories,
        first_effect,
        model.effect_means,
        model.effect_variances,
        model.strengths,
        model.certainties,
    )


@outlined
def select_tables(model, contexts, targets, limits, categories, first_effect, rows, bins, residuals, gram, slope):
    """Select the tables of an action: those of one feature, then pairs that interact."""
    count, levels, tables = len(targets), model.levels, model.tables
    scores = first_scores(bins, targets, len(levels), categories)
    used, columns = start_tables(scores, levels, categories, limits, tables)
    model.counts[TABLES] = used
    if count >= FROM_PAIRS:
        squares = add_up_all(model, contexts, targets, limits, categories, rows, columns, gram, slope)
        variance = solve(
            gram,
            slope,
            squares,
            1.0 * count,
            tables,
            used,
            columns,
            len(levels),
            ROUNDS_TO_SELECT,
            model.weights,
            model.covariance,
            model.precisions,
        )
        find_residuals(model, contexts, targets, limits, categories, rows, residuals)
        if len(model.effect_means) > 0:
            fit_effects(
                contexts,
                residuals[:count],
                variance,
                categories,
                first_effect,
                model.effect_means,
                model.effect_variances,
            )
        if count >= ENOUGH_TO_DROP:
            used, columns = drop_idle(tables, used, model.weights, model.covariance, model.precisions)
        used, columns = add_tables(bins, residuals[:count], variance, levels, categories, limits, tables, used, columns)
    model.counts[TABLES] = used
    model.counts[COLUMNS] = columns


@outlined
def fit_tables(model, contexts, targets, limits, categories, first_effect, rows, residuals, remaining, gram, slope):
    """Fit the tables, in turns with the category effects if there are any; returns the sum of squares they explain."""
    count, columns, has_effects = len(targets), model.counts[COLUMNS], len(model.effect_means) > 0
    for row in range(count):
        remaining[row] = targets[row]
    squares = 0.0
    for _ in range(EFFECT_TURNS if has_effects else 1):
        squares = add_up_all(model, contexts, remaining, limits, categories, rows, columns, gram, slope)
        model.numbers[VARIANCE] = solve(
            gram,
            slope,
            squares,
            1.0 * count,
            model.tables,
            model.counts[TABLES],
            columns,
            len(categories),
            ROUNDS,
            model.weights,
            model.covariance,
            model.precisions,
        )
        if has_effects:
            find_residuals(model, contexts, targets, limits, categories, rows, residuals)
            for row in range(count):
                remaining[row] = residuals[row]
            fit_effects(
                contexts,
                remaining,
                model.numbers[VARIANCE],
                categories,
                first_effect,
                model.effect_means,
                model.effect_variances,
            )
            for row in range(count):  # what tables are to explain: all but the effects
                remaining[row] += targets[row] - residuals[row]
    return squares


@inlined
def first_rows(rows, count):
    where, value, filled = rows
    return where[:count], value[:count], filled[:count]


@outlined
def add_up_all(model, contexts, targets, limits, categories, rows, columns, gram, slope):
    """Set XᵀX and Xᵀy of all rows, block by block; returns yᵀy."""
    clear(columns, gram, slope)
    squares = 0.0
    for start in range(0, len(targets), BLOCK):
        end = min(start + BLOCK, len(targets))
        lay_out_all(model, contexts[start:end], limits, categories, rows)
        squares += add_up(first_rows(rows, end - start), targets[start:end], gram, slope)
    complete(columns, gram)
    return squares


@outlined
def find_residuals(model, contexts, targets, limits, categories, rows, residuals):
    """Set what the tables leave of each row's target."""
    where, value, filled = rows
    for start in range(0, len(targets), BLOCK):
        end = min(start + BLOCK, len(targets))
        lay_out_all(model, contexts[start:end], limits, categories, rows)
        for row in range(end - start):
            explained = product(model.weights, where[row], value[row], filled[row])
            residuals[start + row] = targets[start + row] - explained


@inlined
def line_columns(tables, used):
    """Number of first columns that are lines of numbers or categories."""
    columns = FIRST_COLUMN
    for table in range(used):
        if tables[table, RESOLUTION] == SLOPE and tables[table, 1] < 0:
            columns = tables[table, START] + tables[table, WIDTH]
        else:
            break
    return columns


@inlined
def find_ranges(rows, ranges):
    """Set the range of each feature."""
    for feature in range(len(ranges)):
        low, high = np.float64(rows[0, feature]), np.float64(rows[0, feature])
        for row in range(1, len(rows)):
            low = min(low, np.float64(rows[row, feature]))
            high = max(high, np.float64(rows[row, feature]))
        margin = MARGIN * (high - low)
        ranges[feature, 0] = low - margin
        ranges[feature, 1] = high + margin


@outlined
def first_scores(bins, targets, features, categories):
    """Gain of each feature alone, less what chance gives."""
    scores = np.zeros(features)
    if len(targets) > 0:
        around, mean, variance = np.empty(len(targets)), 0.0, 1e-9
        for row in range(len(targets)):
            mean += targets[row] / len(targets)
        for row in range(len(targets)):
            around[row] = targets[row] - mean
            variance += around[row] * around[row] / len(targets)
        for feature in range(features):
            if not is_wide(categories[feature]):
                gain, cells = single_gain(bins, feature, around)
                scores[feature] = gain / variance - cells
    return scores


@outlined
def lay_out_all(model, contexts, limits, categories, rows):
    """Write the sparse columns of a block of contexts."""
    where, value, filled = rows
    knots, levels, tables, used = model.knots, model.levels, model.tables, model.counts[TABLES]
    places, heights = np.empty(len(levels)), np.empty(len(levels))
    for row in range(len(contexts)):
        find_places(contexts[row], knots, levels, categories, places, heights)
        filled[row] = lay_out(places, heights, 0.0, levels, categories, limits, tables, used, where[row], value[row])


@outlined
def find_ranks(contexts, targets, categories, first_category, ranks):
    """Rank the categories of each feature by their mean reward, as trees see them: evenly spaced in [0, 1]."""
    for feature in range(len(categories)):
        size = categories[feature]
        if size == 0:
            continue
        sums, counts = np.zeros(size), np.full(size, RANK_SHRINKAGE)
        for row in range(len(targets)):
            category = np.int64(contexts[row, feature] * size)
            sums[category] += targets[row]
            counts[category] += 1.0
        for category in range(size):
            sums[category] /= counts[category]
        order = ascending_order(sums)
        for rank in range(size):
            ranks[first_category[feature] + order[rank]] = (rank + 0.5) / size


@inlined
def rank_of(context, feature, categories, first_category, ranks):
    """Value of a feature as trees see it."""
    if categories[feature] > 0:
        return ranks[first_category[feature] + np.int64(context[feature] * categories[feature])]
    return np.float32(context[feature])


def ranked_columns_kernel(contexts, categories, first_category, ranks, columns):
    """Set the columns of all contexts as trees see them (features by rows)."""
    for row in range(len(contexts)):
        for feature in range(len(categories)):
            columns[feature, row] = rank_of(contexts[row], feature, categories, first_category, ranks)


fit_regressions = entry_point(fit_kernel)
set_relevance = entry_point(relevance_kernel)
set_ranked_columns = entry_point(ranked_columns_kernel)
