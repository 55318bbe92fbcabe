"""`ManyActions`: actions with features of a request, and the slate that a decision chose."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class ManyActions(Struct, array_like=True, gc=False):
    """What a decision among actions with features has besides.

    The actions that came with the request and their features, None to keep these; the size of the slate; and, in the
    log, the slate with its inclusion probabilities.

    A decision that ranks its actions has, in the log, the probability of each eligible one. A deferred one is not
    learnt from unless it is activated before its deadline. ``slot`` names the place that the action was chosen for.
    """

    actions: dict[str, Any] | None = None
    k: int | None = None
    slate: tuple[str | int, ...] | None = None
    probabilities: tuple[float, ...] | None = None
    is_ranked: bool = False
    is_deferred: bool = False
    chances: tuple[float, ...] | None = None
    slot: str | None = None

    def is_same_request(self, other: ManyActions | None) -> bool:
        """Whether another request had the same actions and size, and was deferred likewise."""
        return other is not None and _request_of(self) == _request_of(other)


def _request_of(many: ManyActions) -> tuple[Any, ...]:
    return many.actions, many.k, many.is_ranked, many.is_deferred, many.slot
