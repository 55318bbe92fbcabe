"""CMAB-RL: means of tuples of features on a uniform partition, relevance by confidence intervals, UCB."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.arrays import Array
from releaf.core.releaf.tuples import enumerate_tuples
from releaf.core.runtime.entry_points import EntryPoints
from releaf.core.runtime.jit import inlined
from releaf.core.runtime.primitives import CLOCK_LENGTH, RANDOM, best_eligible, confidence, new_clock
from releaf.core.runtime.random_generator import integer_below
from releaf.core.runtime.state import LearnerState, constant, learnt, scratch

RADIUS, TOLERANCE = 0, 1  # params: u² times the count, and 2 L √d̄ / m
INTERVALS, CATEGORIES = 0, 1  # of a feature: how many intervals; 0, or as many categories
NONE = -1


class UniformPartition(LearnerState):
    """State of each cell and action: number of observations and sum of rewards.

    ``tallies`` counts for each action how often each feature was relevant in exploitations, and last the exploitations.
    """

    clock: Array = learnt(np.int64, CLOCK_LENGTH)
    params: Array = constant(np.float64, "parameters")
    limits: Array = constant(np.float64, "features")
    features: Array = constant(np.int64, "features", 2)
    tuples: Array = constant(np.int64, "tuples", "tuple size")
    candidates: Array = constant(np.int64, "candidates", "gamma")
    members: Array = constant(np.int64, "candidates", "tuples of a candidate")
    first: Array = constant(np.int64, "tuples")
    strides: Array = constant(np.int64, "tuples", "tuple size")
    taken: Array = learnt(np.int64, "actions", least=0)
    counts: Array = learnt(np.int64, "cells", "actions", least=0)
    sums: Array = learnt(np.float64, "cells", "actions")
    tallies: Array = learnt(np.int64, "features and total", "actions", least=0)
    rows: Array = scratch(np.int64, "tuples")
    relevant: Array = scratch(np.int64, "actions")
    eligible: Array = scratch(np.uint8, "actions")
    estimates: Array = scratch(np.float64, "actions")
    chance: Array = scratch(np.float64, 1)


def cells_of(sizes: Array, tuple_size: int, gamma: int) -> int:
    """Number of cells of all tuples of features with these numbers of intervals."""
    tuples = enumerate_tuples(len(sizes), tuple_size, gamma).tuples
    return int(np.prod(sizes.astype(np.float64)[tuples], axis=1).sum())


def new_uniform_partition(
    seed: int | None,
    limits: Array,
    sizes: Array,
    categories: Array,
    gamma: int,
    actions: int,
    params: tuple[float, float],
) -> UniformPartition:
    """Initial state without observations."""
    sets = enumerate_tuples(len(sizes), 2 * gamma, gamma)
    shapes = sizes[sets.tuples]
    strides = np.cumprod(np.concatenate([np.ones((len(shapes), 1), dtype=np.int64), shapes[:, :-1]], axis=1), axis=1)
    volumes = shapes.prod(axis=1)
    cells = int(volumes.sum())
    return UniformPartition(
        clock=new_clock(seed),
        params=params,
        limits=limits,
        features=np.stack([sizes, categories], axis=1),
        tuples=sets.tuples,
        candidates=sets.candidates,
        members=sets.members,
        first=np.cumsum(volumes) - volumes,
        strides=strides,
        taken=np.zeros(actions),
        counts=np.zeros((cells, actions)),
        sums=np.zeros((cells, actions)),
        tallies=np.zeros((len(sizes) + 1, actions)),
        rows=np.zeros(len(shapes)),
        relevant=np.zeros(actions),
        eligible=np.ones(actions),
        estimates=np.zeros(actions),
        chance=np.zeros(1),
    )


@inlined
def interval_of(state, feature, value):
    """Interval of a value. Intervals are (a, b], the first [0, b]; the last one is for missing values, if allowed."""
    count, categories = state.features[feature, INTERVALS], state.features[feature, CATEGORIES]
    if value < 0.0:
        return count - 1
    if categories > 0:
        return np.int64(value * categories)
    count -= state.limits[feature] < 0.0
    return min(max(np.int64(math.ceil(value * count)) - 1, 0), count - 1)


@inlined
def find_rows(state, context):
    """Find the cell that holds the context, for each tuple of features."""
    for w in range(len(state.tuples)):
        row = state.first[w]
        for place in range(state.tuples.shape[1]):
            feature = state.tuples[w, place]
            row += state.strides[w, place] * interval_of(state, feature, context[feature])
        state.rows[w] = row


@inlined
def relevant_candidate(state, action):
    """ĉ: of the candidates whose tuples' intervals r̄ ± u all meet, up to the tolerance, the one whose means vary least.

    All pairs of intervals meet when the highest lower end is not above the lowest upper end.
    """
    found, smallest = NONE, math.inf
    for v in range(len(state.members)):
        low, high, bottom, top = math.inf, -math.inf, -math.inf, math.inf
        for w in state.members[v]:
            count = state.counts[state.rows[w], action]
            mean = state.sums[state.rows[w], action] / max(count, 1)
            radius = confidence(state.params[RADIUS], count)
            low, high = min(low, mean), max(high, mean)
            bottom, top = max(bottom, mean - radius), min(top, mean + radius)
        if bottom <= top + state.params[TOLERANCE] and high - low < smallest:
            found, smallest = v, high - low
    return found


@inlined
def mean_of(state, action, candidate):
    """Count-weighted mean of an action over the cells of all tuples that contain a candidate."""
    count, total = 0, 0.0
    for w in state.members[candidate]:
        count += state.counts[state.rows[w], action]
        total += state.sums[state.rows[w], action]
    return total / max(count, 1)


@inlined
def widest(state, action):
    """Largest confidence radius over all tuples."""
    fewest = state.counts[state.rows[0], action]
    for w in range(1, len(state.rows)):
        fewest = min(fewest, state.counts[state.rows[w], action])
    return confidence(state.params[RADIUS], fewest)


@inlined
def choose_by_relevance(state, context):
    find_rows(state, context)
    chosen, highest, sure = 0, -math.inf, True
    for action in range(len(state.estimates)):
        candidate = relevant_candidate(state, action)
        state.relevant[action] = candidate
        if state.eligible[action] == 0:  # it needs no draw, and has an estimate for the user only
            state.estimates[action] = mean_of(state, action, max(candidate, 0))
            continue
        if candidate == NONE:
            candidate = integer_below(state.clock, RANDOM, len(state.members))
            sure = False
        state.estimates[action] = mean_of(state, action, candidate)
        index = state.estimates[action] + 5.0 * widest(state, action)
        if index > highest or (index == highest and state.taken[action] < state.taken[chosen]):
            chosen, highest = action, index
    state.taken[chosen] += 1
    state.chance[0] = 1.0 if sure else -1.0
    best = best_eligible(state.estimates, state.eligible)
    explored = state.estimates[chosen] < state.estimates[best] or math.isinf(highest)
    if not explored:
        tally(state)
    return 2 * chosen + explored


@inlined
def tally(state):
    for action in range(len(state.relevant)):
        if state.eligible[action] == 0:
            continue
        state.tallies[-1, action] += 1
        if state.relevant[action] != NONE:
            for feature in state.candidates[state.relevant[action]]:
                state.tallies[feature, action] += 1


@inlined
def update(state, context, step, action, reward):
    find_rows(state, context)
    for row in state.rows:
        state.counts[row, action] += 1
        state.sums[row, action] += reward


CMAB_RL = EntryPoints(choose_by_relevance, update, UniformPartition)
