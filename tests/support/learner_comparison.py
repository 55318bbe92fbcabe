"""A synthetic stream, and comparison of learners by their decisions and full state."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from releaf.core.runtime import state_file

Array = np.ndarray[Any, np.dtype[np.float64]]


def stream(steps: int, features: int = 3, actions: int = 2, seed: int = 0) -> tuple[Array, Array]:
    """Contexts, and rewards of which the first feature tells the better of the first two actions."""
    generator = np.random.default_rng(seed)
    contexts = generator.random((steps, features))
    rewards = generator.random((steps, actions)) * 0.5
    rewards[:, 0] += contexts[:, 0] * 0.5
    rewards[:, 1:] += (1 - contexts[:, :1]) * 0.5
    return contexts, rewards


def plain(choice: Any) -> tuple[Any, ...]:
    """A decision without its context and the name of its learner."""
    known = (choice.id, choice.action, choice.explored, choice.wants_reward, choice.probability)
    return (*known, choice.estimates, choice.relevant)


def run_steps(bandit: Any, contexts: Any, rewards: Any) -> list[tuple[Any, ...]]:
    """Decide and learn step by step; the decisions as plain data."""
    decisions = []
    for context, reward in zip(contexts, rewards, strict=True):
        choice = bandit.decide(context)
        if choice.wants_reward:
            bandit.learn(
                choice, reward if bandit.observation_mode in ("all-actions", "labels") else reward[choice.index]
            )
        decisions.append(plain(choice))
    return decisions


def full_state(bandit: Any) -> dict[str, Any]:
    """All that a learner knows: its settings, every array of its state, the decisions that wait."""
    with TemporaryDirectory() as folder:
        bandit.save(Path(folder) / "learner")
        header, arrays = state_file.read(Path(folder) / "learner")
    known = {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}
    return header | known | {"token": None, "pending": bandit.pending}
