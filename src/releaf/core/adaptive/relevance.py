"""How much each feature explains of an action's reward, and how sure that is."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.core.adaptive.gains import BINS
from releaf.core.adaptive.state import FIRST, FIRST_COLUMN, NO_FEATURE, SECOND, START, WIDTH
from releaf.core.runtime.jit import inner, outlined
from releaf.core.runtime.primitives import normal_cdf

CONSTANTS = 1  # entries of a remembered row before those of tables: it is like itself
MOST_LOOKED_AT = 1024  # rewards, the latest ones


@outlined
def find_relevance(rows, bins, tables, used, columns, weights, covariance, typical, strengths, certainties):
    """The variance of each feature's contribution to the logit, less what chance would give, and its certainty.

    What a table of a pair says about either feature alone counts for that feature; what is left is an interaction, and
    counts for both.
    """
    places, values, filled = rows
    looked_at = min(len(filled), MOST_LOOKED_AT)
    places, values, filled, bins = places[-looked_at:], values[-looked_at:], filled[-looked_at:], bins[-looked_at:]
    features = len(strengths)
    find_typical(places, values, filled, columns, typical)
    owners, groups = find_owners(tables, used, columns, features)
    parts = contributions(places, values, filled, owners, groups, weights)
    for table in range(used):
        if tables[table, SECOND] != NO_FEATURE:
            hand_over(parts, owners[tables[table, START]], tables[table, FIRST], bins)
            hand_over(parts, owners[tables[table, START]], tables[table, SECOND], bins)
    noise, wide = chance_of(places, values, filled, owners, groups, covariance, typical, columns)
    strengths[:] = 0.0
    certainties[:] = 0.0
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


@inner
def find_typical(places, values, filled, columns, typical):
    """The mean of each column."""
    for column in range(columns):
        typical[column] = 0.0
    for row in range(len(filled)):
        for i in range(filled[row]):
            typical[places[row, i]] += values[row, i] / len(filled)


@inner
def find_owners(tables, used, columns, features):
    """The group of each column: its feature where it is of one feature only, else its pair; -1 for columns of none."""
    owners, groups = np.full(columns, -1), features
    for table in range(used):
        owner = tables[table, FIRST]
        if tables[table, SECOND] != NO_FEATURE:
            owner = groups
            groups += 1
        for column in range(tables[table, START], tables[table, START] + tables[table, WIDTH]):
            owners[column] = owner
    return owners, groups


@inner
def contributions(places, values, filled, owners, groups, weights):
    """What each group adds to the logit of each row."""
    parts = np.zeros((groups, len(filled)))
    for row in range(len(filled)):
        for i in range(CONSTANTS, filled[row]):
            column = places[row, i]
            parts[owners[column], row] += weights[column] * values[row, i]
    return parts


@outlined
def hand_over(parts, pair, feature, bins):
    """Move what a pair's table says about one feature on average to that feature."""
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
    """The variance that each group's contribution has by the uncertainty of its weights, and how many they are."""
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


@inner
def variance_of(part):
    mean, squares = 0.0, 0.0
    for row in range(len(part)):
        mean += part[row] / len(part)
        squares += part[row] * part[row] / len(part)
    return max(squares - mean * mean, 0.0)


@inner
def credit(feature, explained, noise, wide, strengths, certainties):
    """Add to a feature's strength; it is as certain as its most certain part.

    By chance the variance would be that of the noise times a chi-square number over its degrees of freedom, whose cube
    root is nearly normal (Wilson and Hilferty).
    """
    if wide > 0.0 and noise > 0.0:
        strengths[feature] += max(explained - noise, 0.0)
        spread = 2.0 / (9.0 * wide)
        certainty = normal_cdf(((explained / noise) ** (1.0 / 3.0) - (1.0 - spread)) / math.sqrt(spread))
        certainties[feature] = max(certainties[feature], certainty)
