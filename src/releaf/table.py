"""Values and columns of contexts in any form: sequences, mappings, numpy rows, rows and tables of data frames."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

_INDEX = re.compile(r"__index_level_\d+__")


class Table:
    """Minimal table: columns by name, all of the same length; iteration yields rows."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.columns = dict(columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __iter__(self) -> Iterator[list[Any]]:
        lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in self.columns.values()]
        return (list(row) for row in zip(*lists, strict=True))


def _column_names(table: Any) -> list[str] | None:
    """Column names of a pandas, polars or pyarrow table; None for anything else."""
    if isinstance(table, Table):
        return list(table.columns)
    if hasattr(table, "column_names"):  # pyarrow
        return list(table.column_names)
    if hasattr(table, "columns") and hasattr(table, "shape"):  # pandas, polars
        return [str(name) for name in table.columns]
    return None


def _column(table: Any, index: int) -> Any:
    """One column as a numpy array, without a copy for plain numbers; None or NaN where values are missing."""
    if isinstance(table, Table):
        return list(table.columns.values())[index]
    if type(table).__name__ == "RecordBatch":  # of pyarrow, which narwhals does not know
        column = table.column(index)
        kind = str(column.type)
        if kind.startswith("timestamp[") and "tz=" not in kind:
            return column.to_numpy(zero_copy_only=False).astype("datetime64[us]")
        plain = kind.startswith(("int", "uint", "float", "double"))
        return column.to_numpy(zero_copy_only=False) if plain else np.array(column.to_pylist(), dtype=object)
    import narwhals.stable.v2 as nw  # imported lazily

    series = nw.from_native(table, eager_only=True)[:, index]
    if series.dtype.is_numeric() and not series.dtype.is_decimal():
        return series.to_numpy()
    if series.dtype == nw.Boolean and not series.null_count():
        return series.to_numpy()
    if series.dtype == nw.Datetime and getattr(series.dtype, "time_zone", None) is None:
        return np.asarray(series.to_numpy()).astype("datetime64[us]")
    return np.array(series.to_list(), dtype=object)  # texts, categories, booleans with missing values


def is_table(data: Any) -> bool:
    return _column_names(data) is not None


def table_columns(table: Any) -> dict[str, list[Any]]:
    """All columns of a table by name, as plain values, without the index columns that pandas writes to files."""
    named = [(index, name) for index, name in enumerate(_column_names(table) or []) if not _INDEX.fullmatch(name)]
    return {name: np.asarray(_column(table, index)).tolist() for index, name in named}


def _check_names(given: list[str], names: tuple[str, ...], what: str, kind: str = "features") -> None:
    lacking = [name for name in names if name not in given]
    unknown = [name for name in given if name not in names]
    twice = [name for name in names if given.count(name) > 1]
    if lacking or unknown or twice:
        parts = [f"lacks {', '.join(map(repr, lacking))}"] if lacking else []
        parts += [f"has unknown {', '.join(map(repr, unknown))}"] if unknown else []
        parts += [f"has more than one {', '.join(map(repr, twice))}"] if twice else []
        only_more = bool(unknown) and not lacking and not twice and kind == "features"
        hint = (
            f": leave others out, as in {what}[list(schema.inputs)]" if only_more and what in ("table", "row") else ""
        )
        raise ValueError(f"{what} {' and '.join(parts)}; the {kind} are {', '.join(names)}{hint}")


def ordered_values(context: Any, names: tuple[str, ...]) -> Sequence[Any]:
    """Values of one context in the order of the features."""
    if isinstance(context, Mapping):
        values = {str(key): value for key, value in context.items()}
        _check_names([str(key) for key in context], names, "context")
        return [values[name] for name in names]
    if is_table(context):
        columns = ordered_columns(context, names)
        if len(columns[0]) != 1:
            raise ValueError(f"context is a table of {len(columns[0])} rows: expected one row")
        return [column[0] for column in columns]
    if hasattr(context, "to_dict") and hasattr(context, "index"):  # one row of a pandas table
        _check_names([str(name) for name in context.index], names, "row")
        return ordered_values(context.to_dict(), names)
    if isinstance(context, str | bytes) or not (hasattr(context, "__len__") and hasattr(context, "__getitem__")):
        raise TypeError(f"context must be a sequence, a mapping or one row of a table, got {context!r}")
    if isinstance(context, np.ndarray):
        if context.ndim == 2 and len(context) == 1:
            context = context[0]
        if context.ndim != 1:
            raise ValueError(f"context has shape {context.shape}: expected one row of {len(names)} values")
        context = context.tolist()
    if len(context) != len(names):
        raise ValueError(width_error(len(context), names))
    return context  # type: ignore[no-any-return]


def ordered_rows(contexts: Any, names: tuple[str, ...]) -> list[Sequence[Any]]:
    """Values of many contexts, each in the order of the features."""
    if isinstance(contexts, str | bytes) or not hasattr(contexts, "__iter__"):
        raise TypeError(f"contexts must be a matrix, a table or a sequence of contexts, got {contexts!r}")
    rows = []
    for index, context in enumerate(contexts):
        try:
            rows.append(ordered_values(context, names))
        except (TypeError, ValueError) as error:
            raise type(error)(f"row {index}: {error}") from None
    return rows


def width_error(width: int, names: tuple[str, ...]) -> str:
    lacking = f" (missing: {', '.join(map(repr, names[width:]))})" if width < len(names) else ""
    return f"context has {width} values, the schema has {len(names)}{lacking}"


def ordered_columns(table: Any, names: tuple[str, ...], what: str = "table", kind: str = "features") -> list[Any]:
    """Columns of a matrix or table in the order of the features, or of the actions for a table of rewards."""
    columns = _column_names(table)
    if columns is not None:
        _check_names(columns, names, what, kind)
        return [_column(table, columns.index(name)) for name in names]
    if table.ndim != 2 or table.shape[1] != len(names):
        raise ValueError(f"contexts have shape {table.shape}: expected rows of {len(names)} values")
    return list(table.T)
