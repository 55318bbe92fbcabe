"""What is known of one feature's intervals alone, summed over the cells they are part of; for people, so not compiled.

Every tuple of features that contains a feature holds the same rewards, divided by the intervals of its other features
too. A cell ends with the first of its intervals that splits, so what each tuple still holds differs.
"""

from __future__ import annotations

import numpy as np

from releaf.core.releaf.model import ACTIONS, BASE, FEATURES, HASHED, LEAVES, ROWS, TUPLE_SIZE, Array, Memory
from releaf.core.releaf.partition import leaves_of


def observed_in_leaves(memory: Memory, feature: int) -> tuple[Array, Array]:
    """Counts and sums of rewards of each action in each leaf of a feature (leaves × A), from low to high.

    Each leaf's are those of the tuple that holds most of its rewards, the first of equals.
    """
    counts, sums = _hashed(memory, feature) if memory["clock"][HASHED] else _dense(memory, feature)
    fullest = counts.sum(axis=2).argmax(axis=0)
    leaves = np.arange(counts.shape[1])
    return counts[fullest, leaves], sums[fullest, leaves]


def _dense(memory: Memory, feature: int) -> tuple[Array, Array]:
    """Counts and sums of each tuple that contains the feature, for each of its leaves (tuples × leaves × A)."""
    size, actions = int(memory["shape"][TUPLE_SIZE]), int(memory["shape"][ACTIONS])
    tuples, strides = memory["tuples"].reshape(-1, size), memory["strides"].reshape(-1, size)
    counts, sums = memory["counts"].reshape(-1, actions), memory["sums"].reshape(-1, actions)
    slots = memory["slot"][leaves_of(memory, feature, int(memory["shape"][BASE]))]
    found: tuple[list[Array], list[Array]] = ([], [])
    for p in np.flatnonzero((tuples == feature).any(axis=1)):
        rows = np.array([memory["offsets"][p]])
        for other, stride in zip(tuples[p], strides[p], strict=True):
            if other != feature:
                rows = np.add.outer(rows, stride * np.arange(memory["features"][4 * other + LEAVES])).reshape(-1)
        rows = np.add.outer(slots * strides[p, tuples[p] == feature], rows)
        found[0].append(counts[rows].sum(axis=1, dtype=np.int64))
        found[1].append(sums[rows].sum(axis=1))
    return np.stack(found[0]), np.stack(found[1])


def _hashed(memory: Memory, feature: int) -> tuple[Array, Array]:
    """What ``_dense`` gives, for the tuples of which rows exist; rows of leaves that have split are left out."""
    size, actions, features = (int(memory["shape"][which]) for which in (TUPLE_SIZE, ACTIONS, FEATURES))
    used = int(memory["clock"][ROWS])
    keys = memory["keys"].reshape(-1, size)[1:used]
    feature_of, place_of = _leaves_by_node(memory)
    owners = feature_of[keys]
    kept = (owners >= 0).all(axis=1) & (owners == feature).any(axis=1)
    keys, owners = keys[kept], owners[kept]
    names, which = np.unique(owners @ features ** np.arange(size)[::-1], return_inverse=True)  # in the tuples' order
    places = place_of[keys[owners == feature]]
    shape = (max(len(names), 1), int(memory["features"][4 * feature + LEAVES]), actions)
    counts, sums = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    np.add.at(counts, (which.reshape(-1), places), memory["counts"].reshape(-1, actions)[1:used][kept])
    np.add.at(sums, (which.reshape(-1), places), memory["sums"].reshape(-1, actions)[1:used][kept])
    return counts, sums


def _leaves_by_node(memory: Memory) -> tuple[Array, Array]:
    """Of each node its feature and its place among the leaves, from low to high; -1 where it is no leaf."""
    feature_of = np.full(len(memory["child"]), -1)
    place_of = feature_of.copy()
    for feature in range(int(memory["shape"][FEATURES])):
        leaves = leaves_of(memory, feature, int(memory["shape"][BASE]))
        feature_of[leaves], place_of[leaves] = feature, np.arange(len(leaves))
    return feature_of, place_of
