"""What each feature adds to an estimate of AdaptiveReleaf: effects in the order of an analysis of variance.

Named are the features whose relevance to an action is certain, since others would name noise, if they have a share in
the variance of its estimate over rows it was rewarded for. Let v(S) be its mean estimate over those rows' values of the
named features, where those in S and all that are not named have the values of the context to explain. The main effect
of a feature is v({i}) - v({}); what a pair adds beyond both main effects comes next, and what all named features do
together beyond that comes last. So joint effects get only what main effects leave. All other features have one term,
v({}) less the base rate; where it is small beside the deviation of the estimates over rows, the last term has it.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.decision_step import predict_many
from releaf.core.adaptive.engine import MixtureEngine
from releaf.core.adaptive.state import ROWS
from releaf.policies.effects import are_certain

BACKGROUND = 128  # rows over which estimates are averaged
SORTED_ROWS = 1024  # rows of which those are chosen, evenly by their estimates, so that their mean is that of all
SHARE_ROWS = 64  # rows from which the shares in the variance follow
LEAST_SHARE = 0.02  # of the variance that the most important feature has a part in, for another to be named
LEAST_VARIANCE = 1e-8
MOST_NAMED = 5
MOST_SCREENED = 64  # features whose share is found, those with the highest relevance
LEAST_REST = 0.1  # of the deviation of the estimates, for other features to have a term
LEAST_TOGETHER = 0.1  # of the largest main effect, for a pair to have a term of its own

Effects = list[tuple[tuple[int, ...], float]]


class Attribution:
    """Attribution of an action's estimates.

    Parameters
    ----------
    engine
        Engine of that action alone.
    named
        Features with a term of their own, as an earlier attribution found them; None to find them.
    """

    def __init__(self, engine: MixtureEngine, named: tuple[int, ...] | None = None) -> None:
        (sample,), self._engine = engine.samples, engine
        count = int(sample.counts[ROWS])
        self.base_rate = float(sample.rewards[:count].mean()) if count else float(sample.offsets[0])
        chosen = np.sort(np.argsort(sample.keys[:count], kind="stable")[:SORTED_ROWS])  # keys are random
        self._background = self._evenly_by_estimate(sample.contexts[chosen].astype(np.float64))
        self._named = named

    @property
    def named(self) -> tuple[int, ...]:
        """Features with a term of their own."""
        if self._named is None:
            self._named = self._important_features()
        return self._named

    def effects(self, context: Array) -> tuple[float, Effects]:
        """Estimate of a context, and effects by features that add up to it less the base rate, the largest first."""
        estimate = float(self._predict(context[None, :])[0])
        if not len(self._background):
            return estimate, _sorted([((), estimate - self.base_rate)])
        named = self.named
        subsets = [(), *((i,) for i in named), *combinations(named, 2)]
        value = dict(zip(subsets, self._means(context, subsets), strict=True))
        terms: dict[tuple[int, ...], float] = {(i,): value[(i,)] - value[()] for i in named}
        least = LEAST_TOGETHER * max(map(abs, terms.values()), default=0.0)
        for one, other in combinations(named, 2):
            joint = value[(one, other)] - value[(one,)] - value[(other,)] + value[()]
            if abs(joint) > least or len(named) == 2:
                terms[(one, other)] = joint
        rest = value[()] - self.base_rate
        if abs(rest) > LEAST_REST * float(self._predict(self._background).std()):
            terms[()] = rest
        terms[named] = terms.get(named, 0.0) + estimate - self.base_rate - sum(terms.values())
        return estimate, _sorted(list(terms.items()))

    def _evenly_by_estimate(self, rows: Array) -> Array:
        """Some of the rows, in their order: evenly spaced if sorted by their estimates."""
        if len(rows) <= BACKGROUND:
            return rows
        spaced = ((np.arange(BACKGROUND) + 0.5) * len(rows) / BACKGROUND).astype(int)
        chosen: Array = rows[np.sort(np.argsort(self._predict(rows), kind="stable")[spaced])]
        return chosen

    def _important_features(self) -> tuple[int, ...]:
        """Features with a share in the variance of the estimate (total Sobol index), by exchange of values of rows."""
        rows = self._background[:SHARE_ROWS]
        model = self._engine.models[0]
        certain = np.flatnonzero(are_certain(model.certainties[None, :])[0])
        screened = certain[np.argsort(-model.strengths[certain], kind="stable")][:MOST_SCREENED]
        if len(rows) < 2 or not len(screened):
            return ()
        estimates, others = self._predict(rows), np.roll(rows, 1, axis=0)
        exchanged = np.repeat(rows[None], len(screened), axis=0)
        for place, feature in enumerate(screened):
            exchanged[place, :, feature] = others[:, feature]
        changes = self._predict(exchanged.reshape(-1, rows.shape[1])).reshape(len(screened), -1) - estimates
        shares = (changes**2).mean(axis=1)
        least = max(LEAST_SHARE * shares.max(), LEAST_VARIANCE)
        named = [place for place in np.argsort(-shares, kind="stable") if shares[place] >= least]
        return tuple(sorted(int(screened[place]) for place in named[:MOST_NAMED]))

    def _means(self, context: Array, subsets: list[tuple[int, ...]]) -> list[float]:
        """Mean estimate over the background, for each subset of named features that have the context's values."""
        rows = np.tile(context, (len(subsets), len(self._background), 1))
        for place, subset in enumerate(subsets):
            others = [feature for feature in self.named if feature not in subset]
            rows[place][:, others] = self._background[:, others]
        predicted = self._predict(rows.reshape(-1, rows.shape[2])).reshape(len(subsets), -1)
        return [float(mean) for mean in predicted.mean(axis=1)]

    def _predict(self, contexts: Array) -> Array:
        estimates = np.empty((len(contexts), 1))
        predict_many(self._engine.state.pointer_table, np.ascontiguousarray(contexts), estimates)
        return estimates[:, 0]


def _sorted(terms: Effects) -> Effects:
    return sorted(terms, key=lambda term: -abs(term[1]))
