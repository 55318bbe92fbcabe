"""The log as people read it: recorded decisions with what became of them, page by page or as a file."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from releaf.service.errors import Problem
from releaf.service.experiments.served_experiment import Running
from releaf.service.experiments.time_series import iso
from releaf.service.log.events import Decided, decode_page
from releaf.service.messages import Recorded, RecordedPage
from releaf.service.store.base import RewardRow

MOST_LISTED = 1000
MOST_SCANNED = 200_000  # decisions that one page of a list looks through
ROWS_IN_A_GROUP = 10_000
FORMATS = {
    "csv": "text/csv; charset=utf-8",
    "ndjson": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
OUTCOMES = ("waiting", "rewarded", "default", "dropped", "unasked")
Wanted = Callable[[Recorded], bool]


def recorded(event: Decided, row: RewardRow | None, names: tuple[str, ...], is_waiting: bool) -> Recorded:
    """A decision with what became of it."""
    outcome = row.outcome if row is not None else "waiting" if is_waiting else "dropped"
    if not event.wants_reward:
        outcome = "unasked"
    return Recorded(
        decision=event.number,
        at=iso(event.at),
        context=dict(zip(names, event.context, strict=True)),
        action=event.action,
        probability=event.probability,
        explored=event.explored,
        wants_reward=event.wants_reward,
        outcome=outcome,
        reward=None if row is None or row.reward is None else json.loads(row.reward),
        rewarded_at=None if row is None or row.reward is None else iso(row.at),
    )


async def listed(running: Running, limit: int, before: int | None, wanted: Wanted) -> RecordedPage:
    """The latest decisions before one that are wanted, the latest first."""
    state = running.live()
    last = min(state.tally.decisions, (before or state.tally.decisions + 1) - 1)
    await running.flushed()
    found: list[Recorded] = []
    scanned, reached = 0, last
    if last < 1:
        return RecordedPage(decisions=[], next=None)
    async for page in running.store.pages_back(running.id, last):
        events = [event for event in decode_page(page.body) if isinstance(event, Decided) and event.number <= last]
        for one in reversed(await _with_rewards(running, events)):
            if len(found) == limit:
                break
            reached = one.decision
            if wanted(one):
                found.append(one)
        scanned += len(events)
        if len(found) == limit or scanned >= MOST_SCANNED:
            break
    return RecordedPage(decisions=found, next=reached if reached > 1 else None)


async def exported(running: Running, form: str) -> AsyncIterator[bytes]:
    """The whole log as a file, some of it at a time."""
    writer = _WRITERS[form](running)
    batch: list[Decided] = []
    await running.flushed()
    async for page in running.store.pages(running.id):
        batch += [event for event in decode_page(page.body) if isinstance(event, Decided)]
        if len(batch) >= ROWS_IN_A_GROUP:
            rows = await _with_rewards(running, batch)
            yield await asyncio.to_thread(writer.write, rows)
            batch = []
    rows = await _with_rewards(running, batch)
    yield await asyncio.to_thread(writer.write, rows)
    yield await asyncio.to_thread(writer.close)


async def _with_rewards(running: Running, events: list[Decided]) -> list[Recorded]:
    if not events:
        return []
    state = running.live()
    names = state.learner.schema.names
    waiting = {event.number for event in events if event.number in state.waiting}
    await running.flushed()  # rewards that came before now are on disk, so that none is missed between the two looks
    rows = await running.store.rewards(running.id, events[0].number, events[-1].number)
    return [recorded(event, rows.get(event.number), names, event.number in waiting) for event in events]


class _Columns:
    """Names of the columns of an export: a feature that is called like one of ours is marked as a feature."""

    ours = ("decision", "at", "action", "probability", "explored", "wants_reward", "outcome", "reward", "rewarded_at")

    def __init__(self, running: Running) -> None:
        schema = running.live().learner.schema
        self.features = list(schema.names)
        self.kinds = [feature.kind for feature in schema.features]
        self.named = [self._marked(name, schema.names) if name in self.ours else name for name in schema.names]

    def _marked(self, name: str, names: tuple[str, ...]) -> str:
        marked = f"context.{name}"
        return self._marked(marked, names) if marked in names else marked

    def row(self, one: Recorded) -> dict[str, Any]:
        values = {name: getattr(one, name) for name in self.ours}
        if isinstance(one.reward, list):
            values["reward"] = json.dumps(one.reward)
        contexts = dict(zip(self.named, one.context.values(), strict=True))
        return {"decision": values.pop("decision"), "at": values.pop("at"), **contexts, **values}


class _Csv:
    def __init__(self, running: Running) -> None:
        self._columns, self._begun = _Columns(running), False

    def write(self, rows: list[Recorded]) -> bytes:
        text = io.StringIO()
        columns = self._columns
        names = ["decision", "at", *columns.named, *columns.ours[2:]]
        writer = csv.DictWriter(text, names)
        if not self._begun:
            writer.writeheader()
            self._begun = True
        writer.writerows(columns.row(one) for one in rows)
        return text.getvalue().encode()

    def close(self) -> bytes:
        return b""


class _Ndjson:
    def __init__(self, running: Running) -> None:
        self._encoder = msgspec.json.Encoder()

    def write(self, rows: list[Recorded]) -> bytes:
        return self._encoder.encode_lines(rows)

    def close(self) -> bytes:
        return b""


class _Parquet:
    """Row groups as they come; what the writer has put out so far is taken from under it."""

    def __init__(self, running: Running) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._columns = columns = _Columns(running)
        self._all = running.live().learner.wants_all
        kinds = {"categorical": pa.string(), "boolean": pa.bool_()}
        self._types = [kinds.get(kind, pa.float64()) for kind in columns.kinds]
        time = pa.timestamp("ms", tz="UTC")
        self._schema = pa.schema(
            [
                ("decision", pa.int64()),
                ("at", time),
                *zip(columns.named, self._types, strict=True),
                ("action", pa.string()),
                ("probability", pa.float64()),
                ("explored", pa.bool_()),
                ("wants_reward", pa.bool_()),
                ("outcome", pa.string()),
                ("reward", pa.string() if self._all else pa.float64()),
                ("rewarded_at", time),
            ]
        )
        self._sink = _Sink()
        self._writer = pq.ParquetWriter(self._sink, self._schema)

    def write(self, rows: list[Recorded]) -> bytes:
        import pyarrow as pa
        import pyarrow.compute as pc

        made = [self._columns.row(one) for one in rows]
        arrays = []
        for field in self._schema:
            values = [row[field.name] for row in made]
            if field.type == pa.string():
                arrays.append(pa.array([None if value is None else str(value) for value in values], pa.string()))
            elif pa.types.is_timestamp(field.type):
                arrays.append(pc.cast(pa.array(values, pa.string()), field.type))
            elif field.type == pa.bool_():
                arrays.append(pa.array([None if value is None else bool(value) for value in values], pa.bool_()))
            elif field.type == pa.float64():  # Arrow refuses whole numbers that a float can't hold exactly
                arrays.append(pa.array([None if value is None else float(value) for value in values], field.type))
            else:
                arrays.append(pa.array(values, field.type))
        if made:
            self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        return self._sink.take()

    def close(self) -> bytes:
        self._writer.close()
        return self._sink.take()


class _Sink(io.RawIOBase):
    """A file that hands on what is written to it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._length += len(part)
        return len(part)

    def tell(self) -> int:
        return self._length

    def take(self) -> bytes:
        taken, self._parts = b"".join(self._parts), []
        return taken


_WRITERS: dict[str, Callable[[Running], Any]] = {"csv": _Csv, "ndjson": _Ndjson, "parquet": _Parquet}


def wanted_by(
    action: str | None, explored: str | None, outcome: str | None, since: str | None, until: str | None
) -> Wanted:
    """What the filters of a list let through."""
    if explored not in (None, "true", "false"):
        raise Problem(422, "invalid", f"explored is {explored!r}: expected true or false")
    if outcome is not None and outcome not in OUTCOMES:
        raise Problem(422, "invalid", f"outcome is {outcome!r}: expected one of {', '.join(OUTCOMES)}")
    first, last = _time("since", since), _time("until", until)

    def wanted(one: Recorded) -> bool:
        return (
            (action is None or str(one.action) == action)
            and (explored is None or one.explored == (explored == "true"))
            and (outcome is None or one.outcome == outcome)
            and (first is None or one.at >= first)
            and (last is None or one.at < last)
        )

    return wanted


def _time(name: str, given: str | None) -> str | None:
    """A time in the form in which the log tells times, which sorts as they do."""
    from datetime import UTC, datetime

    if given is None:
        return None
    try:
        moment = datetime.fromisoformat(given)
        return iso((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError, OSError):
        raise Problem(422, "invalid", f"{name} is {given!r}: expected a time such as 2026-01-31T12:00:00Z") from None
