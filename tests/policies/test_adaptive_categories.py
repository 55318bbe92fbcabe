"""AdaptiveReleaf with categories: few, which have a column each, and many, which have an effect each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import releaf
from releaf.core.adaptive.levels import MOST_TABLED


def rows_of(*columns: Any) -> list[list[Any]]:
    return [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def world(categories: int, steps: int, seed: int) -> tuple[Any, Any, Any]:
    """A category that decides which of three actions is the right one, and a number that tells nothing."""
    draw = np.random.default_rng(seed)
    means = np.where(np.arange(3) == draw.integers(0, 3, (categories, 1)), 0.7, 0.3)
    drawn = draw.integers(0, categories, steps)
    rewards = (draw.random((steps, 3)) < means[drawn]).astype(float)
    return drawn, draw.random(steps), (means[drawn], rewards)


@pytest.mark.parametrize("categories", [5, MOST_TABLED, MOST_TABLED + 1, 60])
def test_a_category_that_decides_the_reward_is_relevant(categories: int) -> None:
    drawn, number, (_, rewards) = world(categories, 4_000, seed=1)
    schema = releaf.Schema(
        number=releaf.Continuous(), kind=releaf.Categorical(*range(categories)), idle=releaf.Categorical(*range(30))
    )
    idle = np.random.default_rng(7).integers(0, 30, 4_000)
    bandit = releaf.AdaptiveReleaf(3, schema, seed=0, least_probability=0.2)
    bandit.replay(rows_of(number, drawn, idle), rewards)
    assert (bandit.relevance()[:, 1] > 0.9).all()
    for named in bandit.relevant_features().values():
        assert [feature.feature for feature in named] == ["kind"]
        assert named[0].certainty > 0.999


def test_a_category_without_effect_is_not_named() -> None:
    schema, named = releaf.Schema(kind=releaf.Categorical(*range(40)), number=releaf.Continuous()), 0
    for seed in range(20):
        draw = np.random.default_rng(seed)
        bandit = releaf.AdaptiveReleaf(2, schema, seed=seed)
        contexts = rows_of(draw.integers(0, 40, 1_000), draw.random(1_000))
        bandit.replay(contexts, (draw.random((1_000, 2)) < 0.5).astype(float))
        named += sum(len(features) for features in bandit.relevant_features().values())
    assert named <= 4  # of 80


def test_the_variance_that_effects_explain_is_that_of_the_means() -> None:
    """Of 25 categories with known means, a quarter of which never occurs."""
    draw = np.random.default_rng(3)
    means = np.linspace(0.1, 0.9, 25)
    drawn = draw.integers(0, 19, 20_000)
    bandit = releaf.AdaptiveReleaf(1, releaf.Schema(kind=releaf.Categorical(*range(25))), seed=0)
    rewards = (draw.random(20_000) < means[drawn]).astype(float)
    bandit.learn_log(rows_of(drawn), np.zeros(20_000, dtype=int), rewards)
    assert bandit._engine.relevance()[0][0, 0] == pytest.approx(means[:19].var(), rel=0.1)
