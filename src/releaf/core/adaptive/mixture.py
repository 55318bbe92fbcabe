"""Mixture of experts, weighted by their losses on the rewards so far, of each action and of all."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.state import EXPERTS, STEADY_TREES, Adaptive
from releaf.core.runtime.jit import inlined

LEARNING_RATE = 0.125  # of an action's losses in the exponent of a weight, in units of the variance of rewards
POOLED_LEARNING_RATE = 0.125  # the same of the losses of all actions
LEAST_VARIANCE = 0.02  # of rewards, for the rates
PRIOR_OF_STEADY = 0.1  # weight of steady trees before any loss: they are near the mean of few rewards
MOST_LEAD = 12.0  # most that an expert can be ahead in loss: a bound on how long it takes to follow a change


@inlined
def sharpness_of(sums):
    """Factor of the learning rates: rewards that vary little, such as rare clicks, tell experts apart by small losses.

    Their variance is at most m (1 - m), with the mean reward m.
    """
    mean = (sums[1] + 1.0) / (sums[0] + 2.0)
    return 1.0 / max(mean * (1.0 - mean), LEAST_VARIANCE)


@inlined
def mix(predictions, losses, pooled, sharpness):
    """Mean of the predictions, weighted by exp(-rate · loss), and the variance between them."""
    rate, pooled_rate = LEARNING_RATE * sharpness, POOLED_LEARNING_RATE * sharpness
    least = math.inf
    for expert in range(EXPERTS):
        least = min(least, rate * losses[expert] + pooled_rate * pooled[expert])
    total, mean, squares = 0.0, 0.0, 0.0
    for expert in range(EXPERTS):
        weight = math.exp(least - rate * losses[expert] - pooled_rate * pooled[expert])
        if expert == STEADY_TREES:
            weight *= PRIOR_OF_STEADY
        total += weight
        mean += weight * predictions[expert]
        squares += weight * predictions[expert] * predictions[expert]
    mean /= total
    return mean, max(squares / total - mean * mean, 0.0)


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
    shares: Array = weights / weights.sum()
    return shares
