"""Propensities of a log that has none, estimated by a calibrated classifier with cross-fitting."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.decision import ActionName
from releaf.evaluate.propensity_columns import sparse_columns, tree_columns
from releaf.evaluate.reward_models import design_matrix, encoded_contexts, random_folds
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
    rare
        Actions that were taken too rarely to depend on the features: their propensity is their share of all rows.
    """

    log: Log
    table: Array
    classifier: str
    log_loss: float
    base_loss: float
    clipped: float
    rare: tuple[ActionName, ...] = ()

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

    Each fold is predicted by a classifier that was fitted to the others. Unless that is a logistic regression, it is
    calibrated by one, on log-probabilities that were predicted out of fold. The propensity of an action that was taken
    in fewer rows than there are folds is its share of all rows. **The estimates assume no unobserved confounders**:
    whatever influenced both the choice and its reward must be among the features. :func:`sensitivity` tells how much
    hidden confounding it would take to change a conclusion.

    Parameters
    ----------
    log
        A log; its own probabilities, if any, are not used.
    classifier
        Any scikit-learn classifier with ``predict_proba``; it gets a dense matrix with a column for each category.
        When None, logistic regression or gradient-boosted trees, whichever has the lower log loss on held-out rows.
    folds
        Number of random parts, with equal shares of each action.
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
    fold_of = random_folds(len(log), folds, seed, log.taken)
    counts = np.bincount(log.taken, minlength=len(log.actions))
    frequent = counts >= folds
    if not frequent.any():
        raise ValueError(f"no action was taken in {folds} rows or more, one per fold: the log has {len(log)} rows")
    used = frequent[log.taken]
    model, columns = (classifier, _own_columns(log)) if classifier is not None else _better_classifier(log, used, seed)
    table = _cross_fit(model, columns, log.taken, fold_of, used, len(counts))
    if type(_last_step(model)).__name__ != "LogisticRegression":  # which is calibrated, and one more fit adds variance
        table = _cross_fit(_calibrator(), np.log(np.maximum(table, 1e-9)), log.taken, fold_of, used, len(counts))
    shares = counts / max(len(log), 1)
    table = np.where(frequent, table * shares[frequent].sum(), shares)
    if log.eligible is not None:  # the others had no chance
        table = np.maximum(table, LEAST) * log.eligible
        table = table / table.sum(axis=1, keepdims=True)
    rows = np.arange(len(log))
    taken = table[rows, log.taken]
    known = replace(log, probabilities=np.clip(taken, LEAST, 1.0))
    return Propensities(
        known,
        table,
        type(_last_step(model)).__name__,
        float(-np.log(np.maximum(taken, LEAST)).mean()),
        float(-np.log(shares[log.taken]).mean()),
        float((taken < LEAST).mean()),
        tuple(log.actions[index] for index in np.flatnonzero((counts > 0) & ~frequent).tolist()),
    )


def _require_sklearn() -> None:
    try:
        import sklearn
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'estimate_propensities needs scikit-learn: pip install "releaf[sklearn]", or ".[sklearn]" in a clone',
            name=error.name,
        ) from None
    assert sklearn


def _own_columns(log: Log) -> Array:
    """Columns for any classifier."""
    columns, further = design_matrix(log), _further_columns(log)
    return columns if further is None else np.column_stack([columns, further])


def _further_columns(log: Log) -> Array | None:
    """What else changes the chance of each action: which could be taken, and costs that the policy may have weighed."""
    found = [] if log.eligible is None else [log.eligible]
    if log.costs is not None:
        found.append(log.costs / max(float(log.costs.max(initial=0.0)), 1e-300))
    return np.column_stack(found) if found else None


def _better_classifier(log: Log, used: Array, seed: int) -> tuple[Any, Any]:
    """Whichever classifier has the lower log loss on a part of the rows that it was not fitted to; and its columns."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    (units, schema), further = encoded_contexts(log), _further_columns(log)
    codes, coded = tree_columns(units, schema, further)
    candidates = [
        (
            make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=1000)),
            sparse_columns(units, schema, further),
        ),
        (
            HistGradientBoostingClassifier(
                max_iter=60,
                max_leaf_nodes=8,
                min_samples_leaf=50,
                early_stopping=False,
                random_state=seed,
                categorical_features=coded,
            ),
            codes,
        ),
    ]
    taken, usable = log.taken, np.flatnonzero(used)
    rows = np.random.default_rng([seed, len("compared")]).permutation(usable)[:COMPARED_ROWS]
    fitted, held_out = rows[: 2 * len(rows) // 3], rows[2 * len(rows) // 3 :]
    losses = [
        _log_loss(_predict(model, columns[fitted], taken[fitted], columns[held_out], len(log.actions)), taken[held_out])
        for model, columns in candidates
    ]
    return candidates[int(np.argmin(losses))]


def _calibrator() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1e3, max_iter=1000)


def _cross_fit(model: Any, columns: Any, taken: Array, fold_of: Array, used: Array, actions: int) -> Array:
    """Probability of each action in each row, by a model that was fitted to the used rows of the other folds."""
    table = np.zeros((len(taken), actions))
    for fold in range(int(fold_of.max(initial=-1)) + 1):
        held_out, fitted = np.flatnonzero(fold_of == fold), np.flatnonzero((fold_of != fold) & used)
        table[held_out] = _predict(model, columns[fitted], taken[fitted], columns[held_out], actions)
    return table


def _predict(model: Any, columns: Any, taken: Array, others: Any, actions: int) -> Array:
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    table = np.zeros((others.shape[0], actions))
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
