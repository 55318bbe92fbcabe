"""Encoding of the columns of X as features, inferred from the first rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from sklearn.utils.validation import (
    assert_all_finite,
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from releaf.arrays import Array
from releaf.column_guess import guess_features
from releaf.datetimes import DateTime, is_iso
from releaf.features import Boolean, Categorical, Continuous, Feature, is_missing
from releaf.schema import Schema
from releaf.table import Table

MOST = 8e307  # the distance of two bounds must not overflow
RANKS = 65  # quantiles between which ranks are interpolated
SAMPLE = 8192  # approximate number of values from which they are computed
_NUMBER = re.compile(r"(u?int|float|double)\d*(\[\w+\])?", re.IGNORECASE)  # a column's type, by pandas or polars
_EXPECTED = "expected numbers, text, categories, booleans or dates"


# --- validation of X ----------------------------------------------------------------------------------------


def is_numeric(X: Any, schema: Any = None) -> bool:
    """Whether a matrix of floats can represent X: not a table with text, categories or booleans.

    Without a schema, the values of a matrix must be numbers, which scikit-learn checks.
    """
    if _is_frame(X):
        return all(_NUMBER.fullmatch(str(kind)) for kind in X.dtypes)
    return schema is None or np.asarray(X).dtype.kind in "fiub"


def validate(estimator: Any, X: Any, y: Any = None, *, reset: bool, plain: bool) -> tuple[Array, Any]:
    """X as a matrix, of floats if ``plain`` and otherwise of objects, and y as a vector.

    It sets and checks ``n_features_in_`` and ``feature_names_in_``.
    """
    given = {"X": X, "reset": reset} if y is None and not reset else {"X": X, "y": y, "reset": reset}
    if plain:
        options = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        checked = validate_data(estimator, **given, **options)
        return checked if isinstance(checked, tuple) else (checked, None)
    validate_data(estimator, **given, skip_check_array=True)
    rows = _matrix_of(X) if _is_frame(X) else check_array(X, dtype=None, ensure_all_finite=False)
    if not len(rows):
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    if "y" not in given:
        return rows, None
    labels = column_or_1d(y, warn=True)
    assert_all_finite(labels, input_name="y")
    check_consistent_length(rows, labels)
    return rows, labels


def declared_categories(X: Any) -> tuple[bool, ...]:
    """Which columns have a categorical dtype."""
    if not _is_frame(X):
        return ()
    return tuple(str(kind).lower().startswith(("category", "categorical", "enum")) for kind in X.dtypes)


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def _matrix_of(X: Any) -> Array:
    matrix = np.empty(X.shape, dtype=object)
    for index, name in enumerate(X.columns):
        values = np.asarray(X[name])
        if values.dtype.kind == "m":  # which would become numbers
            raise ValueError(f"column {name!r} holds {values.dtype}: {_EXPECTED}")
        matrix[:, index] = (values.astype("datetime64[us]") if values.dtype.kind == "M" else values).tolist()
    return matrix


# --- columns of one kind ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Numbers:
    """A numeric column. Missing values count as the median if the first rows had none."""

    feature: Feature
    middle: float
    knots: Array | None  # if the column is encoded by ranks
    heights: Array | None

    @classmethod
    def found(cls, values: Array, ranks: bool) -> _Numbers:
        known = np.clip(values[~np.isnan(values)], -MOST, MOST)
        missing = len(known) < len(values)
        if not len(known):
            return cls(Continuous(missing=True, clip=True), 0.5, None, None)
        return cls._ranked(known, missing) if ranks else cls._between(known, missing)

    @classmethod
    def _between(cls, known: Array, missing: bool) -> _Numbers:
        low, high = float(known.min()), float(known.max())
        middle = float(np.partition(known, len(known) // 2)[len(known) // 2])
        if not high > low:
            low, high = low - max(1.0, abs(low)) / 2, high + max(1.0, abs(high)) / 2
        return cls(Continuous(low, high, clip=True, missing=missing), middle, None, None)

    @classmethod
    def _ranked(cls, known: Array, missing: bool) -> _Numbers:
        """Ranks: the share of smaller values, ties counted half, interpolated between quantiles."""
        ordered = np.sort(known[:: 1 + len(known) // SAMPLE])
        knots = np.unique(ordered[np.linspace(0, len(ordered) - 1, RANKS).astype(np.int64)])
        below, upto = np.searchsorted(ordered, knots, "left"), np.searchsorted(ordered, knots, "right")
        middle = float(ordered[len(ordered) // 2])
        return cls(Continuous(missing=missing), middle, knots, (below + upto) / (2 * len(ordered)))

    def read(self, column: Array) -> Array:
        values = to_floats(column)
        if not self.feature.missing:
            values = np.where(np.isnan(values), self.middle, values)
        if self.knots is None or self.heights is None:
            return values
        return np.interp(values, self.knots, self.heights)  # keeps NaN


@dataclass(frozen=True)
class _Categories:
    """A column of text, categories or flags. A value that was not there at first counts as missing."""

    feature: Categorical | Boolean

    @classmethod
    def found(cls, values: list[Any]) -> _Categories:
        if values and all(isinstance(value, bool) for value in values):
            return cls(Boolean(missing=True))
        different = sorted(set(values), key=lambda value: (isinstance(value, str), value))
        return cls(Categorical(*different or [""], missing=True))

    def read(self, column: Array) -> Array:
        known = (False, True) if isinstance(self.feature, Boolean) else set(self.feature.values)
        values = [value if value in known else None for value in column.tolist()]
        read = np.empty(len(values), dtype=object)
        read[:] = values
        return read


@dataclass(frozen=True)
class _Dates:
    """A column of dates, or of ISO texts. Other values count as missing."""

    feature: DateTime

    @classmethod
    def found(cls, name: str, values: list[Any]) -> _Dates | None:
        """The parts of these dates; None if some are no dates, or all are the same."""
        if not all(isinstance(value, date) or (isinstance(value, str) and is_iso(value)) for value in values):
            return None
        feature = guess_features({name: [*values, None]}, keep=[name]).features[name]
        return cls(feature) if isinstance(feature, DateTime) else None

    def read(self, column: Array) -> Array:
        read = np.empty(len(column), dtype=object)
        read[:] = [value if self.feature.is_valid(value) else None for value in column.tolist()]
        return read


def to_floats(column: Array) -> Array:
    """A column as floats, NaN for missing values."""
    if column.dtype.kind in "fiub":
        return column.astype(np.float64, copy=False)
    return np.array([np.nan if is_missing(value) else float(value) for value in column.tolist()], dtype=np.float64)


def _found(name: str, column: Array, ranks: bool, is_category: bool) -> _Numbers | _Categories | _Dates:
    if column.dtype.kind == "f":
        return _Numbers.found(column, ranks)
    values = [value for value in column.tolist() if not is_missing(value)]
    dates = None if is_category or not values else _Dates.found(name, values)
    if dates is not None:
        return dates
    strange = [value for value in values if not isinstance(value, str | bool | int | float)]
    if strange:
        raise ValueError(f"column {name!r} holds {strange[0]!r}: {_EXPECTED}")
    if not is_category and not any(isinstance(value, str | bool) for value in values):
        return _Numbers.found(to_floats(column), ranks)
    return _Categories.found(values)


# --- all columns --------------------------------------------------------------------------------------------


def repeat_contexts(contexts: Array | Table, times: int) -> Array | Table:
    if isinstance(contexts, Table):
        return Table({name: np.repeat(column, times) for name, column in contexts.columns.items()})
    return np.repeat(contexts, times, axis=0)


class InferredColumns:
    """Columns of X inferred from some rows: their schema, and the conversion of X to contexts.

    Parameters
    ----------
    rows
        Rows of X, as returned by ``validate``.
    names
        Names of the columns.
    ranks
        Whether to encode numbers by their ranks among these rows, instead of scaling by their range.
    categories
        Which columns are categorical by their dtype.
    """

    def __init__(self, rows: Array, names: Sequence[str], *, ranks: bool, categories: Sequence[bool] = ()) -> None:
        declared = categories or [False] * len(names)
        found = zip(names, rows.T, declared, strict=True)
        self._columns = [_found(name, column, ranks, is_category) for name, column, is_category in found]
        self._ranks, self._all_numbers = ranks, all(isinstance(column, _Numbers) for column in self._columns)
        self._optional = np.array([column.feature.missing for column in self._columns])
        self.schema = Schema({name: column.feature for name, column in zip(names, self._columns, strict=True)})

    def contexts(self, rows: Array) -> Array | Table:
        """Rows of X as contexts."""
        if not self._ranks and rows.dtype.kind == "f" and not np.isnan(rows[:, ~self._optional]).any():
            return rows
        read = []
        for name, column, values in zip(self.schema.inputs, self._columns, rows.T, strict=True):
            try:
                read.append(column.read(values))
            except (TypeError, ValueError) as error:
                raise ValueError(f"column {name!r}: {error}; expected numbers, as in the first rows") from None
        return np.column_stack(read) if self._all_numbers else Table(dict(zip(self.schema.inputs, read, strict=True)))


class GivenColumns:
    """Columns with a schema given by the user: values go to the learner unchanged.

    Parameters
    ----------
    schema
        As for :class:`releaf.Schema`.
    names
        Names of the columns of X, if any.
    """

    def __init__(self, schema: Any, names: Sequence[str] | None) -> None:
        self.schema = Schema.of(schema)
        if names is not None and list(names) != list(self.schema.inputs):
            wanted = f"those of features, in this order: {list(self.schema.inputs)!r}"
            raise ValueError(f"X has the columns {list(names)!r}: expected {wanted}")

    def contexts(self, rows: Array) -> Array | Table:
        return rows


class WithColumns:
    """Mixin of the estimators: missing values are allowed, and X becomes contexts of the learner."""

    _columns: InferredColumns | GivenColumns
    _is_numeric: bool

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        return tags

    def _contexts(self, X: Any) -> Any:
        check_is_fitted(self, "learner_")
        rows, _ = validate(self, X, reset=False, plain=self._is_numeric)
        return self._columns.contexts(rows)


def columns_of(estimator: Any, X: Any, rows: Array, *, schema: Any, ranks: bool) -> InferredColumns | GivenColumns:
    """Columns of an estimator: of the given schema, or inferred from the first rows."""
    names = getattr(estimator, "feature_names_in_", None)
    if schema is not None:
        return GivenColumns(schema, names)
    if names is None:
        names = [f"x{index}" for index in range(rows.shape[1])]
    return InferredColumns(rows, list(names), ranks=ranks, categories=declared_categories(X))
