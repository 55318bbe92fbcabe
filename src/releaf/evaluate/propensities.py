"""Propensities of a log that has none, estimated by a calibrated classifier with cross-fitting."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.decision import ActionName
from releaf.evaluate.reward_models import design_matrix, random_folds
from releaf.streams import Log

ASSUMPTION = (
    "Estimated propensities assume no unobserved confounders: everything that influenced both the logged choice and "
    "its reward is among the features. The log can't show whether that holds."
)
LEAST = 0.001  # estimated propensities are at least that
COMPARED_ROWS = 20_000  # on which the classifiers are compared
BINS = 10


class CalibrationBin(NamedTuple):
    """Rows with a similar estimated probability of an action: the mean of it, and how often it was taken."""

    action: ActionName
    predicted: float
    observed: float
    rows: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Propensities:
    """Estimated propensities of a log.

    Attributes
    ----------
    log
        The log, with the estimated probability of each taken action.
    table
        T × A, the estimated probability of every action in every row.
    classifier
        Name of the classifier.
    log_loss
        Mean of -ln p of the taken actions, out of fold; ``base_loss`` is that of constant shares.
    clipped
        Share of rows whose estimate was raised to the least one, 0.001.
    """

    log: Log
    table: Array
    classifier: str
    log_loss: float
    base_loss: float
    clipped: float

    def __repr__(self) -> str:
        rows = f"{len(self.log):,} rows"
        return f"Propensities({rows}, {self.classifier}, log loss {self.log_loss:.3f} against {self.base_loss:.3f})"

    def calibration(self, bins: int = BINS) -> list[CalibrationBin]:
        """Compare estimated probabilities with how often actions were taken, in bins of equally many rows.

        Where both agree, the propensities are calibrated: right on average for rows that look alike to the classifier.
        """
        found = []
        for index, action in enumerate(self.log.actions):
            order = np.argsort(self.table[:, index], kind="stable")
            for part in np.array_split(order, min(bins, len(order))):
                predicted, observed = self.table[part, index], self.log.taken[part] == index
                found.append(CalibrationBin(action, float(predicted.mean()), float(observed.mean()), len(part)))
        return found


def estimate_propensities(log: Log, *, classifier: Any = None, folds: int = 5, seed: int = 0) -> Propensities:
    """Estimate the propensities of a log, from its contexts and actions. Needs scikit-learn (``releaf[sklearn]``).

    Each fold is predicted by a classifier that was fitted to the others, and calibrated by a multinomial logistic
    regression on log-probabilities that were predicted out of fold. **The estimates assume no unobserved confounders**:
    whatever influenced both the choice and its reward must be among the features. :func:`sensitivity` tells how much
    hidden confounding it would take to change a conclusion.

    Parameters
    ----------
    log
        A log; its own probabilities, if any, are not used.
    classifier
        Any scikit-learn classifier with ``predict_proba``. When None, logistic regression or gradient-boosted trees,
        whichever has the lower log loss on held-out rows.
    folds
        Number of random parts.
    seed
        Seed of the folds and of the trees.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from releaf import evaluate, streams
    >>> log = evaluate.sample_log(streams.clicks(3_000))
    >>> found = evaluate.estimate_propensities(replace(log, probabilities=None))
    >>> found.log.probabilities.shape
    (3000,)
    """
    _require_sklearn()
    fold_of = random_folds(len(log), folds, seed)
    counts = np.bincount(log.taken, minlength=len(log.actions))
    for index in np.flatnonzero((counts > 0) & (counts < folds)).tolist():
        raise ValueError(
            f"action {log.actions[index]!r} was taken in {counts[index]} rows: expected at least {folds}, one per fold"
        )
    columns = design_matrix(log)
    if log.eligible is not None:  # what else could be taken changes the chance of each action
        columns = np.column_stack([columns, log.eligible])
    if log.costs is not None:  # which the logging policy may have weighed
        columns = np.column_stack([columns, log.costs / max(float(log.costs.max(initial=0.0)), 1e-300)])
    model = classifier if classifier is not None else _better_classifier(columns, log.taken, seed)
    raw = _cross_fit(model, columns, log.taken, fold_of, counts)
    table = _cross_fit(_calibrator(), np.log(np.maximum(raw, 1e-9)), log.taken, fold_of, counts)
    if log.eligible is not None:  # the others had no chance
        table = np.maximum(table, LEAST) * log.eligible
        table = table / table.sum(axis=1, keepdims=True)
    rows = np.arange(len(log))
    taken = table[rows, log.taken]
    known = replace(log, probabilities=np.clip(taken, LEAST, 1.0))
    shares = counts[log.taken] / max(len(log), 1)
    return Propensities(
        known,
        table,
        type(_last_step(model)).__name__,
        float(-np.log(np.maximum(taken, LEAST)).mean()),
        float(-np.log(shares).mean()),
        float((taken < LEAST).mean()),
    )


def _require_sklearn() -> None:
    try:
        import sklearn
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'estimate_propensities needs scikit-learn: pip install "releaf[sklearn]"', name=error.name
        ) from None
    assert sklearn


def _better_classifier(columns: Array, taken: Array, seed: int) -> Any:
    """Whichever classifier has the lower log loss on a part of the rows that it was not fitted to."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    candidates = [
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        HistGradientBoostingClassifier(
            max_iter=60, max_leaf_nodes=8, min_samples_leaf=50, early_stopping=False, random_state=seed
        ),
    ]
    rows = np.random.default_rng([seed, len("compared")]).permutation(len(taken))[:COMPARED_ROWS]
    fitted, held_out = rows[: 2 * len(rows) // 3], rows[2 * len(rows) // 3 :]
    counts = np.bincount(taken)
    losses = [
        _log_loss(_predict(model, columns[fitted], taken[fitted], columns[held_out], len(counts)), taken[held_out])
        for model in candidates
    ]
    return candidates[int(np.argmin(losses))]


def _calibrator() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1e3, max_iter=1000)


def _cross_fit(model: Any, columns: Array, taken: Array, fold_of: Array, counts: Array) -> Array:
    """Probability of each action in each row, by a model that was fitted to the other folds."""
    table = np.zeros((len(taken), len(counts)))
    for fold in range(int(fold_of.max(initial=-1)) + 1):
        held_out = fold_of == fold
        table[held_out] = _predict(model, columns[~held_out], taken[~held_out], columns[held_out], len(counts))
    return table


def _predict(model: Any, columns: Array, taken: Array, others: Array, actions: int) -> Array:
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    table = np.zeros((len(others), actions))
    present = np.unique(taken)
    if len(present) == 1:
        table[:, present[0]] = 1.0
        return table
    with warnings.catch_warnings(), threadpool_limits(limits=1):  # threads wait for each other on a busy machine
        warnings.simplefilter("ignore", ConvergenceWarning)  # a fit that is not quite done predicts nearly the same
        fitted = clone(model).fit(columns, taken)
        table[:, fitted.classes_] = fitted.predict_proba(others)
    return table


def _log_loss(table: Array, taken: Array) -> float:
    return float(-np.log(np.maximum(table[np.arange(len(taken)), taken], LEAST)).mean())


def _last_step(model: Any) -> Any:
    from sklearn.pipeline import Pipeline

    return model[-1] if isinstance(model, Pipeline) else model
