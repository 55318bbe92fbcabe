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

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from releaf.arrays import Row
from releaf.column_guess import guess_features
from releaf.datetimes import DateParts, DateTime
from releaf.feature_dicts import Declared, feature_from_dict, feature_to_dict
from releaf.features import (
    MISSING,
    UNIT,
    Boolean,
    Categorical,
    Continuous,
    Feature,
    Quantile,
    column_to_unit,
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

    Attributes
    ----------
    inputs
        What a context has, by name: the features as they were given.
    names, features
        The encoded features, which a learner sees: a :class:`DateTime` named "date" is several of them, such as
        "date: trend" and "date: weekday"; any other feature is one.
    left_out
        The columns that ``guess`` left out, with the reasons.
    notes
        What ``guess`` noticed of the columns that it took, by their names.

    Examples
    --------
    >>> from releaf import Continuous
    >>> Schema({"clump thickness": Continuous(1, 10), "mitoses": Continuous(1, 10, missing=True)}).names
    ('clump thickness', 'mitoses')
    """

    def __init__(self, features: Mapping[str, Declared] | None = None, /, **named: Declared) -> None:
        given = dict(features or {}, **named)
        if not given:
            raise ValueError("a Schema needs at least one feature, got none")
        for name, feature in given.items():
            if not isinstance(feature, Declared):
                raise TypeError(
                    f"feature {name!r} must be Continuous, Quantile, Categorical, Boolean or DateTime, got {feature!r}"
                )
        self.inputs: dict[str, Declared] = {str(name): feature for name, feature in given.items()}
        encoded = [pair for name, feature in given.items() for pair in _encoded_features(str(name), feature)]
        self.names = tuple(name for name, _ in encoded)
        self.features: tuple[Feature, ...] = tuple(feature for _, feature in encoded)
        self.left_out: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        if len(self.inputs) < len(given) or len(set(self.names)) < len(self.names):
            names = list(self.names) if len(self.inputs) == len(given) else list(map(str, given))
            raise ValueError(f"features must have different names, got {names!r}")

    @classmethod
    def of(cls, features: int | Sequence[str] | Mapping[str, Declared] | Schema) -> Schema:
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
        return isinstance(other, Schema) and list(self.inputs.items()) == list(other.inputs.items())

    def __hash__(self) -> int:
        return hash(tuple(self.inputs.items()))

    def __repr__(self) -> str:
        return f"Schema({{{', '.join(f'{name!r}: {feature!r}' for name, feature in self.inputs.items())}}})"

    def index(self, feature: int | str) -> int:
        """Index of a feature, given by name or by index."""
        if isinstance(feature, str):
            if feature not in self.names:
                if isinstance(own := self.inputs.get(feature), DateTime):
                    parts = ", ".join(repr(name) for name, _ in _encoded_features(feature, own))
                    raise ValueError(f"feature {feature!r} has parts: expected one of {parts}")
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
    def guess(
        cls,
        table: Any,
        *,
        leave_out: Sequence[str] = (),
        keep: Sequence[str] = (),
        numbers: str = "quantiles",
        row_name: Callable[[int], str] = "row {}".format,
    ) -> Schema:
        """Infer a schema from the columns of a table: numbers, dates, booleans or categories.

        Identifiers, constant columns, columns that look like propensities and columns of mixed types are left out.
        Every feature may be missing in later rows. ``left_out`` of the result has the reasons, ``notes`` what else is
        worth a look; a warning repeats both.

        Parameters
        ----------
        table
            A pandas, polars or pyarrow table, or a mapping from names to columns.
        leave_out
            Columns that are not features, such as the action and the reward.
        keep
            Columns that are features, whatever they look like.
        numbers
            "quantiles": numbers become :class:`Quantile`; "range": :class:`Continuous` over the observed range.
        row_name
            The name of a row in remarks, by its number, such as its line in a file.

        Examples
        --------
        >>> schema = Schema.guess({"age": [30, None], "plan": ["a", "b"], "since": ["2024-01-31", "2024-03-01"]})
        >>> schema.inputs["plan"]
        Categorical('a', 'b', missing=True, other=True)
        >>> schema.names
        ('age', 'plan', 'since: trend', 'since: weekday')
        """
        if numbers not in ("quantiles", "range"):
            raise ValueError(f"numbers must be 'quantiles' or 'range', got numbers={numbers!r}")
        if not isinstance(table, Mapping) and not is_table(table):
            raise TypeError(f"table must be a pandas, polars or pyarrow table or a mapping, got {table!r}")
        columns = table if isinstance(table, Mapping) else table_columns(table)
        unwanted, kept = ([names] if isinstance(names, str) else list(names) for names in (leave_out, keep))
        lacking = [name for name in (*unwanted, *kept) if name not in columns]
        if lacking:
            raise ValueError(f"the table has no column {lacking[0]!r}; it has {', '.join(columns)}")
        found = guess_features(
            {name: columns[name] for name in columns if name not in unwanted}, kept, numbers, row_name
        )
        if not found.features:
            reasons = "; ".join(f"column {name!r} {why}" for name, why in found.left_out.items())
            raise ValueError(f"no column can be a feature: {reasons or 'there is none'}")
        schema = cls(found.features)
        schema.left_out, schema.notes = found.left_out, found.notes
        remarks = [f"column {name!r} was left out: it {why}" for name, why in found.left_out.items()]
        remarks += [f"column {name!r} {why}" for name, why in found.notes.items()]
        if remarks:
            warnings.warn("; ".join(remarks), stacklevel=2)
        return schema

    def to_toml(self) -> str:
        """Serialize the schema as TOML for editing; default options are omitted, left-out columns are comments."""
        return features_to_toml(self.inputs, self.left_out)

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """Parse a schema from TOML, as ``to_toml`` writes it."""
        return cls(features_from_toml(text))

    def to_dict(self) -> list[dict[str, Any]]:
        """Convert the schema to plain data, for JSON."""
        return [{"name": name, **feature_to_dict(feature)} for name, feature in self.inputs.items()]

    @classmethod
    def from_dict(cls, data: list[dict[str, Any]]) -> Schema:
        """Build a schema from what ``to_dict`` returned."""
        return cls({entry["name"]: feature_from_dict(entry) for entry in data})


def _encoded_features(name: str, feature: Declared) -> list[tuple[str, Feature]]:
    """Names of the encoded features of one, with the features."""
    if not isinstance(feature, DateTime):
        return [(name, feature)]
    return [(f"{name}: {part}", encoded) for part, encoded in feature.features().items()]


class Encoder:
    """Encoder of contexts as rows of numbers in [0, 1]; it updates its quantile sketches as it encodes.

    Invalid input raises a ValueError; the encoder is then unchanged.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.is_unit = all(feature == UNIT for feature in schema.features)
        self._names = tuple(schema.inputs)
        self._dates: dict[int, tuple[DateTime, slice]] = {}  # by index among the inputs: the positions of its parts
        self._positions: list[int] = []  # of the first encoded feature of each input
        self._inputs: list[int] = []  # index of the input of each encoded feature
        position = 0
        for index, feature in enumerate(schema.inputs.values()):
            width = 1
            if isinstance(feature, DateTime):
                width = len(feature.features())
                self._dates[index] = feature, slice(position, position + width)
            self._positions.append(position)
            self._inputs += [index] * width
            position += width
        self.sketches: dict[int, QuantileSketch] = {}
        for index, encoded in enumerate(schema.features):
            if isinstance(encoded, Quantile):
                self.sketches[index] = _new_sketch(encoded.size)

    def encode(self, context: Any) -> Row:
        """Encode one context (sequence, mapping, numpy row or one row of a table) as a new row."""
        values = ordered_values(context, self._names)
        row, dates = np.empty(len(self.schema)), self._dates
        for index, position in enumerate(self._positions):
            if index in dates:
                row[dates[index][1]] = self._date_to_units(index, values[index])
            else:
                row[position] = self._to_unit(position, values[index])
        for position, sketch in self.sketches.items():
            if not is_missing(values[self._inputs[position]]):
                row[position] = sketch.add(float(row[position]))
        return row

    def encode_many(self, contexts: Any, learns: bool = True) -> Row:
        """Encode many contexts: a matrix, a table, or a sequence; ``learns`` tells whether quantiles are updated."""
        names = self._names
        if isinstance(contexts, np.ndarray) or is_table(contexts):
            columns = ordered_columns(contexts, names)
        else:
            rows = ordered_rows(contexts, names)
            columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in names]
        matrix = np.empty((len(self.schema), len(columns[0])))
        for index, column in enumerate(columns):
            if index in self._dates:
                matrix[self._dates[index][1]] = self._dates_to_units(index, column)
            else:
                matrix[self._positions[index]] = self._column_to_unit(self._positions[index], column)
        for position, sketch in self.sketches.items():
            (sketch.add_many if learns else sketch.rank_many)(matrix[position])
            matrix[position, np.isnan(matrix[position])] = MISSING
        return np.ascontiguousarray(matrix.T)

    def quantile_values(self, context: Any) -> dict[int, float]:
        """Values of the quantile features of a context, by position, but for missing ones."""
        values = ordered_values(context, self._names)
        given = {position: values[self._inputs[position]] for position in self.sketches}
        return {position: self._to_unit(position, value) for position, value in given.items() if not is_missing(value)}

    def quantile_samples(self) -> dict[str, list[float]]:
        """Copy the sorted values among which each quantile feature is ranked now, by name."""
        return {self.input_name(position): sketch.ranked_values() for position, sketch in self.sketches.items()}

    def input_name(self, position: int) -> str:
        """Name of the input that an encoded feature is of."""
        return self._names[self._inputs[position]]

    def date_at(self, position: int) -> tuple[DateTime, slice] | None:
        """The date that an encoded feature is a part of, and where all of its parts are."""
        return self._dates.get(self._inputs[position])

    def date_parts(self) -> list[DateParts]:
        """The dates among the features that have a trend, so that their parts tell the day."""
        found = []
        for feature, where in self._dates.values():
            parts = list(feature.features())
            if "trend" in parts:
                of_day = tuple(where.start + place for place, part in enumerate(parts) if part != "hour")
                found.append(DateParts(feature, where, where.start + parts.index("trend"), of_day))
        return found

    def hour_positions(self) -> set[int]:
        """Positions of the hours of dates, whose order is cyclic."""
        return {
            where.start + list(feature.features()).index("hour")
            for feature, where in self._dates.values()
            if "hour" in feature.features()
        }

    def problems(self, columns: Sequence[Any]) -> dict[int, str]:
        """Errors by row of these columns, one column for each input; empty if all rows are valid."""
        found: dict[int, str] = {}
        for index, column in enumerate(columns):
            date, position = self._dates.get(index), self._positions[index]
            feature = self.schema.features[position]
            if (column_to_unit(feature, column) if date is None else date[0].encode_column(column)) is None:
                for row, value in enumerate(column):
                    try:
                        self._to_unit(position, value) if date is None else self._date_to_units(index, value)
                    except ValueError as error:
                        found.setdefault(row, str(error))
        return found

    def from_unit(self, index: int, unit: float) -> Any:
        """Decode a value of an encoded feature: a number, a category, a date, or None where it is missing."""
        feature = self.schema.features[index]
        if unit == MISSING:
            return None
        if isinstance(feature, Continuous):
            return feature.from_unit(unit)
        if isinstance(feature, Quantile):
            return self.sketches[index].value(unit)
        values: tuple[Any, ...] = (False, True) if isinstance(feature, Boolean) else feature.values
        if isinstance(feature, Categorical) and feature.other:
            values = (*values, "other")
        category = min(int(unit * feature.categories), feature.categories - 1)
        return values[category] if category < len(values) else None

    def _to_unit(self, position: int, value: Any, where: str = "") -> float:
        feature, name = self.schema.features[position], self.schema.names[position]
        if feature.missing and not isinstance(feature, Categorical) and is_missing(value):
            return (feature.categories - 0.5) / feature.categories if feature.categories else MISSING
        try:
            return feature.to_unit(value)
        except (ValueError, TypeError, OverflowError):
            what = f"missing ({shown(value)})" if is_missing(value) else shown(value)
            raise ValueError(f"feature {name!r}{where} is {what}: expected {feature.expects}") from None

    def _column_to_unit(self, position: int, column: Any) -> Any:
        """Encode a feature's values in [0, 1]; those of a Quantile stay, with NaN where they are missing."""
        feature = self.schema.features[position]
        units = column_to_unit(feature, column)
        if units is None:  # invalid, or of an uncommon type
            units = np.array([self._to_unit(position, value, f" of row {row}") for row, value in enumerate(column)])
            if isinstance(feature, Quantile):
                units[[is_missing(value) for value in column]] = np.nan
        return units

    def _date_to_units(self, index: int, value: Any, where: str = "") -> list[float]:
        """Encoded parts of a date."""
        feature, name = self._dates[index][0], self._names[index]
        if is_missing(value) and not feature.missing:
            raise ValueError(f"feature {name!r}{where} is missing ({shown(value)}): expected {feature.expects}")
        try:
            return feature.encode_one(value)
        except (ValueError, TypeError, OverflowError):
            raise ValueError(f"feature {name!r}{where} is {shown(value)}: expected {feature.expects}") from None

    def _dates_to_units(self, index: int, column: Any) -> Row:
        units = self._dates[index][0].encode_column(column)
        if units is None:  # raises with the row
            rows = [self._date_to_units(index, value, f" of row {row}") for row, value in enumerate(column)]
            units = np.array(rows).T
        return units

    def round_quantiles(self) -> None:
        """Round the values that quantiles are found from, so that none tells whose it is."""
        for sketch in self.sketches.values():
            sketch.round_values()

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


Features = int | Sequence[str] | Mapping[str, Declared] | Schema  # what Schema.of accepts
