"""State of an experiment: the learner in charge, its shadows, and the pending decisions.

Every change is an event. The methods here are named after requests: each validates the request, changes the state, and
returns the event for the log, which ``apply`` replays.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Sequence
from itertools import count, islice, repeat
from typing import Any, cast

import msgspec

from releaf.decision import ActionName
from releaf.policy import ServedPolicy
from releaf.service.errors import AlreadyRewarded, ApiError, invalid_request
from releaf.service.experiments.action_history import Reward
from releaf.service.experiments.apprentice_mode import (
    APPRENTICE,
    Baselines,
    as_watched,
    require_able_to_watch,
    require_baselines,
    require_evidence,
)
from releaf.service.experiments.decision_costs import (
    CostsOfContexts,
    convert_costs,
    costs_for,
    require_promotable,
    require_same_costs_in_requests,
)
from releaf.service.experiments.label_costs import LabelCosts, require_label_costs
from releaf.service.experiments.learner_slot import LearnerSlot, action_names, serialize_learner
from releaf.service.experiments.pending_decisions import NotPending
from releaf.service.experiments.receipts import new_receipt_part
from releaf.service.experiments.replayed_state import (
    FORMER,
    ReplayedState,
    cost_argument,
    decide_contexts,
    features_argument,
)
from releaf.service.log import events
from releaf.service.log.events import (
    AnyEvent,
    Decided,
    EligibleActions,
    ExperimentAction,
    Expired,
    Rewarded,
)
from releaf.service.many_actions import ManyActions
from releaf.service.messages import Baseline, Observation, PolicySpec, RetentionRules
from releaf.service.timestamps import format_timestamp
from releaf.table import ordered_values

OBSERVE = "learn what the application decided by itself"
MAX_ACTIONS = 1000
MAX_SHADOWS = 16  # each takes as much time as the policy in charge


class ExperimentState(ReplayedState):
    """State of an experiment, and the requests that change it."""

    def decide(
        self,
        contexts: Sequence[Any],
        keys: Sequence[str | None],
        at: float,
        eligible: EligibleActions | None = None,
        subjects: Iterable[str | None] | None = None,
        many: ManyActions | None = None,
        costs: Sequence[Any] | None = None,
        baselines: Baselines | None = None,
        label_costs: LabelCosts | None = None,
    ) -> list[Decided]:
        """Decide for each context, among its eligible actions; invalid input raises before the first decision.

        ``subjects`` are keyed hashes. ``many``, which goes with one context, has the actions of the request, and the
        size of the slate. ``costs`` are those of the actions, for each context; None for the fixed ones.
        ``baselines`` are the application's decisions, which count while the learner is an apprentice. ``label_costs``
        are those of the rewards, for each context; None for an ordinary one.
        """
        self._require_not_retired()
        if many is not None:
            self.require_many_actions(many)
        self._require_capacity_for(len(contexts))
        rows = self.to_rows(contexts)
        own = convert_costs(costs, len(rows), self.learner)
        labels = require_label_costs(label_costs, [slot.learner for slot in (self.slot, *self.shadows)])
        watched = self._watched(baselines, len(rows), eligible, many)
        try:
            choices = decide_contexts(self.learner, rows, eligible, many, own, labels)
        except (ValueError, TypeError, OverflowError) as error:
            raise invalid_request(str(error)) from None
        shadow_choices = self._shadow_choices(rows, eligible, own, labels)
        is_open = self.has_requested_actions or (many is not None and many.actions is not None)
        everyone = tuple(self.learner.actions) if is_open else None
        made = [
            Decided.of(at, number, row, choice, key, others, subject, many, everyone, cost, label_cost)
            for number, row, choice, key, others, subject, cost, label_cost in zip(
                count(self.counters.decisions + 1),
                *(rows, choices, keys, shadow_choices),
                *(subjects or repeat(None), own or repeat(None), labels or repeat(None)),
                strict=False,
            )
        ]
        if watched is not None:
            made = [as_watched(event, baseline) for event, baseline in zip(made, watched, strict=True)]
        self._record(made)
        return made

    def check_batch(
        self,
        contexts: Sequence[Any],
        eligible: EligibleActions | None,
        costs: Sequence[Any] | None,
        baselines: Baselines | None,
        label_costs: LabelCosts | None,
    ) -> None:
        """Raise the error that `decide` would raise for this batch, before it decides for parts of it."""
        self._require_not_retired()
        self._require_capacity_for(len(contexts))
        rows = self.to_rows(contexts)
        own = convert_costs(costs, len(rows), self.learner)
        require_label_costs(label_costs, [slot.learner for slot in (self.slot, *self.shadows)])
        self._watched(baselines, len(rows), eligible, None)
        try:
            self.learner.check_contexts(rows, eligible, costs_for(self.learner, own))
        except (ValueError, TypeError, OverflowError) as error:
            raise invalid_request(str(error)) from None

    def _require_capacity_for(self, decisions: int) -> None:
        if self.learner.observation_mode != "never":
            self.pending.require_capacity_for(decisions, self.slot.policy)

    def observe(self, seen: Observation, at: float, subject: str | None = None) -> list[AnyEvent]:
        """Learn the reward of a decision that the application made by itself; it counts as a decision."""
        self._require_not_retired()
        require_able_to_watch(self.learner, OBSERVE)
        if self.is_apprentice or getattr(self.learner, "action_features", None) is not None:
            raise invalid_request(
                f"{self.spec.name!r} can't {OBSERVE}: its learner is an apprentice, or its actions have features; "
                "expected decide, with baseline where the learner is an apprentice"
            )
        known, (low, high) = action_names(self.learner), self.learner.reward_range
        if seen.action not in known or type(seen.action) is bool:
            raise invalid_request(f"action is {seen.action!r}: expected one of {known[:20]}")
        if not low <= seen.reward <= high:
            raise invalid_request(f"reward is {seen.reward}: expected a number from {low:g} to {high:g}")
        (row,) = self.to_rows([seen.context])
        try:
            (choice,) = decide_contexts(self.learner, [row])
        except (ValueError, TypeError, OverflowError) as error:
            raise invalid_request(str(error)) from None
        (others,) = islice(self._shadow_choices([row], None, None, None), 1)
        number = self.counters.decisions + 1
        event = Decided.of(at, number, row, choice, seen.key, others, subject)
        event = msgspec.structs.replace(
            event, action=seen.action, probability=seen.probability, explored=False, observed=True
        )
        self._record([event])
        return [event, self.reward(number, seen.reward, at)]

    def _watched(
        self, baselines: Baselines | None, count: int, eligible: EligibleActions | None, many: ManyActions | None
    ) -> list[Baseline] | None:
        """The application's decisions, if the learner is an apprentice."""
        if baselines is not None and not self.spec.apprentice:
            raise invalid_request(
                f"baseline is given, but the learner of {self.spec.name!r} is no apprentice: leave it out, or create "
                "an experiment with apprentice=true"
            )
        if not self.is_apprentice:
            return None
        return require_baselines(baselines, count, action_names(self.learner), eligible, many)

    def _shadow_choices(
        self,
        rows: list[list[Any]],
        eligible: EligibleActions | None,
        costs: CostsOfContexts | None,
        label_costs: LabelCosts | None,
    ) -> Iterable[dict[str, ExperimentAction] | None]:
        """The choices of the shadows for each context; None if there are no shadows."""
        if not self.shadows:
            return repeat(None)
        choices = [
            [
                cast("ExperimentAction", made.action)
                for made in decide_contexts(shadow.learner, rows, eligible, None, costs, label_costs)
            ]
            for shadow in self.shadows
        ]
        names = [shadow.name for shadow in self.shadows]
        return [dict(zip(names, row, strict=True)) for row in zip(*choices, strict=True)]

    def validate_reward(self, decision: int, reward: Any, at: float) -> Reward:
        """Convert a reward to the form of the log; raise if ``reward`` would reject it."""
        pending = self.pending.get(decision)
        if pending is None:
            raise NotPending
        if self.deferred.get(decision) is not None:
            raise AlreadyRewarded(decision, json.dumps(self.deferred[decision]))
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
        """Learn a validated reward; that of a deferred decision once it is activated."""
        event = Rewarded(at, decision, value)
        self.apply(event)
        return event

    def activate(self, decision: int, at: float) -> AnyEvent:
        """Let the reward of a deferred decision count: its action was used."""
        event = events.Activated(at, decision)
        self.apply(event)
        return event

    def discard(self, keys: Sequence[str], at: float) -> events.Discarded:
        """Drop the pending decisions of these keys: clients took a default instead, so that no reward is theirs."""
        numbers = {key: self.keys.get(key) for key in keys}
        found = {key: number or 0 for key, number in numbers.items() if number is None or number in self.pending}
        event = events.Discarded(at, list(found), list(found.values()))
        if event.keys:
            self.apply(event)
        return event

    def expire(self, now: float, is_over: Callable[[], bool] = lambda: False) -> Expired | None:
        """Expire decisions whose deadline has passed, until time is over; None if there is none."""
        overdue = self.pending.overdue(now)
        if not overdue:
            return None
        event = Expired(now, [], [])
        for number in overdue:
            event.decisions.append(number)
            if number in self.deferred:
                event.deferred.append(number)
            self._expire_one(number, event)
            if is_over():
                break
        self.last_at = now
        return event

    def add_action(self, action: ExperimentAction, features: Any, at: float, cost: float | None = None) -> AnyEvent:
        """Add an action to all learners, perhaps with features of its own, or a fixed cost."""
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
        if cost is not None and all(slot.learner.cost is None for slot in (self.slot, *self.shadows)):
            raise invalid_request(f"action {action!r} has a cost, but actions of this experiment have no fixed costs")
        self._dry_run(
            *("add_action", action, *features_argument(features)),
            further=lambda learner: cost_argument(learner, cost),
        )
        event = events.ActionAdded(at, action, features, cost)
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
        if self.learner.observation_mode == "never":
            raise ApiError(
                409,
                "conflict",
                f"the policy in charge, {type(self.learner).__name__}, asks for no rewards, so that a shadow would "
                "learn nothing and could not be compared: put one in charge that asks for them, such as EpsilonGreedy "
                "with epsilon=1 in place of Random",
            )
        if getattr(self.learner, "action_features", None) is not None:
            raise ApiError(409, "conflict", "an experiment whose actions have features can't have shadows")
        require_same_costs_in_requests(self.learner, learner)
        if len(self.shadows) >= MAX_SHADOWS:
            raise ApiError(
                409, "conflict", f"the experiment already has {MAX_SHADOWS} shadows, the maximum: remove one first"
            )
        if learner.actions != self.learner.actions:
            raise ApiError(409, "conflict", "the actions changed during this request: try again")
        if (
            name == FORMER
            or (name == APPRENTICE and self.spec.apprentice)
            or any(shadow.name == name for shadow in self.shadows)
        ):
            raise ApiError(409, "name_taken", f"the shadow name {name!r} is taken or reserved: choose another")
        event = events.ShadowAdded(at, name, policy, serialize_learner(learner))
        self.apply(event)
        return event

    def remove_shadow(self, name: str, at: float) -> AnyEvent:
        self._shadow(name)
        event = events.ShadowRemoved(at, name)
        self.apply(event)
        return event

    def promote(self, name: str, at: float, force: bool = False) -> AnyEvent:
        """Put a shadow in charge, or let the apprentice decide, if it is shown to earn more, or with ``force``."""
        self._require_not_retired()
        slot = self.promotable(name)
        if not force:
            require_evidence(slot)
        event = events.Promoted(at, name)
        self.apply(event)
        return event

    def promotable(self, name: str) -> LearnerSlot:
        """The slot of a learner that can be promoted, apart from evidence."""
        if self.is_apprentice and name == APPRENTICE:
            return self.slot
        shadow = self._shadow(name)
        if self.is_apprentice:
            message = f"shadow {name!r} can't be promoted while the application decides: expected {APPRENTICE!r}"
            raise ApiError(409, "conflict", message)
        if shadow.learner.wants_all != self.learner.wants_all:
            rewards = "of all actions" if self.learner.wants_all else "of the action taken"
            message = (
                f"shadow {name!r} can't be promoted: it does not learn from rewards {rewards}, as pending decisions do"
            )
            raise ApiError(409, "conflict", message)
        require_promotable(self.learner, shadow.learner, name)
        return shadow

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

    def note_redaction(
        self, contexts_before: float | None, decisions_before: float | None, last_decision: int, at: float
    ) -> AnyEvent:
        """Note that contexts and decisions before these times are dropped from the log, up to a decision."""
        event = events.Redacted(at, contexts_before, decisions_before, last_decision)
        self.apply(event)
        return event

    def erase(self, decisions: list[int], at: float) -> AnyEvent:
        """Erase the decisions of a subject, of which the log keeps the numbers."""
        event = events.Erased(at, decisions)
        self.apply(event)
        return event

    def finish_erasure(self, at: float) -> AnyEvent:
        """Replace the models that were fitted to erased contexts."""
        event = events.ErasureFinished(at)
        self.apply(event)
        return event

    def skip_numbers(self, decision: int, at: float) -> AnyEvent:
        """Skip decision numbers up to this one: clients may have them from a part of the log that is lost."""
        event = events.NumbersSkipped(at, decision, new_receipt_part())
        self.apply(event)
        return event

    # --- checks ---------------------------------------------------------------------------------------------------

    def to_rows(self, contexts: Sequence[Any]) -> list[list[Any]]:
        """Convert contexts to lists in the order of the features."""
        names = tuple(self.learner.schema.inputs)
        try:
            return [context if type(context) is list else list(ordered_values(context, names)) for context in contexts]
        except (ValueError, TypeError) as error:
            raise invalid_request(str(error)) from None

    def require_many_actions(self, many: ManyActions) -> None:
        """Raise unless actions may come with a request, or form a slate."""
        name = type(self.learner).__name__
        if not self.learner.traits.takes_action_features:
            raise invalid_request(
                f"{name} takes neither actions nor k with a request: expected the policy JointReleaf or HybridLinUCB"
            )
        if many.actions is not None and getattr(self.learner, "action_features", None) is None:
            raise invalid_request(
                "actions came with the request, but actions of this experiment have no features: expected eligible"
            )
        if self.shadows:
            raise ApiError(409, "conflict", "shadows choose single actions: remove them before a request with k")

    def _dry_run(
        self,
        change: str,
        action: ExperimentAction,
        *features: Any,
        further: Callable[[ServedPolicy], dict[str, float]] = lambda learner: {},
    ) -> None:
        """Try a change of the actions on copies: either all learners make it or none."""
        try:
            for slot in (self.slot, *self.shadows):
                getattr(copy.deepcopy(slot.learner), change)(action, *features, **further(slot.learner))
        except (ValueError, TypeError) as error:
            known = action in self.learner.actions
            status, code = (404, "unknown_action") if change == "remove_action" and not known else (409, "conflict")
            raise ApiError(status, code, str(error)) from None

    def _require_not_retired(self) -> None:
        if self.retired:
            raise ApiError(409, "retired", f"experiment {self.spec.name!r} is retired: it makes no more decisions")


def _by_name(rewards: dict[str, float], slate: Sequence[ActionName | None]) -> dict[Any, float]:
    """Rewards by the names of the actions of a slate; keys of JSON are their text."""
    names = {str(name): name for name in slate}
    return {names.get(text, text): earned for text, earned in rewards.items()}
