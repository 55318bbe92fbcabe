"""Bayesian logistic regression on sparse columns: mean, variance and online update of the posterior."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

from releaf.core.runtime.jit import inlined, outlined

STEEPEST = 30.0  # beyond, the logistic function is 0 or 1
LONGEST_MOVE = 20.0  # of a logit by one reward
LEAST_CHANGE = 0.005  # of the covariance, below which it is not updated
LEAST_WEIGHT = 1e-3  # of a reward whose estimate is near 0 or 1


@inlined
def logistic(value):
    return 1.0 / (1.0 + math.exp(-min(max(value, -STEEPEST), STEEPEST)))


@inlined
def weight_at(mean):
    """Weight of a reward in the Hessian."""
    return max(mean * (1.0 - mean), LEAST_WEIGHT)


@inlined
def product(weights, where, value, filled):
    total = 0.0
    for i in range(filled):
        total += weights[where[i]] * value[i]
    return total


@inlined
def variance(covariance, where, value, filled):
    """Variance of the logit, xᵀ P x, over the nonzero columns."""
    total = 0.0
    for i in range(filled):
        line, factor = covariance[where[i]], value[i]
        total += 0.5 * line[where[i]] * factor * factor
        for j in range(i):
            total += line[where[j]] * value[j] * factor
    return max(2.0 * total, 0.0)


@inlined
def update_posterior(weights, covariance, columns, where, value, filled, reward, dispersion, push):
    """Update the posterior by one Newton step from its normal approximation (an extended Kalman filter)."""
    for j in range(columns):
        push[j] = 0.0
    for i in range(filled):
        line, factor = covariance[where[i]], value[i]
        for j in range(columns):
            push[j] += line[j] * factor
    mean = logistic(product(weights, where, value, filled))
    weight = weight_at(mean) / dispersion
    spread = product(push, where, value, filled)
    scale = 1.0 / (1.0 + weight * spread)
    step = (reward - mean) / dispersion * scale
    if abs(step) * spread > LONGEST_MOVE:
        step *= LONGEST_MOVE / (abs(step) * spread)
    for j in range(columns):
        weights[j] += push[j] * step
    if 1.0 - scale < LEAST_CHANGE:
        return
    for i in range(columns):
        line, factor = covariance[i], push[i] * (weight * scale)
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
