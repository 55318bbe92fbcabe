"""Hybrid-ε: ε-greedy within groups of similar contexts."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from releaf.arrays import Array
from releaf.core.runtime.entry_points import EntryPoints
from releaf.core.runtime.jit import inlined
from releaf.core.runtime.primitives import (
    CLOCK_LENGTH,
    LATEST,
    TIME,
    USED,
    choose_epsilon_greedy,
    difference,
    exploration_rate,
    new_clock,
)
from releaf.core.runtime.state import LearnerState, constant, learnt, scratch

CONSTANT, FIXED, SIMILARITY, MOST = range(4)  # params
STARTING_CAPACITY = 64


class Groups(LearnerState):
    """State of each group: its first context (founder), its arrivals, and each action's observations."""

    grows = "groups"
    clock: Array = learnt(np.int64, CLOCK_LENGTH)
    params: Array = constant(np.float64, "parameters")
    limits: Array = constant(np.float64, "features")
    stretch: Array = constant(np.float64, "features")
    founders: Array = learnt(np.float64, "groups", "features")
    arrivals: Array = learnt(np.int64, "groups", least=0)
    counts: Array = learnt(np.int64, "groups", "actions", least=0)
    sums: Array = learnt(np.float64, "groups", "actions")
    eligible: Array = scratch(np.uint8, "actions")
    estimates: Array = scratch(np.float64, "actions")
    chance: Array = scratch(np.float64, 1)


def new_groups(
    seed: int | None, limits: Array, stretch: Array, actions: int, params: tuple[float, float, float, float]
) -> Groups:
    """Initial state without groups."""
    return Groups(
        clock=new_clock(seed),
        params=params,
        limits=limits,
        stretch=stretch,
        founders=np.zeros((STARTING_CAPACITY, len(limits))),
        arrivals=np.zeros(STARTING_CAPACITY),
        counts=np.zeros((STARTING_CAPACITY, actions)),
        sums=np.zeros((STARTING_CAPACITY, actions)),
        eligible=np.ones(actions),
        estimates=np.zeros(actions),
        chance=np.zeros(1),
    )


@inlined
def has_capacity(state):
    return state.clock[USED] < len(state.arrivals) or state.clock[USED] >= state.params[MOST]


@inlined
def nearest(state, context):
    """Group whose founder is nearest to the context, and their distance, summed over features."""
    founders, stretch = state.founders, state.stretch  # opened once, outside of the loops
    found, closest = -1, len(context) + 1.0
    for group in range(state.clock[USED]):
        apart, founder = 0.0, founders[group]
        for i in range(len(context)):
            apart += difference(context[i], founder[i], stretch[i])
            if apart >= closest:
                break
        if apart < closest:
            found, closest = group, apart
    return found, closest


@inlined
def join(state, context):
    """Group of a context; a new one where no group is similar enough and the limit is not reached."""
    group, apart = nearest(state, context)
    alike = apart <= (1.0 - state.params[SIMILARITY]) * len(context)
    if group >= 0 and (alike or state.clock[USED] >= state.params[MOST]):
        return group
    group = state.clock[USED]
    state.clock[USED] = group + 1
    for i in range(len(context)):
        state.founders[group, i] = context[i]
    return group


@inlined
def choose_in_group(state, context):
    group = join(state, context)
    state.clock[LATEST] = group
    state.arrivals[group] += 1
    for action in range(len(state.estimates)):
        state.estimates[action] = state.sums[group, action] / max(state.counts[group, action], 1)
    rate = exploration_rate(state.params[CONSTANT], state.params[FIXED], len(state.estimates), state.arrivals[group])
    return choose_epsilon_greedy(state.clock, state.estimates, rate, state.chance, state.eligible)


@inlined
def update(state, context, step, action, reward):
    group = state.clock[LATEST]
    if step != state.clock[TIME]:
        group, _ = nearest(state, context)
    state.counts[group, action] += 1
    state.sums[group, action] += reward


HYBRID_EPSILON = EntryPoints(choose_in_group, update, Groups, has_capacity=has_capacity)
