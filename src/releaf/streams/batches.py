"""Logs of any size, read some rows at a time, with every row that can't be used named by its line."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from releaf.decision import ActionName
from releaf.features import Boolean, Categorical, Feature, is_missing
from releaf.schema import Encoder, Schema
from releaf.streams.files import open_text
from releaf.streams.tables import (
    arrow_batches,
    is_within,
    kind_of,
    plain_actions,
    read_header,
    records,
    require_different,
)
from releaf.table import Table, ordered_columns

Array = np.ndarray[Any, np.dtype[Any]]
ROWS = 65_536
PART = 2**20  # rows of a part, or more where its row group would have more than so many parts
MOST_PARTS = 8
_AT_ONCE = 2**17  # rows of a part that are read at a time
_BUFFER = 1 << 20  # bytes of a column to read at a time
_HEAD = 1 << 20  # bytes to estimate the number of lines from
_TRUTH = {"true": True, "false": False, "1": True, "0": False}


class Batch(NamedTuple):
    """Some rows of a log that can be learnt from, and what is wrong with those that can't.

    Attributes
    ----------
    contexts
        A table of the features.
    actions, rewards
        What was done in each row, and what it earned.
    problems
        Pairs of a line (CSV, the header is line 1) or a row (Parquet, from 0) and what is wrong there.
    rows
        How many rows of the file have been read so far.
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
    reward_range: tuple[float, float] = (0.0, 1.0),
    size: int = ROWS,
) -> Iterator[Batch]:
    """The rows of a CSV, Parquet or Arrow file of decisions, some at a time, however large it is.

    Parameters
    ----------
    path
        The file.
    schema
        The features; other columns are not looked at.
    action, reward
        The columns of the action taken, and of its reward.
    actions
        Labels that are known already; they tell what the texts of a CSV file mean.
    reward_range
        The lowest and the highest reward there can be.
    size
        How many rows to read at a time.
    """
    require_apart(schema.names, action=action, reward=reward)
    encoder, so_far = schema.encoder(), 0
    for columns, lines, broken in _read(Path(path), (*schema.names, action, reward), schema, tuple(actions), size):
        so_far += len(lines) + len(broken)
        yield _checked(columns, lines, broken, encoder, action, reward, reward_range, so_far)


class Part(NamedTuple):
    """Rows of a row group of a Parquet file: what is read by one, where a log is read by many."""

    path: str
    group: int
    start: int  # the number of its first row in the file
    rows: int
    skipped: int = 0  # rows of the group before that


def parts_of(path: str | os.PathLike[str]) -> list[Part]:
    """The parts of a Parquet file: its row groups, large ones divided.

    A group is read from its beginning, so that the parts of one take longer the more there are.
    """
    from pyarrow import parquet

    parts, start = [], 0
    with parquet.ParquetFile(path) as file:
        lengths = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    for group, length in enumerate(lengths):
        count = min(MOST_PARTS, max(1, math.ceil(length / PART)))
        borders = [length * number // count for number in range(count + 1)]
        parts += [Part(str(path), group, start + low, high - low, low) for low, high in pairwise(borders)]
        start += length
    return parts


def read_parts(
    parts: Iterable[Part],
    schema: Schema,
    *,
    action: str,
    reward: str,
    probability: str | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Iterator[tuple[Part, Batch, Array | None]]:
    """The rows of parts, some at a time, and the probabilities of their actions where there is a column of them."""
    names = (*schema.names, action, reward)
    wanted = names if probability is None else (*names, probability)
    for part in parts:
        for table, start in _tables(part, wanted):
            columns = dict(zip(wanted, ordered_columns(table.select(list(wanted)), wanted), strict=True))
            lines: Any = range(start, start + len(table))
            found: dict[int, str] = {}
            chances = None
            if probability is not None:
                chances = np.asarray(columns.pop(probability), dtype=np.float64)
                for row in np.flatnonzero(~((chances > 0.0) & (chances <= 1.0))).tolist():
                    found[row] = f"{probability!r} is {chances[row]}: expected a probability above 0, up to 1"
            batch = _checked(columns, lines, [], schema.encoder(), action, reward, reward_range, len(table), found)
            kept = np.ones(len(table), dtype=bool)
            kept[[line - start for line, _ in batch.problems]] = False
            yield part, batch, None if chances is None else chances[kept]


def _tables(part: Part, names: tuple[str, ...]) -> Iterator[tuple[Any, int]]:
    """The columns of a part, some rows at a time, and the number of the first of them in the file.

    Neither the file nor a row group is ever in memory as a whole, however large whoever wrote it made them.
    """
    import pyarrow
    from pyarrow import parquet

    with parquet.ParquetFile(part.path, buffer_size=_BUFFER, pre_buffer=False) as file:
        _require(names, file.schema_arrow.names, Path(part.path))
        seen, end = 0, part.skipped + part.rows  # of the group
        for batch in file.iter_batches(_AT_ONCE, row_groups=[part.group], columns=list(dict.fromkeys(names))):
            low, high = max(part.skipped - seen, 0), min(end - seen, len(batch))
            if low < high:
                rows = pyarrow.Table.from_batches([batch.slice(low, high - low)])
                yield rows, part.start - part.skipped + seen + low
            seen += len(batch)
            if seen >= end:
                return


def _checked(
    columns: dict[str, Any],
    lines: Sequence[int],
    broken: list[tuple[int, str]],
    encoder: Encoder,
    action: str,
    reward: str,
    reward_range: tuple[float, float],
    so_far: int,
    found: dict[int, str] | None = None,
) -> Batch:
    """The rows that can be learnt from, and what is wrong with the others."""
    names = encoder.schema.names
    found = {**(found or {}), **encoder.problems([columns[name] for name in names])}
    taken = plain_actions(columns[action])
    if not isinstance(taken, np.ndarray) and None in taken:
        for row in (row for row, label in enumerate(taken) if label is None):
            found.setdefault(row, f"{action!r} is missing: expected an action")
    for row in _outside(columns[reward], reward_range):
        value = columns[reward][row]
        shown = value.item() if isinstance(value, np.generic) else value
        expected = f"expected a number from {reward_range[0]:g} to {reward_range[1]:g} (or another reward range)"
        found.setdefault(row, f"{reward!r} is {shown!r}: {expected}")
    keep = np.ones(len(lines), dtype=bool)
    keep[list(found)] = False
    return Batch(
        Table({name: _kept(columns[name], keep) for name in names}),
        _kept(taken, keep),
        np.asarray(_kept(columns[reward], keep), dtype=np.float64),
        sorted([*broken, *((lines[row], why) for row, why in found.items())]),
        so_far,
    )


def rows_in(path: str | os.PathLike[str]) -> int | None:
    """How many rows a file has, where that is known without reading it."""
    if kind_of(Path(path)) != "parquet":
        return None
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        return int(file.metadata.num_rows)


def about_rows_in(path: str | os.PathLike[str]) -> int | None:
    """About how many rows a file has, by the length of its first lines; None where that can't be told."""
    path = Path(path)
    if kind_of(path) != "csv":
        return rows_in(path)
    if path.suffix == ".gz":
        return None
    with path.open("rb") as file:
        head = file.read(_HEAD)
    return int(path.stat().st_size * head.count(b"\n") / max(len(head), 1))


def _outside(rewards: Any, limits: tuple[float, float]) -> list[int]:
    if isinstance(rewards, np.ndarray) and rewards.dtype.kind in "fiub":
        return np.flatnonzero(~((rewards >= limits[0]) & (rewards <= limits[1]))).tolist()
    return [row for row, value in enumerate(rewards) if is_missing(value) or not is_within(value, limits)]


def _kept(column: Any, keep: Array) -> Any:
    if keep.all():
        return column
    if isinstance(column, np.ndarray):
        return column[keep]
    return [value for value, wanted in zip(column, keep, strict=True) if wanted]


def _read(
    path: Path, names: tuple[str, ...], schema: Schema, actions: tuple[ActionName, ...], size: int
) -> Iterator[tuple[dict[str, Any], list[int], list[tuple[int, str]]]]:
    """Columns, the lines they stand on, and lines that are no rows."""
    if kind_of(path) == "csv":
        yield from _read_csv(path, names, schema, actions, size)
        return
    start = 0
    for batch in arrow_batches(path, size):
        _require(names, batch.schema.names, path)
        columns = ordered_columns(batch.select(list(names)), names)
        yield dict(zip(names, columns, strict=True)), list(range(start, start + len(batch))), []
        start += len(batch)


def _read_csv(
    path: Path, names: tuple[str, ...], schema: Schema, actions: tuple[ActionName, ...], size: int
) -> Iterator[tuple[dict[str, Any], list[int], list[tuple[int, str]]]]:
    features = dict(zip(schema.names, schema.features, strict=True))
    with open_text(path) as file:
        reader = csv.reader(file)
        given = read_header(reader, str(path))
        _require(names, given, path)
        places = [given.index(name) for name in names]
        for some in batched(records(reader, str(path)), size):
            rows, lines, broken = [], [], []
            for line, row in some:
                if len(row) == len(given):
                    rows.append(row)
                    lines.append(line)
                elif row:
                    broken.append((line, f"{len(row)} fields, expected {len(given)}"))
            columns: dict[str, Any] = {}
            for name, place in zip(names, places, strict=True):
                columns[name] = converted([row[place] for row in rows], features.get(name))
            columns[names[-2]] = _labels([row[places[-2]] for row in rows], actions)
            yield columns, lines, broken


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of so many items, the last one maybe shorter."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def _labels(texts: list[str], known: tuple[ActionName, ...]) -> Any:
    """Actions as the known ones are: numbers where all of these are numbers, truth values, or else texts."""
    if known and all(isinstance(label, bool) for label in known):
        return [_TRUTH.get(text.strip().lower(), text) if text.strip() else None for text in texts]
    if all(isinstance(label, int | float) for label in known):
        return converted(texts, None)
    means = {str(label): label for label in known}
    return [means.get(text, text) if text.strip() else None for text in texts]


def require_apart(features: Sequence[str], **columns: str | None) -> None:
    """Say which column of a log was given for two things."""
    taken = dict.fromkeys(features, "a feature")
    for what, name in columns.items():
        if name in taken:
            raise ValueError(f"{what}={name!r} is {taken[name]} too: expected different columns")
        if name is not None:
            taken[name] = f"the {what}"


def no_column(path: Path, name: str, given: Iterable[str]) -> str:
    """What to say of a file that lacks a column, which may be in the names of its folders instead."""
    told = f"{path} has no column {name!r}; it has {', '.join(given)}"
    folder = next((part for part in path.parts if part.startswith(f"{name}=")), None)
    if folder is None:
        return told
    return f"{told}. The names of folders such as {folder!r} are not read: write the column into the files"


def _require(names: tuple[str, ...], given: list[str], path: Path) -> None:
    for name in names:
        if name not in given:
            raise ValueError(no_column(path, name, given))
    require_different([name for name in given if name in names], path)


def converted(texts: list[str], feature: Feature | None) -> Any:
    """The texts of a column as what the feature expects; what can't be that stays text, to be found wrong."""
    if isinstance(feature, Categorical):
        known = {str(value): value for value in feature.values}
        return [known.get(text, text) if text.strip() else None for text in texts]
    if isinstance(feature, Boolean):
        return [_TRUTH.get(text.strip().lower(), text) if text.strip() else None for text in texts]
    try:
        return np.array([text if text.strip() else "nan" for text in texts], dtype=np.float64)
    except ValueError:
        return [_number(text) for text in texts]


def _number(text: str) -> Any:
    try:
        return float(text) if text.strip() else None
    except ValueError:
        return text
