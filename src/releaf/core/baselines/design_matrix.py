"""Design matrix of linear models: columns of a context.

A number is one column, with an indicator column where it may be missing; a categorical feature is one-hot encoded. With
an intercept the first column is always 1.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from releaf.arrays import Array
from releaf.core.runtime.jit import entry_point, inlined

# Fields of a feature: first column, number of categories, whether it may be missing.
COLUMN, CATEGORIES, OPTIONAL = range(3)
Categories = Sequence[int]


def _widths(categories: Array, optional: Array) -> Array:
    return np.where(categories > 0, categories, 1 + optional)


def design_of(limits: Array, categories: Categories, intercept: bool) -> Array:
    """Layout of the columns: first column, categories, and whether it may be missing, for each feature."""
    optional = (limits < 0).astype(np.int64)
    widths = _widths(np.array(categories), optional)
    first = int(intercept) + np.cumsum(widths) - widths
    return np.stack([first, categories, optional], axis=1).astype(np.int64)


def width_of(design: Array, intercept: bool) -> int:
    """Number of columns."""
    return int(intercept) + int(_widths(design[:, CATEGORIES], design[:, OPTIONAL]).sum())


@inlined
def lay_out(design, context, columns):
    """Write the columns of a context."""
    for i in range(len(context)):
        column, value = design[i, COLUMN], context[i]
        categories = design[i, CATEGORIES]
        if categories > 0:
            for place in range(categories):
                columns[column + place] = 0.0
            columns[column + np.int64(value * categories)] = 1.0
        elif design[i, OPTIONAL]:
            columns[column] = max(value, 0.0)
            columns[column + 1] = 1.0 if value < 0.0 else 0.0
        else:
            columns[column] = value


@entry_point
def lay_out_all(design, contexts, columns):
    """Write the columns of many contexts."""
    for row in range(len(contexts)):
        lay_out(design, contexts[row], columns[row])


@inlined
def dot(left, right):
    total = 0.0
    for i in range(len(left)):
        total += left[i] * right[i]
    return total
