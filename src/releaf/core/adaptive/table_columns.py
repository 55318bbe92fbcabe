"""Sparse columns of a context in an action's tables."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from releaf.core.adaptive.levels import columns_of, height_of, place_of, spread
from releaf.core.adaptive.state import CONSTANT, FIRST, NO_FEATURE, RESOLUTION, SECOND, START, WIDTH
from releaf.core.runtime.jit import inlined

MOST_OUTSIDE = 4.0


@inlined
def find_places(context, knots, levels, categories, places, heights):
    """Find each value's position among its feature's levels, and its standardized value."""
    for feature in range(len(context)):
        value = np.float64(np.float32(context[feature]))  # the precision of stored contexts
        places[feature] = place_of(value, knots[feature], levels[feature], categories[feature])
        heights[feature] = height_of(value, knots[feature])


@inlined
def columns_of_feature(feature, resolution, levels, categories, limits):
    return columns_of(levels[feature], categories[feature], np.int64(limits[feature] < 0.0), resolution)


@inlined
def width_of(first, second, resolution, levels, categories, limits):
    """Number of columns of a table."""
    columns = columns_of_feature(first, resolution, levels, categories, limits)
    if second != NO_FEATURE:
        columns *= columns_of_feature(second, resolution, levels, categories, limits)
    return columns


@inlined
def set_table(line, first, second, resolution, start, columns):
    line[FIRST] = first
    line[SECOND] = second
    line[RESOLUTION] = resolution
    line[START] = start
    line[WIDTH] = columns


@inlined
def unlikeness(context, ranges):
    """Half the number of values outside the range of the action's rewarded contexts, capped."""
    outside = 0.0
    for feature in range(len(context)):
        value = np.float64(np.float32(context[feature]))
        if value < ranges[feature, 0] or value > ranges[feature, 1]:
            outside += 1.0
    return 0.5 * min(outside, MOST_OUTSIDE)


@inlined
def lay_out(places, heights, unlike, levels, categories, limits, tables, used, where, value):
    """Write the nonzero columns, and return their number.

    The first two belong to no table: the constant, and the out-of-range column.
    """
    filled = put(CONSTANT, 1.0, unlike, where, value, 0)
    for table in range(used):
        line = tables[table]
        first, second, resolution, start = line[FIRST], line[SECOND], line[RESOLUTION], line[START]
        down, here, below = spread(places[first], heights[first], levels[first], categories[first], resolution)
        if second == NO_FEATURE:
            filled = put(start + down, here, below, where, value, filled)
            continue
        width = columns_of_feature(second, resolution, levels, categories, limits)
        across, left, right = spread(places[second], heights[second], levels[second], categories[second], resolution)
        corner = start + down * width + across
        filled = put(corner, here * left, here * right, where, value, filled)
        if below != 0.0:
            filled = put(corner + width, below * left, below * right, where, value, filled)
    return filled


@inlined
def put(column, here, behind, where, value, filled):
    """Write two adjacent columns, where they are not 0."""
    if here != 0.0:
        where[filled] = column
        value[filled] = here
        filled += 1
    if behind != 0.0:
        where[filled] = column + 1
        value[filled] = behind
        filled += 1
    return filled
