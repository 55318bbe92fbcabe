"""The distribution of a stream of numbers, learnt from a sample of it."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from typing import Any

import numpy as np

_MASK = (1 << 64) - 1


class QuantileSketch:
    """Ranks among a uniform sample of all values seen, taken anew whenever their number has doubled.

    The sample is a reservoir (Vitter's algorithm R) with a generator of its own, so that the same stream gives the same
    ranks. A rank is the fraction of the sample below a value, ties counted half, with straight lines between
    the values of the sample; the first value of a stream has rank 0.5.

    Examples
    --------
    >>> sketch = QuantileSketch(size=100)
    >>> [sketch.see(value) for value in (3.0, 1.0, 2.0, 0.0)]
    [0.5, 0.25, 0.5, 0.125]
    """

    __slots__ = ("_random", "_ranked", "_sample", "_seen", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._seen = 0
        self._random = 0
        self._sample: list[float] = []
        self._ranked: list[float] = []

    def see(self, value: float) -> float:
        """Take in a value and give its rank."""
        self._seen += 1
        if len(self._sample) < self.size:
            self._sample.append(value)
        elif (place := self._draw(self._seen)) < self.size:
            self._sample[place] = value
        if self._seen & (self._seen - 1) == 0:  # a power of two
            self._ranked = sorted(self._sample)
        return self.rank(value)

    def rank(self, value: float) -> float:
        """The rank of a value, in [0, 1], without taking it in."""
        ranked = self._ranked
        below, upto = bisect_left(ranked, value), bisect_right(ranked, value)
        if below < upto:
            return (below + upto) / (2 * len(ranked))
        if below == 0:
            return 0.0
        if below == len(ranked):
            return 1.0
        left, right = ranked[below - 1], ranked[below]
        if right - left == math.inf:  # further apart than the largest number
            left, value, right = left / 2, value / 2, right / 2
        return (below - 0.5 + (value - left) / (right - left)) / len(ranked)

    def value(self, rank: float) -> float:
        """The value that has a rank, as far as there are some; the rank itself before the first value."""
        ranked = self._ranked
        if not ranked:
            return rank
        return float(np.interp(rank * len(ranked) - 0.5, np.arange(len(ranked)), ranked))

    def _draw(self, below: int) -> int:
        """A uniform integer in [0, below), by splitmix64."""
        self._random = (self._random + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((self._random ^ (self._random >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return (mixed ^ (mixed >> 31)) % below

    def state(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """All of it as one array: seen, the generator's two halves, lengths, sample, ranks."""
        head = [self._seen, self._random >> 32, self._random & 0xFFFFFFFF, len(self._sample)]
        return np.array([*head, *self._sample, *self._ranked], dtype=np.float64)

    def restore(self, state: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        """Take up what ``state`` gave."""
        values = state.tolist()
        self._seen = int(values[0])
        self._random = (int(values[1]) << 32) | int(values[2])
        split = 4 + int(values[3])
        self._sample, self._ranked = values[4:split], values[split:]
