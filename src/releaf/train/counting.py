"""Numbers counted on a grid of their own leading bits: the same cells in any order and in any parts.

Keys are whole numbers of 64 bits. Those that agree in their leading bits share a cell, which knows how many they are,
the least and the largest; cells tell as many bits apart as can be with no more than ``MOST`` of them. So the grid lies
where the numbers lie, of whatever size they are, and numbers of few different values are counted one by one. A cell
that holds much of all is looked into with a reading of its own, until it holds one number alone or little.

>>> cells = counted(keys_of(np.array([3.0, -1.0, 3.0, 0.5])))
>>> values_of(cells.lows).tolist(), cells.counts.tolist()
([-1.0, 0.5, 3.0], [1, 1, 2])
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
MOST = 2**14  # cells
MUCH = 2**10  # a cell with more than one key in so many is looked into
_SIGN = np.uint64(1 << 63)


class Cells(NamedTuple):
    """The cells that hold some key, in their order."""

    lows: Array  # the least key of each
    highs: Array  # the largest
    counts: Array
    shift: int  # bits that cells don't tell apart


class Ranges(NamedTuple):
    """Keys to be counted: those from a low to its high, ends included; in their order, and apart."""

    lows: Array
    highs: Array

    def __bool__(self) -> bool:
        return len(self.lows) > 0


NOTHING = Cells(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64), 0)
EVERYTHING = Ranges(np.zeros(1, dtype=np.uint64), np.full(1, 2**64 - 1, dtype=np.uint64))


def keys_of(values: Array) -> Array:
    """The bits of floats as whole numbers that are in the same order; one key for both zeros, none for NaN."""
    bits = (values[~np.isnan(values)] + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def values_of(keys: Array) -> Array:
    """The floats of keys."""
    return np.where(keys & _SIGN, keys & ~_SIGN, ~keys).view(np.float64)


def counted(keys: Array, ranges: Ranges = EVERYTHING) -> Cells:
    """The cells of those keys that are within ranges."""
    if ranges is not EVERYTHING:
        keys = keys[_are_within(keys, ranges)]
    different, counts = np.unique(keys, return_counts=True)
    return _gathered(different, different, counts, 0)


def joined(one: Cells, other: Cells) -> Cells:
    """The cells of both parts together."""
    lows = np.concatenate([one.lows, other.lows])
    order = np.argsort(lows, kind="stable")
    highs, counts = (np.concatenate(pair)[order] for pair in zip(one[1:3], other[1:3], strict=True))
    return _gathered(lows[order], highs, counts, max(one.shift, other.shift))


def heavy(cells: Cells) -> Ranges:
    """The cells that hold much of all, but not one key alone."""
    chosen = _are_heavy(cells)
    return Ranges(cells.lows[chosen], cells.highs[chosen])


def frequent(cells: Cells) -> Array:
    """The keys that make up much of all, where no cell is heavy any more."""
    found: Array = cells.lows[(cells.counts * MUCH > cells.counts.sum()) & (cells.lows == cells.highs)]
    return found


def refined(cells: Cells, finer: Cells) -> Cells:
    """The cells with those that were heavy replaced by the finer ones that are in them."""
    light = ~_are_heavy(cells)
    lows = np.concatenate([cells.lows[light], finer.lows])
    order = np.argsort(lows)
    highs, counts = (np.concatenate([old[light], new])[order] for old, new in zip(cells[1:3], finer[1:3], strict=True))
    return Cells(lows[order], highs, counts, finer.shift)


def as_sketch(cells: Cells, size: int) -> Array:
    """The state of a quantile sketch that has seen the values of these cells.

    Its sample is taken at even steps through all values in their order; within a cell they are thought to lie evenly.
    """
    seen = int(cells.counts.sum())
    kept = min(seen, size)
    if not kept:
        return np.zeros(4)
    upto = np.cumsum(cells.counts)
    steps = (np.arange(kept) + 0.5) / kept * seen
    places = np.searchsorted(upto, steps, side="right")
    lows, highs = values_of(cells.lows)[places], values_of(cells.highs)[places]
    share = (steps - (upto - cells.counts)[places]) / cells.counts[places]
    chosen = np.minimum(lows + share * (highs - lows), highs)
    return np.concatenate([[seen, 0, 0, kept], chosen, chosen])


def _are_within(keys: Array, ranges: Ranges) -> Array:
    if not ranges:
        return np.zeros(len(keys), dtype=bool)
    places = np.searchsorted(ranges.lows, keys, side="right")
    inside: Array = (places > 0) & (keys <= ranges.highs[places - 1])
    return inside


def _are_heavy(cells: Cells) -> Array:
    chosen: Array = (cells.counts * MUCH > cells.counts.sum()) & (cells.lows < cells.highs)
    return chosen


def _gathered(lows: Array, highs: Array, counts: Array, shift: int) -> Cells:
    """Cells that tell apart what they can, of sorted ones that told apart at least as much."""
    if not len(lows):
        return NOTHING
    apart = lows[1:] ^ lows[:-1]
    if len(lows) > MOST:  # the least shift that leaves so many; that of the parts of a log is never above that of all
        shift = max(shift, int(np.partition(apart, -MOST)[-MOST]).bit_length())
    firsts = np.flatnonzero(np.append(True, apart >> np.uint64(shift)))
    return Cells(lows[firsts], np.maximum.reduceat(highs, firsts), np.add.reduceat(counts, firsts), shift)
