"""Explanations of AdaptiveReleaf: estimates with intervals, the terms they consist of, and a counterfactual."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.decision_step import predict_many
from releaf.core.adaptive.engine import MixtureEngine
from releaf.core.adaptive.intervals import RewardIntervals
from releaf.core.adaptive.state import ROWS
from releaf.core.runtime.primitives import TIME
from releaf.decision import ActionName, Decision
from releaf.explanation import ActionExplanation, Counterfactual, Explanation, Term
from releaf.policies.attribution import Attribution
from releaf.policies.context_values import ContextValues
from releaf.policies.counterfactual import smallest_change
from releaf.policies.effects import are_certain
from releaf.policies.eligibility import was_eligible
from releaf.schema import Encoder
from releaf.statistics import Z95

MOST_EXPLAINED = 32  # actions: those with the highest estimates, and the chosen one; the others have estimates only
_Range = tuple[float, float]


class _Known(NamedTuple):
    """What is kept of an action's explanations until its model is replaced."""

    named: tuple[int, ...]
    intervals: RewardIntervals


class Prepared(NamedTuple):
    """What an explanation takes from a learner under its lock; the learner may go on meanwhile.

    ``explained`` are the positions of the actions that the lists are of.
    """

    explained: list[int]
    attributions: list[Attribution]
    intervals: list[RewardIntervals]
    engines: list[MixtureEngine]
    everything: MixtureEngine
    estimates: Array
    actions: tuple[ActionName, ...]
    steps: int


class Explainer:
    """Explains the decisions of a learner; it keeps what takes long until a model is replaced."""

    def __init__(self) -> None:
        self._known: dict[ActionName, _Known] = {}
        self._lock = threading.Lock()  # explanations of two threads would use the same arrays

    def prepare(self, engine: MixtureEngine, actions: tuple[ActionName, ...], choice: Decision) -> Prepared:
        """Copy the rows and states that explanations need. Called under the learner's lock."""
        engine.relevance()  # which all of them share
        estimates = np.empty((1, len(actions)))
        predict_many(engine.state.pointer_table, np.array(choice.context)[None, :], estimates)
        highest = np.argsort(-estimates[0], kind="stable")[:MOST_EXPLAINED].tolist()
        explained = sorted({*highest, choice.index})
        engines = [engine.with_actions(engine.settings, [action]) for action in explained]
        attributions, intervals = [], []
        for action, single in zip(explained, engines, strict=True):
            known = self._known.get(actions[action])
            is_same = known is not None and known.intervals.model is single.models[0]
            attributions.append(Attribution(single, known.named if known and is_same else None))
            intervals.append(known.intervals if known and is_same else RewardIntervals(single))
        everything = engine.with_actions(engine.settings, list(range(len(actions))))
        steps = int(engine.state.clock[TIME])
        return Prepared(explained, attributions, intervals, engines, everything, estimates[0], actions, steps)

    def explain(
        self,
        choice: Decision,
        prepared: Prepared,
        encoder: Encoder,
        reward_range: _Range,
        given: dict[int, float] | None,
        is_pending: bool,
        cost_weight: float | None = None,
    ) -> Explanation:
        """Explain a decision by the state of the learner that ``prepare`` returned.

        ``given`` are the values of quantile features, if a context is explained; of a decision, their ranks are left.
        ``is_pending`` tells whether its reward is still to come, and ``cost_weight`` what cost counts for.
        """
        context, actions = np.array(choice.context), prepared.actions
        values = ContextValues(encoder, context, given or {})
        with self._lock:
            found = [
                self._explain_action(prepared, place, values, reward_range) for place in range(len(prepared.explained))
            ]
            self._known |= {
                actions[action]: _Known(attribution.named, intervals)
                for action, attribution, intervals in zip(
                    prepared.explained, prepared.attributions, prepared.intervals, strict=True
                )
            }
            self._known = {name: known for name, known in self._known.items() if name in actions}
        found += self._estimates_only(prepared, reward_range)
        found = [_with_cost(known, choice, cost_weight) for known in found]
        found.sort(key=lambda known: -known.net)
        found = [known._replace(eligible=was_eligible(choice, known.action)) for known in found]
        possible = [known for known in found if known.eligible]
        leads = choice.action == possible[0].action
        return Explanation(
            choice.action,
            tuple(found),
            _headline(choice, possible, given is not None),
            _closing(choice, prepared.steps, is_pending or given is not None),
            self._counterfactual(prepared, values, choice) if leads and cost_weight is None else None,
            reward_range,
        )

    def _explain_action(
        self, prepared: Prepared, place: int, values: ContextValues, reward_range: _Range
    ) -> ActionExplanation:
        attribution, intervals = prepared.attributions[place], prepared.intervals[place]
        intervals.use(prepared.engines[place])
        intervals.prepare()
        lowest, highest = reward_range
        span, context, names = highest - lowest, values.context, values.encoder.schema.names
        named = attribution.named
        beyond = {*intervals.unknown(context, named), *values.beyond_all_seen(named)}
        certain = are_certain(prepared.engines[place].models[0].certainties[None, :])[0]
        unknown = sorted(feature for feature in beyond if certain[feature] or not certain.any())
        outside = sorted(beyond.difference(unknown))
        deviation = intervals.deviation(intervals.nearest(context, outside))
        estimate, effects = attribution.effects(context)
        nothing = "" if named else "everything: no feature is certain to matter yet"
        width = 1.0 if unknown else Z95 * deviation
        return ActionExplanation(
            prepared.actions[prepared.explained[place]],
            lowest + span * estimate,
            lowest + span * max(estimate - width, 0.0),
            lowest + span * min(estimate + width, 1.0),
            lowest + span * attribution.base_rate,
            int(prepared.engines[place].samples[0].counts[ROWS]),
            tuple(
                Term(tuple(names[i] for i in features), span * effect, values.text_of(features) or nothing)
                for features, effect in effects
            ),
            tuple(names[feature] for feature in unknown),
            outside=tuple(names[feature] for feature in outside),
        )

    def _estimates_only(self, prepared: Prepared, reward_range: _Range) -> list[ActionExplanation]:
        lowest, highest = reward_range
        found = []
        for action in set(range(len(prepared.actions))).difference(prepared.explained):
            sample = prepared.everything.samples[action]
            rows, own = int(sample.counts[ROWS]), float(prepared.estimates[action])
            base_rate = float(sample.rewards[:rows].mean()) if rows else float(sample.offsets[0])
            estimate, usual = (lowest + (highest - lowest) * share for share in (own, base_rate))
            rest = (Term((), estimate - usual, ""),)
            found.append(ActionExplanation(prepared.actions[action], estimate, None, None, usual, rows, rest))
        return found

    def _counterfactual(self, prepared: Prepared, values: ContextValues, choice: Decision) -> Counterfactual | None:
        kept = [place for place, name in enumerate(prepared.actions) if was_eligible(choice, name)]
        engine, actions, encoder = prepared.everything, prepared.actions, values.encoder
        if len(kept) < 2:
            return None
        if len(kept) < len(actions):
            settings = engine.settings
            engine, actions = engine.with_actions(settings, kept), tuple(actions[place] for place in kept)
        strengths, certainties = engine.relevance()
        certain = np.flatnonzero(are_certain(certainties).any(axis=0))  # others would name noise
        order = certain[np.argsort(-strengths.max(axis=0)[certain], kind="stable")]
        change = smallest_change(engine, encoder, values.context, actions.index(choice.action), order)
        if change is None:
            return None
        name, value = change.input_of(encoder, values.context)
        text = f"With {change.text(encoder, values.context)}, {actions[change.action]!r} would be estimated highest."
        return Counterfactual(name, value, actions[change.action], text)


def _with_cost(known: ActionExplanation, choice: Decision, cost_weight: float | None) -> ActionExplanation:
    """The explanation of an action with its cost in a decision, unless the action is newer than that."""
    if choice.costs is None or cost_weight is None or known.action not in choice._actions:
        return known
    cost = choice.costs[choice._actions.index(known.action)]
    return known._replace(cost=cost, weighted_cost=cost_weight * cost)


def _headline(choice: Decision, found: list[ActionExplanation], is_preview: bool) -> str:
    """Why the decision took its action, among the eligible ones."""
    chance = "" if choice.probability is None else f", with probability {choice.probability:.3g}"
    chose = f"It would choose {choice.action!r}" if is_preview else f"Decision {choice.id} chose {choice.action!r}"
    best = [known.action for known in found if known.net == found[0].net]
    what = "estimated reward" if choice.costs is None else "estimated reward less weighted cost"
    if len(found) == 1 and choice.eligible is not None:
        return f"{chose}{chance}: it {'is' if is_preview else 'was'} the only eligible action."
    among = "" if choice.eligible is None else " of the eligible actions"
    if choice.action in best:
        why = f"its {what} is the highest{among}" if len(best) == 1 else "no other is estimated higher"
        return f"{chose}{chance}: {why}."
    if not choice.explored:
        rest = "" if choice.costs is None else " of those within the budget"
        return f"{chose}{chance}: its {what} was the highest{rest} then; now that of {best[0]!r} is."
    own = next(known for known in found if known.action == choice.action)
    hopeful = own.high is not None and found[0].estimate is not None and own.high - own.weighted_cost >= found[0].net
    why = "its reward could be higher" if hopeful else "each action is tried now and then"
    return f"{chose}{chance}: {best[0]!r} is estimated higher, but {why}."


def _closing(choice: Decision, steps: int, is_pending: bool) -> str:
    closing = "No reward was asked for."
    if choice.wants_reward:
        closing = "The reward is wanted." if is_pending else "Its reward is known, or no longer awaited."
    later = steps - choice.id
    if later <= 0:
        return closing
    return f"{closing} The estimates are those of now, {later:,} decision{'s' if later > 1 else ''} later."
