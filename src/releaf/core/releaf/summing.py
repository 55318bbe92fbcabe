"""Counts and integer sums of a log's rewards by cell: parts of a log add up to the same sums in any order."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.releaf.cells import GRAIN
from releaf.core.releaf.engine import EngineSettings
from releaf.core.releaf.merging import Leaves, Rows, SufficientStatistics
from releaf.core.releaf.partition import top_level
from releaf.core.releaf.tuples import enumerate_tuples
from releaf.core.runtime.jit import entry_point, inlined

FINEST = 2**15  # most bins of [0, 1] in which values are counted
WEIGHT_GRAIN = 2.0**-16  # of inverse probabilities
WEIGHTED_GRAIN = 2.0**-20  # of rewards times these
HEAVIEST = 2.0**10  # cap of an inverse propensity
MOST_ROWS, MOST_WEIGHTED_ROWS = 2**37 - 1, 2**33 - 1  # whose sums fit into 63 bits
MOST_ENTRIES = 2**62  # that can be numbered
DENSE_BELOW = 4  # entries per row up to which a dense array is faster than sorting
ALWAYS_DENSE = 2**16
LEAST_ADDED = 2**20  # entries that are added up at a time


def finest_level(base: int) -> int:
    """Level of the bins in which values are counted; no interval is finer."""
    return int(math.log2(FINEST) / math.log2(base) + 1e-9)


def stretches(settings: EngineSettings) -> Array:
    """Number of bins of each feature, without the bin of missing values."""
    fine = settings.base ** max(finest_level(settings.base), settings.start_level)
    return np.array([categories or fine for categories in settings.categories], dtype=np.int64)


@inlined
def place_of(value, categories, cells):
    """Category, or bin (a, b] of [0, 1], that holds a value."""
    if categories > 0:
        return np.int64(value * categories)
    k = max(np.int64(math.ceil(value * cells)) - np.int64(1), np.int64(0))
    # value * cells is rounded: step to the neighbour where the border says so
    k += np.int64(value > (k + 1) / cells)
    k -= np.int64((k > 0) & (value <= k / cells))
    return k


@entry_point
def count_values(units, categories, cells, counts):
    """Count the values of each feature by bin: [D, bins + 1], missing values last."""
    for t in range(units.shape[0]):
        for i in range(units.shape[1]):
            value = units[t, i]
            place = counts.shape[1] - 1 if value < 0.0 else place_of(value, categories[i], cells[i])
            counts[i, place] += 1


@entry_point
def find_leaves(units, categories, cells, leaf_of, leaves):
    """Find the leaf that holds each value: [T, D]."""
    for t in range(units.shape[0]):
        for i in range(units.shape[1]):
            value = units[t, i]
            place = leaf_of.shape[1] - 1 if value < 0.0 else place_of(value, categories[i], cells[i])
            leaves[t, i] = leaf_of[i, place]


@entry_point
def sum_cells(leaves, taken, observed, tuples, offsets, strides, actions, sums):
    """Add observations, [T, 2] or [T, 4], to the entries of all tuples; those of a cell's actions are adjacent."""
    for t in range(leaves.shape[0]):
        for p in range(tuples.shape[0]):
            cell = offsets[p]
            for k in range(tuples.shape[1]):
                cell += leaves[t, tuples[p, k]] * strides[p, k]
            entry = cell * actions + taken[t]
            sums[entry, 0] += observed[t, 0]
            sums[entry, 1] += observed[t, 1]
            if sums.shape[1] > 2:
                sums[entry, 2] += observed[t, 2]
                sums[entry, 3] += observed[t, 3]


# --- from counts to partitions ------------------------------------------------------------------------------


def partitions(settings: EngineSettings, counts: Array) -> tuple[Leaves, ...]:
    """Intervals that the paper's rule makes of all arrivals: an interval of level l splits at base^(ρ·l) of them."""
    return tuple(_leaves(settings, feature, counts[feature]) for feature in range(len(settings.categories)))


def _leaves(settings: EngineSettings, feature: int, counts: Array) -> Leaves:
    categories, base, top = settings.categories[feature], settings.base, top_level(settings.base)
    found: list[tuple[int, int, int]] = []
    if categories:
        found = [(place, 1, int(counts[place])) for place in range(categories)]
    else:
        cells = int(stretches(settings)[feature])
        summed = np.concatenate([[0], np.cumsum(counts[:cells])])
        to_visit = [(settings.start_level, rank) for rank in range(base**settings.start_level)][::-1]
        while to_visit:
            level, rank = to_visit.pop()
            span = cells // base**level
            arrivals = int(summed[(rank + 1) * span] - summed[rank * span])
            if span > 1 and arrivals >= _splits_at(base, settings.rho * level):
                to_visit += [(level + 1, rank * base + step) for step in range(base - 1, -1, -1)]
            else:
                found.append((rank * base ** (top - level), base ** (top - level), arrivals))
    if settings.missing[feature]:
        found.append((2 * base**top, 1, int(counts[-1])))  # as releaf.core.releaf.merging has it
    return Leaves(*(np.array(column, dtype=np.int64) for column in zip(*found, strict=True)))


def _splits_at(base: int, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


# --- layout of the sums -----------------------------------------------------------------------------------------


class SumsLayout(NamedTuple):
    """Layout of the sums of some tuples: an *entry* for each cell and action.

    The first tuples have few cells and dense sums. The sums of the others are sparse.
    """

    leaf_of: Array  # [D, bins + 1] leaf of each bin
    numbers: Array  # [P] which tuples these are
    tuples: Array  # [P, M]
    offsets: Array  # [P] the first cell of each
    strides: Array  # [P, M]
    dense: int  # number of tuples with dense sums
    dense_entries: int  # of these
    entries: int  # of all


def leaves_of_places(settings: EngineSettings, leaves: tuple[Leaves, ...]) -> Array:
    """Leaf of each bin of each feature, the leaf of missing values last."""
    places = stretches(settings)
    found = np.zeros((len(leaves), int(places.max()) + 1), dtype=np.int32)
    for feature, own in enumerate(leaves):
        count = len(own.starts) - settings.missing[feature]
        if settings.categories[feature]:
            found[feature, :count] = np.arange(count)
        else:
            width = settings.base ** top_level(settings.base) // int(places[feature])
            found[feature, : places[feature]] = np.repeat(np.arange(count), own.widths[:count] // width)
        found[feature, -1] = len(own.starts) - 1
    return found


def layouts(
    settings: EngineSettings, leaves: tuple[Leaves, ...], actions: int, rows: int, most: int
) -> list[SumsLayout]:
    """Group tuples into blocks of at most ``most`` entries for a worker with so many rows, at least one tuple each."""
    tuples = enumerate_tuples(len(leaves), settings.tuple_size, settings.gamma).tuples.astype(np.int64)
    lengths = np.array([len(own.starts) for own in leaves], dtype=np.int64)
    sizes = np.prod(lengths[tuples].astype(float), axis=1)
    if sizes.max() * actions > MOST_ENTRIES:
        features = tuples[int(sizes.argmax())].tolist()
        raise ValueError(
            f"features {features} have {' · '.join(str(lengths[feature]) for feature in features)} intervals, whose "
            "combinations are too many to be numbered: a larger rho makes fewer intervals"
        )
    sizes = sizes.astype(np.int64)
    dense = sizes * actions <= min(most, max(DENSE_BELOW * rows, ALWAYS_DENSE))
    taken = np.where(dense, sizes * actions, np.minimum(sizes * actions, rows))
    leaf_of, made, first = leaves_of_places(settings, leaves), [], 0
    while first < len(tuples):
        fits = (np.cumsum(taken[first:]) <= most) & (np.cumsum(sizes[first:].astype(float)) * actions <= MOST_ENTRIES)
        last = first + max(1, int(np.argmin(fits)) if not fits.all() else len(fits))
        numbers = np.arange(first, last)
        numbers = np.concatenate([numbers[dense[first:last]], numbers[~dense[first:last]]])
        made.append(_layout(leaf_of, numbers, tuples[numbers], lengths, int(dense[first:last].sum()), actions))
        first = last
    return made


def _layout(leaf_of: Array, numbers: Array, tuples: Array, lengths: Array, dense: int, actions: int) -> SumsLayout:
    strides = np.ones(tuples.shape, dtype=np.int64)
    for k in range(tuples.shape[1] - 2, -1, -1):
        strides[:, k] = strides[:, k + 1] * lengths[tuples[:, k + 1]]
    ends = np.cumsum(strides[:, 0] * lengths[tuples[:, 0]])
    offsets = np.concatenate([[0], ends[:-1]])
    dense_entries = int(ends[dense - 1]) * actions if dense else 0
    return SumsLayout(leaf_of, numbers, tuples, offsets, strides, dense, dense_entries, int(ends[-1]) * actions)


# --- summing ------------------------------------------------------------------------------------------------


class Sums(NamedTuple):
    """Sparse sums: entries in ascending order, with counts and rewards in grains, and two more columns with weights."""

    entries: Array  # [n]
    values: Array  # [n, 2] or [n, 4]


def add_up(entries: Array, values: Array) -> Sums:
    """Add up the values of equal entries."""
    order = np.argsort(entries, kind="stable")
    entries = entries[order]
    firsts = np.flatnonzero(np.diff(entries, prepend=-1))
    return Sums(entries[firsts], np.add.reduceat(values[order], firsts, axis=0) if len(firsts) else values)


class SparseSums:
    """Accumulator of sparse sums whose size follows the number of observed entries."""

    def __init__(self, possible: int, width: int) -> None:
        self._possible = possible  # entries are below it
        self._sums = Sums(np.empty(0, dtype=np.int64), np.empty((0, width), dtype=np.int64))
        self._unsorted: list[Sums] = []
        self._held = 0  # entries that are not added up yet

    def add(self, found: Sums) -> None:
        self._unsorted.append(found)
        self._held += len(found.entries)
        if self._held > max(
            len(self._sums.entries), LEAST_ADDED
        ):  # doubling: each entry is sorted a logarithmic number of times
            self.total()

    def total(self) -> Sums:
        if self._unsorted:
            self._sums = self._joined([self._sums, *self._unsorted])
            self._unsorted, self._held = [], 0
        return self._sums

    def _joined(self, parts: list[Sums]) -> Sums:
        if self._possible > sum(len(sums.entries) for sums in parts):
            return add_up(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))
        table = np.zeros((self._possible, parts[0].values.shape[1]), dtype=np.int64)
        for entries, values in parts:
            table[entries] += values
        return _observed(table)


class LogSummer:
    """Sums of one part of a log in the entries of a layout."""

    def __init__(self, layout: SumsLayout, actions: int, width: int) -> None:
        self._layout, self._actions = layout, actions
        self._dense = np.zeros((layout.dense_entries, width), dtype=np.int64)
        self._sparse = SparseSums(layout.entries, width)

    def add(self, leaves: Array, taken: Array, observed: Array) -> None:
        """Add rows: their leaves, [T, D], actions, and observations, [T, 2] or [T, 4]."""
        layout, dense = self._layout, self._layout.dense
        if dense:
            where = (layout.tuples[:dense], layout.offsets[:dense], layout.strides[:dense])
            sum_cells(leaves, taken, observed, *where, self._actions, self._dense)
        for place in range(dense, len(layout.tuples)):
            cells = np.full(len(leaves), layout.offsets[place])
            for feature, stride in zip(layout.tuples[place], layout.strides[place], strict=True):
                cells += leaves[:, feature] * stride
            self._sparse.add(add_up(cells * self._actions + taken, observed))

    def total(self) -> Sums:
        few, others = _observed(self._dense), self._sparse.total()
        return Sums(*(np.concatenate(fields) for fields in zip(few, others, strict=True)))


def _observed(table: Array) -> Sums:
    seen = np.flatnonzero(table[:, 0])
    return Sums(seen, table[seen])


# --- from sums to statistics ---------------------------------------------------------------------------------


def observed_rows(layout: SumsLayout, actions: int, sums: Sums) -> Rows:
    """Observed cells of a block."""
    of_entries, taken = np.divmod(sums.entries, actions)
    begins = np.diff(of_entries, prepend=-1) != 0
    cells, row = of_entries[begins], np.cumsum(begins) - 1
    counts, totals = np.zeros((len(cells), actions), dtype=np.int64), np.zeros((len(cells), actions))
    counts[row, taken], totals[row, taken] = sums.values[:, 0], reward_totals(sums.values)
    which = np.searchsorted(layout.offsets, cells, side="right") - 1
    rest = cells - layout.offsets[which]
    places = np.zeros((len(cells), layout.tuples.shape[1]), dtype=np.int64)
    for k in range(places.shape[1]):
        places[:, k], rest = np.divmod(rest, layout.strides[which, k])
    return Rows(layout.numbers[which], places, counts, totals)


def reward_totals(values: Array) -> Array:
    """Sums of rewards; with weights, count times weighted mean."""
    grains = values[:, 1]
    if values.shape[1] > 2:
        heavy = values[:, 2] * WEIGHT_GRAIN
        means = np.divide(values[:, 3] * WEIGHTED_GRAIN, heavy, out=np.zeros(len(heavy)), where=heavy > 0)
        grains = np.floor(np.clip(means, 0.0, 1.0) * values[:, 0] / GRAIN + 0.5)
    totals: Array = grains * GRAIN
    return totals


def all_rows(blocks: list[Rows]) -> Rows:
    """Cells of all blocks, sorted by tuple and, within a tuple, by interval."""
    joined = blocks[0] if len(blocks) == 1 else Rows(*(np.concatenate(fields) for fields in zip(*blocks, strict=True)))
    if (np.diff(joined.tuples) >= 0).all():
        return joined
    order = np.argsort(joined.tuples, kind="stable")
    return Rows(*(field[order] for field in joined))


def sufficient_statistics(leaves: tuple[Leaves, ...], observed: Rows, rows: int, actions: int) -> SufficientStatistics:
    """Statistics of a learner that saw so many rows, all with rewards."""
    nothing = np.zeros((actions, len(leaves)), dtype=np.int64)
    clock = np.array([rows, rows, 0, 0], dtype=np.int64)
    return SufficientStatistics(leaves, observed, nothing, np.zeros(actions, dtype=np.int64), clock, np.uint64(0))
