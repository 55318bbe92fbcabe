"""Checks of arguments: errors that name the argument, its value and what was expected."""

from __future__ import annotations

import math

import numpy as np


def require(**positive: float) -> None:
    for name, value in positive.items():
        if not (_is_finite(value) and value > 0):
            raise ValueError(f"{name} must be a positive number, got {name}={value!r}")


def require_at_least(least: float, **numbers: float) -> None:
    for name, value in numbers.items():
        if not (_is_finite(value) and value >= least):
            raise ValueError(f"{name} must be at least {least}, got {name}={value!r}")


def require_below_one(**probabilities: float) -> None:
    for name, value in probabilities.items():
        if not (_is_finite(value) and 0 < value < 1):
            raise ValueError(f"{name} must be above 0 and below 1, got {name}={value!r}")


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float | np.number) and math.isfinite(value)
