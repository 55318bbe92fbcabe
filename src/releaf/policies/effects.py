"""Relevance and effects of AdaptiveReleaf, in the features' own units."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.decision_step import predict_many
from releaf.core.adaptive.engine import MixtureEngine
from releaf.core.adaptive.state import ROWS
from releaf.features import MISSING
from releaf.inspection import Effect
from releaf.schema import Encoder, Schema

LEAST_SHARE = 0.05  # of the explained variance, for a feature to be named
LEAST_CERTAINTY = 0.99  # of all named features of an action together
AVERAGED = 256  # most contexts over which an effect is averaged
POINTS = 17  # of an effect, evenly spaced, besides the knots


class Relevance(NamedTuple):
    """A relevant feature of an action: its share of the explained variance, and the certainty of its relevance.

    ``certainty`` is 1 less the p-value of the hypothesis that the action does not depend on the feature, which is not
    the probability that it does. A feature of pure noise reaches 0.999 in about four of a thousand cases.
    ``explained`` is the share of the variance of the action's reward that it explains.
    """

    feature: str
    share: float
    certainty: float
    explained: float = 0.0


def relevant_features(strengths: Array, certainties: Array) -> list[tuple[int, ...]]:
    """Features of each action with a sufficient share and certainty, in their order."""
    total = strengths.sum(axis=1, keepdims=True)
    named = are_certain(certainties) & (strengths >= LEAST_SHARE * total) & (total > 0)
    return [tuple(np.flatnonzero(row).tolist()) for row in named]


def are_certain(certainties: Array) -> Array:
    """Which features are relevant to which actions with sufficient certainty."""
    certain: Array = certainties >= 1.0 - (1.0 - LEAST_CERTAINTY) / certainties.shape[1]
    return certain


def explained_shares(engine: MixtureEngine, strengths: Array) -> Array:
    """Share of the variance of each action's rewards that each feature explains; 1 for all together at most."""
    rewards = [sample.rewards[: int(sample.counts[ROWS])] for sample in engine.samples]
    variances = np.array([own.var() if len(own) > 1 else 0.0 for own in rewards])[:, None]
    most = np.maximum(variances, strengths.sum(axis=1, keepdims=True))  # contexts differ from those of the rewards
    shares: Array = np.divide(strengths, most, out=np.zeros_like(strengths), where=most > 0)
    return shares


def effects(engine: MixtureEngine, encoder: Encoder, position: int, span: float) -> list[list[Effect]]:
    """Partial dependence of each action's estimate on a feature, averaged over observed contexts."""
    state = engine.state
    came = state.seen[: int(state.seen_counts[0])]
    contexts = came[:: max(1, -(-len(came) // AVERAGED))].astype(np.float64)
    units = _values_shown(engine, encoder.schema, position, contexts[:, position])
    tried = np.tile(contexts, (len(units), 1))
    tried[:, position] = np.repeat(units, len(contexts))
    values = [encoder.from_unit(position, float(unit)) for unit in units]
    usual, there = (np.empty((len(rows), len(state.estimates))) for rows in (contexts, tried))
    predict_many(state.pointer_table, contexts, usual)
    predict_many(state.pointer_table, tried, there)
    moves = there.reshape(len(units), len(contexts), len(state.estimates)) - usual
    amounts = moves.mean(axis=1) if len(contexts) else np.zeros((len(units), len(state.estimates)))
    return [
        [Effect(value, span * float(amount)) for value, amount in zip(values, column, strict=True)]
        for column in amounts.T
    ]


def _values_shown(engine: MixtureEngine, schema: Schema, position: int, came: Array) -> Array:
    """Values to evaluate: all categories; or numbers in the observed range with its knots. Missing only if it came."""
    feature = schema.features[position]
    if feature.categories:
        units: Array = (np.arange(feature.categories) + 0.5) / feature.categories
        gone = feature.missing and not (came * feature.categories >= feature.categories - 1).any()
        return units[:-1] if gone else units
    present = came[came != MISSING]
    low, high = (present.min(), present.max()) if len(present) else (0.0, 1.0)
    knots = np.concatenate([model.knots[position, : model.levels[position]] for model in engine.models])
    inside = np.unique(np.concatenate([np.linspace(low, high, POINTS), knots[(knots > low) & (knots < high)]]))
    return inside if len(present) == len(came) else np.append(inside, MISSING)
