"""Handlers of Personalizer's multi-slot API: one decision for each slot, among the actions that are left."""

from __future__ import annotations

import uuid
from typing import Any

from releaf.service.errors import ApiError, invalid_request
from releaf.service.experiments.repeated_requests import AskedBefore, require_same_request
from releaf.service.experiments.served_experiment import ServedExperiment
from releaf.service.experiments.state import ExperimentState
from releaf.service.http.operation import ApiRequest
from releaf.service.log.events import Decided
from releaf.service.many_actions import ManyActions
from releaf.service.messages import Baseline, RewardOf
from releaf.service.personalizer.handlers import check_actions, check_event_id, find_experiment, hash_widths
from releaf.service.personalizer.hashed_features import hash_features
from releaf.service.personalizer.messages import (
    MultiSlotRankRequest,
    MultiSlotRankResponse,
    SlotRequest,
    SlotResponse,
)
from releaf.service.personalizer.slot_filling import fillable_actions

SEPARATOR = "\x1f"  # in no eventId


class SlotPlan:
    """The decisions of a request: for each slot its context, and its actions once those of earlier slots are known."""

    def __init__(self, ask: MultiSlotRankRequest, event_id: str, widths: tuple[int, int]) -> None:
        self._deferred, self._event_id = bool(ask.defer_activation), event_id
        self._features = {action.id: hash_features(action.features, widths[1]) for action in ask.actions}
        self.slots = ask.slots
        self.contexts = [_slot_context(ask, slot, widths[0]) for slot in ask.slots]
        self._allowed = [self._features.keys() - set(slot.excluded_actions or ()) for slot in ask.slots]
        _check_slots(ask, set(self._features))

    def key(self, slot: int) -> str:
        return slot_key(self._event_id, slot)

    def choices(self, slot: int, used: set[str]) -> ManyActions:
        """The actions for a slot."""
        names = fillable_actions(self._allowed[slot:], used)
        own = {name: self._features[name] for name in names}
        return ManyActions(own, is_ranked=True, is_deferred=self._deferred, slot=self.slots[slot].id)

    def baseline(self, slot: int, state: ExperimentState) -> Baseline | None:
        """What the application would use in a slot, where an apprentice watches it."""
        return Baseline(action=self.slots[slot].baseline_action) if state.spec.apprentice else None

    def decide(self, state: ExperimentState, at: float) -> list[Decided]:
        """Decide for each slot."""
        state.pending.require_capacity_for(
            len(self.slots), state.slot.policy
        )  # later ones must not fail after the first
        most = getattr(state.learner, "max_actions", len(self._features))
        if len(self._features) > most:
            raise invalid_request(f"actions has {len(self._features):,} actions: expected at most {most:,}")
        made: list[Decided] = []
        for slot, context in enumerate(self.contexts):
            many = self.choices(slot, {str(event.action) for event in made})
            baseline = self.baseline(slot, state)
            own = None if baseline is None else [baseline]
            made += state.decide([context], [self.key(slot)], at, many=many, baselines=own)
        return made

    async def decide_again(self, experiment: ServedExperiment, known: list[int]) -> list[Decided]:
        """The decisions of an earlier request with the same eventId; an error if it was another request."""
        recorded: list[Decided] = []
        if len(known) != len(self.slots):
            raise ApiError(409, "key_reused", f"eventId {self._event_id!r} was used with other slots: use another one")
        for slot, number in enumerate(known):
            many = self.choices(slot, {str(event.action) for event in recorded})
            asked = AskedBefore(self.contexts[slot], None, None, many, None, self.baseline(slot, experiment.live()))
            recorded.append(await experiment.read_decision(number))
            require_same_request(asked, recorded[-1], self._event_id, experiment.live(), experiment.hashes)
        return recorded


async def rank_slots(request: ApiRequest) -> MultiSlotRankResponse:
    ask: MultiSlotRankRequest = request.body
    experiment = find_experiment(request)
    widths = hash_widths(experiment)
    check_actions(ask.actions, ask.actions)
    event_id = ask.event_id or str(uuid.uuid4())
    check_event_id(event_id)
    plan = SlotPlan(ask, event_id, widths)
    known = known_slots(experiment, event_id)
    if known:
        made = await plan.decide_again(experiment, known)
    else:
        made = await experiment.decide_together(plan.decide)
    request.note_decisions(experiment.name, made)
    slots = [SlotResponse(slot.id, str(event.action)) for slot, event in zip(ask.slots, made, strict=True)]
    return MultiSlotRankResponse(slots, event_id)


async def reward_slots(request: ApiRequest) -> None:
    """Learn the first reward of each slot; further ones, and late ones, are accepted and ignored."""
    experiment, event_id = find_experiment(request), request.path["event"]
    decisions = {}
    for number in required_slots(experiment, event_id):
        event = await experiment.read_decision(number)
        decisions[event.many.slot if event.many is not None else None] = number
    values: dict[int, float] = {}
    for one in request.body.reward:
        if one.slot_id not in decisions:
            raise ApiError(404, "unknown_slot", f"event {event_id!r} has no slot {one.slot_id!r}")
        values.setdefault(decisions[one.slot_id], one.value)
    state = experiment.live()
    waiting = [number for number in values if state.is_pending(number) and state.deferred.get(number) is None]
    if waiting:
        rewards = [RewardOf(decision=number, reward=values[number]) for number in waiting]
        await request.reward(experiment, rewards, needs_receipts=False)
    else:
        await experiment.flush()


async def activate_slots(request: ApiRequest) -> None:
    """Let the rewards of all slots of a deferred event count."""
    experiment = find_experiment(request)
    for number in required_slots(experiment, request.path["event"]):
        if number in experiment.live().deferred:
            await experiment.change("activate", number)
    await experiment.flush()


def slot_key(event_id: str, slot: int) -> str:
    """The idempotency key of the decision for a slot, given by its place."""
    return f"{event_id}{SEPARATOR}{slot}"


def known_slots(experiment: ServedExperiment, event_id: str) -> list[int]:
    """The decisions of an event, one for each slot; empty if the event is unknown."""
    keys, found = experiment.live().keys, list[int]()
    while (key := slot_key(event_id, len(found))) in keys:
        found.append(keys[key])
    return found


def required_slots(experiment: ServedExperiment, event_id: str) -> list[int]:
    """The decisions of an event; an error with status 404 if it is unknown."""
    found = known_slots(experiment, event_id)
    if not found:
        message = f"unknown event {event_id!r}: expected the eventId of an earlier multi-slot Rank"
        raise ApiError(404, "unknown_event", message)
    return found


def _slot_context(ask: MultiSlotRankRequest, slot: SlotRequest, width: int) -> list[float]:
    """Columns of the context and of a slot, whose id is a feature too: places differ."""
    own: dict[str, Any] = {"slot": {"id": slot.id, "features": slot.features or []}}
    return hash_features([*(ask.context_features or ()), own], width)


def _check_slots(ask: MultiSlotRankRequest, actions: set[str]) -> None:
    _require_different("slots has the id", [slot.id for slot in ask.slots])
    _require_different("slots has the baselineAction", [slot.baseline_action for slot in ask.slots])
    for slot in ask.slots:
        if slot.baseline_action not in actions:
            raise invalid_request(
                f"slot {slot.id!r} has the baselineAction {slot.baseline_action!r}: expected one of actions"
            )
        if slot.baseline_action in (slot.excluded_actions or ()):
            raise invalid_request(f"slot {slot.id!r} excludes its baselineAction: expected another one")


def _require_different(what: str, names: list[str]) -> None:
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise invalid_request(f"{what} {twice!r} twice: expected different ones")
