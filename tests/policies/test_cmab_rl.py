"""CMAB-RL against its plain twin, and the relevance that it finds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_baselines import RelevanceLearner

import releaf


@pytest.mark.parametrize(
    ("horizon", "actions", "gamma", "intervals"),
    [(100_000, 10, 1, 10), (20_000, 2, 1, 10), (50_000, 2, 2, 6), (1, 5, 1, 1)],
)
def test_the_number_of_intervals_balances_the_bound(horizon: int, actions: int, gamma: int, intervals: int) -> None:
    """m = ⌈(T/A)^(1/(2+2d̄))⌉: 10,000 ** (1/4) = 10, and 25,000 ** (1/6) = 5.4."""
    assert releaf.CMABRL(actions, 4, horizon=horizon, gamma_rel=gamma).intervals == intervals


@settings(max_examples=40, deadline=None)
@given(
    gamma=st.integers(1, 2),
    more=st.integers(0, 2),
    actions=st.integers(1, 3),
    intervals=st.integers(1, 4),
    confidence=st.sampled_from([0.0, 0.01, 0.1, 1.0]),
    lipschitz=st.sampled_from([0.0503771, 1.0071193]),  # so that no difference of means is just at the tolerance
    seed=st.integers(0, 2**16),
)
def test_it_does_what_its_definition_says(
    gamma: int, more: int, actions: int, intervals: int, confidence: float, lipschitz: float, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    features, horizon = 2 * gamma + more, 1_000
    given = {"gamma_rel": gamma, "confidence": confidence, "lipschitz": lipschitz, "intervals": intervals}
    bandit = releaf.CMABRL(actions, features, seed=seed, horizon=horizon, **given)  # type: ignore[arg-type]
    terms = 2 * actions * horizon**1.5 * math.comb(features - 1, 2 * gamma - 1) * intervals ** (2 * gamma)
    radius = confidence**2 * (2 + 4 * math.log(terms))
    plain = RelevanceLearner(actions, features, gamma, intervals, radius, lipschitz)
    for step in range(120):
        context = generator.random(features).round(2)
        eligible = sorted({*np.flatnonzero(generator.random(actions) < 0.6).tolist(), step % actions})
        choice = bandit.decide(context, eligible=eligible)
        allowed, estimates, relevant = plain.expect(context, eligible)
        if allowed is not None:
            assert choice.index in allowed
            assert choice.probability == 1.0
        if not choice.explored:
            assert choice.relevant == tuple(relevant)
            known = [a for a in range(actions) if relevant[a] is not None]
            assert choice.estimates is not None
            assert [choice.estimates[a] for a in known] == pytest.approx([estimates[a] for a in known])
        reward = float(generator.random() < 0.3 + 0.5 * context[choice.index % features])
        bandit.learn(choice, reward)
        plain.learn(context, choice.index, reward)


def test_it_finds_the_relevant_feature_of_each_action() -> None:
    generator = np.random.default_rng(0)
    contexts = generator.random((20_000, 5))
    rewards = (generator.random((20_000, 2)) < contexts[:, [1, 3]]).astype(float)
    bandit = releaf.CMABRL(2, 5, seed=0, horizon=20_000)
    trace = releaf.replay(bandit, contexts, rewards)
    shares = bandit.relevance()
    assert shares.shape == (2, 5)
    assert shares.argmax(axis=1).tolist() == [1, 3]
    assert shares.max(axis=1).min() > 0.4
    gained = contexts[np.arange(20_000), np.where(trace.actions == 0, 1, 3)][-5_000:].mean()
    assert gained > 0.63  # the better of two uniform numbers has mean 2/3, any of them 1/2


def test_values_on_borders_belong_to_the_interval_below() -> None:
    bandit = releaf.CMABRL(1, 2, intervals=4)
    for value, interval in [(0.0, 0), (0.25, 0), (0.2501, 1), (0.5, 1), (1.0, 3)]:
        bandit.decide([value, 0.0])
        assert int(bandit._state.rows[0]) == interval
