"""Kernel primitives: the clock, the check of a context, choice among eligible actions, and distances.

``eligible`` has a 1 for each action that may be chosen, and a 0 for the others. All are 1 unless the caller restricts
a decision.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.arrays import Array
from releaf.core.runtime.jit import inlined
from releaf.core.runtime.random_generator import first_state, integer_below, unit

# Fields of a clock: decisions so far, the generator's state, decisions when the last action was added, the number of
# balls or groups, and the ball or group of the latest decision.
TIME, RANDOM, SINCE, USED, LATEST = range(5)
CLOCK_LENGTH = 5


def new_clock(seed: int | None) -> Array:
    clock = np.zeros(CLOCK_LENGTH, dtype=np.int64)
    clock[RANDOM] = first_state(seed)
    return clock


@inlined
def check_context(context, limits):
    """Return -1 where each value lies between its lower limit and 1, else -2 - the first feature that does not.

    The lower limit is -1 for a feature that may be missing: -1 encodes a missing value.
    """
    for i in range(len(context)):
        if not limits[i] <= context[i] <= 1.0:
            return -2 - i
    return -1


@inlined
def argmax(values):
    """Index of the largest value, the first one on ties."""
    best = 0
    for place in range(1, len(values)):
        if values[place] > values[best]:
            best = place
    return best


@inlined
def best_eligible(values, eligible):
    """Eligible action with the largest value, the first one on ties; ``values`` may end before ``eligible``."""
    best = -1
    for action in range(len(values)):
        if eligible[action] and (best < 0 or values[action] > values[best]):
            best = action
    return best


@inlined
def count_eligible(eligible):
    count = 0
    for action in range(len(eligible)):
        count += eligible[action] != 0
    return count


@inlined
def nth_eligible(eligible, turn):
    """Eligible action with so many eligible ones before it."""
    action = 0
    while turn > 0 or eligible[action] == 0:
        turn -= eligible[action] != 0
        action += 1
    return action


@inlined
def is_forced(eligible):
    """Whether one of several actions alone is eligible, so that there is nothing to choose."""
    return len(eligible) > 1 and count_eligible(eligible) == 1


@inlined
def set_eligible(eligible, masks, row):
    """Set the eligible actions of a row; ``masks`` without rows restricts none."""
    if len(masks) > 0:
        for action in range(len(eligible)):
            eligible[action] = masks[row, action]


@inlined
def exploration_rate(constant, fixed, actions, steps):
    """Exploration rate ε: the fixed one where it is set (not negative), else min(1, constant · actions / steps)."""
    if fixed >= 0.0:
        return fixed
    return min(1.0, constant * actions / max(steps, np.int64(1)))


@inlined
def choose_epsilon_greedy(clock, estimates, rate, chance, eligible):
    """Choose the best eligible action with probability 1 - rate, else any eligible one.

    Returns 2 · action, plus 1 where drawn at random.
    """
    best, count = best_eligible(estimates, eligible), count_eligible(eligible)
    action = best
    explored = 0
    if unit(clock, RANDOM) < rate:
        action = nth_eligible(eligible, integer_below(clock, RANDOM, count))
        explored = 1
    chance[0] = rate / count
    if action == best:
        chance[0] = 1.0 - rate * (count - 1) / count
    return 2 * action + explored


@inlined
def difference(one, other, stretch):
    """Distance of two values of a feature, from 0 to 1.

    A missing value, -1, has distance 1 from all others. ``stretch`` is 1 for a number, and the number of categories
    for a categorical feature, so that two categories have distance 0 or 1.
    """
    return min(abs(one - other) * stretch, 1.0)


@inlined
def confidence(scale, observations):
    """Confidence radius of a mean of so many observations; infinite without any."""
    if observations == 0:
        return math.inf
    return math.sqrt(scale / observations)


@inlined
def normal_cdf(value):
    """Standard normal distribution function."""
    return 0.5 * math.erfc(-value * math.sqrt(0.5))
