"""Regression with shared weights and weights of each action (Li et al. 2010, Algorithm 2): decisions and learning.

With x the columns of the context and z the products of x and the action's columns, the expected reward is
zᵀβ + xᵀθₐ. Of each action A⁻¹ (``own_inverse``), b (``own_sums``) and B (``crossed``) are kept; of all together A₀⁻¹
(``inverse``) and β (``weights``). With g = A⁻¹x and v = z − Bᵀg the estimate is vᵀβ + gᵀb, its variance vᵀA₀⁻¹v + gᵀx,
and a reward adds v vᵀ / (1 + gᵀx) to A₀, so that one update of rank one does.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.arrays import Array
from releaf.core.joint.columns import lay_out
from releaf.core.joint.decision_step import BLOCK, multiply
from releaf.core.joint.slates import POOL, choose_slate, note_eligible, set_pool
from releaf.core.joint.state import JointSettings, Scores, new_scores
from releaf.core.runtime.entry_points import EntryPoints
from releaf.core.runtime.jit import entry_point, inlined, outlined
from releaf.core.runtime.state import constant, learnt, scratch


class Hybrid(Scores):
    """State of the hybrid regression; ``params`` has twice α, so that optimism has one level."""

    ridge: Array = constant(np.float64, 1)
    inverse: Array = learnt(np.float64, "terms", "terms")
    weights: Array = learnt(np.float64, "terms")
    counts: Array = learnt(np.float64, "actions", least=0.0)
    own_inverse: Array = learnt(np.float64, "actions", "context columns", "context columns")
    own_sums: Array = learnt(np.float64, "actions", "context columns")
    crossed: Array = learnt(np.float64, "actions", "context columns", "terms")
    gain: Array = scratch(np.float64, "context columns")
    row: Array = scratch(np.float64, "terms")
    push: Array = scratch(np.float64, "terms")
    block: Array = scratch(np.float64, "terms", BLOCK)
    sums: Array = scratch(np.float64, BLOCK)


@inlined
def set_row(state, action, profile, columns):
    """Set g and v of an action in a context with these columns; -1 stands for an action without rewards."""
    gain, row = state.gain, state.row
    for k in range(len(row)):
        row[k] = columns[state.term_context[k]] * profile[state.term_action[k]]
    if action < 0:
        for i in range(len(gain)):
            gain[i] = columns[i] / state.ridge[0]
        return
    multiply(state.own_inverse[action], columns, gain)
    if state.counts[action] > 0.0:
        for i in range(len(gain)):
            factor, line = gain[i], state.crossed[action, i]
            for k in range(len(row)):
                row[k] -= factor * line[k]


@outlined
def score_block(state, start, size):
    """Set estimates and bonuses of so many eligible actions."""
    terms, block, sums = len(state.weights), state.block, state.sums
    estimates, bonuses = state.estimates[start : start + size], state.bonuses[start : start + size]
    for place in range(size):
        action = state.pool[start + place]
        set_row(state, action, state.profiles[action], state.columns)
        estimates[place] = bonuses[place] = 0.0
        for i in range(len(state.gain)):
            estimates[place] += state.gain[i] * state.own_sums[action, i]
            bonuses[place] += state.gain[i] * state.columns[i]
        for k in range(terms):
            block[k, place] = state.row[k]
    for k in range(terms):
        own, line, weight = block[k], state.inverse[k], state.weights[k]
        for place in range(size):
            sums[place] = 0.5 * line[k] * own[place]
        for other in range(k):
            factor, beside = line[other], block[other]
            for place in range(size):
                sums[place] += factor * beside[place]
        for place in range(size):
            estimates[place] += weight * own[place]
            bonuses[place] += 2.0 * sums[place] * own[place]
    for place in range(size):
        bonuses[place] = math.sqrt(max(bonuses[place], 0.0))


@outlined
def score(state, context):
    """Set estimates and bonuses of the eligible actions."""
    set_pool(state)
    lay_out(state.layout_of_context, context, state.columns)
    start, pool = 0, state.sizes[POOL]
    while start < pool:
        score_block(state, start, min(np.int64(BLOCK), pool - start))
        start += BLOCK


@inlined
def observe_context(state, context):
    note_eligible(state)


@inlined
def choose(state, context):
    note_eligible(state)
    score(state, context)
    return choose_slate(state)


@inlined
def add_shared(state, target, spread):
    """Update the shared weights by a row of weight 1 / (1 + spread) (Sherman–Morrison)."""
    row, push = state.row, state.push
    multiply(state.inverse, row, push)
    fitted = 0.0
    for k in range(len(row)):
        fitted += state.weights[k] * row[k]
        spread += push[k] * row[k]
    scale = 1.0 / (1.0 + spread)
    step = (target - fitted) * scale
    for k in range(len(row)):
        state.weights[k] += push[k] * step
        line = state.inverse[k]
        for i in range(len(row)):
            line[i] -= push[k] * push[i] * scale  # the same bits for (i, k) and (k, i): it stays symmetric


@inlined
def add_own(state, action, profile, reward, spread):
    """Update the sums and the inverse of an action."""
    gain, columns = state.gain, state.columns
    scale = 1.0 / (1.0 + spread)
    for i in range(len(gain)):
        line, crossed = state.own_inverse[action, i], state.crossed[action, i]
        for j in range(len(gain)):
            line[j] -= gain[i] * gain[j] * scale
        state.own_sums[action, i] += reward * columns[i]
        for k in range(len(crossed)):
            crossed[k] += columns[i] * columns[state.term_context[k]] * profile[state.term_action[k]]
    state.counts[action] += 1.0


@outlined
def learn_reward(state, context, action, profile, reward):
    """Learn the reward of an action with these columns; -1 stands for an action that has been removed."""
    lay_out(state.layout_of_context, context, state.columns)
    set_row(state, action, profile, state.columns)
    spread, known = 0.0, 0.0
    for i in range(len(state.gain)):
        spread += state.gain[i] * state.columns[i]
        if action >= 0:
            known += state.gain[i] * state.own_sums[action, i]
    add_shared(state, reward - known, spread)
    if action >= 0:
        add_own(state, action, profile, reward, spread)


@inlined
def update(state, context, step, action, reward):
    learn_reward(state, context, action, state.profiles[action], reward)


HYBRID = EntryPoints(choose, update, Hybrid, observe_context=observe_context)
_open = Hybrid.open


@entry_point
def learn_hybrid(pointer_table, context, action, profile, reward):
    """Learn the reward of an action that had these columns when it was chosen."""
    learn_reward(_open(pointer_table), context, action, profile, reward)


@entry_point
def estimate_hybrid(pointer_table, contexts, estimates, spreads):
    """Estimates and their standard deviations, of all actions in many contexts."""
    state = _open(pointer_table)
    for row in range(len(contexts)):
        score(state, contexts[row])
        for action in range(len(state.estimates)):
            estimates[row, action] = state.estimates[action]
            spreads[row, action] = state.bonuses[action]


def new_hybrid(settings: JointSettings, profiles: Array, ridge: float) -> Hybrid:
    """Initial state for actions with these columns."""
    terms, actions = settings.terms(), len(profiles)
    scores = new_scores(settings, profiles, terms)
    count, width = len(terms.context), len(scores["columns"])
    return Hybrid(
        **scores,
        ridge=np.array([ridge]),
        inverse=np.eye(count) / ridge,
        weights=np.zeros(count),
        counts=np.zeros(actions),
        own_inverse=np.repeat(np.eye(width)[None] / ridge, actions, axis=0),
        own_sums=np.zeros((actions, width)),
        crossed=np.zeros((actions, width, count)),
        gain=np.zeros(width),
        row=np.zeros(count),
        push=np.zeros(count),
        block=np.zeros((count, BLOCK)),
        sums=np.zeros(BLOCK),
    )
