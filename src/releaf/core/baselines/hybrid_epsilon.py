"""Hybrid-ε: ε-greedy within groups of similar contexts."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from releaf.core.runtime.entry_points import Doors
from releaf.core.runtime.jit import inner
from releaf.core.runtime.primitives import (
    LATEST,
    TIME,
    USED,
    Array,
    difference,
    exploration_rate,
    mostly_best,
    new_clock,
)

CONSTANT, FIXED, SIMILARITY, MOST = range(4)  # params
STARTING_ROOM = 64


class Groups(NamedTuple):
    """What is known of each group: the context that founded it, its arrivals, and each action's observations in it."""

    clock: Array
    params: Array
    limits: Array
    stretch: Array
    founders: Array
    arrivals: Array
    counts: Array
    sums: Array
    estimates: Array
    chance: Array


def new_groups(
    seed: int | None, limits: Array, stretch: Array, actions: int, params: tuple[float, float, float, float]
) -> Groups:
    """No groups yet."""
    return Groups(
        new_clock(seed),
        np.array(params),
        limits,
        stretch,
        np.zeros((STARTING_ROOM, len(limits))),
        np.zeros(STARTING_ROOM, dtype=np.int64),
        np.zeros((STARTING_ROOM, actions), dtype=np.int64),
        np.zeros((STARTING_ROOM, actions)),
        np.zeros(actions),
        np.zeros(1),
    )


@inner
def has_room(state):
    return state.clock[USED] < len(state.arrivals) or state.clock[USED] >= state.params[MOST]


@inner
def nearest(state, context):
    """The group whose founder is most similar to the context, and how far they are apart, summed over features."""
    found, closest = -1, len(context) + 1.0
    for group in range(state.clock[USED]):
        apart = 0.0
        for i in range(len(context)):
            apart += difference(context[i], state.founders[group, i], state.stretch[i])
            if apart >= closest:
                break
        if apart < closest:
            found, closest = group, apart
    return found, closest


@inner
def join(state, context):
    """The group of a context, founded by it where none is similar enough and there may be more."""
    group, apart = nearest(state, context)
    alike = apart <= (1.0 - state.params[SIMILARITY]) * len(context)
    if group >= 0 and (alike or state.clock[USED] >= state.params[MOST]):
        return group
    group = state.clock[USED]
    state.clock[USED] = group + 1
    for i in range(len(context)):
        state.founders[group, i] = context[i]
    return group


@inner
def choose_in_group(state, context):
    group = join(state, context)
    state.clock[LATEST] = group
    state.arrivals[group] += 1
    for action in range(len(state.estimates)):
        state.estimates[action] = state.sums[group, action] / max(state.counts[group, action], 1)
    rate = exploration_rate(state.params[CONSTANT], state.params[FIXED], len(state.estimates), state.arrivals[group])
    return mostly_best(state.clock, state.estimates, rate, state.chance)


@inner
def take_in(state, context, step, action, reward):
    group = state.clock[LATEST]
    if step != state.clock[TIME]:
        group, _ = nearest(state, context)
    state.counts[group, action] += 1
    state.sums[group, action] += reward


HYBRID_EPSILON = Doors(choose_in_group, take_in, file=__file__, has_room=has_room)
