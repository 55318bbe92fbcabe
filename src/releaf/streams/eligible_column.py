"""Column of the eligible actions of each row of a log: lists of names, or names in one text, separated by ``|``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.decision import ActionName
from releaf.features import is_missing

SEPARATOR = "|"


def names_in_cell(cell: Any) -> list[Any] | None:
    """The names in a cell, as they are written; None where it is empty, which stands for all actions."""
    if isinstance(cell, str):
        return [name.strip() for name in cell.split(SEPARATOR)] if cell.strip() else None
    if isinstance(cell, Iterable):
        return list(cell)
    return None if is_missing(cell) else [cell]


def actions_among(
    cells: Iterable[Any], taken: Sequence[ActionName], normalize: Callable[[Any], ActionName]
) -> set[Any]:
    """All actions of a log: those taken, and those that were only eligible, with numbers where these are numbers."""
    known = set(taken)
    are_numbers = all(isinstance(name, int) for name in known)
    for cell in cells:
        for name in names_in_cell(cell) or ():
            known.add(int(name) if are_numbers and isinstance(name, str) and _is_whole(name) else normalize(name))
    return known


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def masks_in_column(cells: Sequence[Any], names: tuple[ActionName, ...]) -> tuple[Array, dict[int, str]]:
    """Which actions were eligible in each row (T × A), and what is wrong with rows that name none or unknown ones."""
    places: dict[Any, int] = {str(name): place for place, name in enumerate(names)}
    places |= {name: place for place, name in enumerate(names)}
    masks, problems = np.ones((len(cells), len(names)), dtype=bool), {}
    for row, cell in enumerate(cells):
        given = names_in_cell(cell)
        if given is None:
            continue
        unknown = [name for name in given if name not in places]
        if unknown or not given:
            problems[row] = f"unknown action {unknown[0]!r}" if unknown else "no action"
            continue
        masks[row] = False
        masks[row, [places[name] for name in given]] = True
    return masks, problems
