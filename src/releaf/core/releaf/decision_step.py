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
from releaf.core.releaf.state import (
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
    NO_CANDIDATE,
    NODES,
    NOT_SOUGHT,
    OBSERVED,
    PENDING,
    PER,
    RANDOM,
    ROWS_OF,
    SQRT_GAMMA,
    SUBSETS,
    TIME,
    TUPLE_SIZE,
    TUPLES,
    UNDER_EXPLORED,
    open_state,
)
from releaf.core.runtime.jit import entry_point, inlined, outlined
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
def find_pairs(m):
    """Write the dense cell of every pair of features to ``rows``; whether every action has enough rewards there."""
    stride, features = 1 + m.shape[ACTIONS], m.shape[FEATURES]
    enough = True
    pair = 0
    for i in range(features - 1):
        start, need_i = m.slots[i] * m.strides[2 * pair], m.need[i]
        for j in range(i + 1, features):
            row = m.offsets[pair] + start + m.slots[j]
            m.rows[pair] = row
            pair += 1
            need_j = m.need[j]
            enough &= m.cells[row * stride] >= (need_i if need_i > need_j else need_j)
    return enough


@inlined
def need_of(m, tuple_index, size):
    """Control number of a tuple's cell: that of its shortest interval."""
    need = 0.0
    for k in range(size):
        other = m.need[m.tuples[tuple_index * size + k]]
        need = other if other > need else need
    return need


@outlined
def find_tuples(m, size):
    """Write the cell of every tuple to ``rows``; whether every action has enough rewards there."""
    find_rows(m, size, m.leaf)
    stride, enough = 1 + m.shape[ACTIONS], True
    for p in range(m.shape[TUPLES]):
        enough &= m.cells[m.rows[p] * stride] >= need_of(m, p, size)
    return enough


@inlined
def range_over_pairs(m, action):
    """Set the range of the action's means, ``low`` to ``high``, over the pairs that contain each feature."""
    stride, features, lows, highs = 1 + m.shape[ACTIONS], m.shape[FEATURES], m.low, m.high
    for i in range(features):
        lows[i], highs[i] = _FAR, -_FAR
    pair, column = 0, 1 + action
    for i in range(features - 1):
        low, high = lows[i], highs[i]
        for j in range(i + 1, features):
            mean = m.cells[m.rows[pair] * stride + column]
            pair += 1
            low = mean if mean < low else low
            high = mean if mean > high else high
            lows[j] = mean if mean < lows[j] else lows[j]
            highs[j] = mean if mean > highs[j] else highs[j]
        lows[i], highs[i] = low, high


@outlined
def range_over_tuples(m, action):
    """Set the range of the action's means, ``low`` to ``high``, over the tuples that contain each candidate."""
    stride, subsets = 1 + m.shape[ACTIONS], m.shape[SUBSETS]
    for v in range(m.shape[CANDIDATES]):
        m.low[v], m.high[v] = _FAR, -_FAR
    for p in range(m.shape[TUPLES]):
        mean = m.cells[m.rows[p] * stride + 1 + action]
        for k in range(subsets):
            v = m.subsets[p * subsets + k]
            m.low[v] = mean if mean < m.low[v] else m.low[v]
            m.high[v] = mean if mean > m.high[v] else m.high[v]


@outlined
def find_under_explored(m, size):
    """Mark the eligible actions of U_t in ``short`` and count them."""
    actions = m.shape[ACTIONS]
    for action in range(actions):
        m.short[action] = 0
    for p in range(m.shape[TUPLES]):
        need, here = need_of(m, p, size), m.rows[p] * actions
        for action in range(actions):
            m.short[action] |= m.counts[here + action] < need
    count = 0
    for action in range(actions):
        if m.eligible[action] == 0:
            m.short[action] = 0
        count += m.short[action]
    return count


@inlined
def most_relevant(m, limit):
    """Candidate of Rel_t(a) with the smallest variation; the first on ties, NO_CANDIDATE if there is none."""
    gamma = m.shape[GAMMA]
    best, smallest = NO_CANDIDATE, _FAR
    for v in range(m.shape[CANDIDATES]):
        longest = m.length[m.targets[v * gamma]]
        for k in range(1, gamma):
            other = m.length[m.targets[v * gamma + k]]
            longest = other if other > longest else longest
        variation = m.high[v] - m.low[v]
        if variation <= limit * longest and variation < smallest:
            best, smallest = v, variation
    return best


@inlined
def highest_candidate(m):
    """Feature whose interval has the highest mean (Greedy-RELEAF); the first on ties."""
    best, highest = -1, -_FAR
    for v in range(m.shape[CANDIDATES]):
        if m.high[v] > highest:
            best, highest = v, m.high[v]
    return best


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
def mean_around(m, action):
    """Count-weighted mean of an action over all cells of the current context; NaN without observations."""
    actions, total, count = m.shape[ACTIONS], 0.0, np.int64(0)
    for p in range(m.shape[TUPLES]):
        row = m.rows[p]
        here = m.counts[row * actions + action]
        total += m.cells[row * (1 + actions) + 1 + action] * here
        count += here
    return total / count if count > 0 else math.nan


@inlined
def count_eligible(m):
    count = 0
    for action in range(m.shape[ACTIONS]):
        count += m.eligible[action] != 0
    return count


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
    """Choose the eligible action with the highest estimate, the first on ties.

    An action whose relevant features were not sought has the mean over all cells of the context instead, for the user
    only, and this exploitation does not count for its relevance.
    """
    features, gamma = m.shape[FEATURES], m.shape[GAMMA]
    m.clock[EXPLOITED] += 1
    winner, highest_estimate = 0, -_FAR
    for action in range(m.shape[ACTIONS]):
        candidate = m.relevant[action]
        if candidate == NOT_SOUGHT:
            m.added_at[action] += 1
            value = mean_around(m, action)
            value = 0.5 if math.isnan(value) else value
        else:
            if candidate >= 0:
                for k in range(gamma):
                    m.relevance[action * features + m.targets[candidate * gamma + k]] += 1
            else:
                candidate = integer_below(m.clock, RANDOM, m.shape[CANDIDATES])
            value = estimate(m, action, candidate)
        m.estimates[action] = value
        if m.eligible[action]:
            winner = action if value > highest_estimate else winner
            highest_estimate = value if value > highest_estimate else highest_estimate
    return winner


@outlined
def choose(m):
    """Decide for the context whose leaves are in ``leaf``: 2 · action, plus 1 when exploring.

    The only eligible one of several actions is no exploration, and its relevant features do not matter.
    """
    m.clock[TIME] += 1
    m.clock[PENDING] = 1
    size = m.shape[TUPLE_SIZE]
    log_time = math.log(m.clock[TIME])
    lipschitz = lipschitz_at(m, log_time)
    prepare(m, m.params[CONTROL] * (log_time + m.params[LOG_CONFIDENCE]) / (lipschitz * lipschitz))
    dense = m.clock[HASHED] == 0
    m.clock[ROWS_OF] = m.clock[TIME] if dense else 0  # hashed cells may not exist yet
    pairs = size == 2 and dense
    enough = find_pairs(m) if pairs else find_tuples(m, size)
    is_forced = m.shape[ACTIONS] > 1 and count_eligible(m) == 1
    if not enough and not is_forced:
        m.clock[UNDER_EXPLORED] = find_under_explored(m, size)
        if m.clock[UNDER_EXPLORED] > 0:
            m.clock[EXPLORED] += 1
            return 2 * explore(m) + 1
    for action in range(m.shape[ACTIONS]):
        if is_forced or m.eligible[action] == 0:
            m.relevant[action] = NOT_SOUGHT
            continue
        if pairs:
            range_over_pairs(m, action)
        else:
            range_over_tuples(m, action)
        if m.shape[GREEDY]:
            m.relevant[action] = highest_candidate(m)
        else:
            m.relevant[action] = most_relevant(m, 3.0 * lipschitz * m.params[SQRT_GAMMA])
    m.clock[UNDER_EXPLORED] = 0
    return 2 * exploit(m)


@entry_point
def decide(pointer_table, context):
    """Decide for one context. Negative where Python must first grow the arrays; then nothing has changed."""
    m = open_state(pointer_table)
    bad = partition.check(m, context)
    if bad >= 0:
        return BAD_VALUE - bad
    if m.clock[PENDING]:
        lacking = count_arrival(m)
        if lacking != 0:
            return lacking
    partition.locate(m, context, m.leaf)
    return choose(m)


@inlined
def locate_cells(m, context, step):
    """Find or add the cells that hold the context of decision ``step`` now. False without capacity."""
    if m.clock[ROWS_OF] == step:  # the latest decision: its cells are cached
        return True
    if rows_lacking(m):
        return False
    partition.locate(m, context, m.spot)
    find_or_add_rows(m, m.shape[TUPLE_SIZE], m.spot)
    m.clock[ROWS_OF] = 0
    return True


@entry_point
def learn(pointer_table, context, step, action, reward):
    """Learn the reward of one action, in the cells that hold the context now."""
    m = open_state(pointer_table)
    if not locate_cells(m, context, step):
        return ROWS_LACKING
    m.clock[OBSERVED] += 1
    observe(m, action, reward)
    return 0


@entry_point
def learn_all(pointer_table, context, step, rewards):
    """Learn the rewards of all eligible actions, in the cells that hold the context now."""
    m = open_state(pointer_table)
    if not locate_cells(m, context, step):
        return ROWS_LACKING
    m.clock[OBSERVED] += 1
    for action in range(len(rewards)):
        if m.eligible[action]:
            observe(m, action, rewards[action])
    return 0
