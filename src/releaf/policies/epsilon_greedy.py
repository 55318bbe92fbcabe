"""ε-greedy without context (Auer, Cesa-Bianchi and Fischer, 2002)."""

from __future__ import annotations

from releaf.core.baselines.context_free import EPSILON_GREEDY, Means, new_means
from releaf.decision import ActionName
from releaf.policies.costs import Costs
from releaf.policies.policy_export import Rule
from releaf.policies.random_exploration import RandomExploration
from releaf.policy import Actions
from releaf.schema import Features
from releaf.traits import Traits


class EpsilonGreedy(RandomExploration):
    """Takes the action with the highest mean reward, or with probability ε_t = min(1, c·A/t) any action at random.

    It ignores the context. An action that was never observed is tried at once, and when an action is added, t starts
    again. The paper's draft says ε_t ~ 1/t and takes the *best* action with probability ε_t, which must be a slip;
    Auer et al. have ε_t = min(1, c·A / (d²·t)) with d below the gap between the best two actions.

    Parameters
    ----------
    actions, features, seed, reward_range, max_pending, control_share, control
        As for :class:`releaf.Releaf`.
    exploration
        Amount of exploration (c; the c/d² of Auer et al.): about c·A·ln t of t decisions.
    epsilon
        Explore with this probability at every step (ε), instead of one that falls.
    cost, cost_weight, spend_budget, budget_period
        As for :class:`releaf.AdaptiveReleaf`.

    Examples
    --------
    >>> import releaf
    >>> bandit = releaf.EpsilonGreedy(actions=2, features=1, seed=1, epsilon=0.1)
    >>> for reward in (0.0, 1.0):
    ...     bandit.learn(bandit.decide([0.5]), reward)
    >>> choice = bandit.decide([0.5])
    >>> choice.index, round(choice.probability, 2), choice.estimates
    (1, 0.95, (0.0, 1.0))
    """

    traits = Traits("ε-greedy", "Auer et al. 2002", uses_context=False)
    _entry_points = EPSILON_GREEDY

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        seed: int | None = None,
        exploration: float = 5.0,
        epsilon: float | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_pending: int = 100_000,
        cost: Costs | None = None,
        cost_weight: float | None = None,
        spend_budget: float | None = None,
        budget_period: int = 1_000,
        control_share: float = 0.0,
        control: ActionName = "uniform",
    ) -> None:
        super().__init__(actions, features, "always", seed, max_pending, reward_range)
        self._set_exploration(exploration, epsilon)
        self._set_cost_rule(cost, cost_weight, spend_budget, budget_period)
        self._set_control(control_share, control)
        self._start()

    def _build(self, actions: int) -> Means:
        return new_means(self.seed, self.schema.lowest(), actions, self._rates)

    def _freeze_rule(self) -> Rule:
        state, rate = self._state, self._next_rate()
        counts, sums, taken = state.counts.tolist(), state.sums.tolist(), state.taken.tolist()
        means = [total / count if count else 0.0 for total, count in zip(sums, counts, strict=True)]
        untried = sorted((taken[action], action) for action, count in enumerate(counts) if not count)
        return lambda: {
            "kind": "epsilon-greedy",
            "exploration": rate,
            "means": means,
            "untried": [action for _, action in untried],
        }
