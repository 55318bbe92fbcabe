"""Export of the recorded decisions as CSV, newline-delimited JSON or Parquet.

Run as a program, it reads an `ExportTask` as JSON and writes the file to standard output.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from releaf.service.log.decision_record import decision_record
from releaf.service.log.events import Decided, decode_page
from releaf.service.messages import Recorded
from releaf.service.store.read_only import open_reader
from releaf.service.store.sql_queries import SqlQueries

ROWS_PER_GROUP = 10_000
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
PLAIN_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
FORMATS = {
    "csv": "text/csv; charset=utf-8",
    "ndjson": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}


class ExportTask(msgspec.Struct):
    """What to export: an experiment of a store, its features, and what rewards are of."""

    store: str
    experiment: int
    file_format: str
    names: list[str]
    kinds: list[str]
    wants_all: bool
    has_slates: bool = False  # whether decisions may be slates
    has_costs: bool = False  # whether actions have costs
    has_groups: bool = False  # whether there is a control group
    has_label_costs: bool = False  # whether the policy takes costs of labels


async def export_chunks(reader: SqlQueries, task: ExportTask) -> AsyncIterator[bytes]:
    """All decisions as a file, in chunks."""
    writer = _WRITERS[task.file_format](task)
    batch: list[Decided] = []
    async for page in reader.pages(task.experiment):
        batch += [event for event in decode_page(page.body) if isinstance(event, Decided)]
        if len(batch) >= ROWS_PER_GROUP:
            yield writer.write(await _with_rewards(reader, task, batch))
            batch = []
    yield writer.write(await _with_rewards(reader, task, batch))
    yield writer.close()


async def _with_rewards(reader: SqlQueries, task: ExportTask, events: list[Decided]) -> list[Recorded]:
    """Join decisions with their rewards; one without an outcome waits for it."""
    if not events:
        return []
    rows = await reader.rewards(task.experiment, events[0].number, events[-1].number)
    names = tuple(task.names)
    return [decision_record(event, rows.get(event.number), names, is_pending=True) for event in events]


class _ExportColumns:
    """Column names of an export: a feature with the name of a fixed column gets the prefix ``context.``."""

    fixed: tuple[str, ...] = (
        *("decision", "at", "action", "probability", "explored", "wants_reward", "outcome", "reward", "rewarded_at"),
        "eligible",
    )

    def __init__(self, task: ExportTask) -> None:
        names = tuple(task.names)
        self.kinds = task.kinds
        if task.has_slates:
            self.fixed = (*self.fixed, "slate", "slate_probabilities", "slate_rewards")
        if task.has_costs:
            self.fixed = (*self.fixed, "cost", "costs")
        if task.has_groups:
            self.fixed = (*self.fixed, "group")
        if task.has_label_costs:
            self.fixed = (*self.fixed, "label_cost")
        self.named = [self._prefixed(name, names) if name in self.fixed else name for name in names]

    def _prefixed(self, name: str, names: tuple[str, ...]) -> str:
        prefixed = f"context.{name}"
        return self._prefixed(prefixed, names) if prefixed in names else prefixed

    def row(self, record: Recorded) -> dict[str, Any]:
        values = {name: getattr(record, name, None) for name in self.fixed}
        if isinstance(record.reward, dict):  # the reward of a slate is that of its first action, if it was observed
            values["slate_rewards"] = json.dumps(record.reward)
            values["reward"] = record.reward.get(str(record.action))
        if isinstance(record.reward, list):
            values["reward"] = json.dumps(record.reward)
        dropped = [None] * len(self.named)  # by the experiment's retention
        contexts = dict(zip(self.named, record.context.values() or dropped, strict=True))
        return {"decision": values.pop("decision"), "at": values.pop("at"), **contexts, **values}


def neutralize_formula(cell: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet would run as a formula; numbers stay as they are.

    >>> [neutralize_formula(cell) for cell in ("=1+1", "-1.5", -1.5, "tea")]
    ["'=1+1", '-1.5', -1.5, 'tea']
    """
    if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) and not PLAIN_NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def join_names(names: list[Any] | None) -> str | None:
    """Names of eligible actions, or numbers, in one cell, separated by ``|``."""
    return None if names is None else "|".join(map(str, names))


class _CsvWriter:
    """Writes CSV that spreadsheets open without running formulas."""

    def __init__(self, task: ExportTask) -> None:
        self._columns, self._has_header = _ExportColumns(task), False

    def write(self, rows: list[Recorded]) -> bytes:
        text = io.StringIO()
        columns = self._columns
        names = ["decision", "at", *columns.named, *columns.fixed[2:]]
        writer = csv.writer(text)
        if not self._has_header:
            writer.writerow(map(neutralize_formula, names))
            self._has_header = True
        for record in rows:
            values = columns.row(record)
            for name in ("eligible", "slate", "slate_probabilities", "costs"):
                values[name] = join_names(values.get(name))
            writer.writerow([neutralize_formula(values[name]) for name in names])
        return text.getvalue().encode()

    def close(self) -> bytes:
        return b""


class _NdjsonWriter:
    def __init__(self, task: ExportTask) -> None:
        self._encoder = msgspec.json.Encoder()

    def write(self, rows: list[Recorded]) -> bytes:
        return self._encoder.encode_lines(rows)

    def close(self) -> bytes:
        return b""


class _ParquetWriter:
    """Writes one row group per call, and returns the bytes written so far."""

    def __init__(self, task: ExportTask) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._columns = columns = _ExportColumns(task)
        self._all = task.wants_all
        kinds = {"categorical": pa.string(), "boolean": pa.bool_(), "datetime": pa.string()}
        self._types = [kinds.get(kind, pa.float64()) for kind in columns.kinds]
        time = pa.timestamp("ms", tz="UTC")
        further = {
            "slate": pa.list_(pa.string()),
            "slate_probabilities": pa.list_(pa.float64()),
            "slate_rewards": pa.string(),
            "cost": pa.float64(),
            "costs": pa.list_(pa.float64()),
            "group": pa.string(),
            "label_cost": pa.float64(),
        }
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
                ("eligible", pa.list_(pa.string())),
                *((name, further[name]) for name in columns.fixed if name in further),
            ]
        )
        self._sink = _ChunkBuffer()
        self._writer = pq.ParquetWriter(self._sink, self._schema)

    def write(self, rows: list[Recorded]) -> bytes:
        import pyarrow as pa
        import pyarrow.compute as pc

        values_by_row = [self._columns.row(record) for record in rows]
        arrays = []
        for field in self._schema:
            values = [row[field.name] for row in values_by_row]
            if field.type == pa.string():
                arrays.append(pa.array([None if value is None else str(value) for value in values], pa.string()))
            elif field.type == pa.list_(pa.float64()):
                arrays.append(pa.array(values, field.type))
            elif pa.types.is_list(field.type):
                lists = [None if names is None else [str(name) for name in names] for names in values]
                arrays.append(pa.array(lists, field.type))
            elif pa.types.is_timestamp(field.type):
                arrays.append(pc.cast(pa.array(values, pa.string()), field.type))
            elif field.type == pa.bool_():
                arrays.append(pa.array([None if value is None else bool(value) for value in values], pa.bool_()))
            elif field.type == pa.float64():  # Arrow rejects integers that a float can't represent exactly
                arrays.append(pa.array([None if value is None else float(value) for value in values], field.type))
            else:
                arrays.append(pa.array(values, field.type))
        if values_by_row:
            self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        return self._sink.take()

    def close(self) -> bytes:
        self._writer.close()
        return self._sink.take()


class _ChunkBuffer(io.RawIOBase):
    """A file whose content is taken out while it is written."""

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


_WRITERS: dict[str, Callable[[ExportTask], Any]] = {
    "csv": _CsvWriter,
    "ndjson": _NdjsonWriter,
    "parquet": _ParquetWriter,
}


async def _main() -> None:
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=ExportTask)
    async with open_reader(task.store) as reader:
        async for chunk in export_chunks(reader, task):
            sys.stdout.buffer.write(chunk)


if __name__ == "__main__":
    os.nice(10)  # decisions come first
    asyncio.run(_main())
