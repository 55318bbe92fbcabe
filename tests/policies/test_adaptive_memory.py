"""Memory of AdaptiveReleaf: many actions and features work, and samples and trees stay below their bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import releaf
from releaf.core.adaptive import engine, fitting
from releaf.core.adaptive.state import RATE, ROWS


def bytes_of(states: Any) -> int:
    return sum(array.nbytes for state in states for _, array in state.items())


def total_bytes(bandit: Any) -> int:
    return bytes_of([bandit._engine.state, *bandit._engine.samples, *bandit._engine.models])


def test_five_hundred_actions_and_a_thousand_features() -> None:
    """0.8 MB for each action, of which two thirds are for its first 64 rewards and the quantiles of all features."""
    draw = np.random.default_rng(0)
    bandit = releaf.AdaptiveReleaf(500, 1_000, seed=0)
    assert total_bytes(bandit) < 400e6
    contexts = draw.random((300, 1_000))
    rewards = (np.arange(500) == (500 * contexts[:, :1]).astype(int)).astype(float)
    bandit.replay(contexts[:200], rewards[:200])
    bandit.learn_log(contexts[200:], np.zeros(100, dtype=int), rewards[200:, 0])
    assert bandit.observations == 300
    assert len(bandit.decide(contexts[0]).context) == 1_000
    assert total_bytes(bandit) < 400e6


@pytest.mark.parametrize(("actions", "features"), [(100, 4), (2, 500)])
def test_many_actions_or_many_features_are_learnt(actions: int, features: int) -> None:
    contexts = np.random.default_rng(0).random((4_000, features))
    best = (contexts[:, 1] * min(actions, 4)).astype(int)
    rewards = (np.arange(actions) == best[:, None]).astype(float)
    bandit = releaf.AdaptiveReleaf(actions, features, seed=0)
    trace = releaf.replay(bandit, contexts, rewards)
    assert (trace.actions != best)[3_000:].mean() < 0.1
    assert total_bytes(bandit) < 100e6


def test_samples_and_trees_stay_below_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds are of all actions together; a sample may exceed its share by half between two fits."""
    monkeypatch.setattr(engine, "SAMPLE_BYTES", 200_000)
    monkeypatch.setattr(engine, "LEAST_MOST_ROWS", 16)
    monkeypatch.setattr(fitting, "NODE_BYTES", 300_000)
    draw = np.random.default_rng(1)
    contexts, taken = draw.random((20_000, 6)), draw.integers(0, 5, 20_000)
    rewards = (draw.random(20_000) < contexts[np.arange(20_000), taken]).astype(float)
    bandit = releaf.AdaptiveReleaf(5, 6, seed=0)
    for rows in np.split(np.arange(20_000), 20):
        bandit.learn_log(contexts[rows], taken[rows], rewards[rows])
        samples, models = bandit._engine.samples, bandit._engine.models
        row_bytes = 4 * 6 + 24
        assert sum(sample.counts[0] for sample in samples) * row_bytes <= 1.5 * 200_000
        assert sum(len(sample.rewards) for sample in samples) * row_bytes <= 3.0 * 200_000  # capacity doubles
        assert sum(model.nodes.nbytes for model in models) <= 300_000
    assert min(sample.counts[RATE] for sample in samples) > 0
    assert bandit.observations == 20_000
    tried = draw.random((500, 6))
    assert np.abs(bandit.estimate(tried) - tried[:, :5]).mean() < 0.1


def test_a_fit_that_fails_leaves_room_for_later_rewards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples grow before anything can fail, and what was due stays due."""
    bandit = releaf.AdaptiveReleaf(["one"], 1, seed=0)
    draw = np.random.default_rng(0)

    def failing(*arguments: Any) -> Any:
        raise MemoryError("no memory for a fit")

    monkeypatch.setattr(engine, "fit", failing)
    failures = 0
    for value in draw.random(300):
        choice = bandit.decide([value])
        try:
            bandit.learn(choice, float(value > 0.5))
        except MemoryError:
            failures += 1
    assert failures > 0
    sample = bandit._engine.samples[0]
    assert sample.counts[ROWS] == 300 <= len(sample.rewards)
    monkeypatch.undo()
    bandit.learn_log([[0.1], [0.9]] * 50, ["one"] * 100, [0.0, 1.0] * 50)
    assert bandit.observations == 400
    np.testing.assert_allclose(bandit.estimate([[0.1], [0.9]])[:, 0], [0.0, 1.0], atol=0.1)
