"""How often a policy explores that does so at random."""

from __future__ import annotations

from typing import Any

from releaf.policies.argument_checks import positive
from releaf.policies.compiled import CompiledPolicy


class RandomExploration(CompiledPolicy):
    """Explores at random with a probability ε that falls as 1/t, or stays as it is given."""

    exploration: float
    epsilon: float | None

    def _set_exploration(self, exploration: Any, epsilon: Any) -> None:
        self.exploration = positive("exploration", exploration, zero=True)
        self.epsilon = None if epsilon is None else positive("epsilon", epsilon, zero=True, most=1.0)

    @property
    def _rates(self) -> tuple[float, float]:
        """What the kernels take for them: the constant, and the fixed rate, negative when there is none."""
        return self.exploration, -1.0 if self.epsilon is None else self.epsilon
