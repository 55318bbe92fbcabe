"""`LinearPolicy`: base class of policies with a ridge regression per action."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.core.baselines.ridge import Ridge, new_ridge
from releaf.policies.argument_checks import scale
from releaf.policies.compiled import CompiledPolicy
from releaf.policy import Actions
from releaf.schema import Features

LEAST_RIDGE = 1e-8


class LinearPolicy(CompiledPolicy):
    """Ridge regression for each action; a subclass defines the rule of choice."""

    _changed_by_choice = ("clock", "taken", "spending")

    def __init__(
        self,
        actions: Actions,
        features: Features,
        seed: int | None,
        ridge: float,
        intercept: bool,
        max_pending: int,
        reward_range: tuple[float, float],
    ) -> None:
        super().__init__(actions, features, "always", seed, max_pending, reward_range)
        self.ridge = scale("ridge", ridge)
        if self.ridge < LEAST_RIDGE:
            raise ValueError(f"ridge must be at least {LEAST_RIDGE:g} for accurate updates, got ridge={ridge!r}")
        if not isinstance(intercept, bool):
            raise TypeError(f"intercept must be True or False, got intercept={intercept!r}")
        self.intercept = intercept

    @property
    @abstractmethod
    def _rule(self) -> tuple[float, float]:
        """Kernel parameters of the rule of choice."""

    def _build(self, actions: int) -> Ridge:
        categories = [feature.categories for feature in self.schema.features]
        return new_ridge(
            self.seed,
            self.schema.lowest(),
            categories,
            actions,
            penalty=self.ridge,
            intercept=self.intercept,
            params=self._rule,
        )

    def _check_state(self, state: Any) -> None:
        if (state.taken < 0).any() or not np.array_equal(state.inverse, state.inverse.transpose(0, 2, 1)):
            raise ValueError("its regressions contradict the rest")

    def _estimate(self, units: Array) -> Array:
        """Estimate by the regressions, which have a mean also in contexts where the policy would explore."""
        expected = np.empty((len(units), len(self._action_names)))
        for row, unit in enumerate(units):
            changed = self._changed_by_decision()
            try:
                self._choose(unit)
                expected[row] = self._state.estimates
            finally:
                self._undo_decision(changed)
        return expected

    def weights(self) -> Array:
        """Weight of each column for each action (A × columns).

        Columns are the intercept, where there is one, then the features in their order: one for a number, and an
        indicator of missing values if allowed; one for each category. They are of rewards scaled to [0, 1].
        """
        with self._lock:
            weights: Array = self._state.theta.copy()
            return weights
