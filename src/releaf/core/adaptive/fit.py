"""Fit of an action's tables to its stored rewards, with a shrinkage precision per table (empirical Bayes)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.core.adaptive.logistic_regression import invert, logistic, product, weight_at
from releaf.core.adaptive.state import CONSTANT, START, UNLIKE, WIDTH
from releaf.core.runtime.jit import inlined, outlined

LONGEST_STEP = 4.0  # of a logit, in one iteration
CONSTANT_PRECISION = 0.3
UNLIKE_PRECISION = 0.3
TABLE_PRECISION = 0.5  # times the root of the number of features: prior precision of a table
DOUBLING = 100.0  # rewards after which the precision of a table without effect may have doubled
LEAST_PRECISION, MOST_PRECISION = 0.01, 1e4
LEAST_DISPERSION = 0.02


@outlined
def fit(rows, rewards, tables, used, columns, features, rounds, weights, matrix, precisions, residuals):
    """Fit by Newton's method from zero; between iterations, update each table's precision and the dispersion.

    ``rows`` are the sparse columns of each context: indices, values, and their number. Writes the posterior covariance
    to ``matrix`` and reward minus estimate to ``residuals``. Returns the dispersion: the rewards' variance relative to
    Bernoulli rewards.
    """
    ridge, slope, step = np.empty(columns), np.empty(columns), np.empty(columns)
    first = TABLE_PRECISION * math.sqrt(features)
    weights[:columns] = 0.0
    precisions[:used] = first
    dispersion = 1.0
    for turn in range(rounds):
        set_ridge(tables, used, precisions, ridge)
        found = add_up(rows, rewards, weights, columns, ridge, dispersion, matrix, slope)
        invert(matrix, columns)
        multiply(matrix, slope, columns, step)
        longest = longest_step(rows, step)
        for i in range(columns):
            weights[i] += step[i] * min(1.0, LONGEST_STEP / longest)
        if 0 < turn < rounds - 1:
            shrink(tables, used, weights, matrix, precisions, first, len(rewards))
            dispersion = found
    places, values, filled = rows
    for row in range(len(rewards)):
        residuals[row] = rewards[row] - logistic(product(weights, places[row], values[row], filled[row]))
    return dispersion


@inlined
def set_ridge(tables, used, precisions, ridge):
    """Set the prior precision of each column's weight."""
    ridge[CONSTANT] = CONSTANT_PRECISION
    ridge[UNLIKE] = UNLIKE_PRECISION
    for table in range(used):
        start = tables[table, START]
        ridge[start : start + tables[table, WIDTH]] = precisions[table]


@outlined
def add_up(rows, rewards, weights, columns, ridge, dispersion, matrix, slope):
    """Add up Hessian and gradient of the log posterior at the weights; returns the dispersion of the rewards."""
    places, values, filleds = rows
    for i in range(columns):
        matrix[i, :columns] = 0.0
        slope[i] = -ridge[i] * weights[i]
    spent, expected = 1.0, 1.0
    for row in range(len(rewards)):
        where, value, filled = places[row], values[row], filleds[row]
        mean = logistic(product(weights, where, value, filled))
        error = rewards[row] - mean
        spent += error * error
        expected += mean * (1.0 - mean)
        weight = weight_at(mean) / dispersion
        for i in range(filled):
            slope[where[i]] += value[i] * error / dispersion
            line, factor = matrix[where[i]], value[i] * weight
            for j in range(i + 1):
                line[where[j]] += factor * value[j]
    for i in range(columns):
        matrix[i, i] += ridge[i]
        for j in range(i):
            matrix[j, i] = matrix[i, j]
    return min(max(spent / expected, LEAST_DISPERSION), 1.0)


@inlined
def multiply(matrix, vector, size, result):
    for i in range(size):
        result[i] = 0.0
    for j in range(size):
        line, factor = matrix[j], vector[j]
        for i in range(size):
            result[i] += line[i] * factor


@inlined
def longest_step(rows, step):
    """Largest change of a logit by the step."""
    places, values, filled = rows
    longest = 1e-9
    for row in range(len(filled)):
        longest = max(longest, abs(product(step, places[row], values[row], filled[row])))
    return longest


@inlined
def shrink(tables, used, weights, matrix, precisions, first, rewards):
    """Set the precision of a table with weights θ and γ effective parameters: (γ + 1) / (θᵀθ + b).

    MacKay's evidence update with a gamma prior. Its b bounds the precision of a table without effect by its initial
    value times a factor that grows with the number of rewards, so no table is shrunk away before it has data.
    """
    least = 1.0 / (first * (1.0 + rewards / DOUBLING))
    for table in range(used):
        start = tables[table, START]
        determined, squares = 0.0, 0.0
        for i in range(start, start + tables[table, WIDTH]):
            determined += 1.0 - precisions[table] * matrix[i, i]
            squares += weights[i] * weights[i]
        found = (max(determined, 0.0) + 1.0) / (squares + least)
        precisions[table] = min(max(found, LEAST_PRECISION), MOST_PRECISION)
