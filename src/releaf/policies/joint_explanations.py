"""Relevance and explanations of a joint regression."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.joint.columns import ABSENT, FEATURE, KIND, lay_out_rows
from releaf.core.joint.decision_step import CENTRE
from releaf.core.joint.state import Joint
from releaf.core.runtime.primitives import TIME
from releaf.decision import ActionName, Decision
from releaf.explanation import ActionExplanation, Explanation, Term
from releaf.policies.context_values import ContextValues, value_text
from releaf.schema import Encoder, Schema
from releaf.statistics import Z95

MOST_EXPLAINED = 32  # actions: those with the highest estimates, and the chosen one; the others have estimates only
MOST_TERMS = 12  # of an action; the others are one term
ITSELF = "the action itself, beyond its features"


def _column_variances(state: Joint) -> Array:
    """Variance of each column of a context over the contexts so far."""
    mean, square = state.seen / max(int(state.clock[TIME]), 1)
    return np.asarray(np.maximum(square - mean**2, 0.0))


def _groups_of(state: Joint, action_layout: Array) -> Array:
    """Features of the terms (2 × terms): of the context, and of the action."""
    contexts, actions = state.layout_of_context[:, FEATURE], action_layout[:, FEATURE]
    return np.stack([contexts[state.term_context], actions[state.term_action]])


def shares_by_action(state: Joint, features: int) -> Array:
    """Share of each feature of the context in the variance of each action's estimate."""
    width = len(state.columns)
    weights = np.zeros((width, state.profiles.shape[1]))
    weights[state.term_context, state.term_action] = state.weights
    slopes = state.profiles @ weights.T  # A × columns of the context
    parts = slopes**2 * _column_variances(state)
    shares = np.zeros((len(parts), features))
    for column in range(1, width):
        shares[:, state.layout_of_context[column, FEATURE]] += parts[:, column]
    total = shares.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(shares, total, out=np.zeros_like(shares), where=total > 0.0))


def cross_shares(state: Joint, features: int, action_layout: Array) -> Array:
    """Share of each pair of features, and of the actions' effects, in the variance of the estimates."""
    if not len(state.profiles):
        return np.zeros((features + 1, int(action_layout[:, FEATURE].max()) + 3))
    seen = max(int(state.clock[TIME]), 1)
    squares = (state.seen[1] / seen)[state.term_context] * (state.profiles**2).mean(axis=0)[state.term_action]
    means = (state.seen[0] / seen)[state.term_context] * state.profiles.mean(axis=0)[state.term_action]
    parts = state.weights**2 * np.maximum(squares - means**2, 0.0)
    shares = np.zeros((features + 1, int(action_layout[:, FEATURE].max()) + 3))
    groups = _groups_of(state, action_layout) + 1
    np.add.at(shares, (groups[0], groups[1]), np.where(groups.max(axis=0) > 0, parts, 0.0))
    shares[0, -1] = state.effects.var()
    total = shares.sum()
    return shares / total if total > 0.0 else shares


class JointModel(NamedTuple):
    """What an explanation takes from a policy: state, layout of the actions' columns, features, and actions."""

    state: Joint
    action_layout: Array
    encoder: Encoder
    action_features: Schema | None
    names: tuple[ActionName, ...]
    places: dict[ActionName, int]
    reward_range: tuple[float, float]
    steps: int


def explain_joint(
    model: JointModel, choice: Decision, is_preview: bool, is_pending: bool, estimates: Array, spreads: Array
) -> Explanation:
    """Explain a decision by estimates, and their standard deviations, of all actions in its context now."""
    pool = [model.places[name] for name in choice.eligible or model.names if name in model.places]
    pool.sort(key=lambda place: -estimates[place])
    chosen = model.places.get(choice.action)
    explained = {*pool[:MOST_EXPLAINED], *([] if chosen is None else [chosen])}
    low, high = model.reward_range
    found = []
    for place in pool:
        if place in explained:
            found.append(_explain_action(model, place, choice, float(estimates[place]), float(spreads[place])))
        else:
            estimate, count = low + (high - low) * float(estimates[place]), int(model.state.counts[place])
            found.append(ActionExplanation(model.names[place], estimate, None, None, None, count, ()))
    headline, closing = _headline(choice, is_preview, found), _closing(choice, model.steps, is_pending or is_preview)
    return Explanation(choice.action, tuple(found), headline, closing, None, model.reward_range)


def _explain_action(
    model: JointModel, place: int, choice: Decision, estimate: float, spread: float
) -> ActionExplanation:
    """Terms of an action's estimate, one for each pair of features; they add up to it less the base rate."""
    state, (low, high) = model.state, model.reward_range
    span, profile = high - low, state.profiles[place]
    columns = np.empty((1, len(state.columns)))
    lay_out_rows(state.layout_of_context, np.array(choice.context)[None, :], columns)
    products = state.weights * columns[0, state.term_context] * profile[state.term_action]
    effects: dict[tuple[int, int], float] = {}
    for pair, product in zip(_groups_of(state, model.action_layout).T.tolist(), products.tolist(), strict=True):
        effects[tuple(pair)] = effects.get(tuple(pair), 0.0) + product
    base = CENTRE + effects.pop((-1, -1))
    listed = sorted(effects.items(), key=lambda term: -abs(term[1]))
    terms = [_term(model, place, choice, pair, span * effect) for pair, effect in listed[:MOST_TERMS]]
    rest = sum(effect for _, effect in listed[MOST_TERMS:]) + float(state.effects[place])
    terms.append(Term((), span * rest, ITSELF if len(listed) <= MOST_TERMS else f"{ITSELF}, and everything else"))
    return ActionExplanation(
        model.names[place],
        low + span * estimate,
        low + span * max(estimate - Z95 * spread, 0.0),
        low + span * min(estimate + Z95 * spread, 1.0),
        low + span * base,
        int(state.counts[place]),
        tuple(sorted(terms, key=lambda term: -abs(term.effect))),
        base_rate_of="all actions in all contexts",
    )


def _term(model: JointModel, place: int, choice: Decision, pair: tuple[int, int], effect: float) -> Term:
    """The term of a feature of the context, of one of the action, or of both."""
    of_context, of_action = pair
    names, texts = [], []
    if of_context >= 0:
        names.append(model.encoder.schema.names[of_context])
        texts.append(ContextValues(model.encoder, np.array(choice.context), {}).text_of((of_context,)))
    if of_action >= 0 and model.action_features is not None:
        names.append(model.action_features.names[of_action])
        texts.append(_text_of_action(model, place, of_action))
    return Term(tuple(names), effect, " and ".join(texts))


def _text_of_action(model: JointModel, place: int, feature: int) -> str:
    """Name and value of a feature of an action, read off its columns."""
    assert model.action_features is not None
    profile, layout = model.state.profiles[place], model.action_layout
    name, count = model.action_features.names[feature], model.action_features.features[feature].categories
    own = np.flatnonzero(layout[:, FEATURE] == feature)
    if count:
        unit = (float(np.argmax(profile[own])) + 0.5) / count
    elif any(layout[place, KIND] == ABSENT and profile[place] == 1.0 for place in own):
        return f"{name} missing"
    else:
        unit = (float(profile[own[0]]) + 1.0) / 2.0
    value = model.action_features.encoder().from_unit(feature, unit)
    return f"{name} missing" if value is None else f"{name} = {value_text(value)}"


def _headline(choice: Decision, is_preview: bool, found: list[ActionExplanation]) -> str:
    chance = "" if choice.probability is None else f", with probability {choice.probability:.3g}"
    chose = f"It would choose {choice.action!r}" if is_preview else f"Decision {choice.id} chose {choice.action!r}"
    if choice.slate is not None:
        chose += f" first of {len(choice.slate)}"
    if found and choice.action == found[0].action:
        return f"{chose}{chance}: its estimated reward is the highest."
    best = f"{found[0].action!r} is estimated higher, but " if found else ""
    return f"{chose}{chance}: {best}its reward could be higher."


def _closing(choice: Decision, steps: int, is_pending: bool) -> str:
    closing = "The reward is wanted." if is_pending else "Its reward is known, or no longer awaited."
    later = steps - choice.id
    if later <= 0:
        return closing
    return f"{closing} The estimates are those of now, {later:,} decision{'s' if later > 1 else ''} later."
