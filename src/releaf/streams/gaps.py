"""Columns of a file that have missing values anywhere, found without keeping its rows."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from releaf.feature_dicts import Declared
from releaf.features import Categorical
from releaf.streams.data_files import open_text
from releaf.streams.table_files import arrow_batches, file_format, read_header, records

BATCH = 1 << 16  # rows
_GAPS = frozenset(("", "na", "NA", "n/a", "N/A", "nan", "NaN", "NAN", "null", "Null", "NULL"))


def features_with_gaps(path: Path, features: Mapping[str, Declared]) -> set[str]:
    """Names of the features whose column has a missing value; of categories in a CSV file only an empty one is."""
    found = _gaps_of_csv(path, features) if file_format(path) == "csv" else _gaps_of_arrow(path)
    return found & features.keys()


def _gaps_of_csv(path: Path, features: Mapping[str, Declared]) -> set[str]:
    with open_text(path) as file:
        reader = csv.reader(file)
        names = read_header(reader, str(path))
        of_names = [{""} if isinstance(features.get(name), Categorical) else _GAPS for name in names]
        left = {place for place, name in enumerate(names) if name in features}
        for _, row in records(reader, str(path), len(names)):
            if not isinstance(row, ValueError) and not _GAPS.isdisjoint(row):
                left = {place for place in left if row[place] not in of_names[place]}
    return {name for place, name in enumerate(names) if place not in left}


def _gaps_of_arrow(path: Path) -> set[str]:
    found: set[str] = set()
    for batch in arrow_batches(path, BATCH):
        found |= {name for name, column in zip(batch.schema.names, batch.columns, strict=True) if _has_gaps(column)}
    return found


def _has_gaps(column: Any) -> bool:
    import pyarrow
    from pyarrow import compute

    is_float = pyarrow.types.is_floating(column.type)
    return bool(column.null_count or (is_float and compute.any(compute.is_nan(column)).as_py()))
