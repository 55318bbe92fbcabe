"""Average Majority: base classifiers with equal weights (Gao, Fan and Han, 2007)."""

from __future__ import annotations

from releaf.core.baselines.voting import FIXED
from releaf.ensembles.ensemble import Ensemble
from releaf.traits import Traits


class AverageMajority(Ensemble):
    """Takes the action that most base classifiers predict, the first of them on ties. It learns nothing online.

    Parameters
    ----------
    actions, features, seed, reward_range, max_pending, control_share, control
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
    _observe = "never"
