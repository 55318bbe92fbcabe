"""A sample of rows that does not depend on their order: those whose own values hash to the least numbers.

Of these it knows how often they came. Rows that make up much of a log are told beforehand and always in it, so that
each row counts in the sample for as many as there are in the log.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from releaf.train.counting import MUCH

Array = np.ndarray[Any, np.dtype[Any]]
KEPT = 4096  # different rows
NONE = np.empty(0, dtype=np.uint64)


class Sample(NamedTuple):
    """Different rows, with how often each came, in the order of their hashes."""

    hashes: Array
    values: Array  # [n, columns]
    counts: Array
    rows: int  # that it was drawn from


def nothing(columns: int) -> Sample:
    """A sample of no rows."""
    return Sample(NONE, np.empty((0, columns)), np.empty(0, dtype=np.int64), 0)


def hashes_of(values: Array) -> Array:
    """A number for each row that its values tell."""
    hashes = np.zeros(len(values), dtype=np.uint64)
    for column in values.T:
        hashes = _mixed(hashes ^ (column + 0.0).view(np.uint64))  # no negative zero
    return hashes


def draw(values: Array, often: Array = NONE) -> Sample:
    """The rows with the least hashes; those ``often`` ones whose hashes are given, in their order, come first."""
    hashes = hashes_of(values)
    if len(often):
        places = np.minimum(np.searchsorted(often, hashes), len(often) - 1)
        hashes = np.where(often[places] == hashes, places.astype(np.uint64), hashes)
    return _least(hashes, values + 0.0, np.ones(len(values), dtype=np.int64), len(values))


def joined(one: Sample, other: Sample) -> Sample:
    """The sample of both parts together."""
    hashes, values, counts = (np.concatenate(pair) for pair in zip(one[:3], other[:3], strict=True))
    return _least(hashes, values, counts, one.rows + other.rows)


def in_proportion(sample: Sample) -> Array:
    """Rows as they are in the log, each as many times as its share of it asks; as many as are kept, or all there are.

    A row that is often there stands for itself. The others of the sample stand for all that are not.
    """
    if not sample.rows:
        return sample.values
    often = sample.hashes < MUCH
    known = int(sample.counts[often].sum())
    others = max(int(sample.counts[~often].sum()), 1)
    weights = np.where(often, 1.0, (sample.rows - known) / others) * sample.counts
    upto = np.cumsum(weights)
    steps = (np.arange(min(sample.rows, KEPT)) + 0.5) / min(sample.rows, KEPT) * upto[-1]
    return np.ascontiguousarray(sample.values[np.searchsorted(upto, steps, side="right")])


def _mixed(words: Array) -> Array:
    """Splitmix64, which makes neighbouring numbers as different as any."""
    with np.errstate(over="ignore"):
        words = words + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = words ^ (words >> np.uint64(31))
    return mixed


def _least(hashes: Array, values: Array, counts: Array, rows: int) -> Sample:
    if len(hashes) > 4 * KEPT:  # sort few, not all
        bound = np.partition(hashes, 2 * KEPT)[2 * KEPT]
        few = hashes <= bound
        if len(np.unique(hashes[few])) > KEPT:
            hashes, values, counts = hashes[few], values[few], counts[few]
    different, firsts, places = np.unique(hashes, return_index=True, return_inverse=True)
    total = np.bincount(places, weights=counts, minlength=len(different)).astype(np.int64)
    return Sample(different[:KEPT], values[firsts[:KEPT]], total[:KEPT], rows)
