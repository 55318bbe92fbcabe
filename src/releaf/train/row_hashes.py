"""64-bit hashes of rows: the same for equal rows, in any file and on any machine."""

from __future__ import annotations

import numpy as np

from releaf.arrays import Array

NO_HASHES = np.empty(0, dtype=np.uint64)


def hash_rows(values: Array, *further: Array) -> Array:
    """A hash of each row's values, and of its values in further columns."""
    hashes = np.zeros(len(values), dtype=np.uint64)
    for column in (*values.T, *further):
        hashes = mixed(hashes ^ (column + 0.0).view(np.uint64))  # no negative zero
    return hashes


def mixed(words: Array) -> Array:
    """The finaliser of the SplitMix64 generator."""
    with np.errstate(over="ignore"):
        words = words + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Array = words ^ (words >> np.uint64(31))
    return found


def units_of(words: Array, bits: int) -> Array:
    """Numbers in [0, 1) that so many leading bits of each word encode, 53 at most."""
    numbers: Array = (words >> np.uint64(64 - bits)) * 2.0**-bits
    return numbers
