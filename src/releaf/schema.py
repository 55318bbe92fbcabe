"""What a context looks like: the features, their kinds, and how their values become numbers in [0, 1].

>>> schema = Schema(age=Continuous(0, 120), income=Quantile(missing=True), smoker=Boolean())
>>> encoder = schema.encoder()
>>> encoder.encode({"age": 60, "income": 31_000, "smoker": True}).tolist()
[0.5, 0.5, 0.75]
>>> encoder.encode([30, None, False]).tolist()  # -1 stands for a missing value
[0.25, -1.0, 0.25]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from releaf.quantile import QuantileSketch
from releaf.table import is_table, ordered_columns, ordered_rows, ordered_values

__all__ = ["Boolean", "Categorical", "Continuous", "Encoder", "Feature", "Quantile", "Schema"]

Row = np.ndarray[Any, np.dtype[np.float64]]
MISSING = -1.0


def _is_missing(value: Any) -> bool:
    """None, NaN, and what pandas puts in their place."""
    if value is None:
        return True
    if isinstance(value, float | np.floating):
        return bool(value != value)
    return type(value).__name__ in ("NAType", "NaTType")


def _number(value: Any) -> float:
    """The value as a float; TypeError for text, dates and whatever else is not a number."""
    if isinstance(value, str | bytes):
        raise TypeError("text")
    return float(value)


def _shown(value: Any) -> str:
    """A value as an error tells it: a number from an array like any other."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def _set_plain(feature: Any, **values: Any) -> None:
    """Keep a feature's options as plain Python values, so that they save and load unchanged."""
    for name, value in values.items():
        object.__setattr__(feature, name, value)


@dataclass(frozen=True, slots=True)
class Continuous:
    """A number between two bounds that are known in advance.

    Parameters
    ----------
    low, high
        The bounds; they become 0 and 1.
    clip
        Move a value beyond a bound to the bound, instead of refusing it.
    missing
        Allow missing values (None, NaN); they get an interval of their own.
    """

    low: float = 0.0
    high: float = 1.0
    clip: bool = False
    missing: bool = False
    kind: ClassVar[str] = "continuous"
    categories: ClassVar[int] = 0

    def __post_init__(self) -> None:
        given = f"got low={self.low!r}, high={self.high!r}"
        try:
            bounds = {"low": _number(self.low), "high": _number(self.high)}
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"Continuous needs numbers as bounds, {given}") from None
        if not 0 < bounds["high"] - bounds["low"] < math.inf:
            raise ValueError(f"Continuous needs finite bounds with low < high, {given}")
        _set_plain(self, **bounds, clip=bool(self.clip), missing=bool(self.missing))

    @property
    def expects(self) -> str:
        return f"a number in [{self.low:g}, {self.high:g}]"

    def to_unit(self, value: Any) -> float:
        number = _number(value)
        if self.clip and not math.isnan(number):
            number = min(max(number, self.low), self.high)
        if not self.low <= number <= self.high:
            raise ValueError
        return (number - self.low) / (self.high - self.low)

    def describe(self, low: float, high: float) -> str:
        """An interval of [0, 1] in the feature's own terms."""
        span = self.high - self.low
        bracket = "[" if low == 0 else "("
        return f"in {bracket}{self.low + low * span:g}, {self.low + high * span:g}]"


@dataclass(frozen=True, slots=True)
class Quantile:
    """A number of unknown range and distribution; both are learnt from the stream.

    A value becomes its rank among a sample of the values seen: the fraction of them that are smaller. The ranks are
    taken anew each time the number of values has doubled, so they settle while the stream goes on.

    Parameters
    ----------
    size
        How many values the sample holds.
    missing
        Allow missing values (None, NaN); they get an interval of their own.
    """

    size: int = 512
    missing: bool = False
    kind: ClassVar[str] = "quantile"
    categories: ClassVar[int] = 0
    expects: ClassVar[str] = "a finite number"

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int | np.integer) or self.size < 2:
            raise ValueError(f"Quantile needs a sample of at least 2 values, a whole number, got size={self.size!r}")
        _set_plain(self, size=int(self.size), missing=bool(self.missing))

    def to_unit(self, value: Any) -> float:
        """The number itself: its rank depends on the stream, and the encoder finds it."""
        number = _number(value)
        if not math.isfinite(number):
            raise ValueError
        return number

    def describe(self, low: float, high: float) -> str:
        return f"between the {low:.0%} and {high:.0%} quantiles"


class Categorical:
    """One of a few values without order; each has an interval of its own that never splits.

    Parameters
    ----------
    *values
        The values, as arguments or as one sequence.
    missing
        Allow missing values (None, NaN); they count as one more category.

    Examples
    --------
    >>> Categorical("tcp", "udp", "icmp").categories
    3
    """

    __slots__ = ("_places", "missing", "values")
    kind: ClassVar[str] = "categorical"

    def __init__(self, *values: Any, missing: bool = False) -> None:
        if len(values) == 1 and hasattr(values[0], "__getitem__") and not isinstance(values[0], str | bytes):
            values = tuple(values[0])
        self.values = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
        self.missing = bool(missing)
        if not all(isinstance(value, str | int | float) and not _is_missing(value) for value in self.values):
            raise TypeError(f"the values of Categorical must be text, numbers or booleans, got {self.values!r}")
        self._places = {value: place for place, value in enumerate(self.values)}
        if not self.values or len(self._places) < len(self.values):
            raise ValueError(f"Categorical needs at least one value and no value twice, got {self.values!r}")

    def __repr__(self) -> str:
        return f"Categorical({', '.join(map(repr, self.values))}{', missing=True' if self.missing else ''})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Categorical) and (self.values, self.missing) == (other.values, other.missing)

    def __hash__(self) -> int:
        return hash((self.values, self.missing))

    @property
    def categories(self) -> int:
        return len(self.values) + self.missing

    @property
    def expects(self) -> str:
        shown = ", ".join(map(repr, self.values[:8]))
        return f"one of {shown}{', …' if len(self.values) > 8 else ''}"

    def place(self, value: Any) -> int:
        try:
            return self._places[value]
        except (KeyError, TypeError):
            raise ValueError from None

    def to_unit(self, value: Any) -> float:
        return (self.place(value) + 0.5) / self.categories

    def describe(self, low: float, high: float) -> str:
        place = round(low * self.categories)
        return f"equal to {self.values[place]!r}" if place < len(self.values) else "missing"


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or False (or 1 and 0).

    Parameters
    ----------
    missing
        Allow missing values (None, NaN); they count as a third category.
    """

    missing: bool = False
    kind: ClassVar[str] = "boolean"
    expects: ClassVar[str] = "True or False"

    def __post_init__(self) -> None:
        _set_plain(self, missing=bool(self.missing))

    @property
    def categories(self) -> int:
        return 2 + self.missing

    def to_unit(self, value: Any) -> float:
        if not (isinstance(value, bool | np.bool_ | int | float | np.number) and value in (0, 1)):
            raise ValueError
        return (int(value) + 0.5) / self.categories

    def describe(self, low: float, high: float) -> str:
        return ("equal to False", "equal to True", "missing")[round(low * self.categories)]


Feature = Continuous | Quantile | Categorical | Boolean
_KINDS: dict[str, Callable[..., Feature]] = {cls.kind: cls for cls in (Continuous, Quantile, Boolean)}
_UNIT = Continuous()


class Schema:
    """The features of a context, in order.

    Parameters
    ----------
    features
        A mapping from names to features, or keyword arguments, as for ``dict``.

    Examples
    --------
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
        """A schema from a count or from names, for values that are in [0, 1] already, or from named features."""
        if isinstance(features, Schema):
            return features
        if isinstance(features, Mapping):
            return cls(features)
        if isinstance(features, bool | float | str | set | frozenset) or features is None:
            raise TypeError(f"features must be a count, a sequence of names or a Schema, got {features!r}")
        if isinstance(features, int | np.integer):
            if features < 1:
                raise ValueError(f"features must be at least 1, got features={features}")
            return cls({f"x{i}": _UNIT for i in range(features)})
        names = list(features)
        if len(set(names)) < len(names):
            raise ValueError(f"features must have different names, got {names!r}")
        return cls(dict.fromkeys(names, _UNIT))

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and (self.names, self.features) == (other.names, other.features)

    def __hash__(self) -> int:
        return hash((self.names, self.features))

    def __repr__(self) -> str:
        return f"Schema({{{', '.join(f'{n!r}: {f!r}' for n, f in zip(self.names, self.features, strict=True))}}})"

    def index(self, feature: int | str) -> int:
        """The position of a feature that is given by name or by position."""
        if isinstance(feature, str):
            if feature not in self.names:
                raise ValueError(f"unknown feature {feature!r}; the schema has {', '.join(self.names)}")
            return self.names.index(feature)
        if isinstance(feature, bool) or not isinstance(feature, int | np.integer) or not 0 <= feature < len(self):
            raise ValueError(f"unknown feature {feature!r}; the schema has features 0 to {len(self) - 1}")
        return int(feature)

    def encoder(self) -> Encoder:
        """A fresh encoder, whose quantiles have seen nothing."""
        return Encoder(self)

    def to_dict(self) -> list[dict[str, Any]]:
        """The schema as plain data, for JSON."""
        return [{"name": n, **_feature_to_dict(f)} for n, f in zip(self.names, self.features, strict=True)]

    @classmethod
    def from_dict(cls, data: list[dict[str, Any]]) -> Schema:
        """The schema that ``to_dict`` gave."""
        return cls({entry["name"]: _feature_from_dict(entry) for entry in data})


def _feature_to_dict(feature: Feature) -> dict[str, Any]:
    if isinstance(feature, Categorical):
        return {"kind": feature.kind, "values": list(feature.values), "missing": feature.missing}
    return {"kind": feature.kind, **asdict(feature)}


def _feature_from_dict(entry: dict[str, Any]) -> Feature:
    options = {key: value for key, value in entry.items() if key not in ("name", "kind", "values")}
    if entry["kind"] == Categorical.kind:
        return Categorical(*entry["values"], **options)
    return _KINDS[entry["kind"]](**options)


class Encoder:
    """Turns contexts into rows of numbers in [0, 1], and learns the quantiles while doing so.

    A context that is refused changes nothing.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.is_unit = all(feature == _UNIT for feature in schema.features)
        self.sketches = {
            place: QuantileSketch(feature.size)
            for place, feature in enumerate(schema.features)
            if isinstance(feature, Quantile)
        }

    def encode(self, context: Any) -> Row:
        """One context (sequence, mapping, numpy row or one row of a table) as a row of its own."""
        values = ordered_values(context, self.schema.names)
        row = np.empty(len(self.schema))
        for place, value in enumerate(values):
            row[place] = self._to_unit(place, value)
        for place, sketch in self.sketches.items():
            if not _is_missing(values[place]):
                row[place] = sketch.see(float(row[place]))
        return row

    def encode_many(self, contexts: Any) -> Row:
        """Many contexts: a matrix, a table, or a sequence of contexts."""
        names = self.schema.names
        if isinstance(contexts, np.ndarray) or is_table(contexts):
            columns = ordered_columns(contexts, names)
        else:
            rows = ordered_rows(contexts, names)
            columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in names]
        matrix = np.empty((len(columns[0]), len(names)))
        gone = {}
        for place, column in enumerate(columns):
            matrix[:, place] = self._column_to_unit(place, column)
            if place in self.sketches:
                gone[place] = np.array([_is_missing(value) for value in column], dtype=bool)
        for place, sketch in self.sketches.items():
            for step in np.flatnonzero(~gone[place]):
                matrix[step, place] = sketch.see(float(matrix[step, place]))
        return matrix

    def _to_unit(self, place: int, value: Any, where: str = "") -> float:
        feature = self.schema.features[place]
        name = self.schema.names[place]
        if _is_missing(value):
            if not feature.missing:
                raise ValueError(f"feature {name!r}{where} is missing ({_shown(value)}): expected {feature.expects}")
            if isinstance(feature, Categorical | Boolean):
                return (feature.categories - 0.5) / feature.categories
            return MISSING
        try:
            return feature.to_unit(value)
        except (ValueError, TypeError, OverflowError):
            raise ValueError(f"feature {name!r}{where} is {_shown(value)}: expected {feature.expects}") from None

    def _column_to_unit(self, place: int, column: Any) -> Any:
        feature = self.schema.features[place]
        if isinstance(feature, Continuous) and isinstance(column, np.ndarray) and column.dtype.kind in "fiu":
            numbers = column.astype(np.float64)
            if feature.clip:
                numbers = np.clip(numbers, feature.low, feature.high)
            if bool(np.all((numbers >= feature.low) & (numbers <= feature.high))):
                return (numbers - feature.low) / (feature.high - feature.low)
        return [self._to_unit(place, value, f" of row {row}") for row, value in enumerate(column)]

    def state(self) -> dict[str, Row]:
        """What was learnt, as arrays."""
        return {f"quantile{place}": sketch.state() for place, sketch in self.sketches.items()}

    def restore(self, state: Mapping[str, Row]) -> None:
        """Take up what ``state`` gave."""
        for place, sketch in self.sketches.items():
            sketch.restore(state[f"quantile{place}"])
