"""One step of RELEAF (the paper's Fig. 1): count the last arrival, locate the context, explore or exploit, learn.

Kernels are bare loops. The policies validate user input, except for the range of the context's values, which is fastest
to check here.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.core.releaf import partition
from releaf.core.releaf.cells import clear_slot, find_or_add_rows, find_rows, observe, rows_lacking
from releaf.core.releaf.model import (
    ACTIONS,
    BASE,
    CANDIDATES,
    CHILD,
    CONTROL,
    EXPLOITED,
    EXPLORED,
    FEATURES,
    GAMMA,
    GREEDY,
    HASHED,
    LEAVES,
    LIPSCHITZ,
    LOG_CONFIDENCE,
    NODES,
    OBSERVED,
    PENDING,
    PER,
    RANDOM,
    ROWS_OF,
    SQRT_GAMMA,
    SUBSETS,
    TIME,
    TUPLES,
    UNDER_EXPLORED,
    view,
)
from releaf.core.releaf.vector_lanes import highest, load, lowest, minus, pick, splat, store
from releaf.core.runtime.jit import inlined, outlined
from releaf.core.runtime.random_generator import integer_below

# Return values of an entry point that changed nothing because Python must first grow the arrays.
NODES_LACKING, LEAVES_LACKING, ROWS_LACKING = -1, -2, -3
BAD_VALUE = -4  # and below: BAD_VALUE - feature
_FAR = 1e300


@inlined
def lipschitz_at(m, log_time):
    """Lipschitz constant L, or the slowly growing estimate 1 + ln(t)/2 where L is unknown."""
    known = m.params[LIPSCHITZ]
    return known if known > 0.0 else 1.0 + 0.5 * log_time


@inlined
def count_arrival(m):
    """Count the last context's arrival in its leaves and split those that are full.

    Returns 0, or what is full; then nothing has changed.
    """
    full = False
    for i in range(m.shape[FEATURES]):
        node = m.leaf[i]
        m.arrivals[node] += 1
        full |= m.arrivals[node] >= m.split_at[m.level[node]]
    m.clock[PENDING] = 0
    return split_full(m) if full else 0


@outlined
def split_full(m):
    """Split the full leaves of the last context; without capacity, undo its arrival."""
    lacking = capacity_lacking(m)
    for i in range(m.shape[FEATURES]):
        node = m.leaf[i]
        if lacking != 0:
            m.arrivals[node] -= 1
        elif m.arrivals[node] >= m.split_at[m.level[node]]:
            if m.clock[HASHED] == 0:
                clear_slot(m, i, m.slot[node])
            partition.split(m, i, node)
    m.clock[PENDING] = lacking != 0
    return lacking


@inlined
def capacity_lacking(m):
    """Capacity that the splits of the full leaves lack, or 0."""
    base = m.shape[BASE]
    if m.clock[NODES] + m.shape[FEATURES] * base > m.lengths[CHILD]:
        return NODES_LACKING
    for i in range(m.shape[FEATURES]):
        node = m.leaf[i]
        full = m.arrivals[node] >= m.split_at[m.level[node]]
        if full and m.clock[HASHED] == 0 and m.features[4 * i + LEAVES] + base - 1 > m.caps[i]:
            return LEAVES_LACKING
    return 0


@inlined
def prepare(m, control):
    """Set control number D_{i,t}, length and slot of each feature's leaf."""
    for i in range(m.shape[FEATURES]):
        node = m.leaf[i]
        m.need[i] = control * m.weight[node]
        m.length[i] = m.size[node]
        m.slots[i] = m.slot[node]


@inlined
def scan_pairs(m, first, width):
    """Scan the cell of every pair once: whether all actions have enough observations, and the range of the means.

    For dense cells, and the actions ``first`` … ``first`` + width - 1.
    """
    lanes, stride, features = len(width), 1 + m.shape[ACTIONS], m.shape[FEATURES]
    for i in range(features):
        store(m.low, i * lanes, splat(_FAR, width))
        store(m.high, i * lanes, splat(-_FAR, width))
    enough = True
    pair = 0
    for i in range(features - 1):
        start, need_i = m.slots[i] * m.strides[2 * pair], m.need[i]
        low, high = load(m.low, i * lanes, width), load(m.high, i * lanes, width)
        for j in range(i + 1, features):
            row = m.offsets[pair] + start + m.slots[j]
            m.rows[pair] = row
            pair += 1
            need_j = m.need[j]
            enough &= m.cells[row * stride] >= (need_i if need_i > need_j else need_j)
            mean = load(m.cells, row * stride + 1 + first, width)
            low, high = lowest(mean, low), highest(mean, high)
            store(m.low, j * lanes, lowest(mean, load(m.low, j * lanes, width)))
            store(m.high, j * lanes, highest(mean, load(m.high, j * lanes, width)))
        store(m.low, i * lanes, low)
        store(m.high, i * lanes, high)
    return enough


@inlined
def need_of(m, tuple_index, size):
    """Control number of a tuple's cell: that of its shortest interval."""
    need = 0.0
    for k in range(size):
        other = m.need[m.tuples[tuple_index * size + k]]
        need = other if other > need else need
    return need


@inlined
def scan_tuples(m, first, width, size):
    """Scan as ``scan_pairs`` does, for tuples of any size whose rows are in ``rows``."""
    lanes, stride, subsets = len(width), 1 + m.shape[ACTIONS], m.shape[SUBSETS]
    for v in range(m.shape[CANDIDATES]):
        store(m.low, v * lanes, splat(_FAR, width))
        store(m.high, v * lanes, splat(-_FAR, width))
    enough = True
    for p in range(m.shape[TUPLES]):
        cell = m.rows[p] * stride
        enough &= m.cells[cell] >= need_of(m, p, size)
        mean = load(m.cells, cell + 1 + first, width)
        for k in range(subsets):
            place = np.int64(m.subsets[p * subsets + k]) * lanes
            store(m.low, place, lowest(mean, load(m.low, place, width)))
            store(m.high, place, highest(mean, load(m.high, place, width)))
    return enough


@outlined
def find_under_explored(m, size):
    """Mark the actions of U_t in ``short`` and count them."""
    actions = m.shape[ACTIONS]
    for action in range(actions):
        m.short[action] = 0
    for p in range(m.shape[TUPLES]):
        need, here = need_of(m, p, size), m.rows[p] * actions
        for action in range(actions):
            m.short[action] |= m.counts[here + action] < need
    count = 0
    for action in range(actions):
        count += m.short[action]
    return count


@inlined
def pick_relevant(m, width, limit):
    """Pick the candidate of Rel_t(a) with the smallest variation; the first on ties, -1 if there is none."""
    lanes, gamma = len(width), m.shape[GAMMA]
    smallest, best = splat(_FAR, width), splat(-1.0, width)
    for v in range(m.shape[CANDIDATES]):
        longest = m.length[m.targets[v * gamma]]
        for k in range(1, gamma):
            other = m.length[m.targets[v * gamma + k]]
            longest = other if other > longest else longest
        variation = minus(load(m.high, v * lanes, width), load(m.low, v * lanes, width))
        allowed = splat(limit * longest, width)
        best = pick(variation, allowed, smallest, splat(float(v), width), best)
        smallest = pick(variation, allowed, smallest, variation, smallest)
    store(m.chosen, 0, best)


@inlined
def pick_greedily(m, width):
    """Pick the feature whose interval has the highest mean (Greedy-RELEAF)."""
    lanes = len(width)
    smallest, best = splat(_FAR, width), splat(-1.0, width)
    for v in range(m.shape[CANDIDATES]):
        negated = minus(splat(0.0, width), load(m.high, v * lanes, width))
        best = pick(negated, splat(_FAR, width), smallest, splat(float(v), width), best)
        smallest = pick(negated, splat(_FAR, width), smallest, negated, smallest)
    store(m.chosen, 0, best)


@inlined
def estimate(m, action, candidate):
    """Count-weighted mean over the cells of all tuples that contain the candidate."""
    actions, per = m.shape[ACTIONS], m.shape[PER]
    if per == 1:  # a single cell: its mean as it is, not rounded once more
        return m.cells[m.rows[m.members[candidate]] * (1 + actions) + 1 + action]
    weighted, count = 0.0, np.int64(0)
    for k in range(per):
        row = m.rows[m.members[candidate * per + k]]
        here = m.counts[row * actions + action]
        weighted += m.cells[row * (1 + actions) + 1 + action] * here
        count += here
    return weighted / count


@inlined
def explore(m):
    """Draw one of the under-explored actions uniformly."""
    turn = integer_below(m.clock, RANDOM, m.clock[UNDER_EXPLORED])
    for action in range(m.shape[ACTIONS]):
        turn -= m.short[action]
        if turn < 0:
            return action
    return -1


@inlined
def exploit(m):
    """Choose the action with the highest estimate, the first on ties."""
    features, gamma = m.shape[FEATURES], m.shape[GAMMA]
    m.clock[EXPLOITED] += 1
    winner, highest_estimate = 0, -_FAR
    for action in range(m.shape[ACTIONS]):
        candidate = m.relevant[action]
        if candidate >= 0:
            for k in range(gamma):
                m.relevance[action * features + m.targets[candidate * gamma + k]] += 1
        else:
            candidate = integer_below(m.clock, RANDOM, m.shape[CANDIDATES])
        value = estimate(m, action, candidate)
        m.estimates[action] = value
        winner = action if value > highest_estimate else winner
        highest_estimate = value if value > highest_estimate else highest_estimate
    return winner


@inlined
def choose(m, width, size):
    """Decide for the context whose leaves are in ``leaf``: 2 · action, plus 1 when exploring."""
    m.clock[TIME] += 1
    m.clock[PENDING] = 1
    actions, lanes, tuple_size = m.shape[ACTIONS], len(width), len(size)
    log_time = math.log(m.clock[TIME])
    lipschitz = lipschitz_at(m, log_time)
    prepare(m, m.params[CONTROL] * (log_time + m.params[LOG_CONFIDENCE]) / (lipschitz * lipschitz))
    dense = m.clock[HASHED] == 0
    m.clock[ROWS_OF] = m.clock[TIME] if dense else 0  # hashed cells may not exist yet
    pairs = tuple_size == 2 and dense
    if not pairs:
        find_rows(m, tuple_size, m.leaf)
    for first in range(0, actions, lanes):
        enough = scan_pairs(m, first, width) if pairs else scan_tuples(m, first, width, tuple_size)
        if not enough:
            m.clock[UNDER_EXPLORED] = find_under_explored(m, tuple_size)
            m.clock[EXPLORED] += 1
            return 2 * explore(m) + 1
        if m.shape[GREEDY]:
            pick_greedily(m, width)
        else:
            pick_relevant(m, width, 3.0 * lipschitz * m.params[SQRT_GAMMA])
        for action in range(first, min(first + lanes, actions)):
            m.relevant[action] = np.int64(m.chosen[action - first])
    m.clock[UNDER_EXPLORED] = 0
    return 2 * exploit(m)


@inlined
def decide(pointer_table, context, width, size):
    """Decide for one context. Negative where Python must first grow the arrays; then nothing has changed."""
    m = view(pointer_table)
    bad = partition.check(m, context)
    if bad >= 0:
        return BAD_VALUE - bad
    if m.clock[PENDING]:
        lacking = count_arrival(m)
        if lacking != 0:
            return lacking
    partition.locate(m, context, m.leaf)
    return choose(m, width, size)


@inlined
def locate_cells(m, context, step, size):
    """Find or add the cells that hold the context of decision ``step`` now. False without capacity."""
    if m.clock[ROWS_OF] == step:  # the latest decision: its cells are cached
        return True
    if rows_lacking(m):
        return False
    partition.locate(m, context, m.spot)
    find_or_add_rows(m, len(size), m.spot)
    m.clock[ROWS_OF] = 0
    return True


@inlined
def learn(pointer_table, context, step, action, reward, width, size):
    """Learn the reward of one action, in the cells that hold the context now."""
    m = view(pointer_table)
    if not locate_cells(m, context, step, size):
        return ROWS_LACKING
    m.clock[OBSERVED] += 1
    observe(m, action, reward, width)
    return 0


@inlined
def learn_all(pointer_table, context, step, rewards, width, size):
    """Learn the rewards of all actions, in the cells that hold the context now."""
    m = view(pointer_table)
    if not locate_cells(m, context, step, size):
        return ROWS_LACKING
    m.clock[OBSERVED] += 1
    for action in range(len(rewards)):
        observe(m, action, rewards[action], width)
    return 0
