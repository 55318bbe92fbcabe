"""Whether a state that comes from a file can be handed to kernels, which check no bounds.

A file's checksum tells that it is as it was written, not that a releaf wrote it.
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
    Memory,
)
from releaf.core.releaf.partition import NODE_FIELDS, leaves_of
from releaf.core.releaf.vector_lanes import MAX_WIDTH


def require_sound(memory: Memory, categories: tuple[int, ...], dense_rows: float) -> None:
    """Raise a ValueError unless all arrays fit one another and every number that leads to another is in range.

    ``dense_rows`` is how many rows the dense tables should have, by their caps.
    """
    actions, features = int(memory["shape"][ACTIONS]), int(memory["shape"][FEATURES])
    clock = memory["clock"]
    _require(len(clock) == CLOCK_LENGTH, "counters")
    _require(0 <= clock[HASHED] <= 1 and 0 <= clock[PENDING] <= 1 and bool((clock[:ROWS] >= 0).all()), "counters")
    _require(len(memory["relevance"]) == actions * features, "tallies of relevance")
    _require_partitions(memory, np.array(categories))
    rows = len(memory["counts"]) // actions
    fits = len(memory["counts"]) == len(memory["sums"]) == rows * actions
    fits = fits and len(memory["cells"]) == rows * (1 + actions) + MAX_WIDTH
    _require(fits and 1 <= clock[ROWS] <= rows, "cells")
    _require(bool(np.isfinite(memory["cells"]).all() and np.isfinite(memory["sums"]).all()), "cells")
    _require(bool((memory["counts"] >= 0).all()), "counts")
    if clock[HASHED]:
        _require_hash(memory, rows)
    else:
        _require(rows == dense_rows, "dense tables")
        _require_slots(memory)


def _require_partitions(memory: Memory, categories: Array) -> None:
    shape, nodes = memory["shape"], int(memory["clock"][NODES])
    features, base, top = int(shape[FEATURES]), int(shape[BASE]), int(shape[TOP_LEVEL])
    _require(all(len(memory[field]) == nodes for field in NODE_FIELDS), "nodes")
    _require(len(memory["features"]) == 4 * features and len(memory["leaf"]) == features, "features")
    _require(len(memory["grid"]) == features * shape[GRID], "grid")
    info = memory["features"].reshape(features, 4)
    _require(np.array_equal(info[:, CATEGORIES], categories), "categories")
    _require_within(info[:, FIRST], 0, nodes - np.maximum(categories, 1), "first nodes")
    _require_within(info[:, MISSING], -1, nodes - 1, "nodes of missing values")
    _require_within(memory["grid"], 0, nodes - 1, "grid")
    _require_within(memory["leaf"], 0, nodes - 1, "latest leaves")
    _require_within(memory["level"], 0, top, "levels")
    parents = np.flatnonzero(memory["child"] >= 0)
    _require_within(memory["level"][parents], 0, top - 1, "levels")
    _require_within(memory["child"][parents], parents + 1, nodes - base, "children")  # later ones: no circles
    splittable = memory["level"] < top
    _require_within(memory["rank"][splittable], 0, float(base) ** memory["level"][splittable] - 1, "ranks")
    _require_within(memory["rank"], -1, np.maximum(categories.max(), float(base) ** top), "ranks")
    for field in ("size", "weight"):
        _require(bool(np.isfinite(memory[field]).all() and (memory[field] > 0).all()), f"{field}s")
    for field in ("arrivals", "born", "relevance", "added_at"):
        _require(bool((memory[field] >= 0).all()), field)
    roots = info[categories == 0, FIRST]
    _require(bool((roots + float(base) ** memory["level"][roots] <= nodes).all()), "first nodes")


def _require_slots(memory: Memory) -> None:
    leaves, caps = memory["features"][LEAVES::4], memory["caps"]
    _require_within(leaves, 1, caps, "leaves")
    for feature in range(int(memory["shape"][FEATURES])):
        slots = memory["slot"][leaves_of(memory, feature, int(memory["shape"][BASE]))]
        _require(len(slots) == leaves[feature] == len(np.unique(slots)), "slots")
        _require_within(slots, 0, leaves[feature] - 1, "slots")


def _require_hash(memory: Memory, rows: int) -> None:
    table, used = memory["table"], int(memory["clock"][ROWS])
    _require(len(table) >= 2 and len(table) & (len(table) - 1) == 0, "hash table")
    _require_within(table, 0, used - 1, "hash table")
    _require(int(np.count_nonzero(table)) + int(memory["shape"][TUPLES]) < len(table), "hash table")  # searches end
    _require(len(memory["keys"]) == rows * memory["shape"][TUPLE_SIZE], "keys")
    _require_within(memory["keys"], 0, memory["clock"][NODES] - 1, "keys")


def _require_within(values: Array, low: float | Array, high: float | Array, what: str) -> None:
    _require(bool(np.all((values >= low) & (values <= high))), what)


def _require(fact: bool | np.bool_, what: str) -> None:
    if not fact:
        raise ValueError(f"its {what} contradict the rest")
