"""A recorded stream: contexts, and the reward that every action would have earned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Matrix = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """T steps of D features and A actions.

    Attributes
    ----------
    contexts
        T × D, each value in [0, 1].
    rewards
        T × A, the reward of every action.
    features, actions
        Their names.
    """

    contexts: Matrix
    rewards: Matrix
    features: tuple[str, ...]
    actions: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.contexts)
