"""Greedy-RELEAF: the same partitions, but each feature judged on its own. Lemma 1 shows why that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from releaf import theory
from releaf.core.engine import Engine, Settings
from releaf.decision import Label
from releaf.policies.base import OBSERVE
from releaf.policies.checks import positive, scale, whole
from releaf.policies.partitioned import PartitionedPolicy
from releaf.policies.releaf import LARGEST_BASE
from releaf.schema import Feature, Schema


class GreedyReleaf(PartitionedPolicy):
    """Keeps the mean reward of each action for the intervals of each single feature, and takes the highest of them.

    The rival of the paper's section on 2γ-tuples ("Greedy Contextual Learning" in its draft). It explores and
    splits as RELEAF does, but exploits argmax over actions of the largest mean over all features, so a
    feature that merely goes along with good rewards misleads it: its regret can grow linearly (Lemma 1).

    The paper doesn't give its control number; here it is RELEAF's, with D* = D estimates that must hold together.
    ``relevance`` and ``Decision.relevant`` tell the feature whose mean was the largest.

    Parameters
    ----------
    actions, features, seed, lipschitz, rho, delta, control_divisor, observe, observation_cost, base, max_pending
        As for :class:`releaf.Releaf`.

    Examples
    --------
    >>> import releaf
    >>> releaf.GreedyReleaf(actions=2, features=2, seed=0).decide([0.5, 1.0]).explored
    True
    """

    parameters = (
        *("seed", "lipschitz", "rho", "delta", "control_divisor", "observe"),
        *("observation_cost", "base", "max_pending"),
    )

    def __init__(
        self,
        actions: int | Sequence[Label],
        features: int | Sequence[str] | Mapping[str, Feature] | Schema,
        *,
        seed: int | None = None,
        lipschitz: float = 1.0,
        rho: float | None = None,
        delta: float = 0.05,
        control_divisor: float = 5000.0,
        observe: Literal["explored", "always", "all-actions"] = "explored",
        observation_cost: float = 0.0,
        base: int = 2,
        max_pending: int = 100_000,
    ) -> None:
        super().__init__(actions, features, observe, max_pending)
        self.seed = None if seed is None else whole("seed", seed, least=0)
        self.lipschitz = scale("lipschitz", lipschitz)
        self.rho = None if rho is None else positive("rho", rho)
        self.delta = positive("delta", delta, below=1.0)
        self.control_divisor = scale("control_divisor", control_divisor)
        self.observation_cost = positive("observation_cost", observation_cost, zero=True)
        self.base = whole("base", base, least=2, most=LARGEST_BASE)
        settings = Settings(
            categories=tuple(feature.categories for feature in self.schema.features),
            missing=tuple(feature.missing and not feature.categories for feature in self.schema.features),
            gamma=1,
            tuple_size=1,
            confidence_terms=len(self.schema),
            lipschitz=self.lipschitz,
            rho=theory.balanced_rho(1) if self.rho is None else self.rho,
            delta=self.delta,
            control_divisor=self.control_divisor,
            base=self.base,
            start_level=0,
            observe=OBSERVE.index(self.observe),
            greedy=True,
        )
        self._start(Engine(settings, len(self.actions), self.seed))
