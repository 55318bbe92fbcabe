"""Slates: the k actions with the highest upper bounds, drawn by randomised optimism, with exact probabilities.

The degree of optimism is one of ``LEVELS`` equally likely values, so there are at most so many sets of k actions but
for ties, which are broken uniformly. Both probabilities follow by counting: that an action is in the slate (inclusion
probability), and that it is its first.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

from releaf.core.runtime.jit import inlined, outlined
from releaf.core.runtime.primitives import RANDOM, TIME
from releaf.core.runtime.random_generator import integer_below, unit

POOL, SLATE = range(2)  # sizes: eligible actions, and actions of a slate
LOWEST, HIGHEST, LEVELS, LEAST = range(4)  # params: range of optimism, its number of levels, and the least probability


@inlined
def note_eligible(state):
    """Note that the eligible actions were so in this decision."""
    for action in range(len(state.eligible)):
        if state.eligible[action]:
            state.latest[action] = state.clock[TIME]


@inlined
def set_pool(state):
    """List the eligible actions."""
    count = 0
    for action in range(len(state.eligible)):
        if state.eligible[action]:
            state.pool[count] = action
            count += 1
    state.sizes[POOL] = count


@inlined
def spread_estimates(state):
    """Move the estimates of the pool to the places of their actions; those of other actions are NaN."""
    last = len(state.eligible)
    for turn in range(state.sizes[POOL]):
        place = state.sizes[POOL] - 1 - turn
        action = state.pool[place]
        for other in range(action + 1, last):
            state.estimates[other] = math.nan
        state.estimates[action] = state.estimates[place]
        last = action
    for other in range(last):
        state.estimates[other] = math.nan


@inlined
def optimism_of(params, level):
    return params[LOWEST] + (params[HIGHEST] - params[LOWEST]) * (level + 0.5) / params[LEVELS]


@inlined
def upper(state, place, optimism):
    return state.estimates[place] + optimism * state.bonuses[place]


@inlined
def sift_down(heap, size):
    """Restore the order of a heap whose first entry, the lowest, was replaced."""
    parent, child = 0, 1
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[parent] <= heap[child]:
            break
        heap[parent], heap[child] = heap[child], heap[parent]
        parent, child = child, 2 * child + 1


@outlined
def kth_highest(state, places, count, optimism):
    """The k-th highest upper bound among the first ``count`` places, for the size k of the slate."""
    heap, size = state.heap, state.sizes[SLATE]
    for i in range(size):
        heap[i] = -math.inf
    for i in range(count):
        bound = upper(state, places[i], optimism)
        if bound > heap[0]:
            heap[0] = bound
            sift_down(heap, size)
    return heap[0]


@outlined
def find_candidates(state):
    """List the places that can be in the slate at some level of optimism; returns their number.

    Upper bounds grow with optimism, so none is that stays below the k-th highest one at the lowest level.
    """
    pool, candidates = state.sizes[POOL], state.candidates
    for place in range(pool):
        candidates[place] = place
    levels = state.params[LEVELS]
    least = kth_highest(state, candidates, pool, optimism_of(state.params, 0))
    highest = optimism_of(state.params, levels - 1)
    count = 0
    for place in range(pool):
        if upper(state, place, highest) >= least:
            candidates[count] = place
            count += 1
    return count


@outlined
def set_marginals(state, candidates):
    """Set the probability of each eligible action to be in the slate, and to be its first."""
    pool, size = state.sizes[POOL], state.sizes[SLATE]
    uniform = uniform_share(state)
    levels = int(state.params[LEVELS])
    for place in range(pool):
        state.inclusions[place] = uniform * size / pool
        state.firsts[place] = uniform / pool
    share = (1.0 - uniform) / levels
    for level in range(levels):
        optimism = optimism_of(state.params, level)
        least = kth_highest(state, state.candidates, candidates, optimism)
        highest, leading, above, equal = -math.inf, 0, 0, 0
        for i in range(candidates):
            bound = upper(state, state.candidates[i], optimism)
            above += bound > least
            equal += bound == least
            if bound > highest:
                highest, leading = bound, 0
            leading += bound == highest
        for i in range(candidates):
            place = state.candidates[i]
            bound = upper(state, place, optimism)
            if bound > least:
                state.inclusions[place] += share
            elif bound == least:
                state.inclusions[place] += share * (size - above) / equal
            if bound == highest:
                state.firsts[place] += share / leading


@inlined
def uniform_share(state):
    """Share of the slates that are drawn uniformly, so that each action is the first with the least probability."""
    return min(1.0, state.params[LEAST] * state.sizes[POOL])


@inlined
def shuffle_first(state, count, first):
    """Move a uniform draw of so many of the candidates to the front, in random order."""
    for i in range(first):
        other = i + integer_below(state.clock, RANDOM, count - i)
        state.candidates[i], state.candidates[other] = state.candidates[other], state.candidates[i]


@outlined
def draw_slate(state, candidates):
    """Draw a slate: the places of its actions in the pool, the one with the highest upper bound first."""
    pool, size, slate = state.sizes[POOL], state.sizes[SLATE], state.slate
    if unit(state.clock, RANDOM) < uniform_share(state):
        for place in range(pool):
            state.candidates[place] = place
        shuffle_first(state, pool, size)
        for i in range(size):
            slate[i] = state.candidates[i]
        return
    optimism = optimism_of(state.params, integer_below(state.clock, RANDOM, int(state.params[LEVELS])))
    shuffle_first(state, candidates, candidates)  # so that equal ones come in random order
    filled = 0
    for i in range(candidates):
        place = state.candidates[i]
        bound = upper(state, place, optimism)
        if filled < size:
            filled += 1
        elif bound <= state.heap[size - 1]:
            continue
        into = filled - 1
        while into > 0 and state.heap[into - 1] < bound:
            state.heap[into], slate[into] = state.heap[into - 1], slate[into - 1]
            into -= 1
        state.heap[into], slate[into] = bound, place


@outlined
def is_exploration(state):
    """Whether an action of the slate is not among the k with the highest estimates."""
    for place in range(state.sizes[POOL]):
        state.candidates[place] = place
    least = kth_highest(state, state.candidates, state.sizes[POOL], 0.0)
    for i in range(state.sizes[SLATE]):
        if state.estimates[state.slate[i]] < least:
            return True
    return False


@inlined
def choose_slate(state):
    """Draw a slate; returns 2 · its first action, plus 1 when exploring."""
    candidates = find_candidates(state)
    set_marginals(state, candidates)
    draw_slate(state, candidates)
    first = state.slate[0]
    state.chance[0] = state.firsts[first]
    decision = 2 * state.pool[first] + is_exploration(state)
    spread_estimates(state)
    return decision
