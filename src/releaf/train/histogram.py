"""Mergeable histograms of 64-bit keys: the same bins for any order and any division of the data.

Keys that agree in their leading bits share a bin, which stores its count, its smallest and its largest key. Bins
distinguish as many leading bits as ``MAX_BINS`` allows, so the resolution adapts to where the keys lie, and a few
distinct values are counted one by one. A heavy bin has more than 1 / ``HEAVY_FRACTION`` of all keys. Further passes
over the data refine heavy bins until each holds a single key or is no longer heavy.

>>> bins = histogram_of(keys_of(np.array([3.0, -1.0, 3.0, 0.5])))
>>> values_of(bins.lows).tolist(), bins.counts.tolist()
([-1.0, 0.5, 3.0], [1, 1, 2])
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from releaf.arrays import Array

MAX_BINS = 2**14
HEAVY_FRACTION = 2**10  # a bin with more than one key in so many is heavy
_SIGN = np.uint64(1 << 63)


class KeyHistogram(NamedTuple):
    """The non-empty bins, in ascending order."""

    lows: Array  # smallest key of each bin
    highs: Array  # largest key of each bin
    counts: Array
    shift: int  # number of trailing bits that bins ignore


class KeyRanges(NamedTuple):
    """Disjoint closed ranges of keys to count, in ascending order."""

    lows: Array
    highs: Array

    def __bool__(self) -> bool:
        return len(self.lows) > 0


EMPTY = KeyHistogram(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64), 0)
ALL_KEYS = KeyRanges(np.zeros(1, dtype=np.uint64), np.full(1, 2**64 - 1, dtype=np.uint64))


def keys_of(values: Array) -> Array:
    """Map floats to unsigned integers in the same order; both zeros share a key, NaN is dropped."""
    bits = (values[~np.isnan(values)] + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def values_of(keys: Array) -> Array:
    """Map keys back to floats."""
    return np.where(keys & _SIGN, keys & ~_SIGN, ~keys).view(np.float64)


def histogram_of(keys: Array, ranges: KeyRanges = ALL_KEYS) -> KeyHistogram:
    """KeyHistogram of the keys that lie within ranges."""
    if ranges is not ALL_KEYS:
        keys = keys[_are_within(keys, ranges)]
    distinct, counts = np.unique(keys, return_counts=True)
    return _coarsened(distinct, distinct, counts, 0)


def merge(one: KeyHistogram, other: KeyHistogram) -> KeyHistogram:
    """KeyHistogram of the keys of both."""
    lows = np.concatenate([one.lows, other.lows])
    order = np.argsort(lows, kind="stable")
    highs, counts = (np.concatenate(pair)[order] for pair in zip(one[1:3], other[1:3], strict=True))
    return _coarsened(lows[order], highs, counts, max(one.shift, other.shift))


def merge_each(ones: list[KeyHistogram], others: Iterable[KeyHistogram]) -> list[KeyHistogram]:
    """Merge several histograms with as many others."""
    return [merge(one, other) for one, other in zip(ones, others, strict=True)]


def heavy_ranges(bins: KeyHistogram) -> KeyRanges:
    """Ranges of the heavy bins that hold more than one distinct key."""
    chosen = _are_heavy(bins)
    return KeyRanges(bins.lows[chosen], bins.highs[chosen])


def frequent_keys(bins: KeyHistogram) -> Array:
    """Keys that fill a heavy bin alone, of a histogram without other heavy bins."""
    found: Array = bins.lows[(bins.counts * HEAVY_FRACTION > bins.counts.sum()) & (bins.lows == bins.highs)]
    return found


def refine(bins: KeyHistogram, finer: KeyHistogram) -> KeyHistogram:
    """Replace the heavy bins by the finer bins within them."""
    light = ~_are_heavy(bins)
    lows = np.concatenate([bins.lows[light], finer.lows])
    order = np.argsort(lows)
    highs, counts = (np.concatenate([old[light], new])[order] for old, new in zip(bins[1:3], finer[1:3], strict=True))
    return KeyHistogram(lows[order], highs, counts, finer.shift)


def to_quantile_sketch(bins: KeyHistogram, size: int) -> Array:
    """State of a quantile sketch that has seen the values of this histogram.

    Its sample takes values at even steps through their order, with linear interpolation within a bin.
    """
    seen = int(bins.counts.sum())
    kept = min(seen, size)
    if not kept:
        return np.zeros(4)
    upto = np.cumsum(bins.counts)
    steps = (np.arange(kept) + 0.5) / kept * seen
    indices = np.searchsorted(upto, steps, side="right")
    lows, highs = values_of(bins.lows)[indices], values_of(bins.highs)[indices]
    share = (steps - (upto - bins.counts)[indices]) / bins.counts[indices]
    chosen = np.minimum(lows + share * (highs - lows), highs)
    return np.concatenate([[seen, 0, 0, kept], chosen, chosen])


def _are_within(keys: Array, ranges: KeyRanges) -> Array:
    if not ranges:
        return np.zeros(len(keys), dtype=bool)
    indices = np.searchsorted(ranges.lows, keys, side="right")
    inside: Array = (indices > 0) & (keys <= ranges.highs[indices - 1])
    return inside


def _are_heavy(bins: KeyHistogram) -> Array:
    chosen: Array = (bins.counts * HEAVY_FRACTION > bins.counts.sum()) & (bins.lows < bins.highs)
    return chosen


def _coarsened(lows: Array, highs: Array, counts: Array, shift: int) -> KeyHistogram:
    """Merge sorted bins until at most ``MAX_BINS`` are left."""
    if not len(lows):
        return EMPTY
    differing = lows[1:] ^ lows[:-1]
    if len(lows) > MAX_BINS:  # the smallest shift that suffices; that of a part is never above that of the whole log
        shift = max(shift, int(np.partition(differing, -MAX_BINS)[-MAX_BINS]).bit_length())
    firsts = np.flatnonzero(np.append(True, differing >> np.uint64(shift)))
    return KeyHistogram(lows[firsts], np.maximum.reduceat(highs, firsts), np.add.reduceat(counts, firsts), shift)
