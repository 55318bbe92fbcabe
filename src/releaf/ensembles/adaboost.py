"""AdaBoost weights of given base classifiers, from a labelled sample or from the latest labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.core.baselines.voting import FIXED, ONLINE_BOOSTING, boost
from releaf.decision import ActionName
from releaf.ensembles.ensemble import Ensemble
from releaf.ensembles.experts import Experts, columns_of, encoded
from releaf.policies.argument_checks import whole
from releaf.policies.reward_checks import checked_table
from releaf.policy import Actions
from releaf.schema import Features
from releaf.traits import Traits


class AdaBoost(Ensemble):
    """Weighs the base classifiers' votes by a labelled sample, then no more (Freund and Schapire, 1997).

    In each round the classifier with the smallest weighted error ε of those left gets the weight
    ½ (ln((1-ε)/ε) + ln(A-1)), which is Freund and Schapire's for two actions and SAMME's for more, and the cases
    that it got wrong count for more in the next. Classifiers that are no better than chance get none; an ε of 0
    counts as half a case. The paper's sample has 1,500 cases.

    Parameters
    ----------
    actions, features, experts, seed, reward_range
        As for :class:`AverageMajority`.
    sample
        The labelled cases: contexts, and the rewards of all actions (T × A). None leaves all votes alike.

    Examples
    --------
    >>> from releaf.ensembles import AdaBoost, train_experts
    >>> from releaf.streams import breast_cancer
    >>> cases = breast_cancer(steps=1_500)
    >>> experts = train_experts(cases.contexts, cases.rewards, actions=cases.actions, features=cases.features)
    >>> AdaBoost(cases.actions, cases.features, experts=experts, sample=(cases.contexts, cases.rewards)).prior_labels
    1560
    """

    traits = Traits(
        "AdaBoost",
        "Freund and Schapire 1997",
        base_classifiers=True,
        prior_training=True,
        learns_online=False,
        observes="nothing",
        learns_from_logs=False,
    )
    _entry_points = FIXED
    _observe = "never"

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        experts: Experts,
        sample: tuple[Any, Any] | None = None,
        seed: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        super().__init__(actions, features, experts=experts, seed=seed, reward_range=reward_range)
        if sample is not None:
            if not (isinstance(sample, tuple | list) and len(sample) == 2):
                raise TypeError(f"sample must be a pair of contexts and rewards, got {type(sample).__name__}")
            right = self._right_on(*sample)
            boost(right, len(self.actions), self._state.weights)
            self._sample = len(right)

    def _right_on(self, contexts: Any, rewards: Any) -> Array:
        """Table of correct predictions on a sample."""
        columns = columns_of(encoded(contexts, self.schema), self.schema)
        table = checked_table(rewards, len(columns), self.actions, self.reward_range)
        if not len(columns) or np.isnan(table).any():
            raise ValueError("sample must have at least one case, and all its rewards, got none or NaN")
        scores = np.einsum("tw,eaw->tea", columns, self._experts.coefficients) + self._experts.intercepts
        advice = np.argmax(scores, axis=2)
        right: Array = np.take_along_axis(table, advice, axis=1) == table.max(axis=1, keepdims=True)
        return right.astype(np.uint8)


class OnlineAdaBoost(Ensemble):
    """Weighs the votes as :class:`AdaBoost` does, anew with each label, from the latest labels (Fan, Stolfo and Zhang).

    Fan et al. also train new classifiers on each increment of data; as in the paper, the base classifiers stay. While
    none of them is better than chance, all votes count alike.

    Parameters
    ----------
    actions, features, experts, seed, reward_range, max_pending, control_share, control
        As for :class:`AverageMajority`.
    window
        Number of latest labels from which the weights are computed.
    """

    traits = Traits(
        "Online AdaBoost",
        "Fan et al. 1999",
        base_classifiers=True,
        prior_training=True,
        observes="the label (all rewards), always",
        learns_from_logs=False,
    )
    _entry_points = ONLINE_BOOSTING

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        experts: Experts,
        window: int = 1_000,
        seed: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_pending: int = 100_000,
        control_share: float = 0.0,
        control: ActionName = "uniform",
    ) -> None:
        self.window = self._window = whole("window", window, least=1, most=10**7)
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
