"""Greedy-RELEAF: a baseline that judges each feature separately. Lemma 1 shows why that fails."""

from __future__ import annotations

from typing import Literal

from releaf.decision import ActionName
from releaf.policies.argument_checks import scale
from releaf.policies.partitioned import PartitionedPolicy
from releaf.policy import Actions
from releaf.schema import Features
from releaf.traits import Traits


class GreedyReleaf(PartitionedPolicy):
    """Estimates each action's mean reward in the intervals of each single feature, and takes the highest.

    The baseline of the paper's section on 2γ-tuples ("Greedy Contextual Learning" in its draft). It explores and
    splits as RELEAF does, but exploits argmax over actions of the largest mean over all features, so a
    feature that merely goes along with good rewards misleads it: its regret can grow linearly (Lemma 1).

    The paper doesn't give its control number; here it is RELEAF's, with D* = D estimates that must hold together.
    ``relevance`` and ``Decision.relevant`` name the feature with the largest mean.

    Parameters
    ----------
    actions, features, seed, lipschitz, rho, delta, control_divisor, observe, observation_cost, base,
    reward_range, max_pending, control_share, control
        As for :class:`releaf.Releaf`.

    Examples
    --------
    >>> import releaf
    >>> releaf.GreedyReleaf(actions=2, features=2, seed=0).decide([0.5, 1.0]).explored
    True
    """

    traits = Traits(
        "Greedy-RELEAF (GCL)",
        "Tekin and van der Schaar 2015",
        learns_actively=True,
        observes="as RELEAF",
    )

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        seed: int | None = None,
        lipschitz: float = 1.0,
        rho: float | None = None,
        delta: float = 0.05,
        control_divisor: float = 5000.0,
        observe: Literal["explored", "always", "all-actions", "labels"] = "explored",
        observation_cost: float = 0.0,
        base: int = 2,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_pending: int = 100_000,
        control_share: float = 0.0,
        control: ActionName = "uniform",
    ) -> None:
        super().__init__(actions, features, observe, max_pending, reward_range)
        self._set_common_parameters(seed, rho, delta, control_divisor, observation_cost, base)
        self.lipschitz = scale("lipschitz", lipschitz)
        self._set_control(control_share, control)
        self._start(
            gamma=1,
            tuple_size=1,
            confidence_terms=len(self.schema),
            lipschitz=self.lipschitz,
            start_level=0,
            greedy=True,
        )
