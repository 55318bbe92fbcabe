"""Replay of an experiment: its state in memory, which follows from the events of its log.

A request makes the same changes as its event does later, so that both lead to the same state, bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from releaf.decision import Decision
from releaf.policies.action_table_policy import ActionTablePolicy
from releaf.policy import ServedPolicy
from releaf.service.errors import ApiError
from releaf.service.experiments.action_history import ActionHistory, Reward
from releaf.service.experiments.apprentice_mode import APPRENTICE
from releaf.service.experiments.cohorts import OpenCohorts
from releaf.service.experiments.counters import ExperimentCounters
from releaf.service.experiments.decision_costs import CostsOfContexts, costs_for
from releaf.service.experiments.idempotency import DISCARDED, IdempotencyKeys
from releaf.service.experiments.label_costs import LabelCosts, label_costs_for
from releaf.service.experiments.learner_slot import LearnerSlot, action_names, deserialize_learner
from releaf.service.experiments.pending_decisions import DeferredDecisions, PendingDecision, PendingDecisions
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
from releaf.service.messages import Counts, NewExperiment
from releaf.service.store.base import RewardRow

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


class ReplayedState:
    """State of an experiment, in memory, as its log determines it.

    Parameters
    ----------
    spec
        The experiment as created.
    learner
        The first learner in charge.
    """

    def __init__(self, spec: NewExperiment, learner: ServedPolicy) -> None:
        self.spec = spec
        self.slot = LearnerSlot(APPRENTICE if spec.apprentice else "", spec.policy, learner, 0)
        self.shadows: list[LearnerSlot] = []
        self.counters = ExperimentCounters()
        self.pending = PendingDecisions()
        self.cohorts = OpenCohorts.of(spec.rewards.within_seconds)
        self.keys = IdempotencyKeys()
        self.deferred = DeferredDecisions()
        self.series = TimeSeries(points=[], since=0, markers=[])
        self.actions = ActionHistory([(0, action_names(learner))])
        self.gaps: list[tuple[int, int]] = []  # (last decision before a gap, count of skipped numbers)
        self.receipt_parts: list[tuple[int, str]] = []  # (number, random part of the receipts of all later decisions)
        self.last_at = 0.0
        self.retired = False
        self.retention = spec.retention
        self.diverged: int | None = None  # first decision for which a replay chose another action than the log has
        self.has_requested_actions = False  # whether actions came with a request: later events name all eligible ones
        self.is_erasing = False  # whether learners use models that were fitted to erased contexts
        self.rows_erased = 0  # contexts that the latest erasure removed from learners
        self.outcomes: list[RewardRow] = []  # since the last call of take_outcomes

    @property
    def learner(self) -> ServedPolicy:
        """The learner in charge."""
        return self.slot.learner

    @property
    def is_apprentice(self) -> bool:
        """Whether the application decides, and the learner in charge watches."""
        return self.spec.apprentice and self.slot.name == APPRENTICE

    def compared_slots(self) -> list[LearnerSlot]:
        """The learners that are compared with what decides: an apprentice, and the shadows."""
        return [self.slot, *self.shadows] if self.is_apprentice else self.shadows

    @property
    def decisions(self) -> int:
        """Number of the latest decision."""
        return self.counters.decisions

    def decision_seconds(self) -> float:
        """Estimate of the time of one decision, of all learners together."""
        return sum(slot.decision_seconds for slot in (self.slot, *self.shadows))

    @property
    def size(self) -> int:
        """Number of pending decisions and idempotency keys, with which snapshots grow."""
        return len(self.pending) + len(self.keys)

    def is_pending(self, decision: int) -> bool:
        """Whether a decision waits for its reward."""
        return decision in self.pending

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

    def upgrade_cohorts(self) -> None:
        """Count decisions by cohort from now on; those that wait, which an earlier version made, are one cohort."""
        self.cohorts = OpenCohorts.of(self.spec.rewards.within_seconds)
        self.cohorts.since = self.ordinal(self.decisions)
        if self.pending:
            self.cohorts.add_decisions(self.last_at, self.ordinal(next(iter(self.pending))), len(self.pending))

    def counts(self) -> Counts:
        """The counters for the API."""
        made = self.ordinal(self.decisions)
        return self.counters.to_message(len(self.pending), made, *self.cohorts.unsettled_rewards)

    def take_outcomes(self) -> list[RewardRow]:
        """Return the outcomes of decisions since the last call."""
        taken, self.outcomes = self.outcomes, []
        return taken

    # --- events of the log ----------------------------------------------------------------------------------------

    def apply(self, event: AnyEvent) -> None:
        """Replay an event of the log."""
        match event:
            case Decided():
                self._replay_decision(event)
            case Rewarded(at, decision, reward):
                if decision in self.deferred:
                    self.deferred[decision] = reward
                elif decision in self.pending:
                    self._settle(decision, reward, at)
            case events.Activated(at, decision):
                self._activate(decision, at)
            case Expired():
                self._expire(event)
            case events.Discarded(at, keys, decisions):
                self._discard(keys, decisions, at)
            case events.ActionAdded(_, action, features, cost):
                for slot in (self.slot, *self.shadows):
                    slot.learner.add_action(action, *features_argument(features), **cost_argument(slot.learner, cost))
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
            case events.Redacted():
                self.keys.drop_until(event.last_decision)
            case events.Erased(_, decisions):
                self._erase(decisions, event.at)
            case events.ErasureFinished():
                self._finish_erasure()
            case events.NumbersSkipped(_, decision, receipt_part):
                self.gaps.append((self.counters.decisions, decision - self.counters.decisions))
                self.counters.decisions = decision
                self.receipt_parts += [(decision, receipt_part)] if receipt_part else []
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
        eligible = None if requested else [event.eligible]
        further = (event.many, [event.costs], [event.label_cost])
        (choice,) = decide_contexts(self.learner, [event.context], eligible, *further)
        if event.observed:  # the log does not have the learner's own choice
            same = True
        elif self.is_apprentice:
            same = choice.action == (event.shadows or {}).get(APPRENTICE)
        else:
            same = (choice.action, choice.explored) == (event.action, event.explored)
        if not same and self.diverged is None:
            self.diverged = event.number
        for shadow in self.shadows:
            decide_contexts(shadow.learner, [event.context], [event.eligible], None, [event.costs], [event.label_cost])
        self._record([event])

    # --- changes of the state -------------------------------------------------------------------------------------

    def _record(self, made: list[Decided]) -> None:
        """Record decisions that the learners have just made, all at the same time."""
        counters, last = self.counters, made[-1]
        if last.many is not None and last.many.actions is not None:
            self.has_requested_actions = True
        explored, asked = [event.explored for event in made], [event.wants_reward for event in made]
        counters.decisions, self.last_at = last.number, last.at
        counters.explored += sum(explored)
        counters.asked += sum(asked)
        for cost in [event.cost for event in made if event.cost]:
            counters.spent += cost  # in order, as a replay adds them
        within = self.spec.rewards.within_seconds
        deadline = None if within is None else last.at + within
        if any(asked):
            self.cohorts.add_decisions(last.at, self.ordinal(made[asked.index(True)].number), sum(asked))
        for event in made:
            if event.wants_reward:
                self.pending[event.number] = (event.action, event.probability, deadline, event.shadows)
                if event.many is not None and event.many.is_deferred:
                    self.deferred[event.number] = None
            else:
                for shadow in self.shadows:  # one that wants this reward would wait forever
                    shadow.discard(self.ordinal(event.number))
            if event.key is not None:
                self.keys[event.key] = event.number
        self.keys.drop_oldest(self.pending)
        for shadow in self.compared_slots():
            shadow.estimate.decisions += len(made)
            for event in made:
                shadow.estimate.agreed += event.shadows is not None and event.shadows.get(shadow.name) == event.action
        self.series.add_decisions(last.at, made, self.propensity_floors())

    def _settle(self, decision: int, reward: Reward, at: float) -> None:
        """Learn and record the reward that a client sent."""
        self._learn(decision, self.pending[decision], reward)
        self.counters.rewards += 1
        self.outcomes.append(RewardRow(decision, "rewarded", json.dumps(reward), at))
        self.series.note_reward(at)

    def _activate(self, decision: int, at: float) -> None:
        """Let the reward of a deferred decision count, also one that has come already."""
        reward = self.deferred.pop(decision, None)
        if reward is not None and decision in self.pending:
            self._settle(decision, reward, at)

    def _learn(self, decision: int, pending: PendingDecision, reward: Reward) -> None:
        """Pass a validated reward to all learners, and update the estimates of the shadows."""
        action, ordinal = pending[0], self.ordinal(decision)
        if isinstance(reward, dict):
            self._learn_slate(decision, pending, reward)
            return
        eligible = self.learner.eligible_actions(self.slot.step(ordinal))
        self._update_estimate(self.slot, decision, pending, reward)
        self.slot.learn(ordinal, reward, action)
        for shadow in self.shadows:
            self._update_estimate(shadow, decision, pending, reward)
            shadow.learn(ordinal, reward, action)
        known = reward if isinstance(reward, float) else self.actions.named_rewards(decision, reward)
        if isinstance(known, dict) and eligible is not None:  # regret is against the best action that could be chosen
            known = {name: earned for name, earned in known.items() if name in eligible}
        self.series.add_reward(ordinal, action, pending[1], known)
        self._end(decision, known if isinstance(known, float) else known.get(action, 0.0))

    def _end(self, decision: int, earned: float | None = None) -> None:
        """End the wait for a reward, which came unless it is None; count the cohorts of which no decision waits."""
        ordinal = self.ordinal(decision)
        if earned is not None:
            self.counters.reward_sum += earned
            self.cohorts.add_reward(ordinal, earned)
        del self.pending[decision]
        for cohort in self.cohorts.settle(ordinal):
            for slot in (self.slot, *self.shadows):
                slot.estimate.settle(cohort)

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
        self._end(decision, earned)

    def _update_estimate(
        self, shadow: LearnerSlot, decision: int, pending: PendingDecision, reward: float | list[float]
    ) -> None:
        action, probability, _, choices = pending
        ordinal = self.ordinal(decision)
        choice = choices.get(shadow.name) if choices and ordinal > shadow.estimate.since else None
        if choice is None:
            return
        (low, high), cohort = self.learner.reward_range, self.cohorts.key(ordinal)
        if isinstance(reward, float):
            shadow.estimate.add_logged(choice == action, probability, reward, (reward - low) / (high - low), cohort)
            return
        own, taken = (self.actions.reward_of_action(decision, name, reward) for name in (choice, action))
        if own is not None and taken is not None:
            shadow.estimate.add_pair(own, (own - low) / (high - low), (taken - low) / (high - low), cohort)

    def _expire(self, event: Expired) -> None:
        for number in event.decisions:
            self._expire_one(number, event)
        self.last_at = event.at

    def _expire_one(self, number: int, event: Expired) -> None:
        pending, value = self.pending[number], self.actions.default_reward(number, self.spec.rewards)
        if value is None or number in event.deferred:
            self._drop(number, event.at)
        else:
            self._learn(number, pending, value)
            self.counters.defaults += 1
            self.outcomes.append(RewardRow(number, "default", json.dumps(value), event.at))

    def _discard(self, keys: Sequence[str], decisions: Sequence[int], at: float) -> None:
        for key, number in zip(keys, decisions, strict=True):
            if number in self.pending:
                self._drop(number, at)
                self.counters.discarded += 1
            self.keys[key] = DISCARDED
        self.keys.drop_oldest(self.pending)

    def _remove_action(self, action: ExperimentAction, at: float) -> None:
        for slot in (self.slot, *self.shadows):
            slot.learner.remove_action(action)
        for number in self.pending.with_action(action):
            self._drop(number, at)
        self._actions_changed()

    def _drop(self, number: int, at: float) -> None:
        """End a pending decision without a reward."""
        self._end(number)
        self.deferred.pop(number, None)
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
        self.is_erasing = True

    def _finish_erasure(self) -> None:
        for slot in (self.slot, *self.shadows):
            slot.learner.finish_erasure()
        self.is_erasing = False

    def _promote(self, name: str) -> None:
        if name == APPRENTICE and self.is_apprentice:
            self.slot.name = ""
            for shadow in self.shadows:  # compared with the learner from now on
                shadow.estimate = ShadowEstimate(since=self.ordinal(self.decisions))
            return
        promoted, before = self._shadow(name), self.slot
        self.shadows = [slot for slot in self.shadows if slot is not promoted and slot.name != FORMER]
        self.slot = promoted
        promoted.learner.restart_lift()  # so far the actions were another policy's
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
        least = getattr(self.learner, "least_probability", 0.0)
        if not least or self.is_apprentice:  # every decision asks
            return {}
        actions = action_names(self.learner)
        floors = least if isinstance(least, dict) else dict.fromkeys(actions, float(least))
        if sum(floors.values()) >= 1.0:
            return {}
        share, control = self.learner.control_share, self.learner.control
        if share:  # what control adds; more where it draws from some of the actions
            named = control in actions
            of_control = {name: float(name == control) if named else 1.0 / len(actions) for name in actions}
            floors = {name: (1.0 - share) * floor + share * of_control[name] for name, floor in floors.items() if floor}
        return {name: floor for name, floor in floors.items() if floor > 0.0}

    def _shadow(self, name: str) -> LearnerSlot:
        for shadow in self.shadows:
            if shadow.name == name:
                return shadow
        raise ApiError(404, "unknown_shadow", f"unknown shadow {name!r}")


def decide_contexts(
    learner: ServedPolicy,
    rows: list[list[Any]],
    eligible: EligibleActions | None = None,
    many: ManyActions | None = None,
    costs: CostsOfContexts | None = None,
    label_costs: LabelCosts | None = None,
) -> Sequence[Decision]:
    """Decide for all contexts; an error leaves the learner unchanged."""
    own, labels = costs_for(learner, costs), label_costs_for(learner, label_costs)
    if many is not None:
        allowed = None if eligible is None else eligible[0]
        joint = cast("ActionTablePolicy", learner)
        return [joint.decide(rows[0], allowed, k=many.k, actions=many.actions)]
    if len(rows) == 1:
        given = {} if labels is None else {"label_cost": labels[0]}
        among = None if eligible is None else eligible[0]
        return [learner.decide(rows[0], among, *(() if own is None else own), **given)]
    many_given = {} if labels is None else {"label_cost": labels}
    return learner.decide_many(rows, eligible, *(() if own is None else (own,)), **many_given)


def features_argument(features: Any) -> tuple[Any, ...]:
    """Features of an action as further arguments: most policies take none."""
    return () if features is None else (features,)


def cost_argument(learner: ServedPolicy, cost: float | None) -> dict[str, float]:
    """The fixed cost of a new action as a further argument, for a learner whose actions have fixed costs."""
    return {} if cost is None or learner.cost is None else {"cost": cost}
