"""Relevance of each feature for an action: explained variance of the reward, and its certainty."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.core.adaptive.category_effects import effect_of
from releaf.core.adaptive.gains import BINS
from releaf.core.adaptive.levels import height_of, is_wide, place_of, spread
from releaf.core.adaptive.state import FIRST, FIRST_COLUMN, MOST_EFFECTS, NO_FEATURE, RESOLUTION, SECOND, START, WIDTH
from releaf.core.adaptive.table_columns import columns_of_feature
from releaf.core.runtime.jit import inlined, outlined
from releaf.core.runtime.primitives import normal_cdf

CONSTANTS = 1  # entries of a stored row before those of tables; its out-of-range column is 0
MOST_ROWS_USED = 1024


@outlined
def find_relevance(contexts, features, rows, bins, tables, used, columns, weights, covariance, typical, found):
    """Set the variance of each feature's contribution to the estimate, less its noise, and its certainty.

    The main effect of a feature is that of its own table and of all tables of pairs together, whose weights depend on
    each other. What is left of a pair is an interaction, and counts for both features.
    """
    places, values, filled = rows
    strengths, certainties = found
    step = (len(filled) + MOST_ROWS_USED - 1) // MOST_ROWS_USED
    places, values, filled, bins = places[::step], values[::step], filled[::step], bins[: len(filled) : step]
    contexts = contexts[: len(filled) * step : step]
    find_typical(places, values, filled, columns, typical)
    owners, groups = find_owners(tables, used, columns, len(strengths))
    for feature in range(len(strengths)):
        strengths[feature] = 0.0
        certainties[feature] = 0.0
        mine = columns_with(feature, tables, used, columns)
        if len(mine) > 0:
            shares, effects = main_effect(feature, mine, contexts, bins, features, tables, used, columns)
            explained, noise, freedom = spread_of(shares, effects, mine, weights, covariance)
            credit(feature, explained, noise, freedom, strengths, certainties)
    parts = contributions(places, values, filled, owners, groups, weights)
    noise, wide = chance_of(places, values, filled, owners, groups, covariance, typical, columns)
    for table in range(used):
        if tables[table, SECOND] != NO_FEATURE:
            group = owners[tables[table, START]]
            remove_main_effect(parts[group], tables[table, FIRST], bins)
            remove_main_effect(parts[group], tables[table, SECOND], bins)
            explained = variance_of(parts[group])
            for feature in (tables[table, FIRST], tables[table, SECOND]):
                credit(feature, explained, noise[group], wide[group], strengths, certainties)


@inlined
def columns_with(feature, tables, used, columns):
    """Columns of all tables in which a feature is."""
    mine = np.zeros(columns, dtype=np.bool_)
    for table in range(used):
        if tables[table, FIRST] == feature or tables[table, SECOND] == feature:
            mine[tables[table, START] : tables[table, START] + tables[table, WIDTH]] = True
    return np.flatnonzero(mine)


@outlined
def main_effect(feature, mine, contexts, bins, features, tables, used, columns):
    """Share of contexts in each bin of a feature, and the mean columns there less those of all contexts.

    In a table of a pair, the other feature has its mean columns over all contexts: in those of a few contexts of one
    bin, its own effect would look like one of this feature.
    """
    shares, effects, where = np.zeros(BINS), np.zeros((BINS, len(mine))), np.full(columns, -1)
    for place in range(len(mine)):
        where[mine[place]] = place
    for row in range(len(contexts)):
        shares[bins[row, feature]] += 1.0 / len(contexts)
    for table in range(used):
        first, second = tables[table, FIRST], tables[table, SECOND]
        if first == feature or second == feature:
            add_table(feature, contexts, bins, features, tables[table], where, effects)
    overall = np.zeros(len(mine))  # summed in loops: an axis of numpy's sum takes numba seconds to compile
    for level in range(BINS):
        for place in range(len(mine)):
            overall[place] += effects[level, place]
    for level in range(BINS):
        if shares[level] > 0.0:
            for place in range(len(mine)):
                effects[level, place] = effects[level, place] / shares[level] - overall[place]
    return shares, effects


@inlined
def add_table(feature, contexts, bins, features, line, where, effects):
    """Add the columns of one table to their sums in each bin of a feature, over the number of contexts."""
    _, levels, categories, limits = features
    first, second, resolution, start = line[FIRST], line[SECOND], line[RESOLUTION], line[START]
    width, usual = 1, np.ones(1)
    if second != NO_FEATURE:
        width = columns_of_feature(second, resolution, levels, categories, limits)
        usual = usual_columns(second if feature == first else first, contexts, features, resolution)
    for row in range(len(contexts)):
        down, here, below = spread_in(feature, contexts[row], features, resolution)
        level = bins[row, feature]
        for other in range(len(usual)):
            share = usual[other] / len(contexts)
            if feature == first:
                column, further = start + down * width + other, width
            else:
                column, further = start + other * width + down, 1
            if here != 0.0 and share != 0.0:
                effects[level, where[column]] += here * share
            if below != 0.0 and share != 0.0:
                effects[level, where[column + further]] += below * share


@inlined
def usual_columns(feature, contexts, features, resolution):
    """Mean columns of a feature over contexts."""
    _, levels, categories, limits = features
    usual = np.zeros(columns_of_feature(feature, resolution, levels, categories, limits))
    for row in range(len(contexts)):
        down, here, below = spread_in(feature, contexts[row], features, resolution)
        if here != 0.0:
            usual[down] += here / len(contexts)
        if below != 0.0:
            usual[down + 1] += below / len(contexts)
    return usual


@inlined
def spread_in(feature, context, features, resolution):
    """The first of a feature's columns of a context, its value, and that of the next."""
    knots, levels, categories, _ = features
    value = np.float64(np.float32(context[feature]))
    place = place_of(value, knots[feature], levels[feature], categories[feature])
    height = height_of(value, knots[feature])
    return spread(place, height, levels[feature], categories[feature], resolution)


@outlined
def spread_of(shares, effects, mine, weights, covariance):
    """Variance of a main effect over its bins, that due to the weights' uncertainty, and its degrees of freedom."""
    explained, noise, freedom = 0.0, 0.0, -1.0
    for level in range(BINS):
        if shares[level] > 0.0:
            freedom += 1.0
            effect = 0.0
            for i in range(len(mine)):
                effect += effects[level, i] * weights[mine[i]]
                for j in range(len(mine)):
                    noise += shares[level] * effects[level, i] * effects[level, j] * covariance[mine[i], mine[j]]
            explained += shares[level] * effect * effect
    return explained, noise, min(freedom, np.float64(len(mine)))


@outlined
def credit_effects(contexts, categories, first_effect, means, variances, strengths, certainties):
    """Credit each feature whose categories have effects instead of columns with the variance of these."""
    rows = contexts[:: (len(contexts) + MOST_ROWS_USED - 1) // MOST_ROWS_USED]
    part = np.empty(len(rows))
    for feature in range(len(categories)):
        if not is_wide(categories[feature]):
            continue
        shares, noise, seen = np.zeros(min(categories[feature], np.int64(MOST_EFFECTS))), 0.0, 0.0
        for row in range(len(rows)):
            place = effect_of(rows[row], feature, categories, first_effect)
            part[row] = means[place]
            noise += variances[place] / len(rows)
            shares[place - first_effect[feature]] += 1.0 / len(rows)
        for place in range(len(shares)):
            noise -= shares[place] * shares[place] * variances[first_effect[feature] + place]
            seen += shares[place] > 0.0
        credit(feature, variance_of(part), noise, seen, strengths, certainties)


@inlined
def find_typical(places, values, filled, columns, typical):
    """Set the mean of each column."""
    for column in range(columns):
        typical[column] = 0.0
    for row in range(len(filled)):
        for i in range(filled[row]):
            typical[places[row, i]] += values[row, i] / len(filled)


@inlined
def find_owners(tables, used, columns, features):
    """Group of each column: its feature, or its pair of features; -1 for columns of no table."""
    owners, groups = np.full(columns, -1), features
    for table in range(used):
        owner = tables[table, FIRST]
        if tables[table, SECOND] != NO_FEATURE:
            owner = groups
            groups += 1
        for column in range(tables[table, START], tables[table, START] + tables[table, WIDTH]):
            owners[column] = owner
    return owners, groups


@inlined
def contributions(places, values, filled, owners, groups, weights):
    """Contribution of each group to the estimate of each row."""
    parts = np.zeros((groups, len(filled)))
    for row in range(len(filled)):
        for i in range(CONSTANTS, filled[row]):
            column = places[row, i]
            parts[owners[column], row] += weights[column] * values[row, i]
    return parts


@outlined
def remove_main_effect(part, feature, bins):
    """Remove the main effect of one feature from a pair's contribution."""
    sums, sizes = np.zeros(BINS), np.zeros(BINS)
    for row in range(len(bins)):
        sums[bins[row, feature]] += part[row]
        sizes[bins[row, feature]] += 1.0
    for row in range(len(bins)):
        part[row] -= sums[bins[row, feature]] / sizes[bins[row, feature]]


@outlined
def chance_of(places, values, filled, owners, groups, covariance, typical, columns):
    """Variance of each group's contribution due to the weights' uncertainty, and the number of weights."""
    noise, wide = np.zeros(groups), np.zeros(groups)
    for row in range(len(filled)):
        for i in range(CONSTANTS, filled[row]):
            column, owner = places[row, i], owners[places[row, i]]
            for j in range(CONSTANTS, filled[row]):
                if owners[places[row, j]] == owner:
                    noise[owner] += covariance[column, places[row, j]] * values[row, i] * values[row, j] / len(filled)
    for i in range(FIRST_COLUMN, columns):
        wide[owners[i]] += 1.0
        for j in range(FIRST_COLUMN, columns):
            if owners[j] == owners[i]:
                noise[owners[i]] -= covariance[i, j] * typical[i] * typical[j]
    return noise, wide


@inlined
def variance_of(part):
    mean, squares = 0.0, 0.0
    for row in range(len(part)):
        mean += part[row] / len(part)
        squares += part[row] * part[row] / len(part)
    return max(squares - mean * mean, 0.0)


@inlined
def credit(feature, explained, noise, wide, strengths, certainties):
    """Add to a feature's strength; its certainty is the largest of its parts'.

    Without an effect the variance is the noise times a chi-square variable over its degrees of freedom, whose cube
    root is nearly normal (Wilson and Hilferty).
    """
    if wide > 0.0 and noise > 0.0:
        strengths[feature] += max(explained - noise, 0.0)
        spread = 2.0 / (9.0 * wide)
        certainty = normal_cdf(((explained / noise) ** (1.0 / 3.0) - (1.0 - spread)) / math.sqrt(spread))
        certainties[feature] = max(certainties[feature], certainty)
