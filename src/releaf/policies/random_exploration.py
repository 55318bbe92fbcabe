"""Exploration rate of ε-greedy policies."""

from __future__ import annotations

from typing import Any

import numpy as np

from releaf.core.runtime.primitives import SINCE, TIME, best_eligible
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

    def _chance_of_other(self, other: int, taken: int, chance: float) -> float | None:
        known = super()._chance_of_other(other, taken, chance)
        if known is not None:
            return known
        state = self._state
        best = int(best_eligible(getattr(state, "net", state.estimates), state.eligible))
        count = int(np.count_nonzero(state.eligible))
        if taken == best:
            return (1.0 - chance) / (count - 1)
        return 1.0 - (count - 1) * chance if other == best else chance

    def _next_rate(self) -> float:
        """Exploration rate of the next decision."""
        steps = int(self._state.clock[TIME] + 1 - self._state.clock[SINCE])
        return (
            self.epsilon if self.epsilon is not None else min(1.0, self.exploration * len(self.actions) / max(steps, 1))
        )
