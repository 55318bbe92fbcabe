"""Where the rewards of each hypercube of intervals are kept, densely while that is small and hashed beyond.

Dense: every tuple of features has a table with one row for each combination of its features' leaves, found
by arithmetic. Hashed: only rows that were ever observed exist, found by their leaves; row 0 stands for all
others and stays empty. Memory then follows the cells that were visited, never the product of all intervals.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.core.releaf.model import (
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
    Array,
    Memory,
    view,
)
from releaf.core.releaf.partition import leaves_of
from releaf.core.releaf.vector_lanes import MAX_WIDTH
from releaf.core.runtime.jit import door, inner, outlined

GRAIN = 2.0**-26  # rewards are multiples of it, so that sums are exact and learners add up in any order
DENSE_LIMIT = 2**29  # bytes of dense tables beyond which cells are hashed
MOST_COUNTED = 2**31 - 1  # rewards of an action that a cell takes in; one more would not move its mean
FEW = 4  # actions, up to which the width of lanes is their number
_BYTES = 28  # count, mean and sum of one action, and the least count where there are few


def build(memory: Memory, *, dense_limit: int) -> None:
    """Make empty cells for the leaves there are, with room for as many again."""
    leaves = memory["features"][LEAVES::4]
    memory["table"], memory["keys"] = np.zeros(0), np.zeros(0)
    memory["caps"], memory["offsets"], memory["strides"] = np.zeros(len(leaves)), np.zeros(0), np.zeros(0)
    if not _make_dense(memory, 2 * leaves, dense_limit):
        make_hashed(memory, rows=1024)


def make_room(memory: Memory, base: int, *, dense_limit: int) -> None:
    """Give the cells room for more leaves (dense) or more rows (hashed), keeping what they hold."""
    if memory["clock"][HASHED]:
        _rehash(memory)
        return
    old = [memory[name] for name in ("offsets", "strides", "cells", "counts", "sums")]
    leaves, caps = memory["features"][LEAVES::4], memory["caps"]
    slots = _leaves_by_slot(memory)
    roomy = leaves + base - 1 <= caps
    if not _make_dense(memory, np.where(roomy, caps, np.maximum(2 * caps, leaves + base - 1)), dense_limit):
        counts = old[3].reshape(-1, memory["shape"][ACTIONS])
        make_hashed(memory, rows=int(np.count_nonzero(counts.any(axis=1))) + 1024)
    move_dense(memory.book, *slots, *old)


def add_action(memory: Memory) -> None:
    """Widen every cell by one action that has no observations. ``shape[ACTIONS]`` still tells the old number."""
    actions = int(memory["shape"][ACTIONS])
    rows = len(memory["counts"]) // actions
    cells = memory["cells"][: rows * (1 + actions)].reshape(rows, 1 + actions)
    wide = np.zeros(rows * (2 + actions) + MAX_WIDTH)
    wide[: rows * (2 + actions)].reshape(rows, 2 + actions)[:, 1:-1] = cells[:, 1:]  # the least count is now 0
    memory["cells"] = wide
    for name in ("counts", "sums"):
        old = memory[name].reshape(rows, actions)
        memory[name] = np.concatenate([old, np.zeros((rows, 1), dtype=old.dtype)], axis=1)


def remove_action(memory: Memory, action: int) -> None:
    """Take one action out of every cell. ``shape[ACTIONS]`` still tells the old number."""
    actions = int(memory["shape"][ACTIONS])
    rows = len(memory["counts"]) // actions
    cells = memory["cells"][: rows * (1 + actions)].reshape(rows, 1 + actions)
    for name in ("counts", "sums"):
        memory[name] = np.delete(memory[name].reshape(rows, actions), action, axis=1)
    narrow = np.zeros(rows * actions + MAX_WIDTH)
    kept = narrow[: rows * actions].reshape(rows, actions)
    kept[:, 0] = memory["counts"].reshape(rows, actions - 1).min(axis=1)  # the least count of those that stay
    kept[:, 1:] = np.delete(cells[:, 1:], action, axis=1)
    memory["cells"] = narrow


def _make_dense(memory: Memory, caps: Array, limit: int) -> bool:
    """Empty tables with room for ``caps`` leaves of each feature; False when they would exceed the limit."""
    total = dense_rows(memory, caps)
    if total * int(memory["shape"][ACTIONS]) * _BYTES > limit:
        return False
    lay_out(memory, caps)
    _make_rows(memory, int(total))
    memory["clock"][ROWS] = int(total)
    return True


def dense_rows(memory: Memory, caps: Array) -> float:
    """How many rows dense tables with room for ``caps`` leaves of each feature have."""
    tuples = memory["tuples"].reshape(-1, memory["shape"][TUPLE_SIZE])
    return float(np.prod(caps[tuples].astype(float), axis=1).sum())


def lay_out(memory: Memory, caps: Array) -> None:
    """Set the first row and the strides of each tuple's table.

    The tables of all tuples with the same first feature are interleaved: for one slot of that feature they stand side
    by side. So the cells of one context lie close together, and large numbers of features stay fast.
    """
    tuples = memory["tuples"].reshape(-1, memory["shape"][TUPLE_SIZE])
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
    memory["caps"], memory["offsets"], memory["strides"] = caps, offsets, strides


def make_hashed(memory: Memory, rows: int) -> None:
    """Empty hashed cells with room for so many rows."""
    rows += int(memory["shape"][TUPLES])  # one reward may need a row for each tuple
    _make_rows(memory, rows)
    memory["keys"] = np.zeros(rows * int(memory["shape"][TUPLE_SIZE]), dtype=np.int32)
    memory["table"] = np.zeros(2 ** math.ceil(math.log2(2 * rows)), dtype=np.int64)
    memory["clock"][HASHED] = 1
    memory["clock"][ROWS] = 1


def _make_rows(memory: Memory, rows: int) -> None:
    actions = int(memory["shape"][ACTIONS])
    memory["cells"] = np.zeros(rows * (1 + actions) + MAX_WIDTH)  # lanes may read past the last row
    memory["counts"] = np.zeros(rows * actions, dtype=np.int32)
    memory["sums"] = np.zeros(rows * actions)


def _rehash(memory: Memory) -> None:
    """Copy the rows whose leaves still exist into a larger table."""
    old = [memory[name] for name in ("keys", "cells", "counts", "sums")]
    used = int(memory["clock"][ROWS])
    make_hashed(memory, rows=2 * count_alive(memory.book, old[0], used) + 1024)
    move_hashed(memory.book, used, *old)


def _leaves_by_slot(memory: Memory) -> tuple[Array, Array]:
    """For each feature the leaf in each slot: one flat list, and where each feature's part begins (and the end)."""
    parts = []
    for feature in range(int(memory["shape"][FEATURES])):
        nodes = np.array(leaves_of(memory, feature, int(memory["shape"][BASE])), dtype=np.int64)
        parts.append(nodes[np.argsort(memory["slot"][nodes])])
    starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return np.concatenate(parts), starts


# --- finding rows -----------------------------------------------------------------------------------------


@inner
def dense_row(m, tuple_index, size, leaf):
    """The row of a tuple's cell."""
    row = m.offsets[tuple_index]
    for k in range(size):
        place = tuple_index * size + k
        row += m.slot[leaf[m.tuples[place]]] * m.strides[place]
    return row


_SEED = np.uint64(0x9E3779B97F4A7C15)


@inner
def _mix(mixed, leaf):
    mixed = (mixed ^ np.uint64(leaf)) * np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(29))


@inner
def _first_place(m, tuple_index, size, leaf):
    """The place in the hash table where the search for a tuple's cell begins."""
    mixed = _SEED
    for k in range(size):
        mixed = _mix(mixed, leaf[m.tuples[tuple_index * size + k]])
    return np.int64(mixed & np.uint64(m.lengths[TABLE] - 1))


@inner
def hashed_place(m, tuple_index, size, leaf):
    """The place of a tuple's cell in the hash table, or the empty place where it would go.

    The leaves alone are the key: node ids are unique over all features, so they tell the tuple too.
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


@inner
def find_rows(m, size, leaf):
    """Fill ``rows`` with the cells of Q_t; a hashed cell that doesn't exist is the empty row 0."""
    if m.clock[HASHED]:
        for p in range(m.shape[TUPLES]):
            m.rows[p] = m.table[hashed_place(m, p, size, leaf)]
    else:
        for p in range(m.shape[TUPLES]):
            m.rows[p] = dense_row(m, p, size, leaf)


@inner
def rows_lacking(m):
    """Whether hashed cells might not have room for one more reward."""
    return m.clock[HASHED] == 1 and (m.clock[ROWS] + m.shape[TUPLES]) * m.shape[ACTIONS] > m.lengths[COUNTS]


@inner
def claim_rows(m, size, leaf):
    """Like ``find_rows``, and make the hashed cells that don't exist yet."""
    if m.clock[HASHED]:
        for p in range(m.shape[TUPLES]):
            place = hashed_place(m, p, size, leaf)
            if m.table[place] == 0:
                _enter(m, place, p, size, leaf)
            m.rows[p] = m.table[place]
    else:
        find_rows(m, size, leaf)


@inner
def _enter(m, place, tuple_index, size, leaf):
    row = m.clock[ROWS]
    m.clock[ROWS] += 1
    m.table[place] = row
    for k in range(size):
        m.keys[row * size + k] = leaf[m.tuples[tuple_index * size + k]]


@inner
def observe(m, action, reward, width):
    """Let the cells in ``rows`` take in one reward of an action."""
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
        # few actions: faster counted than asked; more: only where this one was among the least observed
        if len(width) <= FEW:
            _count_least(m, cell, here, len(width))
        elif m.cells[cell] == count - 1:
            _count_least(m, cell, here, actions)


@inner
def _count_least(m, cell, here, actions):
    least = m.counts[here]
    for other in range(1, actions):
        count = m.counts[here + other]
        least = count if count < least else least
    m.cells[cell] = least


@outlined
def forget_slot(m, feature, slot):
    """Empty all dense cells that the leaf in this slot is part of."""
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


@inner
def _copy_row(m, cells, counts, sums, source, row):
    """Copy a row of other arrays to a row of the model."""
    actions = m.shape[ACTIONS]
    for k in range(1 + actions):
        m.cells[row * (1 + actions) + k] = cells[source * (1 + actions) + k]
    for k in range(actions):
        m.counts[row * actions + k] = counts[source * actions + k]
        m.sums[row * actions + k] = sums[source * actions + k]


@door
def move_dense(book, leaves, starts, offsets, strides, cells, counts, sums):
    """Copy what was observed from other dense tables into the model's cells, dense or hashed."""
    m = view(book)
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


@inner
def _alive(m, keys, row, size):
    alive = True
    for k in range(size):
        alive &= m.child[keys[row * size + k]] < 0
    return alive


@door
def count_alive(book, keys, used):
    """How many hashed rows belong to leaves that have not split."""
    m = view(book)
    alive = 0
    for row in range(1, used):
        alive += _alive(m, keys, row, m.shape[TUPLE_SIZE])
    return alive


@door
def move_hashed(book, used, keys, cells, counts, sums):
    """Copy the hashed rows of leaves that have not split into the model's empty table."""
    m = view(book)
    size = m.shape[TUPLE_SIZE]
    for row in range(1, used):
        if not _alive(m, keys, row, size):
            continue
        new = m.clock[ROWS]
        m.clock[ROWS] += 1
        place = _place_of_key(m, keys, row, size)
        m.table[place] = new
        for k in range(size):
            m.keys[new * size + k] = keys[row * size + k]
        _copy_row(m, cells, counts, sums, row, new)


@inner
def _place_of_key(m, keys, row, size):
    """An empty place for a key that is known not to be in the table."""
    mixed = _SEED
    for k in range(size):
        mixed = _mix(mixed, keys[row * size + k])
    place = np.int64(mixed & np.uint64(m.lengths[TABLE] - 1))
    while m.table[place] != 0:
        place = (place + 1) & (m.lengths[TABLE] - 1)
    return place
