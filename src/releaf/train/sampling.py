"""A sample of rows that does not depend on their order: those whose own values hash to the least numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
KEPT = 4096  # different rows


class Sample(NamedTuple):
    """Different rows, with how often each came, in the order of their hashes."""

    hashes: Array
    values: Array  # [n, columns]
    counts: Array


def nothing(columns: int) -> Sample:
    """A sample of no rows."""
    return Sample(np.empty(0, dtype=np.uint64), np.empty((0, columns)), np.empty(0, dtype=np.int64))


def draw(values: Array, beside: Array) -> Sample:
    """The rows with the least hashes; ``beside`` is a further column that tells rows apart."""
    hashes = np.zeros(len(values), dtype=np.uint64)
    for column in (*values.T, beside):
        plain = np.ascontiguousarray(column, dtype=np.float64) + 0.0  # no negative zero
        hashes = _mixed(hashes ^ plain.view(np.uint64))
    return _least(hashes, values, np.ones(len(values), dtype=np.int64))


def joined(one: Sample, other: Sample) -> Sample:
    """The sample of both parts together."""
    return _least(*(np.concatenate(pair) for pair in zip(one, other, strict=True)))


def _mixed(words: Array) -> Array:
    """Splitmix64, which makes neighbouring numbers as different as any."""
    with np.errstate(over="ignore"):
        words = words + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = words ^ (words >> np.uint64(31))
    return mixed


def _least(hashes: Array, values: Array, counts: Array) -> Sample:
    if len(hashes) > 4 * KEPT:  # sort few, not all
        bound = np.partition(hashes, 2 * KEPT)[2 * KEPT]
        few = hashes <= bound
        if len(np.unique(hashes[few])) > KEPT:
            hashes, values, counts = hashes[few], values[few], counts[few]
    different, firsts, places = np.unique(hashes, return_index=True, return_inverse=True)
    total = np.bincount(places, weights=counts, minlength=len(different)).astype(np.int64)
    return Sample(different[:KEPT], values[firsts[:KEPT]], total[:KEPT])


def as_sketch(sample: Sample, column: int, size: int, seen: int) -> Array:
    """The state of a quantile sketch that has seen so many values, of which these are a sample.

    Its own sample is taken at even steps through the values in their order, each as long as it came often.
    """
    values, counts = sample.values[:, column], sample.counts
    there = ~np.isnan(values)
    values, counts = values[there], counts[there]
    kept = min(seen, size)
    if not kept:
        return np.zeros(4)
    order = np.argsort(values, kind="stable")
    upto = np.cumsum(counts[order])
    steps = (np.arange(kept) + 0.5) / kept * upto[-1]
    chosen = values[order][np.searchsorted(upto, steps, side="right")]
    return np.concatenate([[seen, 0, 0, kept], chosen, chosen])
