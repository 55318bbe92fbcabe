"""Rewards in the user's units: every policy takes a `reward_range`, and answers in the same units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance import LOGGED, NAMES, POLICIES, VARIANT_NAMES, VARIANTS, make, refused, wanted

import releaf
from releaf.core.runtime.state_file import StateError
from releaf.ensembles import train_experts

EVERY = pytest.mark.parametrize("policy", [*POLICIES, *VARIANTS], ids=[*NAMES, *VARIANT_NAMES])
STEPS, LOW, SPAN = 300, -20.0, 64.0  # a power of two, so that scaling rounds nothing
CONTEXTS = np.random.default_rng(0).random((STEPS, 3))
SHARES = np.random.default_rng(1).integers(5, size=(STEPS, 2)) / 4.0
SHARES[:, 0] = np.where(CONTEXTS[:, 0] > 0.5, 1.0, 0.25)
EUROS = LOW + SPAN * SHARES
RANGE = (LOW, LOW + SPAN)


def in_euros(estimates: Any) -> Any:
    return None if estimates is None else tuple(LOW + SPAN * estimate for estimate in estimates)


@EVERY
def test_euros_and_shares_give_the_same_decisions_and_estimates_in_their_own_units(policy: Any) -> None:
    plain, euros = make(policy), make(policy, reward_range=RANGE)
    assert euros.reward_range == RANGE
    for context, shares, amounts in zip(CONTEXTS, SHARES, EUROS, strict=True):
        one, other = plain.decide(context), euros.decide(context)
        assert (one.action, one.explored, one.probability) == (other.action, other.explored, other.probability)
        assert in_euros(one.estimates) == other.estimates
        if one.wants_reward:
            plain.learn(one, wanted(plain, shares, one))
            euros.learn(other, wanted(euros, amounts, other))
    expected = LOW + SPAN * plain.estimate(CONTEXTS[:20])
    np.testing.assert_array_equal(euros.estimate(CONTEXTS[:20]), expected)


@EVERY
def test_a_replay_in_euros_is_that_of_the_shares_and_returns_the_euros(policy: Any) -> None:
    plain, euros = make(policy), make(policy, reward_range=RANGE)
    one, other = plain.replay(CONTEXTS, SHARES), euros.replay(CONTEXTS, EUROS)
    np.testing.assert_array_equal(one.actions, other.actions)
    np.testing.assert_array_equal(one.explored, other.explored)
    np.testing.assert_array_equal(other.rewards, EUROS[np.arange(STEPS), other.actions])
    np.testing.assert_array_equal(euros.estimate(CONTEXTS[:20]), LOW + SPAN * plain.estimate(CONTEXTS[:20]))


@pytest.mark.parametrize("policy", LOGGED, ids=[policy.__name__ for policy in LOGGED])
def test_a_log_in_euros_teaches_what_the_shares_teach(policy: Any) -> None:
    plain, euros = make(policy), make(policy, reward_range=RANGE)
    taken = np.arange(STEPS) % 2
    rows = np.arange(STEPS)
    plain.learn_log(CONTEXTS, taken, SHARES[rows, taken])
    euros.learn_log(CONTEXTS, taken, EUROS[rows, taken])
    plain.observe(CONTEXTS[0], 1, 0.25)
    euros.observe(CONTEXTS[0], 1, -4)
    np.testing.assert_array_equal(euros.estimate(CONTEXTS[:20]), LOW + SPAN * plain.estimate(CONTEXTS[:20]))
    with pytest.raises(ValueError, match=r"row 1: reward is 45\.0: expected a number in \[-20, 44\]"):
        euros.learn_log(CONTEXTS[:2], [0, 1], [0.0, 45.0])


@EVERY
def test_a_saved_learner_keeps_its_range(policy: Any) -> None:
    euros = make(policy, reward_range=RANGE)
    euros.replay(CONTEXTS[:100], EUROS[:100])
    again = releaf.from_bytes(euros.to_bytes())
    assert again.reward_range == RANGE
    np.testing.assert_array_equal(again.replay(CONTEXTS, EUROS).actions, euros.replay(CONTEXTS, EUROS).actions)


@EVERY
def test_a_reward_outside_of_the_range_is_refused_and_changes_nothing(policy: Any) -> None:
    euros = make(policy, reward_range=(-20, 44))
    bad = np.where(np.arange(10)[:, None] == 7, 50.0, EUROS[:10])
    expected = "reward 50.0 of row 7, action 0: expected [-20, 44]"
    refused(euros, lambda: euros.replay(CONTEXTS[:10], bad), expected)
    choice = euros.decide(CONTEXTS[0])
    if choice.wants_reward:
        given = wanted(euros, [50.0, 50.0], choice)
        refused(euros, lambda: euros.learn(choice, given), "reward is 50.0: expected a number in [-20, 44]")
        refused(euros, lambda: euros.check_reward(choice.id, given), "reward is 50.0: expected a number in [-20, 44]")


@pytest.mark.parametrize("policy", POLICIES, ids=NAMES)
@pytest.mark.parametrize("given", [(1, 0), 5, "01", (0, float("inf")), (2, 2)])
def test_what_is_no_range_is_refused(policy: Any, given: Any) -> None:
    with pytest.raises(ValueError, match="reward_range must be two finite numbers, the lower first"):
        make(policy, reward_range=given)


def test_a_damaged_range_in_a_file_is_refused() -> None:
    bandit = releaf.LinUCB(2, 3)
    bandit.reward_range = (3.0, 1.0)
    with pytest.raises(StateError, match="reward_range must be two finite numbers"):
        releaf.from_bytes(bandit.to_bytes())


def test_rewards_as_a_table_are_matched_by_name_in_any_range() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    swapped = pyarrow.table({"treat": EUROS[:, 1], "wait": EUROS[:, 0]})
    one, other = (releaf.AdaptiveReleaf(["wait", "treat"], 3, seed=0, reward_range=RANGE) for _ in range(2))
    np.testing.assert_array_equal(one.replay(CONTEXTS, swapped).rewards, other.replay(CONTEXTS, EUROS).rewards)


def test_interval_rewards_and_balls_are_in_the_users_units() -> None:
    bandit = releaf.Releaf(2, 3, seed=0, observe="always", reward_range=RANGE)
    bandit.replay(CONTEXTS, EUROS)
    means = [entry.mean for interval in bandit.interval_rewards(0) for entry in interval if entry.count]
    assert min(means) >= RANGE[0]
    assert max(means) > 1.0
    zooming = releaf.ContextualZooming(2, 3, seed=0, reward_range=RANGE)
    zooming.learn(zooming.decide(CONTEXTS[0]), 40.0)
    assert zooming.balls()[0].mean == 40.0


def test_epsilon_of_releaf_is_in_the_users_units() -> None:
    plain = releaf.Releaf(2, 3, epsilon=0.5)
    euros = releaf.Releaf(2, 3, epsilon=50.0, reward_range=(0, 100))
    assert len(euros.partition(0)) == len(plain.partition(0)) > 1


@pytest.mark.parametrize("policy", [releaf.Releaf, releaf.GreedyReleaf, releaf.AdaptiveReleaf])
def test_learners_of_different_ranges_are_not_merged(policy: Any) -> None:
    with pytest.raises(ValueError, match="different reward_range can't be merged"):
        policy(2, 3, seed=0).merge(policy(2, 3, seed=0, reward_range=(0, 2)))


def test_base_classifiers_are_trained_with_rewards_in_euros() -> None:
    given: Any = {"actions": 2, "features": 3, "size": 40}
    plain = train_experts(CONTEXTS, SHARES, **given)
    euros = train_experts(CONTEXTS, EUROS, reward_range=RANGE, **given)
    np.testing.assert_array_equal(plain.coefficients, euros.coefficients)
    with pytest.raises(ValueError, match=r"expected \[0, 1\]"):
        train_experts(CONTEXTS, EUROS, **given)
