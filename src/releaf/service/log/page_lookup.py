"""Lookup of decisions in a page, without the time and the memory to decode all that the others have."""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection
from typing import Any, get_args

import msgspec
from msgspec import Raw, Struct

from releaf.service.log.events import REDACTED_HEADER, AnyEvent, Decided, ExperimentAction, is_redacted

DECIDED = Decided.__struct_config__.tag
OTHER_TAGS = [kind.__struct_config__.tag for kind in get_args(AnyEvent) if kind is not Decided]


class DecisionHead(Struct, array_like=True, gc=False, tag=DECIDED):
    """The first fields of `Decided`."""

    at: float
    number: int
    context: Raw
    action: ExperimentAction
    probability: Raw
    explored: bool
    wants_reward: bool


_OTHERS: list[Any] = [msgspec.defstruct(f"_Event{tag}", [], array_like=True, gc=False, tag=tag) for tag in OTHER_TAGS]
_heads: msgspec.msgpack.Decoder[list[Any]] = msgspec.msgpack.Decoder(
    list[functools.reduce(operator.or_, _OTHERS, DecisionHead)]  # type: ignore[misc]
)
_parts = msgspec.msgpack.Decoder(list[Raw])
_decision = msgspec.msgpack.Decoder(Decided)


def find_heads(body: bytes) -> list[DecisionHead]:
    """The heads of a page's decisions."""
    return [head for head in _decode(_heads, body) if type(head) is DecisionHead]


def find_requested(body: bytes, numbers: Collection[int]) -> dict[int, bool]:
    """Whether the decisions of a page that have these numbers asked for their rewards."""
    wanted = frozenset(numbers)
    return {head.number: head.wants_reward for head in find_heads(body) if head.number in wanted}


def find_decisions(body: bytes, numbers: Collection[int]) -> dict[int, Decided]:
    """The decisions of a page that have these numbers."""
    heads, parts, wanted = _decode(_heads, body), _decode(_parts, body), frozenset(numbers)
    return {
        head.number: _decision.decode(part)
        for head, part in zip(heads, parts, strict=True)
        if type(head) is DecisionHead and head.number in wanted
    }


def _decode(decoder: msgspec.msgpack.Decoder[list[Any]], body: bytes) -> list[Any]:
    try:
        return decoder.decode(memoryview(body)[REDACTED_HEADER:] if is_redacted(body) else body)
    except msgspec.DecodeError as error:
        raise ValueError(f"it holds no events: {error}") from None
