"""Mixture of experts, weighted by their losses on the rewards so far, of each action and of all."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.state import EXPERTS, SHARP_TREES, SMOOTH_TREES, STEADY_TREES, Adaptive
from releaf.core.runtime.jit import inlined

LEARNING_RATE = 0.125  # of an action's losses in the exponent of a weight, in units of the variance of rewards
POOLED_LEARNING_RATE = 0.125  # the same of the losses of all actions
LEAST_VARIANCE = 0.02  # of rewards, for the rates
PRIOR_OF_STEADY = 0.1  # weight of steady trees before any loss: they are near the mean of few rewards
LEAST_WEIGHT = 1e-3  # below which an expert counts nothing: its trees need no walk
MOST_LEAD = 12.0  # most that an expert can be ahead in loss: a bound on how long it takes to follow a change


@inlined
def sharpness_of(sums):
    """Factor of the learning rates: rewards that vary little, such as rare clicks, tell experts apart by small losses.

    Their variance is at most m (1 - m), with the mean reward m.
    """
    mean = (sums[1] + 1.0) / (sums[0] + 2.0)
    return 1.0 / max(mean * (1.0 - mean), LEAST_VARIANCE)


@inlined
def weigh(losses, pooled, sharpness, weights):
    """Set the weights of the experts: exp(-rate · loss), or 0 where that is a small part of all."""
    rate, pooled_rate = LEARNING_RATE * sharpness, POOLED_LEARNING_RATE * sharpness
    least = math.inf
    for expert in range(EXPERTS):
        least = min(least, rate * losses[expert] + pooled_rate * pooled[expert])
    total, counting = 0.0, 0.0
    for expert in range(EXPERTS):
        weights[expert] = math.exp(least - rate * losses[expert] - pooled_rate * pooled[expert])
        if expert == STEADY_TREES:
            weights[expert] *= PRIOR_OF_STEADY
        total += weights[expert]
    for expert in range(EXPERTS):
        if weights[expert] < LEAST_WEIGHT * total:
            weights[expert] = 0.0
        counting += weights[expert]
    for expert in range(EXPERTS):
        weights[expert] /= counting


@inlined
def needs_trees(weights):
    """Whether an expert that walks trees counts."""
    return weights[SHARP_TREES] + weights[SMOOTH_TREES] + weights[STEADY_TREES] > 0.0


@inlined
def mix(predictions, weights):
    """Weighted mean of the predictions, and the variance between them."""
    mean, squares = 0.0, 0.0
    for expert in range(EXPERTS):
        mean += weights[expert] * predictions[expert]
        squares += weights[expert] * predictions[expert] * predictions[expert]
    return mean, max(squares - mean * mean, 0.0)


@inlined
def add_losses(predictions, reward, losses, pooled):
    """Add the squared error of each expert; the best one's loss counts as 0, and none falls too far behind."""
    least, pooled_least = math.inf, math.inf
    for expert in range(EXPERTS):
        error = (reward - predictions[expert]) ** 2
        losses[expert] += error
        pooled[expert] += error
        least = min(least, losses[expert])
        pooled_least = min(pooled_least, pooled[expert])
    for expert in range(EXPERTS):
        losses[expert] = min(losses[expert] - least, MOST_LEAD)
        pooled[expert] = min(pooled[expert] - pooled_least, MOST_LEAD)


def expert_weights(state: Adaptive, action: int) -> Array:
    """Weights of the experts in the estimates of an action."""
    count, total = state.reward_sums
    mean = (total + 1.0) / (count + 2.0)
    exponents = LEARNING_RATE * state.losses[action] + POOLED_LEARNING_RATE * state.pooled_losses
    exponents /= max(mean * (1.0 - mean), LEAST_VARIANCE)
    weights = np.exp(exponents.min() - exponents)
    weights[STEADY_TREES] *= PRIOR_OF_STEADY
    weights[weights < LEAST_WEIGHT * weights.sum()] = 0.0
    shares: Array = weights / weights.sum()
    return shares
