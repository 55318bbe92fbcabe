"""Messages of Personalizer's API. Class names are those of its specification; unknown fields are ignored, as there."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

MAX_ID = 256  # characters
MAX_SLOTS = 50
Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID)]
EventId = Annotated[str, Meta(max_length=MAX_ID)]
FeatureList = list[dict[str, Any]]


class RankableAction(Struct, rename="camel"):
    """An action with its features."""

    id: Id
    features: FeatureList


class RankRequest(Struct, rename="camel", kw_only=True):
    """A context and the actions to rank, in the order in which the application would show them."""

    actions: Annotated[list[RankableAction], Meta(min_length=1)]
    context_features: FeatureList | None = None
    excluded_actions: list[str] | None = None
    event_id: EventId | None = None
    defer_activation: bool | None = False


class RankedAction(Struct, rename="camel"):
    """An action and its probability to be the one that is shown; 0 for excluded actions."""

    id: str
    probability: float


class RankResponse(Struct, rename="camel"):
    """The ranked actions. Show ``rewardActionId``, and send its reward for ``eventId``."""

    ranking: list[RankedAction]
    event_id: str
    reward_action_id: str


class RewardRequest(Struct, rename="camel"):
    """The reward of an event's action, between -1 and 1."""

    value: float


class SlotRequest(Struct, rename="camel", kw_only=True):
    """A place for an action, and the action that the application would use there."""

    id: Id
    baseline_action: Id
    features: FeatureList | None = None
    excluded_actions: list[str] | None = None


class MultiSlotRankRequest(Struct, rename="camel", kw_only=True):
    """A context, the actions to choose from, and the slots to fill, each with another action."""

    actions: Annotated[list[RankableAction], Meta(min_length=1)]
    slots: Annotated[list[SlotRequest], Meta(min_length=1, max_length=MAX_SLOTS)]
    context_features: FeatureList | None = None
    event_id: EventId | None = None
    defer_activation: bool | None = False


class SlotResponse(Struct, rename="camel"):
    """The action to use in a slot."""

    id: str
    reward_action_id: str


class MultiSlotRankResponse(Struct, rename="camel"):
    """An action for each slot."""

    slots: list[SlotResponse]
    event_id: str


class SlotReward(Struct, rename="camel"):
    """The reward of the action in a slot, between -1 and 1."""

    slot_id: Id
    value: float


class MultiSlotRewardRequest(Struct, rename="camel"):
    """Rewards of slots of an event."""

    reward: Annotated[list[SlotReward], Meta(min_length=1)]


class PersonalizerError(Struct, rename="camel"):
    """An error: its code for programs, and a message for people."""

    code: str
    message: str


class ErrorResponse(Struct, rename="camel"):
    """The response to a rejected request."""

    error: PersonalizerError
