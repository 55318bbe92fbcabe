"""Mixture of experts, weighted by their losses on the rewards so far, of each action and of all."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

from releaf.core.adaptive.state import EXPERTS
from releaf.core.runtime.jit import inlined

LEARNING_RATE = 0.5  # of an action's losses in the exponent of a weight
POOLED_LEARNING_RATE = 0.5  # of the losses of all actions
MOST_LEAD = 12.0  # most that an expert can be ahead in loss: a bound on how long it takes to follow a change


@inlined
def mix(predictions, losses, pooled):
    """Mean of the predictions, weighted by exp(-rate · loss), and the variance between them."""
    least = math.inf
    for expert in range(EXPERTS):
        least = min(least, LEARNING_RATE * losses[expert] + POOLED_LEARNING_RATE * pooled[expert])
    total, mean, squares = 0.0, 0.0, 0.0
    for expert in range(EXPERTS):
        weight = math.exp(least - LEARNING_RATE * losses[expert] - POOLED_LEARNING_RATE * pooled[expert])
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
