"""An experiment as a snapshot keeps it: held on to in an instant, made into bytes in another thread."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from releaf.service.experiments.action_history import Actions, Label
from releaf.service.experiments.learner_slot import Seat, SeatRecord
from releaf.service.experiments.state import Experiment, Tally, Waiting
from releaf.service.experiments.time_series import Series
from releaf.service.messages import NewExperiment

TOGETHER = 5_000  # entries that are encoded in one go, so that other threads don't wait for long
_encode = msgspec.msgpack.encode


class Record(Struct):
    """All that an experiment consists of. What is long is encoded in pieces."""

    spec: NewExperiment
    last_at: float
    retired: bool
    tally: Tally
    seat: SeatRecord
    shadows: list[SeatRecord]
    actions: list[tuple[int, list[Label]]]
    gaps: list[tuple[int, int]]
    waiting: list[bytes]
    keys: list[bytes]
    series: Series
    diverged: int | None


def freeze(state: Experiment) -> Callable[[], bytes]:
    """Hold on to an experiment as it is now; what is returned makes the bytes of it."""
    seats = [seat.freeze() for seat in (state.seat, *state.shadows)]
    waiting, keys = _held(state.waiting), _held(state.keys)
    record = Record(
        spec=state.spec,
        last_at=state.last_at,
        retired=state.retired,
        tally=msgspec.structs.replace(state.tally),
        seat=None,  # type: ignore[arg-type]  # made later, since it takes longer
        shadows=[],
        actions=list(state.actions.since),
        gaps=list(state.gaps),
        waiting=[],
        keys=[],
        series=msgspec.msgpack.decode(_encode(state.series), type=Series),
        diverged=state.diverged,
    )

    def to_bytes() -> bytes:
        record.seat, *record.shadows = [seat() for seat in seats]
        record.waiting, record.keys = _in_pieces(waiting), _in_pieces(keys)
        return _encode(record)

    return to_bytes


def as_bytes(state: Experiment) -> bytes:
    """The bytes of an experiment; equal states give equal bytes."""
    return freeze(state)()


def from_bytes(content: bytes) -> Experiment:
    """The experiment that ``freeze`` held on to; ``ValueError`` where it is none."""
    try:
        kept = msgspec.msgpack.decode(content, type=Record)
        waiting = OrderedDict(_joined(kept.waiting, list[tuple[int, Waiting]]))
        keys = OrderedDict(_joined(kept.keys, list[tuple[str, int]]))
    except msgspec.DecodeError as error:
        raise ValueError(f"it holds no experiment: {error}") from None
    seat = Seat.from_record(kept.seat)
    made = Experiment(kept.spec, seat.learner)
    made.seat, made.shadows = seat, [Seat.from_record(shadow) for shadow in kept.shadows]
    made.tally, made.series, made.diverged = kept.tally, kept.series, kept.diverged
    made.actions, made.last_at, made.retired = Actions(kept.actions), kept.last_at, kept.retired
    made.waiting, made.keys, made.gaps = waiting, keys, kept.gaps
    return made


def packed(content: bytes) -> bytes:
    """Bytes for the store; much of a learner that has learnt little is zeros."""
    return zlib.compress(content, 1)


def unpacked(content: bytes) -> bytes:
    """The bytes that ``packed`` got; ``ValueError`` where it got none."""
    try:
        return zlib.decompress(content)
    except zlib.error as error:
        raise ValueError(str(error)) from None


def _held(entries: OrderedDict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """All entries, without an object for each: making these would take a hundred times as long."""
    return list(entries), list(entries.values())


def _in_pieces(entries: tuple[list[Any], list[Any]]) -> list[bytes]:
    pieces = (slice(first, first + TOGETHER) for first in range(0, len(entries[0]), TOGETHER))
    return [_encode(list(zip(entries[0][piece], entries[1][piece], strict=True))) for piece in pieces]


def _joined(pieces: list[bytes], kind: Any) -> list[Any]:
    return [entry for piece in pieces for entry in msgspec.msgpack.decode(piece, type=kind)]
