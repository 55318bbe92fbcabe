"""Estimates of shadows against planted truth: they cover it, agree with each other, and admit what is not supported."""

from __future__ import annotations

import numpy as np
import pytest

from releaf.service.experiments.learner_slot import LearnerSlot
from releaf.service.experiments.shadow_estimate import ShadowEstimate

RANGE = (0.0, 1.0)
SEEDS = 60
DECISIONS = 1_000


def estimate_of(seed: int, certain: float, cohort: bool = False) -> tuple[ShadowEstimate, float]:
    """An estimate, and the shadow's true mean reward on the same decisions.

    The policy in charge takes an action that earns 0.3; on a share of the decisions certainly, and on the others with
    probability 0.8. The shadow takes the other one, which earns 0.9 where the first is certain and 0.6 elsewhere.
    """
    rng, made, truth = np.random.default_rng(seed), ShadowEstimate(), 0.0
    for number in range(DECISIONS):
        is_certain = rng.random() < certain
        earns = 0.9 if is_certain else 0.6
        truth += earns / DECISIONS
        probability = 1.0 if is_certain else 0.8
        agrees = rng.random() >= probability
        reward = float(rng.random() < (earns if agrees else 0.3))
        made.add_logged(
            agrees, 1.0 - probability if agrees else probability, reward, reward, number if cohort else None
        )
        if cohort:
            made.settle(number)
    return made, truth


@pytest.mark.parametrize("certain", [0.0, 0.05, 0.1, 0.15])
def test_intervals_cover_the_truth_also_where_the_policy_in_charge_was_certain(certain: float) -> None:
    covered = 0
    for seed in range(SEEDS):
        made, truth = estimate_of(seed, certain)
        value, low, high = made.value(RANGE)
        assert made.is_supported()
        assert value is not None
        assert low is not None
        assert high is not None
        assert low <= value <= high
        covered += low <= truth <= high
        gap = truth - (made.paired.mean_in_charge or 0.0)
        assert made.paired.low <= gap <= made.paired.high
    assert covered >= 0.95 * SEEDS - 4


def test_a_large_share_of_certain_decisions_is_not_supported() -> None:
    for seed in range(5):
        made, _ = estimate_of(seed, 0.3)
        assert not made.is_supported()
        assert made.value(RANGE) == (None, None, None)


@pytest.mark.parametrize("certain", [0.0, 0.1])
def test_an_action_that_is_never_taken_widens_the_interval_even_without_certain_decisions(certain: float) -> None:
    """Of three actions, the shadow's one is never taken on a share of the decisions; propensities don't show it."""
    covered, wider = 0, 0
    for seed in range(SEEDS):
        rng, made, truth = np.random.default_rng(seed), ShadowEstimate(), 0.0
        for _ in range(4_000):
            is_never = rng.random() < certain
            truth += (1.0 if is_never else 0.5) / 4_000
            agrees = not is_never and rng.random() < 0.5
            reward = float(rng.random() < 0.5)
            made.add_logged(agrees, 0.5, reward, reward)
        value, low, high = made.value(RANGE)
        assert value is not None
        assert low is not None
        assert high is not None
        covered += low <= truth <= high
        wider += high - low > 0.08
    assert covered >= 0.95 * SEEDS - 4
    assert (wider > 0.9 * SEEDS) == (certain > 0)


def test_value_and_difference_agree() -> None:
    made, _ = estimate_of(0, 0.1)
    from simulated_days import new_state

    state = new_state()
    slot = LearnerSlot("other", state.slot.policy, state.learner, 0)
    slot.estimate = made
    told = slot.to_message()
    assert told.supported
    assert told.value is not None
    assert told.in_charge is not None
    assert told.difference == told.value - told.in_charge
    assert (told.difference_low or 0.0) <= told.difference <= (told.difference_high or 0.0)


def test_cohorts_that_settle_in_order_give_the_same_estimate() -> None:
    at_once, _ = estimate_of(1, 0.1)
    by_cohort, _ = estimate_of(1, 0.1, cohort=True)
    assert by_cohort.unsettled == {}
    assert by_cohort.value(RANGE) == pytest.approx(at_once.value(RANGE))
    for one in ("low", "high", "mean", "count"):
        assert getattr(by_cohort.paired, one) == pytest.approx(getattr(at_once.paired, one))
