"""A ridge regression of the reward on the context for each action: LinUCB, LinTS, and ε-greedy.

Kept are the inverse of λI + Σ x xᵀ and the weights θ. A reward changes both by a rank-one step (Sherman and
Morrison), which costs as much as reading the inverse once; nothing is ever inverted.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from releaf.core.baselines.design_matrix import Categories, design_of, dot, lay_out, width_of
from releaf.core.runtime.entry_points import Doors
from releaf.core.runtime.jit import door, inner
from releaf.core.runtime.primitives import (
    RANDOM,
    SINCE,
    TIME,
    Array,
    best_of,
    exploration_rate,
    mostly_best,
    new_clock,
    normal_cdf,
)
from releaf.core.runtime.random_generator import normal

ALPHA = 0  # params of LinUCB
SPREAD = 0  # params of LinTS
CONSTANT, FIXED = 0, 1  # params of ε-greedy
_MOST_POINTS = 4096


class Ridge(NamedTuple):
    """What is known of each action: how often it was taken, the inverse (d × d) and the weights (d).

    ``design`` tells how a context becomes d columns.
    """

    clock: Array
    params: Array
    limits: Array
    design: Array
    taken: Array
    inverse: Array
    theta: Array
    columns: Array
    push: Array
    estimates: Array
    spreads: Array
    chance: Array


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
    """Regressions that know nothing yet."""
    design = design_of(limits, categories, intercept)
    width = width_of(design, intercept)
    return Ridge(
        new_clock(seed),
        np.array(params),
        limits,
        design,
        np.zeros(actions, dtype=np.int64),
        np.repeat(np.eye(width)[None] / penalty, actions, axis=0),
        np.zeros((actions, width)),
        np.ones(width),  # the first stays 1 where it is the intercept
        np.zeros(width),
        np.zeros(actions),
        np.zeros(actions),
        np.zeros(1),
    )


@inner
def multiply(inverse, row, product):
    """The inverse times the row; row by row, so that the processor's lanes are used, and columns of 0 cost nothing."""
    for i in range(len(row)):
        product[i] = 0.0
    for j in range(len(row)):
        factor = row[j]
        if factor != 0.0:
            line = inverse[j]
            for i in range(len(row)):
                product[i] += line[i] * factor


@inner
def estimate(state):
    for action in range(len(state.estimates)):
        state.estimates[action] = dot(state.theta[action], state.columns)


@inner
def estimate_with_spread(state):
    """The estimates, and how uncertain each is: √(xᵀ A⁻¹ x)."""
    estimate(state)
    for action in range(len(state.estimates)):
        multiply(state.inverse[action], state.columns, state.push)
        state.spreads[action] = math.sqrt(max(dot(state.push, state.columns), 0.0))


@inner
def take_in(state, context, step, action, reward):
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


@inner
def choose_linucb(state, context):
    lay_out(state.design, context, state.columns)
    estimate_with_spread(state)
    chosen, highest = 0, -math.inf
    for action in range(len(state.estimates)):
        index = state.estimates[action] + state.params[ALPHA] * state.spreads[action]
        if index > highest or (index == highest and state.taken[action] < state.taken[chosen]):
            chosen, highest = action, index
    state.taken[chosen] += 1
    state.chance[0] = 1.0
    return 2 * chosen + (state.estimates[chosen] < state.estimates[best_of(state.estimates)])


@inner
def choose_lints(state, context):
    """Of weights drawn from each action's posterior only their product with the context matters: a normal number."""
    lay_out(state.design, context, state.columns)
    estimate_with_spread(state)
    chosen, highest = 0, -math.inf
    for action in range(len(state.estimates)):
        state.spreads[action] *= state.params[SPREAD]
        drawn = state.estimates[action] + state.spreads[action] * normal(state.clock, RANDOM)
        if drawn > highest:
            chosen, highest = action, drawn
    return 2 * chosen + (state.estimates[chosen] < state.estimates[best_of(state.estimates)])


@inner
def choose_linear_epsilon_greedily(state, context):
    lay_out(state.design, context, state.columns)
    estimate(state)
    steps = state.clock[TIME] - state.clock[SINCE]
    rate = exploration_rate(state.params[CONSTANT], state.params[FIXED], len(state.estimates), steps)
    return mostly_best(state.clock, state.estimates, rate, state.chance)


@door
def chance_of_highest(means, spreads, chosen):
    """The probability that of independent normal numbers the chosen one is the highest.

    The integral of its density times the others' distributions, by the trapezoid rule, as finely as the narrowest
    of them needs.
    """
    ratio = 1.0
    for other in range(len(means)):
        ratio = min(ratio, spreads[other] / spreads[chosen])  # the caller sees to it that none is 0
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


LINUCB = Doors(choose_linucb, take_in, file=__file__)
LINTS = Doors(choose_lints, take_in, file=__file__)
LINEAR_EPSILON_GREEDY = Doors(choose_linear_epsilon_greedily, take_in, file=__file__)
