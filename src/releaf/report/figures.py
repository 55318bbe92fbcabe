"""Tables and charts as data: `Figures` and `Picture`.

They import neither the evaluation code nor a plotting library, so that commands that only print a table load no Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from releaf.evaluate import Ledger


class Column(NamedTuple):
    """A column of a table: its name, the function that reads it from a run's ledger, and its decimal places."""

    name: str
    find: Callable[[Ledger], float | None] = lambda ledger: None  # if the table computes its values itself
    digits: int = 2


class Line(NamedTuple):
    """A row of a table: measured values per column, and the reference value per column (None if there is none)."""

    label: str
    paper: tuple[float | None, ...]
    ours: tuple[list[float], ...]


class Figures(NamedTuple):
    """A table of measured values next to reference values."""

    title: str
    columns: tuple[Column, ...]
    lines: list[Line]
    caption: str = ""
    reference: str = "the paper"  # name of the source of the reference values


class Picture(NamedTuple):
    """A chart as data, independent of the plotting library.

    Attributes
    ----------
    title, caption
        Texts above and below the chart.
    kind
        "lines", "dots", "heat", "intervals", "estimates" or "means".
    rows
        Records with the fields x, y and series. "heat" needs x, y and value; "intervals" needs y, low, high and value.
        "estimates" takes one record per run, with its name y and its value x, and shows each name's mean with a 95 %
        confidence interval; "means" takes one per run and x, and shows the mean of y over x in the same way.
    x, y, series
        Titles of the axes and of the legend.
    log
        True for two logarithmic axes, "x" for a logarithmic horizontal axis ("lines" and "means").
    """

    title: str
    kind: str
    rows: list[dict[str, Any]]
    x: str
    y: str
    series: str = "policy"
    log: bool | Literal["x"] = False
    caption: str = ""
