"""Rules by which AdaptiveReleaf requests rewards (active learning), where it does not observe every one.

It requests a reward where the answer can change a decision. Two further rules limit confident mistakes, such as when
contexts of a new kind follow thousands of another: small probabilities of error accumulate until one is checked, and
contexts unlike all rewarded ones are checked at random, however confident the estimate.

Labels may cost more or less than an ordinary one. The required gain is per unit of cost, and so is the required
probability of error, as far as an error can be so probable. Chances of random checks fall with the cost, so that dear
labels take no larger share of what checks cost.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

from releaf.core.adaptive.state import (
    BUDGET,
    COST,
    ERROR_SUM,
    GAIN,
    GAINS,
    LABEL_COST,
    LEARNT,
    LIMIT,
    MOST_LABELS,
    NOVELTY_SUM,
    REQUESTED,
    ROWS,
    RULE,
    STOP_AFTER,
    UNWORTHY,
    WIDTH_OF_BOUNDS,
    open_sample_at,
)
from releaf.core.runtime.jit import inlined, outlined
from releaf.core.runtime.primitives import RANDOM, TIME, difference, normal_cdf
from releaf.core.runtime.random_generator import unit

FIRST_ERROR_PROBABILITY = 0.005  # probability of error that warrants a label while all of the budget is left
LAST_ERROR_PROBABILITY = 0.5
ENOUGH_FOR_DEAR = 0.4  # probability of error that warrants a label whatever it costs, until the budget requires more
SHARE = 0.1  # of the labels, requested in proportion to accumulated error probability and novelty
LATEST_ROWS = 256  # latest rewards with which a context is compared
LEAST_COST = 1e-6
LATEST_GAINS = 256.0  # latest decisions of which the mean gain is
LIKELY = 0.5  # largest difference of a reward from an estimate that it confirms


@inlined
def next_label_cost(state):
    """Cost of this decision's label, in ordinary labels; the last one given serves all later decisions."""
    row = state.label_row[0]
    if row + 1 < len(state.label_costs):
        state.label_row[0] += 1
    return state.label_costs[row]


@outlined
def requests_reward(state, context, leader, label_cost):
    """Whether to request the reward of this decision, whose label has this cost."""
    loss = expected_loss(state, leader)
    is_worthy, has_stopped = weigh_label(state, loss, label_cost)
    if state.labels[LABEL_COST] + label_cost > state.params[MOST_LABELS]:
        return False
    if state.params[RULE] == BUDGET:
        wanted = requests_by_budget(state, leader, label_cost)
    elif state.params[RULE] == COST:
        if has_stopped:
            return is_worthy
        wanted = requests_by_cost(state, loss, is_worthy, label_cost)
    else:
        wanted = not is_guaranteed(state, leader, state.params[LIMIT])
    return wanted or spot_checks(state, context, leader, label_cost)


@inlined
def count_request(state, label_cost):
    """Account for a request."""
    state.clock[REQUESTED] += 1
    state.labels[LABEL_COST] += label_cost


@inlined
def price_of(state, label_cost):
    """Price of a label in units of the scaled reward."""
    return max(state.params[LIMIT], LEAST_COST) * label_cost


@inlined
def weigh_label(state, loss, label_cost):
    """Observe the expected gain of a label; returns whether it is worth its price, and whether checks had stopped.

    The gain is the expected loss over all decisions that a label serves: as many as there have been for each so far.
    """
    labels = state.labels
    gain = loss * (state.clock[TIME] / (state.clock[REQUESTED] + 1.0))
    labels[GAINS] = min(labels[GAINS] + 1.0, LATEST_GAINS)
    labels[GAIN] += (gain / label_cost - labels[GAIN]) / labels[GAINS]
    if state.params[RULE] != COST:
        return False, False
    is_worthy = gain > price_of(state, label_cost)
    has_stopped = state.params[STOP_AFTER] > 0.0 and labels[UNWORTHY] >= state.params[STOP_AFTER]
    labels[UNWORTHY] = 0.0 if is_worthy else labels[UNWORTHY] + 1.0
    return is_worthy, has_stopped


@inlined
def requests_by_budget(state, leader, label_cost):
    """Request above a probability of error that rises with the cost of the label, and as the budget is spent.

    A share of the budget left goes to smaller probabilities, at random and relative to their sum so far, so a context
    with a small but recurring probability of error is checked at some point.
    """
    error = error_probability(state, leader)
    state.sums[ERROR_SUM] += error
    left = state.params[MOST_LABELS] - state.labels[LABEL_COST]
    spent = state.labels[LABEL_COST] / state.params[MOST_LABELS]
    least = FIRST_ERROR_PROBABILITY + (LAST_ERROR_PROBABILITY - FIRST_ERROR_PROBABILITY) * spent * spent
    if error > min(least * label_cost, max(least, ENOUGH_FOR_DEAR)):
        return True
    return unit(state.clock, RANDOM) * state.sums[ERROR_SUM] * label_cost < SHARE * left * error


@inlined
def requests_by_cost(state, loss, is_worthy, label_cost):
    """Request where the expected gain exceeds the price of the label.

    Elsewhere at random, with a rate at which the expected loss between two labels equals the price of one.
    """
    return is_worthy or unit(state.clock, RANDOM) * price_of(state, label_cost) < loss


@inlined
def spot_checks(state, context, leader, label_cost):
    """Request at random, more often for novel contexts; a fixed share of what the other labels cost."""
    sample = open_sample_at(state.samples[leader])
    if sample.counts[LEARNT] == 0:
        return label_cost <= 1.0 or unit(state.clock, RANDOM) * label_cost < 1.0
    novel = novelty(
        context, sample.contexts, sample.rewards, sample.counts[ROWS], state.estimates[leader], state.categories
    )
    state.sums[NOVELTY_SUM] += novel
    spent = state.labels[LABEL_COST]
    others = min(spent + 1.0, state.params[MOST_LABELS] - spent)
    return unit(state.clock, RANDOM) * state.sums[NOVELTY_SUM] * label_cost < SHARE * others * novel


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
