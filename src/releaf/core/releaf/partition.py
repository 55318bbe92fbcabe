"""Adaptive partition of each feature: locate a value, count its arrival, split an interval.

Intervals are (a, b], the one that holds 0 is [0, b]. The children of interval k of level l are the
intervals base·k … base·k + base - 1 of level l + 1; borders are the quotients k / base**l, rounded once,
so that a border has the same value seen from every level.

A grid gives the nodes of the first levels, descending from them the rest. The categories of a categorical feature, and
missing values, are nodes of the top level, which never split.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.arrays import Array
from releaf.core.releaf.state import (
    BASE,
    CATEGORIES,
    FEATURES,
    FIRST,
    GRID,
    LEAVES,
    MISSING,
    NODES,
    TIME,
    ReleafState,
)
from releaf.core.runtime.jit import inlined, outlined

NODE_FIELDS = ("level", "rank", "child", "slot", "arrivals", "born", "size", "weight")
MISSING_VALUE = -1.0
MISSING_SIZE = 0.5  # "missing or not" splits a feature in two


def top_level(base: int) -> int:
    """Finest level whose intervals float64 can distinguish; it never splits."""
    return int(52 // math.log2(base))


def grid_cells(base: int, start_level: int) -> int:
    """Number of bins of the look-up grid: a power of base near 64, and at least the intervals of the start level."""
    return int(base ** max(1, start_level, math.floor(math.log(64, base) + 1e-9)))


def build(state: ReleafState, categories: Array, missing: Array, base: int, start_level: int) -> None:
    """Build the initial partition: all intervals of the start level, or one node for each category."""
    features = len(categories)
    grid = grid_cells(base, start_level)
    leaves = np.where(categories > 0, categories, base**start_level)
    total = int(leaves.sum() + missing.sum())
    nodes = {field: np.zeros(total, dtype=np.int64) for field in NODE_FIELDS}
    sizes = np.ones(total)
    info = np.zeros((features, 4), dtype=np.int64)
    table = np.zeros((features, grid), dtype=np.int32)
    position = 0
    for feature in range(features):
        count = int(leaves[feature])
        here = slice(position, position + count)
        nodes["rank"][here] = nodes["slot"][here] = np.arange(count)
        fixed = categories[feature] > 0
        nodes["level"][here] = top_level(base) if fixed else start_level
        sizes[here] = 1.0 / count
        info[feature] = categories[feature], position, -1, count
        if not fixed:
            table[feature] = position + np.arange(grid) * count // grid
        position += count
        if missing[feature]:
            nodes["level"][position] = top_level(base)
            nodes["slot"][position] = count
            nodes["rank"][position] = -1
            sizes[position] = MISSING_SIZE
            info[feature, MISSING] = position
            info[feature, LEAVES] = count + 1
            position += 1
    nodes["child"][:] = -1
    for field in NODE_FIELDS[:-2]:
        setattr(state, field, nodes[field])
    state.size, state.weight = sizes, 1.0 / (sizes * sizes)
    state.features, state.grid = info, table
    state.edges = np.arange(grid + 1) / grid
    state.clock[NODES] = total


def grow(state: ReleafState) -> None:
    """Double the capacity for nodes."""
    for field in NODE_FIELDS:
        old = getattr(state, field)
        setattr(state, field, np.concatenate([old, np.zeros(max(len(old), 64), dtype=old.dtype)]))


@inlined
def locate(m, context, leaf):
    """Find the leaf of each feature that holds the context's value."""
    cells = m.shape[GRID]
    for i in range(m.shape[FEATURES]):
        value = context[i]
        categories = m.features[4 * i + CATEGORIES]
        if value < 0.0:
            node = m.features[4 * i + MISSING]
        elif categories > 0:
            node = m.features[4 * i + FIRST] + np.int64(value * categories)
        else:
            k = max(np.int64(math.ceil(value * cells)) - np.int64(1), np.int64(0))
            # value * cells is rounded: step to the neighbour where the border says so
            k += np.int64(value > m.edges[k + 1])
            k -= np.int64((k > 0) & (value <= m.edges[k]))
            node = np.int64(m.grid[i * cells + k])
            if m.child[node] >= 0:
                node = descend(m, node, value)
        leaf[i] = node


@outlined
def descend(m, node, value):
    """Descend from a split node to the leaf that holds the value."""
    base = m.shape[BASE]
    while m.child[node] >= 0:
        scale = m.scale[m.level[node] + 1]
        first = m.rank[node] * base
        step = 0
        while step < base - 1 and value > (first + step + 1) / scale:
            step += 1
        node = m.child[node] + step
    return node


@outlined
def split(m, feature, node):
    """Replace a leaf by ``base`` children without observations. The first one takes over its slot."""
    base = m.shape[BASE]
    level = m.level[node] + 1
    first = m.clock[NODES]
    m.clock[NODES] += base
    m.child[node] = first
    for step in range(base):
        new = first + step
        m.level[new] = level
        m.rank[new] = m.rank[node] * base + step
        m.child[new] = -1
        m.arrivals[new] = 0
        m.born[new] = m.clock[TIME]
        m.size[new] = 1.0 / m.scale[level]
        m.weight[new] = m.scale[level] * m.scale[level]
        m.slot[new] = m.slot[node] if step == 0 else m.features[4 * feature + LEAVES]
        m.features[4 * feature + LEAVES] += step > 0
        _enter_in_grid(m, feature, new)


@inlined
def _enter_in_grid(m, feature, node):
    cells = m.shape[GRID]
    if m.scale[m.level[node]] > cells:  # finer than the grid: found by descending
        return
    span = cells // np.int64(m.scale[m.level[node]])
    for k in range(span * m.rank[node], span * (m.rank[node] + 1)):
        m.grid[feature * cells + k] = node


@inlined
def check(m, context):
    """First feature whose value is neither in [0, 1] nor an allowed missing value; -1 if there is none."""
    for i in range(m.shape[FEATURES]):
        value = context[i]
        if not (value >= 0.0 and value <= 1.0):
            if value == MISSING_VALUE and m.features[4 * i + MISSING] >= 0:
                continue
            return i
    return -1


def leaf_then(state: ReleafState, feature: int, value: float, base: int, step: int) -> int:
    """Node that was the leaf of a value at decision ``step``; it may have split since."""
    info = state.features[4 * feature : 4 * feature + 4]
    if value < 0:
        return int(info[MISSING])
    if info[CATEGORIES]:
        return int(info[FIRST] + int(value * info[CATEGORIES]))
    starting = state.scale[state.level[info[FIRST]]]
    node = int(info[FIRST]) + max(0, int(np.searchsorted(np.arange(1, starting + 1) / starting, value)))
    while state.child[node] >= 0 and state.born[state.child[node]] < step:
        first = state.child[node]
        borders = (state.rank[first] + 1 + np.arange(base - 1)) / state.scale[state.level[first]]
        node = int(first + np.searchsorted(borders, value))
    return node


def leaves_of(state: ReleafState, feature: int, base: int) -> list[int]:
    """Leaves of a feature from low to high, the leaf of missing values last."""
    info = state.features[4 * feature : 4 * feature + 4]
    if info[CATEGORIES]:
        nodes = list(range(int(info[FIRST]), int(info[FIRST] + info[CATEGORIES])))
    else:
        roots = int(state.scale[state.level[info[FIRST]]])
        to_visit = list(range(int(info[FIRST]) + roots - 1, int(info[FIRST]) - 1, -1))
        nodes = []
        while to_visit:
            node = to_visit.pop()
            first = int(state.child[node])
            if first < 0:
                nodes.append(node)
            else:
                to_visit.extend(range(first + base - 1, first - 1, -1))
    return [*nodes, int(info[MISSING])] if info[MISSING] >= 0 else nodes
