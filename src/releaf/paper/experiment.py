"""What an experiment of the paper is: runs to do, and what to show of them next to the paper's figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from releaf.evaluate import Ledger, Run

Results = Mapping[str, list[Ledger]]  # the ledgers of each label's runs, one for each seed


class Column(NamedTuple):
    """One figure of a run: how it is called, how it is found, with how many digits it is shown."""

    name: str
    find: Callable[[Ledger], float | None]
    digits: int = 2


class Line(NamedTuple):
    """One line of a table: what was measured, and what the paper says, column by column; None where it says nothing."""

    label: str
    paper: tuple[float | None, ...]
    ours: tuple[list[float], ...]


class Figures(NamedTuple):
    """One table, ours next to the paper's."""

    title: str
    columns: tuple[Column, ...]
    lines: list[Line]
    caption: str = ""
    reference: str = "the paper"  # whose figures they stand next to


class Picture(NamedTuple):
    """One picture: its kind, its data, and what goes where.

    Kinds are "lines", "dots", "heat", "intervals", "estimates" and "means".
    ``rows`` have the fields x, y and series, for "heat" x, y and value, for "intervals" y, low, high and value.
    "estimates" has one row for each run, with its name y and its figure x, and shows each name's mean with a 95 %
    interval; "means" one for each run and x, and shows the means y over x in the same way.
    ``log`` makes both axes of "lines" and "means" logarithmic, "x" the horizontal one only.
    """

    title: str
    kind: str
    rows: list[dict[str, Any]]
    x: str
    y: str
    series: str = "policy"
    log: bool | Literal["x"] = False
    caption: str = ""


class Experiment(Protocol):
    """One of the paper's experiments."""

    name: str
    title: str

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        """All that is to be run; ``quick`` takes fewer steps."""
        ...

    def figures(self, results: Results) -> list[Figures]:
        """The tables."""
        ...

    def pictures(self, results: Results) -> list[Picture]:
        """The pictures."""
        ...


def curves(results: Results, labels: Iterable[str], of: str) -> list[dict[str, Any]]:
    """Running totals over time, averaged over the seeds, as rows of a picture."""
    rows = []
    for label in labels:
        ledgers = results.get(label, [])
        if ledgers:
            totals = np.mean([ledger.curves[of] for ledger in ledgers], axis=0)
            steps = ledgers[0].curves["steps"]
            rows += [{"series": label, "x": x, "y": float(y)} for x, y in zip(steps, totals, strict=True)]
    return rows


def shares(results: Results, label: str) -> Any:
    """For each action the share of exploitations in which each feature was relevant, averaged over the seeds."""
    return np.mean([np.array(ledger.relevance) for ledger in results[label]], axis=0)


def line(label: str, columns: tuple[Column, ...], results: Results, paper: tuple[float | None, ...] = ()) -> Line:
    """The figures of one label's runs."""
    ours = []
    for column in columns:
        found = [column.find(ledger) for ledger in results.get(label, [])]
        ours.append([value for value in found if value is not None and value == value])
    return Line(label, (*paper, *(None,) * (len(columns) - len(paper))), tuple(ours))
