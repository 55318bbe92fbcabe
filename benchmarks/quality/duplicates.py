"""Detection of the same table under two names, by shape and values.

The same table may come with other names, other scales, or a few rows more or less, but its numbers keep their
distribution. Two columns are alike if their scaled deciles are. Two tables are duplicates if they have nearly as many
rows, and either labels of the same frequencies or at least half of the larger one's columns alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.quality.problems import Array, Table

_DECILES = np.linspace(0.1, 0.9, 9)
_LIKE_ROWS = 1.1  # ratio of the numbers of rows
_LIKE_DECILES = 0.02  # largest difference
_FEWEST = 4  # different deciles of a column that tells something: not of one that is nearly always 0


@dataclass(frozen=True)
class _Fingerprint:
    rows: int
    labels: tuple[int, ...]  # how often each occurs, the rarest first
    deciles: Array  # columns × 9


def duplicates(tables: Mapping[str, Table]) -> list[tuple[str, str]]:
    """Pairs of names whose tables are the same."""
    prints = {name: _fingerprint(table) for name, table in sorted(tables.items())}
    names = list(prints)
    return [
        (first, second)
        for place, first in enumerate(names)
        for second in names[place + 1 :]
        if _alike(prints[first], prints[second])
    ]


def _alike(first: _Fingerprint, second: _Fingerprint) -> bool:
    fewer, more = sorted((first.rows, second.rows))
    if more > _LIKE_ROWS * fewer:
        return False
    if first.labels == second.labels:
        return True
    columns = max(len(first.deciles), len(second.deciles))
    return columns > 0 and _common(first.deciles, second.deciles) >= columns / 2


def _common(first: Array, second: Array) -> int:
    """Number of columns of one table that are like one of the other; each of the other counts once."""
    free = np.ones(len(second), dtype=bool)
    for deciles in first:
        found = np.flatnonzero(free & (np.abs(second - deciles).max(axis=1) <= _LIKE_DECILES))
        free[found[:1]] = False
    return int(np.sum(~free))


def _fingerprint(table: Table) -> _Fingerprint:
    frequencies = tuple(sorted(Counter(table.labels.tolist()).values()))
    numbers = [column[~np.isnan(column)] for column in table.columns.values() if column.dtype.kind == "f"]
    deciles = [np.quantile(column, _DECILES) for column in numbers if len(column)]
    scaled = [(each - each[0]) / (each[-1] - each[0]) for each in deciles if len(set(each.tolist())) >= _FEWEST]
    return _Fingerprint(len(table), frequencies, np.array(scaled).reshape(-1, len(_DECILES)))
