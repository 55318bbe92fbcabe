"""Whole streams and logs at once: the same steps as one by one, compiled into one loop."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.core.releaf import partition
from releaf.core.releaf.cells import claim_rows, observe, rows_lacking
from releaf.core.releaf.decision_step import BAD_VALUE, ROWS_LACKING, choose, count_arrival
from releaf.core.releaf.model import (
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
    TUPLES,
    view,
)
from releaf.core.runtime.jit import inner


@inner
def observes_always(m):
    """Whether exploitations show rewards too (RELEAF-ALL, labels)."""
    return m.shape[OBSERVE] == OBSERVE_ALWAYS or m.shape[OBSERVE] == OBSERVE_LABELS


@inner
def observes_all_actions(m):
    """Whether the rewards of all actions are seen (RELEAF-FO, labels)."""
    return m.shape[OBSERVE] == OBSERVE_ALL_ACTIONS or m.shape[OBSERVE] == OBSERVE_LABELS


@inner
def take_in(m, rewards, action, width, size):
    """Take in the reward of the chosen action, or of all, in the cells that were just decided on."""
    if m.clock[HASHED]:
        claim_rows(m, len(size), m.leaf)
    m.clock[OBSERVED] += 1
    if observes_all_actions(m):
        for other in range(m.shape[ACTIONS]):
            observe(m, other, rewards[other], width)
    else:
        observe(m, action, rewards[action], width)


@inner
def unknown_reward(m, rewards, action):
    """Whether a reward that is to be observed is NaN."""
    if observes_all_actions(m):
        for other in range(m.shape[ACTIONS]):
            if math.isnan(rewards[other]):
                return True
        return False
    return math.isnan(rewards[action])


@inner
def replay(book, contexts, rewards, start, decided, actions, explored, observed, width, size):
    """Live through a stream from row ``start`` on, which may be ``decided`` already.

    Returns (row reached, what is lacking there, or 0). ROWS_LACKING leaves that row decided and its reward not yet
    taken in. A row whose reward is needed but NaN ends the stream with BAD_VALUE, and the caller restores the model.
    """
    m = view(book)
    for t in range(start, len(contexts)):
        if not (decided and t == start):
            if m.clock[PENDING]:
                lacking = count_arrival(m)
                if lacking != 0:
                    return t, lacking
            partition.locate(m, contexts[t], m.leaf)
            decision = choose(m, width, size)
            actions[t] = decision >> 1
            explored[t] = decision & 1
            observed[t] = (decision & 1) or observes_always(m)
        if observed[t]:
            if unknown_reward(m, rewards[t], actions[t]):
                return t, BAD_VALUE
            if rows_lacking(m):
                return t, ROWS_LACKING
            take_in(m, rewards[t], actions[t], width, size)
    return len(contexts), 0


@inner
def learn_log(book, contexts, taken, rewards, start, decided, width, size):
    """Live through a log: decide as ever, and take in the reward of the action that was taken instead.

    Returns (row reached, what is lacking there, or 0) as ``replay`` does.
    """
    m = view(book)
    for t in range(start, len(contexts)):
        if not (decided and t == start):
            if m.clock[PENDING]:
                lacking = count_arrival(m)
                if lacking != 0:
                    return t, lacking
            partition.locate(m, contexts[t], m.leaf)
            choose(m, width, size)
        if rows_lacking(m):
            return t, ROWS_LACKING
        if m.clock[HASHED]:
            claim_rows(m, len(size), m.leaf)
        m.clock[OBSERVED] += 1
        observe(m, taken[t], rewards[t], width)
    return len(contexts), 0


@inner
def estimate_all(book, contexts, estimates, width, size):
    """What is expected of each action in many contexts, as if each came next; the caller restores what that changes.

    Where the context would be explored: the mean over all its cells, NaN where they have no observation.
    """
    m = view(book)
    time, random = m.clock[TIME], m.clock[RANDOM]
    for t in range(len(contexts)):
        m.clock[TIME], m.clock[RANDOM] = time, random
        partition.locate(m, contexts[t], m.leaf)
        explores = choose(m, width, size) & 1 == 1
        for action in range(m.shape[ACTIONS]):
            estimates[t, action] = mean_around(m, action) if explores else m.estimates[action]


@inner
def mean_around(m, action):
    """The count-weighted mean of an action over all cells of the context at hand."""
    actions, total, count = m.shape[ACTIONS], 0.0, np.int64(0)
    for p in range(m.shape[TUPLES]):
        row = m.rows[p]
        here = m.counts[row * actions + action]
        total += m.cells[row * (1 + actions) + 1 + action] * here
        count += here
    return total / count if count > 0 else math.nan
