"""Explanations of AdaptiveReleaf: estimates with intervals, the terms they consist of, and a counterfactual."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.engine import MixtureEngine
from releaf.core.adaptive.intervals import RewardIntervals
from releaf.core.adaptive.state import ROWS
from releaf.decision import ActionName, Decision
from releaf.explanation import ActionExplanation, Counterfactual, Explanation, Term
from releaf.features import MISSING, Quantile
from releaf.policies.attribution import Attribution, Named
from releaf.policies.counterfactual import Change, leaders_at, smallest_change
from releaf.schema import Encoder
from releaf.statistics import Z95

STEPS_OUTWARD = 33  # values at which a counterfactual is tried
_Range = tuple[float, float]


class _Known(NamedTuple):
    """What is kept of an action's explanations until its model is replaced."""

    named: Named
    intervals: RewardIntervals


class Prepared(NamedTuple):
    """What an explanation takes from a learner under its lock; the learner may go on meanwhile."""

    attributions: list[Attribution]
    intervals: list[RewardIntervals]
    engines: list[MixtureEngine]
    everything: MixtureEngine
    actions: tuple[ActionName, ...]


class Explainer:
    """Explains the decisions of a learner; it keeps what takes long until a model is replaced."""

    def __init__(self) -> None:
        self._known: dict[ActionName, _Known] = {}
        self._lock = threading.Lock()  # explanations of two threads would use the same arrays

    def prepare(self, engine: MixtureEngine, actions: tuple[ActionName, ...]) -> Prepared:
        """Copy the rows and states that explanations need. Called under the learner's lock."""
        engine.relevance()  # which all of them share
        engines = [engine.with_actions(engine.settings, [action]) for action in range(len(actions))]
        attributions, intervals = [], []
        for name, single in zip(actions, engines, strict=True):
            known = self._known.get(name)
            is_same = known is not None and known.intervals.model is single.models[0]
            attributions.append(Attribution(single, known.named if known and is_same else None))
            intervals.append(known.intervals if known and is_same else RewardIntervals(single))
        return Prepared(
            attributions, intervals, engines, engine.with_actions(engine.settings, list(range(len(actions)))), actions
        )

    def explain(
        self,
        choice: Decision,
        prepared: Prepared,
        encoder: Encoder,
        reward_range: _Range,
        is_preview: bool,
    ) -> Explanation:
        """Explain a decision, by the state of the learner that ``prepare`` returned."""
        context, actions = np.array(choice.context), prepared.actions
        with self._lock:
            found = [
                self._explain_action(prepared, action, context, encoder, reward_range) for action in range(len(actions))
            ]
            self._known = {
                name: _Known(attribution.named, intervals)
                for name, attribution, intervals in zip(actions, prepared.attributions, prepared.intervals, strict=True)
            }
        found.sort(key=lambda known: -float(known.estimate or 0.0))
        leads = choice.action == found[0].action
        return Explanation(
            choice.action,
            tuple(found),
            _headline(choice, found, is_preview),
            "The reward is wanted." if choice.wants_reward else "No reward was asked for.",
            self._counterfactual(prepared, context, encoder, found[0].action) if leads else None,
            reward_range,
        )

    def _explain_action(
        self, prepared: Prepared, action: int, context: Array, encoder: Encoder, reward_range: _Range
    ) -> ActionExplanation:
        attribution, intervals = prepared.attributions[action], prepared.intervals[action]
        intervals.use(prepared.engines[action])
        intervals.prepare()
        lowest, highest = reward_range
        span = highest - lowest
        estimate, effects = attribution.effects(context)
        unknown = intervals.unknown(context, attribution.named.features)
        width = 1.0 if unknown else Z95 * intervals.deviation(context)
        return ActionExplanation(
            prepared.actions[action],
            lowest + span * estimate,
            lowest + span * max(estimate - width, 0.0),
            lowest + span * min(estimate + width, 1.0),
            lowest + span * attribution.base_rate,
            int(prepared.engines[action].samples[0].counts[ROWS]),
            tuple(
                Term(
                    tuple(encoder.schema.names[i] for i in features), span * effect, _where(encoder, context, features)
                )
                for features, effect in effects
            ),
            tuple(encoder.schema.names[feature] for feature in unknown),
        )

    def _counterfactual(
        self, prepared: Prepared, context: Array, encoder: Encoder, leader: ActionName
    ) -> Counterfactual | None:
        engine, actions = prepared.everything, prepared.actions
        if len(actions) < 2:
            return None
        strengths = np.stack([model.strengths for model in engine.models]).max(axis=0)
        order = np.argsort(-strengths, kind="stable")
        change = smallest_change(engine, context, actions.index(leader), order)
        if change is not None and isinstance(encoder.schema.features[change.feature], Quantile):
            change = _at_an_observed_value(engine, context, encoder, actions.index(leader), change)
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


def _at_an_observed_value(
    engine: MixtureEngine, context: Array, encoder: Encoder, leader: int, change: Change
) -> Change | None:
    """The nearest observed value of a quantile feature at which the change holds: ranks between two are no values."""
    sketch, end = encoder.sketches[change.feature], float(change.value > context[change.feature])
    for rank in np.linspace(change.value, end, STEPS_OUTWARD):
        unit = float(sketch.rank(sketch.value(float(rank))))
        action = int(leaders_at(engine, context, change.feature, np.array([unit]))[0])
        if action != leader:
            return change._replace(value=unit, action=action)
    return None


def _changed(encoder: Encoder, context: Array, change: Change, value: object) -> str:
    name = encoder.schema.names[change.feature]
    feature = encoder.schema.features[change.feature]
    if isinstance(feature, Quantile):
        return f"{name} = {value:.4g}"
    if isinstance(value, float) and not feature.categories:
        beyond = "above" if change.value > context[change.feature] else "below"
        return f"{name} {beyond} {value:.4g}"
    return f"{name} missing" if value is None else f"{name} = {value}"
