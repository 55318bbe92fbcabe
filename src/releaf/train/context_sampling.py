"""Order-independent samples of contexts, by hash priority: the distinct rows with the smallest hashes.

A sample counts how often each of its rows occurs. Frequent rows, whose hashes are known beforehand, are always in the
sample, so that each row is represented in proportion to its share of the log.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.train.histogram import HEAVY_FRACTION
from releaf.train.row_hashes import NO_HASHES, hash_rows

SAMPLE_SIZE = 4096  # distinct rows


class ContextSample(NamedTuple):
    """Distinct rows with their counts, in the order of their hashes."""

    hashes: Array
    values: Array  # [n, columns]
    counts: Array
    rows: int  # number of rows it was drawn from


def empty_sample(columns: int) -> ContextSample:
    """A sample of no rows."""
    return ContextSample(NO_HASHES, np.empty((0, columns)), np.empty(0, dtype=np.int64), 0)


def draw(values: Array, frequent: Array = NO_HASHES) -> ContextSample:
    """The rows with the smallest hashes; rows with one of the sorted ``frequent`` hashes come first."""
    hashes = hash_rows(values)
    if len(frequent):
        indices = np.minimum(np.searchsorted(frequent, hashes), len(frequent) - 1)
        hashes = np.where(frequent[indices] == hashes, indices.astype(np.uint64), hashes)
    return _smallest(hashes, values + 0.0, np.ones(len(values), dtype=np.int64), len(values))


def merge(one: ContextSample, other: ContextSample) -> ContextSample:
    """Sample of the rows of both."""
    hashes, values, counts = (np.concatenate(pair) for pair in zip(one[:3], other[:3], strict=True))
    return _smallest(hashes, values, counts, one.rows + other.rows)


def resample(sample: ContextSample) -> Array:
    """Rows in proportion to their share of the log: ``SAMPLE_SIZE`` of them, or as many as the log has.

    A frequent row represents itself; the other rows of the sample represent all other rows of the log.
    """
    if not sample.rows:
        return sample.values
    frequent = sample.hashes < HEAVY_FRACTION
    known = int(sample.counts[frequent].sum())
    others = max(int(sample.counts[~frequent].sum()), 1)
    weights = np.where(frequent, 1.0, (sample.rows - known) / others) * sample.counts
    upto = np.cumsum(weights)
    steps = (np.arange(min(sample.rows, SAMPLE_SIZE)) + 0.5) / min(sample.rows, SAMPLE_SIZE) * upto[-1]
    return np.ascontiguousarray(sample.values[np.searchsorted(upto, steps, side="right")])


def _smallest(hashes: Array, values: Array, counts: Array, rows: int) -> ContextSample:
    if len(hashes) > 4 * SAMPLE_SIZE:  # sort few, not all
        bound = np.partition(hashes, 2 * SAMPLE_SIZE)[2 * SAMPLE_SIZE]
        few = hashes <= bound
        if len(np.unique(hashes[few])) > SAMPLE_SIZE:
            hashes, values, counts = hashes[few], values[few], counts[few]
    distinct, firsts, indices = np.unique(hashes, return_index=True, return_inverse=True)
    total = np.bincount(indices, weights=counts, minlength=len(distinct)).astype(np.int64)
    return ContextSample(distinct[:SAMPLE_SIZE], values[firsts[:SAMPLE_SIZE]], total[:SAMPLE_SIZE], rows)
