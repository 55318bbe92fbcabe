"""What a log says, counted and summed in whole numbers, so that parts of it add up to the same in any order."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from releaf.core.cells import GRAIN
from releaf.core.engine import Settings
from releaf.core.jit import door, inner
from releaf.core.merging import Knowledge, Leaves, Rows
from releaf.core.model import Array
from releaf.core.partition import top_level
from releaf.core.tuples import enumerate_tuples

FINEST = 2**15  # stretches of [0, 1] that values are counted in, at most
WEIGHT_GRAIN = 2.0**-16  # of inverse probabilities
WEIGHTED_GRAIN = 2.0**-20  # of rewards times these
HEAVIEST = 2.0**10  # an action that was less likely than one in a thousand counts as if it had been


def finest_level(base: int) -> int:
    """The level of the stretches that values are counted in: no interval is finer."""
    return int(math.log2(FINEST) / math.log2(base) + 1e-9)


def stretches(settings: Settings) -> Array:
    """Into how many places the values of each feature fall, missing ones not counted."""
    fine = settings.base ** max(finest_level(settings.base), settings.start_level)
    return np.array([categories or fine for categories in settings.categories], dtype=np.int64)


@inner
def place_of(value, categories, cells):
    """The category, or the stretch (a, b] of [0, 1], that holds a value."""
    if categories > 0:
        return np.int64(value * categories)
    k = max(np.int64(math.ceil(value * cells)) - np.int64(1), np.int64(0))
    # value * cells is rounded: step to the neighbour where the border says so
    k += np.int64(value > (k + 1) / cells)
    k -= np.int64((k > 0) & (value <= k / cells))
    return k


@door
def count_values(units, categories, cells, counts):
    """Count the values of each feature: [D, places + 1], missing ones last."""
    for t in range(units.shape[0]):
        for i in range(units.shape[1]):
            value = units[t, i]
            place = counts.shape[1] - 1 if value < 0.0 else place_of(value, categories[i], cells[i])
            counts[i, place] += 1


@door
def sum_cells(units, taken, grains, weights, categories, cells, leaf_of, tuples, offsets, strides, sums):
    """Sum rewards in the cells of all tuples: [cells, A, 2], counts and rewards; [.., 4] with weights."""
    leaves = np.zeros(units.shape[1], dtype=np.int64)
    for t in range(units.shape[0]):
        for i in range(units.shape[1]):
            value = units[t, i]
            place = leaf_of.shape[1] - 1 if value < 0.0 else place_of(value, categories[i], cells[i])
            leaves[i] = leaf_of[i, place]
        for p in range(tuples.shape[0]):
            cell = offsets[p]
            for k in range(tuples.shape[1]):
                cell += leaves[tuples[p, k]] * strides[p, k]
            sums[cell, taken[t], 0] += 1
            sums[cell, taken[t], 1] += grains[t]
            if sums.shape[2] > 2:
                sums[cell, taken[t], 2] += weights[t, 0]
                sums[cell, taken[t], 3] += weights[t, 1]


# --- from counts to partitions ------------------------------------------------------------------------------


def partitions(settings: Settings, counts: Array) -> tuple[Leaves, ...]:
    """The intervals that the paper's rule makes of all arrivals: one of level l splits at base^(ρ·l) of them."""
    return tuple(_leaves(settings, feature, counts[feature]) for feature in range(len(settings.categories)))


def _leaves(settings: Settings, feature: int, counts: Array) -> Leaves:
    categories, base, top = settings.categories[feature], settings.base, top_level(settings.base)
    found: list[tuple[int, int, int]] = []
    if categories:
        found = [(place, 1, int(counts[place])) for place in range(categories)]
    else:
        cells = int(stretches(settings)[feature])
        summed = np.concatenate([[0], np.cumsum(counts[:cells])])
        waiting = [(settings.start_level, rank) for rank in range(base**settings.start_level)][::-1]
        while waiting:
            level, rank = waiting.pop()
            span = cells // base**level
            arrivals = int(summed[(rank + 1) * span] - summed[rank * span])
            if span > 1 and arrivals >= _splits_at(base, settings.rho * level):
                waiting += [(level + 1, rank * base + step) for step in range(base - 1, -1, -1)]
            else:
                found.append((rank * base ** (top - level), base ** (top - level), arrivals))
    if settings.missing[feature]:
        found.append((2 * base**top, 1, int(counts[-1])))  # as releaf.core.merging has it
    return Leaves(*(np.array(column, dtype=np.int64) for column in zip(*found, strict=True)))


def _splits_at(base: int, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


class Layout(NamedTuple):
    """Where the cells of some tuples are summed."""

    leaf_of: Array  # [D, places + 1] the leaf that each place belongs to
    tuples: Array  # [P, M]
    offsets: Array  # [P]
    strides: Array  # [P, M]
    cells: int


def leaves_of_places(settings: Settings, leaves: tuple[Leaves, ...]) -> Array:
    """For each feature and place the leaf that it belongs to; that of missing values last."""
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


def layouts(settings: Settings, leaves: tuple[Leaves, ...], most: int) -> list[Layout]:
    """Tuples in blocks whose cells are not more than ``most``, where a tuple has not more by itself."""
    tuples = enumerate_tuples(len(leaves), settings.tuple_size, settings.gamma).tuples
    lengths = np.array([len(own.starts) for own in leaves], dtype=np.int64)
    sizes = np.prod(lengths[tuples], axis=1)
    strides = np.ones(tuples.shape, dtype=np.int64)
    for k in range(tuples.shape[1] - 2, -1, -1):
        strides[:, k] = strides[:, k + 1] * lengths[tuples[:, k + 1]]
    leaf_of = leaves_of_places(settings, leaves)
    made, first = [], 0
    while first < len(tuples):
        last = max(first + 1, int(np.searchsorted(np.cumsum(sizes[first:]), most, side="right")) + first)
        here = slice(first, last)
        offsets = np.concatenate([[0], np.cumsum(sizes[here])[:-1]]).astype(np.int64)
        made.append(Layout(leaf_of, tuples[here].astype(np.int64), offsets, strides[here], int(sizes[here].sum())))
        first = last
    return made


# --- from sums to knowledge ---------------------------------------------------------------------------------


def observed_rows(layout: Layout, first: int, leaves: tuple[Leaves, ...], sums: Array) -> Rows:
    """The cells of a block that were observed; ``first`` is the number of its first tuple."""
    cells = np.flatnonzero(sums[:, :, 0].any(axis=1))
    which = np.searchsorted(layout.offsets, cells, side="right") - 1
    rest = cells - layout.offsets[which]
    places = np.zeros((len(cells), layout.tuples.shape[1]), dtype=np.int64)
    for k in range(places.shape[1]):
        places[:, k], rest = np.divmod(rest, layout.strides[which, k])
    seen = sums[cells]
    counts, totals = seen[:, :, 0], seen[:, :, 1] * GRAIN
    if sums.shape[2] > 2:
        heavy = seen[:, :, 2] * WEIGHT_GRAIN
        means = np.divide(seen[:, :, 3] * WEIGHTED_GRAIN, heavy, out=np.zeros(heavy.shape), where=heavy > 0)
        totals = np.floor(np.clip(means, 0.0, 1.0) * counts / GRAIN + 0.5) * GRAIN
    return Rows(which + first, places, counts, totals)


def knowledge(leaves: tuple[Leaves, ...], parts: list[Rows], rows: int, actions: int) -> Knowledge:
    """What a learner knows that saw so many cases, all rewarded."""
    joined = Rows(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))
    nothing = np.zeros((actions, len(leaves)), dtype=np.int64)
    clock = np.array([rows, rows, 0, 0], dtype=np.int64)
    return Knowledge(leaves, joined, nothing, np.zeros(actions, dtype=np.int64), clock, np.uint64(0))
