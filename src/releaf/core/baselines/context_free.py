"""Policies without context, with one mean per action: UCB1, ε-greedy, and uniform random."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.arrays import Array
from releaf.core.runtime.entry_points import EntryPoints, learn_nothing
from releaf.core.runtime.jit import inlined
from releaf.core.runtime.primitives import (
    CLOCK_LENGTH,
    RANDOM,
    SINCE,
    TIME,
    best_eligible,
    choose_epsilon_greedy,
    count_eligible,
    exploration_rate,
    new_clock,
    nth_eligible,
)
from releaf.core.runtime.random_generator import integer_below
from releaf.core.runtime.spending import PricedState, no_spending, set_net
from releaf.core.runtime.state import LearnerState, constant, learnt, scratch

CONFIDENCE = 0  # params of UCB1
CONSTANT, FIXED = 0, 1  # params of ε-greedy


class Uniform(LearnerState):
    """State of a policy that learns nothing."""

    clock: Array = learnt(np.int64, CLOCK_LENGTH)
    limits: Array = constant(np.float64, "features")
    eligible: Array = scratch(np.uint8, "actions")
    estimates: Array = scratch(np.float64, "actions")
    chance: Array = scratch(np.float64, 1)


class Means(PricedState):
    """State of each action: times taken, times observed, and the sum of its rewards."""

    clock: Array = learnt(np.int64, CLOCK_LENGTH)
    limits: Array = constant(np.float64, "features")
    eligible: Array = scratch(np.uint8, "actions")
    estimates: Array = scratch(np.float64, "actions")
    chance: Array = scratch(np.float64, 1)
    params: Array = constant(np.float64, "parameters")
    taken: Array = learnt(np.int64, "actions", least=0)
    counts: Array = learnt(np.int64, "actions", least=0)
    sums: Array = learnt(np.float64, "actions")


def new_uniform(seed: int | None, limits: Array, actions: int) -> Uniform:
    """Initial state."""
    return Uniform(
        clock=new_clock(seed),
        limits=limits,
        eligible=np.ones(actions),
        estimates=np.zeros(actions),
        chance=np.zeros(1),
    )


def new_means(seed: int | None, limits: Array, actions: int, params: tuple[float, float]) -> Means:
    """Initial state without observations."""
    zeros = {name: np.zeros(actions) for name in ("taken", "counts", "sums", "estimates")}
    further = {"eligible": np.ones(actions), "chance": np.zeros(1), **no_spending(actions)}
    return Means(clock=new_clock(seed), limits=limits, params=params, **further, **zeros)


@inlined
def update(state, context, step, action, reward):
    state.counts[action] += 1
    state.sums[action] += reward


@inlined
def unobserved(state):
    """Eligible unobserved action that was taken least often, -1 if there is none; writes the means to ``estimates``.

    Where rewards are late or lost, all such actions take turns.
    """
    found = -1
    for action in range(len(state.counts)):
        state.estimates[action] = 0.0
        if state.counts[action] > 0:
            state.estimates[action] = state.sums[action] / state.counts[action]
        elif state.eligible[action] and (found < 0 or state.taken[action] < state.taken[found]):
            found = action
    return found


@inlined
def choose_ucb1(state, context):
    state.chance[0] = 1.0
    unknown = unobserved(state)
    if unknown >= 0:
        state.taken[unknown] += 1
        return 2 * unknown + 1
    total = 0
    for count in state.counts:
        total += count
    scale = state.params[CONFIDENCE] * math.log(total)
    net = set_net(state)
    chosen, highest = 0, -math.inf
    for action in range(len(state.counts)):
        if state.eligible[action]:
            index = net[action] + math.sqrt(scale / state.counts[action])
            if index > highest:
                chosen, highest = action, index
    state.taken[chosen] += 1
    return 2 * chosen + (net[chosen] < net[best_eligible(net, state.eligible)])


@inlined
def choose_epsilon_greedily(state, context):
    unknown = unobserved(state)
    if unknown >= 0:
        state.taken[unknown] += 1
        state.chance[0] = 1.0
        return 2 * unknown + 1
    steps = state.clock[TIME] - state.clock[SINCE]
    rate = exploration_rate(state.params[CONSTANT], state.params[FIXED], len(state.counts), steps)
    decision = choose_epsilon_greedy(state.clock, set_net(state), rate, state.chance, state.eligible)
    state.taken[decision >> 1] += 1
    return decision


@inlined
def choose_uniformly(state, context):
    count = count_eligible(state.eligible)
    state.chance[0] = 1.0 / count
    return 2 * nth_eligible(state.eligible, integer_below(state.clock, RANDOM, count)) + 1


UCB1 = EntryPoints(choose_ucb1, update, Means)
EPSILON_GREEDY = EntryPoints(choose_epsilon_greedily, update, Means)
UNIFORM_RANDOM = EntryPoints(choose_uniformly, learn_nothing, Uniform, rewards="none")
