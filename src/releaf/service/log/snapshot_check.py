"""Snapshot check: a snapshot is loaded only if its checksum is right."""

from __future__ import annotations

from releaf.service.log.state_format import StateFormat, StateT, decompress
from releaf.service.store.base import Snapshot, body_checksum


def load_snapshot(snapshot: Snapshot, state_format: StateFormat[StateT]) -> StateT:
    """Restore the state that a snapshot holds; a ``ValueError`` if the snapshot is damaged."""
    if body_checksum(snapshot.body) != snapshot.checksum:
        raise ValueError("its checksum does not match")
    return state_format.load(decompress(snapshot.body))
