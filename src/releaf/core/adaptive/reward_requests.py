"""When AdaptiveReleaf asks for a reward, where it isn't given every one.

It asks where the answer can change a decision. Two further reasons keep it from being sure and wrong for long, as it
would be where cases of a new kind come after thousands of another: many small doubts add up to a large one, and a case
unlike all that it was told of is worth a check however sure it is.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

from releaf.core.adaptive.logistic_regression import logistic
from releaf.core.adaptive.state import (
    ASKED,
    BUDGET,
    COST,
    DOUBT,
    LEARNT,
    LIMIT,
    RULE,
    STRANGENESS,
    WIDTH_OF_BOUNDS,
)
from releaf.core.runtime.jit import inner, outlined
from releaf.core.runtime.primitives import RANDOM, TIME, difference, normal_cdf
from releaf.core.runtime.random_generator import unit

FIRST_DOUBT = 0.005  # probability of being wrong that a label is asked for while all of the budget is left
LAST_DOUBT = 0.5
SHARE = 0.1  # of the labels there are, that go by the sums of doubt and of strangeness
LOOKED_AT = 256  # rewards, the latest, that a case is compared with
LEAST_COST = 1e-6
LIKELY = 0.5  # how far a reward may be from an estimate that it bears out


@inner
def asks(state, context, leader):
    """Whether to ask for the reward of this decision."""
    if state.params[RULE] == BUDGET:
        if state.clock[ASKED] >= state.params[LIMIT]:
            return False
        wanted = asks_by_budget(state, leader)
    elif state.params[RULE] == COST:
        wanted = asks_by_cost(state, leader)
    else:
        wanted = not is_safe(state, leader, state.params[LIMIT])
    return wanted or checks(state, context, leader)


@inner
def asks_by_budget(state, leader):
    """In doubt; the more of the budget is spent, the more doubt it takes.

    A share of the labels left is for lesser doubts, by chance and in proportion to all the doubt so far: so a doubt
    that comes again and again is looked into.
    """
    doubt = chance_of_error(state, leader)
    state.sums[DOUBT] += doubt
    left = state.params[LIMIT] - state.clock[ASKED]
    spent = state.clock[ASKED] / state.params[LIMIT]
    if doubt > FIRST_DOUBT + (LAST_DOUBT - FIRST_DOUBT) * spent * spent:
        return True
    return unit(state.clock, RANDOM) * state.sums[DOUBT] < SHARE * left * doubt


@inner
def asks_by_cost(state, leader):
    """Where the loss expected here, in all decisions that a label serves, is above the cost of one.

    Elsewhere by chance, so often that the loss expected between two labels is the cost of one.
    """
    loss, cost = expected_loss(state, leader), max(state.params[LIMIT], LEAST_COST)
    served = state.clock[TIME] / (state.clock[ASKED] + 1.0)
    return loss * served > cost or unit(state.clock, RANDOM) * cost < loss


@inner
def checks(state, context, leader):
    """By chance, the more likely the stranger a case is compared to all so far; as a share of the other labels."""
    if state.counts[leader, LEARNT] == 0:
        return True
    strange = strangeness(
        context,
        state.rows[leader],
        state.payoffs[leader],
        state.counts[leader, LEARNT],
        state.estimates[leader],
        state.categories,
    )
    state.sums[STRANGENESS] += strange
    others = state.clock[ASKED] + 1.0
    if state.params[RULE] == BUDGET:
        others = min(others, state.params[LIMIT] - state.clock[ASKED])
    return unit(state.clock, RANDOM) * state.sums[STRANGENESS] < SHARE * others * strange


@outlined
def strangeness(context, rows, payoffs, learnt, estimate, categories):
    """How far the nearest case is in which the action earned what is expected now, squared; 1 where there is none."""
    features, nearest = len(context), 1.0 * len(context)
    for back in range(min(learnt, LOOKED_AT, len(rows))):
        place = (learnt - 1 - back) % len(rows)
        if abs(payoffs[place] - estimate) <= LIKELY:
            distance = 0.0
            for feature in range(features):
                distance += difference(context[feature], rows[place, feature], max(categories[feature], 1))
            nearest = min(nearest, distance)
    return (nearest / features) ** 2


@inner
def chance_of_error(state, leader):
    """The highest probability of another action to be better than the leader."""
    highest = 0.0
    for action in range(len(state.logits)):
        if action != leader:
            spread = math.hypot(state.spreads[leader], state.spreads[action])
            if spread > 0.0:
                highest = max(highest, normal_cdf((state.logits[action] - state.logits[leader]) / spread))
    return highest


@inner
def expected_loss(state, leader):
    """The highest expectation of how much better another action is than the leader, as far as it is better."""
    highest = 0.0
    mean = state.estimates[leader]
    own = max(mean * (1.0 - mean), 0.02) * state.spreads[leader]
    for action in range(len(state.logits)):
        if action != leader:
            other = state.estimates[action]
            spread = math.hypot(own, max(other * (1.0 - other), 0.02) * state.spreads[action])
            if spread > 0.0:
                gap = (mean - other) / spread
                density = math.exp(-0.5 * gap * gap) / math.sqrt(2.0 * math.pi)
                highest = max(highest, spread * (density - gap * normal_cdf(-gap)))
    return highest


@inner
def is_safe(state, leader, epsilon):
    """Whether no action can be better than the leader by more than ε, as far as the bounds of all of them hold."""
    width = state.params[WIDTH_OF_BOUNDS]
    lowest = logistic(state.logits[leader] - width * state.spreads[leader])
    for action in range(len(state.logits)):
        if action != leader and logistic(state.logits[action] + width * state.spreads[action]) - lowest > epsilon:
            return False
    return True
