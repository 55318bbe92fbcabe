"""LinUCB with disjoint linear models (Li, Chu, Langford and Schapire, 2010, Algorithm 1)."""

from __future__ import annotations

from releaf.core.baselines.ridge import LINUCB
from releaf.decision import ActionName
from releaf.policies.argument_checks import positive
from releaf.policies.costs import Costs
from releaf.policies.linear import LinearPolicy
from releaf.policies.policy_export import Rule
from releaf.policy import Actions
from releaf.schema import Features
from releaf.traits import Traits


class LinUCB(LinearPolicy):
    """Takes the action with the highest upper confidence bound of a linear model: θ_aᵀx + α √(xᵀ A_a⁻¹ x).

    A_a = λI + Σ x xᵀ and θ_a = A_a⁻¹ Σ r x, over the observations of the action. A decision counts as an exploration
    when its action's estimate θ_aᵀx is not the highest. Ties, as at first, go to the action that was
    taken least often, so that all take turns while rewards are late.

    The paper gives neither α, nor λ, nor whether there was a constant feature; Li et al. have λ = 1 and a constant
    feature.

    Parameters
    ----------
    actions, features, seed, reward_range, max_pending, control_share, control
        As for :class:`releaf.Releaf`. Nothing is drawn at random, so the seed changes nothing.
    alpha
        Width of the confidence bound (α). Li et al. prove their bound for 1 + √(ln(2/δ)/2).
    ridge
        Ridge penalty (λ).
    intercept
        Whether to add a feature that is always 1.
    cost, cost_weight, spend_budget, budget_period
        As for :class:`releaf.AdaptiveReleaf`.

    Examples
    --------
    >>> import releaf
    >>> bandit = releaf.LinUCB(actions=2, features=1)
    >>> for step in range(200):
    ...     value = step % 10 / 10
    ...     choice = bandit.decide([value])
    ...     bandit.learn(choice, value if choice.index else 1 - value)
    >>> [bandit.decide([value]).index for value in (0.1, 0.9)]
    [0, 1]
    """

    traits = Traits("LinUCB", "Li et al. 2010")
    _entry_points = LINUCB

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        seed: int | None = None,
        alpha: float = 1.0,
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
        self.alpha = positive("alpha", alpha, zero=True)
        self._set_cost_rule(cost, cost_weight, spend_budget, budget_period)
        self._set_control(control_share, control)
        self._start()

    @property
    def _rule(self) -> tuple[float, float]:
        return self.alpha, 0.0

    def _freeze_rule(self) -> Rule:
        state = self._state
        weights, inverse, taken = state.theta.copy(), state.inverse.copy(), state.taken.tolist()
        return lambda: {
            "kind": "linucb",
            "intercept": self.intercept,
            "alpha": self.alpha,
            "weights": weights.tolist(),
            "inverse": [[row[: place + 1] for place, row in enumerate(matrix)] for matrix in inverse.tolist()],
            "taken": taken,
        }
