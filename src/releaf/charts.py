"""Chart types, palette and fonts shared by all charts, and offline export.

This module imports Altair, so import it only where a chart is drawn.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Literal

import altair

Rows = list[dict[str, Any]]

HEIGHT = 320
WIDTH = 600
GREY = "#888888"
# Okabe and Ito's colour-blind-safe palette, and three greys.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#888888", "#B8A000", "#BBBBBB"]
DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3]]  # for the first ten lines, the second ten, …
STEPS_OF_LABELS = [0, *(factor * 10**power for power in range(1, 7) for factor in (1, 3))]
EFFECT_TOOLTIP = (
    {"shorthand": "series:N", "title": "action"},
    {"shorthand": "x:N", "title": "value"},
    {"shorthand": "y:Q", "title": "adds", "format": "+.3f"},
)
LEGEND_CHARACTERS = 70  # per line
KINDS_OF_BARS = {"level": "#888888", "more": COLOURS[2], "less": COLOURS[1]}  # of a waterfall
APART = 0.008  # share of the width between points of two series at the same x
BLUES = ["#f4f7fb", "#c6dbef", "#6baed6", "#2171b5", "#08306b"]  # from low to high
PALE_TEXT_FROM = 0.55  # share of the highest value of a heat map from which tiles have white text


class _Offline:
    """Mixin that saves self-contained HTML pages, and PNG files with two pixels per point."""

    def save(self, fp: Any, format: str | None = None, **options: Any) -> None:  # noqa: A002 - Altair's name
        """As Altair's, but HTML needs no network, and PNG has two pixels per point."""
        kind = format or str(getattr(fp, "name", fp)).rsplit(".", 1)[-1].lower()
        if kind == "html":
            options.setdefault("inline", True)
        if kind == "png":
            options.setdefault("scale_factor", 2)
        super().save(fp, format, **options)  # type: ignore[misc]


class Chart(_Offline, altair.Chart):
    """A chart."""


class Layers(_Offline, altair.LayerChart):
    """Layered charts."""


class Grid(_Offline, altair.ConcatChart):
    """Charts side by side."""


def finished(drawn: Any) -> Any:
    """Apply the common fonts, axes and legend."""
    return drawn.configure(
        background="white",
        font="system-ui, sans-serif",
        axis=altair.AxisConfig(labelFontSize=12, titleFontSize=13, titleFontWeight="normal", gridColor="#e6e6e6"),
        legend=altair.LegendConfig(labelFontSize=12, orient="bottom", labelLimit=260, title=None),
        title=altair.TitleConfig(anchor="start", fontSize=13, fontWeight="normal"),
        view=altair.ViewConfig(stroke=None),
    )


def coloured(names: Sequence[str], title: str | None = None) -> Any:
    """Colour encoding of series; no legend for a single one."""
    palette = [COLOURS[place % len(COLOURS)] for place in range(len(names))]
    columns = max(1, min(5, LEGEND_CHARACTERS // max(1, *map(len, names))))
    legend = altair.Legend(columns=columns, symbolOpacity=1) if len(names) > 1 else None
    scale = altair.Scale(domain=list(names), range=palette)
    return altair.Color("series:N", sort=list(names), scale=scale, title=title, legend=legend)


def dashed(names: Sequence[str]) -> dict[str, Any]:
    """Dash encoding, if there are more series than colours."""
    if len(names) <= len(COLOURS):
        return {}
    dashes = [DASHES[place // len(COLOURS) % len(DASHES)] for place in range(len(names))]
    scale = altair.Scale(domain=list(names), range=dashes)
    return {"strokeDash": altair.StrokeDash("series:N", sort=list(names), scale=scale, title=None)}


def lines(
    rows: Rows, x: str, y: str, names: Sequence[str], log: bool | Literal["x"] = False, series: str | None = None
) -> Any:
    """Line chart of series; with a band if rows have lowest and highest y."""
    growing = altair.Scale(type="log", nice=False)
    scale = growing if log is True else altair.Scale(zero=True)
    base = Chart(altair.Data(values=rows)).encode(
        x=altair.X("x:Q", title=x, scale=growing if log else scale), color=coloured(names, series)
    )
    drawn = base.mark_line(strokeWidth=2).encode(
        y=altair.Y("y:Q", title=y, scale=scale),
        tooltip=["series:N", altair.Tooltip("x:Q", title=x), altair.Tooltip("y:Q", title=y)],
        **dashed(names),
    )
    if not any("lowest" in row for row in rows):
        return drawn
    spread = base.transform_filter("isValid(datum.lowest)").mark_area(opacity=0.15)
    return Layers(layer=[spread.encode(y=altair.Y("lowest:Q", title=y, scale=scale), y2="highest:Q"), drawn])


def dots(rows: Rows, x: str, y: str, names: Sequence[str], series: str | None = None) -> Any:
    """A dot for each row, where x is a number of labels: none, some, or very many."""
    spread_out = altair.Scale(type="symlog", constant=100)  # logarithmic, but includes 0
    shown = [step for step in STEPS_OF_LABELS if step <= 3 * max((row["x"] for row in rows), default=0)]
    axis = altair.Axis(values=shown, labelOverlap="greedy", format=",d")
    return (
        Chart(altair.Data(values=rows))
        .mark_circle(size=70, opacity=0.75)
        .encode(
            x=altair.X("x:Q", title=x, scale=spread_out, axis=axis),
            y=altair.Y("y:Q", title=y),
            color=coloured(names, series),
            tooltip=["series:N", altair.Tooltip("x:Q", title=x), altair.Tooltip("y:Q", title=y)],
        )
    )


def means(rows: Rows, x: str, y: str, names: Sequence[str], log: bool | str = False, series: str | None = None) -> Any:
    """Line per series with the interval of each point from low to high; None for a point without one.

    ``log`` makes both axes logarithmic, "x" the horizontal one only. Points of different series at the same x are drawn
    a little apart, so that no interval hides another.
    """
    if log is True:
        rows = _above_zero(rows)
    across = altair.Scale(type="log" if log else "linear", zero=False, nice=False, padding=16)
    up = altair.Scale(type="log", nice=False, padding=12) if log is True else altair.Scale(zero=True)
    ticks = altair.Axis(values=sorted({row["x"] for row in rows}), format="~g", grid=False, labelOverlap="greedy")
    encoded = {"x": altair.X("place:Q", title=x, scale=across, axis=ticks), "color": coloured(names, series)}
    base = Chart(altair.Data(values=_side_by_side(rows, names, bool(log)))).encode(**encoded)
    axis = altair.Axis(tickCount=6, format=",~g" if log is True else altair.Undefined)
    height = altair.Y("y:Q", title=y, scale=up, axis=axis)
    tooltip = ["series:N", altair.Tooltip("x:Q", title=x)]
    tooltip += [altair.Tooltip(f"{name}:Q", title=title, format=".4g") for name, title in _interval_fields(y)]
    spans = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=2)
    return Layers(
        layer=[
            spans.encode(y=altair.Y("low:Q", title=y, scale=up, axis=axis), y2="high:Q"),
            base.mark_line(strokeWidth=1.5).encode(y=height, **dashed(names)),
            base.mark_circle(size=50, opacity=1).encode(y=height, tooltip=tooltip),
        ]
    )


def _above_zero(rows: Rows) -> Rows:
    """Clip intervals for a logarithmic axis at a third of the smallest value."""
    least = min((row["y"] for row in rows), default=0.0) / 3.0
    return [row if row.get("low") is None else {**row, "low": max(row["low"], least)} for row in rows]


def _side_by_side(rows: Rows, names: Sequence[str], log: bool) -> Rows:
    """Add a horizontal position to rows: x, shifted slightly per series so that points don't overlap."""
    values = [math.log(row["x"]) if log else row["x"] for row in rows]
    step = APART * (max(values) - min(values)) if values else 0.0
    moved = []
    for row, value in zip(rows, values, strict=True):
        place = value + step * (names.index(row["series"]) - (len(names) - 1) / 2)
        moved.append({**row, "place": math.exp(place) if log else place})
    return moved


def estimates(rows: Rows, x: str, y: str | None = None) -> Any:
    """Point per named row y with its interval from low to high, in the order of the rows."""
    axis = altair.Axis(labelLimit=300, ticks=False, domain=False, grid=True)
    scale = altair.Scale(zero=False, nice=False, padding=16)
    base = Chart(altair.Data(values=rows)).encode(y=altair.Y("y:N", title=y, sort=None, axis=axis))
    tooltip = [altair.Tooltip(f"{name}:Q", title=title, format=".4g") for name, title in _interval_fields(x, "x")]
    spans = base.mark_rule(strokeWidth=2, color=COLOURS[0]).encode(
        x=altair.X("low:Q", title=x, scale=scale, axis=altair.Axis(tickCount=8)), x2="high:Q"
    )
    centres = base.mark_circle(size=80, opacity=1, color=COLOURS[0])
    return Layers(layer=[spans, centres.encode(x=altair.X("x:Q", title=x, scale=scale), tooltip=["y:N", *tooltip])])


def _interval_fields(title: str, centre: str = "y") -> tuple[tuple[str, str], ...]:
    """Fields of an estimate with their tooltip titles."""
    return (centre, title), ("low", "95 % interval, from"), ("high", "to")


def intervals(
    rows: Rows,
    x: str,
    y: str | None = None,
    domain: tuple[float, float] = (0.0, 1.0),
    values: Sequence[float] | None = None,
) -> Any:
    """Bar from low to high per row, darker for a higher value; with its text, if any."""
    base = Chart(altair.Data(values=rows)).encode(
        y=altair.Y("y:N", title=y, sort=None, axis=altair.Axis(labelLimit=300, ticks=False, domain=False))
    )
    scale, ticks = altair.Scale(domain=list(domain), nice=False), {} if values is None else {"values": list(values)}
    span = altair.X("low:Q", title=x, scale=scale, axis=altair.Axis(grid=False, **ticks))
    teals = altair.Scale(scheme="teals", type="symlog", domainMin=0)
    tooltip = (
        [altair.Tooltip("where:N", title="interval")] if any("where" in row for row in rows) else ["low:Q", "high:Q"]
    )
    bars = base.mark_bar(height=14, stroke="white", strokeWidth=1).encode(
        x=span,
        x2="high:Q",
        color=altair.Color("value:Q", scale=teals, legend=None),
        tooltip=["y:N", *tooltip, altair.Tooltip("value:Q", title="arrivals", format=",d")],
    )
    if not any(row.get("text") for row in rows):
        return bars
    most = max(row["value"] for row in rows)
    names = base.transform_filter("isValid(datum.text)").transform_calculate(middle="(datum.low + datum.high) / 2")
    named = names.mark_text(fontSize=10).encode(
        x=altair.X("middle:Q", scale=scale),
        text="text:N",
        color=altair.condition(f"datum.value > {most**0.7}", altair.value("white"), altair.value("#333")),
    )
    return Layers(layer=[bars, named])


def heat(
    rows: Rows,
    x: str | None,
    y: str | None,
    *,
    highest: float = 1.0,
    written: bool = True,
    darkness: str = "value",
    totals: Rows | None = None,
    **of_x_axis: Any,
) -> Any:
    """Heat map of shares, optionally with the values written into the tiles.

    Tiles are darker for a higher value of the column ``darkness``, up to ``highest``. ``totals`` are rows with a text,
    written below the tiles.
    """
    across, down = (list(dict.fromkeys(row[name] for row in [*rows, *(totals or [])])) for name in ("x", "y"))
    base = Chart(altair.Data(values=rows)).encode(
        x=altair.X("x:N", title=x, sort=across, axis=altair.Axis(ticks=False, domain=False, **of_x_axis)),
        y=altair.Y("y:N", title=y, sort=down, axis=altair.Axis(labelLimit=300, ticks=False, domain=False)),
    )
    blues = altair.Scale(domain=[highest * step / (len(BLUES) - 1) for step in range(len(BLUES))], range=BLUES)
    legend = None if written else altair.Legend(format=".0%", orient="right", title=None)
    tiles = base.mark_rect(stroke="white", strokeWidth=1).encode(
        color=altair.Color(f"{darkness}:Q", scale=blues, legend=legend),
        tooltip=["x:N", "y:N", altair.Tooltip("value:Q", format=".1%")],
    )
    layers = [tiles]
    if totals:
        of_totals = {"x": altair.X("x:N", sort=across), "y": altair.Y("y:N", sort=down), "text": "text:N"}
        layers.append(Chart(altair.Data(values=totals)).mark_text(fontSize=11, color="#333").encode(**of_totals))
    if not written:
        return Layers(layer=layers) if totals else tiles
    numbers = (
        base.transform_filter("datum.value >= 0.005")
        .mark_text(fontSize=11)
        .encode(
            text=altair.Text("value:Q", format=".0%"),
            color=altair.condition(
                f"datum.{darkness} > {PALE_TEXT_FROM * highest}", altair.value("white"), altair.value("#333")
            ),
        )
    )
    return Layers(layer=[*layers, numbers])


def effect(
    rows: Rows, y: str | None, names: Sequence[str], limits: tuple[float, float], over_time: bool = False
) -> Any:
    """Line per series over a numeric x, or milliseconds; a missing x (None) is a dot to the right of the lines."""
    numbers = [row for row in rows if row["x"] is not None]
    low, high = min(row["x"] for row in numbers), max(row["x"] for row in numbers)
    missing = [{**row, "x": high + 0.1 * (high - low)} for row in rows if row["x"] is None]
    domain = [low, high + (0.2 * (high - low) if missing else 0)]
    scale = altair.Scale(domain=domain, nice=False, **({"type": "utc"} if over_time else {}))
    axis = altair.Axis(tickCount=3, format="%Y-%m-%d") if over_time else altair.Axis(tickCount=5)
    x = altair.X("x:T" if over_time else "x:Q", title=None, scale=scale, axis=axis)
    encoded = {"x": x, **_amounts(y, names, limits)}
    if over_time:
        encoded["tooltip"][1] = altair.Tooltip("x:T", title="value", format="%Y-%m-%d")
    curves = Chart(altair.Data(values=numbers)).mark_line(strokeWidth=2).encode(**encoded, **dashed(names))
    layers = [_zero(), curves]
    if missing or low == high:
        layers.append(Chart(altair.Data(values=missing or numbers)).mark_circle(size=50, opacity=1).encode(**encoded))
    if missing:
        word = Chart(altair.Data(values=missing[:1])).mark_text(text="missing", fontSize=10, color="#555555")
        layers.append(word.encode(x=x, y=altair.value(6)))
    return Layers(layer=layers)


def points(rows: Rows, y: str | None, names: Sequence[str], limits: tuple[float, float]) -> Any:
    """Dot per series and category x."""
    across = list(dict.fromkeys(row["x"] for row in rows))
    angle = 0 if sum(map(len, across)) <= 24 else -40
    x = altair.X("x:N", title=None, sort=across, axis=altair.Axis(labelAngle=angle, labelLimit=180, grid=True))
    dotted = Chart(altair.Data(values=rows)).mark_circle(size=70, opacity=1)
    return Layers(layer=[_zero(), dotted.encode(x=x, **_amounts(y, names, limits))])


def waterfall(bars: Rows, title: list[str]) -> Any:
    """Bars from one level to another, in their order: levels, what adds to them, and what takes away."""
    names = [f"{place}" for place in range(len(bars))]
    rows = [{**bar, "place": name, "change": bar["to"] - bar["from"]} for name, bar in zip(names, bars, strict=True)]
    labels = {name: bar["name"] for name, bar in zip(names, bars, strict=True)}
    axis = altair.Axis(labelLimit=320, ticks=False, domain=False, labelExpr=f"({json.dumps(labels)})[datum.label]")
    scale = altair.Scale(domain=list(KINDS_OF_BARS), range=list(KINDS_OF_BARS.values()))
    heading = altair.TitleParams(title[0], subtitle=title[1:])
    base = Chart(altair.Data(values=rows), title=heading).encode(
        y=altair.Y("place:N", title=None, sort=names, axis=axis)
    )
    x = altair.X("from:Q", title="reward", axis=altair.Axis(tickCount=8))
    drawn = base.mark_bar(height=18).encode(
        x=x,
        x2="to:Q",
        color=altair.Color("kind:N", scale=scale, legend=None),
        tooltip=[altair.Tooltip("name:N", title=" "), altair.Tooltip("change:Q", title="adds", format="+.4g")],
    )
    sign = "datum.kind == 'level' ? format(datum.to, '.3~f') : format(datum.change, '+.3~f')"
    written = base.transform_calculate(text=sign, end="max(datum['from'], datum.to)")
    numbers = written.mark_text(align="left", dx=4, fontSize=11, color="#333").encode(x="end:Q", text="text:N")
    return Layers(layer=[drawn, numbers]).properties(width=WIDTH, height=altair.Step(28))


def _amounts(y: str | None, names: Sequence[str], limits: tuple[float, float]) -> dict[str, Any]:
    scale = altair.Scale(domain=list(limits), nice=False)
    axis = altair.Axis(labelExpr="datum.value == 0 ? '0' : format(datum.value, '+~g')", tickCount=5)
    tooltip = [altair.Tooltip(**entry) for entry in EFFECT_TOOLTIP]
    return {"y": altair.Y("y:Q", title=y, scale=scale, axis=axis), "color": coloured(names), "tooltip": tooltip}


def _zero() -> Any:
    """Reference line at zero."""
    return Chart(altair.Data(values=[{"y": 0}])).mark_rule(color=GREY, strokeWidth=1).encode(y="y:Q")
