"""Tuples of features, and the candidates that each of them contains."""

from __future__ import annotations

from itertools import chain, combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np

IntArray = np.ndarray[Any, np.dtype[np.int32]]
MOST_TUPLES = 50_000_000


class Tuples(NamedTuple):
    """The paper's V_{2γ} and V_γ in lexicographic order, and which tuples contain which candidates."""

    tuples: IntArray  # [P, size] every tuple w of ``size`` features
    candidates: IntArray  # [V, gamma] every tuple v of ``gamma`` features
    subsets: IntArray  # [P, C(size, gamma)] the candidates that each tuple contains
    members: IntArray  # [V, per] the tuples that contain each candidate, in ascending order


def _combinations(features: int, size: int) -> IntArray:
    flat = np.fromiter(chain.from_iterable(combinations(range(features), size)), dtype=np.int32)
    return flat.reshape(-1, size)


def _rank(features: int, chosen: IntArray) -> IntArray:
    """Lexicographic rank of each row among all combinations of its size."""
    size = chosen.shape[1]
    after = np.zeros(len(chosen), dtype=np.int64)
    for place in range(size):
        left = np.array([comb(features - 1 - c, size - place) for c in range(features)], dtype=np.int64)
        after += left[chosen[:, place]]
    return (comb(features, size) - 1 - after).astype(np.int32)


def enumerate_tuples(features: int, size: int, gamma: int) -> Tuples:
    """Enumerate all tuples of ``size`` features, with the candidates of ``gamma`` features inside them.

    Examples
    --------
    >>> enumerate_tuples(3, 2, 1).members.tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    count = comb(features, size)
    if max(count * comb(size, gamma), comb(features, gamma)) > MOST_TUPLES:
        raise ValueError(
            f"{features} features have {count:,} tuples of {size} with {comb(size, gamma):,} candidates in each, "
            f"more than {MOST_TUPLES:,} together: "
            f"use fewer features, a smaller gamma_rel or tuples='gamma+1'"
        )
    tuples = _combinations(features, size)
    places = list(combinations(range(size), gamma))
    subsets = np.stack([_rank(features, tuples[:, list(place)]) for place in places], axis=1)
    candidates = _combinations(features, gamma)
    order = np.argsort(subsets.reshape(-1), kind="stable")
    members = (order // len(places)).astype(np.int32).reshape(len(candidates), -1)
    return Tuples(tuples, candidates, subsets, members)
