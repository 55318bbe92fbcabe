"""How a context becomes the columns that a linear model has weights for.

A number is one column, with a second that tells when it is missing where it may be; a category is one of as many
columns. With an intercept the first column is always 1.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from releaf.core.runtime.jit import door, inner
from releaf.core.runtime.primitives import Array

COLUMN, CATEGORIES, OPTIONAL = 0, 1, 2  # of a feature: its first column, its categories, whether it may be missing
Categories = Sequence[int]


def _widths(categories: Array, optional: Array) -> Array:
    return np.where(categories > 0, categories, 1 + optional)


def design_of(limits: Array, categories: Categories, intercept: bool) -> Array:
    """One row for each feature: its first column, its categories, and whether it may be missing."""
    optional = (limits < 0).astype(np.int64)
    widths = _widths(np.array(categories), optional)
    first = int(intercept) + np.cumsum(widths) - widths
    return np.stack([first, categories, optional], axis=1).astype(np.int64)


def width_of(design: Array, intercept: bool) -> int:
    """How many columns there are."""
    return int(intercept) + int(_widths(design[:, CATEGORIES], design[:, OPTIONAL]).sum())


@inner
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


@door
def lay_out_all(design, contexts, columns):
    """Write the columns of many contexts."""
    for row in range(len(contexts)):
        lay_out(design, contexts[row], columns[row])


@inner
def dot(left, right):
    total = 0.0
    for i in range(len(left)):
        total += left[i] * right[i]
    return total
