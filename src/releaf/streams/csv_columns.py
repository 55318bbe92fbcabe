"""Values of a CSV file's columns: parsed as a feature's type, or as the type that most of them have."""

from __future__ import annotations

from typing import Any

import numpy as np

from releaf.column_guess import TYPICAL_SHARE
from releaf.datetimes import DateTime, is_iso
from releaf.feature_dicts import Declared
from releaf.features import Boolean, Categorical

_BOOLEANS = {"true": True, "false": False}
_GAPS = frozenset(("", "na", "n/a", "nan", "null"))


def parse_column(texts: list[str], feature: Declared | None) -> Any:
    """Parse the text of a column as its feature's type; unparsable values stay text, and fail validation later."""
    if isinstance(feature, Categorical):
        return _parse_categories(texts, feature)
    if isinstance(feature, Boolean | DateTime):  # which take text
        return [None if is_gap(text) else text for text in texts]
    if feature is not None:
        texts = ["" if is_gap(text) else text for text in texts]
    try:
        return np.array([text if text.strip() else "nan" for text in texts], dtype=np.float64)
    except ValueError:
        return [parse_number(text) for text in texts]


def _parse_categories(texts: list[str], feature: Categorical) -> list[Any]:
    known: dict[str, Any] = {str(value): value for value in feature.values}
    numbers = {float(value): value for value in feature.values if not isinstance(value, str)}
    if numbers:  # 3 may be written as 3.0, as where a column of whole numbers has missing values
        for text in set(texts) - set(known):
            number = parse_number(text)
            if isinstance(number, float) and number in numbers:
                known[text] = numbers[number]
    return [known.get(text, text) if text.strip() else None for text in texts]


def infer_column(texts: list[str]) -> tuple[list[Any], dict[int, str]]:
    """Values of a column of unknown type, and the problems of rows whose value is not of the type of almost all."""
    numbers = _all_numbers(texts)
    if numbers is not None:
        return numbers, {}
    different = set(texts)  # often few
    parsed = {text: None if is_gap(text) else parse_number(text) for text in different}
    present = [row for row, text in enumerate(texts) if parsed[text] is not None]
    not_numbers = {text for text, value in parsed.items() if isinstance(value, str)}
    wrong = [row for row in present if texts[row] in not_numbers]
    if _are_errors(wrong, present):
        return [parsed[text] for text in texts], _problems(texts, wrong, present, "a number")
    not_dates = {text for text in different if not is_iso(text)}
    wrong = [row for row in present if texts[row] in not_dates]
    if _are_errors(wrong, present):  # dates stay text, which may also be declared a category
        return [None if is_gap(text) else text for text in texts], _problems(texts, wrong, present, "a date")
    lowered = {text.strip().lower() for text in texts if text.strip()}
    if lowered <= _BOOLEANS.keys():
        return [None if not text.strip() else _BOOLEANS[text.strip().lower()] for text in texts], {}
    return [None if not text.strip() else text for text in texts], {}


def _all_numbers(texts: list[str]) -> list[Any] | None:
    """The numbers of a column without missing values and other texts: a fast path."""
    try:
        numbers = list(map(float, texts))
    except ValueError:
        return None
    return None if np.isnan(numbers).any() else numbers


def _are_errors(wrong: list[int], present: list[int]) -> bool:
    """Whether so few values are of another type that they are errors."""
    return len(present) - len(wrong) >= TYPICAL_SHARE * len(present)


def _problems(texts: list[str], wrong: list[int], present: list[int], kind: str) -> dict[int, str]:
    share = 100 * (len(present) - len(wrong)) // max(len(present), 1)
    expected = f"expected {kind} ({share}% of the column are)"
    return {row: f"is {texts[row]!r}: {expected}" for row in wrong}


def is_gap(text: str) -> bool:
    """Whether the text of a number, a boolean or a date stands for a missing value: empty, NA, N/A, NaN or null."""
    return text.strip().lower() in _GAPS


def parse_number(text: str) -> float | str | None:
    """A number; None for an empty text, and any other text unchanged."""
    try:
        return float(text) if text.strip() else None
    except ValueError:
        return text
