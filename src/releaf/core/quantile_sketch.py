"""Quantile sketch: ranks of a stream's values, from a reservoir sample."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.arrays import Array
from releaf.core.runtime.jit import entry_point, inlined, outlined
from releaf.core.runtime.random_generator import integer_below

# Fields of the counts: values seen, generator state, values in the sample, values in the ranks.
SEEN, RANDOM, KEPT, RANKED = range(4)
ROUNDED_TO = 1024.0  # steps between powers of two, after an erasure


class QuantileSketch:
    """Ranks among a uniform sample of all values seen, sorted anew whenever the number of values has doubled.

    The sample is a reservoir (Vitter's algorithm R) with its own generator, so that the same stream gives the same
    ranks. A rank is the fraction of the sample below a value, ties counted half, linearly interpolated between
    the values of the sample; the first value of a stream has rank 0.5.

    Examples
    --------
    >>> sketch = QuantileSketch(size=100)
    >>> [sketch.add(value) for value in (3.0, 1.0, 2.0, 0.0)]
    [0.5, 0.25, 0.5, 0.125]
    """

    __slots__ = ("_counts", "_ranked", "_sample", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._counts = np.zeros(4, dtype=np.int64)
        self._sample, self._ranked = np.zeros(size), np.zeros(size)

    def add(self, value: float) -> float:
        """Add a value and return its rank."""
        return add(self._counts, self._sample, self._ranked, value)  # type: ignore[no-any-return]

    def add_many(self, values: Array) -> None:
        """Add values one after the other and replace each by its rank; NaN stays."""
        add_many(self._counts, self._sample, self._ranked, values)

    def rank(self, value: float) -> float:
        """Rank of a value, in [0, 1], without adding it."""
        return rank_of(self._counts, self._ranked, value)  # type: ignore[no-any-return]

    def value(self, rank: float) -> float:
        """Value of a rank (the inverse of ``rank``); the rank itself before the first value."""
        count = int(self._counts[RANKED])
        if not count:
            return rank
        return float(np.interp(rank * count - 0.5, np.arange(count), self._ranked[:count]))

    def ranked_values(self) -> list[float]:
        """Copy the sorted values that ranks are of."""
        ranked: list[float] = self._ranked[: int(self._counts[RANKED])].tolist()
        return ranked

    def rank_many(self, values: Array) -> None:
        """Replace values by their ranks, without adding them; NaN stays."""
        rank_many(self._counts, self._ranked, values)

    def round_values(self) -> None:
        """Round all values to about three digits, so that none tells whose it is; ranks hardly change."""
        for values in (self._sample, self._ranked):
            fractions, exponents = np.frexp(values)
            values[:] = np.ldexp(np.round(fractions * ROUNDED_TO) / ROUNDED_TO, exponents)

    def state(self) -> Array:
        """State as one array: values seen, the generator's two halves, length of the sample, sample, ranks."""
        seen, random, kept, ranked = self._counts.tolist()
        word = random & 0xFFFFFFFFFFFFFFFF
        return np.concatenate(
            [[seen, word >> 32, word & 0xFFFFFFFF, kept], self._sample[:kept], self._ranked[:ranked]], dtype=np.float64
        )

    def restore(self, state: Array) -> None:
        """Load what ``state`` returned."""
        if state.ndim != 1 or len(state) < 4 or not np.isfinite(state).all():
            raise ValueError("its quantiles contradict the schema")
        seen, high, low, kept = (int(value) for value in state[:4])
        ranked = len(state) - 4 - kept
        fits = kept == min(seen, self.size) and 0 <= ranked <= kept and (ranked > 0) == (kept > 0)
        fits = fits and 0 <= high < 1 << 32 and 0 <= low < 1 << 32 and seen < 1 << 62
        if not (fits and (np.diff(state[4 + kept :]) >= 0).all()):
            raise ValueError("its quantiles contradict the schema")
        word = (high << 32) | low
        self._counts[:] = seen, word - (1 << 64) if word >> 63 else word, kept, ranked
        self._sample[:kept] = state[4 : 4 + kept]
        self._ranked[:ranked] = state[4 + kept :]


@inlined
def insert(counts, sample, ranked, value):
    """Add a value and return its rank."""
    counts[SEEN] += 1
    seen = counts[SEEN]
    if counts[KEPT] < len(sample):
        sample[counts[KEPT]] = value
        counts[KEPT] += 1
    else:
        place = integer_below(counts, RANDOM, seen)
        if place < len(sample):
            sample[place] = value
    if seen & (seen - 1) == 0:  # a power of two
        sort_into(counts, sample, ranked)
    return rank(ranked, counts[RANKED], value)


@outlined
def sort_into(counts, sample, ranked):
    ranked[: counts[KEPT]] = np.sort(sample[: counts[KEPT]])
    counts[RANKED] = counts[KEPT]


@inlined
def first_above(ranked, count, value, or_equal):
    """Count the sorted values below a value, and with ``or_equal`` those equal to it."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if ranked[middle] < value or (or_equal and ranked[middle] == value):
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def rank(ranked, count, value):
    """The rank of a value, in [0, 1]."""
    if count == 0:
        return 0.5
    below, upto = first_above(ranked, count, value, False), first_above(ranked, count, value, True)
    if below < upto:
        return (below + upto) / (2 * count)
    if below == 0:
        return 0.0
    if below == count:
        return 1.0
    left, right = ranked[below - 1], ranked[below]
    if right - left == math.inf:  # the difference overflows
        left, value, right = left / 2, value / 2, right / 2
    return (below - 0.5 + (value - left) / (right - left)) / count


@entry_point
def add(counts, sample, ranked, value):
    return insert(counts, sample, ranked, value)


@entry_point
def rank_of(counts, ranked, value):
    return rank(ranked, counts[RANKED], value)


@entry_point
def add_many(counts, sample, ranked, values):
    for place in range(len(values)):
        if values[place] == values[place]:
            values[place] = insert(counts, sample, ranked, values[place])


@entry_point
def rank_many(counts, ranked, values):
    for place in range(len(values)):
        if values[place] == values[place]:
            values[place] = rank(ranked, counts[RANKED], values[place])
