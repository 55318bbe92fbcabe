"""`AdaptiveReleafClassifier`: AdaptiveReleaf as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from releaf.arrays import Array
from releaf.policies.adaptive import AdaptiveReleaf
from releaf.schema import Schema
from releaf.sklearn.base import UNLABELLED, LearnerClassifier, learner_parameters
from releaf.sklearn.columns import validate

REQUEST_RULES = ("label_budget", "observation_cost", "delta", "epsilon")  # with which labels are requested


class AdaptiveReleafClassifier(LearnerClassifier):
    """:class:`releaf.AdaptiveReleaf` as a classifier that needs no tuning, with optional active learning.

    By default it learns every label, as the rewards of all classes. With one of ``label_budget``,
    ``observation_cost``, or ``delta`` and ``epsilon``, it learns actively:

    - ``fit(X, y)`` replays the rows, in their own order with ``shuffle=False``, and uses a label only if the learner
      asks for it; ``labels_used_`` is their number.
    - ``needs_label(X)`` returns for which rows the learner would ask for a label now; its state is unchanged.
    - ``partial_fit(X, y)`` learns every given row, and counts all of these labels as used.
    - ``pass_by(X)`` reports rows that stay without a label, so that the learner knows how many decisions each label
      serves. For a stream, call either method for each row; ``observation_cost`` depends on it. For a pool of rows it
      is not needed, and a budget or a guarantee fits better than a cost.

    Numeric features range from the lowest to the highest value of the first rows. Columns may have missing values; if a
    column had none at first, a later missing value counts as the median. In tables, text, categories and booleans are
    unordered features; a category that is new after the first rows counts as missing. ``learner_`` takes contexts in
    the same units, so that it can decide, explain and be saved by itself.

    Parameters
    ----------
    label_budget, observation_cost, delta, epsilon, forget
        As for :class:`releaf.AdaptiveReleaf`; the reward of the right class is 1, so costs are fractions of it.
    features
        A :class:`releaf.Schema` of the columns, or None to infer it. With a schema, rows go to the learner unchanged,
        and values that the schema does not allow raise. (The ranks of ``Quantile`` features depend on the other rows
        of a call.)
    shuffle
        Whether ``fit`` shuffles the rows. False for a stream, whose order matters.
    random_state
        A seed, a generator, or None for a random one.

    Attributes
    ----------
    classes_ : array
        The classes, sorted.
    learner_ : AdaptiveReleaf
        The learner, whose actions are the classes.
    labels_used_ : int
        Number of learnt labels, of ``fit`` and ``partial_fit`` together.
    feature_relevance_ : array (classes × features)
        Share of each feature in the explained variance of each class.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from releaf.sklearn import AdaptiveReleafClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> frugal = AdaptiveReleafClassifier(label_budget=60, random_state=0).fit(X, y)
    >>> frugal.labels_used_ <= 60, frugal.score(X, y) > 0.9
    (True, True)

    A pool of rows, of which ten are labelled at a time:

    >>> import numpy as np
    >>> pool = AdaptiveReleafClassifier(label_budget=60, random_state=0)
    >>> pool = pool.partial_fit(X[:10], y[:10], classes=[0, 1])
    >>> while pool.labels_used_ < 60 and (wanted := np.flatnonzero(pool.needs_label(X))).size:
    ...     pool = pool.partial_fit(X[wanted[:10]], y[wanted[:10]])
    """

    _ranks = False
    learner_: AdaptiveReleaf
    labels_used_: int

    def __init__(
        self,
        *,
        label_budget: int | None = None,
        observation_cost: float | None = None,
        delta: float | None = None,
        epsilon: float | None = None,
        forget: int | Literal["auto"] | None = None,
        features: Any = None,
        shuffle: bool = True,
        random_state: Any = None,
    ) -> None:
        self.label_budget = label_budget
        self.observation_cost = observation_cost
        self.delta = delta
        self.epsilon = epsilon
        self.forget = forget
        self.features = features
        self.shuffle = shuffle
        self.random_state = random_state

    def pass_by(self, X: Any) -> Self:
        """Report rows that stay without a label."""
        check_is_fitted(self)
        rows, _ = validate(self, X, reset=False, plain=self._is_numeric)
        self._add(X, rows, np.full(len(rows), UNLABELLED))
        return self

    def _new_learner(self, classes: list[Any], schema: Schema) -> AdaptiveReleaf:
        options = learner_parameters(self, AdaptiveReleaf)
        requests = any(options[name] is not None for name in REQUEST_RULES)
        observe: Literal["always", "labels"] = "always" if requests else "labels"
        return AdaptiveReleaf(classes, schema, seed=self._seed, observe=observe, **options)

    def _replay_rows(self, rows: Array, indices: Array) -> Array:
        if self.learner_.observation_mode == "labels":
            self._learn_rows(rows, indices)
            return np.ones(len(indices), dtype=np.bool_)
        return self._learn_one_by_one(rows, indices, only_if_requested=True)

    def _learn_rows(self, rows: Array, indices: Array) -> None:
        if self.learner_.observation_mode != "labels":
            self._learn_one_by_one(rows, indices)
            return
        labelled = indices != UNLABELLED
        if not labelled.all():
            rows, indices = rows[labelled], indices[labelled]
        self.learner_.replay(self._columns.contexts(rows), np.eye(len(self.classes_))[indices])

    def _learn_one_by_one(self, rows: Array, indices: Array, only_if_requested: bool = False) -> Array:
        """Learn labels with a learner that requests them; returns a mask of the learnt ones."""
        learner, actions = self.learner_, self.learner_.actions
        labels = [None if index == UNLABELLED else actions[index] for index in indices]
        arrivals = zip(self._columns.contexts(rows), labels, strict=True)
        return np.array([learner.learn_label(*arrival, only_if_requested=only_if_requested) for arrival in arrivals])
