"""What an experiment's log consists of. A page of the log is the events of one group commit, as MessagePack.

The log holds what was answered, not only what was asked: a decision stands in it with its action and probability, so
that whoever reads it needs no learner to know what was done, and a replay that comes to another action is noticed.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from releaf.service.messages import PolicySpec

Label = str | int
Reward = float | list[float]


class Event(Struct, array_like=True, gc=False):  # which is never part of a cycle
    """Something that happened to an experiment, at a time in seconds since 1970 that never goes back."""

    at: float


class Decided(Event, tag=1):
    """A context came, and an action was chosen. ``shadows``: what the policies beside it would have done."""

    number: int
    context: list[Any]
    action: Label
    probability: float | None
    explored: bool
    wants_reward: bool
    estimates: tuple[float, ...] | None
    relevant: tuple[tuple[int, ...] | None, ...] | None
    key: str | None
    shadows: dict[str, Label] | None


class Rewarded(Event, tag=2):
    """The reward of a decision came."""

    decision: int
    reward: Reward


class Expired(Event, tag=3):
    """The deadline of these decisions passed without a reward."""

    decisions: list[int]


class ActionAdded(Event, tag=4):
    """From here on there is one more action."""

    action: Label


class ActionRemoved(Event, tag=5):
    """From here on an action is no longer taken."""

    action: Label


class ShadowAdded(Event, tag=6):
    """From here on another policy decides beside the one in charge; ``learner`` is how it began."""

    name: str
    policy: PolicySpec
    learner: bytes


class ShadowRemoved(Event, tag=7):
    """From here on that policy is gone."""

    name: str


class Promoted(Event, tag=8):
    """From here on a shadow is in charge, and the policy that was is its shadow."""

    name: str


class Retired(Event, tag=9):
    """From here on there are no more decisions."""


class Lost(Event, tag=10):
    """The end of the log could not be read: numbers of decisions up to this one are not given again."""

    decision: int


AnyEvent = (
    Decided | Rewarded | Expired | ActionAdded | ActionRemoved | ShadowAdded | ShadowRemoved | Promoted | Retired | Lost
)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[AnyEvent])


def encode_page(events: list[AnyEvent]) -> bytes:
    """The body of a page."""
    return _encoder.encode(events)


def decode_page(body: bytes) -> list[AnyEvent]:
    """The events of a page; ``ValueError`` where it is none."""
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise ValueError(f"it holds no events: {error}") from None
