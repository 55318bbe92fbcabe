"""`ReleafClassifier`: RELEAF as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from releaf.arrays import Array
from releaf.policies.releaf import Releaf
from releaf.schema import Schema
from releaf.sklearn.base import UNLABELLED, LearnerClassifier, learner_parameters
from releaf.sklearn.columns import repeat_contexts

OBSERVE = ("labels", "all-actions", "explored", "always")
CHUNK = 10_000  # rows that are repeated per class at a time


class ReleafClassifier(LearnerClassifier):
    """:class:`releaf.Releaf`, the paper's algorithm, as a classifier.

    For good predictions, start with :class:`AdaptiveReleafClassifier`; this class is RELEAF itself. Its intervals have
    equal lengths, so numbers are encoded by their ranks among the first rows. Missing values, tables, categories and
    later rows are handled as there.

    ``needs_label(X)`` returns for which rows the learner would explore; ``partial_fit`` learns every given row.

    Parameters
    ----------
    observe
        Which labels ``fit`` learns. "labels": all, as the rewards of all classes, each of which counts as an arrival.
        "all-actions", "explored", "always": those that RELEAF observes when it replays the rows; see
        :class:`releaf.Releaf`.
    lipschitz, rho, delta, gamma_rel, control_divisor, base, epsilon, tuples
        As for :class:`releaf.Releaf`. There must be at least 2·gamma_rel features.
    features, shuffle, random_state
        As for :class:`AdaptiveReleafClassifier`.

    Attributes
    ----------
    classes_, labels_used_, n_features_in_, feature_names_in_
        As for :class:`AdaptiveReleafClassifier`.
    learner_ : Releaf
        The learner, whose actions are the classes; its contexts are ranks in [0, 1], unless ``features`` were given.
    feature_relevance_ : array (classes × features)
        Per class, the share of exploitations in which each feature was relevant.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from releaf.sklearn import ReleafClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> ReleafClassifier(random_state=0).fit(X, y).score(X, y) > 0.8
    True
    """

    _ranks = True
    learner_: Releaf
    labels_used_: int

    def __init__(
        self,
        *,
        observe: Literal["labels", "all-actions", "explored", "always"] = "labels",
        lipschitz: float | Literal["unknown"] = 1.0,
        rho: float | None = None,
        delta: float = 0.05,
        gamma_rel: int = 1,
        control_divisor: float = 5000.0,
        base: int = 2,
        epsilon: float | None = None,
        tuples: Literal["2gamma", "gamma+1"] = "2gamma",
        features: Any = None,
        shuffle: bool = True,
        random_state: Any = None,
    ) -> None:
        self.observe = observe
        self.lipschitz = lipschitz
        self.rho = rho
        self.delta = delta
        self.gamma_rel = gamma_rel
        self.control_divisor = control_divisor
        self.base = base
        self.epsilon = epsilon
        self.tuples = tuples
        self.features = features
        self.shuffle = shuffle
        self.random_state = random_state

    def _new_learner(self, classes: list[Any], schema: Schema) -> Releaf:
        if self.observe not in OBSERVE:
            raise ValueError(f"observe must be one of {', '.join(map(repr, OBSERVE))}, got observe={self.observe!r}")
        if len(schema) == 1:
            raise ValueError(
                "ReleafClassifier compares features with one another, got n_features = 1: expected 2 at least"
            )
        options = learner_parameters(self, Releaf)
        if self.observe == "labels":
            options["observe"] = "all-actions"
        return Releaf(classes, schema, seed=self._seed, **options)

    def _replay_rows(self, rows: Array, indices: Array) -> Array:
        if self.observe != "labels":
            rewards = np.eye(len(self.classes_))[indices]
            observed: Array = self.learner_.replay(self._columns.contexts(rows), rewards).observed
            return observed
        self._learn_rows(rows, indices)
        return np.ones(len(indices), dtype=np.bool_)

    def _learn_rows(self, rows: Array, indices: Array) -> None:
        """Learn each row once per class, with the reward of that class."""
        labelled = np.flatnonzero(indices != UNLABELLED)
        count = len(self.classes_)
        for start in range(0, len(labelled), CHUNK):
            some = labelled[start : start + CHUNK]
            contexts = repeat_contexts(self._columns.contexts(rows[some]), count)
            taken = np.tile(self.classes_, len(some))
            self.learner_.learn_log(contexts, taken, np.eye(count)[indices[some]].ravel())
