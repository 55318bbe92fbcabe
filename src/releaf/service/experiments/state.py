"""State of an experiment: the learner in charge, its shadows, and the pending decisions.

Every change is an event. The methods named after requests validate the request, change the state, and return the event
for the log; ``apply`` replays an event of the log. Both lead to the same state, bit for bit.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from itertools import count, repeat
from typing import Any, cast

from releaf.decision import ActionName, Decision
from releaf.policies.action_table_policy import ActionTablePolicy
from releaf.policy import ServedPolicy
from releaf.service.errors import ApiError, invalid_request
from releaf.service.experiments.action_history import ActionHistory, Reward
from releaf.service.experiments.counters import ExperimentCounters
from releaf.service.experiments.idempotency import IdempotencyKeys
from releaf.service.experiments.learner_slot import LearnerSlot, action_names, deserialize_learner, serialize_learner
from releaf.service.experiments.pending_decisions import NotPending, PendingDecision, PendingDecisions
from releaf.service.experiments.shadow_estimate import ShadowEstimate
from releaf.service.experiments.time_series import OTHERS, TimeSeries
from releaf.service.log import events
from releaf.service.log.events import (
    AnyEvent,
    Decided,
    EligibleActions,
    ExperimentAction,
    Expired,
    LogEvent,
    Rewarded,
)
from releaf.service.many_actions import ManyActions
from releaf.service.messages import Counts, NewExperiment, PolicySpec, RetentionRules
from releaf.service.store.base import RewardRow
from releaf.service.timestamps import format_timestamp
from releaf.table import ordered_values

MAX_ACTIONS = 1000
MAX_SHADOWS = 16  # each takes as much time as the policy in charge
FORMER = "former"  # name of the shadow that was in charge before a promotion
MARKED: dict[type[LogEvent], str] = {  # named as in the audit log
    events.ActionAdded: "add_action",
    events.ActionRemoved: "remove_action",
    events.ShadowAdded: "add_shadow",
    events.ShadowRemoved: "remove_shadow",
    events.Promoted: "promote",
    events.Retired: "retire",
    events.RetentionSet: "set_retention",
}


class ExperimentState:
    """State of an experiment, in memory.

    Parameters
    ----------
    spec
        The experiment as created.
    learner
        The first learner in charge.
    """

    def __init__(self, spec: NewExperiment, learner: ServedPolicy) -> None:
        self.spec = spec
        self.slot = LearnerSlot("", spec.policy, learner, 0)
        self.shadows: list[LearnerSlot] = []
        self.counters = ExperimentCounters()
        self.pending = PendingDecisions()
        self.keys = IdempotencyKeys()
        self.series = TimeSeries(points=[], since=0, markers=[])
        self.actions = ActionHistory([(0, action_names(learner))])
        self.gaps: list[tuple[int, int]] = []  # (last decision before a gap, count of skipped numbers)
        self.last_at = 0.0
        self.retired = False
        self.retention = spec.retention
        self.diverged: int | None = None  # first decision for which a replay chose another action than the log has
        self.has_requested_actions = False  # whether actions came with a request: later events name all eligible ones
        self.rows_erased = 0  # contexts that the latest erasure removed from learners
        self.outcomes: list[RewardRow] = []  # since the last call of take_outcomes

    @property
    def learner(self) -> ServedPolicy:
        """The learner in charge."""
        return self.slot.learner

    @property
    def decisions(self) -> int:
        """Number of the latest decision."""
        return self.counters.decisions

    def is_pending(self, decision: int) -> bool:
        """Whether a decision waits for its reward."""
        return decision in self.pending

    # --- requests -----------------------------------------------------------------------------------------------

    def decide(
        self,
        contexts: Sequence[Any],
        keys: Sequence[str | None],
        at: float,
        eligible: EligibleActions | None = None,
        subjects: Iterable[str | None] | None = None,
        many: ManyActions | None = None,
    ) -> list[Decided]:
        """Decide for each context, among its eligible actions; invalid input raises before the first decision.

        ``subjects`` are keyed hashes. ``many``, which goes with one context, has the actions of the request, and the
        size of the slate.
        """
        self._require_not_retired()
        if many is not None:
            self._require_many_actions(many)
        if self.learner.observation_mode != "never":
            self.pending.require_capacity_for(len(contexts), self.spec)
        rows = self.to_rows(contexts)
        try:
            choices = _decide(self.learner, rows, eligible, many)
        except (ValueError, TypeError, OverflowError) as error:
            raise invalid_request(str(error)) from None
        shadow_choices = self._shadow_choices(rows, eligible)
        is_open = self.has_requested_actions or (many is not None and many.actions is not None)
        everyone = tuple(self.learner.actions) if is_open else None
        made = [
            Decided.of(at, number, row, choice, key, others, subject, many, everyone)
            for number, row, choice, key, others, subject in zip(
                count(self.counters.decisions + 1), rows, choices, keys, shadow_choices, subjects or repeat(None)
            )
        ]
        self._record(made)
        return made

    def _shadow_choices(
        self, rows: list[list[Any]], eligible: EligibleActions | None
    ) -> Iterable[dict[str, ExperimentAction] | None]:
        """The choices of the shadows for each context; None if there are no shadows."""
        if not self.shadows:
            return repeat(None)
        choices = [
            [cast("ExperimentAction", made.action) for made in _decide(shadow.learner, rows, eligible)]
            for shadow in self.shadows
        ]
        names = [shadow.name for shadow in self.shadows]
        return [dict(zip(names, row, strict=True)) for row in zip(*choices, strict=True)]

    def validate_reward(self, decision: int, reward: Any, at: float) -> Reward:
        """Convert a reward to the form of the log; raise if ``reward`` would reject it."""
        pending = self.pending.get(decision)
        if pending is None:
            raise NotPending
        if pending[2] is not None and pending[2] <= at:
            message = f"the reward of decision {decision} is too late: its deadline was {format_timestamp(pending[2])}"
            raise ApiError(410, "too_late", message)
        step = self.slot.step(self.ordinal(decision))
        slate = self.learner.pending_slate(step) if isinstance(reward, dict) else None
        is_gone = self.learner.traits.takes_action_features and not self.learner.is_pending(step)
        if isinstance(reward, dict) and reward and (slate is not None or is_gone):
            value: Reward = {name: float(earned) for name, earned in reward.items()}
        elif slate is not None:
            raise invalid_request(f"rewards of decision {decision} are empty: expected one")
        else:
            value = self.actions.normalize_reward(decision, reward)
        try:
            if isinstance(value, dict) and slate is None:  # all its actions made room for others: nothing is learnt
                for earned in value.values():
                    self.learner.check_reward(step, earned)
            else:
                named = _by_name(value, slate) if isinstance(value, dict) and slate else value
                self.learner.check_reward(step, named)
        except (ValueError, TypeError) as error:
            raise invalid_request(str(error)) from None
        return value

    def reward(self, decision: int, value: Reward, at: float) -> Rewarded:
        """Learn a validated reward."""
        self._learn(decision, self.pending[decision], value)
        self.counters.rewards += 1
        self.outcomes.append(RewardRow(decision, "rewarded", json.dumps(value), at))
        self.series.note_reward(at)
        self.last_at = at
        return Rewarded(at, decision, value)

    def expire(self, now: float) -> Expired | None:
        """Expire decisions whose deadline has passed; None if there is none."""
        overdue = self.pending.overdue(now)
        if not overdue:
            return None
        event = Expired(now, overdue)
        self._expire(event)
        return event

    def add_action(self, action: ExperimentAction, features: Any, at: float) -> AnyEvent:
        """Add an action to all learners, perhaps with features of its own."""
        self._require_not_retired()
        has_features = getattr(self.learner, "action_features", None) is not None
        if features is not None and not has_features:
            raise invalid_request(f"action {action!r} has features, but actions of this experiment have none")
        if has_features and not isinstance(action, str):
            raise invalid_request(f"action is {action!r}: expected text, as of all actions with features")
        if str(action) in map(str, self.learner.actions):
            raise ApiError(409, "conflict", f"the experiment already has an action {str(action)!r}")
        if len(self.learner.actions) >= MAX_ACTIONS:
            raise ApiError(
                409, "conflict", f"the experiment already has {MAX_ACTIONS:,} actions, the maximum: retire one first"
            )
        self._dry_run("add_action", action, *_given(features))
        event = events.ActionAdded(at, action, features)
        self.apply(event)
        return event

    def remove_action(self, action: ExperimentAction, at: float) -> AnyEvent:
        """Remove an action from all learners."""
        self._require_not_retired()
        self._dry_run("remove_action", action)
        event = events.ActionRemoved(at, action)
        self.apply(event)
        return event

    def add_shadow(self, name: str, policy: PolicySpec, learner: ServedPolicy, at: float) -> AnyEvent:
        """Add a shadow: a learner that decides on the same contexts, without effect."""
        if learner.label_budget is not None and self.learner.observation_mode == "explored":
            raise ApiError(
                409,
                "budget",
                "the shadow has a label budget, but the policy in charge asks only for some rewards: the shadow "
                "would spend its budget on rewards that never come. Leave the budget out",
            )
        self._require_not_retired()
        if getattr(self.learner, "action_features", None) is not None:
            raise ApiError(409, "conflict", "an experiment whose actions have features can't have shadows")
        if len(self.shadows) >= MAX_SHADOWS:
            raise ApiError(
                409, "conflict", f"the experiment already has {MAX_SHADOWS} shadows, the maximum: remove one first"
            )
        if learner.actions != self.learner.actions:
            raise ApiError(409, "conflict", "the actions changed during this request: try again")
        if name == FORMER or any(shadow.name == name for shadow in self.shadows):
            raise ApiError(409, "name_taken", f"the shadow name {name!r} is taken or reserved: choose another")
        event = events.ShadowAdded(at, name, policy, serialize_learner(learner))
        self.apply(event)
        return event

    def remove_shadow(self, name: str, at: float) -> AnyEvent:
        self._shadow(name)
        event = events.ShadowRemoved(at, name)
        self.apply(event)
        return event

    def promote(self, name: str, at: float) -> AnyEvent:
        """Put a shadow in charge."""
        self._require_not_retired()
        if self._shadow(name).learner.wants_all != self.learner.wants_all:
            rewards = "of all actions" if self.learner.wants_all else "of the action taken"
            message = (
                f"shadow {name!r} can't be promoted: it does not learn from rewards {rewards}, as pending decisions do"
            )
            raise ApiError(409, "conflict", message)
        event = events.Promoted(at, name)
        self.apply(event)
        return event

    def retire(self, at: float) -> AnyEvent:
        """Make no more decisions; the experiment still learns rewards of earlier ones."""
        event = events.Retired(at)
        self.apply(event)
        return event

    def set_retention(self, retention: RetentionRules, at: float) -> AnyEvent:
        """Change for how long contexts and decisions are kept."""
        event = events.RetentionSet(at, retention)
        self.apply(event)
        return event

    def note_redaction(self, contexts_before: float | None, decisions_before: float | None, at: float) -> AnyEvent:
        """Note that contexts and decisions before these times are dropped from the log."""
        event = events.Redacted(at, contexts_before, decisions_before)
        self.apply(event)
        return event

    def erase(self, decisions: list[int], at: float) -> AnyEvent:
        """Erase the decisions of a subject, of which the log keeps the numbers."""
        event = events.Erased(at, decisions)
        self.apply(event)
        return event

    def skip_numbers(self, decision: int, at: float) -> AnyEvent:
        """Skip decision numbers up to this one: clients may have them from the damaged part of the log."""
        event = events.NumbersSkipped(at, decision)
        self.apply(event)
        return event

    # --- events of the log --------------------------------------------------------------------------------------

    def apply(self, event: AnyEvent) -> None:
        """Replay an event of the log."""
        match event:
            case Decided():
                self._replay_decision(event)
            case Rewarded(at, decision, reward):
                pending = self.pending.get(decision)
                if pending is not None:
                    self._learn(decision, pending, reward)
                    self.counters.rewards += 1
                    self.series.note_reward(at)
            case Expired():
                self._expire(event)
            case events.ActionAdded(_, action, features):
                for slot in (self.slot, *self.shadows):
                    slot.learner.add_action(action, *_given(features))
                self._actions_changed()
            case events.ActionRemoved(_, action):
                self._remove_action(action, event.at)
            case events.ShadowAdded(_, name, policy, learner):
                self.shadows.append(
                    LearnerSlot(name, policy, deserialize_learner(learner), self.ordinal(self.decisions))
                )
            case events.ShadowRemoved(_, name):
                self.shadows.remove(self._shadow(name))
            case events.Promoted(_, name):
                self._promote(name)
            case events.Retired():
                self.retired = True
            case events.RetentionSet(_, retention):
                self.retention = retention
            case events.Erased(_, decisions):
                self._erase(decisions, event.at)
            case events.NumbersSkipped(_, decision):
                self.gaps.append((self.counters.decisions, decision - self.counters.decisions))
                self.counters.decisions = decision
        self._mark(event)
        self.last_at = event.at

    def _mark(self, event: AnyEvent) -> None:
        """Add a change of the experiment to the time series."""
        change = MARKED.get(type(event))
        if change is not None:
            subject = getattr(event, "name", getattr(event, "action", None))
            name = None if subject is None else str(subject)
            self.series.add_marker(event.at, self.counters.decisions, change, name)

    def _replay_decision(self, event: Decided) -> None:
        requested = event.many is not None and event.many.actions is not None
        (choice,) = _decide(self.learner, [event.context], None if requested else [event.eligible], event.many)
        if (choice.action, choice.explored) != (event.action, event.explored) and self.diverged is None:
            self.diverged = event.number
        for shadow in self.shadows:
            shadow.learner.decide(event.context, event.eligible)
        self._record([event])

    # --- changes of the state -----------------------------------------------------------------------------------

    def _record(self, made: list[Decided]) -> None:
        """Record decisions that the learners have just made, all at the same time."""
        counters, last = self.counters, made[-1]
        if last.many is not None and last.many.actions is not None:
            self.has_requested_actions = True
        explored, asked = [event.explored for event in made], [event.wants_reward for event in made]
        counters.decisions, self.last_at = last.number, last.at
        counters.explored += sum(explored)
        counters.asked += sum(asked)
        within = self.spec.rewards.within_seconds
        deadline = None if within is None else last.at + within
        for event in made:
            if event.wants_reward:
                self.pending[event.number] = (event.action, event.probability, deadline, event.shadows)
            else:
                for shadow in self.shadows:  # one that wants this reward would wait forever
                    shadow.discard(self.ordinal(event.number))
            if event.key is not None:
                self.keys[event.key] = event.number
        self.keys.drop_oldest()
        for shadow in self.shadows:
            shadow.estimate.decisions += len(made)
            for event in made:
                shadow.estimate.agreed += event.shadows is not None and event.shadows.get(shadow.name) == event.action
        self.series.add_decisions(last.at, made, self.propensity_floors())

    def _learn(self, decision: int, pending: PendingDecision, reward: Reward) -> None:
        """Pass a validated reward to all learners, and update the estimates of the shadows."""
        action, ordinal = pending[0], self.ordinal(decision)
        if isinstance(reward, dict):
            self._learn_slate(decision, pending, reward)
            return
        eligible = self.learner.eligible_actions(self.slot.step(ordinal))
        self.slot.learn(ordinal, reward, action)
        for shadow in self.shadows:
            self._update_estimate(shadow, decision, pending, reward)
            shadow.learn(ordinal, reward, action)
        known = reward if isinstance(reward, float) else self.actions.named_rewards(decision, reward)
        if isinstance(known, dict) and eligible is not None:  # regret is against the best action that could be chosen
            known = {name: earned for name, earned in known.items() if name in eligible}
        self.counters.reward_sum += known if isinstance(known, float) else known.get(action, 0.0)
        self.series.add_reward(ordinal, action, pending[1], known)
        del self.pending[decision]

    def _learn_slate(self, decision: int, pending: PendingDecision, rewards: dict[str, float]) -> None:
        """Learn the rewards of actions of a slate. Counts and series have that of the first one.

        Where it was not observed, they have the mean of the others, which no action is credited with.
        """
        action, ordinal = pending[0], self.ordinal(decision)
        self.slot.learn_slate(ordinal, rewards)
        if str(action) in rewards:
            earned = rewards[str(action)]
            self.series.add_reward(ordinal, action, pending[1], earned)
        else:
            earned = sum(rewards.values()) / len(rewards)
            self.series.add_reward(ordinal, cast("ExperimentAction", OTHERS), None, earned)
        self.counters.reward_sum += earned
        del self.pending[decision]

    def _update_estimate(
        self, shadow: LearnerSlot, decision: int, pending: PendingDecision, reward: float | list[float]
    ) -> None:
        action, probability, _, choices = pending
        choice = choices.get(shadow.name) if choices and self.ordinal(decision) > shadow.estimate.since else None
        if choice is None:
            return
        low, high = self.learner.reward_range
        if isinstance(reward, float):
            shadow.estimate.add_logged(choice == action, probability, reward, (reward - low) / (high - low))
            return
        own, taken = (self.actions.reward_of_action(decision, name, reward) for name in (choice, action))
        if own is not None and taken is not None:
            shadow.estimate.add_pair(own, (own - low) / (high - low), (taken - low) / (high - low))

    def _expire(self, event: Expired) -> None:
        for number in event.decisions:
            pending, value = self.pending[number], self.actions.default_reward(number, self.spec.rewards)
            if value is None:
                self._drop(number, event.at)
            else:
                self._learn(number, pending, value)
                self.counters.defaults += 1
                self.outcomes.append(RewardRow(number, "default", json.dumps(value), event.at))
        self.last_at = event.at

    def _remove_action(self, action: ExperimentAction, at: float) -> None:
        for slot in (self.slot, *self.shadows):
            slot.learner.remove_action(action)
        for number in self.pending.with_action(action):
            self._drop(number, at)
        self._actions_changed()

    def _drop(self, number: int, at: float) -> None:
        """End a pending decision without a reward."""
        del self.pending[number]
        for slot in (self.slot, *self.shadows):
            slot.discard(self.ordinal(number))
        self.counters.dropped += 1
        self.outcomes.append(RewardRow(number, "dropped", None, at))

    def _erase(self, decisions: list[int], at: float) -> None:
        """Remove what the state has of decisions: pending ones, idempotency keys, and contexts in learners."""
        for number in decisions:
            if number in self.pending:
                self._drop(number, at)
        erased, ordinals = set(decisions), {self.ordinal(number) for number in decisions}
        for key in [key for key, number in self.keys.items() if number in erased]:
            del self.keys[key]
        self.rows_erased = sum(slot.erase(ordinals) for slot in (self.slot, *self.shadows))

    def _promote(self, name: str) -> None:
        promoted, before = self._shadow(name), self.slot
        self.shadows = [slot for slot in self.shadows if slot is not promoted and slot.name != FORMER]
        self.slot = promoted
        former = LearnerSlot(FORMER, before.policy, before.learner, before.since)
        former.offset = before.offset
        former.decision_seconds = before.decision_seconds
        self.shadows.append(former)
        for shadow in self.shadows:  # compared with another policy from now on
            shadow.estimate = ShadowEstimate(since=self.ordinal(self.decisions))

    def ordinal(self, decision: int) -> int:
        """Position of a decision among all decisions made: its number minus the numbers skipped before it."""
        return decision - sum(lost for before, lost in self.gaps if decision > before)

    def _actions_changed(self) -> None:
        self.actions.append(self.counters.decisions, action_names(self.learner))

    def propensity_floors(self) -> dict[ExperimentAction, float]:
        """Propensity of each action with which the policy in charge takes it as rarely as it may, if there is one."""
        least, actions = getattr(self.learner, "least_probability", 0.0), action_names(self.learner)
        floors = least if isinstance(least, dict) else dict.fromkeys(actions, float(least))
        return {name: floor for name, floor in floors.items() if floor > 0.0} if sum(floors.values()) < 1.0 else {}

    # --- checks -------------------------------------------------------------------------------------------------

    def to_rows(self, contexts: Sequence[Any]) -> list[list[Any]]:
        """Convert contexts to lists in the order of the features."""
        names = tuple(self.learner.schema.inputs)
        try:
            return [context if type(context) is list else list(ordered_values(context, names)) for context in contexts]
        except (ValueError, TypeError) as error:
            raise invalid_request(str(error)) from None

    def _require_many_actions(self, many: ManyActions) -> None:
        """Raise unless actions may come with a request, or form a slate."""
        name = type(self.learner).__name__
        if not self.learner.traits.takes_action_features:
            raise invalid_request(f"{name} takes neither actions nor k with a request: expected the policy JointReleaf")
        if many.actions is not None and getattr(self.learner, "action_features", None) is None:
            raise invalid_request(
                "actions came with the request, but actions of this experiment have no features: expected eligible"
            )
        if self.shadows:
            raise ApiError(409, "conflict", "shadows choose single actions: remove them before a request with k")

    def _dry_run(self, change: str, action: ExperimentAction, *features: Any) -> None:
        """Try a change of the actions on copies: either all learners make it or none."""
        try:
            for slot in (self.slot, *self.shadows):
                getattr(copy.deepcopy(slot.learner), change)(action, *features)
        except (ValueError, TypeError) as error:
            known = action in self.learner.actions
            status, code = (404, "unknown_action") if change == "remove_action" and not known else (409, "conflict")
            raise ApiError(status, code, str(error)) from None

    def unaccounted(self) -> int:
        """Decisions that asked for a reward, less those rewarded, defaulted, dropped or pending: always 0."""
        counters = self.counters
        return counters.asked - counters.rewards - counters.defaults - counters.dropped - len(self.pending)

    def settle_unaccounted(self) -> None:
        """Count as dropped what earlier versions evicted, and let learners wait for pending decisions only."""
        self.counters.dropped += max(self.unaccounted(), 0)
        ordinals = {self.ordinal(number) for number in self.pending}
        for slot in (self.slot, *self.shadows):
            slot.learner.keep_pending({slot.step(ordinal) for ordinal in ordinals})

    def _require_not_retired(self) -> None:
        if self.retired:
            raise ApiError(409, "retired", f"experiment {self.spec.name!r} is retired: it makes no more decisions")

    def _shadow(self, name: str) -> LearnerSlot:
        for shadow in self.shadows:
            if shadow.name == name:
                return shadow
        raise ApiError(404, "unknown_shadow", f"unknown shadow {name!r}")

    # --- results ------------------------------------------------------------------------------------------------

    def counts(self) -> Counts:
        """The counters for the API."""
        return self.counters.to_message(len(self.pending))

    def take_outcomes(self) -> list[RewardRow]:
        """Return the outcomes of decisions since the last call."""
        taken, self.outcomes = self.outcomes, []
        return taken


def _decide(
    learner: ServedPolicy,
    rows: list[list[Any]],
    eligible: EligibleActions | None = None,
    many: ManyActions | None = None,
) -> Sequence[Decision]:
    """Decide for all contexts; an error leaves the learner unchanged."""
    if many is not None:
        allowed = None if eligible is None else eligible[0]
        joint = cast("ActionTablePolicy", learner)
        return [joint.decide(rows[0], allowed, k=many.k, actions=many.actions)]
    if len(rows) == 1:
        return [learner.decide(rows[0], None if eligible is None else eligible[0])]
    return learner.decide_many(rows, eligible)


def _given(features: Any) -> tuple[Any, ...]:
    """Features of an action as further arguments: most policies take none."""
    return () if features is None else (features,)


def _by_name(rewards: dict[str, float], slate: Sequence[ActionName | None]) -> dict[Any, float]:
    """Rewards by the names of the actions of a slate; keys of JSON are their text."""
    names = {str(name): name for name in slate}
    return {names.get(text, text): earned for text, earned in rewards.items()}
