"""What an action keeps of its rewards, when its tables are chosen and fitted anew, and how drift is noticed."""

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
    MEMORY,
    MOST_COLUMNS,
    NEXT,
    RULE,
    TABLES,
)
from releaf.core.adaptive.table_columns import find_places, lay_out
from releaf.core.adaptive.table_selection import add_tables, drop_idle, start_tables
from releaf.core.runtime.jit import inner, outlined

NEVER = 2**62
GROWTH = 1.5  # tables are chosen anew each time an action's rewards have grown by this factor
GROWTH_OF_FEW = 1.1  # the same where rewards are asked for one by one: each is dearer than a fit
LEAST_GROWTH_OF_FEW = 4
FEW = 1024
SURPRISE = 0.9  # of a reward that was asked for, that calls for a fit at once
FROM_PAIRS = 40  # rewards
ENOUGH_TO_DROP = 256
ENOUGH_TO_TIDY = 2048
LOOKED_AT = 2048  # rewards, the latest, by which pairs are chosen
ROUNDS_TO_LOOK, ROUNDS = 4, 5  # of Newton's method, for choosing pairs and in the end
LEAST_INFORMATION = 0.02
MARGIN = 0.05  # of a range, that a value outside of it may still be like those before


@inner
def remember(state, context, action, reward):
    """Put a reward into the memory of its action, over the oldest one when it is full."""
    counts = state.counts[action]
    place = counts[LEARNT] % len(state.payoffs[action])
    state.rows[action, place] = context
    state.payoffs[action, place] = reward
    counts[LEARNT] += 1


@inner
def is_due(counts):
    """Whether an action's tables are to be chosen anew."""
    return counts[LEARNT] >= counts[NEXT]


@inner
def calls_for_fit(state, action, mean, reward):
    """Whether a reward that was asked for was nearly certain to be another, while there are few of them."""
    few = state.params[RULE] != ALWAYS and state.counts[action, LEARNT] < min(FEW, len(state.payoffs[action]))
    return few and abs(reward - mean) > SURPRISE


@inner
def renew(state):
    """Choose the tables anew where that is due."""
    for action in range(len(state.estimates)):
        if is_due(state.counts[action]):
            choose_anew(state, action)


@outlined
def choose_anew(state, action):
    """Fit the action to what it remembers, with the latest levels, and say when to do so again."""
    counts, kept = state.counts[action], len(state.payoffs[action])
    remembered = min(counts[LEARNT] - counts[FORGOTTEN], kept)
    if state.params[MEMORY] > 0.0:
        remembered = min(remembered, np.int64(state.params[MEMORY]))
    state.knots[action] = state.fresh_knots
    state.levels[action] = state.fresh_levels
    state.dispersion[action] = refit(
        latest(state.rows[action], counts[LEARNT], remembered),
        latest(state.payoffs[action], counts[LEARNT], remembered),
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
    grown = np.int64(remembered * growth) + 1 - remembered
    if state.params[MEMORY] > 0.0:
        grown = min(grown, np.int64(state.params[MEMORY]) // 2 + 1)
    elif remembered < kept:
        grown = min(grown, kept - remembered)  # the last time with a full memory
    else:
        grown = NEVER  # what is known of rewards that are not kept would be lost
    counts[NEXT] = counts[LEARNT] + max(grown, least)
    state.clock[FITS] += 1


@inner
def latest(ring, learnt, remembered):
    """Copies of the latest entries of a ring, the oldest first."""
    order = np.empty(remembered, dtype=np.int64)
    for place in range(remembered):
        order[place] = (learnt - remembered + place) % len(ring)
    return ring[order]


@outlined
def refit(
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
    """Choose the tables of an action and fit them to rewards; returns their dispersion."""
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
        some = max(count - LOOKED_AT, 0)
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


@inner
def find_ranges(rows, ranges):
    """The lowest and the highest value of each feature."""
    if len(rows) > 0:
        for feature in range(len(ranges)):
            low, high = rows[:, feature].min(), rows[:, feature].max()
            margin = MARGIN * (high - low)
            ranges[feature, 0] = low - margin
            ranges[feature, 1] = high + margin


@inner
def first_scores(bins, rewards, features):
    """How much each feature explains by itself, compared to chance."""
    scores = np.zeros(features)
    if len(rewards) > 0:
        mean = rewards.mean()
        information = np.full(len(rewards), max(mean * (1.0 - mean), LEAST_INFORMATION))
        for feature in range(features):
            gain, cells = single_gain(bins, feature, rewards - mean, information)
            scores[feature] = gain - cells
    return scores


@inner
def lay_out_all(rows, knots, levels, categories, limits, tables, used, columns_of_rows):
    """The columns of all contexts."""
    where, value, filled = columns_of_rows
    places, heights = np.empty(len(levels)), np.empty(len(levels))
    for row in range(len(rows)):
        find_places(rows[row], knots, levels, categories, places, heights)
        filled[row] = lay_out(places, heights, 0.0, levels, categories, limits, tables, used, where[row], value[row])
