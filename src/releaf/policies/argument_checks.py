"""Validation of constructor arguments; errors name the argument, the value and what was expected."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

SMALLEST, LARGEST = 1e-50, 1e50  # between these no control number overflows


def scale(name: str, value: Any) -> float:
    """Validate a positive number within the range in which control numbers do not overflow."""
    if not SMALLEST <= positive(name, value) <= LARGEST:
        raise ValueError(f"{name} must be between {SMALLEST:g} and {LARGEST:g}, got {name}={value!r}")
    return float(value)


def positive(name: str, value: Any, *, below: float = math.inf, most: float = math.inf, zero: bool = False) -> float:
    """Validate a finite number above 0 (with ``zero``: at least 0), below one limit and at most another."""
    allowed = not isinstance(value, bool) and isinstance(value, int | float | np.integer | np.floating)
    if not (allowed and (value > 0 or (zero and value == 0)) and value < below and value <= most):
        limit = f" below {below:g}" if below < math.inf else ""
        limit += f" and at most {most:g}" if most < math.inf else ""
        kind = "a number of at least 0" if zero else "a positive number"
        raise ValueError(f"{name} must be {kind}{limit}, got {name}={value!r}")
    return float(value)


def whole(name: str, value: Any, *, least: int, most: float = math.inf) -> int:
    """Validate an integer from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        limit = "" if most == math.inf else f" and at most {most}"
        raise ValueError(f"{name} must be a whole number of at least {least}{limit}, got {name}={value!r}")
    return int(value)


def checked_random_state(state: Any) -> int:
    """Validate the state of a random generator."""
    return whole("state", state, least=-(2**63), most=2**63 - 1)
