"""Sample of an action's rewards: appended in order of arrival, thinned by random keys where it is full."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from releaf.core.adaptive.state import DUE, DUE_NOW, EFFECT, LATEST_KEY, LEARNT, NEXT, NONE, ROWS, STARTED
from releaf.core.runtime.jit import inlined

KEYS = 2**62  # keys lie in [0, KEYS); with rate r, rows whose key is below KEYS / 2 ** r are kept


@inlined
def mixed(word):
    """Finaliser of the SplitMix64 generator."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@inlined
def key_of(context, number, reward):
    """Key of a row: a hash of its values and of a number, the same in every copy of a learner."""
    word = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)
    for feature in range(len(context)):
        word = mixed(word + np.uint64(np.int64(context[feature] * 1048576.0) + 1048577))
    word = mixed(word + np.uint64(np.int64(reward * 1048576.0)))
    return np.int64(word >> np.uint64(2))


@inlined
def store_reward(sample, context, step, reward):
    """Append a reward. The caller ensures capacity, except after it failed to: then the reward is not in the sample.

    Its key follows from that of the reward before: equal rewards of learners with different histories differ.
    """
    counts = sample.counts
    row = min(counts[ROWS], np.int64(len(sample.rewards) - 1))
    for feature in range(len(context)):
        sample.contexts[row, feature] = context[feature]
    sample.rewards[row] = reward
    sample.keys[row] = key_of(context, counts[LATEST_KEY], reward)
    sample.numbers[row] = counts[LEARNT]
    sample.steps[row] = step
    counts[LATEST_KEY] = sample.keys[row]
    counts[ROWS] = row + 1
    counts[LEARNT] += 1


@inlined
def note_due(state, sample):
    """Note that an action needs a refit to start or to take effect, or more capacity."""
    counts = sample.counts
    if (
        counts[ROWS] >= len(sample.rewards)
        or (counts[STARTED] == NONE and counts[LEARNT] >= counts[NEXT])
        or (counts[STARTED] != NONE and counts[LEARNT] >= counts[EFFECT])
    ):
        counts[DUE_NOW] = 1
        state.clock[DUE] = 1
        return True
    return False
