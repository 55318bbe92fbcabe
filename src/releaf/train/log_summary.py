"""Summary of a log, or of a part of it, from the first pass over its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from releaf.decision import ActionName
from releaf.train.sequential import MAX_ACTIONS, MAX_PROBLEMS, ActionRows

ActionKey = tuple[str, ActionName]


class LogSummary(NamedTuple):
    """Actions, counts of rows, and the first problems of unusable rows."""

    labels: dict[ActionKey, str]  # type and name of each action, and the first file that contains it
    actions: dict[ActionKey, ActionRows]
    rows: int  # usable rows
    left_out: int  # unusable rows
    cut: int  # rows with a clipped weight
    problems: list[tuple[str, int, str]]  # file, row and reason


EMPTY = LogSummary({}, {}, 0, 0, 0, [])


def merge(one: LogSummary, other: LogSummary) -> LogSummary:
    """Summary of both parts together."""
    labels = {key: min(path, other.labels.get(key, path)) for key, path in one.labels.items()}
    return LogSummary(
        {**other.labels, **labels},
        {
            **one.actions,
            **{key: rows.merge(one.actions.get(key, ActionRows(0, 0.0))) for key, rows in other.actions.items()},
        },
        one.rows + other.rows,
        one.left_out + other.left_out,
        one.cut + other.cut,
        sorted(one.problems + other.problems)[:MAX_PROBLEMS],
    )


def actions_of(summary: LogSummary, given: Sequence[ActionName] | None, column: str) -> tuple[ActionName, ...]:
    """The given actions, or the sorted actions of the log, which must have one type."""
    if given is not None:
        return tuple(given)
    firsts = {kind: (label, path) for (kind, label), path in sorted(summary.labels.items(), reverse=True)}
    if len(firsts) > 1:
        shown = " and ".join(f"the {kind} {label!r} in {path}" for kind, (label, path) in sorted(firsts.items()))
        raise ValueError(f"the actions in column {column!r} are of several kinds, {shown}: expected one kind")
    return tuple(sorted(label for _, label in summary.labels))


def action_key(label: ActionName) -> ActionKey:
    """Type and name of an action: True and 1 are different ones."""
    return type_name(label), label


def type_name(label: ActionName) -> str:
    """Name of an action's type, for error messages."""
    return "truth value" if isinstance(label, bool) else "text" if isinstance(label, str) else "number"


def check_action_count(summary: LogSummary, column: str) -> None:
    """Reject a column with so many distinct values that it is unlikely to hold actions."""
    if len(summary.labels) > MAX_ACTIONS:
        raise ValueError(
            f"column {column!r} has more than {MAX_ACTIONS:,} different values: is it the action that was taken? "
            "If so, pass the list of actions"
        )
