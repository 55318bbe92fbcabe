"""Weighted Majority, Blum's variant of it, and fixed share."""

from __future__ import annotations

import math

from releaf.core.baselines.voting import BLUM, WEIGHTED_MAJORITY
from releaf.decision import ActionName
from releaf.ensembles.ensemble import Ensemble
from releaf.ensembles.experts import Experts
from releaf.policies.argument_checks import positive
from releaf.policy import Actions
from releaf.schema import Features
from releaf.traits import Traits

LEAST_SHARE = 1e-12
_OBSERVES = "the label (all rewards), always"


class WeightedMajority(Ensemble):
    """Multiplies the weight of a vote by β^loss after each label (Littlestone and Warmuth, 1994).

    The loss is 1 less the reward of the action it was for, scaled to [0, 1]: 1 for a mistake where rewards are 0 and 1.

    Parameters
    ----------
    actions, features, experts, seed, reward_range, max_pending, control_share, control
        As for :class:`AverageMajority`.
    beta
        Factor of a weight after a mistake (β), in (0, 1).
    """

    traits = Traits(
        "Weighted Majority (WM)",
        "Littlestone and Warmuth 1994",
        base_classifiers=True,
        prior_training=True,
        observes=_OBSERVES,
        learns_from_logs=False,
    )
    _entry_points = WEIGHTED_MAJORITY

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        experts: Experts,
        beta: float = 0.5,
        seed: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_pending: int = 100_000,
        control_share: float = 0.0,
        control: ActionName = "uniform",
    ) -> None:
        self.beta = positive("beta", beta, below=1.0)
        super().__init__(
            actions,
            features,
            experts=experts,
            seed=seed,
            reward_range=reward_range,
            max_pending=max_pending,
            control_share=control_share,
            control=control,
        )

    @property
    def _rule(self) -> tuple[float, float]:
        return math.log(self.beta), 0.0


class FixedShare(WeightedMajority):
    """Weighted majority with sharing: each classifier passes α of its weight on to the others (Herbster and Warmuth).

    "TrackExp" in the paper's draft: a vote that was bad regains its weight soon after it becomes good.

    Parameters
    ----------
    actions, features, seed, experts, beta, reward_range, max_pending, control_share, control
        As for :class:`WeightedMajority`.
    alpha
        The share of its weight that a vote passes on after each label (α), in [0, 1); 0 is weighted majority.
    """

    traits = Traits(
        "Fixed share (TrackExp)",
        "Herbster and Warmuth 1998",
        base_classifiers=True,
        prior_training=True,
        observes=_OBSERVES,
        learns_from_logs=False,
    )

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        experts: Experts,
        beta: float = 0.5,
        alpha: float = 0.01,
        seed: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_pending: int = 100_000,
        control_share: float = 0.0,
        control: ActionName = "uniform",
    ) -> None:
        self.alpha = positive("alpha", alpha, below=1.0, zero=True)
        if 0.0 < self.alpha < LEAST_SHARE:
            raise ValueError(f"alpha must be 0 or at least {LEAST_SHARE:g}, got alpha={alpha!r}")
        super().__init__(
            actions,
            features,
            experts=experts,
            beta=beta,
            seed=seed,
            reward_range=reward_range,
            max_pending=max_pending,
            control_share=control_share,
            control=control,
        )

    @property
    def _rule(self) -> tuple[float, float]:
        return math.log(self.beta), self.alpha


class Blum(Ensemble):
    """Changes the votes' weights only when the vote was wrong: half for the wrong ones, 3/2 for the right ones.

    The variant of weighted majority that Blum (1997) takes from Winnow, which learns from its own mistakes only; the
    paper does not tell which of his algorithms it means. His specialists may abstain; base classifiers never do. For a
    label that comes late, the vote is recounted with the current weights.

    Parameters
    ----------
    actions, features, experts, seed, reward_range, max_pending, control_share, control
        As for :class:`AverageMajority`.
    """

    traits = Traits(
        "Blum's variant of WM",
        "Blum 1997",
        base_classifiers=True,
        prior_training=True,
        observes=_OBSERVES,
        learns_from_logs=False,
    )
    _entry_points = BLUM
