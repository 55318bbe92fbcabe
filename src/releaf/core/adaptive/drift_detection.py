"""Drift detection by Page's cumulative sum, and forgetting of what was learnt before a drift."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from releaf.core.adaptive.refit import LEAST_INFORMATION
from releaf.core.adaptive.state import AUTO, COLUMNS, EXCESS, FORGOTTEN, LEARNT, NEXT, SINCE_REWARD, WINDOW
from releaf.core.runtime.jit import inlined

USUAL_SURPRISE = 1.5  # squared standardized residual that adds nothing; 1 is expected
MOST_SURPRISE = 8.0  # of one reward
ALARM = 50.0  # accumulated excess that signals a drift
KEPT_BY_OTHERS = 16  # rewards of the other actions that are kept after a drift


@inlined
def fade(state, action):
    """Inflate the covariance with each reward, where only a window of rewards counts."""
    if state.params[WINDOW] > 0.0:
        factor = 1.0 / (1.0 - 1.0 / state.params[WINDOW])
        columns = state.counts[action, COLUMNS]
        for i in range(columns):
            line = state.covariance[action, i]
            for j in range(columns):
                line[j] *= factor


@inlined
def notices_drift(state, action, mean, reward):
    """Whether squared residuals exceed their expectation for long enough (Page's cumulative sum)."""
    if state.params[WINDOW] != AUTO:
        return False
    watch = state.watch[action]
    surprise = (reward - mean) ** 2 / (max(mean * (1.0 - mean), LEAST_INFORMATION) * state.dispersion[action])
    watch[EXCESS] += min(surprise, MOST_SURPRISE) - USUAL_SURPRISE
    if watch[EXCESS] <= 0.0:
        watch[EXCESS] = 0.0
        watch[SINCE_REWARD] = state.counts[action, LEARNT]
    return watch[EXCESS] > ALARM


@inlined
def forget_before_drift(state, action):
    """Forget this action's rewards from before the drift and nearly all of the others'; refits of all are due."""
    for other in range(len(state.estimates)):
        counts = state.counts[other]
        begun = np.int64(state.watch[other, SINCE_REWARD]) if other == action else counts[LEARNT] - KEPT_BY_OTHERS
        counts[FORGOTTEN] = max(counts[FORGOTTEN], begun)
        state.watch[other, EXCESS] = 0.0
        state.watch[other, SINCE_REWARD] = counts[LEARNT]
        counts[NEXT] = counts[LEARNT]
