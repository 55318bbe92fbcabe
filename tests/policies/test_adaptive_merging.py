"""Merging of AdaptiveReleaf learners: what each reward counts for, and what stays as it was."""

from __future__ import annotations

import numpy as np

import releaf


def test_rewards_of_learners_with_few_different_contexts_all_count() -> None:
    """Equal rewards of equal contexts are no sign of a common past."""
    parts = []
    for seed in range(2):
        draw = np.random.default_rng(seed)
        parts.append(releaf.AdaptiveReleaf(2, releaf.Schema(sure=releaf.Boolean()), seed=0))
        parts[-1].replay((draw.random((1_000, 1)) < 0.5).tolist(), (draw.random((1_000, 2)) < 0.5).astype(float))
    assert parts[0].merge(parts[1]).observations >= 1_990
