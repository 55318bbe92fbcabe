"""Columns of CSV, Parquet and Arrow files, with the line of each row and the problems of rows that can't be read."""

from __future__ import annotations

import csv
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from releaf.feature_dicts import Declared
from releaf.schema import Schema
from releaf.streams.csv_columns import infer_column, parse_column
from releaf.streams.data_files import UnusableRowError, errors_with_path, open_text, require_pyarrow
from releaf.streams.dsjson import dsjson_lines, is_dsjson, read_dsjson
from releaf.table import is_table, table_columns

Columns = dict[str, Any]
EXPECTED = "expected CSV with the names of its columns, Parquet or Arrow, or DSJSON in a file named .dsjson"


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
        self.unit = "row" if source == "table" else row_unit(Path(source))

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


def read_first_rows(path: str | os.PathLike[str], rows: int) -> TableRows:
    """The usable ones of the first rows of a file."""
    path = Path(path)
    if file_format(path) == "csv":
        found = _read_csv(path, skip_bad=True, most=rows)
        count = len(next(iter(found.columns.values())))
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
        found = TableRows(columns, None, str(path))
    if not count:
        raise ValueError(f"{path} has no rows")
    return found


def file_format(path: Path) -> str:
    """Format of a file: "parquet", "arrow", "dsjson" or else "csv"; by its suffix, but for DSJSON in a file of JSON."""
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    known = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"}
    return known[kind] if kind in known else "dsjson" if is_dsjson(path) else "csv"


def row_unit(path: Path) -> str:
    """What messages count in a file: a "line" of text, or a "row"."""
    return "line" if file_format(path) in ("csv", "dsjson") else "row"


def arrow_batches(path: Path, size: int) -> Iterator[Any]:
    """Read a Parquet or Arrow file in batches; of a DSJSON file, the lines that are usable."""
    require_pyarrow(path)
    import pyarrow
    from pyarrow import ipc, parquet

    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if file_format(path) == "dsjson":
        yield from read_dsjson(path, skip_bad=True).to_batches(size)
        return
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


def read_table(
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
    if file_format(path) == "dsjson":
        decisions, lines, problems = dsjson_lines(path, skip_bad)
        return TableRows(table_columns(decisions), lines, str(path), problems)
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
        raise ValueError(f"{source} looks like JSON: {EXPECTED}")
    check_unique_names(names, source)
    other = [mark for mark in ";\t|" if len(names) == 1 and mark in names[0]]
    if other:
        raise ValueError(f"{source} has one column, {names[0]!r}: expected commas between fields, not {other[0]!r}")
    return names


def check_unique_names(names: Sequence[str], source: Any) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"{source} has more than one column {twice[0]!r}: expected different names")
