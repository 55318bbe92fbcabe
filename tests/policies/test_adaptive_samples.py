"""Samples of AdaptiveReleaf that are full: thinned, and still of the rewards that count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import releaf
from releaf.core.adaptive import engine
from releaf.core.adaptive.sample import KEYS
from releaf.core.adaptive.state import FITTED, FORGET_TO, LEARNT, RATE, ROWS

MOST = 128  # rows


@pytest.fixture(autouse=True)
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SAMPLE_BYTES", 0)
    monkeypatch.setattr(engine, "LEAST_MOST_ROWS", MOST)


def learn(bandit: Any, contexts: Any, rewards: Any) -> None:
    bandit.learn_log(contexts, np.zeros(len(contexts), dtype=int), rewards)


@pytest.mark.parametrize("window", [50, 100, 500])
def test_a_window_that_is_longer_than_the_sample_is_kept_all_the_same(window: int) -> None:
    draw = np.random.default_rng(0)
    bandit = releaf.AdaptiveReleaf(1, 2, seed=0, forget=window)
    learn(bandit, draw.random((3_000, 2)), np.ones(3_000))
    assert bandit.estimate([[0.5, 0.5]])[0, 0] > 0.99
    learn(bandit, draw.random((2 * window, 2)), np.zeros(2 * window))
    assert bandit.estimate([[0.5, 0.5]])[0, 0] < 0.01
    sample = bandit._engine.samples[0]
    assert sample.counts[ROWS] <= 1.5 * MOST
    assert (sample.counts[RATE] > 0) == (window > 2 * MOST)


def test_a_drift_forgets_the_rows_from_before_it_of_a_thinned_sample() -> None:
    """Where rewards of 0.9 become ones of 0.5, the drift is noticed late, after another fit."""
    draw = np.random.default_rng(1)
    bandit = releaf.AdaptiveReleaf(1, 2, seed=0, forget="auto")
    learn(bandit, draw.random((2_000, 2)), (draw.random(2_000) < 0.95).astype(float))
    sample = bandit._engine.samples[0]
    assert sample.counts[RATE] > 0
    while sample.counts[FORGET_TO] == 0:
        learn(bandit, draw.random((1, 2)), (draw.random(1) < 0.4).astype(float))
        sample = bandit._engine.samples[0]
        assert sample.counts[LEARNT] < 2_200
    counts = sample.counts
    assert counts[FITTED] == counts[ROWS] <= counts[LEARNT] - counts[FORGET_TO]
    assert (sample.numbers[: counts[ROWS]] >= counts[FORGET_TO]).all()
    assert counts[FORGET_TO] > 1_900


def test_a_thinned_sample_is_bounded_random_and_stands_for_all_rewards() -> None:
    """Its rows are those with the smallest keys, its rate rises, and estimates stay those of all rewards."""
    draw = np.random.default_rng(2)
    contexts = draw.random((6_000, 3))
    rewards = (draw.random(6_000) < np.where(contexts[:, 0] > 0.5, 0.8, 0.3)).astype(float)
    bandit = releaf.AdaptiveReleaf(1, 3, seed=0)
    rates = []
    for part in np.split(np.arange(6_000), 12):
        learn(bandit, contexts[part], rewards[part])
        sample = bandit._engine.samples[0]
        rows, rate, fitted = (int(sample.counts[field]) for field in (ROWS, RATE, FITTED))
        assert fitted <= MOST
        assert rows <= 1.5 * MOST
        assert (sample.keys[:fitted] < KEYS >> rate).all()
        assert 0.5 < (fitted << rate) / sample.counts[LEARNT] < 1.6
        rates.append(rate)
    assert rates == sorted(rates)
    assert rates[0] < rates[-1]
    assert bandit.observations == 6_000


def test_estimates_of_a_thinned_sample_are_as_certain_as_its_rows_allow() -> None:
    """Counted as all the rewards that they stand for, its rows would be fitted with their noise."""
    errors, covered = [], []
    for seed in range(4):
        draw = np.random.default_rng(seed)
        contexts, tried = draw.random((8_000, 4)), draw.random((300, 4))
        means, expected = (np.where(rows[:, 0] > 0.5, 0.8, 0.3) for rows in (contexts, tried))
        bandit = releaf.AdaptiveReleaf(1, 4, seed=seed)
        learn(bandit, contexts, (draw.random(8_000) < means).astype(float))
        for context, mean in zip(tried, expected, strict=True):
            bandit.preview(context)
            errors.append(abs(bandit._state.estimates[0] - mean))
            covered.append(errors[-1] < 2.0 * bandit._state.doubts[0])
    assert np.mean(errors) < 0.12
    assert np.mean(covered) > 0.8
