"""Lemma 1: the greedy baseline has linear regret; RELEAF, with pairs of features, does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import releaf
from releaf.policies.partitioned import PartitionedPolicy

STEPS = 400_000


def regret_over_time(bandit: PartitionedPolicy) -> np.ndarray[Any, np.dtype[np.float64]]:
    """On the lemma's process: a earns 0.5 on average; b earns x_j, which is 1 on 80 % of the steps and 0 on the others.

    In the one interval that holds all of x_i, b looks worth 0.8, although at x_j = 0 it earns nothing.
    """
    generator = np.random.default_rng(1)
    x_j = (generator.random(STEPS) < 0.8).astype(float)
    contexts = np.column_stack([np.full(STEPS, 0.3), x_j])
    means = np.column_stack([np.full(STEPS, 0.5), x_j])
    rewards = (generator.random((STEPS, 2)) < means).astype(float)
    trace = releaf.replay(bandit, contexts, rewards)
    return np.cumsum(means.max(axis=1) - means[np.arange(STEPS), trace.actions])


@pytest.mark.parametrize("seed", range(3))
def test_the_regret_of_greedy_releaf_grows_linearly(seed: int) -> None:
    regret = regret_over_time(releaf.GreedyReleaf(2, 2, seed=seed, control_divisor=50))
    quarters = np.diff(regret[[STEPS // 4, STEPS // 2, 3 * STEPS // 4, STEPS - 1]])
    misled = 0.2 * 0.5  # on a fifth of the steps it loses 0.5
    assert quarters / (STEPS / 4) == pytest.approx(misled, rel=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_the_regret_of_releaf_does_not(seed: int) -> None:
    regret = regret_over_time(releaf.Releaf(2, 2, seed=seed, control_divisor=50))
    assert regret[-1] < 1.5 * regret[STEPS // 4]
    assert regret[-1] < 0.02 * (0.1 * STEPS)  # a fiftieth of the greedy rival's
