"""Thompson sampling with disjoint linear models (Agrawal and Goyal, 2013)."""

from __future__ import annotations

import math

import numpy as np

from releaf.core.baselines.ridge import LINTS, probability_of_highest
from releaf.decision import ActionName
from releaf.policies.argument_checks import positive
from releaf.policies.costs import Costs
from releaf.policies.linear import LinearPolicy
from releaf.policy import Actions
from releaf.schema import Features
from releaf.traits import Traits


class LinTS(LinearPolicy):
    """Draws each action's weights from the posterior of a linear model, and takes the best action.

    The weights of action a are drawn from a normal distribution with mean θ_a and covariance v² A_a⁻¹; see
    :class:`releaf.LinUCB` for both. The probability of a decision is computed, so its log supports off-policy
    evaluation. A decision counts as an exploration when its action's estimate θ_aᵀx is not the highest.

    Parameters
    ----------
    actions, features, seed, reward_range, max_pending, control_share, control
        As for :class:`releaf.Releaf`.
    spread
        Scale of the posterior's standard deviation (v). Agrawal and Goyal prove their bound for a far larger v,
        which grows with time.
    ridge, intercept
        As for :class:`releaf.LinUCB`.
    cost, cost_weight, spend_budget, budget_period
        As for :class:`releaf.AdaptiveReleaf`.

    Examples
    --------
    >>> import releaf
    >>> releaf.LinTS(actions=4, features=2, seed=0).decide([0.5, 0.5]).probability
    0.25
    """

    traits = Traits("LinTS", "Agrawal and Goyal 2013")
    _entry_points = LINTS

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        seed: int | None = None,
        spread: float = 0.25,
        ridge: float = 1.0,
        intercept: bool = True,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_pending: int = 100_000,
        cost: Costs | None = None,
        cost_weight: float | None = None,
        spend_budget: float | None = None,
        budget_period: int = 1_000,
        control_share: float = 0.0,
        control: ActionName = "uniform",
    ) -> None:
        super().__init__(actions, features, seed, ridge, intercept, max_pending, reward_range)
        self.spread = positive("spread", spread)
        self._set_cost_rule(cost, cost_weight, spend_budget, budget_period)
        self._set_control(control_share, control)
        self._start()

    @property
    def _rule(self) -> tuple[float, float]:
        return self.spread, 0.0

    def _chance_of_other(self, other: int, taken: int, chance: float) -> float | None:
        known = super()._chance_of_other(other, taken, chance)
        return self._probability(other) if known is None else known

    def _probability(self, action: int) -> float | None:
        eligible = self._state.choosable.astype(bool)
        if not eligible.all():
            action = int(np.count_nonzero(eligible[:action]))
        means, spreads = self._state.net[eligible], self._state.spreads[eligible]
        if len(means) == 1 and len(eligible) > 1:
            return 1.0
        if not spreads.any():  # a context of zeros without an intercept: the first action it is
            return 1.0
        spreads = np.maximum(spreads, 1e-12 * spreads.max())
        if len(means) == 2:
            gap = (means[action] - means[1 - action]) / math.hypot(*spreads)
            return 0.5 * math.erfc(-gap * math.sqrt(0.5))
        return round(float(probability_of_highest(means, spreads, action)), 6)  # the accuracy of the integral
