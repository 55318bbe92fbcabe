"""Consistency check of a loaded state, since kernels check no bounds.

A file's checksum proves that the file is unaltered, not that releaf wrote it.
"""

from __future__ import annotations

import numpy as np

from releaf.arrays import Array
from releaf.core.releaf.partition import NODE_FIELDS, leaves_of
from releaf.core.releaf.state import (
    ACTIONS,
    BASE,
    CATEGORIES,
    CLOCK_LENGTH,
    FEATURES,
    FIRST,
    GRID,
    HASHED,
    LEAVES,
    MISSING,
    NODES,
    PENDING,
    ROWS,
    TOP_LEVEL,
    TUPLE_SIZE,
    TUPLES,
    ReleafState,
)


def check_state(state: ReleafState, categories: tuple[int, ...], dense_rows: float) -> None:
    """Raise a ValueError unless the arrays' lengths agree and every index is in range.

    ``dense_rows`` is the number of rows that the caps of the dense tables imply.
    """
    actions, features = int(state.shape[ACTIONS]), int(state.shape[FEATURES])
    clock = state.clock
    _require(len(clock) == CLOCK_LENGTH, "counters")
    _require(0 <= clock[HASHED] <= 1 and 0 <= clock[PENDING] <= 1 and bool((clock[:ROWS] >= 0).all()), "counters")
    _require(len(state.relevance) == actions * features, "tallies of relevance")
    _require_partitions(state, np.array(categories))
    if clock[PENDING]:
        base = int(state.shape[BASE])
        _require(all(state.leaf[i] in leaves_of(state, i, base) for i in range(features)), "latest leaves")
    rows = len(state.counts) // actions
    fits = len(state.counts) == len(state.sums) == rows * actions
    fits = fits and len(state.cells) == rows * (1 + actions)
    _require(fits and 1 <= clock[ROWS] <= rows, "cells")
    _require(bool(np.isfinite(state.cells).all() and np.isfinite(state.sums).all()), "cells")
    _require(bool((state.counts >= 0).all()), "counts")
    if clock[HASHED]:
        _require_hash(state, rows)
    else:
        _require(rows == dense_rows, "dense tables")
        _require_slots(state)


def _require_partitions(state: ReleafState, categories: Array) -> None:
    shape, nodes = state.shape, int(state.clock[NODES])
    features, base, top = int(shape[FEATURES]), int(shape[BASE]), int(shape[TOP_LEVEL])
    _require(all(len(getattr(state, field)) == nodes for field in NODE_FIELDS), "nodes")
    _require(len(state.features) == 4 * features and len(state.leaf) == features, "features")
    _require(len(state.grid) == features * shape[GRID], "grid")
    info = state.features.reshape(features, 4)
    _require(np.array_equal(info[:, CATEGORIES], categories), "categories")
    _require_within(info[:, FIRST], 0, nodes - np.maximum(categories, 1), "first nodes")
    _require_within(info[:, MISSING], -1, nodes - 1, "nodes of missing values")
    _require_within(state.grid, 0, nodes - 1, "grid")
    _require_within(state.leaf, 0, nodes - 1, "latest leaves")
    _require_within(state.level, 0, top, "levels")
    parents = np.flatnonzero(state.child >= 0)
    _require_within(state.level[parents], 0, top - 1, "levels")
    _require_within(state.child[parents], parents + 1, nodes - base, "children")  # later ones: no cycles
    splittable = state.level < top
    _require_within(state.rank[splittable], 0, float(base) ** state.level[splittable] - 1, "ranks")
    _require_within(state.rank, -1, np.maximum(categories.max(), float(base) ** top), "ranks")
    for field in ("size", "weight"):
        _require(bool(np.isfinite(getattr(state, field)).all() and (getattr(state, field) > 0).all()), f"{field}s")
    for field in ("arrivals", "born", "relevance", "added_at"):
        _require(bool((getattr(state, field) >= 0).all()), field)
    roots = info[categories == 0, FIRST]
    _require(bool((roots + float(base) ** state.level[roots] <= nodes).all()), "first nodes")


def _require_slots(state: ReleafState) -> None:
    leaves, caps = state.features[LEAVES::4], state.caps
    _require_within(leaves, 1, caps, "leaves")
    for feature in range(int(state.shape[FEATURES])):
        slots = state.slot[leaves_of(state, feature, int(state.shape[BASE]))]
        _require(len(slots) == leaves[feature] == len(np.unique(slots)), "slots")
        _require_within(slots, 0, leaves[feature] - 1, "slots")


def _require_hash(state: ReleafState, rows: int) -> None:
    table, used = state.table, int(state.clock[ROWS])
    _require(len(table) >= 2 and len(table) & (len(table) - 1) == 0, "hash table")
    _require_within(table, 0, used - 1, "hash table")
    _require(int(np.count_nonzero(table)) + int(state.shape[TUPLES]) < len(table), "hash table")  # so that probing ends
    _require(len(state.keys) == rows * state.shape[TUPLE_SIZE], "keys")
    _require_within(state.keys, 0, state.clock[NODES] - 1, "keys")


def _require_within(values: Array, low: float | Array, high: float | Array, what: str) -> None:
    _require(bool(np.all((values >= low) & (values <= high))), what)


def _require(fact: bool | np.bool_, what: str) -> None:
    if not fact:
        raise ValueError(f"its {what} contradict the rest")
