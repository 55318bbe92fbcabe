"""Confidence intervals of means, and the self-normalised off-policy estimate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from releaf.arrays import Array

Z95 = 1.959963984540054  # 97.5 % quantile of the standard normal distribution
# 97.5 % quantiles of Student's t distribution for 1, 2, … degrees of freedom; the last one is used for more.
T95 = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120)
MAX_WEIGHT_BIAS = 0.2  # difference of the mean weight from 1 up to which an estimate counts as supported


def standard_error(values: Array) -> float:
    """Standard error of the mean; infinite for a single value."""
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf


def t_half_width(values: Sequence[float]) -> float:
    """Half-width of the 95 % confidence interval of the mean (Student's t); 0 for a single or a constant value."""
    freedom = len(values) - 1
    if freedom < 1:
        return 0.0
    if np.ptp(values) <= 1e-9 * abs(float(np.mean(values))):  # constant, up to rounding
        return 0.0
    return T95[min(freedom, len(T95)) - 1] * standard_error(np.asarray(values))


def wilson_interval(mean: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % score interval of a mean of values in [0, 1]; valid also if few of them are above 0."""
    if not count:
        return 0.0, 1.0
    square = Z95**2
    centre = (mean + square / (2 * count)) / (1 + square / count)
    half = Z95 * math.sqrt(mean * (1 - mean) / count + square / (4 * count**2)) / (1 + square / count)
    return max(0.0, centre - half), min(1.0, centre + half)


def snips_estimate(w: float, wr: float, ww: float, wwr: float, wwrr: float) -> tuple[float, float]:
    """Self-normalised inverse-propensity estimate (SNIPS) from sums, and the half-width of its 95 % interval.

    Parameters
    ----------
    w, wr, ww, wwr, wwrr
        Sums over matched decisions of the weight w, of w·r with the reward r, of w², w²·r and w²·r².
    """
    return wr / w, Z95 * math.sqrt(snips_variance(w, wr, ww, wwr, wwrr))


def snips_variance(w: float, wr: float, ww: float, wwr: float, wwrr: float) -> float:
    """Variance of the estimate of `snips_estimate`, from the same sums (delta method)."""
    value = wr / w
    squared_residuals = wwrr - 2 * value * wwr + value * value * ww  # Σ w²·(r - value)²
    return max(squared_residuals, 0.0) / (w * w)


def effective_sample_size(w: float, ww: float) -> float:
    """Kish's effective sample size (Σ w)² / Σ w², from the sums of weights and of squared weights."""
    return w * w / ww if ww else 0.0


def is_weight_supported(w: float, ww: float, count: int) -> bool:
    """Whether importance weights are 1 on average over a number of decisions, up to random variation.

    They are less if the policy in charge never takes some of the actions that they stand for.

    Parameters
    ----------
    w, ww
        Sums of the weights, and of their squares.
    count
        The decisions, also those with the weight 0.
    """
    if not count:
        return False
    mean = w / count
    error = math.sqrt(max(ww / count - mean * mean, 0.0) / count)
    return abs(mean - 1.0) <= MAX_WEIGHT_BIAS + 3.0 * error
