"""The intervals of explanations hold the expected reward in about 95 % of contexts."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize("way", ["log", "online"])
def test_intervals_cover_on_planted_streams(way: str) -> None:
    from benchmarks.coverage import STREAMS, covered

    shares: dict[str, float] = {}
    for name in ("jumps", "waves", "interactions", "clicks", "lines", "60 categories"):
        shares[name] = float(np.mean([covered(STREAMS[name], way, seed, steps=2_500)[0] for seed in (100, 101, 102)]))
    assert min(shares.values()) > 0.75, shares  # of interactions online, which so few steps do not show
    assert 0.92 < np.mean(list(shares.values())) < 0.995, shares


def test_intervals_narrow_as_rewards_come_in() -> None:
    from benchmarks.coverage import STREAMS, covered

    few, many = (covered(STREAMS["waves"], "log", 0, steps=steps)[1].mean() for steps in (500, 8_000))
    assert many < 0.7 * few


def test_the_bounds_are_those_of_explanations() -> None:
    from benchmarks.coverage import STREAMS, _contexts, _learner, bounds

    draw, planted = np.random.default_rng(0), STREAMS["jumps"]
    bandit = _learner(planted, 0)
    contexts, chances = _contexts(planted, 800, draw)
    bandit.replay(contexts, (draw.random(chances.shape) < chances).astype(float))
    low, high = bounds(bandit, contexts[:5])
    for row, context in enumerate(contexts[:5]):
        for known in bandit.explain(context).actions:
            place = bandit.actions.index(known.action)
            assert (known.low, known.high) == pytest.approx((low[row, place], high[row, place]))


def test_a_planted_feature_leads_explanations_of_a_click_log() -> None:
    from benchmarks.leading import planted_share

    assert planted_share(seed=100, rows=30_000) >= 0.97


def test_features_of_noise_are_rarely_called_relevant() -> None:
    from benchmarks.false_relevance import learner_of_noise

    pairs = np.concatenate([learner_of_noise(seed, rows=4_000).relevance().certainties for seed in range(200, 212)])
    assert pairs.size == 12 * 4 * 8
    assert (pairs > 0.99).mean() < 0.04
    assert (pairs > 0.999).mean() < 0.012
