"""One experiment: the learner in charge, its shadows, and the decisions that wait for a reward.

All that changes it is an event. The methods named after requests check what they are asked, do it, and return the event
for the log; ``apply`` does the same for an event of the log. Both ways lead to the same state, bit for bit.
"""

from __future__ import annotations

import copy
import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import count, islice, repeat
from typing import Any

from msgspec import Struct

from releaf.service.errors import Problem, invalid
from releaf.service.experiments.action_history import Actions, Label, Reward
from releaf.service.experiments.learner_slot import Seat, packed, unpacked
from releaf.service.experiments.time_series import Series, iso
from releaf.service.log import events
from releaf.service.log.events import AnyEvent, Decided, Expired, Rewarded
from releaf.service.messages import Counts, NewExperiment, PolicySpec
from releaf.service.store.base import RewardRow
from releaf.table import ordered_values

KEYS_KEPT = 100_000  # idempotency keys that are remembered
EXPIRED_AT_ONCE = 1000
MOST_ACTIONS = 1000
MOST_SHADOWS = 16  # each of them takes as much time as the policy in charge
# A decision whose reward is wanted: action, probability, deadline, what the shadows would have done. A plain tuple,
# because one is made on every decision.
Waiting = tuple[Label, float | None, float | None, dict[str, Label] | None]
FORMER = "former"  # the shadow that was in charge before a promotion


class NotWaiting(Exception):
    """A reward for a decision that does not wait for one; why, the log tells."""


class Tally(Struct):
    """What has happened so far."""

    decisions: int = 0
    explored: int = 0
    asked: int = 0
    rewards: int = 0
    defaults: int = 0
    dropped: int = 0
    reward_sum: float = 0.0


class Experiment:
    """The state of an experiment, all of it in memory.

    Parameters
    ----------
    spec
        As it was created.
    learner
        In charge at first.
    """

    def __init__(self, spec: NewExperiment, learner: Any) -> None:
        self.spec = spec
        self.seat = Seat("", spec.policy, learner, 0)
        self.shadows: list[Seat] = []
        self.tally = Tally()
        self.waiting: OrderedDict[int, Waiting] = OrderedDict()
        self.keys: OrderedDict[str, int] = OrderedDict()
        self.series = Series(points=[])
        self.actions = Actions([(0, list(learner.actions))])
        self.gaps: list[tuple[int, int]] = []  # after which decision how many numbers were skipped
        self.last_at = 0.0
        self.retired = False
        self.diverged: int | None = None  # the first decision in which a replay came to another action
        self.outcomes: list[RewardRow] = []  # what became of decisions since this list was last taken

    @property
    def learner(self) -> Any:
        """The learner in charge."""
        return self.seat.learner

    # --- requests -----------------------------------------------------------------------------------------------

    def decide(self, contexts: Sequence[Any], keys: Sequence[str | None], at: float) -> list[Decided]:
        """Decide for each context; bad input anywhere is refused before the first decision."""
        self._require_running()
        rows = self.rows(contexts)
        try:
            choices = _ask(self.learner, rows)
        except (ValueError, TypeError, OverflowError) as error:
            raise invalid(str(error)) from None
        beside = self._ask_shadows(rows)
        made = [
            Decided(
                at,
                number,
                row,
                choice.action,
                choice.probability,
                choice.explored,
                choice.wants_reward,
                choice.estimates,
                choice.relevant,
                key,
                others,
            )
            for number, row, choice, key, others in zip(
                count(self.tally.decisions + 1), rows, choices, keys, beside, strict=False
            )
        ]
        self._note(made)
        return made

    def _ask_shadows(self, rows: list[list[Any]]) -> Iterable[dict[str, Label] | None]:
        """What the shadows would do in each context; None where there are no shadows."""
        if not self.shadows:
            return repeat(None)
        choices = [_ask(shadow.learner, rows) for shadow in self.shadows]
        names = [shadow.name for shadow in self.shadows]
        return [
            {name: choice.action for name, choice in zip(names, row, strict=True)} for row in zip(*choices, strict=True)
        ]

    def checked_reward(self, decision: int, reward: Any, at: float) -> Reward:
        """A reward as the log keeps it, which ``reward`` will take."""
        waiting = self.waiting.get(decision)
        if waiting is None:
            raise NotWaiting
        if waiting[2] is not None and waiting[2] <= at:
            message = f"decision {decision} waited until {iso(waiting[2])}: its reward comes too late"
            raise Problem(410, "too_late", message)
        value = self.actions.plain_reward(decision, reward)
        try:
            self.learner.require_reward(self.seat.step(self.place(decision)), value)
        except (ValueError, TypeError) as error:
            raise invalid(str(error)) from None
        return value

    def reward(self, decision: int, value: Reward, at: float) -> Rewarded:
        """Learn a reward that was checked."""
        self._take_in(decision, self.waiting[decision], value)
        self.tally.rewards += 1
        self.outcomes.append(RewardRow(decision, "rewarded", json.dumps(value), at))
        self.last_at = at
        return Rewarded(at, decision, value)

    def expire(self, now: float) -> Expired | None:
        """Deal with decisions whose deadline has passed; None where there is none."""
        late = []
        for number, (_, _, deadline, _) in islice(self.waiting.items(), EXPIRED_AT_ONCE):
            if deadline is None or deadline > now:
                break
            late.append(number)
        if not late:
            return None
        event = Expired(now, late)
        self._expire(event)
        return event

    def add_action(self, action: Label, at: float) -> AnyEvent:
        """One more action for all learners."""
        self._require_running()
        if str(action) in map(str, self.learner.actions):
            raise Problem(409, "conflict", f"there is an action {str(action)!r} already")
        if len(self.learner.actions) >= MOST_ACTIONS:
            raise Problem(409, "conflict", f"there are {MOST_ACTIONS:,} actions already: retire one first")
        self._rehearse("add_action", action)
        event = events.ActionAdded(at, action)
        self.apply(event)
        return event

    def remove_action(self, action: Label, at: float) -> AnyEvent:
        """An action that no learner takes any more."""
        self._require_running()
        self._rehearse("remove_action", action)
        event = events.ActionRemoved(at, action)
        self.apply(event)
        return event

    def add_shadow(self, name: str, policy: PolicySpec, learner: Any, at: float) -> AnyEvent:
        """A learner that decides beside the one in charge from now on."""
        if getattr(learner, "label_budget", None) is not None and self.learner.observe == "explored":
            raise Problem(
                409,
                "budget",
                "a shadow with a label budget would spend it on rewards that the policy in charge, which asks for some "
                "only, does not ask for: leave the budget out",
            )
        self._require_running()
        if len(self.shadows) >= MOST_SHADOWS:
            raise Problem(409, "conflict", f"there are {MOST_SHADOWS} shadows already: remove one first")
        if learner.actions != self.learner.actions:
            raise Problem(409, "conflict", "the actions have just changed: try again")
        if name == FORMER or any(shadow.name == name for shadow in self.shadows):
            raise Problem(409, "name_taken", f"there is a shadow {name!r} already, or that name is kept for promotions")
        event = events.ShadowAdded(at, name, policy, packed(learner))
        self.apply(event)
        return event

    def remove_shadow(self, name: str, at: float) -> AnyEvent:
        """A shadow less."""
        self._shadow(name)
        event = events.ShadowRemoved(at, name)
        self.apply(event)
        return event

    def promote(self, name: str, at: float) -> AnyEvent:
        """Put a shadow in charge."""
        self._require_running()
        if self._shadow(name).learner.wants_all != self.learner.wants_all:
            asks = "all actions" if self.learner.wants_all else "the action taken"
            message = f"shadow {name!r} does not learn from the rewards of {asks}, for which decisions wait here"
            raise Problem(409, "conflict", message)
        event = events.Promoted(at, name)
        self.apply(event)
        return event

    def retire(self, at: float) -> AnyEvent:
        """Decide no more; rewards of earlier decisions are still learnt."""
        event = events.Retired(at)
        self.apply(event)
        return event

    def lose(self, decision: int, at: float) -> AnyEvent:
        """Give no number up to this one again: a client may still have it, from a log that could not be read."""
        event = events.Lost(at, decision)
        self.apply(event)
        return event

    # --- events of the log --------------------------------------------------------------------------------------

    def apply(self, event: AnyEvent) -> None:
        """Live through an event once more."""
        match event:
            case Decided():
                self._decide_again(event)
            case Rewarded(_, decision, reward):
                waiting = self.waiting.get(decision)
                if waiting is not None:
                    self._take_in(decision, waiting, reward)
                    self.tally.rewards += 1
            case Expired():
                self._expire(event)
            case events.ActionAdded(_, action):
                for seat in (self.seat, *self.shadows):
                    seat.learner.add_action(action)
                self._actions_changed()
            case events.ActionRemoved(_, action):
                self._remove_action(action, event.at)
            case events.ShadowAdded(_, name, policy, learner):
                self.shadows.append(Seat(name, policy, unpacked(learner), self.place(self.tally.decisions)))
            case events.ShadowRemoved(_, name):
                self.shadows.remove(self._shadow(name))
            case events.Promoted(_, name):
                self._promote(name)
            case events.Retired():
                self.retired = True
            case events.Lost(_, decision):
                self.gaps.append((self.tally.decisions, decision - self.tally.decisions))
                self.tally.decisions = decision
        self.last_at = event.at

    def _decide_again(self, event: Decided) -> None:
        choice = self.learner.decide(event.context)
        if (choice.action, choice.explored) != (event.action, event.explored) and self.diverged is None:
            self.diverged = event.number
        for shadow in self.shadows:
            shadow.learner.decide(event.context)
        self._note([event])

    # --- what happens -------------------------------------------------------------------------------------------

    def _note(self, made: list[Decided]) -> None:
        """Remember decisions of one moment that the learners have just made."""
        tally, last = self.tally, made[-1]
        explored, asked = [event.explored for event in made], [event.wants_reward for event in made]
        tally.decisions, self.last_at = last.number, last.at
        tally.explored += sum(explored)
        tally.asked += sum(asked)
        within = self.spec.rewards.within_seconds
        deadline = None if within is None else last.at + within
        for event in made:
            if event.wants_reward:
                self.waiting[event.number] = (event.action, event.probability, deadline, event.shadows)
            if event.key is not None:
                self.keys[event.key] = event.number
        _drop_oldest(self.waiting, self.learner.max_pending)
        _drop_oldest(self.keys, KEYS_KEPT)
        for shadow in self.shadows:
            shadow.sums.decisions += len(made)
            for event in made:
                shadow.sums.agreed += event.shadows is not None and event.shadows.get(shadow.name) == event.action
        self.series.decided(last.at, explored, asked)

    def _take_in(self, decision: int, waiting: Waiting, reward: Reward) -> None:
        """Let all learners learn a reward that was checked, and reckon what the shadows would have earned."""
        action, place = waiting[0], self.place(decision)
        self.seat.learn(place, reward, action)
        for shadow in self.shadows:
            self._credit(shadow, decision, waiting, reward)
            shadow.learn(place, reward, action)
        gained = reward if isinstance(reward, float) else self.actions.reward_of(decision, action, reward) or 0.0
        self.tally.reward_sum += gained
        self.series.rewarded(place, gained)
        del self.waiting[decision]

    def _credit(self, shadow: Seat, decision: int, waiting: Waiting, reward: Reward) -> None:
        action, probability, _, choices = waiting
        choice = choices.get(shadow.name) if choices and self.place(decision) > shadow.sums.since else None
        if choice is None:
            return
        if not isinstance(reward, float):
            own = self.actions.reward_of(decision, choice, reward)
            if own is not None:
                shadow.sums.seen += 1
                shadow.sums.count(1.0, own)
        elif probability:
            shadow.sums.seen += 1
            if choice == action:
                shadow.sums.count(1.0 / probability, reward)

    def _expire(self, event: Expired) -> None:
        for number in event.decisions:
            waiting, value = self.waiting[number], self.actions.default_reward(number, self.spec.rewards)
            if value is None:
                del self.waiting[number]
                self.tally.dropped += 1
                self.outcomes.append(RewardRow(number, "dropped", None, event.at))
            else:
                self._take_in(number, waiting, value)
                self.tally.defaults += 1
                self.outcomes.append(RewardRow(number, "default", json.dumps(value), event.at))
        self.last_at = event.at

    def _remove_action(self, action: Label, at: float) -> None:
        for seat in (self.seat, *self.shadows):
            seat.learner.remove_action(action)
        for number in [number for number, waiting in self.waiting.items() if waiting[0] == action]:
            del self.waiting[number]
            self.tally.dropped += 1
            self.outcomes.append(RewardRow(number, "dropped", None, at))
        self._actions_changed()

    def _promote(self, name: str) -> None:
        promoted, before = self._shadow(name), self.seat
        self.shadows = [seat for seat in self.shadows if seat is not promoted and seat.name != FORMER]
        self.seat = promoted
        former = Seat(FORMER, before.policy, before.learner, before.since)
        former.offset, former.sums.since = before.offset, self.place(self.tally.decisions)
        former.seconds = before.seconds
        self.shadows.append(former)

    def place(self, decision: int) -> int:
        """The how-manieth a decision is: its number, where none were skipped."""
        return decision - sum(lost for before, lost in self.gaps if decision > before)

    def _actions_changed(self) -> None:
        self.actions.changed(self.tally.decisions, list(self.learner.actions))

    # --- checks -------------------------------------------------------------------------------------------------

    def rows(self, contexts: Sequence[Any]) -> list[list[Any]]:
        """Contexts as lists in the order of the features."""
        names = self.learner.schema.names
        try:
            return [context if type(context) is list else list(ordered_values(context, names)) for context in contexts]
        except (ValueError, TypeError) as error:
            raise invalid(str(error)) from None

    def _rehearse(self, change: str, action: Label) -> None:
        """Try a change of the actions on copies, since all learners must make it or none."""
        try:
            for seat in (self.seat, *self.shadows):
                getattr(copy.deepcopy(seat.learner), change)(action)
        except (ValueError, TypeError) as error:
            known = action in self.learner.actions
            status, code = (404, "unknown_action") if change == "remove_action" and not known else (409, "conflict")
            raise Problem(status, code, str(error)) from None

    def _require_running(self) -> None:
        if self.retired:
            raise Problem(409, "retired", f"experiment {self.spec.name!r} is retired: it decides no more")

    def _shadow(self, name: str) -> Seat:
        for shadow in self.shadows:
            if shadow.name == name:
                return shadow
        raise Problem(404, "unknown_shadow", f"there is no shadow {name!r}")

    # --- telling, saving ----------------------------------------------------------------------------------------

    def counts(self) -> Counts:
        """What has happened, for people."""
        tally = self.tally
        rewarded = tally.rewards + tally.defaults
        return Counts(
            decisions=tally.decisions,
            explored=tally.explored,
            asked=tally.asked,
            rewards=tally.rewards,
            defaults=tally.defaults,
            dropped=tally.dropped,
            waiting=len(self.waiting),
            mean_reward=tally.reward_sum / rewarded if rewarded else None,
        )

    def take_outcomes(self) -> list[RewardRow]:
        """What became of decisions since this was last asked."""
        taken, self.outcomes = self.outcomes, []
        return taken


def _drop_oldest(kept: OrderedDict[Any, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)


def _ask(learner: Any, rows: list[list[Any]]) -> list[Any]:
    """Decisions for all contexts, or an error and nothing changed."""
    return [learner.decide(rows[0])] if len(rows) == 1 else learner.decide_many(rows)
