"""Average Majority: base classifiers with equal weights (Gao, Fan and Han, 2007)."""

from __future__ import annotations

from releaf.core.baselines.voting import FIXED
from releaf.ensembles.ensemble import Ensemble
from releaf.ensembles.experts import Experts
from releaf.policy import Actions
from releaf.schema import Features
from releaf.traits import Traits


class AverageMajority(Ensemble):
    """Takes the action that most base classifiers predict, the first of them on ties. It learns nothing online.

    Parameters
    ----------
    actions, features, seed
        As for :class:`releaf.Releaf`. Nothing is drawn at random, so the seed changes nothing.
    experts
        The base classifiers, of :func:`releaf.ensembles.train_experts`.
    """

    traits = Traits(
        "Average Majority (AM)",
        "Gao et al. 2007",
        base_classifiers=True,
        learns_online=False,
        observes="nothing",
        learns_from_logs=False,
    )
    _entry_points = FIXED

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        experts: Experts,
        seed: int | None = None,
    ) -> None:
        super().__init__(actions, features, experts, "never", seed)
        self._start()
