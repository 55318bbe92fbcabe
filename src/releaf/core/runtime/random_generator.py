"""Random generator of a learner: splitmix64, whose state is one integer of the learner's clock."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.core.runtime.jit import inlined

_TO_UNIT = 1.0 / 9007199254740992.0  # 2 ** -53


def first_state(seed: int | None) -> np.int64:
    """Initial generator state for a seed; a fresh one for None."""
    return np.int64(np.random.SeedSequence(seed).generate_state(1, np.uint64).view(np.int64)[0])


@inlined
def next_word(clock, place):
    """Draw 64 random bits; the generator's state is ``clock[place]``."""
    state = np.uint64(clock[place]) + np.uint64(0x9E3779B97F4A7C15)
    clock[place] = np.int64(state)
    mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@inlined
def integer_below(clock, place, below):
    """Draw a uniform integer in [0, below)."""
    return np.int64(next_word(clock, place) % np.uint64(below))


@inlined
def unit(clock, place):
    """Draw a uniform number in [0, 1)."""
    return np.int64(next_word(clock, place) >> np.uint64(11)) * _TO_UNIT


@inlined
def normal(clock, place):
    """Draw a standard normal number (Box–Muller)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - unit(clock, place)))
    return radius * math.cos(2.0 * math.pi * unit(clock, place))
