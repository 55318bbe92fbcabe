"""Serialization of an experiment's state: captured in an instant, made into bytes in another thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from releaf.service.experiments.action_history import ActionHistory
from releaf.service.experiments.cohorts import OpenCohorts
from releaf.service.experiments.counters import ExperimentCounters
from releaf.service.experiments.idempotency import IdempotencyKeys
from releaf.service.experiments.learner_slot import LearnerSlot, SlotRecord
from releaf.service.experiments.pending_decisions import DeferredDecisions, PendingDecision, PendingDecisions
from releaf.service.experiments.state import ExperimentState
from releaf.service.experiments.time_series import TimeSeries
from releaf.service.log.events import ExperimentAction, Reward
from releaf.service.log.state_format import StateFormat
from releaf.service.messages import NewExperiment, RetentionRules

ENTRIES_PER_PIECE = 5_000  # encoded in one call, so that other threads don't wait long for the interpreter's lock
_encode = msgspec.msgpack.encode
# Names of fields in the file, which stay as they were released.
_STORED_AS = {"counters": "tally", "slot": "seat", "pending": "waiting"}


class ExperimentRecord(Struct, rename=_STORED_AS):
    """An experiment's state in a snapshot. Long parts are encoded in pieces."""

    spec: NewExperiment
    last_at: float
    retired: bool
    counters: ExperimentCounters
    slot: SlotRecord
    shadows: list[SlotRecord]
    actions: list[tuple[int, list[ExperimentAction]]]
    gaps: list[tuple[int, int]]
    pending: list[bytes]
    keys: list[bytes]
    series: TimeSeries
    diverged: int | None
    retention: RetentionRules | None = None  # None in snapshots of earlier versions, which had none
    has_requested_actions: bool = False
    deferred: dict[int, Reward | None] = {}
    cohorts: OpenCohorts | None = None  # None in snapshots of earlier versions, which counted rewards as they came
    receipt_parts: list[tuple[int, str]] = []


def freeze(state: ExperimentState) -> Callable[[], bytes]:
    """Capture a state quickly; the function that this returns makes the bytes later."""
    slots = [slot.freeze() for slot in (state.slot, *state.shadows)]
    pending, keys = _capture(state.pending), _capture(state.keys)
    record = ExperimentRecord(
        spec=state.spec,
        last_at=state.last_at,
        retired=state.retired,
        counters=msgspec.structs.replace(state.counters),
        slot=None,  # type: ignore[arg-type]  # set by to_bytes, because it takes longer
        shadows=[],
        actions=list(state.actions.versions),
        gaps=list(state.gaps),
        pending=[],
        keys=[],
        series=msgspec.Raw(_encode(state.series)),  # type: ignore[arg-type]  # encoded at once, because it changes
        diverged=state.diverged,
        retention=state.retention,
        has_requested_actions=state.has_requested_actions,
        deferred=dict(state.deferred),
        cohorts=msgspec.Raw(_encode(state.cohorts)),  # type: ignore[arg-type]
        receipt_parts=list(state.receipt_parts),
    )

    def to_bytes() -> bytes:
        record.slot, *record.shadows = [slot() for slot in slots]
        record.pending, record.keys = _encode_pieces(pending), _encode_pieces(keys)
        return _encode(record)

    return to_bytes


def from_bytes(content: bytes) -> ExperimentState:
    """Restore a state; a ``ValueError`` if the content is none."""
    try:
        record = msgspec.msgpack.decode(content, type=ExperimentRecord)
        pending = PendingDecisions(_decode_pieces(record.pending, list[tuple[int, PendingDecision]]))
        keys = IdempotencyKeys(_decode_pieces(record.keys, list[tuple[str, int]]))
    except msgspec.DecodeError as error:
        raise ValueError(f"it holds no experiment: {error}") from None
    slot = LearnerSlot.from_record(record.slot)
    state = ExperimentState(record.spec, slot.learner)
    state.slot, state.shadows = slot, [LearnerSlot.from_record(shadow) for shadow in record.shadows]
    state.counters, state.series, state.diverged = record.counters, record.series, record.diverged
    state.actions, state.last_at, state.retired = ActionHistory(record.actions), record.last_at, record.retired
    state.pending, state.keys, state.gaps = pending, keys, record.gaps
    state.retention = record.retention or record.spec.retention
    state.has_requested_actions = record.has_requested_actions
    state.deferred, state.receipt_parts = DeferredDecisions(record.deferred), record.receipt_parts
    state.series.upgrade(state.ordinal(state.decisions))
    state.settle_unaccounted()
    if record.cohorts is None:
        state.upgrade_cohorts()
    else:
        state.cohorts = record.cohorts
    return state


def agree(saved: ExperimentState, replayed: ExperimentState) -> bool:
    """Whether a saved state is that of a replay.

    The time series of an experiment that an earlier version began has no actions up to some decision, which a replay of
    the whole log has: then only their totals are compared. Its estimates of shadows counted rewards as they came, which
    a replay counts by cohort: then they are not compared.
    """
    if saved.cohorts.since != replayed.cohorts.since:
        _adopt_estimates(saved, replayed)
    if saved.series.since != replayed.series.since:
        if saved.series.totals() != replayed.series.totals():
            return False
        kept, saved.series = saved.series, replayed.series
        try:
            return agree(saved, replayed)
        finally:
            saved.series = kept
    return freeze(saved)() == freeze(replayed)()


def _adopt_estimates(saved: ExperimentState, replayed: ExperimentState) -> None:
    saved.cohorts = replayed.cohorts
    for own, other in zip((saved.slot, *saved.shadows), (replayed.slot, *replayed.shadows), strict=False):
        own.estimate = other.estimate


EXPERIMENT_FORMAT: StateFormat[ExperimentState] = StateFormat(freeze, from_bytes, agree)


def _capture(entries: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Copy keys and values; to make a tuple of each pair would take a hundred times as long."""
    return list(entries), list(entries.values())


def _encode_pieces(entries: tuple[list[Any], list[Any]]) -> list[bytes]:
    starts = range(0, len(entries[0]), ENTRIES_PER_PIECE)
    pieces = (slice(first, first + ENTRIES_PER_PIECE) for first in starts)
    return [_encode(list(zip(entries[0][piece], entries[1][piece], strict=True))) for piece in pieces]


def _decode_pieces(pieces: list[bytes], kind: Any) -> list[Any]:
    return [entry for piece in pieces for entry in msgspec.msgpack.decode(piece, type=kind)]
