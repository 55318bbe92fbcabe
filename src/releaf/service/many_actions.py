"""`ManyActions`: actions with features of a request, and the slate that a decision chose."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class ManyActions(Struct, array_like=True, gc=False):
    """What a decision among actions with features has besides.

    The actions that came with the request and their features, None to keep these; the size of the slate; and, in the
    log, the slate with its inclusion probabilities.
    """

    actions: dict[str, Any] | None = None
    k: int | None = None
    slate: tuple[str | int, ...] | None = None
    probabilities: tuple[float, ...] | None = None

    def is_same_request(self, other: ManyActions | None) -> bool:
        """Whether another request had the same actions and size."""
        return other is not None and (self.actions, self.k) == (other.actions, other.k)
