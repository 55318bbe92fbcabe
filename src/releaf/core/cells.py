"""Where the rewards of each hypercube of intervals are kept, densely while that is small and hashed beyond.

Dense: every tuple of features has a table with one row for each combination of its features' leaves, found
by arithmetic. Hashed: only rows that were ever observed exist, found by their leaves; row 0 stands for all
others and stays empty. Memory then follows the cells that were visited, never the product of all intervals.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.core.jit import door, inner, outlined
from releaf.core.lanes import MAX_WIDTH
from releaf.core.model import (
    ACTIONS,
    BASE,
    CELLS,
    FEATURES,
    HASHED,
    LEAVES,
    ROWS,
    TABLE,
    TUPLE_SIZE,
    TUPLES,
    Array,
    Memory,
    view,
)
from releaf.core.partition import leaves_of

DENSE_LIMIT = 2**29  # bytes of dense tables beyond which cells are hashed
_BYTES = 24  # count, mean and sum of one action


def build(memory: Memory, *, dense_limit: int = DENSE_LIMIT) -> None:
    """Make empty cells for the leaves there are, with room for as many again."""
    leaves = memory["features"][LEAVES::4]
    memory["table"], memory["keys"] = np.zeros(0), np.zeros(0)
    memory["offsets"], memory["caps"] = np.zeros(memory["shape"][TUPLES]), np.zeros(len(leaves))
    if not _make_dense(memory, 2 * leaves, dense_limit):
        _make_hashed(memory, rows=1024)


def make_room(memory: Memory, base: int, *, dense_limit: int = DENSE_LIMIT) -> None:
    """Give the cells room for more leaves (dense) or more rows (hashed), keeping what they hold."""
    if memory["clock"][HASHED]:
        _rehash(memory)
        return
    old = {name: memory[name] for name in ("offsets", "caps", "cells", "sums")}
    leaves = memory["features"][LEAVES::4]
    roomy = leaves + base - 1 <= old["caps"]
    caps = np.where(roomy, old["caps"], np.maximum(2 * old["caps"], leaves + base - 1))
    if _make_dense(memory, caps, dense_limit):
        move_dense(memory.book, old["offsets"], old["caps"], old["cells"], old["sums"], memory["shape"][ACTIONS])
    else:
        _make_hashed(memory, rows=_visited(old["cells"], int(memory["shape"][ACTIONS])) + 1024)
        hash_dense(memory.book, *_leaves_by_slot(memory), old["offsets"], old["caps"], old["cells"], old["sums"])


def add_action(memory: Memory) -> None:
    """Widen every cell by one action that has no observations. ``shape[ACTIONS]`` still tells the old number."""
    actions = int(memory["shape"][ACTIONS])
    rows = (len(memory["cells"]) - MAX_WIDTH) // (2 * actions)
    cells = memory["cells"][: rows * 2 * actions].reshape(rows, 2, actions)
    wide = np.zeros(rows * 2 * (actions + 1) + MAX_WIDTH)
    wide[: rows * 2 * (actions + 1)].reshape(rows, 2, actions + 1)[:, :, :actions] = cells
    sums = np.zeros((rows, actions + 1))
    sums[:, :actions] = memory["sums"][: rows * actions].reshape(rows, actions)
    memory["cells"], memory["sums"] = wide, sums
    memory["offsets"] = memory["offsets"] // actions * (actions + 1)


def _make_dense(memory: Memory, caps: Array, limit: int) -> bool:
    """Empty tables with room for ``caps`` leaves of each feature; False when they would exceed the limit."""
    actions = int(memory["shape"][ACTIONS])
    tuples = memory["tuples"].reshape(-1, memory["shape"][TUPLE_SIZE])
    rows = np.prod(caps[tuples].astype(float), axis=1)
    if rows.sum() * actions * _BYTES > limit:
        return False
    starts = np.concatenate([[0], np.cumsum(rows[:-1])]).astype(np.int64)
    total = int(rows.sum())
    memory["caps"] = caps
    memory["offsets"] = starts * 2 * actions
    memory["cells"] = np.zeros(total * 2 * actions + MAX_WIDTH)  # lanes may read past the last row
    memory["sums"] = np.zeros(total * actions)
    memory["clock"][ROWS] = total
    return True


def _make_hashed(memory: Memory, rows: int) -> None:
    actions, size = int(memory["shape"][ACTIONS]), int(memory["shape"][TUPLE_SIZE])
    rows += int(memory["shape"][TUPLES])  # one reward may need a row for each tuple
    memory["cells"] = np.zeros(rows * 2 * actions + MAX_WIDTH)
    memory["sums"] = np.zeros(rows * actions)
    memory["keys"] = np.zeros(rows * size, dtype=np.int32)
    memory["table"] = np.zeros(2 ** math.ceil(math.log2(2 * rows)), dtype=np.int64)
    memory["clock"][HASHED] = 1
    memory["clock"][ROWS] = 1


def _rehash(memory: Memory) -> None:
    """Copy the rows whose leaves still exist into a larger table."""
    old = {name: memory[name] for name in ("keys", "cells", "sums")}
    used = int(memory["clock"][ROWS])
    alive = count_alive(memory.book, old["keys"], used)
    _make_hashed(memory, rows=2 * alive + 1024)
    move_hashed(memory.book, old["keys"], old["cells"], old["sums"], used)


def _visited(cells: Array, actions: int) -> int:
    rows = (len(cells) - MAX_WIDTH) // (2 * actions)
    counts = cells[: rows * 2 * actions].reshape(rows, 2, actions)[:, 0]
    return int(np.count_nonzero(counts.max(axis=1)))


def _leaves_by_slot(memory: Memory) -> tuple[Array, Array]:
    """For each feature the leaf in each slot: one flat list, and where each feature's part begins."""
    features = int(memory["shape"][FEATURES])
    parts = []
    for feature in range(features):
        nodes = np.array(leaves_of(memory, feature, int(memory["shape"][BASE])), dtype=np.int64)
        parts.append(nodes[np.argsort(memory["slot"][nodes])])
    starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])[:-1]]).astype(np.int64)
    return np.concatenate(parts), starts


# --- finding rows -----------------------------------------------------------------------------------------


@inner
def dense_row(m, tuple_index, size, leaf):
    """Where a tuple's cell begins in ``cells``."""
    row = np.int64(0)
    for k in range(size):
        feature = m.tuples[tuple_index * size + k]
        row = row * m.caps[feature] + m.slot[leaf[feature]]
    return m.offsets[tuple_index] + row * 2 * m.shape[ACTIONS]


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
def measure(m, leaf):
    """For each feature, how far its leaf's slot, and all its slots, reach in dense tables."""
    stride = 2 * m.shape[ACTIONS]
    for i in range(m.shape[FEATURES]):
        m.axis[i] = m.slot[leaf[i]] * stride
        m.pitch[i] = m.caps[i] * stride


@inner
def find_rows(m, size, leaf):
    """Fill ``rows`` with the cells of Q_t; a hashed cell that doesn't exist is the empty row 0."""
    if m.clock[HASHED]:
        for p in range(m.shape[TUPLES]):
            m.rows[p] = m.table[hashed_place(m, p, size, leaf)] * 2 * m.shape[ACTIONS]
    elif size == 2:
        _find_dense_pairs(m, leaf)
    else:
        for p in range(m.shape[TUPLES]):
            m.rows[p] = dense_row(m, p, size, leaf)


@inner
def _find_dense_pairs(m, leaf):
    measure(m, leaf)
    pair = 0
    for i in range(m.shape[FEATURES]):
        slot = m.slot[leaf[i]]
        for j in range(i + 1, m.shape[FEATURES]):
            m.rows[pair] = m.offsets[pair] + slot * m.pitch[j] + m.axis[j]
            pair += 1


@inner
def rows_lacking(m):
    """Whether hashed cells might not have room for one more reward."""
    return (
        m.clock[HASHED] == 1 and (m.clock[ROWS] + m.shape[TUPLES]) * 2 * m.shape[ACTIONS] > m.lengths[CELLS] - MAX_WIDTH
    )


@inner
def claim_rows(m, size, leaf):
    """Like ``find_rows``, and make the hashed cells that don't exist yet."""
    if m.clock[HASHED]:
        for p in range(m.shape[TUPLES]):
            place = hashed_place(m, p, size, leaf)
            if m.table[place] == 0:
                _enter(m, place, p, size, leaf)
            m.rows[p] = m.table[place] * 2 * m.shape[ACTIONS]
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
def observe(m, action, reward):
    """Let the cells in ``rows`` take in one reward of an action."""
    actions = m.shape[ACTIONS]
    for p in range(m.shape[TUPLES]):
        row = m.rows[p]
        total = m.sums[(row >> 1) + action] + reward
        count = m.cells[row + action] + 1.0
        m.sums[(row >> 1) + action] = total
        m.cells[row + action] = count
        m.cells[row + actions + action] = total / count


@outlined
def forget_slot(m, feature, slot):
    """Empty all dense cells that the leaf in this slot is part of."""
    size, actions = m.shape[TUPLE_SIZE], m.shape[ACTIONS]
    for p in range(m.shape[TUPLES]):
        before, after, found = 1, 1, False
        for k in range(size):
            other = m.tuples[p * size + k]
            if other == feature:
                found = True
            elif found:
                after *= m.caps[other]
            else:
                before *= m.caps[other]
        if not found:
            continue
        for outer in range(before):
            start = (outer * m.caps[feature] + slot) * after
            for k in range(2 * actions * after):
                m.cells[m.offsets[p] + start * 2 * actions + k] = 0.0
            for k in range(actions * after):
                m.sums[m.offsets[p] // 2 + start * actions + k] = 0.0


# --- moving rows ------------------------------------------------------------------------------------------


@inner
def _copy_row(m, cells, sums, source, row):
    """Copy the cell that begins at ``source`` in other arrays to the one that begins at ``row``."""
    for k in range(2 * m.shape[ACTIONS]):
        m.cells[row + k] = cells[source + k]
    for k in range(m.shape[ACTIONS]):
        m.sums[row // 2 + k] = sums[source // 2 + k]


@door
def move_dense(book, offsets, caps, cells, sums, actions):
    """Copy smaller dense tables into the larger ones of the model, row by row."""
    m = view(book)
    size = m.shape[TUPLE_SIZE]
    for p in range(m.shape[TUPLES]):
        rows = 1
        for k in range(size):
            rows *= caps[m.tuples[p * size + k]]
        for old in range(rows):
            rest, new, stride = old, 0, 1
            for k in range(size - 1, -1, -1):
                feature = m.tuples[p * size + k]
                new += rest % caps[feature] * stride
                rest //= caps[feature]
                stride *= m.caps[feature]
            _copy_row(m, cells, sums, offsets[p] + old * 2 * actions, m.offsets[p] + new * 2 * actions)


@door
def hash_dense(book, leaves, starts, offsets, caps, cells, sums):
    """Move what was observed from dense tables into the hashed cells of the model."""
    m = view(book)
    size, actions = m.shape[TUPLE_SIZE], m.shape[ACTIONS]
    for p in range(m.shape[TUPLES]):
        rows = 1
        for k in range(size):
            rows *= caps[m.tuples[p * size + k]]
        for old in range(rows):
            source = offsets[p] + old * 2 * actions
            seen = False
            for a in range(actions):
                seen |= cells[source + a] > 0.0
            if not seen:
                continue
            rest = old
            for k in range(size - 1, -1, -1):
                feature = m.tuples[p * size + k]
                m.spot[feature] = leaves[starts[feature] + rest % caps[feature]]
                rest //= caps[feature]
            place = hashed_place(m, p, size, m.spot)
            _enter(m, place, p, size, m.spot)
            _copy_row(m, cells, sums, source, m.table[place] * 2 * actions)


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
def move_hashed(book, keys, cells, sums, used):
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
        _copy_row(m, cells, sums, row * 2 * m.shape[ACTIONS], new * 2 * m.shape[ACTIONS])


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
