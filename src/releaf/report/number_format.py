"""Formatting of means with their 95 % confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from releaf.statistics import t_half_width


def format_mean(values: Sequence[float], digits: int) -> str:
    """The mean with its confidence interval, without one for a constant value."""
    if not values:
        return "–"
    spread = t_half_width(values)
    return f"{np.mean(values):,.{digits}f}" + (f" ±{spread:,.{digits}f}" if spread else "")


def format_difference(values: Sequence[float], paper: float | None, digits: int) -> str:
    """Signed difference of the mean from the paper's value."""
    if paper is None or not values:
        return ""
    return f"{float(np.mean(values)) - paper:+,.{digits}f}".replace("-", "−")
