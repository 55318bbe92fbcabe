"""Intervals of an action's expected reward, wide enough for what the model can't represent too.

The posterior of a regression tells the variance of its weights, if its columns are the right ones. Three measures of
how wrong the mixture is join it, of which the last two come from models that are fitted to halves of the rows:

- how far tables and trees disagree: where the reward jumps, for instance, tables are smooth and trees are not;
- how far the halves are from the model of all rows: a half differs from the whole as the whole does from the truth;
- residuals of the rows that a half was not fitted to. Among rows that are alike in the features that matter, their mean
  tells the error of the model there, but for noise.

Their shares were chosen for a coverage of 95 % on planted streams (``python -m benchmarks coverage``).
"""

from __future__ import annotations

import math

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.decision_step import predict_many, predict_with_columns
from releaf.core.adaptive.engine import MixtureEngine
from releaf.core.adaptive.fitting import Fit, fit
from releaf.core.adaptive.mixture import expert_weights
from releaf.core.adaptive.model import MARGIN
from releaf.core.adaptive.state import ADDITIVE, LINE_COLUMNS, LINES, ROWS, STEADY_TREES, Model

FEWEST_ROWS = 16  # from which halves are fitted
MOST_ROWS = 16_384  # from which halves are taken
PAIRS = 2  # of halves
ALIKE, FEWEST_ALIKE, ROWS_PER_ALIKE = 50, 10, 20  # rows that are alike: so many at most, at least, one of so many
MISSING = -1.0  # code of a missing number
FAR = 0.5  # of the range of a number without effect, by which a value is far out of it
MATTERING = 3  # features in which rows are alike, at most
LEAST_SHARE = 0.1  # of the explained variance, for a feature to matter
POSTERIOR_SHARE, HALF_SHARE, DISAGREEMENT_SHARE = 0.5, 0.7, 0.5  # in the variance
NOISE = 3.0  # variances of a mean residual, below which its square may be noise


class RewardIntervals:
    """Intervals of an action, for as long as its model is not replaced.

    Parameters
    ----------
    engine
        Engine of that action alone.
    """

    def __init__(self, engine: MixtureEngine) -> None:
        (sample,), (self._model,), self._engine = engine.samples, engine.models, engine
        count = int(sample.counts[ROWS])
        rows = np.argsort(sample.keys[:count], kind="stable")[:MOST_ROWS]  # keys are random
        self._scale = len(rows) / max(2 * count - len(rows), 1)  # of variances by halves of fewer rows than there are
        self._given = engine.fit_of(0, np.sort(rows))
        self._contexts = self._given.contexts.astype(np.float64)
        self._halves: list[Model] = []
        self._residuals = np.zeros(len(rows))
        self._mattering = self._features_that_matter()

    @property
    def model(self) -> Model:
        """The model that the intervals are of."""
        return self._model

    def use(self, engine: MixtureEngine) -> None:
        """Use the current weights of the experts, which an engine with the same model has."""
        self._engine = engine

    def prepare(self) -> None:
        """Fit the halves, which takes a while; needs no lock of the learner."""
        if len(self._given.rewards) < FEWEST_ROWS or self._halves:
            return
        for pair in range(PAIRS):
            inside = (self._given.keys >> pair) & 1 == 1
            for rows, others in ((inside, ~inside), (~inside, inside)):
                if min(rows.sum(), others.sum()) < FEWEST_ROWS // 4:
                    continue
                half = fit(self._engine.settings, _rows_of(self._given, rows))
                self._halves.append(half)
                predicted = self._predict(self._contexts[others], half)
                self._residuals[others] += (self._given.rewards[others] - predicted) / PAIRS

    def deviation(self, context: Array) -> float:
        """Standard deviation of the expected reward from the estimate, scaled to [0, 1]."""
        mean = float(self._predict(context[None, :], self._model)[0])
        tables, trees = self._engine.state.predictions[0, [ADDITIVE, STEADY_TREES]]
        variance = self._posterior_variance(context)
        if self._halves:
            halves = np.array([float(self._predict(context[None, :], half)[0]) for half in self._halves])
            variance = (
                POSTERIOR_SHARE * variance
                + HALF_SHARE * self._scale * float(np.mean((halves - mean) ** 2))
                + DISAGREEMENT_SHARE * float((tables - trees) ** 2)
                + max(self._squared_error_of_alike(context), 0.0)
            )
        return math.sqrt(variance)

    def unknown(self, context: Array, named: tuple[int, ...]) -> list[int]:
        """Features with a value unlike all of the rows.

        A number out of their range, or a category of none of them, if the feature is ``named``. If it is not, it had no
        effect so far: then only a number far out of the range, since there are many rare categories of no effect, and
        every date is later than those before.
        """
        if not len(self._contexts):
            return []
        categories, present = self._engine.settings.categories, self._contexts != MISSING
        low = np.where(present, self._contexts, np.inf).min(axis=0)
        high = np.where(present, self._contexts, -np.inf).max(axis=0)
        margin = np.where(np.isin(np.arange(len(context)), named), MARGIN, FAR) * (high - low)
        outside = (context < low - margin) | (context > high + margin)
        outside = np.where(context == MISSING, present.all(axis=0) & np.isin(np.arange(len(context)), named), outside)
        found = set(np.flatnonzero(outside & (categories == 0)).tolist())
        for feature in named:
            count = categories[feature]
            if count and not np.any((self._contexts[:, feature] * count).astype(int) == int(context[feature] * count)):
                found.add(feature)
        return sorted(found)

    def _features_that_matter(self) -> list[int]:
        strengths = self._model.strengths
        order = np.argsort(-strengths, kind="stable")[:MATTERING].tolist()
        return [feature for feature in order if strengths[feature] >= LEAST_SHARE * strengths.sum()] or order[:1]

    def _posterior_variance(self, context: Array) -> float:
        """Variance by the posteriors of the regressions, by the weights of the experts."""
        columns = np.zeros(len(self._model.weights))
        predict_with_columns(self._engine.state.pointer_table, np.ascontiguousarray(context), 0, columns)
        lines = columns[: self._model.counts[LINE_COLUMNS]]
        straight = float(lines @ self._model.line_covariance @ lines)
        additive = float(columns @ self._model.covariance @ columns)
        share = float(expert_weights(self._engine.state, 0)[LINES])
        return share * straight + (1.0 - share) * additive + self._effect_variance(context)

    def _effect_variance(self, context: Array) -> float:
        settings, total = self._engine.settings, 0.0
        for feature in np.flatnonzero(settings.effects).tolist():
            category = int(context[feature] * settings.categories[feature]) % int(settings.effects[feature])
            total += float(self._model.effect_variances[settings.first_effect[feature] + category])
        return total

    def _squared_error_of_alike(self, context: Array) -> float:
        """Squared mean residual of the rows most alike, less what may be noise."""
        alike = np.ones(len(self._contexts), dtype=bool)
        distance, categories = np.zeros(len(self._contexts)), self._engine.settings.categories
        for feature in self._mattering:
            values, count = self._contexts[:, feature], categories[feature]
            if count:
                alike &= (values * count).astype(int) == int(context[feature] * count)
            else:
                distance = np.maximum(distance, np.abs(values - context[feature]))
        rows = np.flatnonzero(alike)
        most = min(max(len(self._contexts) // ROWS_PER_ALIKE, FEWEST_ALIKE), ALIKE)
        if len(rows) > most:
            rows = rows[np.argpartition(distance[rows], most - 1)[:most]]
        if len(rows) < 2:
            return 0.0
        residuals = self._residuals[rows]
        return float(residuals.mean() ** 2 - NOISE * residuals.var() / len(rows))

    def _predict(self, contexts: Array, model: Model) -> Array:
        self._engine.state.models[0] = model.address
        estimates = np.empty((len(contexts), 1))
        predict_many(self._engine.state.pointer_table, np.ascontiguousarray(contexts), estimates)
        self._engine.state.models[0] = self._model.address
        return estimates[:, 0]


def _rows_of(given: Fit, rows: Array) -> Fit:
    return given._replace(contexts=given.contexts[rows], rewards=given.rewards[rows], keys=given.keys[rows])
