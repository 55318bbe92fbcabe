"""Ridge regression on sparse columns: fit with a precision for each table (empirical Bayes), and online update."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from releaf.core.adaptive.state import CONSTANT, START, UNLIKE, WIDTH
from releaf.core.runtime.jit import inlined, outlined

CONSTANT_PRECISION = 5.0
UNLIKE_PRECISION = 5.0
TABLE_PRECISION = 8.0  # times the root of the number of features: prior precision of a table
DOUBLING = 100.0  # rewards after which the precision of a table without effect may have doubled
LEAST_PRECISION, MOST_PRECISION = 0.16, 1.6e5
FIRST_VARIANCE, LEAST_VARIANCE, MOST_VARIANCE = 0.15, 0.004, 0.25
VARIANCE_ROWS = 4.0  # rewards that the first variance counts as
LEAST_CHANGE = 0.003  # of the covariance, below which it is not updated


@inlined
def product(weights, where, value, filled):
    total = 0.0
    for i in range(filled):
        total += weights[where[i]] * value[i]
    return total


@inlined
def product_of_first(weights, columns, where, value, filled):
    """Product with the first columns only."""
    total = 0.0
    for i in range(filled):
        if where[i] < columns:
            total += weights[where[i]] * value[i]
    return total


@inlined
def variance_of(covariance, where, value, filled):
    """Variance of the estimate, xᵀ P x, over the nonzero columns."""
    total = 0.0
    for i in range(filled):
        line, factor = covariance[where[i]], value[i]
        total += 0.5 * line[where[i]] * factor * factor
        for j in range(i):
            total += line[where[j]] * value[j] * factor
    return max(2.0 * total, 0.0)


@inlined
def update_posterior(weights, covariance, columns, where, value, filled, error, variance, other_spread, push):
    """Update weights and covariance with a reward, given its error and the variance that other effects add."""
    for j in range(columns):
        push[j] = 0.0
    for i in range(filled):
        if where[i] < columns:
            line, factor = covariance[where[i]], value[i]
            for j in range(columns):
                push[j] += line[j] * factor
    spread = product_of_first(push, columns, where, value, filled)
    scale = 1.0 / (variance + other_spread + spread)
    step = error * scale
    for j in range(columns):
        weights[j] += push[j] * step
    if spread * scale < LEAST_CHANGE:
        return
    for i in range(columns):
        line, factor = covariance[i], push[i] * scale
        for j in range(columns):
            line[j] -= factor * push[j]


@outlined
def invert(matrix, size):
    """Invert a symmetric positive definite matrix in place (Gauss–Jordan)."""
    for pivot in range(size):
        line = matrix[pivot]
        inverse = 1.0 / line[pivot]
        line[pivot] = 1.0
        for j in range(size):
            line[j] *= inverse
        for i in range(size):
            other = matrix[i]
            factor = other[pivot]
            if i != pivot and factor != 0.0:
                other[pivot] = 0.0
                for j in range(size):
                    other[j] -= factor * line[j]


@outlined
def clear(columns, gram, slope):
    for i in range(columns):
        slope[i] = 0.0
        for j in range(columns):
            gram[i, j] = 0.0


@outlined
def add_up(rows, targets, gram, slope):
    """Add one half of XᵀX, and Xᵀy; returns yᵀy."""
    places, values, filleds = rows
    squares = 0.0
    for row in range(len(targets)):
        where, value, filled = places[row], values[row], filleds[row]
        squares += targets[row] * targets[row]
        for i in range(filled):
            slope[where[i]] += value[i] * targets[row]
            line, factor = gram[where[i]], value[i]
            for j in range(i + 1):
                line[where[j]] += factor * value[j]
    return squares


@outlined
def complete(columns, gram):
    """Complete XᵀX from its half; columns of a row come in any order, so entries are on either side."""
    for i in range(columns):
        for j in range(i):
            total = gram[i, j] + gram[j, i]
            gram[i, j] = total
            gram[j, i] = total


@outlined
def solve(gram, slope, squares, rewards, tables, used, columns, features, rounds, weights, matrix, precisions):
    """Solve for the weights, and between rounds update each table's precision and the variance of a reward.

    Writes the posterior covariance to ``matrix``; returns the variance.
    """
    ridge = np.empty(columns)
    first = TABLE_PRECISION * np.sqrt(float(features))
    for table in range(used):
        precisions[table] = first
    variance = FIRST_VARIANCE
    for turn in range(rounds):
        set_ridge(tables, used, precisions, ridge)
        for i in range(columns):
            for j in range(columns):
                matrix[i, j] = gram[i, j] / variance
            matrix[i, i] += ridge[i]
        invert(matrix, columns)
        multiply(matrix, slope, columns, 1.0 / variance, weights)
        if turn < rounds - 1:
            shrink(tables, used, weights, matrix, precisions, first, rewards)
            variance = residual_variance(gram, slope, squares, rewards, weights, matrix, ridge, columns)
    return variance


@inlined
def set_ridge(tables, used, precisions, ridge):
    """Set the prior precision of each column's weight."""
    ridge[CONSTANT] = CONSTANT_PRECISION
    ridge[UNLIKE] = UNLIKE_PRECISION
    for table in range(used):
        start = tables[table, START]
        for i in range(start, start + tables[table, WIDTH]):
            ridge[i] = precisions[table]


@inlined
def multiply(matrix, vector, size, factor, result):
    for i in range(size):
        result[i] = 0.0
    for j in range(size):
        line, weight = matrix[j], vector[j] * factor
        for i in range(size):
            result[i] += line[i] * weight


@inlined
def residual_variance(gram, slope, squares, rewards, weights, matrix, ridge, columns):
    """Variance of a reward around its estimate, for the number of weights that the rewards determine."""
    left, determined = squares, 0.0
    for i in range(columns):
        left -= 2.0 * weights[i] * slope[i]
        determined += 1.0 - ridge[i] * matrix[i, i]
        for j in range(columns):
            left += weights[i] * weights[j] * gram[i, j]
    free = max(rewards - determined, 0.25 * rewards)
    found = (max(left, 0.0) + VARIANCE_ROWS * FIRST_VARIANCE) / (free + VARIANCE_ROWS)
    return min(max(found, LEAST_VARIANCE), MOST_VARIANCE)


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


@outlined
def solve_lines(gram, slope, squares, rewards, lines, features, rounds, variance, weights, matrix):
    """Solve for the first columns alone, with one precision for all of them."""
    precision = TABLE_PRECISION * np.sqrt(float(features))
    least = 1.0 / (precision * (1.0 + rewards / DOUBLING))
    for turn in range(rounds):
        for i in range(lines):
            for j in range(lines):
                matrix[i, j] = gram[i, j] / variance
            matrix[i, i] += precision if i > UNLIKE else CONSTANT_PRECISION
        invert(matrix, lines)
        multiply(matrix, slope, lines, 1.0 / variance, weights)
        if turn < rounds - 1:
            determined, total, left = 0.0, 0.0, squares
            for i in range(lines):
                left -= 2.0 * weights[i] * slope[i]
                for j in range(lines):
                    left += weights[i] * weights[j] * gram[i, j]
            for i in range(UNLIKE + 1, lines):
                determined += 1.0 - precision * matrix[i, i]
                total += weights[i] * weights[i]
            precision = min(max((max(determined, 0.0) + 1.0) / (total + least), LEAST_PRECISION), MOST_PRECISION)
            free = max(rewards - determined, 0.25 * rewards)
            found = (max(left, 0.0) + VARIANCE_ROWS * FIRST_VARIANCE) / (free + VARIANCE_ROWS)
            variance = min(max(found, LEAST_VARIANCE), MOST_VARIANCE)
    return variance
