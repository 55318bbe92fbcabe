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
    assert min(shares.values()) > 0.8, shares
    assert 0.92 < np.mean(list(shares.values())) < 0.995, shares


def test_intervals_narrow_as_rewards_come_in() -> None:
    from benchmarks.coverage import STREAMS, covered

    few, many = (covered(STREAMS["waves"], "log", 0, steps=steps)[1].mean() for steps in (500, 8_000))
    assert many < 0.7 * few
