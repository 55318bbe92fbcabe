"""Intervals of an action's expected reward, wide enough for what the model can't represent too.

How wrong the mixture may be depends on the expert in charge. If lines are, their posterior tells the variance of the
estimate, and nothing else is needed. Tables are too coarse where a reward jumps, and trees have no posterior; both miss
a part of an interaction. So where these are in charge, measures of misfit share in the variance:

- how far tables and trees disagree, here and on average over contexts: both may be wrong at a place where they agree;
- how far models of half of the rows are from the model of all rows: a half differs from the whole as the whole does
  from the truth;
- the variance of the estimates over contexts: who finds large effects has missed a part of them.

What is missed everywhere falls as rewards come in: the average disagreement with the cube root of their number, the
part of the effects with the square root.

The action's rewards come from contexts in which it was taken. Where contexts are more frequent than its rewards, by the
features that matter, all this is known for other contexts than these, and the variance is inflated.

The shares of the measures were chosen near a quantile regression of the errors on planted streams of 600 to 60,000
rows, and widened once after ``python -m benchmarks coverage``, which has other streams, was seen.
"""

from __future__ import annotations

import math

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.decision_step import predict_many, predict_with_columns
from releaf.core.adaptive.engine import MixtureEngine
from releaf.core.adaptive.fitting import Fit, fit
from releaf.core.adaptive.levels import MOST_TABLED
from releaf.core.adaptive.mixture import expert_weights
from releaf.core.adaptive.model import MARGIN
from releaf.core.adaptive.state import ADDITIVE, EXPERTS, LEARNT, LINE_COLUMNS, LINES, ROWS, STEADY_TREES, Model

FEWEST_ROWS = 16  # from which halves are fitted
MOST_ROWS = 8_192  # from which halves are taken
PAIRS = 2  # of halves
MOST_AVERAGED = 256  # contexts over which disagreement and estimates are averaged
MISSING = -1.0  # code of a missing number
FAR = 0.5  # of the range of a number without effect, by which a value is far out of it
MATTERING = 3  # features in which rows are alike, at most
LEAST_SHARE = 0.1  # of the explained variance, for a feature to matter
# Shares of the measures of misfit in the variance, up to ``MANY`` rewards of the action; two of them fall from there.
DISAGREEMENT_SHARE, USUAL_SHARE, HALF_SHARE, SIGNAL_SHARE = 0.1, 0.45, 0.6, 0.26
MANY = 700
POSTERIOR_SHARE = 0.3  # of the posterior variance of tables: what it knows is in the halves too
BETWEEN_SHARE = 0.4  # of the variance between the experts
NEAR = (0.05, 0.1, 0.16)  # largest distance of contexts alike in one, two, or three numbers
MOST_RARE = 8.0  # how much more frequent contexts count as than rewards, at most


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
        self._seen = engine.state.seen[: int(engine.state.seen_counts[0])].astype(np.float64)
        self._usual: tuple[float, float] | None = None
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
            if min(inside.sum(), (~inside).sum()) >= FEWEST_ROWS // 4:
                self._halves += [fit(self._engine.settings, _rows_of(self._given, rows)) for rows in (inside, ~inside)]

    def deviation(self, context: Array) -> float:
        """Standard deviation of the expected reward from the estimate, scaled to [0, 1]."""
        estimate, experts, columns = self._predict_with_experts(context)
        weights = expert_weights(self._engine.state, 0)
        lines, tables = self._posterior_variances(columns)
        others = 1.0 - float(weights[LINES])  # the weight of experts without a posterior that is enough
        if not self._halves:
            return math.sqrt((1.0 - others) * lines + others * tables + self._effect_variance(context))
        halves = np.array([self._predict(context, half) for half in self._halves])
        disagreement, signal = self._usual_disagreement_and_signal()
        rewards = max(int(self._engine.samples[0].counts[LEARNT]) / MANY, 1.0)
        misfit = (
            POSTERIOR_SHARE * tables
            + DISAGREEMENT_SHARE * (experts[ADDITIVE] - experts[STEADY_TREES]) ** 2
            + USUAL_SHARE * disagreement / math.cbrt(rewards)
            + HALF_SHARE * self._scale * float(np.mean((halves - estimate) ** 2))
            + SIGNAL_SHARE * signal / math.sqrt(rewards)
        )
        between = float(weights @ (experts - estimate) ** 2)
        variance = (1.0 - others) * lines + others * misfit + self._effect_variance(context) + BETWEEN_SHARE * between
        return math.sqrt(variance * math.sqrt(self._rarity(context)))

    def nearest(self, context: Array, features: list[int]) -> Array:
        """The context with values of some features moved into the range of the rows, or to the usual one."""
        moved, categories = context.copy(), self._engine.settings.categories
        for feature in features:
            values = self._contexts[self._contexts[:, feature] != MISSING, feature]
            if categories[feature]:
                kinds, counts = np.unique(values, return_counts=True)
                moved[feature] = kinds[counts.argmax()]
            elif context[feature] == MISSING:
                moved[feature] = np.median(values)
            elif len(values):
                moved[feature] = np.clip(context[feature], values.min(), values.max())
        return moved

    def unknown(self, context: Array, named: tuple[int, ...]) -> list[int]:
        """Features with a value unlike all of the rows: a number out of their range, a new category, a first gap.

        A feature that is not ``named`` had no effect so far. Then a number must be far out of the range, because every
        date is later than those before, and one of many categories does not count.
        """
        if not len(self._contexts):
            return []
        categories, is_named = self._engine.settings.categories, np.isin(np.arange(len(context)), named)
        present = self._contexts != MISSING
        low = np.where(present, self._contexts, np.inf).min(axis=0)
        high = np.where(present, self._contexts, -np.inf).max(axis=0)
        margin = np.where(is_named, MARGIN, FAR) * (high - low)
        outside = (context < low - margin) | (context > high + margin)
        outside = np.where(context == MISSING, present.all(axis=0), outside)
        is_new = np.where(categories > 0, self._is_new_category(context), outside)
        found: list[int] = np.flatnonzero(is_new & (is_named | (categories <= MOST_TABLED))).tolist()
        return found

    def _is_new_category(self, context: Array) -> Array:
        """Whether none of the rows has a context's category, for each feature; False for numbers."""
        counts = self._engine.settings.categories
        own, rows = (context * counts).astype(int), (self._contexts * counts).astype(int)
        is_new: Array = (counts > 0) & (rows != own).all(axis=0)
        return is_new

    def _features_that_matter(self) -> list[int]:
        strengths = self._model.strengths
        order = np.argsort(-strengths, kind="stable")[:MATTERING].tolist()
        return [feature for feature in order if strengths[feature] >= LEAST_SHARE * strengths.sum()] or order[:1]

    def _posterior_variances(self, columns: Array) -> tuple[float, float]:
        """Variances by the posteriors of the regressions on lines and on tables."""
        lines = columns[: self._model.counts[LINE_COLUMNS]]
        return float(lines @ self._model.line_covariance @ lines), float(columns @ self._model.covariance @ columns)

    def _effect_variance(self, context: Array) -> float:
        settings, total = self._engine.settings, 0.0
        for feature in np.flatnonzero(settings.effects).tolist():
            category = int(context[feature] * settings.categories[feature]) % int(settings.effects[feature])
            total += float(self._model.effect_variances[settings.first_effect[feature] + category])
        return total

    def _usual_disagreement_and_signal(self) -> tuple[float, float]:
        """Mean squared disagreement of tables and trees over contexts, and the variance of the estimates."""
        if self._usual is None:
            contexts = self._seen[:: max(1, -(-len(self._seen) // MOST_AVERAGED))]
            found = np.array(
                [(estimate, *experts) for estimate, experts, _ in map(self._predict_with_experts, contexts)]
            )
            found = found.reshape(-1, 1 + EXPERTS)
            apart = found[:, 1 + ADDITIVE] - found[:, 1 + STEADY_TREES]
            self._usual = (float(np.mean(apart**2)), float(np.var(found[:, 0]))) if len(found) else (0.0, 0.0)
        return self._usual

    def _rarity(self, context: Array) -> float:
        """How much more frequent contexts like this one are than rewards of the action in them."""
        contexts = (self._near(self._seen, context) + 1.0) / (len(self._seen) + 1.0)
        rewards = (self._near(self._contexts, context) + 1.0) / (len(self._contexts) + 1.0)
        return float(np.clip(contexts / rewards, 1.0, MOST_RARE))

    def _near(self, rows: Array, context: Array) -> int:
        """Number of rows that are alike in the features that matter."""
        categories = self._engine.settings.categories
        numbers = [feature for feature in self._mattering if not categories[feature]]
        alike = np.ones(len(rows), dtype=bool)
        for feature in self._mattering:
            values, count = rows[:, feature], categories[feature]
            if count:
                alike &= (values * count).astype(int) == int(context[feature] * count)
            else:
                alike &= np.abs(values - context[feature]) <= NEAR[len(numbers) - 1]
        return int(alike.sum())

    def _predict_with_experts(self, context: Array) -> tuple[float, Array, Array]:
        """The estimate, the predictions of the experts, and the columns of a context."""
        columns, state = np.zeros(len(self._model.weights)), self._engine.state
        estimate, _ = predict_with_columns(state.pointer_table, np.ascontiguousarray(context), 0, columns)
        return float(estimate), state.predictions[0].copy(), columns

    def _predict(self, context: Array, model: Model) -> float:
        self._engine.state.models[0] = model.address
        estimates = np.empty((1, 1))
        predict_many(self._engine.state.pointer_table, np.ascontiguousarray(context[None, :]), estimates)
        self._engine.state.models[0] = self._model.address
        return float(estimates[0, 0])


def _rows_of(given: Fit, rows: Array) -> Fit:
    return given._replace(contexts=given.contexts[rows], rewards=given.rewards[rows], keys=given.keys[rows])
