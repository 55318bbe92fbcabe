"""Means with their 95 % intervals, as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

# 97.5 % quantiles of Student's t for 1, 2, … degrees of freedom; the last one serves for more.
T95 = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120)


def margin(values: Sequence[float]) -> float:
    """Half of the 95 % interval of the mean (Student's t); 0 for one value."""
    freedom = len(values) - 1
    if freedom < 1:
        return 0.0
    if np.ptp(values) <= 1e-9 * abs(float(np.mean(values))):  # it never varies
        return 0.0
    return T95[min(freedom, len(T95)) - 1] * float(np.std(values, ddof=1)) / math.sqrt(len(values))


def shown(values: Sequence[float], digits: int) -> str:
    """The mean with its interval; a figure that never varies needs none."""
    if not values:
        return "–"
    spread = margin(values)
    return f"{np.mean(values):,.{digits}f}" + (f" ±{spread:,.{digits}f}" if spread else "")


def difference(values: Sequence[float], paper: float | None, digits: int) -> str:
    """By how much the mean is above (+) or below (−) the paper's figure."""
    if paper is None or not values:
        return ""
    return f"{float(np.mean(values)) - paper:+,.{digits}f}".replace("-", "−")
