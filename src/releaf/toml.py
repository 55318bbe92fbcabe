"""Features as TOML text, for people to read and edit."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from datetime import date
from typing import Any

from releaf.feature_dicts import Declared, feature_from_dict, feature_to_dict
from releaf.features import Categorical

_HEADER = """\
# The features of a context, in order. Kinds:
#   continuous   a number from low to high; clip = true moves values beyond a bound to it
#   quantile     a number of unknown range and distribution; size of the sample that learns it
#   categorical  one of values
#   boolean      true or false, also as yes/no, y/n, t/f, on/off or 1/0
#   datetime     a date or time as ISO text; start and end of its trend; parts, of which each is a feature; time_zone
# missing = true allows missing values, which are a case of their own; other = true of categories allows unknown ones.
"""
MOMENT = (str, date)  # TOML has dates of its own, besides text
_OPTIONS: dict[str, dict[str, Any]] = {
    "continuous": {"low": (int, float), "high": (int, float), "clip": bool, "missing": bool},
    "quantile": {"size": int, "missing": bool},
    "categorical": {"values": list, "missing": bool, "other": bool},
    "boolean": {"missing": bool},
    "datetime": {"start": MOMENT, "end": MOMENT, "parts": list, "time_zone": str, "missing": bool},
}
_DEFAULTS = {"clip": False, "missing": False, "other": False, "size": 512, "time_zone": "UTC"}


def features_to_toml(features: Mapping[str, Declared], left_out: Mapping[str, str] | None = None) -> str:
    """Serialize features to TOML that :func:`features_from_toml` parses; default options are omitted.

    Columns that were left out, and the reasons, become comments.
    """
    comments = [f"# Left out: {_comment(f'{name!r} {why}')}\n" for name, why in (left_out or {}).items()]
    tables = [_table(name, feature) for name, feature in features.items()]
    return _HEADER + "".join(comments) + "\n" + "\n".join(tables)


def _comment(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _table(name: str, feature: Declared) -> str:
    lines = [f"[features.{_text(name)}]"]
    for option, value in feature_to_dict(feature).items():
        if _DEFAULTS.get(option) != value:
            lines.append(f"{option} = {format_value(value)}")
    return "\n".join(lines) + "\n"


def format_value(value: Any) -> str:
    """Format a truth value, number, text, or list of them as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_value, value))}]"
    return _text(value) if isinstance(value, str) else repr(value)


def _text(value: str) -> str:
    """Quote a TOML basic string: as in JSON, with one more control character escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def features_from_toml(text: str) -> dict[str, Declared]:
    """Parse features from TOML."""
    if not isinstance(text, str) or ("\n" not in text and text.strip().endswith(".toml")):
        raise TypeError(f"expected the text of a schema, got {text!r}: read the file first, with read_text()")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"the schema is not valid TOML: {error}") from None
    features = data.get("features")
    if not isinstance(features, dict) or not features:
        raise ValueError("the schema has no [features.…] tables: expected one for each feature")
    return {name: _feature(name, entry) for name, entry in features.items()}


def _feature(name: str, entry: Any) -> Declared:
    kind = entry.get("kind") if isinstance(entry, dict) else None
    if not isinstance(kind, str) or kind not in _OPTIONS:
        raise ValueError(f"feature {name!r} has kind = {kind!r}: expected one of {', '.join(map(repr, _OPTIONS))}")
    options = {option: value for option, value in entry.items() if option != "kind"}
    for option, value in options.items():
        expected = _OPTIONS[kind].get(option)
        if expected is None:
            raise ValueError(f"feature {name!r} has unknown {option!r}: expected {', '.join(_OPTIONS[kind])}")
        if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
            raise ValueError(f"feature {name!r} has {option} = {value!r}: expected {_expectation(expected)}")
    if kind == Categorical.kind and "values" not in options:
        raise ValueError(f"feature {name!r} is categorical and needs values = [...]")
    try:
        return feature_from_dict(entry)
    except (TypeError, ValueError) as error:
        raise ValueError(f"feature {name!r}: {error}") from None


def _expectation(expected: Any) -> str:
    words = {bool: "true or false", int: "an integer", list: "a list", str: "a text", MOMENT: "a date"}
    return words.get(expected, "a number")
