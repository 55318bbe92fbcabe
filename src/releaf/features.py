"""Kinds of features, and the encoding of their values in [0, 1].

>>> Continuous(0, 120).to_unit(60)
0.5
>>> Categorical("a", "b").to_unit("b")  # the middle of the second of two intervals
0.75
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

__all__ = ["Boolean", "Categorical", "Continuous", "Feature", "Quantile"]

PLAIN = frozenset((float,))  # types that need no check: integers may be too large, texts may look like numbers
MISSING = -1.0  # encodes a missing value of a number
_TRUE, _FALSE = ("true", "yes", "y", "t", "on", "1", "1.0"), ("false", "no", "n", "f", "off", "0", "0.0")
BLANK = " \t\r\n"
BOOLEAN_TEXTS = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}  # in lower case


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, blank text, or pandas' NA or NaT."""
    if value is None:
        return True
    if isinstance(value, float | np.floating):
        return bool(value != value)
    if isinstance(value, str):
        return not value.strip(BLANK)
    name = type(value).__name__
    return name in ("NAType", "NaTType") or (name == "datetime64" and bool(np.isnat(value)))


def _number(value: Any) -> float:
    """Convert a value to float; TypeError for text, dates and other types."""
    if isinstance(value, str | bytes):
        raise TypeError("text")
    return float(value)


def shown(value: Any) -> str:
    """Format a value for an error message: a NumPy scalar as a plain number."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def _set_plain(feature: Any, **values: Any) -> None:
    """Set a feature's options as plain Python values, so that they save and load unchanged."""
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
        Clip a value to the bounds, instead of rejecting it.
    missing
        Allow missing values (None, NaN, blank text); they get a separate interval.
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

    def from_unit(self, unit: float) -> Any:
        """Decode a value."""
        return self.low + unit * (self.high - self.low)

    def describe(self, low: float, high: float) -> str:
        """Describe an interval of [0, 1] in the feature's units."""
        span = self.high - self.low
        bracket = "[" if low == 0 else "("
        return f"in {bracket}{self.low + low * span:g}, {self.low + high * span:g}]"


@dataclass(frozen=True, slots=True)
class Quantile:
    """A number of unknown range and distribution; both are learnt from the stream.

    A value is encoded as its rank among a sample of the values seen: the fraction of them that are smaller. The ranks
    are updated each time the number of values has doubled, so they converge as the stream continues.

    Parameters
    ----------
    size
        Number of values in the sample.
    missing
        Allow missing values (None, NaN, blank text); they get a separate interval.
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
        """Return the number itself: its rank depends on the stream, and the encoder computes it."""
        number = _number(value)
        if not math.isfinite(number):
            raise ValueError
        return number

    def describe(self, low: float, high: float) -> str:
        return f"between the {low:.0%} and {high:.0%} quantiles"


class Categorical:
    """One of a few unordered values; each has a separate interval that never splits.

    Parameters
    ----------
    *values
        The values, as arguments or as one sequence.
    missing
        Allow missing values (None, NaN, blank text); they count as one more category.
    other
        Allow values that are not known yet; they count as one more category, "other", as do missing values without
        ``missing``. Without it they are an error.

    Examples
    --------
    >>> Categorical("tcp", "udp", "icmp").categories
    3
    """

    __slots__ = ("_indices", "missing", "other", "values")
    kind: ClassVar[str] = "categorical"

    def __init__(self, *values: Any, missing: bool = False, other: bool = False) -> None:
        if len(values) == 1 and hasattr(values[0], "__getitem__") and not isinstance(values[0], str | bytes):
            values = tuple(values[0])
        self.values = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
        self.missing, self.other = bool(missing), bool(other)
        if not all(isinstance(value, str | int | float) and value == value for value in self.values):
            raise TypeError(f"the values of Categorical must be text, numbers or booleans, got {self.values!r}")
        self._indices = {value: index for index, value in enumerate(self.values)}
        if not self.values or len(self._indices) < len(self.values):
            raise ValueError(f"Categorical needs at least one value and no value twice, got {self.values!r}")

    def __repr__(self) -> str:
        options = "".join(f", {name}=True" for name in ("missing", "other") if getattr(self, name))
        return f"Categorical({', '.join(map(repr, self.values))}{options})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Categorical) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.values, self.missing, self.other

    @property
    def categories(self) -> int:
        return len(self.values) + self.other + self.missing

    @property
    def expects(self) -> str:
        shown = ", ".join(map(repr, self.values[:8]))
        return f"one of {shown}{', …' if len(self.values) > 8 else ''}"

    def index(self, value: Any) -> int:
        try:
            return self._indices[value]
        except (KeyError, TypeError):
            gone = is_missing(value)
            if gone and self.missing:
                return self.categories - 1
            if self.other and (gone or isinstance(value, str | int | float | np.generic)):
                return len(self.values)
            raise ValueError from None

    def to_unit(self, value: Any) -> float:
        return (self.index(value) + 0.5) / self.categories

    def units(self, values: list[Any]) -> list[float] | None:
        """Encode values in [0, 1]; None if one is unknown, or missing where that is not allowed."""
        count = self.categories
        known = {value: (index + 0.5) / count for value, index in self._indices.items()}
        try:
            return [known[value] for value in values]
        except (KeyError, TypeError):
            pass
        if not (self.missing or self.other):
            return None
        try:
            return [(self.index(value) + 0.5) / count for value in values]
        except (ValueError, TypeError):
            return None

    def describe(self, low: float, high: float) -> str:
        index = round(low * self.categories)
        if index < len(self.values):
            return f"equal to {self.values[index]!r}"
        return "other than all known" if self.other and index == len(self.values) else "missing"


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or False, also as 1 and 0, or as text: true/false, yes/no, y/n, t/f, on/off, 1/0, in upper or lower case.

    Parameters
    ----------
    missing
        Allow missing values (None, NaN, blank text); they count as a third category.
    """

    missing: bool = False
    kind: ClassVar[str] = "boolean"
    expects: ClassVar[str] = "True or False, or true/false, yes/no, y/n, t/f, on/off, 1/0 as text"

    def __post_init__(self) -> None:
        _set_plain(self, missing=bool(self.missing))

    @property
    def categories(self) -> int:
        return 2 + self.missing

    def to_unit(self, value: Any) -> float:
        if isinstance(value, str):
            value = BOOLEAN_TEXTS.get(value.strip().lower(), value)
        if not (isinstance(value, bool | np.bool_ | int | float | np.number) and value in (0, 1)):
            raise ValueError
        return (int(value) + 0.5) / self.categories

    def describe(self, low: float, high: float) -> str:
        return ("equal to False", "equal to True", "missing")[round(low * self.categories)]


Feature = Continuous | Quantile | Categorical | Boolean
UNIT = Continuous()


def column_to_unit(feature: Feature, column: Any) -> Any:
    """Encode a column in [0, 1]; values of a Quantile stay, with NaN where they are missing.

    None if a value is invalid, or the column's type needs a check of each value.
    """
    if isinstance(feature, Categorical):
        values = column.tolist() if isinstance(column, np.ndarray) else column
        units = feature.units(values)
        return None if units is None else np.array(units, dtype=np.float64)
    if isinstance(column, list) and PLAIN.issuperset(map(type, column)):
        column = np.array(column, dtype=np.float64)
    if not isinstance(column, np.ndarray) or column.dtype.kind not in "fiub":
        return None
    numbers = column.astype(np.float64)
    gone = np.isnan(numbers)
    if gone.any() and not feature.missing:
        return None
    if isinstance(feature, Boolean):
        if not (gone | (numbers == 0) | (numbers == 1)).all():
            return None
        return (np.where(gone, 2.0, numbers) + 0.5) / feature.categories
    if column.dtype.kind == "b":
        return None
    if isinstance(feature, Quantile):
        return None if np.isinf(numbers).any() else numbers
    if feature.clip:
        numbers = np.clip(numbers, feature.low, feature.high)
    if not (gone | ((numbers >= feature.low) & (numbers <= feature.high))).all():
        return None
    return np.where(gone, MISSING, (numbers - feature.low) / (feature.high - feature.low))
