"""Contextual zooming: balls over contexts and actions, smaller where they are chosen often."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.arrays import Array
from releaf.core.runtime.entry_points import EntryPoints
from releaf.core.runtime.jit import inlined, outlined
from releaf.core.runtime.primitives import (
    CLOCK_LENGTH,
    LATEST,
    RANDOM,
    TIME,
    USED,
    best_eligible,
    difference,
    new_clock,
)
from releaf.core.runtime.random_generator import integer_below
from releaf.core.runtime.state import LearnerState, constant, learnt, scratch

LIPSCHITZ, CONFIDENCE, HORIZON = 0, 1, 2  # fields of params; a horizon of 0 is unknown
ANY = -1  # the action of the first ball, which covers all of them
OUTDATED = -1  # the latest decision's ball, where a newer ball exists
SMALLEST = 2.0**-40  # no ball has a smaller radius
SIFTED = 10  # features by which most balls are ruled out
ROUGHLY = 1e-6  # tolerance for their single precision
STARTING_CAPACITY = 64


class Balls(LearnerState):
    """State of each ball: centre, radius, number of choices, and sum of rewards.

    ``bounds`` is its pre-index, which changes with its rewards and the horizon only. ``sieve`` holds the first few
    values of all centres, one contiguous row per feature.
    """

    grows = "balls"
    clock: Array = learnt(np.int64, CLOCK_LENGTH)
    params: Array = constant(np.float64, "parameters")
    limits: Array = constant(np.float64, "features")
    stretch: Array = constant(np.float64, "features")
    centres: Array = learnt(np.float64, "balls", "features")
    sieve: Array = learnt(np.float32, "sifted", "balls")
    arms: Array = learnt(np.int64, "balls", least=ANY)
    radii: Array = learnt(np.float64, "balls")
    counts: Array = learnt(np.int64, "balls", least=0)
    sums: Array = learnt(np.float64, "balls")
    bounds: Array = learnt(np.float64, "balls")
    nearest: Array = learnt(np.int64, "balls", least=0)
    reach: Array = learnt(np.float64, "balls")
    apart: Array = scratch(np.float32, "balls")
    inside: Array = scratch(np.int64, "balls")
    smallest: Array = scratch(np.float64, "actions")
    eligible: Array = scratch(np.uint8, "actions")
    estimates: Array = scratch(np.float64, "actions")
    chance: Array = scratch(np.float64, 1)


def new_balls(
    seed: int | None, limits: Array, stretch: Array, actions: int, params: tuple[float, float, float]
) -> Balls:
    """Initial state: one ball that covers everything."""
    clock = new_clock(seed)
    clock[USED] = 1
    of_balls = ("arms", "radii", "counts", "sums", "bounds", "nearest", "reach", "apart", "inside")
    state = Balls(
        clock=clock,
        params=params,
        limits=limits,
        stretch=stretch,
        centres=np.zeros((STARTING_CAPACITY, len(limits))),
        sieve=np.zeros((min(SIFTED, len(limits)), STARTING_CAPACITY)),
        **{name: np.zeros(STARTING_CAPACITY) for name in of_balls},
        smallest=np.zeros(actions),
        eligible=np.ones(actions),
        estimates=np.zeros(actions),
        chance=np.zeros(1),
    )
    state.arms[0], state.radii[0] = ANY, 1.0
    state.bounds[0] = 1.0 + params[CONFIDENCE] * math.sqrt(math.log(params[HORIZON] or 2.0))
    return state


@inlined
def has_capacity(state):
    return state.clock[USED] < len(state.arms)


# --- locating balls ------------------------------------------------------------------------------------------


@inlined
def distance_squared(stretch, context, centre, limit):
    """Squared Euclidean distance of a context and a ball's centre, or some value above the limit.

    It takes no state: passing one for each ball would cost more than the distance.
    """
    total = 0.0
    for i in range(len(context)):
        gap = difference(context[i], centre[i], stretch[i])
        total += gap * gap
        if total > limit:
            break
    return total


@outlined  # not inlined, so that the compiler vectorizes it
def measure_roughly(point, stretch, sieve, apart):
    """Write the squared distances of a point from all centres, by the first few features, to ``apart``."""
    for ball in range(len(apart)):
        apart[ball] = np.float32(0.0)
    for i in range(len(sieve)):
        value, factor, values = np.float32(point[i]), np.float32(stretch[i]), sieve[i]
        for ball in range(len(apart)):
            gap = min(abs(value - values[ball]) * factor, np.float32(1.0))
            apart[ball] += gap * gap


@inlined
def find_around(state, context):
    """Write the balls that contain a context to ``inside``, without the first ball; returns their number."""
    measure_roughly(context, state.stretch, state.sieve, state.apart[: state.clock[USED]])
    held, scale = 0, 1.0 / state.params[LIPSCHITZ]
    for ball in range(1, state.clock[USED]):
        reach = state.radii[ball] * scale
        near = state.apart[ball] <= (reach + ROUGHLY) * (reach + ROUGHLY)
        if near and distance_squared(state.stretch, context, state.centres[ball], reach * reach) <= reach * reach:
            state.inside[held] = ball
            held += 1
    return held


# --- indices ------------------------------------------------------------------------------


@inlined
def log_horizon(state, step):
    """Logarithm of T; where T is unknown, of the next power of two (doubling trick)."""
    horizon = state.params[HORIZON]
    if horizon == 0.0:
        horizon = 2.0
        while horizon < step:
            horizon *= 2.0
    return math.log(horizon)


@inlined
def confidence_radius(state, ball):
    """Confidence radius of a ball's mean (conf)."""
    return state.params[CONFIDENCE] * math.sqrt(log_horizon(state, state.clock[TIME]) / (1.0 + state.counts[ball]))


@inlined
def update_pre_index(state, ball):
    """Update the pre-index of a ball."""
    mean = state.sums[ball] / max(state.counts[ball], 1)
    state.bounds[ball] = mean + state.radii[ball] + confidence_radius(state, ball)


@outlined
def update_all_pre_indices(state):
    for ball in range(state.clock[USED]):
        update_pre_index(state, ball)


@inlined
def index_of(state, ball):
    """Index of a ball: upper bound on its reward, by itself and by each ball that is at least as large.

    The ball that determines it is stored in ``nearest``, and its distance in ``reach``.
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
            apart = 1.0  # the largest distance, and that of other actions
            reach = min(slack, 1.0) * scale
            if state.arms[other] == arm and state.apart[other] <= (reach + ROUGHLY) * (reach + ROUGHLY):
                squared = distance_squared(state.stretch, centre, state.centres[other], reach * reach)
                apart = min(apart, math.sqrt(squared) / scale)
            if apart < slack:
                lowest = state.bounds[other] + apart
                state.nearest[ball], state.reach[ball] = other, apart
    return radius + lowest


@inlined
def index_at_most(radii, bounds, nearest, reach, ball):
    """Upper bound on a ball's index that is cheap: by itself and by the ball that determined it last time."""
    return radii[ball] + min(bounds[ball], bounds[nearest[ball]] + reach[ball])


@inlined
def survey(state, held):
    """Set each action's smallest radius of balls that contain the context, and its estimate.

    The estimate is the mean of the smallest containing ball that was ever chosen.
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


@inlined
def highest_at_most(state, held, only):
    """Ball with the highest upper bound of the index, among balls whose domain has the context.

    Of one action, or of all eligible ones.

    It is the first ball where no other covers an action. Ties go to the first action.
    """
    found, arm, highest = -1, len(state.smallest), -math.inf
    for action in range(len(state.smallest)):
        if state.smallest[action] == 1.0 and state.eligible[action] and only in (ANY, action):
            found, arm, highest = 0, action, 1.0 + state.bounds[0]
            break
    for place in range(held):
        ball = state.inside[place]
        action = state.arms[ball]
        if state.radii[ball] == state.smallest[action] and state.eligible[action] and only in (ANY, action):
            index = index_at_most(state.radii, state.bounds, state.nearest, state.reach, ball)
            if index > highest or (index == highest and action < arm):
                found, arm, highest = ball, action, index
    return found


@inlined
def find_ball(state, held, only):
    """Ball with the highest index: tighten the highest upper bound until it is exact."""
    while True:
        found = highest_at_most(state, held, only)
        before = index_at_most(state.radii, state.bounds, state.nearest, state.reach, found)
        if found == 0 or index_of(state, found) == before:
            return found


# --- one step -------------------------------------------------------------------------------------------------


@inlined
def choose_zooming(state, context):
    if log_horizon(state, state.clock[TIME]) != log_horizon(state, state.clock[TIME] - 1):
        update_all_pre_indices(state)
    held = find_around(state, context)
    survey(state, held)
    ball = find_ball(state, held, ANY)
    chosen = state.arms[ball]
    state.chance[0] = 1.0
    if ball == 0:  # any of the actions that no other ball covers
        uncovered = count_uncovered(state)
        state.chance[0] = 1.0 / uncovered
        chosen = nth_uncovered(state, integer_below(state.clock, RANDOM, uncovered))
    state.clock[LATEST] = ball
    return 2 * chosen + (state.estimates[chosen] < state.estimates[best_eligible(state.estimates, state.eligible)])


@inlined
def count_uncovered(state):
    uncovered = 0
    for action in range(len(state.smallest)):
        uncovered += is_uncovered(state, action)
    return uncovered


@inlined
def is_uncovered(state, action):
    return state.eligible[action] != 0 and state.smallest[action] == 1.0


@inlined
def nth_uncovered(state, turn):
    action = 0
    while turn > 0 or not is_uncovered(state, action):
        turn -= is_uncovered(state, action)
        action += 1
    return action


@inlined
def update(state, context, step, action, reward):
    ball = state.clock[LATEST]
    if step != state.clock[TIME] or ball == OUTDATED:  # the ball that would be chosen for this context now
        held = find_around(state, context)
        survey(state, held)
        ball = find_ball(state, held, action)
    state.counts[ball] += 1
    state.sums[ball] += reward
    update_pre_index(state, ball)
    if confidence_radius(state, ball) <= state.radii[ball] and state.radii[ball] > SMALLEST:
        activate(state, context, action, 0.5 * state.radii[ball])


@inlined
def activate(state, context, action, radius):
    """Add a ball around the context. No ball of its size contains the context, so equal balls never accumulate."""
    ball = state.clock[USED]
    state.clock[USED] = ball + 1
    state.clock[LATEST] = OUTDATED
    state.arms[ball] = action
    state.radii[ball] = radius
    for i in range(len(context)):
        state.centres[ball, i] = context[i]
    for i in range(len(state.sieve)):
        state.sieve[i, ball] = context[i]
    update_pre_index(state, ball)
    state.nearest[ball], state.reach[ball] = 0, 1.0


ZOOMING = EntryPoints(choose_zooming, update, Balls, has_capacity=has_capacity)
