"""Base class of the classifiers: classes are actions, the reward of the right class is 1, of any other 0."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from releaf.arrays import Array
from releaf.policies.parameters import parameter_defaults
from releaf.policy import Policy
from releaf.schema import Schema
from releaf.sklearn.columns import WithColumns, columns_of, is_numeric, validate
from releaf.sklearn.row_buffer import RowBuffer

UNLABELLED = -1


class LearnerClassifier(WithColumns, ClassifierMixin, BaseEstimator):
    """Base class of both classifiers. A subclass creates the learner and replays rows with it."""

    _ranks: ClassVar[bool]
    features: Any
    shuffle: bool
    random_state: Any
    learner_: Policy
    classes_: Array

    # --- implemented by subclasses --------------------------------------------------------------------------

    def _new_learner(self, classes: list[Any], schema: Schema) -> Policy:
        raise NotImplementedError

    def _replay_rows(self, rows: Array, indices: Array) -> Array:
        """Replay the rows of ``fit``; returns a mask of the rows whose label was used."""
        raise NotImplementedError

    def _learn_rows(self, rows: Array, indices: Array) -> None:
        """Learn all labelled rows."""
        raise NotImplementedError

    # --- scikit-learn's protocol ----------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Fit a new learner to labelled rows.

        Parameters
        ----------
        X
            A matrix of numbers, or a pandas or polars table of numbers, text, categories and booleans.
        y
            The class of each row.
        """
        rows, indices = self._start(X, y)
        if self.shuffle:
            order = check_random_state(self._seed).permutation(len(rows))
            rows, indices = rows[order], indices[order]
        used = self._replay_rows(rows, indices)
        self.labels_used_ = int(used.sum())
        self._buffer = RowBuffer(rows, np.where(used, indices, UNLABELLED))
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Continue training on labelled rows, all of which are learnt.

        Up to 1,024 rows, the features (ranges, ranks, categories) are inferred again each time the number of rows has
        doubled, and all rows are learnt again. Then they are fixed: numbers are clipped to their range, and new
        categories count as missing.

        Parameters
        ----------
        X, y
            As for ``fit``.
        classes
            All classes; required at the first call, and the same or None at later ones.
        """
        if not hasattr(self, "learner_"):
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            rows, indices = self._start(X, y, np.unique(classes))
            self._buffer = RowBuffer(rows[:0], indices[:0])
            self.labels_used_ = 0
        else:
            if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                known = f"{self.classes_.tolist()!r} as at the first call"
                raise ValueError(f"classes is {np.unique(classes).tolist()!r}: expected {known}")
            rows, labels = validate(self, X, y, reset=False, plain=self._is_numeric)
            indices = self._class_indices(labels)
        self._add(X, rows, indices)
        return self

    def predict(self, X: Any) -> Array:
        """Class with the highest expected reward for each row."""
        best = np.argmax(self._expected(X), axis=1)
        return self.classes_[best]  # type: ignore[no-any-return]

    def predict_proba(self, X: Any) -> Array:
        """Expected rewards of the classes, normalised to sum to 1 (rows × classes); uniform if all are 0.

        The learner estimates each class separately, so their sum is only close to 1 before.
        """
        expected = np.maximum(self._expected(X), 0.0)
        total = expected.sum(axis=1, keepdims=True)
        equal = np.full_like(expected, 1.0 / expected.shape[1])
        shares: Array = np.divide(expected, total, out=equal, where=total > 0.0)
        return shares

    def needs_label(self, X: Any) -> Array:
        """Whether the learner would ask for each row's label now; its state is unchanged.

        Rows are judged independently: of several similar rows, one label may suffice.
        """
        contexts = self._contexts(X)
        return np.array([self.learner_.preview(row).wants_reward for row in contexts], dtype=np.bool_)

    @property
    def feature_relevance_(self) -> Array:
        """Relevance of each feature to each class (classes × features), as of the learner's ``relevance``."""
        check_is_fitted(self)
        return self.learner_.relevance()

    # --- internals ------------------------------------------------------------------------------------------

    def _start(self, X: Any, y: Any, classes: Array | None = None) -> tuple[Array, Array]:
        """Create a new learner; returns the validated rows and their class indices."""
        is_plain = is_numeric(X, self.features)
        rows, labels = validate(self, X, y, reset=True, plain=is_plain)
        check_classification_targets(labels)
        self._is_numeric = is_plain
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if classes is None:
            self.classes_, indices = np.unique(labels, return_inverse=True)
        else:
            self.classes_ = classes
            indices = self._class_indices(labels)
        self._infer_columns(X, rows)
        return rows, indices

    def _infer_columns(self, X: Any, rows: Array) -> None:
        """Infer the columns, and create a learner with these features."""
        self._columns = columns_of(self, X, rows, schema=self.features, ranks=self._ranks)
        self.learner_ = self._new_learner(self.classes_.tolist(), self._columns.schema)

    def _class_indices(self, labels: Any) -> Array:
        indices: Array = np.searchsorted(self.classes_, labels)
        indices[indices == len(self.classes_)] = 0
        unknown = np.flatnonzero(self.classes_[indices] != labels)
        if len(unknown):
            label = np.asarray(labels)[unknown].tolist()[0]
            raise ValueError(f"y has {label!r} in row {unknown[0]}: expected one of {self.classes_.tolist()!r}")
        return indices

    def _add(self, X: Any, rows: Array, indices: Array) -> None:
        """Learn the labelled rows among these."""
        if not self._buffer.settled:
            self._columns.contexts(rows)  # raises before invalid rows reach the buffer
        everything = self._buffer.add(rows, indices) if self.features is None else None
        if everything is not None:
            rows, indices = everything
            self._infer_columns(X, rows)
            self.labels_used_ = 0
        self._learn_rows(rows, indices)
        self.labels_used_ += int((indices != UNLABELLED).sum())

    def _expected(self, X: Any) -> Array:
        contexts = self._contexts(X)  # raises if the estimator is not fitted
        return self.learner_.estimate(contexts)


def learner_parameters(estimator: BaseEstimator, policy: Any) -> dict[str, Any]:
    """Parameters of an estimator that are those of its learner."""
    known = parameter_defaults(policy)
    return {name: value for name, value in estimator.get_params(deep=False).items() if name in known}
