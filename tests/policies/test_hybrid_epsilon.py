"""Hybrid-ε: groups computed by hand, and against its plain twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_baselines import Hybrid

import releaf


def test_groups_worked_out_by_hand() -> None:
    """Similarity 0.9 of two features: founder and context may be 0.2 apart, both features together."""
    bandit = releaf.HybridEpsilon(2, 2, seed=0, similarity=0.9, max_groups=3)
    for context, groups in [
        ([0.5, 0.5], 1),
        ([0.6, 0.6], 1),  # 0.2 apart
        ([0.7, 0.51], 2),  # 0.21 apart
        ([0.6, 0.5], 2),  # 0.1 from the first, 0.11 from the second
        ([0.0, 0.0], 3),
        ([1.0, 1.0], 3),  # there may be no more: it joins the second
    ]:
        bandit.decide(context)
        assert bandit.groups == groups
    assert bandit._state.arrivals[:3].tolist() == [3, 2, 1]


@settings(max_examples=40, deadline=None)
@given(
    features=st.integers(1, 5),
    actions=st.integers(1, 4),
    constant=st.sampled_from([0.2, 1.0, 4.0]),
    similarity=st.sampled_from([0.0, 0.6, 0.85, 1.0]),
    most=st.sampled_from([1, 7, 1_000]),
    seed=st.integers(0, 2**16),
)
def test_it_does_what_its_definition_says(
    features: int, actions: int, constant: float, similarity: float, most: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    settings = {"exploration": constant, "similarity": similarity, "max_groups": most}
    bandit = releaf.HybridEpsilon(actions, features, seed=seed, **settings)  # type: ignore[arg-type]
    plain = Hybrid(actions, [0] * features, constant, similarity, most)
    for step in range(200):
        context = generator.random(features)
        eligible = sorted({*np.flatnonzero(generator.random(actions) < 0.6).tolist(), step % actions})
        choice = bandit.decide(context, eligible=eligible)
        estimates, rate = plain.expect(context)
        best = choice.index == max(eligible, key=lambda action: (estimates[action], -action))
        assert choice.probability == pytest.approx(rate / len(eligible) + (1 - rate) * best)
        if not choice.explored:
            assert best
            assert choice.estimates == pytest.approx(estimates)
        reward = float(generator.random())
        bandit.learn(choice, reward)
        plain.learn(context, choice.index, reward)
    assert bandit.groups == len(plain.groups)


def test_it_learns_what_depends_on_the_group() -> None:
    generator = np.random.default_rng(0)
    contexts = generator.random((6_000, 2))
    corner = (contexts[:, 0] > 0.5) ^ (contexts[:, 1] > 0.5)
    rewards = np.column_stack([corner, ~corner]).astype(float)
    bandit = releaf.HybridEpsilon(2, 2, seed=0, similarity=0.95)
    assert releaf.replay(bandit, contexts, rewards).rewards[-2_000:].mean() > 0.85
