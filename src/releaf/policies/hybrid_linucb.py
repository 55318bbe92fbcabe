"""HybridLinUCB: ridge regression with weights that all actions share, and weights of each action (Li et al. 2010)."""

from __future__ import annotations

from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.core.joint.hybrid_regression import HYBRID, Hybrid, estimate_hybrid, learn_hybrid, new_hybrid
from releaf.core.joint.state import JointSettings
from releaf.decision import ActionName
from releaf.policies.action_table_policy import ActionTablePolicy
from releaf.policies.argument_checks import positive, scale
from releaf.schema import Features
from releaf.traits import Traits

MOST_TERMS = 3_000
LEAST_RIDGE = 1e-8


class HybridLinUCB(ActionTablePolicy):
    """Ridge regression with weights that all actions share, and weights of each action (Li et al. 2010, Algorithm 2).

    The expected reward is zᵀβ + xᵀθₐ: x are the columns of the context, z the products of these and of the action's
    columns. Both have an intercept, numbers as straight lines, and an indicator for each category. So an action that
    nobody has tried is estimated by its features, and one with many rewards by its own weights too. It takes the action
    with the highest estimate plus ``alpha`` standard deviations; of a slate, the k highest.

    A decision takes time in proportion to the number of actions and the square of the number of terms in z, and each
    action needs memory for its columns times its terms. :class:`releaf.JointReleaf`, which finds out which terms
    matter, needs less of both.

    Parameters
    ----------
    actions, action_features, max_actions
        As for :class:`releaf.JointReleaf`.
    features, seed, reward_range, max_pending, control_share, control
        As for :class:`releaf.Releaf`. The seed matters to ties only, and to ``least_probability``.
    alpha
        Number of standard deviations that are added to an estimate (α).
    ridge
        Penalty of the squares of all weights.
    least_probability
        As for :class:`releaf.JointReleaf`. At 0 decisions are deterministic but for ties, and their probability is 1.

    Examples
    --------
    >>> import releaf
    >>> menu = {"tea": {"price": 2.0, "hot": True}, "cola": {"price": 3.0, "hot": False}}
    >>> bandit = releaf.HybridLinUCB(menu, features=["heat"], seed=0)
    >>> for step in range(100):
    ...     heat = step % 10 / 10
    ...     decision = bandit.decide([heat])
    ...     bandit.learn(decision, heat if decision.action == "cola" else 1 - heat)
    >>> [bandit.decide([heat]).action for heat in (0.1, 0.9)]
    ['tea', 'cola']
    >>> bandit.decide([0.9], actions={"tea": None, "water": {"price": 2.5, "hot": False}}).action
    'water'
    """

    traits = Traits("HybridLinUCB", "Li et al. 2010", takes_action_features=True)
    _entry_points = HYBRID
    _changed_by_choice = ("clock", "latest")
    _state: Hybrid

    def __init__(
        self,
        actions: Any,
        features: Features,
        *,
        action_features: Features | None = None,
        seed: int | None = None,
        alpha: float = 1.0,
        ridge: float = 1.0,
        least_probability: float = 0.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_actions: int = 100_000,
        max_pending: int = 100_000,
        control_share: float = 0.0,
        control: ActionName = "uniform",
    ) -> None:
        super().__init__(actions, features, action_features, 1, seed, max_actions, max_pending, reward_range)
        self.alpha = positive("alpha", alpha, zero=True)
        self.ridge = scale("ridge", ridge)
        if self.ridge < LEAST_RIDGE:
            raise ValueError(f"ridge must be at least {LEAST_RIDGE:g} for accurate updates, got ridge={ridge!r}")
        self.least_probability = positive("least_probability", least_probability, zero=True, most=0.5)
        params = (self.alpha, self.alpha, 1.0, self.least_probability)  # one level of optimism
        limits, categories = self._action_columns()
        own = [feature.categories for feature in self.schema.features]
        self._settings = JointSettings(self.seed, self.schema.lowest(), own, limits, categories, 1, None, params)
        terms = len(self._settings.terms().group)
        if terms > MOST_TERMS:
            raise ValueError(
                f"{terms:,} products of a column of the context and one of the action are more than {MOST_TERMS:,}: "
                "expected fewer features, or the policy JointReleaf with crosses=[…]"
            )
        self._set_control(control_share, control)
        self._start()

    def _build(self, actions: int) -> Hybrid:
        return new_hybrid(self._settings, self._profiles_of(self._table.values), self.ridge)

    def _set_up_new(self, state: Any, old: int) -> None:
        state.own_inverse[old:] = np.eye(state.own_inverse.shape[1]) / self.ridge

    def _change_profile(self, index: int, profile: Array) -> None:
        self._state.profiles[index] = profile  # rewards count with the columns that the action had

    def _learn_shown(self, context: Array, index: int, profile: Array, reward: float) -> None:
        learn_hybrid(self._pointer_table, context, index, profile, reward)

    def _estimate(self, units: Array) -> Array:
        return self._estimates_and_spreads(units)[0]

    def _estimates_and_spreads(self, units: Array) -> tuple[Array, Array]:
        shape = len(units), len(self.actions)
        estimates, spreads = np.empty(shape), np.empty(shape)
        estimate_hybrid(self._pointer_table, units, estimates, spreads)
        return estimates, spreads

    def _check_state(self, state: Any) -> None:
        super()._check_state(state)
        own = np.array_equal(state.own_inverse, state.own_inverse.transpose(0, 2, 1))
        if not own or not np.array_equal(state.inverse, state.inverse.T):
            raise ValueError("its regressions contradict the rest")
