"""UCB1, ε-greedy and Random: counts computed by hand, and exact probabilities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from conformance import make

import releaf


def actions_on(bandit: Any, table: list[float], steps: int) -> list[int]:
    """The actions taken where each always earns the same."""
    rewards = np.tile(table, (steps, 1))
    taken: list[int] = releaf.replay(bandit, np.full((steps, 1), 0.5), rewards).actions.tolist()
    return taken


def test_ucb1_on_a_fixed_table_worked_out_by_hand() -> None:
    """Action 0 always earns 1, action 1 nothing; after n steps with n_0, n_1 of each the indices are as told.

    n = 2: 1 + √(2 ln 2 / 1) = 2.18 > 1.18.   n = 3: 1 + √(2 ln 3 / 2) = 2.05 > 1.48.
    n = 4: 1 + √(2 ln 4 / 3) = 1.96 > 1.67.   n = 5: 1 + √(2 ln 5 / 4) = 1.90 > 1.79.
    n = 6: 1 + √(2 ln 6 / 5) = 1.85 < 1.89 = √(2 ln 6 / 1): now the other, so n_1 = 2.
    n = 7: 1 + √(2 ln 7 / 5) = 1.88 > 1.39 = √(2 ln 7 / 2), and so on until
    n = 15: 1 + √(2 ln 15 / 13) = 1.6455 < 1.6456 = √(2 ln 15 / 2), when the other has its third turn.
    """
    taken = actions_on(releaf.UCB1(2, 1), [1.0, 0.0], 18)
    assert taken == [0, 1, 0, 0, 0, 0, 1, *[0] * 8, 1, 0, 0]


@pytest.mark.parametrize("table", [[0.1, 0.9, 0.5], [0.3, 0.3], [0.0, 0.25, 0.5, 0.75, 1.0]])
def test_ucb1_takes_the_highest_index_at_every_step(table: list[float]) -> None:
    counts = [0] * len(table)
    for action in actions_on(releaf.UCB1(len(table), 1, confidence=1.5), table, 500):
        if 0 in counts:
            expected = counts.index(0)
        else:
            bounds = [mean + math.sqrt(1.5 * math.log(sum(counts)) / n) for mean, n in zip(table, counts, strict=True)]
            expected = bounds.index(max(bounds))
        assert action == expected
        counts[action] += 1
    assert max(counts) == counts[table.index(max(table))]


def test_ucb1_pulls_a_worse_action_about_as_often_as_its_bound_says() -> None:
    """Auer et al., Theorem 1: at most 8 ln n / Δ² + 1 + π²/3 times in expectation."""
    steps, gap = 20_000, 0.3
    rewards = (np.random.default_rng(0).random((steps, 2)) < [0.65, 0.35]).astype(float)
    trace = releaf.replay(releaf.UCB1(2, 1), np.full((steps, 1), 0.5), rewards)
    worse = int(trace.actions.sum())
    assert 50 < worse <= 8 * math.log(steps) / gap**2 + 1 + math.pi**2 / 3


@pytest.mark.parametrize("policy", [releaf.EpsilonGreedy, releaf.LinearEpsilonGreedy])
def test_epsilon_falls_as_one_over_t(policy: Any) -> None:
    """ε_t = min(1, c·A/t): the explorations are as many as the ε add up to, and half of them take the best action."""
    steps, runs, constant = 2_000, 60, 5.0
    rewards = np.tile([0.2, 0.8], (steps, 1))
    contexts = np.full((steps, 1), 0.5)
    expected = sum(min(1.0, constant * 2 / t) for t in range(1, steps + 1))
    found = [releaf.replay(policy(2, 1, seed=seed), contexts, rewards).explored.sum() for seed in range(runs)]
    deviation = math.sqrt(expected / runs)
    assert np.mean(found) == pytest.approx(expected, abs=4 * deviation)


@pytest.mark.parametrize("name", ["EpsilonGreedy", "LinearEpsilonGreedy", "HybridEpsilon"])
def test_a_fixed_epsilon_stays(name: str) -> None:
    bandit = make(getattr(releaf, name), 4, 2, epsilon=0.2)
    steps = 20_000
    contexts = np.random.default_rng(1).random((steps, 2))
    trace = releaf.replay(bandit, contexts, np.tile([0.1, 0.2, 0.3, 0.9], (steps, 1)))
    assert trace.explored.mean() == pytest.approx(0.2, abs=0.012)
    assert np.mean(trace.actions[-5_000:] == 3) == pytest.approx(0.85, abs=0.02)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Random", {}),
        ("EpsilonGreedy", {"epsilon": 0.4}),
        ("LinearEpsilonGreedy", {"epsilon": 0.4}),
        ("HybridEpsilon", {"epsilon": 0.4}),
        ("LinTS", {"spread": 1.0}),
    ],
)
def test_the_noted_probability_is_the_true_one(name: str, arguments: Any) -> None:
    """Where p is the probability of the action taken, 1/p on the steps that take an action averages to 1."""
    bandit = make(getattr(releaf, name), 3, 2, **arguments)
    contexts = np.random.default_rng(2).random((40, 2))
    rewards = np.clip(contexts[:, :1] * [0.4, 0.6, 0.5] + 0.2, 0, 1)
    releaf.replay(bandit, contexts, rewards)
    weights = np.zeros((6_000, 3))
    for row in weights:
        choice = bandit.decide([0.3, 0.6])
        assert choice.probability is not None
        row[choice.index] = 1 / choice.probability
    assert weights.mean(axis=0) == pytest.approx(1.0, abs=0.12)


def test_random_takes_all_actions_alike_and_asks_for_nothing() -> None:
    bandit = releaf.Random(5, 1, seed=0)
    choices = [bandit.decide([0.5]) for _ in range(5_000)]
    assert np.bincount([choice.index for choice in choices]) == pytest.approx(1_000, abs=120)
    assert not any(choice.wants_reward for choice in choices)
    assert bandit.pending == 0


@pytest.mark.parametrize(
    ("policy", "arguments", "text"),
    [
        (releaf.UCB1, {"confidence": -1}, "confidence must be a number of at least 0, got confidence=-1"),
        (releaf.EpsilonGreedy, {"exploration": -0.5}, "exploration must be a number of at least 0"),
        (releaf.EpsilonGreedy, {"epsilon": 1.5}, "epsilon must be a number of at least 0 and at most 1"),
        (releaf.HybridEpsilon, {"similarity": 2}, "similarity must be a number of at least 0 and at most 1"),
        (releaf.HybridEpsilon, {"max_groups": 0}, "max_groups must be a whole number of at least 1"),
        (releaf.LinUCB, {"alpha": float("nan")}, "alpha must be a number of at least 0, got alpha=nan"),
        (releaf.LinUCB, {"ridge": 0}, "ridge must be a positive number, got ridge=0"),
        (releaf.LinTS, {"spread": 0.0}, "spread must be a positive number, got spread=0.0"),
        (releaf.ContextualZooming, {"lipschitz": -1}, "lipschitz must be a positive number, got lipschitz=-1"),
        (
            releaf.ContextualZooming,
            {"horizon": 1},
            "horizon must be a whole number of at least 2 and at most",
        ),
        (releaf.CMABRL, {"gamma_rel": 2}, "gamma_rel=2 is too large for 3 features: expected 2·gamma_rel ≤ features"),
        (releaf.CMABRL, {"intervals": 5_000}, "3 features in 5000 intervals make 75,000,000 cells for each of 2"),
    ],
)
def test_bad_parameters_are_refused(policy: Any, arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match="^" + text.replace(".", r"\.")):
        policy(2, 3, **arguments)


def test_an_intercept_is_true_or_false() -> None:
    with pytest.raises(TypeError, match=r"^intercept must be True or False, got intercept=1$"):
        releaf.LinUCB(2, 3, intercept=1)  # type: ignore[arg-type]
