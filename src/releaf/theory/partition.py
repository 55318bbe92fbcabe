"""Lengths of the intervals that a stream's values arrive in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from releaf.arrays import Matrix
from releaf.theory.parameters import checked


@checked
def interval_lengths(values: Any, *, rho: float, base: int = 2, start_level: int = 0) -> Matrix:
    """s(p_{i,t}): the length of the interval that holds each value of a feature at the step it arrives.

    Partitions depend on the contexts alone, not on what the learner decides, so the lengths are known without it: an
    interval of level l holds the first ⌈base^(ρ·l)⌉ values that arrive in it; its children share those that follow.

    Parameters
    ----------
    values
        The feature's values in the order of their arrival, each in [0, 1].

    Examples
    --------
    >>> interval_lengths([0.3, 0.3, 0.3, 0.3, 0.8], rho=1.0).tolist()
    [1.0, 0.5, 0.5, 0.25, 0.5]
    """
    arrived = np.asarray(values, dtype=np.float64)
    if arrived.ndim != 1:
        raise ValueError(f"values has {arrived.ndim} dimensions: expected one feature's values")
    outside = np.flatnonzero(~((arrived >= 0) & (arrived <= 1)))
    if len(outside):
        raise ValueError(f"values[{outside[0]}] is {arrived[outside[0]]}: expected numbers from 0 to 1")
    lengths = np.empty(len(arrived))
    roots = _split(arrived, np.arange(len(arrived)), 0, base**start_level, base**start_level)
    waiting = [(start_level, rank, rows) for rank, rows in enumerate(roots)]
    while waiting:
        level, rank, rows = waiting.pop()
        held = min(len(rows), _most_arrivals(base, rho * level))
        lengths[rows[:held]] = base**-level
        if held < len(rows):
            children = _split(arrived, rows[held:], rank * base, base, base ** (level + 1))
            waiting += [(level + 1, rank * base + step, part) for step, part in enumerate(children)]
    return lengths


def _most_arrivals(base: int, exponent: float) -> int:
    """⌈base^exponent⌉, or more than any stream has."""
    return math.ceil(base**exponent) if exponent * math.log2(base) < 62 else 2**62


def _split(values: Matrix, rows: Any, first: int, parts: int, scale: int) -> list[Any]:
    """The rows whose values are in each of some neighbouring intervals (a, b] of length 1 / scale."""
    borders = (first + np.arange(1, parts)) / scale
    child = np.searchsorted(borders, values[rows])
    return [rows[child == step] for step in range(parts)]
