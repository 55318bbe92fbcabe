"""Confidence sequences: they cover at all times at once, also with small propensities, and get narrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from releaf.confidence_sequence import LowerBound, PairedDifference

STEPS, RUNS = 2_000, 120
MOST_WRONG = 0.05 + 2.5 * (0.05 * 0.95 / RUNS) ** 0.5  # of the runs, of both sides, with the luck of so few


def ever_wrong(draw: Callable[[Any], tuple[float, float]], truth: float, seed: int) -> bool:
    """Whether the true difference is out of the bounds at any step."""
    rng, compared = np.random.default_rng(seed), PairedDifference()
    for _ in range(STEPS):
        compared.add(*draw(rng))
        if not compared.low <= truth <= compared.high:
            return True
    return False


def logged(chance: float, taken: float, other: float) -> tuple[Callable[[Any], tuple[float, float]], float]:
    """Draws of two actions: the policy in charge takes the other one's action with a chance; rates of both; truth."""

    def draw(rng: Any) -> tuple[float, float]:
        follows = rng.random() < chance
        reward = float(rng.random() < (other if follows else taken))
        return (1.0 / chance if follows else 0.0), reward

    return draw, other - (chance * other + (1.0 - chance) * taken)


@pytest.mark.parametrize(
    ("chance", "taken", "other"), [(0.5, 0.5, 0.5), (0.05, 0.1, 0.1), (0.02, 0.6, 0.4), (0.9, 0.03, 0.05)]
)
def test_the_truth_is_covered_at_all_times_at_once(chance: float, taken: float, other: float) -> None:
    draw, truth = logged(chance, taken, other)
    assert np.mean([ever_wrong(draw, truth, seed) for seed in range(RUNS)]) <= MOST_WRONG


def test_a_difference_is_found() -> None:
    draw, truth = logged(0.2, 0.3, 0.6)
    rng, compared = np.random.default_rng(0), PairedDifference()
    for _ in range(STEPS):
        compared.add(*draw(rng))
    assert 0.0 < compared.low < truth < compared.high < 0.6
    assert compared.mean == pytest.approx(truth, abs=0.06)
    assert compared.mean_in_charge == pytest.approx(0.36, abs=0.04)


def test_an_interval_that_is_looked_at_each_time_is_wrong_more_often() -> None:
    """The reason for sequences: a normal interval of the same values, looked at after each of them."""
    wrong = 0
    for seed in range(RUNS):
        values = np.random.default_rng(seed).integers(0, 2, 1_000) - 0.5
        counts = np.arange(1, 1_001)
        means = np.cumsum(values) / counts
        wrong += bool((np.abs(means[19:]) > 1.96 * 0.5 / np.sqrt(counts[19:])).any())
    assert wrong > 0.2 * RUNS


def test_both_rewards_are_compared_directly() -> None:
    rng, compared = np.random.default_rng(1), PairedDifference()
    for _ in range(500):
        own = float(rng.random() < 0.4)
        compared.add_pair(min(own + float(rng.random() < 0.3), 1.0), own)
    assert 0.05 < compared.low < compared.mean < compared.high < 0.35


def test_what_is_never_taken_makes_bounds_wide_not_wrong() -> None:
    """The shadow's action has rate 1, and is never taken: its weight is always 0."""
    rng, compared = np.random.default_rng(2), PairedDifference()
    for _ in range(STEPS):
        compared.add(0.0, float(rng.random() < 0.5))
    assert compared.low < 0.0
    assert compared.high > 0.45


def test_nothing_is_known_before_the_first_value() -> None:
    assert LowerBound().value == -1.0
    assert (PairedDifference().low, PairedDifference().high) == (-1.0, 1.0)
    assert PairedDifference().mean_in_charge is None
