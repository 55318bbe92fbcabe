"""Pictures of a report as Vega-Lite charts."""

from __future__ import annotations

from typing import Any

from releaf.paper import Picture


def chart(picture: Picture, width: int | str = "container") -> Any:
    """The chart of a picture; "container" makes it as wide as what it stands in."""
    from releaf import charts

    return charts.finished(_drawn(charts, picture).properties(width=width, height=_height(charts, picture)))


def _drawn(charts: Any, picture: Picture) -> Any:
    rows, x, y = picture.rows, picture.x, picture.y
    if picture.kind == "heat":
        return charts.heat(rows, x, y or None, labelAngle=-40, labelLimit=160)
    if picture.kind == "intervals":
        return charts.intervals(rows, x, y or None)
    names = list(dict.fromkeys(row["series"] for row in rows))
    if picture.kind == "dots":
        return charts.dots(rows, x, y, names, picture.series)
    return charts.lines(rows, x, y, names, picture.log, picture.series)


def _height(charts: Any, picture: Picture) -> int:
    if picture.kind not in ("heat", "intervals"):
        return int(charts.HEIGHT)
    return (40 if picture.kind == "heat" else 26) * len({row["y"] for row in picture.rows}) + 10
