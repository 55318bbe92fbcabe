"""LinUCB, LinTS and linear ε-greedy against ridge regression solved at every step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_baselines import Ridge

import releaf
from releaf.core.baselines.ridge import probability_of_highest


@settings(max_examples=25, deadline=None)
@given(
    features=st.integers(1, 8),
    actions=st.integers(1, 4),
    alpha=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    ridge=st.sampled_from([0.01, 1.0, 30.0]),
    intercept=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_linucb_is_explicit_ridge_regression_at_every_step(
    features: int, actions: int, alpha: float, ridge: float, intercept: bool, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    bandit = releaf.LinUCB(actions, features, alpha=alpha, ridge=ridge, intercept=intercept)
    plain = Ridge(actions, ridge, intercept)
    for step in range(60):
        context = generator.random(features).round(1)
        estimates, spreads = plain.estimates_and_spreads(context)
        bounds = [e + alpha * s for e, s in zip(estimates, spreads, strict=True)]
        eligible = sorted({*np.flatnonzero(generator.random(actions) < 0.6).tolist(), step % actions})
        choice = bandit.decide(context, eligible=eligible)
        assert choice.index in eligible
        assert bounds[choice.index] >= max(bounds[action] for action in eligible) - 1e-9
        assert bandit._state.estimates == pytest.approx(estimates, abs=1e-9)
        assert bandit._state.spreads == pytest.approx(spreads, abs=1e-9)
        if choice.explored:
            assert estimates[choice.index] < max(estimates[action] for action in eligible) + 1e-9
        else:
            assert choice.estimates == pytest.approx(estimates, abs=1e-9)
        reward = float(generator.random())
        bandit.learn(choice, reward)
        plain.learn(context, choice.index, reward)


@pytest.mark.parametrize("steps", [30_000, pytest.param(2_000_000, marks=pytest.mark.soak)])
def test_the_inverse_stays_accurate_and_symmetric_over_a_long_life(steps: int) -> None:
    generator = np.random.default_rng(0)
    bandit = releaf.LinUCB(2, 15)
    gram, target = np.repeat(np.eye(16)[None], 2, axis=0), np.zeros((2, 16))
    for begin in range(0, steps, 10_000):
        contexts = generator.random((min(10_000, steps - begin), 15)) ** 3
        rewards = np.clip(contexts[:, :2] + generator.normal(0, 0.1, (len(contexts), 2)), 0, 1)
        taken = releaf.replay(bandit, contexts, rewards).actions
        rows = np.column_stack([np.ones(len(contexts)), contexts])
        for action in range(2):
            gram[action] += rows[taken == action].T @ rows[taken == action]
            target[action] += rows[taken == action].T @ rewards[taken == action, action]
    inverse = bandit._state.inverse
    assert np.array_equal(inverse, inverse.transpose(0, 2, 1))
    for action in range(2):
        assert inverse[action] @ gram[action] == pytest.approx(np.eye(16), abs=1e-7)
        assert bandit.weights()[action] == pytest.approx(np.linalg.solve(gram[action], target[action]), abs=1e-9)


def test_categories_are_columns_of_their_own_and_missing_numbers_have_one_more() -> None:
    schema = releaf.Schema(
        age=releaf.Continuous(0, 10, missing=True), plan=releaf.Categorical("a", "b", "c"), size=releaf.Continuous()
    )
    bandit = releaf.LinUCB(1, schema, ridge=1e-6)
    generator = np.random.default_rng(0)
    effect = {"a": 0.1, "b": 0.2, "c": 0.3}
    for _ in range(3_000):
        age = None if generator.random() < 0.3 else float(generator.random() * 10)
        plan, size = str(generator.choice(["a", "b", "c"])), float(generator.random())
        reward = effect[plan] + 0.2 * size + (0.15 if age is None else 0.03 * age)
        bandit.learn(bandit.decide([age, plan, size]), reward)
    assert bandit.weights().shape == (1, 1 + 2 + 3 + 1)
    assert bandit.decide([None, "b", 0.5]).estimates == pytest.approx((0.2 + 0.1 + 0.15,), abs=1e-4)
    assert bandit.decide([10, "c", 1.0]).estimates == pytest.approx((0.3 + 0.2 + 0.3,), abs=1e-4)


def test_the_greedy_one_estimates_as_linucb_does() -> None:
    generator = np.random.default_rng(3)
    greedy = releaf.LinearEpsilonGreedy(3, 4, seed=0, ridge=0.5)
    plain = Ridge(3, 0.5, intercept=True)
    for _ in range(150):
        context, reward = generator.random(4), float(generator.random())
        estimates, _ = plain.estimates_and_spreads(context)
        choice = greedy.decide(context)
        if not choice.explored:
            assert choice.estimates == pytest.approx(estimates, abs=1e-9)
            assert estimates[choice.index] >= max(estimates) - 1e-9
        greedy.learn(choice, reward)
        plain.learn(context, choice.index, reward)


# --- Thompson sampling ----------------------------------------------------------------------------------------


def taught(actions: int, **arguments: Any) -> releaf.LinTS:
    generator = np.random.default_rng(5)
    bandit = releaf.LinTS(actions, 2, seed=1, **arguments)
    contexts = generator.random((30, 2))
    releaf.replay(bandit, contexts, generator.random((30, actions)))
    return bandit


def test_lints_takes_actions_as_often_as_drawn_weights_would() -> None:
    """The weights drawn in full, from N(θ, v² A⁻¹), against the decisions, which only draw what matters of them."""
    bandit = taught(3, spread=0.7)
    context = np.array([0.4, 0.9])
    state, row = bandit._state, np.array([1.0, 0.4, 0.9])
    generator = np.random.default_rng(0)
    scores = [
        generator.multivariate_normal(state.theta[action], 0.7**2 * state.inverse[action], 40_000) @ row
        for action in range(3)
    ]
    expected = np.bincount(np.argmax(scores, axis=0), minlength=3) / 40_000
    choices = [bandit.decide(context) for _ in range(8_000)]
    taken = np.bincount([choice.index for choice in choices], minlength=3) / 8_000
    assert taken == pytest.approx(expected, abs=0.02)
    for choice in choices[:50]:
        assert choice.probability == pytest.approx(expected[choice.index], abs=0.01)


def test_the_chance_of_two_actions_is_the_closed_form() -> None:
    bandit = taught(2)
    choice = bandit.decide([0.2, 0.7])
    means, spreads = bandit._state.estimates, bandit._state.spreads
    gap = (means[choice.index] - means[1 - choice.index]) / math.hypot(*spreads)
    assert choice.probability == pytest.approx(0.5 * (1 + math.erf(gap / math.sqrt(2))))
    assert choice.probability == pytest.approx(probability_of_highest(means, spreads, choice.index), abs=1e-9)


@pytest.mark.parametrize("spreads", [[1.0, 1.0, 1.0], [0.5, 0.01, 0.02], [0.01, 0.5, 0.3], [1e-4, 1e-3, 0.5]])
def test_the_chances_of_all_actions_add_up_to_one(spreads: list[float]) -> None:
    means = np.array([0.3, 0.5, 0.45])
    chances = [probability_of_highest(means, np.array(spreads), action) for action in range(3)]
    assert sum(chances) == pytest.approx(1.0, abs=2e-3)
    drawn = np.random.default_rng(0).normal(means, spreads, (200_000, 3)).argmax(axis=1)
    assert chances == pytest.approx(np.bincount(drawn, minlength=3) / 200_000, abs=4e-3)


def test_without_an_intercept_a_context_of_zeros_says_nothing() -> None:
    choice = releaf.LinTS(3, 2, seed=0, intercept=False).decide([0.0, 0.0])
    assert (choice.index, choice.probability) == (0, 1.0)


@pytest.mark.parametrize("policy", [releaf.LinUCB, releaf.LinTS, releaf.LinearEpsilonGreedy])
def test_estimates_are_the_means_of_the_regressions_also_where_the_policy_would_explore(policy: type[Any]) -> None:
    draw = np.random.default_rng(0)
    contexts, bandit = draw.random((300, 3)), policy(3, 3, seed=0)
    for context in contexts[:40]:
        bandit.learn(bandit.decide(context), draw.random())
    expected = np.column_stack([np.ones(300), contexts]) @ bandit.weights().T
    assert (bandit.preview_actions(contexts) != expected.argmax(axis=1)).any()
    np.testing.assert_allclose(bandit.estimate(contexts), expected, rtol=1e-12, atol=1e-14)
