"""The findings as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.measure import Finding
from benchmarks.quality.tables import ALWAYS, Row, main
from releaf.charts import COLOURS

RATIOS = [1, 1.5, 2, 3, 5, 10, 20, 50]  # farther off is who ignores the context; not shown
PERCENT = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50]
LABELS = [20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000]
WHOLE = "Releaf, always"  # a policy of its own; what else has a comma in its name is another setting of the same


def save(findings: list[Finding], folder: Path) -> None:
    """Write both pictures into a folder, as SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, chart in charts(findings).items():
        chart.save(str(folder / f"{name}.svg"))


def charts(findings: list[Finding]) -> dict[str, Any]:
    standings = [finding.detail for finding in findings if "method" in finding.detail]
    points = [finding.detail for finding in findings if "frugal" in finding.detail]
    return {"quality": ratios(standings), "quality-labels": labels(points)}


def ratios(standings: list[Row]) -> Any:
    """How far from the best each method is, data set by data set: the main ones as dots, all as ticks behind."""
    import altair

    rows = [
        {"method": standing["method"], "data": data, "ratio": ratio}
        for standing in standings
        for data, ratio in standing["ratios"].items()
    ]
    names = [standing["method"] for standing in main(standings)]
    names.sort(key=lambda name: name not in ALWAYS)  # ours have the same colours every time
    scale = altair.Scale(type="log", nice=False, domain=[0.94, RATIOS[-1]])
    base = altair.Chart().encode(
        x=altair.X("ratio:Q", title="loss ÷ the best method's", scale=scale, axis=altair.Axis(values=RATIOS)),
        y=altair.Y("data:N", title=None, sort=_data_sets(standings), axis=altair.Axis(grid=True, ticks=False)),
    )
    all_of_them = base.mark_tick(color="#c9c9c9", thickness=1.5, height=9, clip=True)
    dots = (
        base.transform_filter(altair.FieldOneOfPredicate("method", names))
        .mark_circle(size=95, opacity=0.85, stroke="white", strokeWidth=0.8, clip=True)
        .encode(color=_colours(altair, "method", names))
    )
    layers = altair.layer(all_of_them, dots, data=altair.Data(values=rows))
    told = altair.Title(
        "Loss next to the best method's on each data set",
        subtitle="Wrong actions, or regret where it is known, from the first step on. Grey: all the others.",
    )
    return _styled(altair, layers.properties(title=told, width=620, height=altair.Step(24)))


def _data_sets(standings: list[Row]) -> list[str]:
    """In the order of the suite, which those that ran on all of them know."""
    return list(max(standings, key=lambda standing: len(standing["ratios"]))["ratios"])


def labels(points: list[Row]) -> Any:
    """Error against the number of observed rewards: a line through the settings of one policy."""
    import altair

    rows = [_row(point) for point in points]
    names = list(dict.fromkeys(row["policy"] for row in sorted(rows, key=lambda row: row["policy"])))
    log = altair.Scale(type="log", nice=False, padding=12)
    base = altair.Chart().encode(
        x=altair.X("labels:Q", title="observed labels", scale=log, axis=altair.Axis(values=LABELS, format="~s")),
        color=_colours(altair, "policy", names),
    )
    y = altair.Y("error:Q", title="wrong actions, %", scale=log, axis=altair.Axis(values=PERCENT))
    layers = altair.layer(
        base.mark_rule(opacity=0.5).encode(y=altair.Y("low:Q", scale=log), y2="high:Q"),
        base.mark_line(strokeWidth=2).encode(y=y),
        base.mark_circle(size=80, opacity=1, stroke="white", strokeWidth=0.8).encode(y=y),
        data=altair.Data(values=rows),
    )
    facets = layers.properties(width=380, height=300).facet(column=altair.Column("data:N", title=None))
    told = altair.Title(
        "Error against the number of labels",
        subtitle="A line joins the settings of one policy. Means over the seeds, ± one standard error.",
    )
    return _styled(altair, facets.resolve_scale(x="independent", y="independent").properties(title=told))


def _row(point: Row) -> dict[str, Any]:
    policy = point["frugal"] if point["frugal"] == WHOLE else point["frugal"].split(",")[0]
    middle, error = 100 * point["mean"], 100 * point["standard_error"]
    row = {"policy": policy, "data": point["data"], "labels": point["labels"], "error": middle}
    return row | {"low": max(middle - error, 0.1 * middle), "high": middle + error}


def _colours(altair: Any, field: str, names: list[str]) -> Any:
    palette = [COLOURS[place % len(COLOURS)] for place in range(len(names))]
    return altair.Color(f"{field}:N", sort=names, scale=altair.Scale(domain=names, range=palette), title=None)


def _styled(altair: Any, chart: Any) -> Any:
    return chart.configure(
        font="system-ui, sans-serif",
        background="white",
        padding=12,
        title=altair.TitleConfig(anchor="start", fontSize=15, subtitleFontSize=12, subtitleColor="#555", offset=14),
        axis=altair.AxisConfig(
            labelFontSize=12, titleFontSize=12, titleFontWeight="normal", gridColor="#ececec", domain=False
        ),
        legend=altair.LegendConfig(labelFontSize=12, orient="bottom", columns=4, labelLimit=260, symbolOpacity=1),
        header=altair.HeaderConfig(labelFontSize=13, labelFontWeight="bold"),
        view=altair.ViewConfig(stroke=None),
    )
