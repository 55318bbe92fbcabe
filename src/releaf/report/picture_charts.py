"""Vega-Lite charts of a report's pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from releaf.report.figures import Picture
from releaf.statistics import t_half_width


def chart(picture: Picture, width: int | str = "container") -> Any:
    """Chart of a picture; "container" adapts it to the width of its parent element."""
    from releaf import charts

    return charts.finished(_build_chart(charts, picture).properties(width=width, height=_height(charts, picture)))


def _build_chart(charts: Any, picture: Picture) -> Any:
    rows, x, y = picture.rows, picture.x, picture.y
    if picture.kind == "heat":
        return charts.heat(rows, x, y or None, labelAngle=-40, labelLimit=160)
    if picture.kind == "intervals":
        return charts.intervals(rows, x, y or None)
    if picture.kind == "estimates":
        return charts.estimates(average_runs(rows, ("y",), "x"), x, y or None)
    names = list(dict.fromkeys(row["series"] for row in rows))
    if picture.kind == "dots":
        return charts.dots(rows, x, y, names, picture.series)
    if picture.kind == "means":
        points = average_runs(rows, ("series", "x"), "y")
        return charts.means(points, x, y, names, picture.log, picture.series)
    return charts.lines(rows, x, y, names, picture.log, picture.series)


def average_runs(rows: Sequence[dict[str, Any]], by: tuple[str, ...], of: str) -> list[dict[str, Any]]:
    """Group rows by ``by``: the mean of ``of``, and its 95 % confidence interval as low and high.

    ``low`` and ``high`` are None for a single run.
    """
    runs: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        runs.setdefault(tuple(row[name] for name in by), []).append(row[of])
    points = []
    for key, values in runs.items():
        mean, half = float(np.mean(values)), t_half_width(values)
        ends = {"low": mean - half, "high": mean + half} if len(values) > 1 else {"low": None, "high": None}
        points.append({**dict(zip(by, key, strict=True)), of: mean, **ends})
    return points


def _height(charts: Any, picture: Picture) -> int:
    if picture.kind not in ("heat", "intervals", "estimates"):
        return int(charts.HEIGHT)
    return (26 if picture.kind == "intervals" else 40) * len({row["y"] for row in picture.rows}) + 10
