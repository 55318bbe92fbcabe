"""Explanations of AdaptiveReleaf: estimates with intervals, the terms they consist of, and a counterfactual."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.engine import MixtureEngine
from releaf.core.adaptive.intervals import RewardIntervals
from releaf.core.adaptive.state import LEARNT, Model
from releaf.decision import ActionName, Decision
from releaf.explanation import ActionExplanation, Counterfactual, Explanation, Term
from releaf.features import MISSING
from releaf.policies.attribution import Attribution, Named
from releaf.policies.counterfactual import Change, smallest_change
from releaf.schema import Encoder
from releaf.statistics import Z95

_Range = tuple[float, float]


class _Known(NamedTuple):
    """What is kept of an action's explanations until its model is replaced."""

    model: Model
    named: Named
    intervals: RewardIntervals


class Explainer:
    """Explains the decisions of a learner; it keeps what takes long until a model is replaced."""

    def __init__(self) -> None:
        self._known: dict[ActionName, _Known] = {}
        self._lock = threading.Lock()  # explanations of two threads would use the same arrays

    def prepared(self, engine: MixtureEngine, actions: tuple[ActionName, ...]) -> list[MixtureEngine]:
        """Engines of each action, and of all: what an explanation needs of a learner that goes on."""
        everything = list(range(len(actions)))
        engine.relevance()  # which all of them share
        return [
            engine.with_actions(engine.settings, kept) for kept in (*([action] for action in everything), everything)
        ]

    def explain(
        self,
        choice: Decision,
        engines: list[MixtureEngine],
        encoder: Encoder,
        actions: tuple[ActionName, ...],
        reward_range: _Range,
        is_preview: bool,
    ) -> Explanation:
        """Explain a decision, by the state of the learner that ``prepared`` returned."""
        context = np.array(choice.context)
        with self._lock:
            found = [
                self._explain_action(name, engine, context, encoder, reward_range)
                for name, engine in zip(actions, engines, strict=False)
            ]
            self._known = {name: known for name, known in self._known.items() if name in actions}
        found.sort(key=lambda known: -float(known.estimate or 0.0))
        return Explanation(
            choice.action,
            tuple(found),
            _headline(choice, found, is_preview),
            "The reward is wanted." if choice.wants_reward else "No reward was asked for.",
            self._counterfactual(engines[-1], context, encoder, actions, found[0].action),
            reward_range,
        )

    def _explain_action(
        self, name: ActionName, engine: MixtureEngine, context: Array, encoder: Encoder, reward_range: _Range
    ) -> ActionExplanation:
        known = self._known.get(name)
        if known is None or not known.intervals.is_of(engine):
            intervals = RewardIntervals(engine)
            intervals.prepare()
            known = self._known[name] = _Known(engine.models[0], Attribution(engine).named, intervals)
        attribution, (lowest, highest) = Attribution(engine, known.named), reward_range
        span = highest - lowest
        estimate, effects = attribution.effects(context)
        unknown = known.intervals.unknown(context, known.named.features)
        width = 1.0 if unknown else Z95 * known.intervals.deviation(context)
        return ActionExplanation(
            name,
            lowest + span * estimate,
            lowest + span * max(estimate - width, 0.0),
            lowest + span * min(estimate + width, 1.0),
            lowest + span * attribution.base_rate,
            int(engine.samples[0].counts[LEARNT]),
            tuple(
                Term(
                    tuple(encoder.schema.names[i] for i in features), span * effect, _where(encoder, context, features)
                )
                for features, effect in effects
            ),
            tuple(encoder.schema.names[feature] for feature in unknown),
        )

    def _counterfactual(
        self,
        engine: MixtureEngine,
        context: Array,
        encoder: Encoder,
        actions: tuple[ActionName, ...],
        leader: ActionName,
    ) -> Counterfactual | None:
        if len(actions) < 2:
            return None
        strengths = np.stack([model.strengths for model in engine.models]).max(axis=0)
        order = np.argsort(-strengths, kind="stable")
        change = smallest_change(engine, context, actions.index(leader), order)
        if change is None:
            return None
        value, name = encoder.from_unit(change.feature, change.value), encoder.schema.names[change.feature]
        text = (
            f"With {_changed(encoder, context, change, value)}, {actions[change.action]!r} would be estimated highest."
        )
        return Counterfactual(name, value, actions[change.action], text)


def _headline(choice: Decision, found: list[ActionExplanation], is_preview: bool) -> str:
    chance = "" if choice.probability is None else f", with probability {choice.probability:.3g}"
    chose = f"It would choose {choice.action!r}" if is_preview else f"Decision {choice.id} chose {choice.action!r}"
    best = [known.action for known in found if known.estimate == found[0].estimate]
    if choice.action in best:
        why = "its estimated reward is the highest" if len(best) == 1 else "no other is estimated higher"
        return f"{chose}{chance}: {why}."
    own = next(known for known in found if known.action == choice.action)
    hopeful = own.high is not None and found[0].estimate is not None and own.high >= found[0].estimate
    why = "its reward could be higher" if hopeful else "each action is tried now and then"
    return f"{chose}{chance}: {best[0]!r} is estimated higher, but {why}."


def _where(encoder: Encoder, context: Array, features: tuple[int, ...]) -> str:
    return " and ".join(_value_text(encoder, position, float(context[position])) for position in features)


def _value_text(encoder: Encoder, position: int, unit: float) -> str:
    name, value = encoder.schema.names[position], encoder.from_unit(position, unit)
    if unit == MISSING or value is None:
        return f"{name} missing"
    return f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"


def _changed(encoder: Encoder, context: Array, change: Change, value: object) -> str:
    name = encoder.schema.names[change.feature]
    if isinstance(value, float):
        beyond = "above" if change.value > context[change.feature] else "below"
        return f"{name} {beyond} {value:.4g}"
    return f"{name} missing" if value is None else f"{name} = {value}"
