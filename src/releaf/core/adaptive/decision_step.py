"""How AdaptiveReleaf chooses, and how it learns a reward."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

from releaf.core.adaptive.drift_detection import fade, forget_before, notices_drift
from releaf.core.adaptive.levels import find_levels
from releaf.core.adaptive.logistic_regression import logistic, product, update, variance
from releaf.core.adaptive.refit import calls_for_fit, is_due, remember, renew
from releaf.core.adaptive.reward_requests import asks
from releaf.core.adaptive.state import (
    ALWAYS,
    ASKED,
    COLUMNS,
    FIRST_FIT,
    FLOOR,
    LEARNT,
    NEXT,
    OPTIMISM,
    RULE,
    SEEN,
    TABLES,
)
from releaf.core.adaptive.table_columns import find_places, lay_out, unlikeness
from releaf.core.runtime.entry_points import Door, Doors
from releaf.core.runtime.jit import inner, outlined
from releaf.core.runtime.primitives import RANDOM, TIME, best_of
from releaf.core.runtime.random_generator import unit

MOODS = 16  # degrees of optimism that one is drawn from


@outlined
def look(clock, context, seen, categories, knots, levels):
    """Remember a context, and find the levels anew whenever the number of contexts has doubled."""
    time = clock[TIME]
    seen[(time - 1) % SEEN] = context
    if time >= FIRST_FIT and time & (time - 1) == 0:
        find_levels(seen[: min(time, SEEN)], categories, knots, levels)


@inner
def lay_out_for(state, context, action):
    """The columns of a context for an action; how many are not 0."""
    levels, categories, counts = state.levels[action], state.categories, state.counts
    find_places(context, state.knots[action], levels, categories, state.places, state.heights)
    return lay_out(
        state.places,
        state.heights,
        unlikeness(context, state.ranges[action]),
        levels,
        categories,
        state.limits,
        state.tables[action],
        counts[action, TABLES],
        state.where,
        state.value,
    )


@inner
def estimate(state, context):
    """The logit of each action's expected reward, its standard deviation, and the expected reward."""
    for action in range(len(state.estimates)):
        filled = lay_out_for(state, context, action)
        state.logits[action] = product(state.weights[action], state.where, state.value, filled)
        state.spreads[action] = math.sqrt(variance(state.covariance[action], state.where, state.value, filled))
        state.estimates[action] = logistic(state.logits[action])


@inner
def choose(state, context):
    see(state, context)
    estimate(state, context)
    leader = best_of(state.logits)
    if state.params[RULE] != ALWAYS:
        if not asks(state, context, leader):
            state.chance[0] = 1.0
            return 2 * leader
        state.clock[ASKED] += 1
    draw_chances(state)
    action = drawn(state)
    state.chance[0] = state.chances[action]
    return 2 * action + (action != leader or state.params[RULE] != ALWAYS)


@inner
def draw_chances(state):
    """The probability of each action when the degree of optimism is drawn, one for all actions (Vaswani et al. 2020).

    An action is chosen for its logit plus so many standard deviations, one of them where several are equal, as all are
    before the first reward; so the probabilities are known exactly.
    """
    actions = len(state.logits)
    sure = 1.0 - actions * state.params[FLOOR]
    for action in range(actions):
        state.chances[action] = state.params[FLOOR]
    for mood in range(MOODS):
        optimism = 2.0 * state.params[OPTIMISM] * (mood + 0.5) / MOODS
        highest, equal = -math.inf, 0
        for action in range(actions):
            hoped = state.logits[action] + optimism * state.spreads[action]
            if hoped > highest:
                highest, equal = hoped, 0
            equal += hoped == highest
        for action in range(actions):
            if state.logits[action] + optimism * state.spreads[action] == highest:
                state.chances[action] += sure / (MOODS * equal)


@inner
def drawn(state):
    """An action drawn with these probabilities."""
    left = unit(state.clock, RANDOM)
    last = 0
    for action in range(len(state.chances)):
        if state.chances[action] > 0.0:
            last = action
            left -= state.chances[action]
            if left < 0.0:
                break
    return last


# --- learning ---------------------------------------------------------------------------------------------


@inner
def take_in(state, context, step, action, reward):
    """Learn a reward, at once or by leaving it to the next fit; whether one is due now."""
    filled = lay_out_for(state, context, action)
    mean = logistic(product(state.weights[action], state.where, state.value, filled))
    remember(state, context, action, reward)
    if notices_drift(state, action, mean, reward):
        forget_before(state, action)
    if calls_for_fit(state, action, mean, reward):
        state.counts[action, NEXT] = state.counts[action, LEARNT]
    if not is_due(state.counts[action]):
        fade(state, action)
        update(
            state.weights[action],
            state.covariance[action],
            state.counts[action, COLUMNS],
            state.where,
            state.value,
            filled,
            reward,
            state.dispersion[action],
            state.push,
        )
    return is_due(state.counts[action])


@inner
def take_in_all(state, context, step, rewards):
    """Learn the rewards of all actions; whether a fit is due now."""
    due = False
    for action in range(len(rewards)):
        due |= take_in(state, context, step, action, rewards[action])
    return due


@inner
def see(state, context):
    """What a context alone teaches."""
    look(state.clock, context, state.seen, state.categories, state.fresh_knots, state.fresh_levels)


@inner
def estimate_many(state, contexts, estimates):
    """The expected reward of each action in many contexts."""
    for row in range(len(contexts)):
        estimate(state, contexts[row])
        estimates[row] = state.estimates


@inner
def none_due(state):
    """Whether it can go on: choosing tables anew is a call of its own, so that it is compiled once only."""
    for action in range(len(state.estimates)):  # noqa: SIM110 - a bare loop compiles faster than any()
        if is_due(state.counts[action]):
            return False
    return True


@inner
def look_up_one(state, context, action, columns):
    """All columns of a context for an action; its logit and standard deviation."""
    filled = lay_out_for(state, context, action)
    for i in range(filled):
        columns[state.where[i]] += state.value[i]
    logit = product(state.weights[action], state.where, state.value, filled)
    return logit, math.sqrt(variance(state.covariance[action], state.where, state.value, filled))


@inner
def wants(state, decision):
    """Whether the reward of a decision is wanted: where it explored, or of every one."""
    return decision & 1 == 1 or state.params[RULE] == ALWAYS


renew_all = Door(renew, file=__file__)
look_up = Door(look_up_one, "context", "action", "columns", file=__file__)
expect = Door(estimate_many, "contexts", "estimates", file=__file__)
ADAPTIVE = Doors(choose, take_in, file=__file__, wants=wants, has_room=none_due, see=see)
ADAPTIVE_OF_LABELS = Doors(choose, take_in_all, file=__file__, rewards="all", has_room=none_due)
