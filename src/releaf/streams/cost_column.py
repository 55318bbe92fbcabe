"""Column of the costs of actions: mappings, numbers in the actions' order, or a text such as ``small=0.1|large=1``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.decision import ActionName
from releaf.features import is_missing
from releaf.streams.eligible_column import SEPARATOR

NAMED = "="


def costs_in_cell(cell: Any, names: Sequence[ActionName]) -> Any:
    """The costs in a cell as ``decide`` takes them, by the actions' own names; None where it is empty."""
    if isinstance(cell, str):
        parts = [part.strip() for part in cell.split(SEPARATOR)] if cell.strip() else []
        if any(NAMED in part for part in parts):
            pairs = [part.rpartition(NAMED) for part in parts]
            cell = {name.strip(): _number(text) for name, _, text in pairs}
        else:
            cell = [_number(part) for part in parts] or None
    if isinstance(cell, Mapping):
        known = {str(name): name for name in names}
        return {known.get(str(name), name): cost for name, cost in cell.items()}
    return None if cell is None or (isinstance(cell, float) and is_missing(cell)) else cell


def _number(text: str) -> float | str:
    """A cost; a text that is none stays one, for the error message."""
    try:
        return float(text)
    except ValueError:
        return text.strip()


def costs_in_column(cells: Sequence[Any], names: tuple[ActionName, ...]) -> tuple[Array, dict[int, str]]:
    """The cost of each action in each row (T × A), and what is wrong with rows that lack some."""
    from releaf.policies.costs import checked_costs  # needs Numba, which reading a table does not

    table, problems = np.zeros((len(cells), len(names))), {}
    for row, cell in enumerate(cells):
        given = costs_in_cell(cell, names)
        try:
            table[row] = checked_costs({} if given is None else given, names)
        except (ValueError, TypeError) as error:
            problems[row] = str(error)
    return table, problems
