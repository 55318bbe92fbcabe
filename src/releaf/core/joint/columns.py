"""Columns of a context or of an action: an intercept, polynomials of numbers, and indicators.

A number is one column for each degree, the Legendre polynomial of its place in [-1, 1], so that columns are nearly
uncorrelated; a missing one has an indicator instead. A category is an indicator.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from releaf.arrays import Array
from releaf.core.runtime.jit import entry_point, inlined

# Fields of a column: its feature (-1 of the intercept), its kind, which category it indicates, and of how many.
FEATURE, KIND, CATEGORY, CATEGORIES = range(4)
INTERCEPT, LINE, CURVE, ABSENT, INDICATOR = range(5)


def columns_of(limits: Array, categories: Sequence[int], degree: int) -> Array:
    """Layout of the columns of features with these lower limits and numbers of categories."""
    rows = [(-1, INTERCEPT, 0, 0)]
    for feature, (limit, count) in enumerate(zip(limits.tolist(), categories, strict=True)):
        if count:
            rows += [(feature, INDICATOR, category, count) for category in range(count)]
        else:
            rows += [(feature, kind, 0, 0) for kind in (LINE, CURVE)[:degree]]
            rows += [(feature, ABSENT, 0, 0)] if limit < 0 else []
    return np.array(rows, dtype=np.int64)


@inlined
def lay_out(layout, values, columns):
    """Write the columns of encoded values."""
    for place in range(len(layout)):
        kind = layout[place, KIND]
        if kind == INTERCEPT:
            columns[place] = 1.0
            continue
        value = values[layout[place, FEATURE]]
        if kind == INDICATOR:
            count = layout[place, CATEGORIES]
            columns[place] = 1.0 if np.int64(value * count) == layout[place, CATEGORY] else 0.0
        elif kind == ABSENT:
            columns[place] = 1.0 if value < 0.0 else 0.0
        elif value < 0.0:
            columns[place] = 0.0
        else:
            line = 2.0 * value - 1.0
            columns[place] = line if kind == LINE else 1.5 * line * line - 0.5


@entry_point
def lay_out_rows(layout, values, columns):
    """Write the columns of many rows of encoded values."""
    for row in range(len(values)):
        lay_out(layout, values[row], columns[row])
