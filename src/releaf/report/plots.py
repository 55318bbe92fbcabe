"""Pictures as Vega-Lite charts: for a notebook, a PNG, or a page."""

from __future__ import annotations

from typing import Any

from releaf.paper import Picture

HEIGHT = 320
DECADES = [0, 100, 1_000, 10_000, 100_000, 1_000_000]
# Okabe and Ito's palette, which colour-blind people can tell apart, and three greys.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#888888", "#B8A000", "#BBBBBB"]


def chart(picture: Picture, width: int | str = "container") -> Any:
    """The chart of a picture; "container" makes it as wide as what it stands in."""
    import altair

    drawn = {"lines": _lines, "dots": _dots, "heat": _heat, "intervals": _intervals}[picture.kind](altair, picture)
    return drawn.properties(width=width, height=_height(picture)).configure(
        font="system-ui, sans-serif",
        axis=altair.AxisConfig(labelFontSize=12, titleFontSize=13, titleFontWeight="normal", gridColor="#e6e6e6"),
        legend=altair.LegendConfig(labelFontSize=12, orient="bottom", columns=2, labelLimit=260, title=None),
        view=altair.ViewConfig(stroke=None),
    )


def _height(picture: Picture) -> int:
    if picture.kind not in ("heat", "intervals"):
        return HEIGHT
    return (40 if picture.kind == "heat" else 26) * len({row["y"] for row in picture.rows}) + 10


def _colour(altair: Any, picture: Picture) -> Any:
    names = list(dict.fromkeys(row["series"] for row in picture.rows))
    palette = [COLOURS[place % len(COLOURS)] for place in range(len(names))]
    return altair.Color("series:N", sort=names, scale=altair.Scale(domain=names, range=palette), title=picture.series)


def _scale(altair: Any, picture: Picture) -> Any:
    return altair.Scale(type="log") if picture.log else altair.Scale(zero=True)


def _lines(altair: Any, picture: Picture) -> Any:
    scale = _scale(altair, picture)
    return (
        altair.Chart(altair.Data(values=picture.rows))
        .mark_line(strokeWidth=2)
        .encode(
            x=altair.X("x:Q", title=picture.x, scale=scale),
            y=altair.Y("y:Q", title=picture.y, scale=scale),
            color=_colour(altair, picture),
            tooltip=["series:N", "x:Q", "y:Q"],
        )
    )


def _dots(altair: Any, picture: Picture) -> Any:
    spread_out = altair.Scale(type="symlog", constant=100)  # like a logarithm, with room for 0
    return (
        altair.Chart(altair.Data(values=picture.rows))
        .mark_circle(size=70, opacity=0.75)
        .encode(
            x=altair.X("x:Q", title=picture.x, scale=spread_out, axis=altair.Axis(values=DECADES)),
            y=altair.Y("y:Q", title=picture.y),
            color=_colour(altair, picture),
            tooltip=["series:N", "x:Q", "y:Q"],
        )
    )


def _intervals(altair: Any, picture: Picture) -> Any:
    return (
        altair.Chart(altair.Data(values=picture.rows))
        .mark_bar(height=14, stroke="white", strokeWidth=1)
        .encode(
            x=altair.X("low:Q", title=picture.x, scale=altair.Scale(domain=[0, 1])),
            x2="high:Q",
            y=altair.Y("y:N", title=picture.y or None, sort=None),
            color=altair.Color("value:Q", scale=altair.Scale(scheme="teals", type="symlog"), legend=None),
            tooltip=["y:N", "low:Q", "high:Q", altair.Tooltip("value:Q", title="arrivals")],
        )
    )


def _heat(altair: Any, picture: Picture) -> Any:
    names = list(dict.fromkeys(row["x"] for row in picture.rows))
    base = altair.Chart(altair.Data(values=picture.rows)).encode(
        x=altair.X("x:N", title=picture.x, sort=names, axis=altair.Axis(labelAngle=-40, labelLimit=160)),
        y=altair.Y("y:N", title=picture.y or None, sort=None),
    )
    tiles = base.mark_rect().encode(
        color=altair.Color("value:Q", scale=altair.Scale(scheme="blues", domain=[0, 1]), legend=None),
        tooltip=["x:N", "y:N", altair.Tooltip("value:Q", format=".1%")],
    )
    labels = (
        base.transform_filter("datum.value >= 0.005")
        .mark_text(fontSize=11)
        .encode(
            text=altair.Text("value:Q", format=".0%"),
            color=altair.condition("datum.value > 0.5", altair.value("white"), altair.value("#333")),
        )
    )
    return tiles + labels
