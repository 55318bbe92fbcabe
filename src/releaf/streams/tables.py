"""Streams and logs from CSV, Parquet and Arrow files, and from pandas, polars and pyarrow tables."""

from __future__ import annotations

import csv
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from releaf.decision import ActionName
from releaf.feature_dicts import Declared
from releaf.features import is_missing
from releaf.policy import plain_name
from releaf.schema import Schema
from releaf.streams.csv_columns import infer_column, parse_column
from releaf.streams.data_files import UnusableRowError, errors_with_path, open_text, require_pyarrow
from releaf.streams.eligible_column import actions_among, masks_in_column
from releaf.streams.stream import Log, Stream
from releaf.table import is_table, table_columns

Columns = dict[str, Any]


class TableRows:
    """Columns of a table, their line numbers, and the skipped lines.

    Attributes
    ----------
    columns
        The columns by name.
    problems
        Pairs of a skipped line and its problem.
    """

    def __init__(
        self, columns: Columns, lines: Sequence[int] | None, source: str, problems: Sequence[tuple[int, str]] = ()
    ) -> None:
        self.columns, self.lines, self.source, self.problems = columns, lines, source, tuple(problems)
        self.unit = "row" if source == "table" or not source.endswith((".csv", ".csv.gz", ".txt")) else "line"

    def line(self, row: int) -> int:
        return self.lines[row] if self.lines is not None else row

    def where(self, row: int) -> str:
        return f"{self.source}, {self.unit} {self.line(row)}"

    def column(self, name: str) -> Any:
        if name not in self.columns:
            raise ValueError(f"{self.source} has no column {name!r}; it has {', '.join(self.columns)}")
        return self.columns[name]

    def without(self, bad: Mapping[int, str]) -> TableRows:
        keep = [row for row in range(len(next(iter(self.columns.values())))) if row not in bad]
        columns = {name: [values[row] for row in keep] for name, values in self.columns.items()}
        problems = [*self.problems, *((self.line(row), why) for row, why in bad.items())]
        return TableRows(columns, [self.line(row) for row in keep], self.source, sorted(problems))


def table(
    data: Any,
    *,
    label: str | None = None,
    rewards: Sequence[str] | Mapping[str, ActionName] | None = None,
    features: Sequence[str] | Schema | None = None,
    skip_bad: bool = False,
    seed: int | None = None,
) -> Stream:
    """A stream from a table with a label per row, or with the rewards of all actions.

    Parameters
    ----------
    data
        The name of a CSV, Parquet or Arrow file, or a pandas, polars or pyarrow table.
    label
        The column of labels: each distinct value is an action, with reward 1 if it is the row's label, and 0 otherwise.
    rewards
        Instead: the columns with the reward of each action, from 0 to 1; or a mapping from columns to actions.
    features
        The columns of the context. When None, all others that can be features, as :meth:`releaf.Schema.guess` tells.
        A :class:`releaf.Schema` also defines their types; otherwise numbers range from their smallest to their largest
        value, ISO dates are :class:`releaf.DateTime`, and text is categorical.
    skip_bad
        Skip unreadable rows and rows without a label or reward. Otherwise the first of them raises, with its line.
    seed
        Shuffle the rows with this seed; None keeps their order. Tables are often sorted, which is no order in which
        contexts arrive, and runs over one order tell nothing of how results vary.

    Examples
    --------
    >>> import pandas
    >>> cases = pandas.DataFrame({"age": [30, 60, 45], "plan": ["a", "b", "a"], "best": ["call", "mail", "call"]})
    >>> stream = table(cases, label="best")
    >>> stream.actions, stream.rewards.tolist()
    (('call', 'mail'), [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    """
    if (label is None) == (rewards is None):
        raise ValueError(f"expected either label or rewards, got label={label!r} and rewards={rewards!r}")
    rows = _read(data, skip_bad, features, rewards or () if label is None else [label])
    if label is not None:
        rows = _drop_invalid(rows, [label], skip_bad)
        values = [normalize_action(value) for value in rows.column(label)]
        actions = sorted_actions(values)
        gained = np.array([[value == action for action in actions] for value in values], dtype=np.float64)
        used = {label}
    else:
        named = rewards if isinstance(rewards, Mapping) else {name: name for name in rewards or ()}
        rows = _drop_invalid(rows, list(named), skip_bad, limits=(0.0, 1.0))
        actions, used = tuple(named.values()), set(named)
        gained = np.column_stack([np.array(rows.column(name), dtype=np.float64) for name in named])
    contexts, described = _contexts(rows, features, used)
    stream = Stream(
        contexts, gained.reshape(-1, len(actions)), described, actions, None, len(rows.problems), rows.problems
    )
    return stream if seed is None else _shuffled(stream, seed)


def _shuffled(stream: Stream, seed: int) -> Stream:
    order = np.random.default_rng(seed).permutation(len(stream))
    return replace(stream, contexts=[stream.contexts[row] for row in order], rewards=stream.rewards[order])


def log(
    data: Any,
    *,
    action: str,
    reward: str,
    probability: str | None = None,
    eligible: str | None = None,
    actions: Sequence[ActionName] | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    features: Sequence[str] | Schema | None = None,
    skip_bad: bool = False,
) -> Log:
    """A log of decisions: contexts, actions taken, their rewards and propensities.

    Parameters
    ----------
    data
        The name of a CSV, Parquet or Arrow file, or a pandas, polars or pyarrow table.
    action, reward
        The columns of the action taken, and of its reward.
    probability
        The column of propensities, which off-policy estimates need.
    eligible
        The column of the actions that could be taken: lists of names, or names in one text, separated by ``|``; empty
        where all could be taken. A row whose action was not eligible is unusable.
    actions
        The actions, in the order of the policies to evaluate; when None, the sorted actions of the log, eligible ones
        included.
    reward_range
        The lowest and the highest reward there can be.
    features, skip_bad
        As for :func:`table`.
    """
    used = [action, reward] + ([probability] if probability is not None else [])
    texts = () if eligible is None else (eligible,)
    rows = _drop_invalid(_read(data, skip_bad, features, [*used, *texts], texts), used[:1], skip_bad)
    rows = _drop_invalid(rows, [reward], skip_bad, limits=reward_range)
    rows = _drop_invalid(rows, used[2:], skip_bad, limits=(0.0, 1.0), above_zero=True)
    if actions is not None:
        rows = _drop_invalid(rows, [action], skip_bad, known=tuple(actions))
    known = tuple(actions or _actions_of(rows, action, eligible))
    rows = _drop_unencodable(rows, features, skip_bad)
    if eligible is not None:
        rows = _drop_ineligible(rows, action, eligible, known, skip_bad)
    masks = None if eligible is None else masks_in_column(rows.column(eligible), known)[0]
    chosen = [normalize_action(value) for value in rows.column(action)]
    contexts, described = _contexts(rows, features, {*used, *texts})
    indices = {label: index for index, label in enumerate(known)}
    taken = np.array([indices[value] for value in chosen], dtype=np.int64)
    gained = np.array(rows.column(reward), dtype=np.float64)
    probabilities = None if probability is None else np.array(rows.column(probability), dtype=np.float64)
    unusable = len(rows.problems), rows.problems
    return Log(contexts, taken, gained, probabilities, described, known, *unusable, masks)


def _actions_of(rows: TableRows, action: str, eligible: str | None) -> tuple[ActionName, ...]:
    """Actions of a log: those taken, and those that were only eligible."""
    taken = [normalize_action(value) for value in rows.column(action)]
    return sorted_actions(taken if eligible is None else actions_among(rows.column(eligible), taken, normalize_action))


def _drop_ineligible(
    rows: TableRows, action: str, eligible: str, known: tuple[ActionName, ...], skip_bad: bool
) -> TableRows:
    """Drop rows whose eligible actions are invalid, or do not include the action taken."""
    masks, wrong = masks_in_column(rows.column(eligible), known)
    bad = {row: f"{eligible!r} names {what}: expected some of {known!r}" for row, what in wrong.items()}
    for row, value in enumerate(rows.column(action)):
        if row not in bad and not masks[row, known.index(normalize_action(value))]:
            bad[row] = f"{action!r} is {value!r}, which was not eligible: {eligible!r} does not name it"
    if bad and not skip_bad:
        raise UnusableRowError(f"{rows.where(min(bad))}: {bad[min(bad)]}")
    return rows.without(bad) if bad else rows


# --- reading --------------------------------------------------------------------------------------------------


def read_first_rows(path: str | os.PathLike[str], rows: int) -> tuple[TableRows, bool]:
    """The usable ones of the first rows of a file, and whether it may have more rows."""
    path = Path(path)
    if file_format(path) == "csv":
        found = _read_csv(path, skip_bad=True, most=rows)
        count = len(next(iter(found.columns.values())))
        more = count + len(found.problems) >= rows
    else:
        require_pyarrow(path)
        import pyarrow

        batches, count = [], 0
        for batch in arrow_batches(path, rows):
            check_unique_names(batch.schema.names, path)
            batches.append(batch.slice(0, rows - count))
            count += len(batches[-1])
            if count >= rows:
                break
        columns = table_columns(pyarrow.Table.from_batches(batches)) if count else {}
        found, more = TableRows(columns, None, str(path)), count >= rows
    if not count:
        raise ValueError(f"{path} has no rows")
    return found, more


def file_format(path: Path) -> str:
    """Format of a file by its suffix: "parquet", "arrow" or else "csv"."""
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    return {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"}.get(kind, "csv")


def arrow_batches(path: Path, size: int) -> Iterator[Any]:
    """Read a Parquet or Arrow file in batches."""
    require_pyarrow(path)
    import pyarrow
    from pyarrow import ipc, parquet

    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    with errors_with_path(path):
        if file_format(path) == "parquet":
            with parquet.ParquetFile(path) as file:
                yield from file.iter_batches(size)
        else:
            with pyarrow.memory_map(str(path)) as source, ipc.open_file(source) as file:
                for index in range(file.num_record_batches):
                    batch = file.get_batch(index)
                    for start in range(0, len(batch), size):
                        yield batch.slice(start, size)


def _read(
    data: Any,
    skip_bad: bool,
    features: Sequence[str] | Schema | None,
    used: Iterable[str],
    texts: Collection[str] = (),
) -> TableRows:
    """Read a table; of a CSV file, only the used columns and those of the given features are parsed, but ``texts``."""
    if is_table(data):
        return TableRows(table_columns(data), None, "table")
    if not isinstance(data, str | os.PathLike):
        raise TypeError(f"data must be the name of a file or a pandas, polars or pyarrow table, got {data!r}")
    path = Path(data)
    if file_format(path) != "csv":
        return TableRows(table_columns(_arrow(path, file_format(path))), None, str(path))
    if features is None:
        return _read_csv(path, skip_bad, texts=texts)
    known: Mapping[str, Any] = features.inputs if isinstance(features, Schema) else dict.fromkeys(features)
    return _read_csv(path, skip_bad, known={**known, **dict.fromkeys(used)}, texts=texts)


def _arrow(path: Path, kind: str) -> Any:
    try:
        from pyarrow import feather, parquet
    except ImportError as error:
        raise ImportError(f"{path} needs pyarrow to be read: pip install releaf[tables]") from error
    with errors_with_path(path):
        return parquet.read_table(path) if kind == "parquet" else feather.read_table(path)


def _read_csv(
    path: Path,
    skip_bad: bool,
    most: int | None = None,
    known: Mapping[str, Declared | None] | None = None,
    texts: Collection[str] = (),
) -> TableRows:
    """Columns of a CSV file: all, or those that are ``known``, with their features or None for an unknown type."""
    with open_text(path) as file:
        reader = csv.reader(file)
        names = read_header(reader, str(path))
        lines, rows, problems = [], [], []
        for line, row in records(reader, str(path), len(names)):
            if isinstance(row, ValueError):
                problems.append((line, str(row)))
                if not skip_bad:
                    raise UnusableRowError(f"{path}, line {line}: {row}")
                continue
            lines.append(line)
            rows.append(row)
            if len(rows) == most:
                break
    found = TableRows({}, lines, str(path), problems)
    bad: dict[int, str] = {}
    for index, name in enumerate(names):
        cells = [row[index] for row in rows]
        feature = (known or {}).get(name)
        wrong: dict[int, str] = {}
        if name in texts or (known is not None and name not in known):
            found.columns[name] = cells
        elif feature is not None:
            found.columns[name] = list(parse_column(cells, feature))
        else:
            found.columns[name], wrong = infer_column(cells)
        for number, why in wrong.items():
            bad.setdefault(number, f"{name!r} {why}")
    if bad and not skip_bad:
        raise UnusableRowError(f"{found.where(min(bad))}: {bad[min(bad)]}")
    return found.without(bad) if bad else found


def records(reader: Any, source: str, width: int) -> Iterator[tuple[int, list[str] | ValueError]]:
    """Yield each record of a CSV file with the number of its first line; an error for one of another width."""
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(f"{source}, line {line}: {error}") from None
        except EOFError:
            raise ValueError(f"{source}, line {line}: the compressed file ends too early") from None
        if row:
            yield line, row if len(row) == width else ValueError(_wrong_width(row, width))


def _wrong_width(row: list[str], width: int) -> str:
    """How many fields a record has, how many the header has, and the likely cause."""
    fields = f"{len(row)} field{'s' if len(row) > 1 else ''}, expected {width} as in the header"
    mark = max(";\t|", key=row[0].count)
    if len(row) == 1 and row[0].count(mark) == width - 1 > 0:
        return f"{fields}: its fields are separated by {mark!r}, expected commas"
    if len(row) < width:
        return f"{fields}: fields are missing, or a line break within a field is not in quotes"
    return f"{fields}: a comma within a field is not in quotes"


def read_header(reader: Any, source: str) -> list[str]:
    """Read the column names of a CSV file."""
    try:
        names: list[str] | None = next(reader, None)
    except csv.Error as error:
        raise ValueError(f"{source} is no CSV: {error}") from None
    if not names:
        raise ValueError(f"{source} is empty: expected a line with the names of the columns")
    if names[0].lstrip().startswith(("{", "[")):
        raise ValueError(f"{source} looks like JSON: expected CSV with the names of its columns, Parquet or Arrow")
    check_unique_names(names, source)
    other = [mark for mark in ";\t|" if len(names) == 1 and mark in names[0]]
    if other:
        raise ValueError(f"{source} has one column, {names[0]!r}: expected commas between fields, not {other[0]!r}")
    return names


def check_unique_names(names: Sequence[str], source: Any) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"{source} has more than one column {twice[0]!r}: expected different names")


# --- checking -------------------------------------------------------------------------------------------------


def _drop_invalid(
    rows: TableRows,
    names: list[str],
    skip_bad: bool,
    limits: tuple[float, float] | None = None,
    above_zero: bool = False,
    known: tuple[ActionName, ...] | None = None,
) -> TableRows:
    """Drop rows with a missing value in these columns, or a value outside ``limits`` or ``known``."""
    bad: dict[int, str] = {}
    for name in names:
        for row, value in enumerate(rows.column(name)):
            wrong = is_missing(value) or (limits is not None and not is_within(value, limits))
            wrong = wrong or (above_zero and value == 0) or (known is not None and normalize_action(value) not in known)
            if wrong:
                expected = "a value" if limits is None else f"a number from {limits[0]:g} to {limits[1]:g}"
                expected = "a probability above 0, 1 at most" if above_zero else expected
                expected += " (or another reward_range)" if limits is not None and not above_zero else ""
                expected = f"one of {known!r}" if known is not None else expected
                bad.setdefault(row, f"{name!r} is {value!r}: expected {expected}")
                if not skip_bad:
                    raise UnusableRowError(f"{rows.where(row)}: {bad[row]}")
    return rows.without(bad) if bad else rows


def _drop_unencodable(rows: TableRows, features: Sequence[str] | Schema | None, skip_bad: bool) -> TableRows:
    """Drop rows that a given schema can't encode."""
    if not isinstance(features, Schema):
        return rows
    bad = features.encoder().problems([rows.column(name) for name in features.inputs])
    if bad and not skip_bad:
        first = min(bad)
        raise UnusableRowError(f"{rows.where(first)}: {bad[first]}")
    return rows.without(bad) if bad else rows


def is_within(value: Any, limits: tuple[float, float]) -> bool:
    try:
        return not isinstance(value, str) and limits[0] <= float(value) <= limits[1]
    except (TypeError, ValueError):
        return False


def normalize_action(value: Any) -> ActionName:
    """Name of an action; an integral float becomes an integer."""
    label = plain_name(value)
    return int(label) if isinstance(label, float) and label.is_integer() else label


def normalize_actions(column: Any) -> Any:
    """Names of a column of actions, None if missing; integers stay an array."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu":
        return column
    values = column.tolist() if isinstance(column, np.ndarray) else column
    known: dict[Any, ActionName | None] = {}
    for value in set(values):
        known[value] = None if is_missing(value) else normalize_action(value)
    return [known[value] if value == value else None for value in values]


def sorted_actions(labels: Iterable[ActionName]) -> tuple[ActionName, ...]:
    """Distinct actions, sorted by type and value."""
    return tuple(sorted(set(labels), key=lambda label: (str(type(label)), label)))


def _contexts(rows: TableRows, features: Sequence[str] | Schema | None, used: set[str]) -> tuple[Any, Schema]:
    schema = features if isinstance(features, Schema) else _guess_schema(rows, features, used)
    columns = [rows.column(name) for name in schema.inputs]
    return [list(row) for row in zip(*columns, strict=True)], schema


def _guess_schema(rows: TableRows, features: Sequence[str] | None, used: set[str]) -> Schema:
    """Features of the given columns, or of all that can be features."""
    names = [name for name in rows.columns if name not in used] if features is None else list(features)
    if not names:
        raise ValueError(f"{rows.source} has no columns left to make contexts of")
    try:
        columns = {name: rows.column(name) for name in names}
        return Schema.guess(columns, keep=() if features is None else names, numbers="range")
    except ValueError as error:
        raise ValueError(f"{rows.source}: {error}") from None
