"""Decision and learning step of AdaptiveReleaf."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.core.adaptive.category_effects import total_effect, update_effects
from releaf.core.adaptive.drift_detection import (
    fade,
    forget_before_drift,
    forget_before_trend,
    learn_trend,
    notices_drift,
    notices_trend,
)
from releaf.core.adaptive.levels import find_levels
from releaf.core.adaptive.mixture import add_losses, mix, needs_trees, sharpness_of, weigh
from releaf.core.adaptive.model import rank_of
from releaf.core.adaptive.reward_requests import count_request, next_label_cost, requests_reward
from releaf.core.adaptive.ridge import product, product_of_first, update_posterior, variance_of
from releaf.core.adaptive.sample import KEYS, key_of, note_due, store_reward
from releaf.core.adaptive.state import (
    ADDITIVE,
    ALWAYS,
    COLUMNS,
    DUE,
    EXPERTS,
    FITTED_FOR,
    FLOOR,
    FORGET_TO,
    LEARNT,
    LINE_COLUMNS,
    LINES,
    MISSED,
    NEXT,
    OFFSET,
    OPTIMISM,
    RULE,
    SEEN,
    SHARP_TREES,
    SMOOTH_TREES,
    STEADY_TREES,
    TABLES,
    TREES,
    VARIANCE,
    Adaptive,
    open_model_at,
    open_sample_at,
)
from releaf.core.adaptive.table_columns import find_places, lay_out, unlikeness
from releaf.core.adaptive.trees import learn_in_leaves, predict
from releaf.core.runtime.entry_points import EntryPoints, state_entry_point
from releaf.core.runtime.jit import inlined, outlined
from releaf.core.runtime.primitives import RANDOM, TIME, best_eligible, count_eligible, is_forced
from releaf.core.runtime.random_generator import unit
from releaf.core.runtime.spending import set_net

OPTIMISM_LEVELS = 16  # from which one is drawn
MOST_OPTIMISM = 2.0  # times the parameter
# To try actions that are known less well than others: up to a number of decisions, and what its logarithm adds later.
EAGERNESS, LATER_EAGERNESS, LATER = 0.8, 0.4, 1_000
FIRST_LEVELS = 8  # contexts from which the levels are set for the first time
SURPRISE = 0.9  # of a requested reward, from which on a fit is due at once
FEW = 1024  # rewards up to which that holds
UNLIKELY = 36.0  # squared standard deviations by which errors since a fit add up, from which on another is due
FEWEST_MISSED, SHARE_MISSED = 64, 16  # rewards since a fit for that, and the part of those of the fit


@outlined
def observe_context(state, context):
    """Sample contexts, and set the levels again whenever their number has doubled."""
    time, counts = state.clock[TIME], state.seen_counts
    key = key_of(context, time, 0.0)
    if counts[0] == SEEN and key < KEYS >> counts[1]:
        thin_seen(state)
    if key < KEYS >> counts[1]:
        store_seen(state, context, key, time)
    if time >= FIRST_LEVELS and time & (time - 1) == 0:
        set_fresh_levels(state)


@inlined
def store_seen(state, context, key, step):
    row = state.seen_counts[0]
    for feature in range(len(context)):
        state.seen[row, feature] = context[feature]
    state.seen_keys[row] = key
    state.seen_steps[row] = step
    state.seen_counts[0] += 1


@inlined
def thin_seen(state):
    """Halve the rate of sampled contexts until one more can be stored."""
    while state.seen_counts[0] == SEEN:
        state.seen_counts[1] += 1
        stored = state.seen_counts[0]
        state.seen_counts[0] = 0
        for row in range(stored):
            if state.seen_keys[row] < KEYS >> state.seen_counts[1]:
                store_seen(state, state.seen[row], state.seen_keys[row], state.seen_steps[row])


@outlined
def set_fresh_levels(state):
    """Set the levels from the sampled contexts."""
    find_levels(state.seen[: state.seen_counts[0]], state.categories, state.fresh_knots, state.fresh_levels)


@inlined
def lay_out_for(state, model, context):
    """Write the sparse columns of a context for an action; returns their number."""
    find_places(context, model.knots, model.levels, state.categories, state.places, state.heights)
    return lay_out(
        state.places,
        state.heights,
        unlikeness(context, model.ranges),
        model.levels,
        state.categories,
        state.limits,
        model.tables,
        model.counts[TABLES],
        state.where,
        state.value,
    )


@inlined
def rank_for(state, model, context):
    """Write the values of a context as an action's trees see them."""
    for feature in range(len(context)):
        state.ranked[feature] = rank_of(context, feature, state.categories, state.first_category, model.ranks)


@inlined
def clipped(value):
    return min(max(value, 0.0), 1.0)


@inlined
def set_regressions(state, model, filled, effect, predictions):
    offset = model.numbers[OFFSET] + effect
    predictions[ADDITIVE] = clipped(offset + product(model.weights, state.where, state.value, filled))
    predictions[LINES] = clipped(
        offset + product_of_first(model.line_weights, model.counts[LINE_COLUMNS], state.where, state.value, filled)
    )


@inlined
def set_trees(state, model, context, predictions):
    """Set the predictions of trees, to the regression's where none are grown yet."""
    if model.counts[TREES] > 0:
        rank_for(state, model, context)
        predictions[SHARP_TREES], predictions[SMOOTH_TREES], predictions[STEADY_TREES] = predict(
            model.nodes, model.roots, model.counts[TREES], state.ranked, state.leaves
        )
        return
    predictions[SHARP_TREES] = predictions[ADDITIVE]
    predictions[SMOOTH_TREES] = predictions[ADDITIVE]
    predictions[STEADY_TREES] = predictions[ADDITIVE]


@outlined
def estimate(state, context, by_all):
    """Set the estimated reward of each action, its standard deviation, and its bonus.

    Experts that count nothing predict only if that is asked for, ``by_all``.
    """
    sharpness = sharpness_of(state.reward_sums)
    for action in range(len(state.estimates)):
        model = open_model_at(state.models[action])
        predictions = state.predictions[action]
        filled = lay_out_for(state, model, context)
        effect, effect_variance = total_effect(
            context, state.categories, state.first_effect, model.effect_means, model.effect_variances
        )
        set_regressions(state, model, filled, effect, predictions)
        weigh(state.losses[action], state.pooled_losses, sharpness, state.weights)
        if by_all or needs_trees(state.weights):
            set_trees(state, model, context, predictions)
        mean, between = mix(predictions, state.weights)
        spread = variance_of(model.covariance, state.where, state.value, filled) + effect_variance
        state.estimates[action] = mean
        state.spreads[action] = math.sqrt(spread)
        state.bonuses[action] = bonus_of(state, model, spread)
        state.doubts[action] = math.sqrt(spread + between)


@inlined
def bonus_of(state, model, spread):
    """Standard deviation, times the root of a logarithm where the action is known less well than it would be by now.

    With its share of all decisions and c weights, an estimate would have the variance σ² c A / t on average. An action
    whose first rewards were bad by chance keeps its variance while t grows, and is tried again.
    """
    weights = model.counts[COLUMNS] + len(model.effect_means)
    usual = model.numbers[VARIANCE] * weights * len(state.estimates) / (1.0 + state.clock[TIME])
    return math.sqrt(spread * (1.0 + eagerness_at(state.clock[TIME]) * max(math.log(spread / usual), 0.0)))


@inlined
def eagerness_at(time):
    return EAGERNESS + LATER_EAGERNESS * max(math.log((1.0 + time) / LATER), 0.0)


@inlined
def choose(state, context):
    observe_context(state, context)
    estimate(state, context, False)
    leader = best_eligible(set_net(state), state.eligible)
    if state.params[RULE] != ALWAYS:
        label_cost = next_label_cost(state)
        if is_forced(state.eligible) or not requests_reward(state, context, leader, label_cost):
            state.chance[0] = 1.0
            return 2 * leader
        count_request(state, label_cost)
    set_probabilities(state)
    action = draw_action(state)
    state.chance[0] = state.chances[action]
    nothing_known = state.reward_sums[0] == 0.0
    return 2 * action + (action != leader or state.params[RULE] != ALWAYS or nothing_known)


@outlined
def set_probabilities(state):
    """Set each action's probability under randomised UCB, one draw of optimism for all actions (Vaswani et al. 2020).

    For each level of optimism the action with the highest estimate, net of weighted cost, plus so many bonuses is
    chosen, and ties are broken uniformly; so the probabilities are exact. Those of actions that are not eligible are 0.
    """
    actions, count = len(state.estimates), count_eligible(state.eligible)
    floor = min(state.params[FLOOR], 1.0 / count)
    sure = 1.0 - count * floor
    for action in range(actions):
        state.chances[action] = floor if state.eligible[action] else 0.0
    if floor < 0.0:
        sure = set_floors(state)
    for level in range(OPTIMISM_LEVELS):
        optimism = MOST_OPTIMISM * state.params[OPTIMISM] * (level + 0.5) / OPTIMISM_LEVELS
        highest, equal = -math.inf, 0
        for action in range(actions):
            upper = state.net[action] + optimism * state.bonuses[action]
            if state.eligible[action]:
                if upper > highest:
                    highest, equal = upper, 0
                equal += upper == highest
        for action in range(actions):
            if state.eligible[action] and state.net[action] + optimism * state.bonuses[action] == highest:
                state.chances[action] += sure / (OPTIMISM_LEVELS * equal)


@inlined
def set_floors(state):
    """Set each eligible action's probability to its own lower bound; returns what is left of 1."""
    sure = 1.0
    for action in range(len(state.chances)):
        state.chances[action] = state.floors[action] if state.eligible[action] else 0.0
        sure -= state.chances[action]
    return max(sure, 0.0)


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


@outlined
def learn_in_model(state, model, context, reward, predictions):
    """Predict a reward by each expert, then update the model with it; returns what a trend adds, if one is watched."""
    filled = lay_out_for(state, model, context)
    effect, effect_variance = total_effect(
        context, state.categories, state.first_effect, model.effect_means, model.effect_variances
    )
    set_regressions(state, model, filled, effect, predictions)
    set_trees(state, model, context, predictions)
    learn_in_leaves(model.nodes, model.counts[TREES], state.leaves, reward)
    fade(state, model)
    variance, target = model.numbers[VARIANCE], reward - model.numbers[OFFSET] - effect
    lines, columns = model.counts[LINE_COLUMNS], model.counts[COLUMNS]
    error = target - product_of_first(model.line_weights, lines, state.where, state.value, filled)
    update_posterior(
        model.line_weights,
        model.line_covariance,
        lines,
        state.where,
        state.value,
        filled,
        error,
        variance,
        0.0,
        state.push,
    )
    error, predicted = target - product(model.weights, state.where, state.value, filled), 0.0
    model.numbers[MISSED] += error
    if len(model.trend) > 0:
        predicted = learn_trend(model, state.where, state.value, filled, error, variance, state.push)
    update_posterior(
        model.weights,
        model.covariance,
        columns,
        state.where,
        state.value,
        filled,
        error,
        variance,
        effect_variance,
        state.push,
    )
    if effect_variance > 0.0:
        spread = product(state.push, state.where, state.value, filled)
        scale = 1.0 / (variance + effect_variance + spread)
        update_effects(
            context,
            state.categories,
            state.first_effect,
            model.effect_means,
            model.effect_variances,
            error * scale,
            scale,
        )
    return predicted


@inlined
def update(state, context, step, action, reward):
    """Learn a reward; returns whether a refit or more capacity is due."""
    sample, model = open_sample_at(state.samples[action]), open_model_at(state.models[action])
    predictions = state.predictions[action]
    predicted = learn_in_model(state, model, context, reward, predictions)
    weigh(state.losses[action], state.pooled_losses, sharpness_of(state.reward_sums), state.weights)
    mean, _ = mix(predictions, state.weights)
    add_losses(predictions, reward, state.losses[action], state.pooled_losses)
    state.reward_sums[0] += 1.0
    state.reward_sums[1] += reward
    store_reward(sample, context, step, reward)
    if notices_drift(state, sample, model, mean, reward):
        forget_before_drift(state, action)
        for other in range(len(state.estimates)):
            note_due(state, open_sample_at(state.samples[other]))
    elif notices_trend(state, sample, model, reward - mean, predicted):
        forget_before_trend(sample)
    elif surprises(state, sample, mean, reward) or misses(state, sample, model):
        sample.counts[NEXT] = sample.counts[LEARNT]
    return note_due(state, sample)


@inlined
def surprises(state, sample, mean, reward):
    """Whether a requested reward contradicts a confident estimate, while there are few rewards."""
    return state.params[RULE] != ALWAYS and sample.counts[LEARNT] < FEW and abs(reward - mean) > SURPRISE


@inlined
def misses(state, sample, model):
    """Whether the rewards since the last fit are on average unlike those that it followed from.

    So it is where rewards come in blocks, such as clicks before the zeros of everything else.
    """
    since = sample.counts[LEARNT] - sample.counts[FITTED_FOR]
    if since < max(FEWEST_MISSED, (sample.counts[FITTED_FOR] - sample.counts[FORGET_TO]) // SHARE_MISSED):
        return False
    return model.numbers[MISSED] ** 2 * sharpness_of(state.reward_sums) > UNLIKELY * since


@inlined
def update_all(state, context, step, rewards):
    """Learn the rewards of all eligible actions; returns whether a refit or more capacity is due."""
    due = False
    for action in range(len(rewards)):
        if state.eligible[action]:
            due |= update(state, context, step, action, rewards[action])
    return due


@inlined
def learn_rows_again(state, contexts, rewards, action):
    """Update an action's model with rows that came after those it was fitted to."""
    model, predictions = open_model_at(state.models[action]), np.empty(EXPERTS)
    context = np.empty(contexts.shape[1])
    for row in range(len(rewards)):
        for feature in range(len(context)):
            context[feature] = contexts[row, feature]
        learn_in_model(state, model, context, rewards[row], predictions)


@inlined
def weigh_rows(state, contexts, rewards, taken):
    """Predict each reward by all experts, add their losses, then update the model of its action."""
    context = np.empty(contexts.shape[1])
    for row in range(len(rewards)):
        action, reward = taken[row], rewards[row]
        for feature in range(len(context)):
            context[feature] = contexts[row, feature]
        predictions = state.predictions[action]
        learn_in_model(state, open_model_at(state.models[action]), context, reward, predictions)
        add_losses(predictions, reward, state.losses[action], state.pooled_losses)


@inlined
def estimate_many(state, contexts, estimates):
    """Estimate the reward of each action in many contexts."""
    for row in range(len(contexts)):
        estimate(state, contexts[row], True)
        for action in range(len(state.estimates)):
            estimates[row, action] = state.estimates[action]


@inlined
def predict_with_columns_of(state, context, action, columns):
    """Write the dense columns of a context for an action; returns its estimate and standard deviation."""
    estimate(state, context, True)
    filled = lay_out_for(state, open_model_at(state.models[action]), context)
    for i in range(filled):
        columns[state.where[i]] += state.value[i]
    return state.estimates[action], state.spreads[action]


@inlined
def nothing_due(state):
    """Whether a replay can continue: refits are started by Python."""
    return state.clock[DUE] == 0


@inlined
def wants(state, decision):
    """Whether the reward of a decision is wanted: every one, or those of explorations."""
    return decision & 1 == 1 or state.params[RULE] == ALWAYS


set_levels = state_entry_point(set_fresh_levels, Adaptive, arguments=0)
learn_again = state_entry_point(learn_rows_again, Adaptive, arguments=3)
weigh_experts = state_entry_point(weigh_rows, Adaptive, arguments=3)
predict_with_columns = state_entry_point(predict_with_columns_of, Adaptive, arguments=3)
predict_many = state_entry_point(estimate_many, Adaptive, arguments=2)
ADAPTIVE = EntryPoints(choose, update, Adaptive, wants=wants, has_capacity=nothing_due, observe_context=observe_context)
ADAPTIVE_OF_LABELS = EntryPoints(choose, update_all, Adaptive, rewards="all", has_capacity=nothing_due)
