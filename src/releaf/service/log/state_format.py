"""The log's view of an experiment: a state that replays events, and its serialization.

The log does not depend on experiments. It handles any state that has these methods, through a `StateFormat`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from releaf.service.log.events import AnyEvent
from releaf.service.store.base import RewardRow


class ReplayableState(Protocol):
    """A state that the events of a log determine, bit for bit."""

    @property
    def decisions(self) -> int:
        """Number of the latest decision."""

    @property
    def last_at(self) -> float:
        """Time of the latest event; 0 if there is none."""

    @property
    def diverged(self) -> int | None:
        """The first decision for which a replay chose another action than the log has; None if there is none."""

    @property
    def size(self) -> int:
        """Number of entries that a snapshot has to save, besides those of the learner."""

    def apply(self, event: AnyEvent) -> None:
        """Replay one event."""

    def is_pending(self, decision: int) -> bool:
        """Whether a decision waits for its reward."""

    def unaccounted(self) -> int:
        """Decisions that asked for a reward and are neither pending nor have come to an end: none."""

    def take_outcomes(self) -> list[RewardRow]:
        """Return the outcomes of decisions since the last call."""


StateT = TypeVar("StateT", bound=ReplayableState)


@dataclass(frozen=True, slots=True)
class StateFormat(Generic[StateT]):
    """Serialization of a state.

    Attributes
    ----------
    freeze
        Capture a state quickly; the function that it returns makes the bytes later, in any thread.
    load
        Restore a state from these bytes; ``ValueError`` if they hold none.
    agree
        Whether a saved state is that of a replay, as far as the version that saved it recorded the same.
    """

    freeze: Callable[[StateT], Callable[[], bytes]]
    load: Callable[[bytes], StateT]
    agree: Callable[[StateT, StateT], bool]

    def to_bytes(self, state: StateT) -> bytes:
        """Serialize a state; equal states give equal bytes."""
        return self.freeze(state)()


def compress(content: bytes) -> bytes:
    """Compress a serialized state for the store: a learner with few rewards is mostly zeros."""
    return zlib.compress(content, 1)


def decompress(content: bytes) -> bytes:
    """Undo `compress`; ``ValueError`` if the content is no compressed state."""
    try:
        return zlib.decompress(content)
    except zlib.error as error:
        raise ValueError(str(error)) from None
