"""Decision and learning step of the joint regression.

The estimate of an action with columns f in a context with columns x is Σ w x f over the terms, plus the action's own
effect. The context is the same for all actions, so that sums over terms become a vector m and a matrix M of the size
of f, once for a decision; each action then costs m·f for its estimate and fᵀMf for its variance.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.core.joint.columns import lay_out
from releaf.core.joint.fitting import fit
from releaf.core.joint.slates import POOL, choose_slate, note_eligible, set_pool
from releaf.core.joint.state import EFFECT_VARIANCE, NEXT, REWARDS, SQUARES, VARIANCE, Joint
from releaf.core.runtime.entry_points import EntryPoints
from releaf.core.runtime.jit import entry_point, inlined, outlined

BLOCK = 64  # actions that are scored at once, so that loops over them vectorize
CENTRE = 0.5  # what a reward is before anything is known
GROWTH = 1.5  # of the rewards from one fit to the next


@inlined
def multiply(matrix, row, product):
    """Multiply a symmetric matrix by a vector; row by row, so that it vectorizes and zero entries cost nothing."""
    for i in range(len(row)):
        product[i] = 0.0
    for j in range(len(row)):
        factor = row[j]
        if factor != 0.0:
            line = matrix[j]
            for i in range(len(row)):
                product[i] += line[i] * factor


@outlined
def contract(state):
    """Set the mean vector m and the spread matrix M of a context's columns."""
    blocks, columns, push = state.blocks, state.columns, state.push
    terms = len(state.weights)
    for j in range(len(state.mean)):
        total = 0.0
        for i in range(terms):
            push[i] = 0.0
        for k in range(blocks[j], blocks[j + 1]):
            factor = columns[state.term_context[k]]
            if factor != 0.0:
                total += state.weights[k] * factor
                line = state.covariance[k]
                for i in range(blocks[j + 1]):  # the lower half of M
                    push[i] += line[i] * factor
        state.mean[j] = total
        for other in range(j + 1):
            total = 0.0
            for k in range(blocks[other], blocks[other + 1]):
                total += push[k] * columns[state.term_context[k]]
            state.spread[j, other] = total if other == j else 2.0 * total


@outlined
def score_block(state, start, size):
    """Set estimates and bonuses of so many eligible actions."""
    width, block = len(state.mean), state.block
    for i in range(size):
        action = state.pool[start + i]
        state.estimates[start + i] = CENTRE + state.effects[action]
        state.bonuses[start + i] = effect_variance(state, state.counts[action])
        for j in range(width):
            block[j, i] = state.profiles[action, j]
    estimates, bonuses = state.estimates[start : start + size], state.bonuses[start : start + size]
    for j in range(width):
        own, mean = block[j], state.mean[j]
        for i in range(size):
            estimates[i] += mean * own[i]
        for other in range(j + 1):
            factor, line = state.spread[j, other], block[other]
            for i in range(size):
                bonuses[i] += factor * own[i] * line[i]
    for i in range(size):
        bonuses[i] = math.sqrt(max(bonuses[i], 0.0))


@inlined
def effect_variance(state, count):
    """Variance of an action's effect after so many rewards."""
    variance, prior = state.numbers[VARIANCE], state.numbers[EFFECT_VARIANCE]
    return variance * prior / (variance + count * prior)


@outlined
def score(state, context):
    """Set estimates and bonuses of the eligible actions."""
    set_pool(state)
    lay_out(state.layout_of_context, context, state.columns)
    contract(state)
    start, pool = 0, state.sizes[POOL]
    while start < pool:
        score_block(state, start, min(np.int64(BLOCK), pool - start))
        start += BLOCK


@inlined
def observe_context(state, context):
    """Count a context, for the variances of its columns, and note the eligible actions."""
    note_eligible(state)
    lay_out(state.layout_of_context, context, state.columns)
    for i in range(len(state.columns)):
        state.seen[0, i] += state.columns[i]
        state.seen[1, i] += state.columns[i] * state.columns[i]


@inlined
def choose(state, context):
    observe_context(state, context)
    score(state, context)
    decision = choose_slate(state)
    return decision | (state.numbers[REWARDS] == 0.0)


@inlined
def product_with_sums(state, action, profile):
    """Product of the weights and the sum of the terms over an action's rewards."""
    total = 0.0
    for k in range(len(state.weights)):
        total += state.weights[k] * state.context_sums[action, state.term_context[k]] * profile[state.term_action[k]]
    return total


@inlined
def learn_effect(state, action, profile, target):
    """Count a reward of an action, and set its effect by the weights of now."""
    state.counts[action] += 1.0
    state.sums[action] += target
    for i in range(len(state.columns)):
        state.context_sums[action, i] += state.columns[i]
    prior = state.numbers[VARIANCE] / state.numbers[EFFECT_VARIANCE]
    rest = state.sums[action] - product_with_sums(state, action, profile)
    state.effects[action] = rest / (state.counts[action] + prior)


@outlined
def learn_reward(state, context, action, profile, reward):
    """Learn the reward of an action with these columns; -1 stands for an action that has been removed.

    With n rewards of the action before, and c = n + σ²/τ², its effect takes a part of the reward. What remains is
    a reward of weight c / (c + 1) for the terms less their sum over the action's rewards over c: the posterior of the
    weights is that of a random effect for each action.
    """
    lay_out(state.layout_of_context, context, state.columns)
    row, push = state.row, state.push
    target, weight, gone = reward - CENTRE, 1.0, 0.0
    if action >= 0:
        counted = state.counts[action] + state.numbers[VARIANCE] / state.numbers[EFFECT_VARIANCE]
        weight, gone = counted / (counted + 1.0), 1.0 / counted
        target -= state.sums[action] * gone
    for k in range(len(row)):
        i = state.term_context[k]
        column = state.columns[i]
        if action >= 0:
            column -= state.context_sums[action, i] * gone
        row[k] = column * profile[state.term_action[k]]
    add_row(state, row, push, target, weight)
    if action >= 0:
        learn_effect(state, action, profile, reward - CENTRE)
    state.numbers[REWARDS] += 1.0
    if state.numbers[REWARDS] >= state.numbers[NEXT]:
        fit(state)
        state.numbers[NEXT] = math.ceil(GROWTH * state.numbers[REWARDS])


@inlined
def add_row(state, row, push, target, weight):
    """Add a row to the sums, and update the posterior by it (Sherman–Morrison)."""
    multiply(state.covariance, row, push)
    fitted, spread = 0.0, 0.0
    for k in range(len(row)):
        fitted += state.weights[k] * row[k]
        spread += push[k] * row[k]
    scale = 1.0 / (state.numbers[VARIANCE] / weight + spread)
    step = (target - fitted) * scale
    for k in range(len(row)):
        factor = weight * row[k]
        state.weights[k] += push[k] * step
        state.moment[k] += factor * target
        line = state.covariance[k]
        for i in range(len(row)):
            line[i] -= push[k] * push[i] * scale  # the same bits for (i, k) and (k, i): it stays symmetric
        if factor != 0.0:
            line = state.gram[k]
            for i in range(k + 1):
                line[i] += factor * row[i]
    state.numbers[SQUARES] += weight * target * target


@inlined
def update(state, context, step, action, reward):
    learn_reward(state, context, action, state.profiles[action], reward)


JOINT = EntryPoints(choose, update, Joint, observe_context=observe_context)
_open = Joint.open


@entry_point
def learn_with_profile(pointer_table, context, action, profile, reward):
    """Learn the reward of an action that had these columns when it was chosen."""
    learn_reward(_open(pointer_table), context, action, profile, reward)


@entry_point
def estimate_all(pointer_table, contexts, estimates, spreads):
    """Estimates and their standard deviations, of all actions in many contexts."""
    state = _open(pointer_table)
    for row in range(len(contexts)):
        score(state, contexts[row])
        for action in range(len(state.estimates)):
            estimates[row, action] = state.estimates[action]
            spreads[row, action] = state.bonuses[action]


@entry_point
def change_profile(pointer_table, action, profile):
    """Give an action other columns; its effect stays what it was."""
    state = _open(pointer_table)
    before = product_with_sums(state, action, state.profiles[action])
    state.sums[action] += product_with_sums(state, action, profile) - before
    for j in range(len(profile)):
        state.profiles[action, j] = profile[j]
