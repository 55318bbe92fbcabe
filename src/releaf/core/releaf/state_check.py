"""Consistency check of a loaded state, since kernels check no bounds.

A file's checksum proves that the file is unaltered, not that releaf wrote it.
"""

from __future__ import annotations

import numpy as np

from releaf.core.releaf.model import (
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
    Array,
    StateArrays,
)
from releaf.core.releaf.partition import NODE_FIELDS, leaves_of
from releaf.core.releaf.vector_lanes import MAX_WIDTH


def check_state(arrays: StateArrays, categories: tuple[int, ...], dense_rows: float) -> None:
    """Raise a ValueError unless the arrays' lengths agree and every index is in range.

    ``dense_rows`` is the number of rows that the caps of the dense tables imply.
    """
    actions, features = int(arrays["shape"][ACTIONS]), int(arrays["shape"][FEATURES])
    clock = arrays["clock"]
    _require(len(clock) == CLOCK_LENGTH, "counters")
    _require(0 <= clock[HASHED] <= 1 and 0 <= clock[PENDING] <= 1 and bool((clock[:ROWS] >= 0).all()), "counters")
    _require(len(arrays["relevance"]) == actions * features, "tallies of relevance")
    _require_partitions(arrays, np.array(categories))
    rows = len(arrays["counts"]) // actions
    fits = len(arrays["counts"]) == len(arrays["sums"]) == rows * actions
    fits = fits and len(arrays["cells"]) == rows * (1 + actions) + MAX_WIDTH
    _require(fits and 1 <= clock[ROWS] <= rows, "cells")
    _require(bool(np.isfinite(arrays["cells"]).all() and np.isfinite(arrays["sums"]).all()), "cells")
    _require(bool((arrays["counts"] >= 0).all()), "counts")
    if clock[HASHED]:
        _require_hash(arrays, rows)
    else:
        _require(rows == dense_rows, "dense tables")
        _require_slots(arrays)


def _require_partitions(arrays: StateArrays, categories: Array) -> None:
    shape, nodes = arrays["shape"], int(arrays["clock"][NODES])
    features, base, top = int(shape[FEATURES]), int(shape[BASE]), int(shape[TOP_LEVEL])
    _require(all(len(arrays[field]) == nodes for field in NODE_FIELDS), "nodes")
    _require(len(arrays["features"]) == 4 * features and len(arrays["leaf"]) == features, "features")
    _require(len(arrays["grid"]) == features * shape[GRID], "grid")
    info = arrays["features"].reshape(features, 4)
    _require(np.array_equal(info[:, CATEGORIES], categories), "categories")
    _require_within(info[:, FIRST], 0, nodes - np.maximum(categories, 1), "first nodes")
    _require_within(info[:, MISSING], -1, nodes - 1, "nodes of missing values")
    _require_within(arrays["grid"], 0, nodes - 1, "grid")
    _require_within(arrays["leaf"], 0, nodes - 1, "latest leaves")
    _require_within(arrays["level"], 0, top, "levels")
    parents = np.flatnonzero(arrays["child"] >= 0)
    _require_within(arrays["level"][parents], 0, top - 1, "levels")
    _require_within(arrays["child"][parents], parents + 1, nodes - base, "children")  # later ones: no cycles
    splittable = arrays["level"] < top
    _require_within(arrays["rank"][splittable], 0, float(base) ** arrays["level"][splittable] - 1, "ranks")
    _require_within(arrays["rank"], -1, np.maximum(categories.max(), float(base) ** top), "ranks")
    for field in ("size", "weight"):
        _require(bool(np.isfinite(arrays[field]).all() and (arrays[field] > 0).all()), f"{field}s")
    for field in ("arrivals", "born", "relevance", "added_at"):
        _require(bool((arrays[field] >= 0).all()), field)
    roots = info[categories == 0, FIRST]
    _require(bool((roots + float(base) ** arrays["level"][roots] <= nodes).all()), "first nodes")


def _require_slots(arrays: StateArrays) -> None:
    leaves, caps = arrays["features"][LEAVES::4], arrays["caps"]
    _require_within(leaves, 1, caps, "leaves")
    for feature in range(int(arrays["shape"][FEATURES])):
        slots = arrays["slot"][leaves_of(arrays, feature, int(arrays["shape"][BASE]))]
        _require(len(slots) == leaves[feature] == len(np.unique(slots)), "slots")
        _require_within(slots, 0, leaves[feature] - 1, "slots")


def _require_hash(arrays: StateArrays, rows: int) -> None:
    table, used = arrays["table"], int(arrays["clock"][ROWS])
    _require(len(table) >= 2 and len(table) & (len(table) - 1) == 0, "hash table")
    _require_within(table, 0, used - 1, "hash table")
    _require(
        int(np.count_nonzero(table)) + int(arrays["shape"][TUPLES]) < len(table), "hash table"
    )  # so that probing ends
    _require(len(arrays["keys"]) == rows * arrays["shape"][TUPLE_SIZE], "keys")
    _require_within(arrays["keys"], 0, arrays["clock"][NODES] - 1, "keys")


def _require_within(values: Array, low: float | Array, high: float | Array, what: str) -> None:
    _require(bool(np.all((values >= low) & (values <= high))), what)


def _require(fact: bool | np.bool_, what: str) -> None:
    if not fact:
        raise ValueError(f"its {what} contradict the rest")
