"""Exploration rate of ε-greedy policies."""

from __future__ import annotations

from typing import Any

from releaf.core.runtime.primitives import SINCE, TIME
from releaf.policies.argument_checks import positive
from releaf.policies.compiled import CompiledPolicy


class RandomExploration(CompiledPolicy):
    """Base class of ε-greedy policies, with ε falling as 1/t or constant."""

    exploration: float
    epsilon: float | None

    def _set_exploration(self, exploration: Any, epsilon: Any) -> None:
        self.exploration = positive("exploration", exploration, zero=True)
        self.epsilon = None if epsilon is None else positive("epsilon", epsilon, zero=True, most=1.0)

    @property
    def _rates(self) -> tuple[float, float]:
        """Kernel parameters: the constant, and the fixed rate, negative if there is none."""
        return self.exploration, -1.0 if self.epsilon is None else self.epsilon

    def _next_rate(self) -> float:
        """Exploration rate of the next decision."""
        steps = int(self._state.clock[TIME] + 1 - self._state.clock[SINCE])
        return (
            self.epsilon if self.epsilon is not None else min(1.0, self.exploration * len(self.actions) / max(steps, 1))
        )
