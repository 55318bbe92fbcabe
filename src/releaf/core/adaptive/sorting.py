"""Stable sorting in kernels. NumPy's sort takes longer to compile than all that uses it here."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from releaf.core.runtime.jit import outlined


@outlined
def ascending_order(values):
    """Indices that sort the values, equal ones in their order: merges of runs that double in length."""
    size = len(values)
    order, other = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    for place in range(size):
        order[place] = place
    width = 1
    while width < size:
        for start in range(0, size, 2 * width):
            middle, end = min(start + width, size), min(start + 2 * width, size)
            left, right = start, middle
            for place in range(start, end):
                if left < middle and (right >= end or values[order[left]] <= values[order[right]]):
                    other[place] = order[left]
                    left += 1
                else:
                    other[place] = order[right]
                    right += 1
        order, other = other, order
        width *= 2
    return order
