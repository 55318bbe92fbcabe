"""Fit of the joint regression: weights, precision of each group of terms, and the variances, by empirical Bayes."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.core.adaptive.ridge import (
    DOUBLING,
    LEAST_PRECISION,
    LEAST_VARIANCE,
    MOST_PRECISION,
    MOST_VARIANCE,
    VARIANCE_ROWS,
    invert,
)
from releaf.core.joint.state import (
    CONSTANT_PRECISION,
    EFFECT_VARIANCE,
    FIRST_EFFECT_VARIANCE,
    FIRST_VARIANCE,
    GROUP_PRECISION,
    REWARDS,
    SQUARES,
    VARIANCE,
)
from releaf.core.runtime.jit import inlined, outlined

ROUNDS = 4
EFFECT_ROWS = 4.0  # actions that the first variance of effects counts as
LEAST_EFFECT_VARIANCE, MOST_EFFECT_VARIANCE = 1e-5, 0.1


@inlined
def prior_of(state, k):
    """Prior precision of the weight of a term."""
    return CONSTANT_PRECISION if state.group[k] < 0 else state.precisions[state.group[k]]


@outlined
def solve(state):
    """Set covariance and weights for the precisions and the variance of now."""
    terms, variance, covariance = len(state.weights), state.numbers[VARIANCE], state.covariance
    for i in range(terms):
        for j in range(i):
            covariance[i, j] = covariance[j, i] = state.gram[i, j] / variance
        covariance[i, i] = state.gram[i, i] / variance + prior_of(state, i)
    invert(covariance, terms)
    for i in range(terms):
        for j in range(i):
            covariance[j, i] = covariance[i, j]  # the same bits
    for i in range(terms):
        state.weights[i] = 0.0
    for j in range(terms):
        factor = state.moment[j] / variance
        for i in range(terms):
            state.weights[i] += covariance[j, i] * factor


@outlined
def shrink(state):
    """Set the precision of each group with weights θ and γ effective parameters: (γ + 1) / (θᵀθ + b).

    MacKay's evidence update with a gamma prior, as AdaptiveReleaf's: b bounds the precision of a group without effect
    by its initial value times a factor that grows with the number of rewards.
    """
    groups = len(state.precisions)
    least = 1.0 / (GROUP_PRECISION * math.sqrt(float(groups)) * (1.0 + state.numbers[REWARDS] / DOUBLING))
    determined, squares = np.zeros(groups), np.zeros(groups)
    for k in range(len(state.weights)):
        group = state.group[k]
        if group >= 0:
            determined[group] += 1.0 - state.precisions[group] * state.covariance[k, k]
            squares[group] += state.weights[k] * state.weights[k]
    for group in range(groups):
        found = (max(determined[group], 0.0) + 1.0) / (squares[group] + least)
        state.precisions[group] = min(max(found, LEAST_PRECISION), MOST_PRECISION)


@outlined
def residual_variance(state):
    """Variance of a reward around its estimate, for the number of weights that the rewards determine."""
    left, determined = state.numbers[SQUARES], 0.0
    for i in range(len(state.weights)):
        own, line = state.weights[i], state.gram[i]
        left += own * (own * line[i] - 2.0 * state.moment[i])
        determined += 1.0 - prior_of(state, i) * state.covariance[i, i]
        for j in range(i):
            left += 2.0 * own * state.weights[j] * line[j]
    rewards = state.numbers[REWARDS]
    free = max(rewards - determined, 0.25 * rewards)
    found = (max(left, 0.0) + VARIANCE_ROWS * FIRST_VARIANCE) / (free + VARIANCE_ROWS)
    return min(max(found, LEAST_VARIANCE), MOST_VARIANCE)


@outlined
def fit_effects(state):
    """Set the effects of all actions by the weights of now, and their variance by the effects."""
    variance, prior = state.numbers[VARIANCE], state.numbers[VARIANCE] / state.numbers[EFFECT_VARIANCE]
    total, rewarded = EFFECT_ROWS * FIRST_EFFECT_VARIANCE, EFFECT_ROWS
    for action in range(len(state.effects)):
        if state.counts[action] == 0.0:
            continue
        rest = state.sums[action]
        for k in range(len(state.weights)):
            term = state.context_sums[action, state.term_context[k]] * state.profiles[action, state.term_action[k]]
            rest -= state.weights[k] * term
        counted = state.counts[action] + prior
        state.effects[action] = rest / counted
        total += state.effects[action] ** 2 + variance / counted
        rewarded += 1.0
    state.numbers[EFFECT_VARIANCE] = min(max(total / rewarded, LEAST_EFFECT_VARIANCE), MOST_EFFECT_VARIANCE)


@outlined
def fit(state):
    """Fit all that is learnt to the sums, from the prior on."""
    first = GROUP_PRECISION * math.sqrt(float(len(state.precisions)))
    for group in range(len(state.precisions)):
        state.precisions[group] = first
    state.numbers[VARIANCE] = FIRST_VARIANCE
    for turn in range(ROUNDS):
        solve(state)
        if turn < ROUNDS - 1:
            shrink(state)
            state.numbers[VARIANCE] = residual_variance(state)
    fit_effects(state)
