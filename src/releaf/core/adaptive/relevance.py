"""Relevance of each feature for an action: explained variance of the reward, and its certainty."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.core.adaptive.category_effects import effect_of
from releaf.core.adaptive.gains import BINS
from releaf.core.adaptive.levels import is_wide
from releaf.core.adaptive.state import FIRST, FIRST_COLUMN, MOST_EFFECTS, NO_FEATURE, SECOND, START, WIDTH
from releaf.core.runtime.jit import inlined, outlined
from releaf.core.runtime.primitives import normal_cdf

CONSTANTS = 1  # entries of a stored row before those of tables; its out-of-range column is 0
MOST_ROWS_USED = 1024


@outlined
def find_relevance(rows, bins, tables, used, columns, weights, covariance, typical, strengths, certainties):
    """Set the variance of each feature's contribution to the estimate, less its noise, and its certainty.

    The main effects in a table of a pair count for each feature; the rest is an interaction and counts for both.
    """
    places, values, filled = rows
    step = (len(filled) + MOST_ROWS_USED - 1) // MOST_ROWS_USED
    places, values, filled, bins = places[::step], values[::step], filled[::step], bins[: len(filled) : step]
    features = len(strengths)
    find_typical(places, values, filled, columns, typical)
    owners, groups = find_owners(tables, used, columns, features)
    parts = contributions(places, values, filled, owners, groups, weights)
    for table in range(used):
        if tables[table, SECOND] != NO_FEATURE:
            move_main_effect(parts, owners[tables[table, START]], tables[table, FIRST], bins)
            move_main_effect(parts, owners[tables[table, START]], tables[table, SECOND], bins)
    noise, wide = chance_of(places, values, filled, owners, groups, covariance, typical, columns)
    for feature in range(features):
        strengths[feature] = 0.0
        certainties[feature] = 0.0
    for group in range(groups):
        explained = variance_of(parts[group])
        if group < features:
            credit(group, explained, noise[group], wide[group], strengths, certainties)
    for table in range(used):
        if tables[table, SECOND] != NO_FEATURE:
            group = owners[tables[table, START]]
            explained = variance_of(parts[group])
            for feature in (tables[table, FIRST], tables[table, SECOND]):
                credit(feature, explained, noise[group], wide[group], strengths, certainties)


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
def move_main_effect(parts, pair, feature, bins):
    """Move the main effect of one feature from a pair's contribution to the feature."""
    sums, sizes = np.zeros(BINS), np.zeros(BINS)
    for row in range(len(bins)):
        sums[bins[row, feature]] += parts[pair, row]
        sizes[bins[row, feature]] += 1.0
    for row in range(len(bins)):
        mean = sums[bins[row, feature]] / sizes[bins[row, feature]]
        parts[pair, row] -= mean
        parts[feature, row] += mean


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
