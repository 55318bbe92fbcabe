"""Inference of features from the columns of a table, with a reason for each column that is left out.

>>> found = guess_features({"user_id": range(100), "day": ["2024-01-01", "2024-02-01"] * 50})
>>> found.features["day"].parts
('trend', 'weekday')
>>> found.left_out
{'user_id': 'has 100 different whole numbers in 100 rows, like an identifier'}
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from releaf.datetimes import DAY, NOT_A_TIME, DateTime, is_iso
from releaf.feature_dicts import Declared
from releaf.features import BOOLEAN_TEXTS, Boolean, Categorical, Continuous, Quantile, is_missing

MOST_CATEGORIES = 1_000  # of a guessed feature; rarer ones count as "other"
MANY_CATEGORIES = 50  # from which the number of categories is worth a note
IDENTIFIER_VALUES, IDENTIFIER_SHARE = 20, 0.5  # more different texts than both look like an identifier
CODE_SHARE = 0.25  # of the rows, that different whole numbers named as an id are at most, for them to be codes
FEWEST_NUMBERED = 10  # rows that are numbered one after the other, for the numbers to identify them
UNIQUE_ROWS, UNIQUE_SHARE = 100, 0.95  # so many rows, and share of different ones, for whole numbers
LARGE_NUMBER = 100_000  # from which whole numbers that are all different look like an identifier
TYPICAL_SHARE = 0.9  # of a column's values that are of one type, for the others to count as errors
YEAR_DAYS, WEEK_DAYS = 365, 7  # that dates must span, for a day of the year and a weekday to be told from a trend
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_ID_WORDS = frozenset(("id", "ids", "uuid", "guid", "uid"))
_ID_NAMES = frozenset(("", "index", "key", "hash", "token", "rowid"))  # an index without a name is pandas'
_JOINED_ID = re.compile(r"(user|customer|client|session|visitor|device|order|account|member|product|item|store)ids?")
_CHANCE_WORDS = frozenset(
    ("prob", "probs", "proba", "probability", "propensity", "pscore", "propensities", "probabilities")
)
_CHANCE_LETTERS = frozenset(("p", "ps", "pi"))  # words that are worth a note
_CHANCE_NAMES = frozenset(("p", "ps", "pi", "pr", "pi_b", "p_score", "p_log", "p_action"))
_SEPARATED = re.compile(r"[-+]?(\d{1,3}([,.' ]\d{3})+([.,]\d+)?|\d+,\d+)")  # 5,500 and 1.234.567,8 and 0,5
_WITH_UNIT = re.compile(r"(?=.*[%$€£¥])[-+]?(?:[$€£¥] ?)?([-+]?\d[\d,.' ]*?) ?[%$€£¥]?")  # 12.3% and $1,200.00
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d\d(:\d\d)?( ?[AaPp][Mm])?")
_EPOCH_SECONDS = 946_684_800, 2_208_988_800  # from the year 2000 to 2040
_DIGIT_DATES = 19_000_101, 21_001_231  # written as 20240131
_OTHER_DATE = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}([T ].*)?|\d{1,2} [A-Za-z]{3,9} \d{4}.*")


class GuessedFeatures(NamedTuple):
    """Features, the reasons why columns were left out, and remarks on the features."""

    features: dict[str, Declared]
    left_out: dict[str, str]
    notes: dict[str, str]


class LeftOut(Exception):
    """A column is no feature; the message is the reason."""


class GuessedColumn(NamedTuple):
    """A column, its values that are not missing, and their rows."""

    name: str
    present: list[Any]
    rows: Sequence[int]
    missing: bool
    kept: bool  # a feature, whatever it looks like
    numbers: str
    row_name: Callable[[int], str]

    def where(self, index: int) -> str:
        return self.row_name(self.rows[index])


Guess = tuple[Declared, str]  # with a remark, or an empty text


def guess_features(
    columns: Mapping[str, Any],
    keep: Sequence[str] = (),
    numbers: str = "quantiles",
    row_name: Callable[[int], str] = "row {}".format,
) -> GuessedFeatures:
    """Infer the features of a table, as :meth:`releaf.Schema.guess` describes; ``row_name`` names a row in remarks."""
    found = GuessedFeatures({}, {}, {})
    for name, values in columns.items():
        rows = _present_rows(values)
        present = [values[row] for row in rows] if len(rows) < len(values) else list(values)
        column = GuessedColumn(str(name), present, rows, len(present) < len(values), name in keep, numbers, row_name)
        try:
            found.features[name], note = _guess(column)
        except LeftOut as reason:
            if column.kept:
                raise ValueError(f"column {name!r} {reason}: say in a schema what it is") from None
            found.left_out[name] = str(reason)
        else:
            if note:
                found.notes[name] = note
    return found


def _present_rows(values: Any) -> Sequence[int]:
    """Rows whose value is not missing; of plain floats and whole numbers without a check of each."""
    types = set(map(type, values))
    if types <= {int, bool}:
        return range(len(values))
    if types == {float}:
        rows: list[int] = np.flatnonzero(~np.isnan(values)).tolist()
        return rows
    return [row for row, value in enumerate(values) if not is_missing(value)]


def _guess(column: GuessedColumn) -> Guess:
    if not column.present:
        raise LeftOut("has no values")
    classes = dict(zip(map(type, column.present), column.present, strict=True))  # a value of each
    kinds = set(map(_type_of, classes.values()))
    if len(kinds) > 1:
        return _guess_mixed(column)
    (kind,) = kinds
    if kind not in _GUESSES:
        raise LeftOut(f"has values of type {type(column.present[0]).__name__}")
    return _GUESSES[kind](column)


def _guess_mixed(column: GuessedColumn) -> Guess:
    """A column of several types: booleans in several spellings, or numbers or dates with a few errors."""
    if {"booleans", "texts"} <= set(map(_type_of, column.present)) and _are_booleans(map(str, column.present)):
        return Boolean(missing=True), ""
    kinds = [_type_of(value) for value in column.present]
    kind, count = Counter(kinds).most_common(1)[0]
    if kind not in ("numbers", "dates") or count < TYPICAL_SHARE * len(kinds):
        raise LeftOut(f"has mixed types, {_examples(column, _type_of)}")
    usable, note = _usable(column, [each == kind for each in kinds], kind)
    feature, further = _GUESSES[kind](usable)
    return feature, _joined(note, further)


def _usable(column: GuessedColumn, usable: list[bool], kind: str) -> tuple[GuessedColumn, str]:
    """The values of a kind, and a note on the others."""
    if all(usable):
        return column, ""
    index = usable.index(False)
    others = f"{usable.count(False):,} values that are no {kind}, such as {column.present[index]!r}"
    kept = [place for place, is_usable in enumerate(usable) if is_usable]
    values = column._replace(present=[column.present[i] for i in kept], rows=[column.rows[i] for i in kept])
    return values, f"has {others} ({column.where(index)}): such rows are unusable"


def _joined(*notes: str) -> str:
    return "; it ".join(note for note in notes if note)


def _type_of(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "booleans"
    if isinstance(value, int | float | np.number | Decimal):
        return "numbers"
    if isinstance(value, date | np.datetime64):
        return "dates"
    return "texts" if isinstance(value, str) else type(value).__name__


def _examples(column: GuessedColumn, type_of: Callable[[Any], str]) -> str:
    """How many values of each type there are, with the first of each."""
    types = [type_of(value) for value in column.present]
    told = []
    for kind, count in Counter(types).most_common():
        index = types.index(kind)
        told.append(f"{count:,} {kind} such as {column.present[index]!r} ({column.where(index)})")
    return " and ".join(told)


def _require_variation(column: GuessedColumn, different: int) -> None:
    if different == 1 and not column.missing and len(column.present) > 1 and not column.kept:
        raise LeftOut(f"is always {column.present[0]!r}")


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(name)}


# --- one kind of values ---------------------------------------------------------------------------------------------


def _guess_booleans(column: GuessedColumn) -> Guess:
    _require_variation(column, len(set(column.present)))
    return Boolean(missing=True), ""


def _guess_numbers(column: GuessedColumn) -> Guess:
    try:
        values = np.array([float(value) for value in column.present])
    except OverflowError:
        raise LeftOut("has numbers that are too large") from None
    different, finite = np.unique(values), values[np.isfinite(values)]
    if not column.kept and looks_like_propensity(column.name, values):
        raise LeftOut("looks like a propensity, by its name and its values in [0, 1]")
    _require_variation(column, len(different))
    if different.tolist() == [0.0, 1.0]:
        return Boolean(missing=True), ""
    if not len(finite):
        raise LeftOut("has no finite numbers")
    whole = bool((finite == np.round(finite)).all())
    recur = column.kept or len(different) <= CODE_SHARE * len(values)
    if whole and _names_identifier(column.name) and len(different) <= MANY_CATEGORIES and recur:
        codes = sorted(int(value) for value in np.unique(finite))
        return Categorical(codes, missing=True, other=True), "has whole numbers, taken for categories"
    if whole and not column.kept and _numbers_identify(column.name, finite, len(different)):
        rows = f"{len(different):,} different whole numbers in {len(values):,} rows"
        raise LeftOut(f"has {rows}, like an identifier{_or_times(finite)}")
    note = "" if column.kept else _number_note(column.name, finite, whole)
    if len(finite) < len(values):
        index = int(np.flatnonzero(~np.isfinite(values))[0])
        note = _joined(note, f"is {values[index]} in {column.where(index)}: such rows are unusable")
    if column.numbers == "quantiles":
        return Quantile(missing=True), note
    low, high = float(finite.min()), float(finite.max())
    return Continuous(low, high if high > low else low + 1.0, missing=True), note


def looks_like_propensity(name: str, values: Any) -> bool:
    """Whether a column looks like the propensity of the action taken: by its name, and its values in [0, 1]."""
    joined = re.sub(r"[^a-z]", "", name.lower())
    named = bool(_words(name) & _CHANCE_WORDS) or joined in _CHANCE_WORDS or name.lower() in _CHANCE_NAMES
    return named and _are_chances(values)


def propensity_columns(columns: Mapping[str, Any]) -> list[str]:
    """Names of the columns that look like propensities."""
    found = []
    for name, values in columns.items():
        present = [values[row] for row in _present_rows(values)]
        numbers = bool(present) and all(_type_of(value) == "numbers" for value in present)
        if numbers and looks_like_propensity(name, np.array(present, dtype=np.float64)):
            found.append(name)
    return found


def _are_chances(values: Any) -> bool:
    return bool(values.min() >= 0.0 and values.max() <= 1.0)


def _number_note(name: str, values: Any, whole: bool) -> str:
    """What numbers may be instead: a propensity, or a date."""
    if _words(name) & _CHANCE_LETTERS and _are_chances(values):
        return "may be a propensity, by its name and its values in [0, 1]: leave it out unless decisions can know it"
    if whole and _DIGIT_DATES[0] <= values.min() and values.max() <= _DIGIT_DATES[1]:
        days = {int(value) for value in values}
        if all(is_iso(f"{day // 10_000}-{day // 100 % 100:02d}-{day % 100:02d}") for day in days):
            return f"looks like dates, such as {int(values[0])}: write them as 2024-01-31 for weekdays and seasons"
    return ""


def _or_times(values: Any) -> str:
    """What else numbers like those of an identifier may be."""
    for unit, scale in (("seconds", 1), ("milliseconds", 1_000)):
        if scale * _EPOCH_SECONDS[0] <= values.min() and values.max() <= scale * _EPOCH_SECONDS[1]:
            return f", or like {unit} since 1970: write times as 2024-01-31T09:30:00"
    return ""


def _names_identifier(name: str) -> bool:
    lowered = name.lower()
    if lowered in _ID_NAMES or _JOINED_ID.fullmatch(lowered) or name.startswith("Unnamed:"):
        return True
    return bool(_words(name) & _ID_WORDS)


def _numbers_identify(name: str, values: Any, different: int) -> bool:
    """Whether whole numbers are codes: by their name, or numbered through, or large and each of them once."""
    if _names_identifier(name) or (len(values) >= FEWEST_NUMBERED and bool((np.diff(values) == 1).all())):
        return True
    if len(values) < UNIQUE_ROWS or different < UNIQUE_SHARE * len(values):
        return False
    dense = float(values.max() - values.min()) < 2 * different
    return dense or (different == len(values) and float(np.median(np.abs(values))) >= LARGE_NUMBER)


def _guess_dates(column: GuessedColumn) -> Guess:
    moments = DateTime(parts="weekday").moments(column.present)
    moments = np.sort(moments[moments != NOT_A_TIME])
    _require_variation(column, len(np.unique(moments)))
    first, last = int(moments[0]), int(moments[-1])
    times = bool((moments % DAY).any())
    days = last // DAY - first // DAY
    parts = ["trend", "weekday"] if days >= WEEK_DAYS else ["trend"]
    parts += ["hour"] if times and len(np.unique(moments % DAY * 24 // DAY)) > 1 else []
    parts += ["day of year"] if days >= YEAR_DAYS else []
    if days:  # whole days read better
        first, last = first // DAY * DAY, -(-last // DAY) * DAY
    start, end = (datetime(1970, 1, 1) + timedelta(microseconds=moment) for moment in (first, max(last, first + 1)))
    return DateTime(start, end, parts, missing=True), ""


def _guess_texts(column: GuessedColumn) -> Guess:
    counts = Counter(column.present)
    if _are_booleans(counts):
        return Boolean(missing=True), ""
    dates = _share(counts, is_iso)
    if dates >= TYPICAL_SHARE:
        usable, note = _usable(column, [is_iso(text) for text in column.present], "dates")
        return _guess_dates(usable)[0], note
    mixed = _share(counts, _is_number)
    if not column.kept:
        if dates > 1 - TYPICAL_SHARE:
            examples = _examples(column, lambda text: "dates" if is_iso(text) else "texts")
            raise LeftOut(f"has mixed dates and texts, {examples}")
        _require_standard_format(column, counts)
        if len(counts) > MANY_CATEGORIES and mixed >= TYPICAL_SHARE:
            raise LeftOut(f"has numbers as text, {_examples(column, _text_type)}: convert it to numbers")
        if len(counts) > MANY_CATEGORIES and mixed > 1 - TYPICAL_SHARE:
            raise LeftOut(f"has mixed types, {_examples(column, _text_type)}")
    _require_variation(column, len(counts))
    note = f"has mixed types, {_examples(column, _text_type)}, taken for categories" if mixed else ""
    return _categories(column, counts, note)


def _share(counts: Counter[str], fits: Callable[[str], Any]) -> float:
    """Share of the texts that fit."""
    return sum(count for text, count in counts.items() if fits(text)) / counts.total()


def _require_standard_format(column: GuessedColumn, counts: Counter[str]) -> None:
    """Raise if almost all texts are dates, times of day or numbers in a format that is none of a feature."""
    if _share(counts, lambda text: _OTHER_DATE.fullmatch(text.strip())) >= TYPICAL_SHARE:
        raise LeftOut(f"has dates that are not ISO, such as {column.present[0]!r}: write them as 2024-01-31")
    if len(counts) > MANY_CATEGORIES and _share(counts, lambda text: _TIME_OF_DAY.fullmatch(text.strip())) >= (
        TYPICAL_SHARE
    ):
        raise LeftOut(f"has times of day, such as {column.present[0]!r}: write them as hours, such as 8.25")
    for what, pattern in (("separators", _SEPARATED), ("units", _WITH_UNIT)):
        written = {text for text in counts if pattern.fullmatch(text.strip()) and not _is_number(text)}
        if written and _share(counts, written.union(filter(_is_number, counts)).__contains__) >= (TYPICAL_SHARE):
            first = next(text for text in column.present if text in written)
            raise LeftOut(f"looks like numbers with {what}, such as {first!r}: write them as {_plain_number(first)}")


def _plain_number(text: str) -> str:
    """A number without separators and units; of an amount in digits with one comma, that is the decimal one."""
    digits = re.sub(r"[%$€£¥]", "", text).strip()
    return re.sub(r"[,.' ](?=\d{3}([,.' ]|$))", "", digits).replace(",", ".")


def _categories(column: GuessedColumn, counts: Counter[str], note: str) -> Guess:
    different, rows = len(counts), len(column.present)
    unique = different > IDENTIFIER_VALUES and different > IDENTIFIER_SHARE * rows
    if not column.kept and (unique or (_names_identifier(column.name) and different > MANY_CATEGORIES)):
        raise LeftOut(f"has {different:,} different texts in {rows:,} rows, like an identifier")
    values = sorted(text for text, _ in counts.most_common(MOST_CATEGORIES))
    if different > MOST_CATEGORIES:
        rest = f'all but the {MOST_CATEGORIES:,} most frequent count as "other"'
        note = f"has high cardinality, {different:,} different texts in {rows:,} rows: {rest}"
    elif different > MANY_CATEGORIES and not note and not column.kept:
        note = f"has high cardinality, {different:,} different texts in {rows:,} rows"
    return Categorical(values, missing=True, other=True), note


def _are_booleans(texts: Iterable[str]) -> bool:
    found = {BOOLEAN_TEXTS.get(text.strip().lower()) for text in texts}
    return found == {True, False}


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _text_type(text: str) -> str:
    return "numbers" if _is_number(text) else "texts"


_GUESSES: dict[str, Callable[[GuessedColumn], Guess]] = {
    "booleans": _guess_booleans,
    "numbers": _guess_numbers,
    "dates": _guess_dates,
    "texts": _guess_texts,
}
