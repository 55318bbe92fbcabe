"""Initial arrays of an AdaptiveReleaf, as they follow from its settings."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.levels import MOST_LEVELS, MOST_TABLED, STRETCH
from releaf.core.adaptive.state import (
    EXPERTS,
    LABELS_LENGTH,
    LATEST_KEY,
    MOST_COLUMNS,
    MOST_EFFECTS,
    NEXT,
    NONE,
    SAMPLE_COUNTS,
    SEEN,
    STARTED,
    Adaptive,
    Sample,
)
from releaf.core.adaptive.trees import TREE_COUNT
from releaf.core.runtime.primitives import new_clock
from releaf.core.runtime.random_generator import first_state
from releaf.core.runtime.spending import no_spending

FIRST_ROWS = 64  # capacity of a new sample
FIRST_FIT = 8  # rewards


class Settings:
    """What follows from a learner's features and parameters.

    Parameters
    ----------
    limits
        Lowest value of each feature: -1 where it may be missing, else 0.
    categories
        Number of categories of each feature, 0 for a number.
    params
        Fields of the state's ``params``.
    seed
        Of the random generator.
    """

    def __init__(self, limits: Array, categories: Array, params: tuple[float, ...], seed: int | None) -> None:
        self.limits = np.asarray(limits, dtype=np.float64)
        self.categories = np.asarray(categories, dtype=np.int64)
        self.params, self.seed = params, seed
        self.first_category, self.first_effect = _starts_of(self.categories), _starts_of(self.effects)

    @property
    def features(self) -> int:
        return len(self.limits)

    @cached_property
    def effects(self) -> Array:
        """Number of effects of each feature: of the categories that have no column."""
        wide: Array = np.where(self.categories > MOST_TABLED, np.minimum(self.categories, MOST_EFFECTS), 0)
        return wide

    def first_levels(self) -> tuple[Array, Array]:
        """Knots and number of levels of each feature before any context."""
        knots = np.zeros((self.features, MOST_LEVELS + STRETCH))
        knots[:, :3] = 0.0, 0.5, 1.0
        knots[:, MOST_LEVELS:] = 0.5, np.sqrt(12.0)  # of the uniform distribution
        levels = np.where(self.categories > MOST_TABLED, 0, np.where(self.categories > 0, self.categories, 3))
        return knots, levels


def _starts_of(sizes: Array) -> Array:
    """Where each of consecutive blocks starts."""
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def first_key(seed: int | None) -> int:
    """Where the keys of a sample start: learners of different seeds have different keys, so merging confuses none."""
    return int(first_state(seed)) & (2**62 - 1)


def new_sample(settings: Settings) -> Sample:
    """Sample without rows."""
    knots, levels = settings.first_levels()
    counts = np.zeros(SAMPLE_COUNTS, dtype=np.int64)
    counts[[NEXT, STARTED, LATEST_KEY]] = FIRST_FIT, NONE, first_key(settings.seed)
    return Sample(
        counts=counts,
        contexts=np.zeros((FIRST_ROWS, settings.features)),
        rewards=np.zeros(FIRST_ROWS),
        keys=np.zeros(FIRST_ROWS),
        numbers=np.zeros(FIRST_ROWS),
        steps=np.zeros(FIRST_ROWS),
        offsets=np.full(2, 0.5),
        knots=knots,
        levels=levels,
        next_knots=knots.copy(),
        next_levels=levels.copy(),
        watch=np.zeros(4),
    )


def new_state(settings: Settings, actions: int) -> Adaptive:
    """State without contexts; the addresses of samples and models are not set."""
    features, (knots, levels) = settings.features, settings.first_levels()
    return Adaptive(
        clock=new_clock(settings.seed),
        params=settings.params,
        floors=np.zeros(actions),
        limits=settings.limits,
        categories=settings.categories,
        first_category=settings.first_category,
        first_effect=settings.first_effect,
        seen=np.zeros((SEEN, features)),
        seen_keys=np.zeros(SEEN),
        seen_steps=np.zeros(SEEN),
        seen_counts=np.zeros(2),
        fresh_knots=knots,
        fresh_levels=levels,
        losses=np.zeros((actions, EXPERTS)),
        pooled_losses=np.zeros(EXPERTS),
        reward_sums=np.zeros(2),
        sums=np.zeros(2),
        labels=np.zeros(LABELS_LENGTH),
        label_costs=np.ones(1),
        label_row=np.zeros(1),
        samples=np.zeros(actions),
        models=np.zeros(actions),
        places=np.zeros(features),
        heights=np.zeros(features),
        ranked=np.zeros(features),
        leaves=np.zeros(TREE_COUNT),
        where=np.zeros(MOST_COLUMNS),
        value=np.zeros(MOST_COLUMNS),
        push=np.zeros(MOST_COLUMNS),
        eligible=np.ones(actions),
        predictions=np.zeros((actions, EXPERTS)),
        weights=np.zeros(EXPERTS),
        spreads=np.zeros(actions),
        bonuses=np.zeros(actions),
        doubts=np.zeros(actions),
        estimates=np.zeros(actions),
        chances=np.zeros(actions),
        chance=np.ones(1),
        **no_spending(actions),
    )
