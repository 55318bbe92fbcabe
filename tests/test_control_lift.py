"""The lift over a control group: its share, its bounds at all times at once, and what they are worth."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import releaf
from releaf import evaluate
from releaf.control_lift import GroupSums
from releaf.policies.control_group import counted_word


def lowest_and_highest(share: float, gap: float, seed: int, count: int = 2_000) -> tuple[float, float, GroupSums]:
    """The highest lower bound and the lowest upper bound that someone sees who looks after every reward."""
    draw, sums = np.random.default_rng(seed), GroupSums(share)
    control = draw.random(count) < share
    rewards = (draw.random(count) < 0.4 + np.where(control, 0.0, gap)).astype(float)
    lower, upper = -1.0, 1.0
    for is_control, reward in zip(control.tolist(), rewards.tolist(), strict=True):
        sums.add(is_control, reward)
        lift = sums.lift()
        lower, upper = max(lower, lift.lower), min(upper, lift.upper)
    return lower, upper, sums


@pytest.mark.parametrize(("share", "gap"), [(0.05, 0.0), (0.3, 0.0), (0.5, 0.2)])
def test_bounds_cover_for_whoever_looks_after_every_reward(share: float, gap: float) -> None:
    """At most 5 % of runs may ever exclude the truth; an interval for one look does in most."""
    missed = sum(
        not lower <= gap <= upper for lower, upper, _ in (lowest_and_highest(share, gap, s) for s in range(60))
    )
    assert missed <= 5  # 12 or more of 60 have the probability 1e-5 if 5 % do


def test_an_interval_for_one_look_does_not_cover_for_whoever_looks_often() -> None:
    """The reason for a confidence sequence: the same runs, with the interval of a test of fixed size."""
    missed = 0
    for seed in range(60):
        draw = np.random.default_rng(seed)
        control, rewards = draw.random(2_000) < 0.3, (draw.random(2_000) < 0.4).astype(float)
        counts = np.cumsum(np.column_stack([~control, control]), axis=0)[50:]
        sums = np.cumsum(np.column_stack([rewards * ~control, rewards * control]), axis=0)[50:]
        means = sums / counts
        error = np.sqrt((means * (1 - means) / counts).sum(axis=1))
        missed += bool((np.abs(means[:, 0] - means[:, 1]) > 1.96 * error).any())
    assert missed > 12


def test_a_lift_is_shown_and_its_bounds_close() -> None:
    _, _, sums = lowest_and_highest(0.3, 0.2, seed=1, count=6_000)
    lift = sums.lift()
    assert lift.is_shown
    assert lift.lower < (lift.difference or 0.0) < lift.upper
    assert lift.upper - lift.lower < 0.16
    assert GroupSums.from_list(0.3, sums.to_list()) == sums


def test_without_rewards_the_bounds_are_as_wide_as_the_range() -> None:
    lift = GroupSums(0.1).lift(-2.0, 6.0)
    assert (lift.difference, lift.lower, lift.upper, lift.is_shown) == (None, -6.0, 6.0, False)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.95])
@pytest.mark.parametrize("key", [0, 1, 2**62 + 5, 2**70])
def test_the_share_of_control_is_kept_and_its_draws_are_uniform(share: float, key: int) -> None:
    count = 20_000
    found = np.mean([counted_word(key, step, 0) < share * 2.0**64 for step in range(count)])
    assert found == pytest.approx(share, abs=4.5 * np.sqrt(share * (1 - share) / count))
    drawn = np.bincount([counted_word(key, step, 1) % 7 for step in range(count)])
    assert drawn == pytest.approx(count / 7, abs=4.5 * np.sqrt(count / 7))
    pairs = np.array([[counted_word(key, step, draw) / 2.0**64 for draw in (0, 1)] for step in range(count)])
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 4.5 / np.sqrt(count)
    assert abs(np.corrcoef(pairs[1:, 0], pairs[:-1, 0])[0, 1]) < 4.5 / np.sqrt(count)


def test_seeds_have_groups_of_their_own() -> None:
    groups = [[counted_word(seed, step, 0) < 2**63 for step in range(4_000)] for seed in range(6)]
    for one in range(6):
        for other in range(one):
            same = np.mean(np.array(groups[one]) == np.array(groups[other]))
            assert same == pytest.approx(0.5, abs=4.5 * 0.5 / np.sqrt(4_000))


def planted(seed: int, count: int = 4_000, **further: Any) -> tuple[Any, Any, Any]:
    draw = np.random.default_rng(seed)
    contexts = draw.random((count, 2))
    rewards = (draw.random((count, 2)) < np.column_stack([contexts[:, 0], 1 - contexts[:, 0]])).astype(float)
    return releaf.LinUCB(2, 2, seed=seed, **further), contexts, rewards


def test_a_learners_lift_over_a_uniform_control_is_that_of_the_stream() -> None:
    """The better action earns 3/4 on average, a uniform one 1/2."""
    bandit, contexts, rewards = planted(3, control_share=0.2)
    bandit.replay(contexts, rewards)
    lift = bandit.lift()
    assert lift.lower < 0.25 < lift.upper
    assert lift.lower > 0.1
    assert lift.control_rewards / 4_000 == pytest.approx(0.2, abs=0.03)


def test_off_policy_estimates_of_a_log_with_a_control_share_are_unbiased() -> None:
    """LinUCB alone is deterministic, so its log can't be weighted; with a share of control it can."""
    values = []
    for seed in range(20):
        bandit, contexts, rewards = planted(seed, 1_000, control_share=0.3)
        choices = bandit.decide_many(contexts)
        gained = rewards[np.arange(1_000), choices.indices]
        values.append(np.mean(gained * (choices.indices == 1) / choices.probabilities))
    assert np.mean(values) == pytest.approx(0.5, abs=4.5 * np.std(values) / np.sqrt(20))


def test_the_lift_of_a_log_is_that_of_its_learner() -> None:
    bandit, contexts, rewards = planted(3, 1_500, control_share=0.2)
    trace = bandit.replay(contexts, rewards)
    names = np.where(trace.control, "control", "learner")
    assert evaluate.lift(trace.rewards, trace.control, 0.2) == bandit.lift()
    assert evaluate.lift(trace.rewards.tolist(), names.tolist(), 0.2) == bandit.lift()


def test_unknown_rewards_of_a_log_count_for_neither_group() -> None:
    rewards, groups = [1.0, np.nan, 0.0, np.nan], ["learner", "learner", "control", "control"]
    assert evaluate.lift(rewards, groups, 0.5) == evaluate.lift([1.0, 0.0], ["learner", "control"], 0.5)


@pytest.mark.parametrize(
    ("rewards", "groups", "share", "text"),
    [
        ([1.0], [True, False], 0.5, "expected a group for each reward, got (1,) rewards and (2,) groups"),
        ([[1.0]], [[True]], 0.5, "expected a group for each reward, got (1, 1) rewards and (1, 1) groups"),
        ([1.0, 2.0], [True, False], 0.5, "reward of row 1 is 2: expected one in reward_range, 0 to 1"),
        ([1.0], ["other"], 0.5, "groups has 'other': expected 'learner', 'control', or booleans"),
        ([1.0], [None], 0.5, "groups has None: expected 'learner', 'control', or booleans"),
        ([1.0], [1], 0.5, "groups has 1: expected 'learner', 'control', or booleans"),
        ([1.0], [True], 0.0, "control_share must be a positive number below 1, got control_share=0.0"),
        ([1.0], [True], 1.0, "control_share must be a positive number below 1, got control_share=1.0"),
    ],
)
def test_a_log_that_can_not_be_compared_is_refused(rewards: Any, groups: Any, share: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        evaluate.lift(rewards, groups, share)
