"""Relevance, effects and explanations of AdaptiveReleaf, in the features' own units."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.decision_step import predict_many, predict_with_columns
from releaf.core.adaptive.engine import MixtureEngine
from releaf.core.adaptive.state import (
    ADDITIVE,
    FIRST,
    NO_FEATURE,
    SECOND,
    START,
    UNLIKE,
    WIDTH,
)
from releaf.decision import ActionName, Decision
from releaf.features import MISSING, Quantile
from releaf.inspection import Effect
from releaf.schema import Encoder, Schema
from releaf.statistics import Z95

LEAST_SHARE = 0.05  # of the explained variance, for a feature to be named
LEAST_CERTAINTY = 0.99  # of all named features of an action together
SHOWN = 3  # parts of an estimate, the largest
LEAST_SHOWN = 0.005  # of the reward's range
LEAST_REST = 0.002  # so that what is shown adds up to the estimate
AVERAGED = 256  # most contexts over which an effect is averaged
POINTS = 17  # of an effect, evenly spaced, besides the knots


class Relevance(NamedTuple):
    """A relevant feature of an action: its share of the explained variance, and the certainty of its relevance."""

    feature: str
    share: float
    certainty: float


class Contribution(NamedTuple):
    """Contribution of a feature, or of a pair, to an action's estimate for one context."""

    features: tuple[int, ...]
    amount: float  # in reward
    where: str


def relevant_features(strengths: Array, certainties: Array) -> list[tuple[int, ...]]:
    """Features of each action with a sufficient share and certainty, in their order."""
    total = strengths.sum(axis=1, keepdims=True)
    certain = certainties >= 1.0 - (1.0 - LEAST_CERTAINTY) / strengths.shape[1]
    named = certain & (strengths >= LEAST_SHARE * total) & (total > 0)
    return [tuple(np.flatnonzero(row).tolist()) for row in named]


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
    """Values to evaluate: all categories; or numbers in the observed range with its knots, and the missing value."""
    feature = schema.features[position]
    if feature.categories:
        units: Array = (np.arange(feature.categories) + 0.5) / feature.categories
        return units
    present = came[came != MISSING]
    low, high = (present.min(), present.max()) if len(present) else (0.0, 1.0)
    knots = np.concatenate([model.knots[position, : model.levels[position]] for model in engine.models])
    inside = np.unique(np.concatenate([np.linspace(low, high, POINTS), knots[(knots > low) & (knots < high)]]))
    return inside if len(present) == len(came) else np.append(inside, MISSING)


def explanation(
    choice: Decision,
    engine: MixtureEngine,
    encoder: Encoder,
    actions: tuple[ActionName, ...],
    reward_range: tuple[float, float],
) -> str:
    """One line for the decision, then each action's estimate and the contributions that add up to it."""
    low, span = reward_range[0], reward_range[1] - reward_range[0]
    breakdowns = [_breakdown(engine, choice.context, action, encoder) for action in range(len(actions))]
    order = sorted(range(len(actions)), key=lambda action: -breakdowns[action].mean)
    hopeful = breakdowns[choice.index].highest >= breakdowns[order[0]].mean
    equal = [action for action in order if breakdowns[action].mean == breakdowns[order[0]].mean]
    lines = [_headline(choice, actions, equal, hopeful)]
    digits = max(0, 3 - len(f"{span:.0f}") + 1)
    for action in order:
        breakdown = breakdowns[action]
        mean, lowest, highest, usual = (
            f"{low + span * value:.{digits}f}"
            for value in (breakdown.mean, breakdown.lowest, breakdown.highest, breakdown.usual)
        )
        lines.append(f"  {actions[action]!r}: {mean} (95 % from {lowest} to {highest})")
        amounts = [(f"{span * part.amount:+.{digits}f}", part.where) for part in breakdown.parts]
        width = max(len(text) for text in (usual, *(amount for amount, _ in amounts)))
        lines += [f"    {usual:>{width}}  usually"]
        lines += [f"    {amount:>{width}}  {where}" for amount, where in amounts]
    lines.append("The reward is wanted." if choice.wants_reward else "No reward was asked for.")
    return "\n".join(lines)


def _headline(choice: Decision, actions: tuple[ActionName, ...], best: list[int], hopeful: bool) -> str:
    chance = "" if choice.probability is None else f", with probability {choice.probability:.3g}"
    chose = f"Decision {choice.id} chose {choice.action!r}{chance}"
    if choice.index in best:
        why = "its estimated reward is the highest" if len(best) == 1 else "no other is estimated higher"
        return f"{chose}: {why}."
    why = "its reward could be higher" if hopeful else "each action is tried now and then"
    return f"{chose}: {actions[best[0]]!r} is estimated higher, but {why}."


class EstimateBreakdown(NamedTuple):
    """An action's estimate for one context, its credible interval, the baseline, and the contributions to it."""

    mean: float
    lowest: float
    highest: float
    usual: float
    parts: list[Contribution]


def _breakdown(engine: MixtureEngine, context: Array, action: int, encoder: Encoder) -> EstimateBreakdown:
    model = engine.models[action]
    columns = np.zeros(len(model.weights))
    mean, spread = predict_with_columns(engine.state.pointer_table, np.array(context), action, columns)
    moves = model.weights * (columns - model.typical)
    merged: dict[tuple[int, ...], float] = {}
    for table in model.tables:
        features = tuple(int(position) for position in table[[FIRST, SECOND]] if position != NO_FEATURE)
        move = moves[table[START] : table[START] + table[WIDTH]].sum()
        merged[features] = merged.get(features, 0.0) + float(move)
    for position, effect in _wide_effects(engine, context, action).items():
        merged[(position,)] = effect
    merged[()] = float(moves[UNLIKE])  # the out-of-range column
    usual = float(engine.state.predictions[action, ADDITIVE]) - sum(merged.values())
    usual = min(max(usual, 0.0), 1.0)
    ranked = sorted(merged.items(), key=lambda entry: -abs(entry[1]))
    parts = [
        Contribution(features, move, _where(engine, context, action, encoder, features))
        for features, move in ranked[:SHOWN]
        if abs(move) >= LEAST_SHOWN
    ]
    rest = mean - usual - sum(part.amount for part in parts)
    if abs(rest) >= LEAST_REST:
        parts.append(Contribution((), rest, "all else together"))
    lowest, highest = (min(max(mean + width * spread, 0.0), 1.0) for width in (-Z95, Z95))
    return EstimateBreakdown(mean, lowest, highest, usual, parts)


def _wide_effects(engine: MixtureEngine, context: Array, action: int) -> dict[int, float]:
    """Effect of the context's category, for each feature whose categories have no column."""
    settings, model, found = engine.settings, engine.models[action], {}
    for position in np.flatnonzero(settings.effects).tolist():
        category = int(context[position] * settings.categories[position]) % int(settings.effects[position])
        found[position] = float(model.effect_means[settings.first_effect[position] + category])
    return found


def _where(engine: MixtureEngine, context: Array, action: int, encoder: Encoder, features: tuple[int, ...]) -> str:
    if not features:
        return "values outside the range of all before"
    return " and ".join(
        f"{encoder.schema.names[position]} {_interval(engine, float(context[position]), action, encoder, position)}"
        for position in features
    )


def _interval(engine: MixtureEngine, value: float, action: int, encoder: Encoder, position: int) -> str:
    """Knots around a value, or its category, in the feature's units."""
    feature = encoder.schema.features[position]
    if value == MISSING and not feature.categories:
        return "missing"
    if feature.categories:
        category = int(value * feature.categories)
        return feature.describe(category / feature.categories, (category + 1) / feature.categories)
    model = engine.models[action]
    knots = model.knots[position, : model.levels[position]]
    above = int(np.clip(np.searchsorted(knots, value), 1, len(knots) - 1))
    low, high = float(knots[above - 1]), float(knots[above])
    if isinstance(feature, Quantile):
        return f"from {encoder.from_unit(position, low):.4g} to {encoder.from_unit(position, high):.4g}"
    return feature.describe(low, high)
