"""Hashing of nested JSON features into a fixed number of columns.

Nobody declares the features of a Personalizer loop. So each feature is added to the column that the hash of its path
(``User.age``) names, with a sign from the same hash: features that share a column disturb each other, but on average
by nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from releaf.service.errors import invalid_request

MAX_DEPTH = 20
SCALE = 0.5  # of a feature of value 1, so that two fit into a column
OCTAVES = 10.0  # by which a number has to be multiplied, in powers of two, so that its linear part doubles


def hash_features(groups: Sequence[dict[str, Any]], width: int) -> list[float]:
    """Columns of a list of feature objects: values in [0, 1], where 0.5 stands for nothing.

    Text, truth values and the entries of lists of text become indicators of their value. A number is itself up to 1,
    and grows with its logarithm from there; above 1 it also has indicators of its power of two, interpolated, so that
    effects need not grow with it. Nulls are left out.

    >>> hash_features([{"User": {"plan": "plus"}}, {"time": None}], 4)
    [0.5, 0.25, 0.5, 0.5]
    """
    sums = [0.0] * width
    for group in groups:
        for name, value in _indicators(group, "", 0):
            place, sign = _column(name, width)
            sums[place] += sign * value
    return [min(max(0.5 + SCALE / 2.0 * total, 0.0), 1.0) for total in sums]


@lru_cache(maxsize=50_000)
def _column(name: str, width: int) -> tuple[int, float]:
    """Column and sign of a feature; the same on every machine."""
    digest = int.from_bytes(hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest(), "little")
    return (digest >> 1) % width, 1.0 if digest & 1 else -1.0


def _indicators(value: Any, path: str, depth: int) -> Iterator[tuple[str, float]]:
    """Names and values of the features of a JSON value."""
    if depth > MAX_DEPTH:
        raise invalid_request(f"features are nested more than {MAX_DEPTH} deep: expected less")
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _indicators(inner, f"{path}.{name}" if path else name, depth + 1)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _indicators(inner, f"{path}.{place}" if isinstance(inner, int | float) else path, depth + 1)
    elif isinstance(value, bool | str):
        yield f"{path}={value}", 1.0
    elif value is not None:
        yield from _of_number(value, path)


def _of_number(value: float, path: str) -> Iterator[tuple[str, float]]:
    size = abs(value)
    if size <= 1.0:
        yield path, float(value)
        return
    octave = math.log2(size)
    yield path, math.copysign(1.0 + octave / OCTAVES, value)
    below = math.floor(octave)
    side = "-" if value < 0 else ""
    yield f"{path}~{side}{below}", 1.0 - (octave - below)
    yield f"{path}~{side}{below + 1}", octave - below
