"""ε-greedy with a linear model."""

from __future__ import annotations

from releaf.core.baselines.ridge import LINEAR_EPSILON_GREEDY
from releaf.decision import ActionName
from releaf.policies.costs import Costs
from releaf.policies.linear import LinearPolicy
from releaf.policies.policy_export import Rule
from releaf.policies.random_exploration import RandomExploration
from releaf.policy import Actions
from releaf.schema import Features
from releaf.traits import Traits


class LinearEpsilonGreedy(LinearPolicy, RandomExploration):
    """Takes the action whose linear estimate is highest, or with probability ε_t = min(1, c·A/t) any at random.

    When an action is added, t starts again.

    Parameters
    ----------
    actions, features, seed, reward_range, max_pending, control_share, control
        As for :class:`releaf.Releaf`.
    exploration, epsilon
        As for :class:`releaf.EpsilonGreedy`.
    ridge, intercept
        As for :class:`releaf.LinUCB`.
    cost, cost_weight, spend_budget, budget_period
        As for :class:`releaf.AdaptiveReleaf`.

    Examples
    --------
    >>> import releaf
    >>> bandit = releaf.LinearEpsilonGreedy(actions=2, features=1, seed=0, epsilon=0.1)
    >>> bandit.decide([0.5]).probability
    0.95
    """

    traits = Traits("ε-greedy, linear", "Langford and Zhang 2007")
    _entry_points = LINEAR_EPSILON_GREEDY

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        seed: int | None = None,
        exploration: float = 5.0,
        epsilon: float | None = None,
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
        self._set_exploration(exploration, epsilon)
        self._set_cost_rule(cost, cost_weight, spend_budget, budget_period)
        self._set_control(control_share, control)
        self._start()

    @property
    def _rule(self) -> tuple[float, float]:
        return self._rates

    def _freeze_rule(self) -> Rule:
        rate, weights = self._next_rate(), self._state.theta.copy()
        return lambda: {
            "kind": "linear-epsilon-greedy",
            "exploration": rate,
            "intercept": self.intercept,
            "weights": weights.tolist(),
        }
