"""Rules by which AdaptiveReleaf requests rewards (active learning), where it does not observe every one.

It requests a reward where the answer can change a decision. Two further rules limit confident mistakes, such as when
contexts of a new kind follow thousands of another: small probabilities of error accumulate until one is checked, and
contexts unlike all rewarded ones are checked at random, however confident the estimate.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

from releaf.core.adaptive.state import (
    BUDGET,
    COST,
    ERROR_SUM,
    LEARNT,
    LIMIT,
    NOVELTY_SUM,
    REQUESTED,
    ROWS,
    RULE,
    WIDTH_OF_BOUNDS,
    open_sample_at,
)
from releaf.core.runtime.jit import inlined, outlined
from releaf.core.runtime.primitives import RANDOM, TIME, difference, normal_cdf
from releaf.core.runtime.random_generator import unit

FIRST_ERROR_PROBABILITY = 0.005  # probability of error that warrants a label while all of the budget is left
LAST_ERROR_PROBABILITY = 0.5
SHARE = 0.1  # of the labels, requested in proportion to accumulated error probability and novelty
LATEST_ROWS = 256  # latest rewards with which a context is compared
LEAST_COST = 1e-6
LIKELY = 0.5  # largest difference of a reward from an estimate that it confirms


@outlined
def requests_reward(state, context, leader):
    """Whether to request the reward of this decision."""
    if state.params[RULE] == BUDGET:
        if state.clock[REQUESTED] >= state.params[LIMIT]:
            return False
        wanted = requests_by_budget(state, leader)
    elif state.params[RULE] == COST:
        wanted = requests_by_cost(state, leader)
    else:
        wanted = not is_guaranteed(state, leader, state.params[LIMIT])
    return wanted or spot_checks(state, context, leader)


@inlined
def requests_by_budget(state, leader):
    """Request above a probability of error that rises as the budget is spent.

    A share of the labels left goes to smaller probabilities, at random and relative to their sum so far, so a context
    with a small but recurring probability of error is checked at some point.
    """
    error = error_probability(state, leader)
    state.sums[ERROR_SUM] += error
    left = state.params[LIMIT] - state.clock[REQUESTED]
    spent = state.clock[REQUESTED] / state.params[LIMIT]
    if error > FIRST_ERROR_PROBABILITY + (LAST_ERROR_PROBABILITY - FIRST_ERROR_PROBABILITY) * spent * spent:
        return True
    return unit(state.clock, RANDOM) * state.sums[ERROR_SUM] < SHARE * left * error


@inlined
def requests_by_cost(state, leader):
    """Request where the expected loss, over all decisions that a label serves, exceeds the cost of a label.

    Elsewhere at random, with a rate at which the expected loss between two labels equals the cost of one.
    """
    loss, cost = expected_loss(state, leader), max(state.params[LIMIT], LEAST_COST)
    served = state.clock[TIME] / (state.clock[REQUESTED] + 1.0)
    return loss * served > cost or unit(state.clock, RANDOM) * cost < loss


@inlined
def spot_checks(state, context, leader):
    """Request at random, more often for novel contexts; a fixed share of the other labels."""
    sample = open_sample_at(state.samples[leader])
    if sample.counts[LEARNT] == 0:
        return True
    novel = novelty(
        context, sample.contexts, sample.rewards, sample.counts[ROWS], state.estimates[leader], state.categories
    )
    state.sums[NOVELTY_SUM] += novel
    others = state.clock[REQUESTED] + 1.0
    if state.params[RULE] == BUDGET:
        others = min(others, state.params[LIMIT] - state.clock[REQUESTED])
    return unit(state.clock, RANDOM) * state.sums[NOVELTY_SUM] < SHARE * others * novel


@outlined
def novelty(context, contexts, rewards, rows, estimate, categories):
    """Novelty: squared distance to the nearest context whose reward confirms the estimate.

    1 where there is none, or where the reward of a nearer context contradicts the estimate.
    """
    features, confirming, contradicting = len(context), 1.0 * len(context), 1.0 * len(context)
    for row in range(max(rows - LATEST_ROWS, 0), rows):
        distance = 0.0
        for feature in range(features):
            distance += difference(context[feature], contexts[row, feature], max(categories[feature], 1))
        if abs(rewards[row] - estimate) <= LIKELY:
            confirming = min(confirming, distance)
        else:
            contradicting = min(contradicting, distance)
    if contradicting < confirming:
        return 1.0
    return (confirming / features) ** 2


@inlined
def error_probability(state, leader):
    """Highest probability that another action is better than the leader."""
    highest = 0.0
    for action in range(len(state.estimates)):
        if action != leader and state.eligible[action]:
            spread = math.hypot(state.doubts[leader], state.doubts[action])
            if spread > 0.0:
                highest = max(highest, normal_cdf((state.net[action] - state.net[leader]) / spread))
    return highest


@inlined
def expected_loss(state, leader):
    """Highest expected improvement of another action over the leader."""
    highest = 0.0
    for action in range(len(state.estimates)):
        if action != leader and state.eligible[action]:
            spread = math.hypot(state.doubts[leader], state.doubts[action])
            if spread > 0.0:
                gap = (state.net[leader] - state.net[action]) / spread
                density = math.exp(-0.5 * gap * gap) / math.sqrt(2.0 * math.pi)
                highest = max(highest, spread * (density - gap * normal_cdf(-gap)))
    return highest


@inlined
def is_guaranteed(state, leader, epsilon):
    """Whether no action can be better than the leader by more than ε, by the confidence bounds of all actions."""
    width = state.params[WIDTH_OF_BOUNDS]
    lowest = state.net[leader] - width * state.doubts[leader]
    for action in range(len(state.estimates)):
        upper = state.net[action] + width * state.doubts[action]
        if action != leader and state.eligible[action] and upper - lowest > epsilon:
            return False
    return True
