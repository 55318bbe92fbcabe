"""Reward statistics of each cell (hypercube of intervals), in dense tables while these are small, else in a hash table.

Dense: every tuple of features has a table with one row for each combination of its features' leaves; offsets and
strides give the row. Hashed: only observed rows exist, and their leaves are the key; row 0 stands for all others and
stays empty. Memory use then follows the number of visited cells, not the product of all intervals.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.arrays import Array
from releaf.core.releaf.partition import leaves_of
from releaf.core.releaf.state import (
    ACTIONS,
    BASE,
    COUNTS,
    FEATURES,
    HASHED,
    LEAVES,
    OBSERVED,
    ROWS,
    TABLE,
    TUPLE_SIZE,
    TUPLES,
    ReleafState,
    open_state,
)
from releaf.core.runtime.jit import entry_point, inlined, outlined

GRAIN = 2.0**-26  # rewards are multiples of it, so that sums are exact and learners add up in any order
DENSE_LIMIT = 2**29  # bytes of dense tables beyond which cells are hashed
FEW = 4  # actions
MOST_COUNTED = 2**31 - 1  # rewards of an action that a cell counts; one more would not change its mean
_BYTES = 28  # count, mean and sum of one action, and the least count where there are few


def build(state: ReleafState, *, dense_limit: int) -> None:
    """Create empty cells for the existing leaves, with capacity for as many again."""
    leaves = state.features[LEAVES::4]
    state.table, state.keys = np.zeros(0), np.zeros(0)
    state.caps, state.offsets, state.strides = np.zeros(len(leaves)), np.zeros(0), np.zeros(0)
    if not _make_dense(state, 2 * leaves, dense_limit):
        make_hashed(state, rows=1024)


def grow(state: ReleafState, base: int, *, dense_limit: int) -> None:
    """Grow the capacity for leaves (dense) or rows (hashed); contents are kept."""
    if state.clock[HASHED]:
        _rehash(state)
        return
    old = [getattr(state, name) for name in ("offsets", "strides", "cells", "counts", "sums")]
    leaves, caps = state.features[LEAVES::4], state.caps
    slots = _leaves_by_slot(state)
    enough = leaves + base - 1 <= caps
    if not _make_dense(state, np.where(enough, caps, np.maximum(2 * caps, leaves + base - 1)), dense_limit):
        counts = old[3].reshape(-1, state.shape[ACTIONS])
        make_hashed(state, rows=int(np.count_nonzero(counts.any(axis=1))) + 1024)
    move_dense(state.pointer_table, *slots, *old)


def add_action(state: ReleafState) -> None:
    """Add an action without observations to every cell. ``shape[ACTIONS]`` is still the old number."""
    actions = int(state.shape[ACTIONS])
    rows = len(state.counts) // actions
    cells = state.cells.reshape(rows, 1 + actions)
    wide = np.zeros((rows, 2 + actions))
    wide[:, 1:-1] = cells[:, 1:]  # the least count is now 0
    state.cells = wide
    for name in ("counts", "sums"):
        old = getattr(state, name).reshape(rows, actions)
        setattr(state, name, np.concatenate([old, np.zeros((rows, 1), dtype=old.dtype)], axis=1))


def remove_action(state: ReleafState, action: int) -> None:
    """Remove one action from every cell. ``shape[ACTIONS]`` is still the old number."""
    actions = int(state.shape[ACTIONS])
    rows = len(state.counts) // actions
    cells = state.cells.reshape(rows, 1 + actions)
    for name in ("counts", "sums"):
        setattr(state, name, np.delete(getattr(state, name).reshape(rows, actions), action, axis=1))
    kept = np.zeros((rows, actions))
    kept[:, 0] = state.counts.reshape(rows, actions - 1).min(axis=1)  # the least count of those that stay
    kept[:, 1:] = np.delete(cells[:, 1:], action, axis=1)
    state.cells = kept


def _make_dense(state: ReleafState, caps: Array, limit: int) -> bool:
    """Create empty tables with capacity for ``caps`` leaves of each feature; False if they would exceed the limit."""
    total = dense_rows(state, caps)
    if total * int(state.shape[ACTIONS]) * _BYTES > limit:
        return False
    lay_out(state, caps)
    _make_rows(state, int(total))
    state.clock[ROWS] = int(total)
    return True


def dense_rows(state: ReleafState, caps: Array) -> float:
    """Number of rows of dense tables with capacity for ``caps`` leaves of each feature."""
    tuples = state.tuples.reshape(-1, state.shape[TUPLE_SIZE])
    return float(np.prod(caps[tuples].astype(float), axis=1).sum())


def lay_out(state: ReleafState, caps: Array) -> None:
    """Set the first row and the strides of each tuple's table.

    The tables of all tuples with the same first feature are interleaved: their rows for one slot of that feature are
    adjacent. So the cells of one context are close in memory, which keeps many features fast.
    """
    tuples = state.tuples.reshape(-1, state.shape[TUPLE_SIZE])
    inner_rows = np.prod(caps[tuples[:, 1:]], axis=1)  # of one slot of the first feature
    strides = np.ones(tuples.shape, dtype=np.int64)
    for k in range(tuples.shape[1] - 2, 0, -1):
        strides[:, k] = strides[:, k + 1] * caps[tuples[:, k + 1]]
    offsets = np.zeros(len(tuples), dtype=np.int64)
    start = 0
    for first in range(int(tuples[:, 0].max()) + 1):
        block = tuples[:, 0] == first
        width = int(inner_rows[block].sum())
        strides[block, 0] = width
        offsets[block] = start + np.cumsum(inner_rows[block]) - inner_rows[block]
        start += width * int(caps[first])
    state.caps, state.offsets, state.strides = caps, offsets, strides


def make_hashed(state: ReleafState, rows: int) -> None:
    """Create empty hashed cells with capacity for so many rows."""
    rows += int(state.shape[TUPLES])  # one reward may need a row for each tuple
    _make_rows(state, rows)
    state.keys = np.zeros(rows * int(state.shape[TUPLE_SIZE]), dtype=np.int32)
    state.table = np.zeros(2 ** math.ceil(math.log2(2 * rows)), dtype=np.int64)
    state.clock[HASHED] = 1
    state.clock[ROWS] = 1


def _make_rows(state: ReleafState, rows: int) -> None:
    actions = int(state.shape[ACTIONS])
    state.cells = np.zeros(rows * (1 + actions))
    state.counts = np.zeros(rows * actions, dtype=np.int32)
    state.sums = np.zeros(rows * actions)


def _rehash(state: ReleafState) -> None:
    """Copy the rows whose leaves still exist into a larger table."""
    old = [getattr(state, name) for name in ("keys", "cells", "counts", "sums")]
    used = int(state.clock[ROWS])
    make_hashed(state, rows=2 * count_unsplit(state.pointer_table, old[0], used) + 1024)
    move_hashed(state.pointer_table, used, *old)


def _leaves_by_slot(state: ReleafState) -> tuple[Array, Array]:
    """Leaf in each slot of each feature: one flat array, and the offsets of the features in it."""
    parts = []
    for feature in range(int(state.shape[FEATURES])):
        nodes = np.array(leaves_of(state, feature, int(state.shape[BASE])), dtype=np.int64)
        parts.append(nodes[np.argsort(state.slot[nodes])])
    starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return np.concatenate(parts), starts


# --- finding rows -----------------------------------------------------------------------------------------


@inlined
def dense_row(m, tuple_index, size, leaf):
    """Row of a tuple's cell in the dense tables."""
    row = m.offsets[tuple_index]
    for k in range(size):
        place = tuple_index * size + k
        row += m.slot[leaf[m.tuples[place]]] * m.strides[place]
    return row


_SEED = np.uint64(0x9E3779B97F4A7C15)


@inlined
def _mix(mixed, leaf):
    mixed = (mixed ^ np.uint64(leaf)) * np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(29))


@inlined
def _first_place(m, tuple_index, size, leaf):
    """First place of the hash table to probe for a tuple's cell."""
    mixed = _SEED
    for k in range(size):
        mixed = _mix(mixed, leaf[m.tuples[tuple_index * size + k]])
    return np.int64(mixed & np.uint64(m.lengths[TABLE] - 1))


@outlined
def hashed_place(m, tuple_index, size, leaf):
    """Place of a tuple's cell in the hash table, or the empty place for it.

    The leaves alone are the key: node ids are unique over all features, so they identify the tuple too.
    """
    place = _first_place(m, tuple_index, size, leaf)
    while True:
        row = m.table[place]
        if row == 0:
            return place
        same = True
        for k in range(size):
            same &= m.keys[row * size + k] == leaf[m.tuples[tuple_index * size + k]]
        if same:
            return place
        place = (place + 1) & (m.lengths[TABLE] - 1)


@outlined
def find_rows(m, size, leaf):
    """Write the cells of Q_t to ``rows``; a hashed cell that does not exist is the empty row 0."""
    if m.clock[HASHED]:
        for p in range(m.shape[TUPLES]):
            m.rows[p] = m.table[hashed_place(m, p, size, leaf)]
    else:
        for p in range(m.shape[TUPLES]):
            m.rows[p] = dense_row(m, p, size, leaf)


@inlined
def rows_lacking(m):
    """Whether the hash table may lack rows for one more reward."""
    return m.clock[HASHED] == 1 and (m.clock[ROWS] + m.shape[TUPLES]) * m.shape[ACTIONS] > m.lengths[COUNTS]


@outlined
def find_or_add_rows(m, size, leaf):
    """Find the rows as ``find_rows`` does, and add hashed cells that do not exist."""
    if m.clock[HASHED]:
        for p in range(m.shape[TUPLES]):
            place = hashed_place(m, p, size, leaf)
            if m.table[place] == 0:
                _enter(m, place, p, size, leaf)
            m.rows[p] = m.table[place]
    else:
        find_rows(m, size, leaf)


@inlined
def _enter(m, place, tuple_index, size, leaf):
    row = m.clock[ROWS]
    m.clock[ROWS] += 1
    m.table[place] = row
    for k in range(size):
        m.keys[row * size + k] = leaf[m.tuples[tuple_index * size + k]]


@inlined
def observe(m, action, reward):
    """Update the cells in ``rows`` with one reward of an action."""
    actions = m.shape[ACTIONS]
    reward = math.floor(reward / GRAIN + 0.5) * GRAIN
    crowded = m.clock[OBSERVED] > MOST_COUNTED  # before that, no cell can be full
    for p in range(m.shape[TUPLES]):
        cell, here = m.rows[p] * (1 + actions), m.rows[p] * actions
        count = m.counts[here + action] + 1
        if crowded and count > MOST_COUNTED:
            continue
        total = m.sums[here + action] + reward
        m.counts[here + action] = count
        m.sums[here + action] = total
        m.cells[cell + 1 + action] = total / count
        # Recounting a few actions is faster than an unpredictable branch; more, only if this one had the least count.
        if actions <= FEW or m.cells[cell] == count - 1:
            _count_least(m, cell, here, actions)


@inlined
def _count_least(m, cell, here, actions):
    least = m.counts[here]
    for other in range(1, actions):
        count = m.counts[here + other]
        least = count if count < least else least
    m.cells[cell] = least


@outlined
def clear_slot(m, feature, slot):
    """Clear all dense cells of the leaf in this slot."""
    size, actions = m.shape[TUPLE_SIZE], m.shape[ACTIONS]
    for p in range(m.shape[TUPLES]):
        rows, found = 1, False
        for k in range(size):
            other = m.tuples[p * size + k]
            found |= other == feature
            rows *= 1 if other == feature else m.features[4 * other + LEAVES]
        for combination in range(rows if found else 0):
            row, rest = m.offsets[p], combination
            for k in range(size):
                other = m.tuples[p * size + k]
                if other == feature:
                    row += slot * m.strides[p * size + k]
                else:
                    row += rest % m.features[4 * other + LEAVES] * m.strides[p * size + k]
                    rest //= m.features[4 * other + LEAVES]
            for k in range(1 + actions):
                m.cells[row * (1 + actions) + k] = 0.0
            for k in range(actions):
                m.counts[row * actions + k] = 0
                m.sums[row * actions + k] = 0.0


# --- moving rows ------------------------------------------------------------------------------------------


@inlined
def _copy_row(m, cells, counts, sums, source, row):
    """Copy a row of other arrays to a row of the state."""
    actions = m.shape[ACTIONS]
    for k in range(1 + actions):
        m.cells[row * (1 + actions) + k] = cells[source * (1 + actions) + k]
    for k in range(actions):
        m.counts[row * actions + k] = counts[source * actions + k]
        m.sums[row * actions + k] = sums[source * actions + k]


@entry_point
def move_dense(pointer_table, leaves, starts, offsets, strides, cells, counts, sums):
    """Copy observed rows of other dense tables into the state's cells, dense or hashed."""
    m = open_state(pointer_table)
    size, actions = m.shape[TUPLE_SIZE], m.shape[ACTIONS]
    for p in range(m.shape[TUPLES]):
        combinations = 1
        for k in range(size):
            feature = m.tuples[p * size + k]
            combinations *= starts[feature + 1] - starts[feature]
        for combination in range(combinations):
            source, rest = offsets[p], combination
            for k in range(size):
                feature = m.tuples[p * size + k]
                slots = starts[feature + 1] - starts[feature]
                source += rest % slots * strides[p * size + k]
                m.spot[feature] = leaves[starts[feature] + rest % slots]
                rest //= slots
            seen = False
            for action in range(actions):
                seen |= counts[source * actions + action] > 0
            if not seen:
                continue
            if m.clock[HASHED]:
                place = hashed_place(m, p, size, m.spot)
                _enter(m, place, p, size, m.spot)
                row = m.table[place]
            else:
                row = dense_row(m, p, size, m.spot)
            _copy_row(m, cells, counts, sums, source, row)


@inlined
def _has_no_split_leaf(m, keys, row, size):
    unsplit = True
    for k in range(size):
        unsplit &= m.child[keys[row * size + k]] < 0
    return unsplit


@entry_point
def count_unsplit(pointer_table, keys, used):
    """Count the hashed rows of leaves that have not split."""
    m = open_state(pointer_table)
    unsplit = 0
    for row in range(1, used):
        unsplit += _has_no_split_leaf(m, keys, row, m.shape[TUPLE_SIZE])
    return unsplit


@entry_point
def move_hashed(pointer_table, used, keys, cells, counts, sums):
    """Copy the hashed rows of leaves that have not split into the state's empty table."""
    m = open_state(pointer_table)
    size = m.shape[TUPLE_SIZE]
    for row in range(1, used):
        if not _has_no_split_leaf(m, keys, row, size):
            continue
        new = m.clock[ROWS]
        m.clock[ROWS] += 1
        place = _place_of_key(m, keys, row, size)
        m.table[place] = new
        for k in range(size):
            m.keys[new * size + k] = keys[row * size + k]
        _copy_row(m, cells, counts, sums, row, new)


@inlined
def _place_of_key(m, keys, row, size):
    """Empty place for a key that is not in the table."""
    mixed = _SEED
    for k in range(size):
        mixed = _mix(mixed, keys[row * size + k])
    place = np.int64(mixed & np.uint64(m.lengths[TABLE] - 1))
    while m.table[place] != 0:
        place = (place + 1) & (m.lengths[TABLE] - 1)
    return place
