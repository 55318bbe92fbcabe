"""`Schema`, the features of a context in order, and `Encoder`, which maps contexts to rows of numbers in [0, 1].

>>> from releaf import Boolean, Continuous, Quantile
>>> schema = Schema(age=Continuous(0, 120), income=Quantile(missing=True), smoker=Boolean())
>>> encoder = schema.encoder()
>>> encoder.encode({"age": 60, "income": 31_000, "smoker": True}).tolist()
[0.5, 0.5, 0.75]
>>> encoder.encode([30, None, False]).tolist()  # -1 stands for a missing value
[0.25, -1.0, 0.25]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from releaf.arrays import Row
from releaf.features import (
    MISSING,
    UNIT,
    Boolean,
    Categorical,
    Continuous,
    Feature,
    Quantile,
    column_to_unit,
    feature_from_dict,
    feature_to_dict,
    guess_feature,
    is_missing,
    shown,
)
from releaf.table import is_table, ordered_columns, ordered_rows, ordered_values, table_columns
from releaf.toml import features_from_toml, features_to_toml

if TYPE_CHECKING:
    from releaf.core.quantile_sketch import QuantileSketch

__all__ = ["Encoder", "Features", "Schema"]


class Schema:
    """The features of a context, in order.

    Parameters
    ----------
    features
        A mapping from names to features, or keyword arguments, as for ``dict``.

    Examples
    --------
    >>> from releaf import Continuous
    >>> Schema({"clump thickness": Continuous(1, 10), "mitoses": Continuous(1, 10, missing=True)}).names
    ('clump thickness', 'mitoses')
    """

    def __init__(self, features: Mapping[str, Feature] | None = None, /, **named: Feature) -> None:
        given = dict(features or {}, **named)
        if not given:
            raise ValueError("a Schema needs at least one feature, got none")
        for name, feature in given.items():
            if not isinstance(feature, Feature):
                raise TypeError(
                    f"feature {name!r} must be Continuous, Quantile, Categorical or Boolean, got {feature!r}"
                )
        self.names = tuple(str(name) for name in given)
        self.features = tuple(given.values())
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"features must have different names, got {list(self.names)!r}")

    @classmethod
    def of(cls, features: int | Sequence[str] | Mapping[str, Feature] | Schema) -> Schema:
        """Build a schema from a count or from names, for values in [0, 1], or from named features."""
        if isinstance(features, Schema):
            return features
        if isinstance(features, Mapping):
            return cls(features)
        if isinstance(features, bool | float | str | set | frozenset) or features is None:
            raise TypeError(f"features must be a count, a sequence of names or a Schema, got {features!r}")
        if isinstance(features, int | np.integer):
            if features < 1:
                raise ValueError(f"features must be at least 1, got features={features}")
            return cls({f"x{i}": UNIT for i in range(features)})
        names = list(features)
        if len(set(names)) < len(names):
            raise ValueError(f"features must have different names, got {names!r}")
        return cls(dict.fromkeys(names, UNIT))

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and (self.names, self.features) == (other.names, other.features)

    def __hash__(self) -> int:
        return hash((self.names, self.features))

    def __repr__(self) -> str:
        return f"Schema({{{', '.join(f'{n!r}: {f!r}' for n, f in zip(self.names, self.features, strict=True))}}})"

    def index(self, feature: int | str) -> int:
        """Index of a feature, given by name or by index."""
        if isinstance(feature, str):
            if feature not in self.names:
                raise ValueError(f"unknown feature {feature!r}; the schema has {', '.join(self.names)}")
            return self.names.index(feature)
        if isinstance(feature, bool) or not isinstance(feature, int | np.integer) or not 0 <= feature < len(self):
            raise ValueError(f"unknown feature {feature!r}; the schema has features 0 to {len(self) - 1}")
        return int(feature)

    def lowest(self) -> Row:
        """Lowest encoded value of each feature: 0, or -1, which encodes a missing number."""
        optional = [feature.missing and not feature.categories for feature in self.features]
        return np.where(optional, MISSING, 0.0)

    def encoder(self) -> Encoder:
        """Create an encoder with empty quantile sketches."""
        return Encoder(self)

    @classmethod
    def guess(cls, table: Any, *, leave_out: Sequence[str] = (), numbers: str = "quantiles") -> Schema:
        """Infer a schema from the columns of a table: numbers, booleans or categories, missing or not.

        Parameters
        ----------
        table
            A pandas, polars or pyarrow table, or a mapping from names to columns.
        leave_out
            Columns that are not features, such as the action and the reward.
        numbers
            "quantiles": numbers become :class:`Quantile`; "range": :class:`Continuous` over the observed range.

        Examples
        --------
        >>> Schema.guess({"age": [30, None], "plan": ["a", "b"]})
        Schema({'age': Quantile(size=512, missing=True), 'plan': Categorical('a', 'b')})
        """
        if numbers not in ("quantiles", "range"):
            raise ValueError(f"numbers must be 'quantiles' or 'range', got numbers={numbers!r}")
        if not isinstance(table, Mapping) and not is_table(table):
            raise TypeError(f"table must be a pandas, polars or pyarrow table or a mapping, got {table!r}")
        columns = table if isinstance(table, Mapping) else table_columns(table)
        leave_out = [leave_out] if isinstance(leave_out, str) else leave_out
        lacking = [name for name in leave_out if name not in columns]
        if lacking:
            raise ValueError(f"the table has no column {lacking[0]!r}; it has {', '.join(columns)}")
        found: dict[str, Feature] = {}
        problems = []
        for name in (name for name in columns if name not in leave_out):
            try:
                found[name] = guess_feature(name, columns[name], numbers)
            except ValueError as error:
                problems.append(str(error))
        if problems:
            raise ValueError("; ".join(problems))
        return cls(found)

    def to_toml(self) -> str:
        """Serialize the schema as TOML for editing; default options are omitted."""
        return features_to_toml(dict(zip(self.names, self.features, strict=True)))

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """Parse a schema from TOML, as ``to_toml`` writes it."""
        return cls(features_from_toml(text))

    def to_dict(self) -> list[dict[str, Any]]:
        """Convert the schema to plain data, for JSON."""
        return [{"name": n, **feature_to_dict(f)} for n, f in zip(self.names, self.features, strict=True)]

    @classmethod
    def from_dict(cls, data: list[dict[str, Any]]) -> Schema:
        """Build a schema from what ``to_dict`` returned."""
        return cls({entry["name"]: feature_from_dict(entry) for entry in data})


class Encoder:
    """Encoder of contexts as rows of numbers in [0, 1]; it updates its quantile sketches as it encodes.

    Invalid input raises a ValueError; the encoder is then unchanged.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.is_unit = all(feature == UNIT for feature in schema.features)
        self.sketches: dict[int, QuantileSketch] = {}
        for index, feature in enumerate(schema.features):
            if isinstance(feature, Quantile):
                self.sketches[index] = _new_sketch(feature.size)

    def encode(self, context: Any) -> Row:
        """Encode one context (sequence, mapping, numpy row or one row of a table) as a new row."""
        values = ordered_values(context, self.schema.names)
        row = np.empty(len(self.schema))
        for index, value in enumerate(values):
            row[index] = self._to_unit(index, value)
        for index, sketch in self.sketches.items():
            if not is_missing(values[index]):
                row[index] = sketch.add(float(row[index]))
        return row

    def encode_many(self, contexts: Any, learns: bool = True) -> Row:
        """Encode many contexts: a matrix, a table, or a sequence; ``learns`` tells whether quantiles are updated."""
        names = self.schema.names
        if isinstance(contexts, np.ndarray) or is_table(contexts):
            columns = ordered_columns(contexts, names)
        else:
            rows = ordered_rows(contexts, names)
            columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in names]
        matrix = np.empty((len(names), len(columns[0])))
        for index, column in enumerate(columns):
            matrix[index] = self._column_to_unit(index, column)
        for index, sketch in self.sketches.items():
            (sketch.add_many if learns else sketch.rank_many)(matrix[index])
            matrix[index, np.isnan(matrix[index])] = MISSING
        return np.ascontiguousarray(matrix.T)

    def problems(self, columns: Sequence[Any]) -> dict[int, str]:
        """Errors by row of these columns, one column for each feature; empty if all rows are valid."""
        found: dict[int, str] = {}
        for index, column in enumerate(columns):
            if column_to_unit(self.schema.features[index], column) is None:
                for row, value in enumerate(column):
                    try:
                        self._to_unit(index, value)
                    except ValueError as error:
                        found.setdefault(row, str(error))
        return found

    def from_unit(self, index: int, unit: float) -> Any:
        """Decode a value of a feature: a number, a category, or None where it is missing."""
        feature = self.schema.features[index]
        if unit == MISSING:
            return None
        if isinstance(feature, Continuous):
            return feature.low + unit * (feature.high - feature.low)
        if isinstance(feature, Quantile):
            return self.sketches[index].value(unit)
        values: tuple[Any, ...] = (False, True) if isinstance(feature, Boolean) else feature.values
        if isinstance(feature, Categorical) and feature.other:
            values = (*values, "other")
        category = min(int(unit * feature.categories), feature.categories - 1)
        return values[category] if category < len(values) else None

    def _to_unit(self, index: int, value: Any, where: str = "") -> float:
        feature = self.schema.features[index]
        name = self.schema.names[index]
        if is_missing(value):
            if not feature.missing:
                raise ValueError(f"feature {name!r}{where} is missing ({shown(value)}): expected {feature.expects}")
            if isinstance(feature, Categorical | Boolean):
                return (feature.categories - 0.5) / feature.categories
            return MISSING
        try:
            return feature.to_unit(value)
        except (ValueError, TypeError, OverflowError):
            raise ValueError(f"feature {name!r}{where} is {shown(value)}: expected {feature.expects}") from None

    def _column_to_unit(self, index: int, column: Any) -> Any:
        """Encode a feature's values in [0, 1]; those of a Quantile stay, with NaN where they are missing."""
        feature = self.schema.features[index]
        units = column_to_unit(feature, column)
        if units is None:  # invalid, or of an uncommon type
            units = np.array([self._to_unit(index, value, f" of row {row}") for row, value in enumerate(column)])
            if isinstance(feature, Quantile):
                units[[is_missing(value) for value in column]] = np.nan
        return units

    def state(self) -> dict[str, Row]:
        """State of the quantile sketches, as arrays."""
        return {f"quantile{index}": sketch.state() for index, sketch in self.sketches.items()}

    def restore(self, state: Mapping[str, Row]) -> None:
        """Load what ``state`` returned."""
        for index, sketch in self.sketches.items():
            sketch.restore(state[f"quantile{index}"])


def _new_sketch(size: int) -> QuantileSketch:
    from releaf.core.quantile_sketch import QuantileSketch  # imports Numba, which is slow to import

    return QuantileSketch(size)


Features = int | Sequence[str] | Mapping[str, Feature] | Schema  # what Schema.of accepts
