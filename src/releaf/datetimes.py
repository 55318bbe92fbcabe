"""`DateTime`, the feature of dates and times, and the parts that it is encoded as.

>>> date = DateTime("2024-01-01", "2024-12-31")
>>> list(date.features())[:3]
['trend', 'weekday', 'hour']
>>> encoded = date.encode_one("2024-07-01T18:30")  # a Monday
>>> [round(unit, 3) for unit in encoded[:3]]  # half of the year is over; the first weekday; hour 18
[0.501, 0.071, 0.771]
"""

from __future__ import annotations

import math
import re
from calendar import isleap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from releaf.arrays import Array
from releaf.features import MISSING, Categorical, Continuous, Feature, is_missing

__all__ = ["DateTime"]

PARTS = ("trend", "weekday", "hour", "day of year")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SECOND = 1_000_000  # microseconds
HOUR, DAY = 3_600 * SECOND, 86_400 * SECOND
YEAR = 365  # days
NOT_A_TIME = np.iinfo(np.int64).min  # numpy's NaT as an integer
SHORT = 3 * DAY  # a span in which days don't tell times apart
_EPOCH = datetime(1970, 1, 1)
_ANY_DAY = "2023-12-31"  # before the example of a date that has no trend
_FIRST_WEEKDAY = 3  # 1970-01-01 was a Thursday
# "2024-01-31", "2024-01-31 09:30" and so on: a bare "20240131" or "2024" is more likely a number.
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d(:\d\d.*)?)?", re.IGNORECASE)
_ZONE = re.compile(r" (?=UTC$|Z$|[+-]\d\d:?\d\d$)", re.IGNORECASE)  # a space that Python's parser does not accept


@dataclass(frozen=True, slots=True)
class DateTime:
    """A date or a time, encoded as several features: its parts.

    The parts have the names that relevance, explanations and plots show, such as ``"date: weekday"``:

    - ``trend``: the position between ``start`` and ``end``. Dates beyond them count as ``start`` and ``end``, so that
      future dates are decided as on the last day that was known.
    - ``weekday``: seven categories.
    - ``hour``: 24 categories, which can learn jumps, and are cyclic: 23 is as near to 0 as to 22.
    - ``day of year``: ``day of year (sine)`` and ``day of year (cosine)``, a point on a circle, so that 31 December is
      next to 1 January. Seasons are smooth, and a linear policy can learn a wave from these two.

    Values are ``datetime``, ``date``, numpy's ``datetime64``, timestamps of pandas, polars and pyarrow, or ISO 8601
    text such as ``2024-01-31`` or ``2024-01-31T09:30:00+01:00``.

    Parameters
    ----------
    start, end
        The dates between which a trend is learnt; None for both: no trend.
    parts
        The parts; when None, all for which there is a meaning: no ``trend`` without ``start`` and ``end``.
    time_zone
        The time zone of weekdays and hours, an IANA name such as "Europe/Berlin". A value with a UTC offset is
        converted to it; a value without one is taken as local time there, unchanged.
    missing
        Allow missing values (None, NaN, NaT, blank text); every part then has a case of its own for them.

    Examples
    --------
    >>> import releaf
    >>> releaf.Schema(age=releaf.Continuous(0, 120), date=releaf.DateTime(parts=["weekday", "hour"])).names
    ('age', 'date: weekday', 'date: hour')
    """

    start: Any = None
    end: Any = None
    parts: Sequence[str] | None = None
    time_zone: str = "UTC"
    missing: bool = False
    kind: ClassVar[str] = "datetime"
    expects: ClassVar[str] = "a date or a time, such as 2024-01-31 or 2024-01-31T09:30:00"

    def __post_init__(self) -> None:
        object.__setattr__(self, "missing", bool(self.missing))
        _zone(self.time_zone)
        given = f"got start={self.start!r}, end={self.end!r}"
        if self.start is not None or self.end is not None:
            try:
                first, last = self.moment(self.start), self.moment(self.end)
            except (ValueError, TypeError, OverflowError):
                raise ValueError(f"DateTime needs dates as start and end, or neither, {given}") from None
            if not first < last:
                raise ValueError(f"DateTime needs a start before its end, {given}")
            object.__setattr__(self, "start", _iso_text(first))
            object.__setattr__(self, "end", _iso_text(last))
        object.__setattr__(self, "parts", self._checked_parts())

    def _checked_parts(self) -> tuple[str, ...]:
        if self.parts is None:
            return PARTS if self.start is not None else PARTS[1:]
        given = (self.parts,) if isinstance(self.parts, str) else tuple(self.parts)
        if not given or len(set(given)) < len(given) or not set(given) <= set(PARTS):
            raise ValueError(f"the parts of DateTime must be some of {', '.join(PARTS)}, got parts={self.parts!r}")
        if "trend" in given and self.start is None:
            raise ValueError("the trend of DateTime needs a start and an end")
        return tuple(part for part in PARTS if part in given)

    def features(self) -> dict[str, Feature]:
        """Encoded features by the names of the parts."""
        made: dict[str, Feature] = {}
        for part in self.parts or ():
            if part == "trend":
                low, high = (datetime.fromisoformat(bound) for bound in (self.start, self.end))
                span = (low - _EPOCH).total_seconds(), (high - _EPOCH).total_seconds()
                made[part] = Trend(*span, clip=True, missing=self.missing)
            elif part == "weekday":
                made[part] = Categorical(*WEEKDAYS, missing=self.missing)
            elif part == "hour":
                made[part] = Categorical(*range(24), missing=self.missing)
            else:
                made[f"{part} (sine)"] = YearWave(-1.0, 1.0, clip=True, missing=self.missing)
                made[f"{part} (cosine)"] = YearWave(-1.0, 1.0, clip=True, missing=self.missing, shift=0.25)
        return made

    def moment(self, value: Any) -> int:
        """Microseconds from 1970 to a value, in local time; a TypeError or ValueError if it is no date."""
        if isinstance(value, np.datetime64):
            return int(_microseconds(value.reshape(1))[0])
        if isinstance(value, str):
            value = parse_iso(value)
        if isinstance(value, datetime):
            if value.tzinfo is not None:
                value = value.astimezone(_zone(self.time_zone)).replace(tzinfo=None)
            return int((value - _EPOCH) // timedelta(microseconds=1))
        if isinstance(value, date):
            return (value - _EPOCH.date()).days * DAY
        raise TypeError(f"{type(value).__name__} is no date")

    def moment_of_trend(self, unit: float) -> int:
        """The moment that an encoded trend is of, to the second."""
        low, high = _bounds(self.start, self.end)
        return round((low + unit * (high - low)) / SECOND) * SECOND

    def moment_like(self, encoded: Array) -> int:
        """A moment that has these encoded parts, and the day of the trend if that tells one."""
        parts = dict(zip(self.features(), encoded.tolist(), strict=True))
        unit = parts.get("trend", 1.0)
        moment = self.moment_of_trend(unit) if 0.0 < unit < 1.0 else DAY * self._day_like(parts, unit)
        if "hour" in parts:
            moment += (int(parts["hour"] * (24 + self.missing)) - moment % DAY // HOUR) * HOUR
        return moment

    def _day_like(self, parts: dict[str, float], unit: float) -> int:
        """The first day after ``end``, or the last one before ``start``, with these parts; it recurs in 28 years."""
        days = np.arange(1, 28 * 366)
        if self.start is None:
            days = days + self.moment(_ANY_DAY) // DAY
        else:
            first, last = (bound // DAY for bound in _bounds(self.start, self.end))
            days = last + days if unit >= 1.0 else first - days
        fits = np.ones(len(days), dtype=bool)
        for part, row in zip(self.features(), self.encode_moments(days * DAY), strict=True):
            fits &= np.isclose(row, parts[part]) | (part in ("trend", "hour"))
        return int(days[np.argmax(fits)])

    def value_of(self, moment: int) -> date | datetime:
        """A moment as a date, with its time unless it is midnight."""
        value = _EPOCH + timedelta(microseconds=moment)
        return value if moment % DAY else value.date()

    def moments(self, column: Any) -> Array:
        """``moment`` of all values, with ``NOT_A_TIME`` for missing ones."""
        if isinstance(column, np.ndarray) and column.dtype.kind == "M":
            return _microseconds(column)
        values = column.tolist() if isinstance(column, np.ndarray) else column
        known: dict[Any, int] = {}  # days recur, and parsing takes long
        found = np.empty(len(values), dtype=np.int64)
        for row, value in enumerate(values):
            if (moment := known.get(value)) is None:
                moment = known[value] = NOT_A_TIME if is_missing(value) else self.moment(value)
            found[row] = moment
        return found

    def is_valid(self, value: Any) -> bool:
        """Whether a value is a date or a time, or missing."""
        try:
            return is_missing(value) or isinstance(self.moment(value), int)
        except (ValueError, TypeError, OverflowError):
            return False

    def encode_one(self, value: Any) -> list[float]:
        """Encoded parts of one value, as ``encode_column`` encodes them, without the overhead of arrays."""
        if is_missing(value):
            row: list[float] = self.encode_moments(np.array([NOT_A_TIME]))[:, 0].tolist()
            return row
        moment, row = self.moment(value), []
        day, time = divmod(moment, DAY)
        for part in self.parts or ():
            if part == "trend":
                low, high = _bounds(self.start, self.end)
                row.append(min(max(float(moment - low) / float(high - low), 0.0), 1.0))
            elif part == "weekday":
                row.append(((day + _FIRST_WEEKDAY) % 7 + 0.5) / (7 + self.missing))
            elif part == "hour":
                row.append((time * 24 // DAY + 0.5) / (24 + self.missing))
            else:
                row += _WAVES[_day_of_year(day)]
        return row

    def encode_column(self, column: Any) -> Array | None:
        """Encoded parts of a column (parts × rows); None if a value is invalid."""
        try:
            moments = self.moments(column)
        except (ValueError, TypeError, OverflowError):
            return None
        return None if not self.missing and (moments == NOT_A_TIME).any() else self.encode_moments(moments)

    def encode_moments(self, moments: Array) -> Array:
        """Encoded parts of moments (parts × rows)."""
        gone = moments == NOT_A_TIME
        times = np.where(gone, 0, moments)
        days, rows = times // DAY, []
        for part in self.parts or ():
            if part == "trend":
                low, high = _bounds(self.start, self.end)
                rows.append(np.where(gone, MISSING, np.clip((times - low) / (high - low), 0.0, 1.0)))
            elif part in ("weekday", "hour"):
                count, index = (7, (days + _FIRST_WEEKDAY) % 7) if part == "weekday" else (24, times % DAY * 24 // DAY)
                rows.append((np.where(gone, count, index) + 0.5) / (count + self.missing))
            else:
                rows += [np.where(gone, MISSING, wave) for wave in _WAVE_COLUMNS[:, _days_of_year(days)]]
        return np.array(rows)


class DateParts(NamedTuple):
    """A date among the features: its parts are at ``where`` in a row, its trend at ``trend``."""

    feature: DateTime
    where: slice
    trend: int
    of_day: tuple[int, ...]  # positions of all parts but the hour, which follow from the day

    def moments_around(self, context: Array, days: int) -> Array:
        """Moments of other days at the same time, the nearest first; none where the trend does not tell the day."""
        unit = float(context[self.trend])
        if not 0.0 < unit < 1.0:
            return np.empty(0, dtype=np.int64)
        moves = np.arange(1, days + 1)
        moments: Array = self.feature.moment_of_trend(unit) + DAY * np.column_stack([moves, -moves]).ravel()
        return moments


@dataclass(frozen=True, slots=True)
class Trend(Continuous):
    """The trend of a `DateTime`: seconds from 1970, which it describes as dates."""

    def from_unit(self, unit: float) -> Any:
        return _EPOCH + timedelta(seconds=round(self.low + unit * (self.high - self.low)))

    def describe(self, low: float, high: float) -> str:
        style = "%Y-%m-%d" if (self.high - self.low) * 1e6 > SHORT else "%Y-%m-%d %H:%M"
        first, last = (self.from_unit(unit).strftime(style) for unit in (low, high))
        return f"from {first} to {last}{' or later' if high >= 1.0 else ''}"


@dataclass(frozen=True, slots=True)
class YearWave(Continuous):
    """The sine of a day of the year, or with a shift by a quarter the cosine, which it describes as days."""

    shift: float = 0.0

    def describe(self, low: float, high: float) -> str:
        """The two seasons in which the wave has these values."""
        first, last = (math.asin(min(max(2 * unit - 1, -1.0), 1.0)) / (2 * math.pi) for unit in (low, high))
        rising, falling = (first - self.shift, last - self.shift), (0.5 - last - self.shift, 0.5 - first - self.shift)
        if high >= 1.0:
            return _season(rising[0], falling[1])
        if low <= 0.0:
            return _season(falling[0], rising[1])
        return " or ".join(_season(*days) for days in sorted((rising, falling), key=lambda days: days[0] % 1.0))


@lru_cache(maxsize=256)
def _bounds(start: str, end: str) -> tuple[int, int]:
    """Moments of a trend's bounds."""
    first, last = DateTime(parts="weekday").moments([start, end]).tolist()
    return first, last


def _waves() -> Array:
    """Sine and cosine of each day of a year, in [0, 1]: those of a common year, then those of a leap year."""
    angles = np.concatenate([2 * np.pi * np.arange(days) / days for days in (YEAR, YEAR + 1)])
    return (1.0 + np.array([np.sin(angles), np.cos(angles)])) / 2


_WAVE_COLUMNS = _waves()
_WAVES: list[list[float]] = _WAVE_COLUMNS.T.tolist()


def _day_of_year(day: int) -> int:
    """Index of a day, counted from 1970, among the days of a common and of a leap year."""
    at = _EPOCH.date() + timedelta(days=day)
    return (at - date(at.year, 1, 1)).days + YEAR * isleap(at.year)


def _days_of_year(days: Array) -> Array:
    years = days.astype("datetime64[D]").astype("datetime64[Y]")
    starts, ends = (years + more for more in (0, 1))
    first, last = (bound.astype("datetime64[D]").astype(np.int64) for bound in (starts, ends))
    indices: Array = days - first + YEAR * (last - first > YEAR)
    return indices


def parse_iso(text: str) -> datetime:
    """Parse an ISO 8601 date or time, also with a space before its time zone; a ValueError for another text."""
    text = text.strip()
    if not _ISO.fullmatch(text):
        raise ValueError(f"{text!r} is no date")
    joined = _ZONE.sub("", text)
    return datetime.fromisoformat(joined[:-3] + "Z" if joined[-3:].upper() == "UTC" else joined)


def is_iso(text: str) -> bool:
    """Whether a text is an ISO 8601 date or time."""
    try:
        parse_iso(text)
    except ValueError:
        return False
    return True


def _microseconds(column: Array) -> Array:
    """A column of datetime64 as integers; a ValueError for years that no date has."""
    years = column.astype("datetime64[Y]").astype(np.int64) + 1970
    if (~np.isnat(column) & ((years < 1) | (years > 9999))).any():
        raise ValueError("expected years from 1 to 9999")
    return column.astype("datetime64[us]").astype(np.int64)


@lru_cache(maxsize=256)
def _zone(name: Any) -> tzinfo:
    if name == "UTC":
        return UTC  # known also where no time zones are installed
    try:
        return ZoneInfo(name)
    except (ValueError, TypeError, OSError, KeyError):
        raise ValueError(f"unknown time zone {name!r}: expected an IANA name such as 'Europe/Berlin'") from None


def _iso_text(moment: int) -> str:
    """A moment as ISO text, without its time if that is midnight."""
    return (_EPOCH + timedelta(microseconds=moment)).isoformat().removesuffix("T00:00:00")


def _season(first: float, last: float) -> str:
    start, end = (date(2023, 1, 1) + timedelta(days=math.floor(share % 1.0 * 365)) for share in (first, last))
    return f"from {start.day} {start:%B} to {end.day} {end:%B}"
