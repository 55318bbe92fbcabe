"""Decision and learning step of AdaptiveReleaf."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

from releaf.core.adaptive.drift_detection import fade, forget_before_drift, notices_drift
from releaf.core.adaptive.levels import find_levels
from releaf.core.adaptive.logistic_regression import logistic, product, update_posterior, variance
from releaf.core.adaptive.refit import calls_for_refit, is_due, refit_due, store_reward
from releaf.core.adaptive.reward_requests import requests_reward
from releaf.core.adaptive.state import (
    ALWAYS,
    COLUMNS,
    FIRST_FIT,
    FLOOR,
    LEARNT,
    NEXT,
    OPTIMISM,
    REQUESTED,
    RULE,
    SEEN,
    TABLES,
    Adaptive,
)
from releaf.core.adaptive.table_columns import find_places, lay_out, unlikeness
from releaf.core.runtime.entry_points import EntryPoints, state_entry_point
from releaf.core.runtime.jit import inlined, outlined
from releaf.core.runtime.primitives import RANDOM, TIME, argmax
from releaf.core.runtime.random_generator import unit

OPTIMISM_LEVELS = 16  # from which one is drawn


@outlined
def update_levels(clock, context, seen, categories, knots, levels):
    """Store a context, and set the levels again whenever the number of contexts has doubled."""
    time = clock[TIME]
    seen[(time - 1) % SEEN] = context
    if time >= FIRST_FIT and time & (time - 1) == 0:
        find_levels(seen[: min(time, SEEN)], categories, knots, levels)


@inlined
def lay_out_for(state, context, action):
    """Write the sparse columns of a context for an action; returns their number."""
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


@inlined
def estimate(state, context):
    """Set logit, its standard deviation, and estimated reward of each action."""
    for action in range(len(state.estimates)):
        filled = lay_out_for(state, context, action)
        state.logits[action] = product(state.weights[action], state.where, state.value, filled)
        state.spreads[action] = math.sqrt(variance(state.covariance[action], state.where, state.value, filled))
        state.estimates[action] = logistic(state.logits[action])


@inlined
def choose(state, context):
    observe_context(state, context)
    estimate(state, context)
    leader = argmax(state.logits)
    if state.params[RULE] != ALWAYS:
        if not requests_reward(state, context, leader):
            state.chance[0] = 1.0
            return 2 * leader
        state.clock[REQUESTED] += 1
    set_probabilities(state)
    action = draw_action(state)
    state.chance[0] = state.chances[action]
    return 2 * action + (action != leader or state.params[RULE] != ALWAYS)


@inlined
def set_probabilities(state):
    """Set each action's probability under randomised UCB, one draw of optimism for all actions (Vaswani et al. 2020).

    For each level of optimism the action with the highest logit plus so many standard deviations is chosen, and ties
    are broken uniformly; so the probabilities are exact.
    """
    actions = len(state.logits)
    sure = 1.0 - actions * state.params[FLOOR]
    for action in range(actions):
        state.chances[action] = state.params[FLOOR]
    for level in range(OPTIMISM_LEVELS):
        optimism = 2.0 * state.params[OPTIMISM] * (level + 0.5) / OPTIMISM_LEVELS
        highest, equal = -math.inf, 0
        for action in range(actions):
            upper = state.logits[action] + optimism * state.spreads[action]
            if upper > highest:
                highest, equal = upper, 0
            equal += upper == highest
        for action in range(actions):
            if state.logits[action] + optimism * state.spreads[action] == highest:
                state.chances[action] += sure / (OPTIMISM_LEVELS * equal)


@inlined
def draw_action(state):
    """Draw an action with these probabilities."""
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


@inlined
def update(state, context, step, action, reward):
    """Learn a reward, online or with the next refit; returns whether a refit is due."""
    filled = lay_out_for(state, context, action)
    mean = logistic(product(state.weights[action], state.where, state.value, filled))
    store_reward(state, context, action, reward)
    if notices_drift(state, action, mean, reward):
        forget_before_drift(state, action)
    if calls_for_refit(state, action, mean, reward):
        state.counts[action, NEXT] = state.counts[action, LEARNT]
    if not is_due(state.counts[action]):
        fade(state, action)
        update_posterior(
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


@inlined
def update_all(state, context, step, rewards):
    """Learn the rewards of all actions; returns whether a refit is due."""
    due = False
    for action in range(len(rewards)):
        due |= update(state, context, step, action, rewards[action])
    return due


@inlined
def observe_context(state, context):
    """Update the levels with a context, independent of any reward."""
    update_levels(state.clock, context, state.seen, state.categories, state.fresh_knots, state.fresh_levels)


@inlined
def estimate_many(state, contexts, estimates):
    """Estimate the reward of each action in many contexts."""
    for row in range(len(contexts)):
        estimate(state, contexts[row])
        estimates[row] = state.estimates


@inlined
def no_refit_due(state):
    """Whether a replay can continue: refits have their own entry point, so that they are compiled once."""
    for action in range(len(state.estimates)):  # noqa: SIM110 - a bare loop compiles faster than any()
        if is_due(state.counts[action]):
            return False
    return True


@inlined
def predict_with_columns_of(state, context, action, columns):
    """Write the dense columns of a context for an action; returns its logit and standard deviation."""
    filled = lay_out_for(state, context, action)
    for i in range(filled):
        columns[state.where[i]] += state.value[i]
    logit = product(state.weights[action], state.where, state.value, filled)
    return logit, math.sqrt(variance(state.covariance[action], state.where, state.value, filled))


@inlined
def wants(state, decision):
    """Whether the reward of a decision is wanted: every one, or those of explorations."""
    return decision & 1 == 1 or state.params[RULE] == ALWAYS


refit_due_actions = state_entry_point(refit_due, Adaptive, arguments=0)
predict_with_columns = state_entry_point(predict_with_columns_of, Adaptive, arguments=3)
predict_many = state_entry_point(estimate_many, Adaptive, arguments=2)
ADAPTIVE = EntryPoints(
    choose, update, Adaptive, wants=wants, has_capacity=no_refit_due, observe_context=observe_context
)
ADAPTIVE_OF_LABELS = EntryPoints(choose, update_all, Adaptive, rewards="all", has_capacity=no_refit_due)
