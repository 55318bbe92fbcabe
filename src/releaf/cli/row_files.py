"""Rows of CSV, JSON lines, Parquet and Arrow files, and of stdin, for `releaf decide` and `releaf reward`."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

BATCH = 1_024  # rows of a Parquet file in memory


class RowFile(NamedTuple):
    """An open file of rows.

    Attributes
    ----------
    source
        Its name in messages.
    kind
        "csv", "json" or "arrow". Values of CSV are texts.
    unit
        What rows are counted by: "line" of a text, "row" of a table, from 0.
    rows
        The number of each row with its values by name, or with what is wrong with it.
    """

    source: str
    kind: str
    unit: str
    rows: Iterator[tuple[int, Any]]


@contextmanager
def open_rows(path: Path | None, required: Sequence[str]) -> Iterator[RowFile]:
    """Open a file, or stdin when None; raises if a table lacks one of the required columns."""
    from releaf.streams.data_files import open_text, text_of
    from releaf.streams.table_files import file_format

    source = "stdin" if path is None else str(path)
    if path is not None and file_format(path) != "csv":
        yield RowFile(source, "arrow", "row", _arrow_rows(path, required))
        return
    with text_of(sys.stdin.buffer, source) if path is None else open_text(path) as file:
        first = file.readline()
        if first.lstrip().startswith("{"):
            yield RowFile(source, "json", "line", _json_rows(first, file))
        else:
            yield RowFile(source, "csv", "line", _csv_rows(first, file, source, required))


def parse_json(text: str) -> Any:
    """A JSON value, or an exception."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        return ValueError(f"no JSON: {error}")


def _json_rows(first: str, file: IO[str]) -> Iterator[tuple[int, Any]]:
    for number, text in enumerate(chain([first], file), 1):
        if text.strip():
            yield number, parse_json(text)


def _csv_rows(first: str, file: IO[str], source: str, required: Sequence[str]) -> Iterator[tuple[int, Any]]:
    from releaf.streams.table_files import read_header, records

    names = read_header(csv.reader([first] if first else []), source)
    _require_columns(required, names, source)
    for line, row in records(csv.reader(file), source, len(names)):
        yield line + 1, row if isinstance(row, ValueError) else dict(zip(names, row, strict=True))


def _arrow_rows(path: Path, required: Sequence[str]) -> Iterator[tuple[int, Any]]:
    from releaf.streams.table_files import arrow_batches

    number = 0
    for batch in arrow_batches(path, BATCH):
        _require_columns(required, batch.schema.names, str(path))
        for row in batch.to_pylist():
            yield number, row
            number += 1


def _require_columns(required: Sequence[str], given: Sequence[str], source: str) -> None:
    lacking = [name for name in required if name not in given]
    if lacking:
        raise ValueError(f"{source} has no column {lacking[0]!r}; it has {', '.join(given)}")
