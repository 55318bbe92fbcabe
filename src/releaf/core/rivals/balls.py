"""Contextual zooming: balls over contexts and actions that get smaller where they are chosen often."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from releaf.core.jit import inner, outlined
from releaf.core.randomness import whole_below
from releaf.core.rivals.common import LATEST, RANDOM, TIME, USED, Array, bad_value, best_of, difference, new_clock
from releaf.core.rivals.doors import make_doors

LIPSCHITZ, CONFIDENCE, HORIZON = 0, 1, 2  # params; a horizon of 0 is unknown
ANY = -1  # the arm of the first ball, which holds all of them
SMALLEST = 2.0**-40  # no ball has a smaller radius
SIFTED = 8  # features that most balls are ruled out by
ROUGHLY = 1.0 + 1e-5  # they are kept in single precision
STARTING_ROOM = 64


class Balls(NamedTuple):
    """What is known of each ball: where it is, how often it was chosen, and the sum of its rewards.

    Beside that its pre-index, which changes with its rewards only, and with what is known of the horizon, and in
    ``sieve`` the first few values of its centre, those of all balls side by side.
    """

    clock: Array
    params: Array
    limits: Array
    stretch: Array
    centres: Array
    sieve: Array
    arms: Array
    radii: Array
    counts: Array
    sums: Array
    bounds: Array
    apart: Array
    inside: Array
    held_by: Array
    estimates: Array
    chance: Array


def new_balls(
    seed: int | None, limits: Array, stretch: Array, actions: int, params: tuple[float, float, float]
) -> Balls:
    """One ball that holds everything."""
    clock = new_clock(seed)
    clock[USED] = 1
    arms, counts, inside = np.zeros((3, STARTING_ROOM), dtype=np.int64)
    radii, sums, bounds = np.zeros((3, STARTING_ROOM))
    apart = np.zeros(STARTING_ROOM, dtype=np.float32)
    arms[0], radii[0] = ANY, 1.0
    bounds[0] = 1.0 + params[CONFIDENCE] * math.sqrt(math.log(params[HORIZON] or 2.0))
    centres = np.zeros((STARTING_ROOM, len(limits)))
    sieve = np.zeros((min(SIFTED, len(limits)), STARTING_ROOM), dtype=np.float32)
    held_by, estimates = np.zeros(actions, dtype=np.int64), np.zeros(actions)
    known = (centres, sieve, arms, radii, counts, sums, bounds)
    return Balls(clock, np.array(params), limits, stretch, *known, apart, inside, held_by, estimates, np.zeros(1))


@inner
def has_room(state):
    return state.clock[USED] < len(state.arms)


# --- where balls are ------------------------------------------------------------------------------------------


@inner
def distance_squared(state, context, centre, limit):
    """The squared Euclidean distance of a context and a ball's centre, or something above the limit."""
    total = 0.0
    for i in range(len(context)):
        gap = difference(context[i], centre[i], state.stretch[i])
        total += gap * gap
        if total > limit:
            break
    return total


@inner
def sift(state, context):
    """Rule out most balls by a few features, all balls at once, and look closely at the others.

    Writes the balls that hold the context to ``inside``, and returns how many. The first ball is not among them.
    """
    used = state.clock[USED]
    for ball in range(used):
        state.apart[ball] = np.float32(0.0)
    for i in range(len(state.sieve)):
        value, stretch, values = np.float32(context[i]), np.float32(state.stretch[i]), state.sieve[i]
        for ball in range(used):
            gap = min(abs(value - values[ball]) * stretch, np.float32(1.0))
            state.apart[ball] += gap * gap
    held, scale = 0, 1.0 / state.params[LIPSCHITZ] ** 2
    for ball in range(1, used):
        limit = state.radii[ball] * state.radii[ball] * scale
        if (
            state.apart[ball] <= limit * ROUGHLY
            and distance_squared(state, context, state.centres[ball], limit) <= limit
        ):
            state.inside[held] = ball
            held += 1
    return held


# --- what their rewards could be ------------------------------------------------------------------------------


@inner
def log_horizon(state):
    """Ln T; where T is unknown, of the power of two that the time has reached, which doubles like a guess of T."""
    horizon = state.params[HORIZON]
    if horizon == 0.0:
        horizon = 2.0
        while horizon < state.clock[TIME]:
            horizon *= 2.0
    return math.log(horizon)


@inner
def doubt(state, ball):
    """conf: the confidence radius of a ball's mean."""
    return state.params[CONFIDENCE] * math.sqrt(log_horizon(state) / (1.0 + state.counts[ball]))


@inner
def bound(state, ball):
    """Work out the pre-index of a ball."""
    mean = state.sums[ball] / max(state.counts[ball], 1)
    state.bounds[ball] = mean + state.radii[ball] + doubt(state, ball)


@outlined
def bound_every(state):
    for ball in range(state.clock[USED]):
        bound(state, ball)


@inner
def index_of(state, ball):
    """What a ball's reward could be, by itself and by each ball that is at least as large."""
    if ball == 0:
        return 1.0 + state.bounds[0]  # no other is as large
    radius, lowest = state.radii[ball], state.bounds[ball]
    for other in range(state.clock[USED]):
        if state.radii[other] >= radius:
            lowest = min(lowest, state.bounds[other] + 1.0)  # nothing is farther away than 1, as other actions are
    centre, arm = state.centres[ball], state.arms[ball]
    for other in range(state.clock[USED]):
        slack = lowest - state.bounds[other]
        if slack > 0.0 and state.arms[other] == arm and state.radii[other] >= radius:
            limit = (slack / state.params[LIPSCHITZ]) ** 2
            squared = distance_squared(state, centre, state.centres[other], limit)
            if squared < limit:
                lowest = state.bounds[other] + state.params[LIPSCHITZ] * math.sqrt(squared)
    return radius + lowest


@inner
def find_ball(state, action, held):
    """Of the smallest balls that hold the context and the action, the one with the highest index; and that index.

    The action's estimate is the mean of the smallest ball around that was ever chosen.
    """
    smallest, observed = 1.0, 0
    for place in range(held):
        ball = state.inside[place]
        if state.arms[ball] == action:
            smallest = min(smallest, state.radii[ball])
            if state.counts[ball] > 0 and state.radii[ball] < state.radii[observed]:
                observed = ball
    state.estimates[action] = state.sums[observed] / max(state.counts[observed], 1)
    if smallest == 1.0:
        return 0, index_of(state, 0)
    found, highest = -1, -math.inf
    for place in range(held):
        ball = state.inside[place]
        if state.arms[ball] == action and state.radii[ball] == smallest:
            index = index_of(state, ball)
            if index > highest:
                found, highest = ball, index
    return found, highest


# --- one step -------------------------------------------------------------------------------------------------


@inner
def choose_zooming(state, context):
    bad = bad_value(context, state.limits)
    if bad < -1:
        return bad
    before = log_horizon(state)
    state.clock[TIME] += 1
    if log_horizon(state) != before:
        bound_every(state)
    held = sift(state, context)
    chosen, highest, uncovered = 0, -math.inf, 0
    for action in range(len(state.estimates)):
        ball, index = find_ball(state, action, held)
        state.held_by[action] = ball
        uncovered += ball == 0
        if index > highest:
            chosen, highest = action, index
    state.chance[0] = 1.0
    if state.held_by[chosen] == 0:  # the first ball is about all actions that no other ball holds: any of them
        state.chance[0] = 1.0 / uncovered
        chosen = nth_uncovered(state, whole_below(state.clock, RANDOM, uncovered))
    state.clock[LATEST] = state.held_by[chosen]
    return 2 * chosen + (state.estimates[chosen] < state.estimates[best_of(state.estimates)])


@inner
def nth_uncovered(state, turn):
    action = 0
    while turn > 0 or state.held_by[action] != 0:
        turn -= state.held_by[action] == 0
        action += 1
    return action


@inner
def take_in(state, context, step, action, reward):
    ball = state.clock[LATEST]
    if step != state.clock[TIME]:  # late: the ball that would be chosen for it by now
        ball, _ = find_ball(state, action, sift(state, context))
    state.counts[ball] += 1
    state.sums[ball] += reward
    bound(state, ball)
    if doubt(state, ball) <= state.radii[ball] and state.radii[ball] > SMALLEST:
        activate(state, context, action, 0.5 * state.radii[ball])


@inner
def activate(state, context, action, radius):
    """A new ball around the context. No ball of its size holds the context, so equal balls never crowd."""
    ball = state.clock[USED]
    state.clock[USED] = ball + 1
    state.arms[ball] = action
    state.radii[ball] = radius
    for i in range(len(context)):
        state.centres[ball, i] = context[i]
    for i in range(len(state.sieve)):
        state.sieve[i, ball] = context[i]
    bound(state, ball)


ZOOMING = make_doors(Balls, choose_zooming, take_in, file=__file__, has_room=has_room)
