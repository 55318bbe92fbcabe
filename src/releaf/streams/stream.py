"""Recorded streams: contexts with the rewards of all actions, or of the one action that was taken at the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from releaf.decision import ActionName

Matrix = np.ndarray[Any, np.dtype[np.float64]]
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Stream:
    """T steps of D features and A actions, with the reward that every action would have earned.

    Attributes
    ----------
    contexts
        T × D: values in [0, 1], or what the schema describes.
    rewards
        T × A, the reward of every action.
    features
        Their names, or a :class:`releaf.Schema`.
    actions
        Their labels.
    expected
        T × A, what each reward is on average, where that is known; regret is measured against the best of them.
    skipped, problems
        How many broken rows were left out; and their lines or rows, with what was wrong there.
    """

    contexts: Any
    rewards: Matrix
    features: Any
    actions: tuple[ActionName, ...]
    expected: Matrix | None = None
    skipped: int = 0
    problems: tuple[tuple[int, str], ...] = ()

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        return f"Stream({len(self):,} steps, {len(self.actions)} actions)"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Log:
    """T decisions that some other policy made, with the reward of the action it took.

    Attributes
    ----------
    contexts
        T × D: values in [0, 1], or what the schema describes.
    taken
        The position of the action taken at each step.
    rewards
        Its reward.
    probabilities
        With what probability it was taken, where that is known.
    features
        Their names, or a :class:`releaf.Schema`.
    actions
        The labels of the actions.
    skipped, problems
        How many broken rows were left out; and their lines or rows, with what was wrong there.
    """

    contexts: Any
    taken: Array
    rewards: Array
    probabilities: Array | None
    features: Any
    actions: tuple[ActionName, ...]
    skipped: int = 0
    problems: tuple[tuple[int, str], ...] = ()

    def __len__(self) -> int:
        return len(self.taken)

    def __repr__(self) -> str:
        known = "" if self.probabilities is None else ", with probabilities"
        return f"Log({len(self):,} decisions, {len(self.actions)} actions{known})"
