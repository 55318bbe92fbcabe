"""Ridge regression of the reward on the context for each action: LinUCB, LinTS, and linear ε-greedy.

The state holds the inverse of λI + Σ x xᵀ and the weights θ. A reward changes both by a rank-one update
(Sherman–Morrison), which costs as much as reading the inverse once; no matrix is ever inverted.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.arrays import Array
from releaf.core.baselines.design_matrix import Categories, design_of, dot, lay_out, width_of
from releaf.core.runtime.entry_points import EntryPoints
from releaf.core.runtime.jit import entry_point, inlined
from releaf.core.runtime.primitives import (
    CLOCK_LENGTH,
    RANDOM,
    SINCE,
    TIME,
    best_eligible,
    choose_epsilon_greedy,
    exploration_rate,
    new_clock,
    normal_cdf,
)
from releaf.core.runtime.random_generator import normal
from releaf.core.runtime.spending import PricedState, no_spending, set_net
from releaf.core.runtime.state import constant, learnt, scratch

ALPHA = 0  # params of LinUCB
SPREAD = 0  # params of LinTS
CONSTANT, FIXED = 0, 1  # params of ε-greedy
_MOST_POINTS = 4096


class Ridge(PricedState):
    """State of each action: times taken, the inverse (d × d) and the weights (d).

    ``design`` is the layout of the d columns of a context.
    """

    clock: Array = learnt(np.int64, CLOCK_LENGTH)
    params: Array = constant(np.float64, "parameters")
    limits: Array = constant(np.float64, "features")
    design: Array = constant(np.int64, "features", 3)
    taken: Array = learnt(np.int64, "actions", least=0)
    inverse: Array = learnt(np.float64, "actions", "columns", "columns")
    theta: Array = learnt(np.float64, "actions", "columns")
    columns: Array = scratch(np.float64, "columns")
    push: Array = scratch(np.float64, "columns")
    eligible: Array = scratch(np.uint8, "actions")
    estimates: Array = scratch(np.float64, "actions")
    spreads: Array = scratch(np.float64, "actions")
    chance: Array = scratch(np.float64, 1)


def new_ridge(
    seed: int | None,
    limits: Array,
    categories: Categories,
    actions: int,
    *,
    penalty: float,
    intercept: bool,
    params: tuple[float, float],
) -> Ridge:
    """Initial state without observations."""
    design = design_of(limits, categories, intercept)
    width = width_of(design, intercept)
    return Ridge(
        clock=new_clock(seed),
        params=params,
        limits=limits,
        design=design,
        taken=np.zeros(actions),
        inverse=np.repeat(np.eye(width)[None] / penalty, actions, axis=0),
        theta=np.zeros((actions, width)),
        columns=np.ones(width),  # the first stays 1 where it is the intercept
        push=np.zeros(width),
        eligible=np.ones(actions),
        estimates=np.zeros(actions),
        spreads=np.zeros(actions),
        chance=np.zeros(1),
        **no_spending(actions),
    )


@inlined
def multiply(inverse, row, product):
    """Multiply the inverse by a vector; row by row, so that it vectorizes and zero entries cost nothing."""
    for i in range(len(row)):
        product[i] = 0.0
    for j in range(len(row)):
        factor = row[j]
        if factor != 0.0:
            line = inverse[j]
            for i in range(len(row)):
                product[i] += line[i] * factor


@inlined
def estimate(state):
    for action in range(len(state.estimates)):
        state.estimates[action] = dot(state.theta[action], state.columns)


@inlined
def estimate_with_spread(state):
    """Set the estimates, and the standard deviation of each: √(xᵀ A⁻¹ x)."""
    estimate(state)
    for action in range(len(state.estimates)):
        multiply(state.inverse[action], state.columns, state.push)
        state.spreads[action] = math.sqrt(max(dot(state.push, state.columns), 0.0))


@inlined
def update(state, context, step, action, reward):
    lay_out(state.design, context, state.columns)
    inverse, theta, push = state.inverse[action], state.theta[action], state.push
    multiply(inverse, state.columns, push)
    scale = 1.0 / (1.0 + dot(push, state.columns))
    surprise = (reward - dot(theta, state.columns)) * scale
    for j in range(len(push)):
        theta[j] += push[j] * surprise
        line = inverse[j]
        for i in range(len(push)):
            line[i] -= push[j] * push[i] * scale  # the same bits for (i, j) and (j, i): it stays symmetric


@inlined
def choose_linucb(state, context):
    lay_out(state.design, context, state.columns)
    estimate_with_spread(state)
    net = set_net(state)
    chosen, highest = 0, -math.inf
    for action in range(len(state.estimates)):
        index = net[action] + state.params[ALPHA] * state.spreads[action]
        leads = index > highest or (index == highest and state.taken[action] < state.taken[chosen])
        if state.eligible[action] and leads:
            chosen, highest = action, index
    state.taken[chosen] += 1
    state.chance[0] = 1.0
    return 2 * chosen + (net[chosen] < net[best_eligible(net, state.eligible)])


@inlined
def choose_lints(state, context):
    """Choose by Thompson sampling: draw the product of weights and context, a normal number, from each posterior.

    Of eligible actions; the others take no draw.
    """
    lay_out(state.design, context, state.columns)
    estimate_with_spread(state)
    net = set_net(state)
    chosen, highest = 0, -math.inf
    for action in range(len(state.estimates)):
        state.spreads[action] *= state.params[SPREAD]
        if state.eligible[action]:
            drawn = net[action] + state.spreads[action] * normal(state.clock, RANDOM)
            if drawn > highest:
                chosen, highest = action, drawn
    return 2 * chosen + (net[chosen] < net[best_eligible(net, state.eligible)])


@inlined
def choose_linear_epsilon_greedily(state, context):
    lay_out(state.design, context, state.columns)
    estimate(state)
    steps = state.clock[TIME] - state.clock[SINCE]
    rate = exploration_rate(state.params[CONSTANT], state.params[FIXED], len(state.estimates), steps)
    return choose_epsilon_greedy(state.clock, set_net(state), rate, state.chance, state.eligible)


@entry_point
def probability_of_highest(means, spreads, chosen):
    """Probability that the chosen one of independent normal variables is the highest.

    The integral of its density times the others' distribution functions, by the trapezoid rule, as finely as the
    narrowest of them needs.
    """
    ratio = 1.0
    for other in range(len(means)):
        ratio = min(ratio, spreads[other] / spreads[chosen])  # the caller ensures that none is 0
    points = min(np.int64(16.0 * 32.0 / max(ratio, 1e-9)), _MOST_POINTS)
    step = 16.0 / points
    total = 0.0
    for point in range(points + 1):
        place = -8.0 + point * step
        density = math.exp(-0.5 * place * place)
        for other in range(len(means)):
            if other != chosen:
                gap = means[chosen] + spreads[chosen] * place - means[other]
                density *= normal_cdf(gap / spreads[other])
        total += density
    return min(total * step / math.sqrt(2.0 * math.pi), 1.0)


LINUCB = EntryPoints(choose_linucb, update, Ridge)
LINTS = EntryPoints(choose_lints, update, Ridge)
LINEAR_EPSILON_GREEDY = EntryPoints(choose_linear_epsilon_greedily, update, Ridge)
