"""A learner's own generator: splitmix64, whose whole state is one number of the learner's clock."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.core.runtime.jit import inner

_TO_UNIT = 1.0 / 9007199254740992.0  # 2 ** -53


def first_state(seed: int | None) -> np.int64:
    """The state to start from; a fresh one for None."""
    return np.int64(np.random.SeedSequence(seed).generate_state(1, np.uint64).view(np.int64)[0])


@inner
def next_word(clock, place):
    """The next 64 random bits; the state stands at ``clock[place]``."""
    state = np.uint64(clock[place]) + np.uint64(0x9E3779B97F4A7C15)
    clock[place] = np.int64(state)
    mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@inner
def whole_below(clock, place, below):
    """A uniform integer in [0, below)."""
    return np.int64(next_word(clock, place) % np.uint64(below))


@inner
def unit(clock, place):
    """A uniform number in [0, 1)."""
    return np.int64(next_word(clock, place) >> np.uint64(11)) * _TO_UNIT


@inner
def normal(clock, place):
    """A standard normal number, by Box and Muller."""
    radius = math.sqrt(-2.0 * math.log(1.0 - unit(clock, place)))
    return radius * math.cos(2.0 * math.pi * unit(clock, place))
