"""Stored rewards of an action, and the schedule on which its tables are selected and fitted again."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from releaf.core.adaptive.fit import fit
from releaf.core.adaptive.gains import find_bins, single_gain
from releaf.core.adaptive.relevance import find_relevance
from releaf.core.adaptive.state import (
    ALWAYS,
    COLUMNS,
    FIRST_FIT,
    FITS,
    FORGOTTEN,
    LEARNT,
    MOST_COLUMNS,
    NEXT,
    RULE,
    TABLES,
    WINDOW,
)
from releaf.core.adaptive.table_columns import find_places, lay_out
from releaf.core.adaptive.table_selection import add_tables, drop_idle, start_tables
from releaf.core.runtime.jit import inlined, outlined

NEVER = 2**62
GROWTH = 1.5  # a refit is due each time an action's rewards have grown by this factor
GROWTH_OF_FEW = 1.1  # the same where rewards are requested: each costs more than a fit
LEAST_GROWTH_OF_FEW = 4
FEW = 1024
SURPRISE = 0.9  # of a requested reward, from which on a refit is due at once
FROM_PAIRS = 40  # rewards
ENOUGH_TO_DROP = 256
ENOUGH_TO_TIDY = 2048
LATEST_ROWS = 2048  # latest rewards, on which pairs are selected
ROUNDS_TO_LOOK, ROUNDS = 4, 5  # iterations of Newton's method, for selecting pairs and for the final fit
LEAST_INFORMATION = 0.02
MARGIN = 0.05  # of a range, by which a value may exceed it without counting as outside


@inlined
def store_reward(state, context, action, reward):
    """Store a reward of an action; a full ring buffer drops the oldest one."""
    counts = state.counts[action]
    place = counts[LEARNT] % len(state.payoffs[action])
    state.rows[action, place] = context
    state.payoffs[action, place] = reward
    counts[LEARNT] += 1


@inlined
def is_due(counts):
    """Whether a refit of an action is due."""
    return counts[LEARNT] >= counts[NEXT]


@inlined
def calls_for_refit(state, action, mean, reward):
    """Whether a requested reward contradicts a confident estimate, while there are few rewards."""
    few = state.params[RULE] != ALWAYS and state.counts[action, LEARNT] < min(FEW, len(state.payoffs[action]))
    return few and abs(reward - mean) > SURPRISE


@inlined
def refit_due(state):
    """Refit the actions that are due."""
    for action in range(len(state.estimates)):
        if is_due(state.counts[action]):
            refit_action(state, action)


@outlined
def refit_action(state, action):
    """Refit an action to its stored rewards, with the latest levels, and schedule the next refit."""
    counts, kept = state.counts[action], len(state.payoffs[action])
    stored = min(counts[LEARNT] - counts[FORGOTTEN], kept)
    if state.params[WINDOW] > 0.0:
        stored = min(stored, np.int64(state.params[WINDOW]))
    state.knots[action] = state.fresh_knots
    state.levels[action] = state.fresh_levels
    state.dispersion[action] = fit_tables(
        latest(state.rows[action], counts[LEARNT], stored),
        latest(state.payoffs[action], counts[LEARNT], stored),
        state.limits,
        state.categories,
        state.knots[action],
        state.levels[action],
        state.ranges[action],
        counts,
        state.tables[action],
        state.precisions[action],
        state.weights[action],
        state.covariance[action],
        state.typical[action],
        state.strengths[action],
        state.certainties[action],
    )
    growth, least = GROWTH, FIRST_FIT
    if state.params[RULE] != ALWAYS:
        growth, least = GROWTH_OF_FEW, LEAST_GROWTH_OF_FEW
    grown = np.int64(stored * growth) + 1 - stored
    if state.params[WINDOW] > 0.0:
        grown = min(grown, np.int64(state.params[WINDOW]) // 2 + 1)
    elif stored < kept:
        grown = min(grown, kept - stored)  # once more when the buffer is full
    else:
        grown = NEVER  # a refit would lose what dropped rewards taught
    counts[NEXT] = counts[LEARNT] + max(grown, least)
    state.clock[FITS] += 1


@inlined
def latest(ring, learnt, stored):
    """Copy the latest entries of a ring buffer, the oldest first."""
    order = np.empty(stored, dtype=np.int64)
    for place in range(stored):
        order[place] = (learnt - stored + place) % len(ring)
    return ring[order]


@outlined
def fit_tables(
    rows,
    rewards,
    limits,
    categories,
    knots,
    levels,
    ranges,
    counts,
    tables,
    precisions,
    weights,
    covariance,
    typical,
    strengths,
    certainties,
):
    """Select the tables of an action and fit them to rewards; returns the dispersion."""
    features, count = len(levels), len(rewards)
    columns_of_rows = (
        np.empty((count, MOST_COLUMNS), dtype=np.int64),
        np.empty((count, MOST_COLUMNS)),
        np.empty(count, dtype=np.int64),
    )
    bins, residuals = np.empty((count, features), dtype=np.int64), np.empty(count)
    find_bins(rows, knots, levels, categories, bins)
    find_ranges(rows, ranges)
    used, columns = start_tables(first_scores(bins, rewards, features), levels, categories, limits, tables)
    if count >= FROM_PAIRS:
        some = max(count - LATEST_ROWS, 0)
        few = (columns_of_rows[0][some:], columns_of_rows[1][some:], columns_of_rows[2][some:])
        lay_out_all(rows[some:], knots, levels, categories, limits, tables, used, few)
        dispersion = fit(
            few,
            rewards[some:],
            tables,
            used,
            columns,
            features,
            ROUNDS_TO_LOOK,
            weights,
            covariance,
            precisions,
            residuals,
        )
        information = np.empty(count - some)
        for row in range(count - some):
            mean = rewards[some + row] - residuals[row]
            information[row] = max(mean * (1.0 - mean), LEAST_INFORMATION)
        if count >= ENOUGH_TO_DROP:
            used, columns = drop_idle(tables, used, weights, covariance, precisions)
        used, columns = add_tables(
            bins[some:],
            residuals[: count - some],
            information,
            dispersion,
            levels,
            categories,
            limits,
            tables,
            used,
            columns,
        )
    for last in (False, True):
        lay_out_all(rows, knots, levels, categories, limits, tables, used, columns_of_rows)
        dispersion = fit(
            columns_of_rows,
            rewards,
            tables,
            used,
            columns,
            features,
            ROUNDS,
            weights,
            covariance,
            precisions,
            residuals,
        )
        before = used
        if last or count < ENOUGH_TO_TIDY:
            break
        used, columns = drop_idle(tables, used, weights, covariance, precisions)
        if used == before:
            break
    if count > 0:
        find_relevance(
            columns_of_rows, bins, tables, used, columns, weights, covariance, typical, strengths, certainties
        )
    counts[TABLES], counts[COLUMNS] = used, columns
    return dispersion


@inlined
def find_ranges(rows, ranges):
    """Set the range of each feature."""
    if len(rows) > 0:
        for feature in range(len(ranges)):
            low, high = rows[:, feature].min(), rows[:, feature].max()
            margin = MARGIN * (high - low)
            ranges[feature, 0] = low - margin
            ranges[feature, 1] = high + margin


@inlined
def first_scores(bins, rewards, features):
    """Gain of each feature alone, less what chance gives."""
    scores = np.zeros(features)
    if len(rewards) > 0:
        mean = rewards.mean()
        information = np.full(len(rewards), max(mean * (1.0 - mean), LEAST_INFORMATION))
        for feature in range(features):
            gain, cells = single_gain(bins, feature, rewards - mean, information)
            scores[feature] = gain - cells
    return scores


@inlined
def lay_out_all(rows, knots, levels, categories, limits, tables, used, columns_of_rows):
    """Write the sparse columns of all contexts."""
    where, value, filled = columns_of_rows
    places, heights = np.empty(len(levels)), np.empty(len(levels))
    for row in range(len(rows)):
        find_places(rows[row], knots, levels, categories, places, heights)
        filled[row] = lay_out(places, heights, 0.0, levels, categories, limits, tables, used, where[row], value[row])
