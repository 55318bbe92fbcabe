"""Contextual zooming: balls over contexts and actions that get smaller where they are chosen often."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from releaf.core.runtime.entry_points import Doors
from releaf.core.runtime.jit import inner, outlined
from releaf.core.runtime.primitives import LATEST, RANDOM, TIME, USED, Array, best_of, difference, new_clock
from releaf.core.runtime.random_generator import whole_below

LIPSCHITZ, CONFIDENCE, HORIZON = 0, 1, 2  # params; a horizon of 0 is unknown
ANY = -1  # the arm of the first ball, which holds all of them
OUTDATED = -1  # the latest decision's ball, when there are new ones since
SMALLEST = 2.0**-40  # no ball has a smaller radius
SIFTED = 10  # features that most balls are ruled out by
ROUGHLY = 1e-6  # they are kept in single precision
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
    nearest: Array
    reach: Array
    apart: Array
    inside: Array
    smallest: Array
    estimates: Array
    chance: Array


def new_balls(
    seed: int | None, limits: Array, stretch: Array, actions: int, params: tuple[float, float, float]
) -> Balls:
    """One ball that holds everything."""
    clock = new_clock(seed)
    clock[USED] = 1
    arms, counts, nearest, inside = np.zeros((4, STARTING_ROOM), dtype=np.int64)
    radii, sums, bounds, reach = np.zeros((4, STARTING_ROOM))
    apart = np.zeros(STARTING_ROOM, dtype=np.float32)
    arms[0], radii[0] = ANY, 1.0
    bounds[0] = 1.0 + params[CONFIDENCE] * math.sqrt(math.log(params[HORIZON] or 2.0))
    centres = np.zeros((STARTING_ROOM, len(limits)))
    sieve = np.zeros((min(SIFTED, len(limits)), STARTING_ROOM), dtype=np.float32)
    smallest, estimates = np.zeros((2, actions))
    known = (centres, sieve, arms, radii, counts, sums, bounds, nearest, reach)
    return Balls(clock, np.array(params), limits, stretch, *known, apart, inside, smallest, estimates, np.zeros(1))


@inner
def has_room(state):
    return state.clock[USED] < len(state.arms)


# --- where balls are ------------------------------------------------------------------------------------------


@inner
def distance_squared(stretch, context, centre, limit):
    """The squared Euclidean distance of a context and a ball's centre, or something above the limit.

    It takes no state: handing one over for each ball would cost more than the distance.
    """
    total = 0.0
    for i in range(len(context)):
        gap = difference(context[i], centre[i], stretch[i])
        total += gap * gap
        if total > limit:
            break
    return total


@outlined  # on its own the compiler sees that lanes can be used
def measure_roughly(point, stretch, sieve, apart):
    """To ``apart`` the squared distance of a point from all balls' centres by their first few features, all at once."""
    for ball in range(len(apart)):
        apart[ball] = np.float32(0.0)
    for i in range(len(sieve)):
        value, factor, values = np.float32(point[i]), np.float32(stretch[i]), sieve[i]
        for ball in range(len(apart)):
            gap = min(abs(value - values[ball]) * factor, np.float32(1.0))
            apart[ball] += gap * gap


@inner
def find_around(state, context):
    """The balls that hold a context go to ``inside``; how many there are. The first ball is not among them."""
    measure_roughly(context, state.stretch, state.sieve, state.apart[: state.clock[USED]])
    held, scale = 0, 1.0 / state.params[LIPSCHITZ]
    for ball in range(1, state.clock[USED]):
        reach = state.radii[ball] * scale
        near = state.apart[ball] <= (reach + ROUGHLY) * (reach + ROUGHLY)
        if near and distance_squared(state.stretch, context, state.centres[ball], reach * reach) <= reach * reach:
            state.inside[held] = ball
            held += 1
    return held


# --- what their rewards could be ------------------------------------------------------------------------------


@inner
def log_horizon(state, step):
    """The logarithm of T; where it is unknown, of the power of two that the time has reached, like a guess of T."""
    horizon = state.params[HORIZON]
    if horizon == 0.0:
        horizon = 2.0
        while horizon < step:
            horizon *= 2.0
    return math.log(horizon)


@inner
def doubt(state, ball):
    """conf: the confidence radius of a ball's mean."""
    return state.params[CONFIDENCE] * math.sqrt(log_horizon(state, state.clock[TIME]) / (1.0 + state.counts[ball]))


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
    """What a ball's reward could be, by itself and by each ball that is at least as large.

    The one that decided it is remembered in ``nearest``, with its distance in ``reach``.
    """
    radius, arm, centre = state.radii[ball], state.arms[ball], state.centres[ball]
    lowest, scale = (
        index_at_most(state.radii, state.bounds, state.nearest, state.reach, ball) - radius,
        1.0 / state.params[LIPSCHITZ],
    )
    measure_roughly(centre, state.stretch, state.sieve, state.apart[: state.clock[USED]])
    for other in range(state.clock[USED]):
        slack = lowest - state.bounds[other]
        if slack > 0.0 and state.radii[other] >= radius:
            apart = 1.0  # nothing is farther away, and other actions are as far
            reach = min(slack, 1.0) * scale
            if state.arms[other] == arm and state.apart[other] <= (reach + ROUGHLY) * (reach + ROUGHLY):
                squared = distance_squared(state.stretch, centre, state.centres[other], reach * reach)
                apart = min(apart, math.sqrt(squared) / scale)
            if apart < slack:
                lowest = state.bounds[other] + apart
                state.nearest[ball], state.reach[ball] = other, apart
    return radius + lowest


@inner
def index_at_most(radii, bounds, nearest, reach, ball):
    """A bound on a ball's index that is quick to tell: by itself and by the ball that decided it last time."""
    return radii[ball] + min(bounds[ball], bounds[nearest[ball]] + reach[ball])


@inner
def survey(state, held):
    """For each action the radius of the smallest balls that hold the context, and its estimate.

    The estimate is the mean of the smallest ball around that was ever chosen.
    """
    for action in range(len(state.estimates)):
        smallest, observed = 1.0, 0
        for place in range(held):
            ball = state.inside[place]
            if state.arms[ball] == action:
                smallest = min(smallest, state.radii[ball])
                if state.counts[ball] > 0 and state.radii[ball] < state.radii[observed]:
                    observed = ball
        state.smallest[action] = smallest
        state.estimates[action] = state.sums[observed] / max(state.counts[observed], 1)


@inner
def highest_at_most(state, held, only):
    """Of the balls whose domain has the context, or of those of one action, the one whose index could be highest.

    That is the first ball where no other holds an action. Ties go to the first action.
    """
    found, arm, highest = -1, len(state.smallest), -math.inf
    for action in range(len(state.smallest)):
        if state.smallest[action] == 1.0 and only in (ANY, action):
            found, arm, highest = 0, action, 1.0 + state.bounds[0]
            break
    for place in range(held):
        ball = state.inside[place]
        action = state.arms[ball]
        if state.radii[ball] == state.smallest[action] and only in (ANY, action):
            index = index_at_most(state.radii, state.bounds, state.nearest, state.reach, ball)
            if index > highest or (index == highest and action < arm):
                found, arm, highest = ball, action, index
    return found


@inner
def find_ball(state, held, only):
    """The same, with the index itself in place of its bound: the highest bound is worked out until it stays."""
    while True:
        found = highest_at_most(state, held, only)
        before = index_at_most(state.radii, state.bounds, state.nearest, state.reach, found)
        if found == 0 or index_of(state, found) == before:
            return found


# --- one step -------------------------------------------------------------------------------------------------


@inner
def choose_zooming(state, context):
    if log_horizon(state, state.clock[TIME]) != log_horizon(state, state.clock[TIME] - 1):
        bound_every(state)
    held = find_around(state, context)
    survey(state, held)
    ball = find_ball(state, held, ANY)
    chosen = state.arms[ball]
    state.chance[0] = 1.0
    if ball == 0:  # it is about all actions that no other ball holds: any of them
        uncovered = count_uncovered(state)
        state.chance[0] = 1.0 / uncovered
        chosen = nth_uncovered(state, whole_below(state.clock, RANDOM, uncovered))
    state.clock[LATEST] = ball
    return 2 * chosen + (state.estimates[chosen] < state.estimates[best_of(state.estimates)])


@inner
def count_uncovered(state):
    uncovered = 0
    for radius in state.smallest:
        uncovered += radius == 1.0
    return uncovered


@inner
def nth_uncovered(state, turn):
    action = 0
    while turn > 0 or state.smallest[action] < 1.0:
        turn -= state.smallest[action] == 1.0
        action += 1
    return action


@inner
def take_in(state, context, step, action, reward):
    ball = state.clock[LATEST]
    if step != state.clock[TIME] or ball == OUTDATED:  # the ball that would be chosen for it by now
        held = find_around(state, context)
        survey(state, held)
        ball = find_ball(state, held, action)
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
    state.clock[LATEST] = OUTDATED
    state.arms[ball] = action
    state.radii[ball] = radius
    for i in range(len(context)):
        state.centres[ball, i] = context[i]
    for i in range(len(state.sieve)):
        state.sieve[i, ball] = context[i]
    bound(state, ball)
    state.nearest[ball], state.reach[ball] = 0, 1.0


ZOOMING = Doors(choose_zooming, take_in, file=__file__, has_room=has_room)
