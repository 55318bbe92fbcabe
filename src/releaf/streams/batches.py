"""Logs of any size, read in batches; every unusable row is reported with its line."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.decision import ActionName
from releaf.features import BOOLEAN_TEXTS, is_missing
from releaf.schema import Encoder, Schema
from releaf.streams.csv_columns import parse_column
from releaf.streams.data_files import errors_with_path, open_text
from releaf.streams.dsjson import dsjson_lines
from releaf.streams.table_files import arrow_batches, check_unique_names, file_format, read_header, records
from releaf.streams.tables import is_within, normalize_actions
from releaf.table import Table, ordered_columns

ROWS = 65_536
ROWS_PER_PART = 2**20  # or more, if its row group would have more than MAX_PARTS parts
MAX_PARTS = 8
_READ_ROWS = 2**17  # rows per read of a part
_BUFFER = 1 << 20  # bytes per read of a column
_SAMPLE_BYTES = 1 << 20  # bytes from which the number of lines is estimated


class Batch(NamedTuple):
    """A batch of usable rows of a log, and the problems of unusable rows.

    Attributes
    ----------
    contexts
        A table of the features.
    actions, rewards
        The action taken in each row, and its reward.
    problems
        Pairs of a line (CSV, the header is line 1, and DSJSON) or a row (Parquet, from 0) and its problem.
    rows
        Number of rows of the file read so far.
    """

    contexts: Table
    actions: Sequence[ActionName] | Array
    rewards: Array
    problems: list[tuple[int, str]]
    rows: int


def read_log(
    path: str | os.PathLike[str],
    schema: Schema,
    *,
    action: str = "action",
    reward: str = "reward",
    actions: Sequence[ActionName] = (),
    only: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
    size: int = ROWS,
) -> Iterator[Batch]:
    """Read a CSV, Parquet, Arrow or DSJSON file of decisions in batches.

    Parameters
    ----------
    path
        The file.
    schema
        The features; other columns are ignored.
    action, reward
        The columns of the action taken, and of its reward.
    actions
        Known actions, whose types determine how the text of a CSV file is parsed.
    only
        Rows of other actions are unusable.
    reward_range
        The lowest and the highest reward there can be.
    size
        Number of rows per batch.
    """
    check_distinct_columns(schema.inputs, action=action, reward=reward)
    encoder, so_far, allowed = schema.encoder(), 0, tuple(actions) if only else ()
    for columns, lines, broken in _read(Path(path), (*schema.inputs, action, reward), schema, tuple(actions), size):
        so_far += len(lines) + len(broken)
        yield _validate(columns, lines, broken, encoder, action, reward, reward_range, so_far, allowed)


class LogPart(NamedTuple):
    """A range of rows of a Parquet row group: the unit of parallel reading."""

    path: str
    group: int
    start: int  # number of its first row in the file
    rows: int
    skipped: int = 0  # rows of the group before it


def parts_of(path: str | os.PathLike[str]) -> list[LogPart]:
    """The parts of a Parquet file: its row groups, with large ones divided.

    A group can only be read from its beginning, so later parts of a group take longer.
    """
    from pyarrow import parquet

    parts, start = [], 0
    with errors_with_path(path), parquet.ParquetFile(path) as file:
        lengths = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    for group, length in enumerate(lengths):
        count = min(MAX_PARTS, max(1, math.ceil(length / ROWS_PER_PART)))
        borders = [length * number // count for number in range(count + 1)]
        parts += [LogPart(str(path), group, start + low, high - low, low) for low, high in pairwise(borders)]
        start += length
    return parts


def read_parts(
    parts: Iterable[LogPart],
    schema: Schema,
    *,
    action: str,
    reward: str,
    probability: str | None = None,
    actions: tuple[ActionName, ...] = (),
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Iterator[tuple[LogPart, Batch, Array | None]]:
    """Read parts in batches, with the propensities of their actions if there is such a column.

    Rows of other actions than ``actions`` are unusable, if these are given.
    """
    names = (*schema.inputs, action, reward)
    wanted = names if probability is None else (*names, probability)
    for part in parts:
        for table, start in _tables(part, wanted):
            columns = dict(zip(wanted, ordered_columns(table.select(list(wanted)), wanted), strict=True))
            lines: Any = range(start, start + len(table))
            found: dict[int, str] = {}
            probabilities = None
            if probability is not None:
                probabilities = np.asarray(columns.pop(probability), dtype=np.float64)
                for row in np.flatnonzero(~((probabilities > 0.0) & (probabilities <= 1.0))).tolist():
                    found[row] = f"{probability!r} is {probabilities[row]}: expected a probability above 0, up to 1"
            encoder, so_far = schema.encoder(), len(table)
            batch = _validate(columns, lines, [], encoder, action, reward, reward_range, so_far, actions, found)
            kept = np.ones(len(table), dtype=bool)
            kept[[line - start for line, _ in batch.problems]] = False
            yield part, batch, None if probabilities is None else probabilities[kept]


def _tables(part: LogPart, names: tuple[str, ...]) -> Iterator[tuple[Any, int]]:
    """Columns of a part in batches, each with the number of its first row in the file.

    Neither the file nor a row group is ever in memory as a whole.
    """
    import pyarrow
    from pyarrow import parquet

    with parquet.ParquetFile(part.path, buffer_size=_BUFFER, pre_buffer=False) as file:
        _check_columns(names, file.schema_arrow.names, Path(part.path))
        seen, end = 0, part.skipped + part.rows  # rows of the group
        for batch in file.iter_batches(_READ_ROWS, row_groups=[part.group], columns=list(dict.fromkeys(names))):
            low, high = max(part.skipped - seen, 0), min(end - seen, len(batch))
            if low < high:
                rows = pyarrow.Table.from_batches([batch.slice(low, high - low)])
                yield rows, part.start - part.skipped + seen + low
            seen += len(batch)
            if seen >= end:
                return


def _validate(
    columns: dict[str, Any],
    lines: Sequence[int],
    broken: list[tuple[int, str]],
    encoder: Encoder,
    action: str,
    reward: str,
    reward_range: tuple[float, float],
    so_far: int,
    allowed: tuple[ActionName, ...] = (),
    found: dict[int, str] | None = None,
) -> Batch:
    """Separate usable rows from the problems of unusable ones."""
    names = encoder.schema.inputs
    found = {**(found or {}), **encoder.problems([columns[name] for name in names])}
    taken = normalize_actions(columns[action])
    if not isinstance(taken, np.ndarray) and None in taken:
        for row in (row for row, label in enumerate(taken) if label is None):
            found.setdefault(row, f"{action!r} is missing: expected an action")
    if allowed:
        labels = taken.tolist() if isinstance(taken, np.ndarray) else taken
        unknown = set(labels) - set(allowed)
        for row in (row for row, label in enumerate(labels) if unknown and label in unknown):
            found.setdefault(row, f"{action!r} is {labels[row]!r}: expected one of {allowed!r}")
    for row in _rows_outside(columns[reward], reward_range):
        value = columns[reward][row]
        shown = value.item() if isinstance(value, np.generic) else value
        expected = f"expected a number from {reward_range[0]:g} to {reward_range[1]:g} (or another reward range)"
        found.setdefault(row, f"{reward!r} is {shown!r}: {expected}")
    keep = np.ones(len(lines), dtype=bool)
    keep[list(found)] = False
    return Batch(
        Table({name: _filter(columns[name], keep) for name in names}),
        _filter(taken, keep),
        np.asarray(_filter(columns[reward], keep), dtype=np.float64),
        sorted([*broken, *((lines[row], why) for row, why in found.items())]),
        so_far,
    )


def row_count(path: str | os.PathLike[str]) -> int | None:
    """Number of rows of a file, if its metadata has it."""
    if file_format(Path(path)) != "parquet":
        return None
    from pyarrow import parquet

    with errors_with_path(path), parquet.ParquetFile(path) as file:
        return int(file.metadata.num_rows)


def estimate_row_count(path: str | os.PathLike[str]) -> int | None:
    """Approximate number of rows of a file, from the length of its first lines; None if unknown."""
    path = Path(path)
    if file_format(path) != "csv":
        return row_count(path)
    if path.suffix == ".gz":
        return None
    with path.open("rb") as file:
        head = file.read(_SAMPLE_BYTES)
    return int(path.stat().st_size * head.count(b"\n") / max(len(head), 1))


def _rows_outside(rewards: Any, limits: tuple[float, float]) -> list[int]:
    if isinstance(rewards, np.ndarray) and rewards.dtype.kind in "fiub":
        return np.flatnonzero(~((rewards >= limits[0]) & (rewards <= limits[1]))).tolist()
    return [row for row, value in enumerate(rewards) if is_missing(value) or not is_within(value, limits)]


def _filter(column: Any, keep: Array) -> Any:
    if keep.all():
        return column
    if isinstance(column, np.ndarray):
        return column[keep]
    return [value for value, wanted in zip(column, keep, strict=True) if wanted]


def _read(
    path: Path, names: tuple[str, ...], schema: Schema, actions: tuple[ActionName, ...], size: int
) -> Iterator[tuple[dict[str, Any], list[int], list[tuple[int, str]]]]:
    """Yield columns, their line numbers, and malformed lines."""
    if file_format(path) == "csv":
        yield from _read_csv(path, names, schema, actions, size)
        return
    if file_format(path) == "dsjson":
        yield from _read_dsjson(path, names, size)
        return
    start = 0
    for batch in arrow_batches(path, size):
        _check_columns(names, batch.schema.names, path)
        columns = ordered_columns(batch.select(list(names)), names)
        yield dict(zip(names, columns, strict=True)), list(range(start, start + len(batch))), []
        start += len(batch)


def _read_dsjson(
    path: Path, names: tuple[str, ...], size: int
) -> Iterator[tuple[dict[str, Any], list[int], list[tuple[int, str]]]]:
    """Yield batches of a file that is read as a whole; the malformed lines come first."""
    decisions, lines, broken = dsjson_lines(path, skip_bad=True)
    _check_columns(names, decisions.column_names, path)
    for start in range(0, len(decisions), size):
        columns = ordered_columns(decisions.slice(start, size).select(list(names)), names)
        yield dict(zip(names, columns, strict=True)), lines[start : start + size], broken if start == 0 else []


def _read_csv(
    path: Path, names: tuple[str, ...], schema: Schema, actions: tuple[ActionName, ...], size: int
) -> Iterator[tuple[dict[str, Any], list[int], list[tuple[int, str]]]]:
    features = schema.inputs
    with open_text(path) as file:
        reader = csv.reader(file)
        header = read_header(reader, str(path))
        _check_columns(names, header, path)
        indices = [header.index(name) for name in names]
        for some in batched(records(reader, str(path), len(header)), size):
            usable = [(line, row) for line, row in some if not isinstance(row, ValueError)]
            broken = [(line, str(row)) for line, row in some if isinstance(row, ValueError)]
            lines, rows = [line for line, _ in usable], [row for _, row in usable]
            columns: dict[str, Any] = {}
            for name, index in zip(names, indices, strict=True):
                columns[name] = parse_column([row[index] for row in rows], features.get(name))
            columns[names[-2]] = _parse_actions([row[indices[-2]] for row in rows], actions)
            yield columns, lines, broken


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Split items into lists of ``size``; the last one may be shorter."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def _parse_actions(texts: list[str], known: tuple[ActionName, ...]) -> Any:
    """Parse actions as the type of the known ones: numbers, booleans, or else text."""
    if known and all(isinstance(label, bool) for label in known):
        return [BOOLEAN_TEXTS.get(text.strip().lower(), text) if text.strip() else None for text in texts]
    if all(isinstance(label, int | float) for label in known):
        return parse_column(texts, None)
    means = {str(label): label for label in known}
    return [means.get(text, text) if text.strip() else None for text in texts]


def check_distinct_columns(features: Iterable[str], **columns: str | None) -> None:
    """Raise a ValueError if a column of a log has two roles."""
    taken = dict.fromkeys(features, "a feature")
    for what, name in columns.items():
        if name in taken:
            raise ValueError(f"{what}={name!r} is {taken[name]} too: expected different columns")
        if name is not None:
            taken[name] = f"the {what}"


def missing_column_message(path: Path, name: str, given: Iterable[str]) -> str:
    """Error message for a missing column, with a hint if it is a Hive-style folder name."""
    message = f"{path} has no column {name!r}; it has {', '.join(given)}"
    folder = next((part for part in path.parts if part.startswith(f"{name}=")), None)
    if folder is None:
        return message
    return f"{message}. The names of folders such as {folder!r} are not read: write the column into the files"


def _check_columns(names: tuple[str, ...], given: list[str], path: Path) -> None:
    for name in names:
        if name not in given:
            raise ValueError(missing_column_message(path, name, given))
    check_unique_names([name for name in given if name in names], path)
