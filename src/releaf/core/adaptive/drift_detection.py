"""Drift detection by Page's cumulative sum, and forgetting of what was learnt before a drift."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from releaf.core.adaptive.state import (
    AUTO,
    COLUMNS,
    EXCESS,
    FORGET_TO,
    LEARNT,
    LINE_COLUMNS,
    NEXT,
    NONE,
    SINCE_REWARD,
    STARTED,
    VARIANCE,
    WINDOW,
    open_sample_at,
)
from releaf.core.runtime.jit import inlined

USUAL_SURPRISE = 1.5  # squared standardized residual that adds nothing; 1 is expected
MOST_SURPRISE = 8.0  # of one reward
ALARM = 50.0  # accumulated excess that signals a drift
KEPT_BY_OTHERS = 16  # rewards of the other actions that are kept after a drift
LEAST_VARIANCE = 0.02  # of a reward, for its surprise


@inlined
def fade(state, model):
    """Inflate the covariances with each reward, where only a window of rewards counts."""
    if state.params[WINDOW] > 0.0:
        factor = 1.0 / (1.0 - 1.0 / state.params[WINDOW])
        inflate(model.covariance, model.counts[COLUMNS], factor)
        inflate(model.line_covariance, model.counts[LINE_COLUMNS], factor)


@inlined
def inflate(covariance, columns, factor):
    for i in range(columns):
        line = covariance[i]
        for j in range(columns):
            line[j] *= factor


@inlined
def notices_drift(state, sample, model, estimate, reward):
    """Whether squared residuals exceed their expectation for long enough (Page's cumulative sum)."""
    if state.params[WINDOW] != AUTO:
        return False
    watch = sample.watch
    bernoulli = estimate * (1.0 - estimate)
    variance = max(min(bernoulli, 2.0 * model.numbers[VARIANCE]), LEAST_VARIANCE)
    surprise = (reward - estimate) ** 2 / variance
    watch[EXCESS] += min(surprise, MOST_SURPRISE) - USUAL_SURPRISE
    if watch[EXCESS] <= 0.0:
        watch[EXCESS] = 0.0
        watch[SINCE_REWARD] = sample.counts[LEARNT]
    return watch[EXCESS] > ALARM


@inlined
def forget_before_drift(state, action):
    """Forget this action's rewards from before the drift and nearly all of the others'; fits of all are due."""
    for other in range(len(state.estimates)):
        sample = open_sample_at(state.samples[other])
        counts = sample.counts
        begun = np.int64(sample.watch[SINCE_REWARD]) if other == action else counts[LEARNT] - KEPT_BY_OTHERS
        counts[FORGET_TO] = max(counts[FORGET_TO], begun)
        sample.watch[EXCESS] = 0.0
        sample.watch[SINCE_REWARD] = counts[LEARNT]
        counts[NEXT] = counts[LEARNT]
        counts[STARTED] = NONE
