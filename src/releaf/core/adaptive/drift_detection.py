"""Drift detection by Page's cumulative sum, and forgetting of what was learnt before a drift."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.ridge import product, update_posterior
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
    SINCE_TREND,
    STARTED,
    TABLES,
    TREND,
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
# A gradual drift: the weights of the tables' regression are off by a process that forgets itself within TREND_REWARDS.
TREND_REWARDS = 300.0
TREND_VARIANCE = 0.02  # of an estimate by that process
TREND_ALARM = 16.0  # accumulated log-likelihood ratio that signals a drift
TREND_CAUTION = 2.0  # times the variance of a residual


def prior_of_trend(tables: int, columns: int) -> Array:
    """Covariance of the change of the weights before any residual."""
    return np.diag(np.full(columns, TREND_VARIANCE / (1.0 + tables)))


@inlined
def learn_trend(model, where, value, filled, error, variance, push):
    """Predict a residual of the tables' regression, then learn it; returns the prediction.

    A Kalman filter for weights that return to 0.
    """
    columns, kept = model.counts[COLUMNS], 1.0 - 1.0 / TREND_REWARDS
    fresh = (1.0 - kept * kept) * TREND_VARIANCE / (1.0 + model.counts[TABLES])
    for i in range(columns):
        model.trend[i] *= kept
        line = model.trend_covariance[i]
        for j in range(columns):
            line[j] *= kept * kept
        line[i] += fresh
    predicted = product(model.trend, where, value, filled)
    update_posterior(
        model.trend,
        model.trend_covariance,
        columns,
        where,
        value,
        filled,
        error - predicted,
        variance,
        0.0,
        push,
    )
    return predicted


@inlined
def notices_trend(state, sample, model, error, predicted):
    """Whether a trend has predicted the errors of the estimates well for long enough (Page's cumulative sum).

    The sum is of log-likelihood ratios. Where nothing changes errors have mean 0, and whatever is predicted of them
    costs likelihood.
    """
    if state.params[WINDOW] != AUTO:
        return False
    watch = sample.watch
    variance = TREND_CAUTION * max(model.numbers[VARIANCE], LEAST_VARIANCE)
    watch[TREND] += (2.0 * error - predicted) * predicted / (2.0 * variance)
    if watch[TREND] <= 0.0:
        watch[TREND] = 0.0
        watch[SINCE_TREND] = sample.counts[LEARNT]
    return watch[TREND] > TREND_ALARM


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
        sample.watch[EXCESS], sample.watch[TREND] = 0.0, 0.0
        sample.watch[SINCE_REWARD] = counts[LEARNT]
        sample.watch[SINCE_TREND] = counts[LEARNT]
        counts[NEXT] = counts[LEARNT]
        counts[STARTED] = NONE


@inlined
def forget_before_trend(sample):
    """Forget this action's rewards from before the trend; a fit is due."""
    counts, watch = sample.counts, sample.watch
    counts[FORGET_TO] = max(counts[FORGET_TO], np.int64(watch[SINCE_TREND]))
    watch[TREND] = 0.0
    watch[SINCE_TREND] = counts[LEARNT]
    counts[NEXT] = counts[LEARNT]
    counts[STARTED] = NONE
