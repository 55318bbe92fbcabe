"""Reader of DSJSON: the JSON lines that Azure Personalizer and VowpalWabbit's decision service log."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from releaf.streams.data_files import UnusableRowError, open_text, require_pyarrow

FIXED = ("action", "reward", "probability", "eligible")  # columns besides the features
OF_ACTION = "action."  # before the names of features of the action taken
HEAD = 1 << 16  # characters in which a file of JSON shows whether it is DSJSON
Problems = list[tuple[int, str]]


class _Row(NamedTuple):
    """A decision of the log whose reward is known."""

    action: str
    reward: float
    probability: float
    eligible: list[str]
    features: dict[str, Any]
    own: dict[str, Any]  # features of the action


def is_dsjson(path: Path) -> bool:
    """Whether a file is DSJSON, by its name, or, if that is of JSON, by its beginning."""
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if kind not in (".json", ".jsonl") or not path.is_file():
        return kind == ".dsjson"
    with open_text(path) as file:
        head = file.read(HEAD)
    return head.startswith("{") and any(name in head for name in ('"_label_cost"', '"_multi"'))


def read_dsjson(path: str | os.PathLike[str], *, skip_bad: bool = False, action_features: bool = False) -> Any:
    """Read a DSJSON log, such as Azure Personalizer exports, as a pyarrow table for :func:`log`.

    Columns are ``action``, ``reward`` (the negative cost), ``probability``, ``eligible`` (the actions of the request),
    and one for each feature of the shared context: nested objects are flattened, ``User.age``. The name of an action is
    its ``_tag``, its ``id``, or else its place in the request, from 1.

    Lines without a label are left out: decisions whose reward never came or that were never activated
    (``_skipLearn``), and rewards of decisions that are not in the file.

    Parameters
    ----------
    path
        The file, perhaps compressed with gzip.
    skip_bad
        Whether to leave out lines that are no DSJSON, or have several slots. Otherwise they raise an error.
    action_features
        Whether to add a column for each feature of the action that was taken: ``action.Dish.spicy``. Those of the
        other actions are not read.
    """
    return dsjson_lines(Path(path), skip_bad, action_features)[0]


def dsjson_lines(path: Path, skip_bad: bool, action_features: bool = False) -> tuple[Any, list[int], Problems]:
    """The table of `read_dsjson`, the line of each row, and the lines that are no DSJSON, with the reasons."""
    require_pyarrow(path)
    import pyarrow as pa

    rows, lines, problems = list[_Row](), list[int](), Problems()
    for line, row in _rows(path):
        if isinstance(row, _Row):
            rows.append(row)
            lines.append(line)
        elif skip_bad:
            problems.append((line, row))
        else:
            raise UnusableRowError(f"{path}, line {line}: {row}")
    if not rows:
        raise ValueError(f"{path} has no decision with a label: expected lines with _label_cost and c")
    features = [row.features | (row.own if action_features else {}) for row in rows]
    names = list(dict.fromkeys(name for row in features for name in row))
    own = {name for row in rows for name in row.own} if action_features else set[str]()
    taken = [name for name in names if name in FIXED or (name in own and any(name in row.features for row in rows))]
    if taken:
        raise ValueError(f"{path} has a feature named {taken[0]!r}, as another column is: rename it in the file")
    columns = {
        "action": pa.array([row.action for row in rows], pa.string()),
        "reward": pa.array([row.reward for row in rows], pa.float64()),
        "probability": pa.array([row.probability for row in rows], pa.float64()),
        "eligible": pa.array([row.eligible for row in rows], pa.list_(pa.string())),
    }
    columns |= {name: pa.array(_one_kind([row.get(name) for row in features])) for name in names}
    return pa.table(columns), lines, problems


def _rows(path: Path) -> Iterator[tuple[int, _Row | str]]:
    """The decisions with their lines, and what is wrong with the lines that are none."""
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = _row_of(line)
            except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
                what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
                yield number, f"no DSJSON of a decision: {what}"
                continue
            if row is not None:
                yield number, row


def _row_of(line: str) -> _Row | None:
    """A decision with its label; None for a line without one."""
    event = json.loads(line)
    if not isinstance(event, dict):
        raise ValueError(f"expected an object, got {type(event).__name__}")
    if "_outcomes" in event or "_slots" in event.get("c", {}):  # whose labels are in the outcomes
        raise ValueError("it has several slots (_slots): expected one decision")
    if "_label_cost" not in event or "c" not in event or event.get("_skipLearn"):
        return None
    context = event["c"]
    eligible = [_name_of(action, place) for place, action in enumerate(context["_multi"], 1)]
    place = event["_labelIndex"] if "_labelIndex" in event else event["a"][0] - 1
    if event.get("_label_Action", place + 1) != place + 1:
        raise ValueError(f"_labelIndex is {place}, but _label_Action is {event['_label_Action']}")
    if not 0 <= place < len(eligible):
        raise ValueError(f"_labelIndex is {place}, but _multi has {len(eligible)} actions")
    if len(set(eligible)) < len(eligible):
        raise ValueError(f"_multi has actions of the same name: {eligible}")
    chance = event["_label_probability"] if "_label_probability" in event else event["p"][0]
    cost = float(event["_label_cost"])
    own = {f"{OF_ACTION}{name}": value for name, value in _features_of(context["_multi"][place]).items()}
    return _Row(eligible[place], -cost if cost else 0.0, float(chance), eligible, _features_of(context), own)


def _features_of(described: dict[str, Any]) -> dict[str, Any]:
    """Features of a context or of an action by their paths, without what the format itself means."""
    return dict(_flattened({name: value for name, value in described.items() if not name.startswith("_")}, ""))


def _name_of(action: dict[str, Any], place: int) -> str:
    """Name of an action: its tag, the id that Personalizer gives it, or its place."""
    if "_tag" in action:
        return str(action["_tag"])
    ids = [own["id"] for own in action.values() if isinstance(own, dict) and "id" in own]
    return str(ids[0] if ids else action.get("id", place))


def _flattened(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Features of a context by their paths; objects in a list are merged, as VowpalWabbit does."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flattened(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _flattened(inner, name if isinstance(inner, dict) else f"{name}.{place}")
    else:
        yield name, value


def _one_kind(values: list[Any]) -> list[Any]:
    """Values of one kind: text, where some are numbers and others text."""
    kinds = {type(value) if isinstance(value, bool | str) else float for value in values if value is not None}
    if len(kinds) <= 1:
        return values if kinds != {float} else [None if value is None else float(value) for value in values]
    return [None if value is None else str(value) for value in values]
