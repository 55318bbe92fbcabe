"""Reward statistics of single intervals: the marginals of the cells over the other features. For reports, not compiled.

Every tuple that contains a feature holds the same rewards, divided among the intervals of its other features. A cell is
cleared when one of its intervals splits, so tuples differ in the rewards that they still hold.
"""

from __future__ import annotations

import numpy as np

from releaf.arrays import Array
from releaf.core.releaf.partition import leaves_of
from releaf.core.releaf.state import ACTIONS, BASE, FEATURES, HASHED, LEAVES, ROWS, TUPLE_SIZE, ReleafState


def observed_in_leaves(state: ReleafState, feature: int) -> tuple[Array, Array]:
    """Counts and sums of rewards of each action in each leaf of a feature (leaves × A), from low to high.

    For each leaf, those of the tuple that holds most of its rewards, the first on ties.
    """
    counts, sums = _hashed(state, feature) if state.clock[HASHED] else _dense(state, feature)
    fullest = counts.sum(axis=2).argmax(axis=0)
    leaves = np.arange(counts.shape[1])
    return counts[fullest, leaves], sums[fullest, leaves]


def _dense(state: ReleafState, feature: int) -> tuple[Array, Array]:
    """Counts and sums of each tuple that contains the feature, for each of its leaves (tuples × leaves × A)."""
    size, actions = int(state.shape[TUPLE_SIZE]), int(state.shape[ACTIONS])
    tuples, strides = state.tuples.reshape(-1, size), state.strides.reshape(-1, size)
    counts, sums = state.counts.reshape(-1, actions), state.sums.reshape(-1, actions)
    slots = state.slot[leaves_of(state, feature, int(state.shape[BASE]))]
    found: tuple[list[Array], list[Array]] = ([], [])
    for p in np.flatnonzero((tuples == feature).any(axis=1)):
        rows = np.array([state.offsets[p]])
        for other, stride in zip(tuples[p], strides[p], strict=True):
            if other != feature:
                rows = np.add.outer(rows, stride * np.arange(state.features[4 * other + LEAVES])).reshape(-1)
        rows = np.add.outer(slots * strides[p, tuples[p] == feature], rows)
        found[0].append(counts[rows].sum(axis=1, dtype=np.int64))
        found[1].append(sums[rows].sum(axis=1))
    return np.stack(found[0]), np.stack(found[1])


def _hashed(state: ReleafState, feature: int) -> tuple[Array, Array]:
    """Counts and sums as of ``_dense``, for tuples with existing rows; rows of split leaves are skipped."""
    size, actions, features = (int(state.shape[which]) for which in (TUPLE_SIZE, ACTIONS, FEATURES))
    used = int(state.clock[ROWS])
    keys = state.keys.reshape(-1, size)[1:used]
    feature_of, place_of = _leaves_by_node(state)
    owners = feature_of[keys]
    kept = (owners >= 0).all(axis=1) & (owners == feature).any(axis=1)
    keys, owners = keys[kept], owners[kept]
    names, which = np.unique(owners @ features ** np.arange(size)[::-1], return_inverse=True)  # in the tuples' order
    places = place_of[keys[owners == feature]]
    shape = (max(len(names), 1), int(state.features[4 * feature + LEAVES]), actions)
    counts, sums = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    np.add.at(counts, (which.reshape(-1), places), state.counts.reshape(-1, actions)[1:used][kept])
    np.add.at(sums, (which.reshape(-1), places), state.sums.reshape(-1, actions)[1:used][kept])
    return counts, sums


def _leaves_by_node(state: ReleafState) -> tuple[Array, Array]:
    """Feature of each node and its position among the feature's leaves, from low to high; -1 for inner nodes."""
    feature_of = np.full(len(state.child), -1)
    place_of = feature_of.copy()
    for feature in range(int(state.shape[FEATURES])):
        leaves = leaves_of(state, feature, int(state.shape[BASE]))
        feature_of[leaves], place_of[leaves] = feature, np.arange(len(leaves))
    return feature_of, place_of
