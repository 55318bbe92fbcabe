"""What the first reading of a log found: in a part of it, or in all parts together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from releaf.decision import ActionName
from releaf.train import counting
from releaf.train.stream import MOST_ACTIONS, SHOWN

Array = np.ndarray[Any, np.dtype[Any]]


class Looked(NamedTuple):
    """Counts of values, actions and rows, and what is wrong with the first of those that can't be used."""

    counts: Array  # [D, places + 1]
    labels: dict[tuple[str, ActionName], str]  # the kind and the label of actions, and the first file that has it
    rows: int  # that can be used
    left_out: int  # that can't
    cut: int  # whose weights are cut
    problems: list[tuple[str, int, str]]
    cells: counting.Cells  # of the hashes of rows


NOTHING = Looked(np.zeros((), dtype=np.int64), {}, 0, 0, 0, [], counting.NOTHING)


def both(one: Looked, other: Looked) -> Looked:
    """What was found in both parts together."""
    labels = {key: min(path, other.labels.get(key, path)) for key, path in one.labels.items()}
    return Looked(
        one.counts + other.counts,
        {**other.labels, **labels},
        one.rows + other.rows,
        one.left_out + other.left_out,
        one.cut + other.cut,
        sorted(one.problems + other.problems)[:SHOWN],
        counting.joined(one.cells, other.cells),
    )


def actions_of(looked: Looked, given: Sequence[ActionName] | None, column: str) -> tuple[ActionName, ...]:
    """The actions that were given, or those of the log in their order, which must be of one kind."""
    if given is not None:
        known = set(given)
        unknown = sorted(str(label) for _, label in looked.labels if label not in known)
        if unknown:
            raise ValueError(f"the log has actions that were not given: {', '.join(unknown[:5])}")
        return tuple(given)
    firsts = {kind: (label, path) for (kind, label), path in sorted(looked.labels.items(), reverse=True)}
    if len(firsts) > 1:
        shown = " and ".join(f"the {kind} {label!r} in {path}" for kind, (label, path) in sorted(firsts.items()))
        raise ValueError(f"the actions in column {column!r} are of several kinds, {shown}: expected one kind")
    return tuple(sorted(label for _, label in looked.labels))


def kind_of(label: ActionName) -> str:
    """What an action's label is."""
    return "truth value" if isinstance(label, bool) else "text" if isinstance(label, str) else "number"


def require_few(looked: Looked, column: str) -> None:
    """Refuse a column that has so many values that it can hardly be that of the actions."""
    if len(looked.labels) > MOST_ACTIONS:
        raise ValueError(
            f"column {column!r} has more than {MOST_ACTIONS:,} different values: is it the action that was taken? "
            "If so, give the actions that there are"
        )
