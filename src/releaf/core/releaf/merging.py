"""Merging of learners on adaptive partitions: sufficient statistics that add up in any order.

Two learners rarely have the same partitions. The merge uses their common refinement: an interval that one of them has
split is split in the sum as well. What the other one observed in the whole interval is dropped, as the paper's rule
does when an interval splits: its children start empty. So merging is associative and commutative, and a learner without
observations is its neutral element.

Rewards are multiples of 2⁻²⁶ (:data:`releaf.core.releaf.cells.GRAIN`), so that sums are exact up to 2²⁷, about 134
million rewards of 1 in one cell. Larger sums are rounded to 53 bits, and their last bit may depend on the order. A cell
counts at most 2³¹ - 1 rewards of an action; a cell with more gets that count and the mean of all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.releaf import cells, partition
from releaf.core.releaf.cells import GRAIN, MOST_COUNTED
from releaf.core.releaf.engine import Engine, EngineSettings
from releaf.core.releaf.state import (
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
    ReleafState,
)
from releaf.core.runtime.random_generator import first_state


class Leaves(NamedTuple):
    """The intervals of a feature from low to high, in units of the finest level; that of missing values is last."""

    starts: Array
    widths: Array
    arrivals: Array


class Rows(NamedTuple):
    """Observed cells: tuple of features, interval of each of them, counts and sums of rewards."""

    tuples: Array  # [R]
    places: Array  # [R, M] positions among the feature's leaves
    counts: Array  # [R, A]
    sums: Array  # [R, A]


class SufficientStatistics(NamedTuple):
    """Sufficient statistics of a learner, independent of node ids and storage."""

    leaves: tuple[Leaves, ...]
    rows: Rows
    relevance: Array  # [A, D]
    added_at: Array  # [A]
    clock: Array  # TIME, OBSERVED, EXPLORED, EXPLOITED
    drawn: np.uint64  # distance of the generator's state from the seed's


# --- from an engine -----------------------------------------------------------------------------------------


def extract_statistics(engine: Engine, seed: int | None) -> SufficientStatistics:
    """Extract the statistics of an engine. The latest arrival, usually counted with the next context, is counted.

    An interval that it fills is split, as it would be then.
    """
    state, actions = engine.state, engine.actions
    arrivals = state.arrivals.copy()
    if state.clock[PENDING]:
        arrivals[state.leaf] += 1
    nodes = [partition.leaves_of(state, f, engine.settings.base) for f in range(len(engine.settings.categories))]
    clock = state.clock
    with np.errstate(over="ignore"):
        drawn = clock[RANDOM].astype(np.uint64) - _begin(seed)
    known = SufficientStatistics(
        tuple(_leaves(engine, feature, np.array(found), arrivals) for feature, found in enumerate(nodes)),
        _rows(state, actions, nodes),
        state.relevance.reshape(actions, -1).copy(),
        state.added_at.copy(),
        clock[[TIME, OBSERVED, EXPLORED, EXPLOITED]].copy(),
        drawn,
    )
    full = arrivals[state.leaf] >= state.split_at[state.level[state.leaf]]
    if not (clock[PENDING] and full.any()):
        return known
    places = [found.index(leaf) for found, leaf in zip(nodes, state.leaf, strict=True)]
    return _split_full(known, places, full, engine.settings.base)


def _split_full(known: SufficientStatistics, places: list[int], full: Array, base: int) -> SufficientStatistics:
    """Split one full leaf of each feature into empty children."""
    parts = []
    for leaves, place, splits in zip(known.leaves, places, full, strict=True):
        steps, width = np.arange(base if splits else 0), leaves.widths[place] // base
        parts.append(Leaves(leaves.starts[place] + width * steps, np.full(len(steps), width), np.zeros_like(steps)))
    no_rows = Rows(*(field[:0] for field in known.rows))
    relevance, added_at, clock = (np.zeros_like(field) for field in (known.relevance, known.added_at, known.clock))
    return combine(known, SufficientStatistics(tuple(parts), no_rows, relevance, added_at, clock, np.uint64(0)))


def _begin(seed: int | None) -> np.uint64:
    return np.uint64(0) if seed is None else first_state(seed).astype(np.uint64)


def _leaves(engine: Engine, feature: int, nodes: Array, arrivals: Array) -> Leaves:
    state, base = engine.state, engine.settings.base
    ranks = state.rank[nodes]
    if engine.settings.categories[feature]:
        widths = np.ones(len(nodes), dtype=np.int64)
    else:
        widths = base ** (partition.top_level(base) - state.level[nodes])
    starts = ranks * widths
    if state.features[4 * feature + MISSING] >= 0:
        starts[-1], widths[-1] = 2 * base ** partition.top_level(base), 1  # after all others
    return Leaves(starts, widths, arrivals[nodes])


def _rows(state: ReleafState, actions: int, nodes: list[list[int]]) -> Rows:
    tuples = state.tuples.reshape(-1, int(state.shape[TUPLE_SIZE]))
    counts, sums = state.counts.reshape(-1, actions), state.sums.reshape(-1, actions)
    place_of = np.full(int(state.clock[NODES]), -1)
    for found in nodes:
        place_of[found] = np.arange(len(found))
    if state.clock[HASHED]:
        used = np.arange(1, int(state.clock[ROWS]))
        keys = state.keys.reshape(-1, tuples.shape[1])[used]
        which = _tuple_of_keys(state, tuples, keys)
        places = place_of[keys]
    else:
        which, places, used = _dense_rows(state, tuples, nodes)
    seen = counts[used].any(axis=1) & (places >= 0).all(axis=1)
    return _sorted(Rows(which[seen], places[seen], counts[used][seen].astype(np.int64), sums[used][seen]))


def _tuple_of_keys(state: ReleafState, tuples: Array, keys: Array) -> Array:
    """Tuple of each hashed row, from the features of its leaves."""
    features = len(state.features) // 4
    owner = np.full(int(state.clock[NODES]), -1)
    for feature in range(features):
        first, missing = (int(state.features[4 * feature + field]) for field in (FIRST, MISSING))
        roots = int(state.features[4 * feature]) or int(state.scale[state.level[first]])
        owner[first : first + roots] = feature
        if missing >= 0:
            owner[missing] = feature
    for node in range(len(owner)):
        child = int(state.child[node])
        if child >= 0:
            owner[child : child + int(state.shape[BASE])] = owner[node]
    radix = features ** np.arange(tuples.shape[1])[::-1]
    numbers = tuples.astype(np.int64) @ radix
    found: Array = np.searchsorted(numbers, owner[keys] @ radix)  # tuples are in lexicographic order
    return found


def _dense_rows(state: ReleafState, tuples: Array, nodes: list[list[int]]) -> tuple[Array, Array, Array]:
    strides = state.strides.reshape(tuples.shape)
    slots = [state.slot[found] for found in nodes]
    which, places, used = [], [], []
    for number, features in enumerate(tuples):
        grids = np.meshgrid(*(np.arange(len(slots[feature])) for feature in features), indexing="ij")
        place = np.stack([grid.ravel() for grid in grids], axis=1)
        row = np.full(len(place), state.offsets[number])
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


def combine(one: SufficientStatistics, other: SufficientStatistics) -> SufficientStatistics:
    """Merge the statistics of two learners."""
    refined = tuple(_refine(a, b) for a, b in zip(one.leaves, other.leaves, strict=True))
    rows = [_moved(known.rows, known.leaves, refined, one.relevance.shape[1]) for known in (one, other)]
    with np.errstate(over="ignore"):
        drawn = one.drawn + other.drawn
    return SufficientStatistics(
        refined,
        _added(rows),
        one.relevance + other.relevance,
        one.added_at + other.added_at,
        one.clock + other.clock,
        drawn,
    )


def _refine(one: Leaves, other: Leaves) -> Leaves:
    """Common refinement; arrivals of unsplit intervals add up."""
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
    """Map cells to the refinement; cells of intervals that are split there are dropped."""
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
    """Add up cells of the same intervals."""
    joined = _sorted(Rows(*(np.concatenate(fields) for fields in zip(*parts, strict=True))))
    if not len(joined.tuples):
        return joined
    differs = (np.diff(joined.tuples) != 0) | (np.diff(joined.places, axis=0) != 0).any(axis=1)
    firsts = np.concatenate([[0], np.flatnonzero(differs) + 1])
    counts, sums = (np.add.reduceat(part, firsts, axis=0) for part in (joined.counts, joined.sums))
    return Rows(joined.tuples[firsts], joined.places[firsts], counts, sums)


# --- to an engine -------------------------------------------------------------------------------------------


def build_engine(settings: EngineSettings, actions: int, seed: int | None, known: SufficientStatistics) -> Engine:
    """Build an engine from statistics; the same statistics give the same engine, bit for bit."""
    engine = Engine(settings, actions, seed)
    state = engine.state
    nodes = _build_partitions(state, settings, known.leaves)
    _fill_cells(state, settings, _not_overfull(known.rows), nodes)
    state.relevance, state.added_at = known.relevance, known.added_at
    clock = state.clock
    clock[[TIME, OBSERVED, EXPLORED, EXPLOITED]] = known.clock
    with np.errstate(over="ignore"):
        clock[RANDOM] = (_begin(seed) + known.drawn).astype(np.int64)
    state.leaf = state.features[FIRST::4]
    engine.load({name: getattr(state, name) for name in ReleafState.layout.names("learnt")})
    return engine


def _not_overfull(rows: Rows) -> Rows:
    """Cap counts at MOST_COUNTED, and keep the mean."""
    over = rows.counts > MOST_COUNTED
    if not over.any():
        return rows
    means = np.divide(rows.sums, rows.counts, out=np.zeros(over.shape), where=over)
    sums = np.where(over, np.floor(means * MOST_COUNTED / GRAIN + 0.5) * GRAIN, rows.sums)
    return rows._replace(counts=np.minimum(rows.counts, MOST_COUNTED), sums=sums)


def _build_partitions(state: ReleafState, settings: EngineSettings, leaves: tuple[Leaves, ...]) -> list[Array]:
    """Split the initial partitions down to these leaves; returns the node of each leaf, for each feature."""
    base, top = settings.base, partition.top_level(settings.base)
    fields = {field: getattr(state, field)[: int(state.clock[NODES])].tolist() for field in partition.NODE_FIELDS}
    info, grown = state.features.reshape(-1, 4), []
    grid = state.grid.reshape(len(info), -1)
    for feature, wanted in enumerate(leaves):
        ends = {int(start): int(width) for start, width in zip(wanted.starts, wanted.widths, strict=True)}
        if not settings.categories[feature]:
            first = int(info[feature, FIRST])
            to_visit = list(range(first, first + base**settings.start_level))
            for node in to_visit:  # the loop appends to it
                level, rank = fields["level"][node], fields["rank"][node]
                width = base ** (top - level)
                if ends[rank * width] < width:
                    to_visit += _split(fields, grid[feature], node, base)
        grown.append(wanted)
    for field in partition.NODE_FIELDS:
        setattr(state, field, fields[field])
    state.clock[NODES] = len(fields["level"])
    found = [np.array(partition.leaves_of(state, feature, base)) for feature in range(len(info))]
    for feature, (nodes, wanted) in enumerate(zip(found, grown, strict=True)):
        state.arrivals[nodes] = wanted.arrivals
        state.slot[nodes] = np.arange(len(nodes))
        info[feature, LEAVES] = len(nodes)
    state.features, state.grid = info, grid
    return found


def _split(fields: dict[str, list[float]], grid: Array, node: int, base: int) -> range:
    """Split a node into empty children that exist since step 0."""
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


def _fill_cells(state: ReleafState, settings: EngineSettings, rows: Rows, nodes: list[Array]) -> None:
    """Create the cells, dense if small enough, and write the statistics."""
    actions = int(state.shape[ACTIONS])
    state.clock[HASHED] = 0
    cells.build(state, dense_limit=settings.dense_limit)
    tuples = state.tuples.reshape(-1, settings.tuple_size)
    observed = np.zeros((len(rows.tuples) + 1, 1 + actions))
    np.divide(rows.sums, rows.counts, out=observed[1:, 1:], where=rows.counts > 0)
    observed[1:, 0] = rows.counts.min(axis=1, initial=MOST_COUNTED)
    if state.clock[HASHED]:
        _fill_hashed_cells(state, tuples, rows, nodes, observed)
        return
    where = state.offsets[rows.tuples].copy()
    for k in range(settings.tuple_size):
        where += rows.places[:, k] * state.strides.reshape(tuples.shape)[rows.tuples, k]
    table = state.cells.reshape(-1, 1 + actions)
    table[where] = observed[1:]
    state.counts.reshape(-1, actions)[where] = rows.counts
    state.sums.reshape(-1, actions)[where] = rows.sums


def _fill_hashed_cells(state: ReleafState, tuples: Array, rows: Rows, nodes: list[Array], observed: Array) -> None:
    cells.make_hashed(state, rows=len(rows.tuples) + 1024)
    keys = np.zeros((len(rows.tuples) + 1, tuples.shape[1]), dtype=np.int32)
    for feature, found in enumerate(nodes):
        row, k = np.nonzero(tuples[rows.tuples] == feature)
        keys[row + 1, k] = found[rows.places[row, k]]
    counts = np.zeros((len(observed), observed.shape[1] - 1), dtype=np.int32)
    sums = np.zeros(counts.shape)
    counts[1:], sums[1:] = rows.counts, rows.sums
    flat = (array.reshape(-1) for array in (keys, observed, counts, sums))
    cells.move_hashed(state.pointer_table, len(observed), *flat)
