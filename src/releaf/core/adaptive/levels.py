"""Levels of a feature's values: knots of numbers (a piecewise linear basis) and categories.

The knots of a number are the ends of its range and some quantiles between them. A value between two knots has a share
in both, by distance, so that a table over levels is a piecewise linear function. The ends are always knots, so values
unlike all before fall on levels without data, which have high variance. Each category is a level; a feature with more
than ``MOST_TABLED`` categories has no levels, but an effect of each category. A missing number has a level after all
others.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.core.adaptive.sorting import ascending_order
from releaf.core.runtime.jit import inlined, outlined

INSIDE = 4  # knots of a number between the ends of its range
COARSE = 4  # levels of a number in a coarse table
MOST_LEVELS = 8  # of a number
MOST_TABLED = 16  # categories of a feature that has a table
CENTRE, SCALE = (
    MOST_LEVELS,
    MOST_LEVELS + 1,
)  # after the knots: the mean of a number and 1 / its standard deviation
STRETCH = 2  # numbers stored after the knots
SLOPE, ROUGH, FINE = 0, 1, 2  # resolutions of a number in a table: linear, coarse levels, all levels
HIGHEST = 3.0  # standard deviations at which a linear term is clipped
LEAST_DEVIATION = 1e-3
LEAST_GAP = 1e-6  # between two knots
MISSING_PLACE = -1.0


@inlined
def place_of(value, knots, levels, categories):
    """Position of a value among the levels: 0 for the first, levels - 1 for the last, fractional between two knots."""
    if categories > 0:
        return float(np.int64(value * categories))
    if value < 0.0:
        return MISSING_PLACE
    for level in range(1, levels):
        if value <= knots[level]:
            return level - 1 + (value - knots[level - 1]) / (knots[level] - knots[level - 1])
    return levels - 1.0


@inlined
def height_of(value, knots):
    """Standardized value of a number; 0 where it is missing."""
    if value < 0.0:
        return 0.0
    return min(max((value - knots[CENTRE]) * knots[SCALE], -HIGHEST), HIGHEST)


@inlined
def columns_of(levels, categories, optional, resolution):
    """Number of columns of a feature in a table."""
    if categories > 0:
        return levels
    if resolution == SLOPE:
        return np.int64(1)
    return (min(levels, np.int64(COARSE)) if resolution == ROUGH else levels) + optional


@inlined
def spread(place, height, levels, categories, resolution):
    """Columns of a value: the first column, its share, and the share of the next column."""
    if categories > 0:
        return np.int64(place), 1.0, 0.0
    if resolution == SLOPE:
        return np.int64(0), height, 0.0
    last = (min(levels, np.int64(COARSE)) if resolution == ROUGH else levels) - 1
    if place < 0.0:
        return last + 1, 1.0, 0.0
    scaled = place if levels == last + 1 else place * last / (levels - 1.0)
    first = min(np.int64(scaled), last - 1)
    share = scaled - first
    return first, 1.0 - share, share


@outlined
def find_levels(seen, categories, knots, levels):
    """Set the knots of all features from observed contexts."""
    column = np.empty(len(seen))
    for feature in range(len(categories)):
        if categories[feature] == 0:
            present = 0
            for row in range(len(seen)):
                if seen[row, feature] >= 0.0:
                    column[present] = seen[row, feature]
                    present += 1
            if present > 1:
                values, mean, squares = np.empty(present), 0.0, 0.0
                order = ascending_order(column[:present])
                for place in range(present):
                    values[place] = column[order[place]]
                    mean += values[place] / present
                for place in range(present):
                    squares += (values[place] - mean) ** 2 / present
                knots[feature, CENTRE] = mean
                knots[feature, SCALE] = 1.0 / max(math.sqrt(squares), LEAST_DEVIATION)
                levels[feature] = find_knots(values, knots[feature])


@outlined
def find_knots(values, knots):
    """Set knots at equal shares of the sorted values, where a repeated value counts as the root of its frequency.

    So a value that half of all contexts share does not take half of the knots. Returns the number of knots.
    """
    weights = np.empty(len(values))
    different, total = merge_equal(values, weights)
    inside = min(different, INSIDE)
    knots[0] = 0.0
    reached, place = 0.0, 0
    for level in range(inside):
        if different <= INSIDE:
            knots[level + 1] = values[level]
            continue
        goal = total * (level + 0.5) / INSIDE - 0.5 * weights[0]
        step = 0.5 * (weights[place] + weights[place + 1])
        while reached + step < goal and place + 2 < different:
            reached += step
            place += 1
            step = 0.5 * (weights[place] + weights[place + 1])
        share = min(max((goal - reached) / step, 0.0), 1.0)
        knots[level + 1] = values[place] + (values[place + 1] - values[place]) * share
    knots[inside + 1] = 1.0
    return without_equal(knots, inside + 2)


@inlined
def merge_equal(values, weights):
    """Merge equal values, with the root of their number as weight; returns the number left and the total weight."""
    different, total, start = 0, 0.0, 0
    for row in range(1, len(values) + 1):
        if row == len(values) or values[row] != values[start]:
            values[different] = values[start]
            weights[different] = math.sqrt(float(row - start))
            total += weights[different]
            different += 1
            start = row
    return different, total


@inlined
def without_equal(knots, levels):
    """Remove knots that are hardly above the one before; returns the number left."""
    kept = 1
    for level in range(1, levels):
        if knots[level] > knots[kept - 1] + LEAST_GAP:
            knots[kept] = knots[level]
            kept += 1
    return np.int64(kept)


@inlined
def is_wide(categories):
    """Whether a feature has too many categories for a table: each has an effect instead."""
    return categories > MOST_TABLED
