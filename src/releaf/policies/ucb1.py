"""UCB1, without context (Auer, Cesa-Bianchi and Fischer, 2002)."""

from __future__ import annotations

import math

from releaf.core.baselines.context_free import UCB1 as ENTRY_POINTS
from releaf.core.baselines.context_free import Means, new_means
from releaf.decision import ActionName
from releaf.policies.argument_checks import positive
from releaf.policies.compiled import CompiledPolicy
from releaf.policies.costs import Costs
from releaf.policies.policy_export import Rule
from releaf.policy import Actions
from releaf.schema import Features
from releaf.traits import Traits


class UCB1(CompiledPolicy):
    """Takes each action once, then the one with the highest upper confidence bound: r̄_a + √(c · ln n / n_a).

    Here n_a is the number of learnt rewards of the action, and n that of all actions. It ignores the context. A
    decision counts as an exploration when its action's mean is not the highest.

    Parameters
    ----------
    actions, features, seed, reward_range, max_pending, control_share, control
        As for :class:`releaf.Releaf`. Nothing is drawn at random, so the seed changes nothing.
    confidence
        Width of the confidence bounds (c); the authors' regret bound is for 2.
    cost, cost_weight, spend_budget, budget_period
        As for :class:`releaf.AdaptiveReleaf`.

    Examples
    --------
    >>> import releaf
    >>> bandit = releaf.UCB1(actions=["a", "b"], features=1)
    >>> for reward in (0.2, 0.9):
    ...     bandit.learn(bandit.decide([0.5]), reward)
    >>> bandit.decide([0.5]).action
    'b'
    """

    traits = Traits("UCB1", "Auer et al. 2002", uses_context=False)
    _entry_points = ENTRY_POINTS

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        seed: int | None = None,
        confidence: float = 2.0,
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
        self.confidence = positive("confidence", confidence, zero=True)
        self._set_cost_rule(cost, cost_weight, spend_budget, budget_period)
        self._set_control(control_share, control)
        self._start()

    def _build(self, actions: int) -> Means:
        return new_means(self.seed, self.schema.lowest(), actions, (self.confidence, 0.0))

    def _freeze_rule(self) -> Rule:
        """The actions in the order in which they would be taken: untried ones first, then by their bounds."""
        state, counts = self._state, self._state.counts.tolist()
        scale = self.confidence * math.log(sum(counts)) if any(counts) else 0.0
        ranks = [
            (1, -(total / count + math.sqrt(scale / count)), action) if count else (0, taken, action)
            for action, (count, total, taken) in enumerate(
                zip(counts, state.sums.tolist(), state.taken.tolist(), strict=True)
            )
        ]
        return lambda: {"kind": "ranking", "order": [rank[-1] for rank in sorted(ranks)]}
