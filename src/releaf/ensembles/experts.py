"""Base classifiers: scikit-learn's logistic regressions, each trained on a separate slice of labelled contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.core.baselines.design_matrix import design_of, lay_out_all, width_of
from releaf.core.baselines.voting import UNKNOWN
from releaf.decision import ActionName
from releaf.features import Quantile
from releaf.policies.argument_checks import positive, whole
from releaf.policies.reward_checks import checked_reward_range, checked_table
from releaf.policy import Actions, action_names
from releaf.schema import Features, Schema


@dataclass(frozen=True, slots=True, eq=False)
class Experts:
    """Linear classifiers as plain arrays, which an ensemble saves without pickle and evaluates fast.

    Attributes
    ----------
    coefficients
        E × A × columns: coefficients of each classifier for each action.
    intercepts
        E × A.
    labels
        Total number of labels used to train them.
    actions, schema
        The actions and the schema that they were trained for.
    """

    coefficients: Array
    intercepts: Array
    labels: int
    actions: tuple[ActionName, ...]
    schema: Schema

    def __post_init__(self) -> None:
        for name in ("coefficients", "intercepts"):
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=np.float64, order="C"))
        scores, shifts = self.coefficients, self.intercepts
        if scores.ndim != 3 or not scores.shape[0] or scores.shape[:2] != shifts.shape:
            raise ValueError(f"experts need E × A × columns coefficients, got shapes {scores.shape} and {shifts.shape}")
        if not (np.isfinite(scores).all() and np.isfinite(shifts).all()):
            raise ValueError("experts need finite coefficients and intercepts, got some that are not")

    def __len__(self) -> int:
        return len(self.coefficients)


def columns_of(units: Array, schema: Schema) -> Array:
    """Design matrix of encoded contexts: a column for each number and category, and indicators of missing numbers."""
    design = schema_design(schema)
    columns = np.zeros((len(units), width_of(design, intercept=False)))
    lay_out_all(design, np.ascontiguousarray(units), columns)
    return columns


def schema_design(schema: Schema) -> Array:
    return design_of(schema.lowest(), [feature.categories for feature in schema.features], intercept=False)


def encoded(contexts: Any, schema: Schema) -> Array:
    """Encode contexts; Quantile features can't be encoded before the stream."""
    learnt = [name for name, f in zip(schema.names, schema.features, strict=True) if isinstance(f, Quantile)]
    if learnt:
        raise ValueError(
            f"base classifiers are trained before quantiles are known: expected Continuous in place of Quantile "
            f"for {', '.join(map(repr, learnt))}"
        )
    return schema.encoder().encode_many(contexts)


def train_experts(
    contexts: Any,
    rewards: Any,
    *,
    actions: Actions,
    features: Features,
    count: int = 6,
    size: int = 10,
    seed: int | None = 0,
    regularisation: float = 100.0,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Experts:
    """Train logistic regressions on separate slices. Needs scikit-learn (``pip install releaf[sklearn]``).

    The paper has 6, trained with 10 rows each for breast cancer, and 5,000 each for network intrusion. A slice with a
    single label makes a classifier that always predicts it.

    Parameters
    ----------
    contexts, rewards
        The labelled rows: a matrix or a table, and the reward of every action (T × A); the right action is the one
        with the highest reward.
    actions, features
        As for :class:`releaf.Releaf`.
    count, size
        Number of classifiers, and number of rows that each is trained with.
    seed
        Of the shuffle of the rows; None keeps their order.
    regularisation
        C of scikit-learn's logistic regression: smaller values regularise more. With 10 rows each, 1 regularises so
        strongly that most classifiers predict only the more frequent label.
    reward_range
        As for :class:`releaf.Releaf`.

    Examples
    --------
    >>> from releaf.ensembles import AverageMajority, train_experts
    >>> from releaf.streams import breast_cancer
    >>> cases = breast_cancer(steps=200, rows="training")
    >>> experts = train_experts(cases.contexts, cases.rewards, actions=cases.actions, features=cases.features)
    >>> len(experts), experts.labels
    (6, 60)
    >>> ensemble = AverageMajority(cases.actions, cases.features, experts=experts)
    >>> ensemble.decide(cases.contexts[0]).wants_reward
    False
    """
    names, schema = action_names(actions), Schema.of(features)
    count, size = whole("count", count, least=1), whole("size", size, least=1)
    regularisation = positive("regularisation", regularisation)
    columns = columns_of(encoded(contexts, schema), schema)
    table = checked_table(rewards, len(columns), names, checked_reward_range(reward_range))
    if np.isnan(table).any():
        raise ValueError(f"rewards of row {int(np.isnan(table).any(axis=1).argmax())} have NaN: expected those of all")
    seed = None if seed is None else whole("seed", seed, least=0)
    if count * size > len(columns):
        raise ValueError(f"{count} slices of {size} need {count * size} labelled cases, got {len(columns)}")
    order = np.arange(len(columns)) if seed is None else np.random.default_rng(seed).permutation(len(columns))
    slices = order[: count * size].reshape(count, size)
    right = np.argmax(table, axis=1)
    trained = [_train(columns[rows], right[rows], len(names), regularisation) for rows in slices]
    coefficients, intercepts = (np.stack(parts) for parts in zip(*trained, strict=True))
    return Experts(coefficients, intercepts, count * size, names, schema)


def _train(columns: Array, right: Array, actions: int, regularisation: float) -> tuple[Array, Array]:
    """Coefficients and intercepts of one logistic regression, a row for each action."""
    coefficients = np.zeros((actions, columns.shape[1]))
    intercepts = np.full(actions, UNKNOWN)  # of actions that its slice does not have
    seen = np.unique(right)
    intercepts[seen] = 0.0
    if len(seen) > 1:
        model = _logistic_regression()(C=regularisation, max_iter=10_000).fit(columns, right)
        scores = np.vstack([np.zeros_like(model.coef_), model.coef_]) if len(seen) == 2 else model.coef_
        coefficients[seen] = scores
        intercepts[seen] = [0.0, float(model.intercept_[0])] if len(seen) == 2 else model.intercept_
    return coefficients, intercepts


def _logistic_regression() -> Any:
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise ImportError("train_experts needs scikit-learn: pip install releaf[sklearn]") from error
    return LogisticRegression
