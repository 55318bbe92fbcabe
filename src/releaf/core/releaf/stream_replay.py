"""Replay of whole streams and logs in one compiled loop, with the same steps as one by one."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

from releaf.core.releaf import partition
from releaf.core.releaf.cells import find_or_add_rows, observe, rows_lacking
from releaf.core.releaf.decision_step import BAD_VALUE, ROWS_LACKING, choose, count_arrival, mean_around
from releaf.core.releaf.state import (
    ACTIONS,
    HASHED,
    OBSERVE,
    OBSERVE_ALL_ACTIONS,
    OBSERVE_ALWAYS,
    OBSERVE_LABELS,
    OBSERVED,
    PENDING,
    RANDOM,
    TIME,
    TUPLE_SIZE,
    open_state,
)
from releaf.core.runtime.jit import entry_point, inlined


@inlined
def observes_always(m):
    """Whether rewards of exploitations are observed too (RELEAF-ALL, labels)."""
    return m.shape[OBSERVE] == OBSERVE_ALWAYS or m.shape[OBSERVE] == OBSERVE_LABELS


@inlined
def observes_all_actions(m):
    """Whether the rewards of all actions are observed (RELEAF-FO, labels)."""
    return m.shape[OBSERVE] == OBSERVE_ALL_ACTIONS or m.shape[OBSERVE] == OBSERVE_LABELS


@inlined
def learn_rewards(m, rewards, action):
    """Learn the reward of the chosen action, or of all, in the cells of the latest decision."""
    if m.clock[HASHED]:
        find_or_add_rows(m, m.shape[TUPLE_SIZE], m.leaf)
    m.clock[OBSERVED] += 1
    if observes_all_actions(m):
        for other in range(m.shape[ACTIONS]):
            if m.eligible[other]:
                observe(m, other, rewards[other])
    else:
        observe(m, action, rewards[action])


@inlined
def unknown_reward(m, rewards, action):
    """Whether a reward that is to be observed is NaN."""
    if observes_all_actions(m):
        for other in range(m.shape[ACTIONS]):
            if m.eligible[other] and math.isnan(rewards[other]):
                return True
        return False
    return math.isnan(rewards[action])


@entry_point
def replay(pointer_table, contexts, rewards, masks, start, decided, actions, explored, observed):
    """Replay a stream from row ``start`` on, which may be ``decided`` already; ``masks`` without rows restrict none.

    Returns (row reached, what is full there, or 0). After ROWS_LACKING that row is decided and its reward not yet
    learnt. A row whose needed reward is NaN ends the stream with BAD_VALUE, and the caller restores the state.
    """
    m = open_state(pointer_table)
    for t in range(start, len(contexts)):
        if len(masks) > 0:
            for action in range(m.shape[ACTIONS]):
                m.eligible[action] = masks[t, action]
        if not (decided and t == start):
            if m.clock[PENDING]:
                lacking = count_arrival(m)
                if lacking != 0:
                    return t, lacking
            partition.locate(m, contexts[t], m.leaf)
            decision = choose(m)
            actions[t] = decision >> 1
            explored[t] = decision & 1
            observed[t] = (decision & 1) or observes_always(m)
        if observed[t]:
            if unknown_reward(m, rewards[t], actions[t]):
                return t, BAD_VALUE
            if rows_lacking(m):
                return t, ROWS_LACKING
            learn_rewards(m, rewards[t], actions[t])
    return len(contexts), 0


@entry_point
def learn_log(pointer_table, contexts, taken, rewards, start, decided):
    """Replay a log: decide as usual, and learn the reward of the logged action instead.

    Returns (row reached, what is full there, or 0) as ``replay`` does.
    """
    m = open_state(pointer_table)
    for t in range(start, len(contexts)):
        if not (decided and t == start):
            if m.clock[PENDING]:
                lacking = count_arrival(m)
                if lacking != 0:
                    return t, lacking
            partition.locate(m, contexts[t], m.leaf)
            choose(m)
        if rows_lacking(m):
            return t, ROWS_LACKING
        if m.clock[HASHED]:
            find_or_add_rows(m, m.shape[TUPLE_SIZE], m.leaf)
        m.clock[OBSERVED] += 1
        observe(m, taken[t], rewards[t])
    return len(contexts), 0


@entry_point
def estimate_all(pointer_table, contexts, estimates):
    """Estimate each action's reward in many contexts, as if each came next; the caller restores the changed counters.

    Where the learner would explore: the mean over all cells of the context, NaN without observations.
    """
    m = open_state(pointer_table)
    time, random = m.clock[TIME], m.clock[RANDOM]
    for t in range(len(contexts)):
        m.clock[TIME], m.clock[RANDOM] = time, random
        partition.locate(m, contexts[t], m.leaf)
        explores = choose(m) & 1 == 1
        for action in range(m.shape[ACTIONS]):
            estimates[t, action] = mean_around(m, action) if explores else m.estimates[action]
