"""Drift detection by Page's cumulative sum, and forgetting of what was learnt before a drift."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from releaf.core.adaptive.refit import LEAST_INFORMATION
from releaf.core.adaptive.state import AUTO, COLUMNS, EXCESS, FORGOTTEN, LEARNT, MEMORY, NEXT, SINCE_REWARD
from releaf.core.runtime.jit import inner

USUAL_SURPRISE = 1.5  # of which nothing comes together; 1 is what is expected
MOST_SURPRISE = 8.0  # that one reward counts for
ALARM = 50.0  # of surprise above the usual, that shows a drift
KEPT_BY_OTHERS = 16  # rewards of the other actions, when one has shown a drift


@inner
def fade(state, action):
    """Where some rewards are forgotten, be a little less sure with each new one."""
    if state.params[MEMORY] > 0.0:
        factor = 1.0 / (1.0 - 1.0 / state.params[MEMORY])
        columns = state.counts[action, COLUMNS]
        for i in range(columns):
            line = state.covariance[action, i]
            for j in range(columns):
                line[j] *= factor


@inner
def notices_drift(state, action, mean, reward):
    """Whether rewards have been more surprising than expected for too long (Page's cumulative sum)."""
    if state.params[MEMORY] != AUTO:
        return False
    watch = state.watch[action]
    surprise = (reward - mean) ** 2 / (max(mean * (1.0 - mean), LEAST_INFORMATION) * state.dispersion[action])
    watch[EXCESS] += min(surprise, MOST_SURPRISE) - USUAL_SURPRISE
    if watch[EXCESS] <= 0.0:
        watch[EXCESS] = 0.0
        watch[SINCE_REWARD] = state.counts[action, LEARNT]
    return watch[EXCESS] > ALARM


@inner
def forget_before(state, action):
    """Forget what this action learnt before the drift began, and nearly all of the others; all are due to be fitted."""
    for other in range(len(state.estimates)):
        counts = state.counts[other]
        begun = np.int64(state.watch[other, SINCE_REWARD]) if other == action else counts[LEARNT] - KEPT_BY_OTHERS
        counts[FORGOTTEN] = max(counts[FORGOTTEN], begun)
        state.watch[other, EXCESS] = 0.0
        state.watch[other, SINCE_REWARD] = counts[LEARNT]
        counts[NEXT] = counts[LEARNT]
