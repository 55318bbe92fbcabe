"""What the rivals' kernels share: their clock, the check of a context, and the choice of the best."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import Any

import numpy as np

from releaf.core.runtime.jit import inner
from releaf.core.runtime.random_generator import first_state, unit, whole_below

Array = np.ndarray[Any, np.dtype[Any]]
# Of a clock: decisions so far, the generator's state, and decisions when the last action was added; how many balls or
# groups there are, and the one that the latest decision fell in.
TIME, RANDOM, SINCE, USED, LATEST = range(5)


def new_clock(seed: int | None) -> Array:
    clock = np.zeros(5, dtype=np.int64)
    clock[RANDOM] = first_state(seed)
    return clock


@inner
def bad_value(context, limits):
    """-1 when each value is from its lower limit to 1, else -2 - the first feature where it isn't.

    A lower limit of -1 is that of a feature that may be missing, which -1 stands for.
    """
    for i in range(len(context)):
        if not limits[i] <= context[i] <= 1.0:
            return -2 - i
    return -1


@inner
def best_of(values):
    """The place of the largest value, the first of them on ties."""
    best = 0
    for place in range(1, len(values)):
        if values[place] > values[best]:
            best = place
    return best


@inner
def exploration_rate(constant, fixed, actions, steps):
    """ε: the fixed one where it is set (not negative), else min(1, constant · actions / steps)."""
    if fixed >= 0.0:
        return fixed
    return min(1.0, constant * actions / max(steps, np.int64(1)))


@inner
def mostly_best(clock, estimates, rate, chance):
    """2 · action, plus 1 when drawn at random: the best one with probability 1 - rate, else any of them."""
    best = best_of(estimates)
    action = best
    explored = 0
    if unit(clock, RANDOM) < rate:
        action = whole_below(clock, RANDOM, len(estimates))
        explored = 1
    chance[0] = rate / len(estimates)
    if action == best:
        chance[0] = 1.0 - rate * (len(estimates) - 1) / len(estimates)
    return 2 * action + explored


@inner
def difference(one, other, stretch):
    """How much two values of a feature differ, from 0 to 1.

    A missing value, -1, is 1 from all others. The stretch is 1 for a number, and for a category the number of
    categories, so that two of them are alike or 1 apart.
    """
    return min(abs(one - other) * stretch, 1.0)


@inner
def confidence(scale, observations):
    """How far a mean of so many observations may be off: infinitely without any."""
    if observations == 0:
        return math.inf
    return math.sqrt(scale / observations)


@inner
def normal_cdf(value):
    """The probability that a standard normal number is below a value."""
    return 0.5 * math.erfc(-value * math.sqrt(0.5))
