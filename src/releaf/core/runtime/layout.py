"""Layout of a state: order, types and dimensions of its arrays, and their places in a pointer table."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

Dimension = str | int  # a name, equal wherever it stands in a state, or a fixed length


class ArrayField(NamedTuple):
    """One array of a state."""

    dtype: np.dtype[Any]
    dimensions: tuple[Dimension, ...]
    role: str  # "constant" follows from the settings, "learnt" is saved, "scratch" is overwritten by each step
    least: float | None = None


class Layout:
    """Order, types and dimensions of the arrays of a state class, and their places in a pointer table.

    ``flat`` states are for kernels that check no bounds: each array is stored flat and opens as a bare pointer, and
    ``lengths`` opens as the lengths of all arrays.
    """

    def __init__(self, name: str, fields: Mapping[str, ArrayField], *, flat: bool) -> None:
        self.name, self.fields, self.flat = name, dict(fields), flat
        ranks = [1 if flat else len(field.dimensions) for field in fields.values()]
        self.index_of = {field: index for index, field in enumerate(fields)}
        first_shape = 1 + len(fields)
        self.shape_of = dict(zip(fields, accumulate(ranks, initial=first_shape), strict=False))
        self.length = first_shape + sum(ranks)
        text = ", ".join(f"{n}: {f.dtype.str}[{len(f.dimensions)}]" for n, f in fields.items())
        self.text = f"{name}({text}){' flat' if flat else ''}"
        self.hash = int.from_bytes(hashlib.sha256(self.text.encode()).digest()[:7], "little")

    def names(self, role: str) -> tuple[str, ...]:
        return tuple(name for name, field in self.fields.items() if field.role == role)
