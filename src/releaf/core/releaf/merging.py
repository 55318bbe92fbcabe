"""What learners on adaptive partitions know, in a form that does not depend on how it came about, so that it adds up.

Two learners rarely have the same partitions. They are brought to the common refinement: an interval that one of them
has split is split in the sum as well. What the other one observed in the whole interval is left behind, which is what
the paper's rule does when an interval splits: its parts begin anew. So the sum of several learners is the same in
whatever order and groups they are added, and a learner that knows nothing adds nothing.

Rewards are multiples of 2⁻²⁶ (:data:`releaf.core.releaf.cells.GRAIN`), so that sums are exact up to 2²⁷, about 134
million rewards of 1 in one cell. Beyond that they are rounded to 53 bits, which no mean shows, but then the order of
adding may show in the last bit. A cell counts 2³¹ - 1 rewards of an action at most; one that has more is given that
many, with the mean of all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from releaf.core.releaf import cells, partition
from releaf.core.releaf.cells import GRAIN, MOST_COUNTED
from releaf.core.releaf.engine import Engine, Settings
from releaf.core.releaf.model import (
    ACTIONS,
    BASE,
    EXPLOITED,
    EXPLORED,
    FIRST,
    HASHED,
    LEAVES,
    MISSING,
    NODES,
    OBSERVED,
    PENDING,
    RANDOM,
    ROWS,
    TIME,
    TUPLE_SIZE,
    Array,
    Memory,
)
from releaf.core.releaf.vector_lanes import MAX_WIDTH
from releaf.core.runtime.random_generator import first_state


class Leaves(NamedTuple):
    """The intervals of a feature from low to high, in units of the finest level; that of missing values is last."""

    starts: Array
    widths: Array
    arrivals: Array


class Rows(NamedTuple):
    """Cells that were observed: which tuple of features, which interval of each of them, and what was seen there."""

    tuples: Array  # [R]
    places: Array  # [R, M] positions among the feature's leaves
    counts: Array  # [R, A]
    sums: Array  # [R, A]


class Knowledge(NamedTuple):
    """All that a learner knows."""

    leaves: tuple[Leaves, ...]
    rows: Rows
    relevance: Array  # [A, D]
    added_at: Array  # [A]
    clock: Array  # TIME, OBSERVED, EXPLORED, EXPLOITED
    drawn: np.uint64  # how far the generator has gone since the seed


# --- from an engine -----------------------------------------------------------------------------------------


def gather(engine: Engine, seed: int | None) -> Knowledge:
    """What an engine knows. The latest arrival, which is counted when the next comes, is counted.

    So an interval that it fills is split, as it would be then.
    """
    memory, actions = engine.memory, engine.actions
    arrivals = memory["arrivals"].copy()
    if memory["clock"][PENDING]:
        arrivals[memory["leaf"]] += 1
    nodes = [partition.leaves_of(memory, f, engine.settings.base) for f in range(len(engine.settings.categories))]
    clock = memory["clock"]
    with np.errstate(over="ignore"):
        drawn = clock[RANDOM].astype(np.uint64) - _begin(seed)
    known = Knowledge(
        tuple(_leaves(engine, feature, np.array(found), arrivals) for feature, found in enumerate(nodes)),
        _rows(memory, actions, nodes),
        memory["relevance"].reshape(actions, -1).copy(),
        memory["added_at"].copy(),
        clock[[TIME, OBSERVED, EXPLORED, EXPLOITED]].copy(),
        drawn,
    )
    full = arrivals[memory["leaf"]] >= memory["split_at"][memory["level"][memory["leaf"]]]
    if not (clock[PENDING] and full.any()):
        return known
    places = [found.index(leaf) for found, leaf in zip(nodes, memory["leaf"], strict=True)]
    return _split_full(known, places, full, engine.settings.base)


def _split_full(known: Knowledge, places: list[int], full: Array, base: int) -> Knowledge:
    """The same knowledge where one leaf of each feature, if it is full, has become its parts, which know nothing."""
    parts = []
    for leaves, place, splits in zip(known.leaves, places, full, strict=True):
        steps, width = np.arange(base if splits else 0), leaves.widths[place] // base
        parts.append(Leaves(leaves.starts[place] + width * steps, np.full(len(steps), width), np.zeros_like(steps)))
    no_rows = Rows(*(field[:0] for field in known.rows))
    relevance, added_at, clock = (np.zeros_like(field) for field in (known.relevance, known.added_at, known.clock))
    return combine(known, Knowledge(tuple(parts), no_rows, relevance, added_at, clock, np.uint64(0)))


def _begin(seed: int | None) -> np.uint64:
    return np.uint64(0) if seed is None else first_state(seed).astype(np.uint64)


def _leaves(engine: Engine, feature: int, nodes: Array, arrivals: Array) -> Leaves:
    memory, base = engine.memory, engine.settings.base
    ranks = memory["rank"][nodes]
    if engine.settings.categories[feature]:
        widths = np.ones(len(nodes), dtype=np.int64)
    else:
        widths = base ** (partition.top_level(base) - memory["level"][nodes])
    starts = ranks * widths
    if memory["features"][4 * feature + MISSING] >= 0:
        starts[-1], widths[-1] = 2 * base ** partition.top_level(base), 1  # after all others
    return Leaves(starts, widths, arrivals[nodes])


def _rows(memory: Memory, actions: int, nodes: list[list[int]]) -> Rows:
    tuples = memory["tuples"].reshape(-1, int(memory["shape"][TUPLE_SIZE]))
    counts, sums = memory["counts"].reshape(-1, actions), memory["sums"].reshape(-1, actions)
    place_of = np.full(int(memory["clock"][NODES]), -1)
    for found in nodes:
        place_of[found] = np.arange(len(found))
    if memory["clock"][HASHED]:
        used = np.arange(1, int(memory["clock"][ROWS]))
        keys = memory["keys"].reshape(-1, tuples.shape[1])[used]
        which = _tuple_of_keys(memory, tuples, keys)
        places = place_of[keys]
    else:
        which, places, used = _dense_rows(memory, tuples, nodes)
    seen = counts[used].any(axis=1) & (places >= 0).all(axis=1)
    return _sorted(Rows(which[seen], places[seen], counts[used][seen].astype(np.int64), sums[used][seen]))


def _tuple_of_keys(memory: Memory, tuples: Array, keys: Array) -> Array:
    """The tuple that a hashed row belongs to, from the features that its leaves are of."""
    features = len(memory["features"]) // 4
    owner = np.full(int(memory["clock"][NODES]), -1)
    for feature in range(features):
        first, missing = (int(memory["features"][4 * feature + field]) for field in (FIRST, MISSING))
        roots = int(memory["features"][4 * feature]) or int(memory["scale"][memory["level"][first]])
        owner[first : first + roots] = feature
        if missing >= 0:
            owner[missing] = feature
    for node in range(len(owner)):
        child = int(memory["child"][node])
        if child >= 0:
            owner[child : child + int(memory["shape"][BASE])] = owner[node]
    radix = features ** np.arange(tuples.shape[1])[::-1]
    numbers = tuples.astype(np.int64) @ radix
    found: Array = np.searchsorted(numbers, owner[keys] @ radix)  # tuples are in lexicographic order
    return found


def _dense_rows(memory: Memory, tuples: Array, nodes: list[list[int]]) -> tuple[Array, Array, Array]:
    strides = memory["strides"].reshape(tuples.shape)
    slots = [memory["slot"][found] for found in nodes]
    which, places, used = [], [], []
    for number, features in enumerate(tuples):
        grids = np.meshgrid(*(np.arange(len(slots[feature])) for feature in features), indexing="ij")
        place = np.stack([grid.ravel() for grid in grids], axis=1)
        row = np.full(len(place), memory["offsets"][number])
        for k, feature in enumerate(features):
            row += slots[feature][place[:, k]] * strides[number, k]
        which.append(np.full(len(place), number))
        places.append(place)
        used.append(row)
    return np.concatenate(which), np.concatenate(places), np.concatenate(used)


def _sorted(rows: Rows) -> Rows:
    order = np.lexsort([*rows.places.T[::-1], rows.tuples])
    return Rows(*(part[order] for part in rows))


# --- adding up ----------------------------------------------------------------------------------------------


def combine(one: Knowledge, other: Knowledge) -> Knowledge:
    """What both know together."""
    refined = tuple(_refine(a, b) for a, b in zip(one.leaves, other.leaves, strict=True))
    rows = [_moved(known.rows, known.leaves, refined, one.relevance.shape[1]) for known in (one, other)]
    with np.errstate(over="ignore"):
        drawn = one.drawn + other.drawn
    return Knowledge(
        refined,
        _added(rows),
        one.relevance + other.relevance,
        one.added_at + other.added_at,
        one.clock + other.clock,
        drawn,
    )


def _refine(one: Leaves, other: Leaves) -> Leaves:
    """All borders of both; arrivals of intervals that stay whole add up."""
    starts = np.unique(np.concatenate([one.starts, other.starts]))
    widths = np.full(len(starts), np.iinfo(np.int64).max)
    arrivals = np.zeros(len(starts), dtype=np.int64)
    for leaves in (one, other):
        np.minimum.at(widths, np.searchsorted(starts, leaves.starts), leaves.widths)
    for leaves in (one, other):
        places = np.searchsorted(starts, leaves.starts)
        whole = widths[places] == leaves.widths
        np.add.at(arrivals, places[whole], leaves.arrivals[whole])
    return Leaves(starts, widths, arrivals)


def _moved(rows: Rows, leaves: tuple[Leaves, ...], refined: tuple[Leaves, ...], features: int) -> Rows:
    """Cells by their places in the refinement; those of an interval that is split there are left behind."""
    tuples = _tuples(features, rows.places.shape[1])
    lookup = []
    for old, new in zip(leaves, refined, strict=True):
        places = np.searchsorted(new.starts, old.starts)
        lookup.append(np.where(new.widths[places] == old.widths, places, -1))
    moved = rows.places.copy()
    for feature in range(features):
        here = tuples[rows.tuples] == feature
        moved[here] = lookup[feature][rows.places[here]]
    whole = (moved >= 0).all(axis=1)
    return Rows(rows.tuples[whole], moved[whole], rows.counts[whole], rows.sums[whole])


def _tuples(features: int, size: int) -> Array:
    from releaf.core.releaf.tuples import enumerate_tuples

    return enumerate_tuples(features, size, 1).tuples


def _added(parts: list[Rows]) -> Rows:
    """Cells of the same place made one."""
    joined = _sorted(Rows(*(np.concatenate(fields) for fields in zip(*parts, strict=True))))
    if not len(joined.tuples):
        return joined
    differs = (np.diff(joined.tuples) != 0) | (np.diff(joined.places, axis=0) != 0).any(axis=1)
    firsts = np.concatenate([[0], np.flatnonzero(differs) + 1])
    counts, sums = (np.add.reduceat(part, firsts, axis=0) for part in (joined.counts, joined.sums))
    return Rows(joined.tuples[firsts], joined.places[firsts], counts, sums)


# --- to an engine -------------------------------------------------------------------------------------------


def assemble(settings: Settings, actions: int, seed: int | None, known: Knowledge) -> Engine:
    """An engine that knows this; the same, bit for bit, for the same knowledge."""
    engine = Engine(settings, actions, seed)
    memory = engine.memory.branch()
    nodes = _plant(memory, settings, known.leaves)
    _fill(memory, settings, _not_overfull(known.rows), nodes)
    memory["relevance"], memory["added_at"] = known.relevance, known.added_at
    clock = memory["clock"]
    clock[[TIME, OBSERVED, EXPLORED, EXPLOITED]] = known.clock
    with np.errstate(over="ignore"):
        clock[RANDOM] = (_begin(seed) + known.drawn).astype(np.int64)
    memory["leaf"] = memory["features"][FIRST::4]
    state = {field: memory[field] for field in engine.state()}
    engine.restore(state)
    return engine


def _not_overfull(rows: Rows) -> Rows:
    """Cells that have more rewards than can be counted have as many as can be, and the mean of all."""
    over = rows.counts > MOST_COUNTED
    if not over.any():
        return rows
    means = np.divide(rows.sums, rows.counts, out=np.zeros(over.shape), where=over)
    sums = np.where(over, np.floor(means * MOST_COUNTED / GRAIN + 0.5) * GRAIN, rows.sums)
    return rows._replace(counts=np.minimum(rows.counts, MOST_COUNTED), sums=sums)


def _plant(memory: Memory, settings: Settings, leaves: tuple[Leaves, ...]) -> list[Array]:
    """Grow the partitions from their first intervals to these leaves; the node of each leaf, for each feature."""
    base, top = settings.base, partition.top_level(settings.base)
    fields = {field: memory[field][: int(memory["clock"][NODES])].tolist() for field in partition.NODE_FIELDS}
    info, grown = memory["features"].reshape(-1, 4), []
    grid = memory["grid"].reshape(len(info), -1)
    for feature, wanted in enumerate(leaves):
        ends = {int(start): int(width) for start, width in zip(wanted.starts, wanted.widths, strict=True)}
        if not settings.categories[feature]:
            first = int(info[feature, FIRST])
            waiting = list(range(first, first + base**settings.start_level))
            for node in waiting:  # which grows meanwhile
                level, rank = fields["level"][node], fields["rank"][node]
                width = base ** (top - level)
                if ends[rank * width] < width:
                    waiting += _split(fields, grid[feature], node, base)
        grown.append(wanted)
    for field in partition.NODE_FIELDS:
        memory[field] = fields[field]
    memory["clock"][NODES] = len(fields["level"])
    found = [np.array(partition.leaves_of(memory, feature, base)) for feature in range(len(info))]
    for feature, (nodes, wanted) in enumerate(zip(found, grown, strict=True)):
        memory["arrivals"][nodes] = wanted.arrivals
        memory["slot"][nodes] = np.arange(len(nodes))
        info[feature, LEAVES] = len(nodes)
    memory["features"], memory["grid"] = info, grid
    return found


def _split(fields: dict[str, list[float]], grid: Array, node: int, base: int) -> range:
    """Give a node its children, which know nothing and are there from the beginning."""
    first, level = len(fields["level"]), int(fields["level"][node]) + 1
    fields["child"][node] = first
    size = 1.0 / float(base**level)
    for step in range(base):
        rank = int(fields["rank"][node]) * base + step
        made = {"level": level, "rank": rank, "child": -1, "slot": 0, "arrivals": 0, "born": 0}
        for field, value in {**made, "size": size, "weight": float(base**level) ** 2}.items():
            fields[field].append(value)
        if base**level <= len(grid):
            span = len(grid) // base**level
            grid[span * rank : span * (rank + 1)] = first + step
    return range(first, first + base)


def _fill(memory: Memory, settings: Settings, rows: Rows, nodes: list[Array]) -> None:
    """Make the cells, dense where they are small, and put in what was observed."""
    actions = int(memory["shape"][ACTIONS])
    memory["clock"][HASHED] = 0
    cells.build(memory, dense_limit=settings.dense_limit)
    tuples = memory["tuples"].reshape(-1, settings.tuple_size)
    observed = np.zeros((len(rows.tuples) + 1, 1 + actions))
    np.divide(rows.sums, rows.counts, out=observed[1:, 1:], where=rows.counts > 0)
    observed[1:, 0] = rows.counts.min(axis=1, initial=MOST_COUNTED)
    if memory["clock"][HASHED]:
        _fill_hashed(memory, tuples, rows, nodes, observed)
        return
    where = memory["offsets"][rows.tuples].copy()
    for k in range(settings.tuple_size):
        where += rows.places[:, k] * memory["strides"].reshape(tuples.shape)[rows.tuples, k]
    table = memory["cells"][:-MAX_WIDTH].reshape(-1, 1 + actions)
    table[where] = observed[1:]
    memory["counts"].reshape(-1, actions)[where] = rows.counts
    memory["sums"].reshape(-1, actions)[where] = rows.sums


def _fill_hashed(memory: Memory, tuples: Array, rows: Rows, nodes: list[Array], observed: Array) -> None:
    cells.make_hashed(memory, rows=len(rows.tuples) + 1024)
    keys = np.zeros((len(rows.tuples) + 1, tuples.shape[1]), dtype=np.int32)
    for feature, found in enumerate(nodes):
        row, k = np.nonzero(tuples[rows.tuples] == feature)
        keys[row + 1, k] = found[rows.places[row, k]]
    counts = np.zeros((len(observed), observed.shape[1] - 1), dtype=np.int32)
    sums = np.zeros(counts.shape)
    counts[1:], sums[1:] = rows.counts, rows.sums
    flat = (array.reshape(-1) for array in (keys, observed, counts, sums))
    cells.move_hashed(memory.book, len(observed), *flat)
