"""Streams with a known structure, and learners that have replayed one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import releaf

Array = np.ndarray[Any, np.dtype[Any]]
_CHUNK = 20_000


def stream(steps: int, features: int, actions: int, seed: int) -> tuple[Array, Array]:
    """Uniform contexts, and rewards of all actions: each follows one feature, up or down, with noise."""
    rng = np.random.default_rng(seed)
    contexts = rng.random((steps, features))
    rewards = np.empty((steps, actions))
    for action in range(actions):
        feature = contexts[:, action % features]
        rewards[:, action] = 0.2 + 0.6 * (feature if action % 2 == 0 else 1.0 - feature)
    rewards += rng.normal(0.0, 0.1, rewards.shape)
    return contexts, np.clip(rewards, 0.0, 1.0)


def experienced(steps: int, features: int, actions: int, **settings: Any) -> releaf.Releaf:
    """A learner with default settings, these apart, that has replayed so many steps."""
    bandit = releaf.Releaf(actions, features, seed=0, **settings)
    for begin in range(0, steps, _CHUNK):
        bandit._engine.replay(*stream(min(_CHUNK, steps - begin), features, actions, seed=begin))
    return bandit


def twin(bandit: releaf.Releaf) -> releaf.Releaf:
    """Another learner that knows the same."""
    observe: Any = bandit.observation_mode
    other = releaf.Releaf(len(bandit.actions), len(bandit.schema), seed=0, observe=observe)
    other._engine.load(bandit._engine.learnt_arrays())
    return other


def rewinder(bandit: releaf.Releaf) -> Callable[[], None]:
    """Sets the clock and the arrivals back to where they are now.

    A stream can then be replayed again and again without any interval ever splitting, on warm caches.
    """
    state = bandit._engine.state
    saved = [(array, array.copy()) for array in (state.clock, state.arrivals)]

    def rewind() -> None:
        for array, values in saved:
            array[:] = values

    return rewind
