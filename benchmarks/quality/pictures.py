"""The findings as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.measure import Finding
from benchmarks.quality.tables import ALWAYS, Row, main, of_kind
from releaf.charts import COLOURS

RATIOS = [1, 1.5, 2, 3, 5, 10, 20, 50]  # farther off is who ignores the context; not shown


def save(findings: list[Finding], folder: Path, suffix: str = "") -> None:
    """Write the pictures into a folder, as SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, chart in charts(findings).items():
        chart.save(str(folder / f"{name}{suffix}.svg"))


def charts(findings: list[Finding]) -> dict[str, Any]:
    standings = of_kind(findings, "method")
    made = {"quality": ratios(standings)}
    for diagram in of_kind(findings, "diagram"):
        made[f"quality-ranks-{diagram['diagram']}"] = ranks(diagram)
    return made


def ratios(standings: list[Row]) -> Any:
    """How far from the best each method is, data set by data set: the main ones as dots, all as ticks behind."""
    import altair

    rows = [
        {"method": standing["method"], "data": data, "ratio": ratio}
        for standing in standings
        for data, ratio in standing["ratios"].items()
    ]
    names = [standing["method"] for standing in main(standings)]
    names.sort(key=lambda name: ALWAYS.index(name) if name in ALWAYS else len(ALWAYS))  # the same colours every time
    scale = altair.Scale(type="log", nice=False, domain=[0.94, RATIOS[-1]])
    base = altair.Chart().encode(
        x=altair.X("ratio:Q", title="loss ÷ the best method's", scale=scale, axis=altair.Axis(values=RATIOS)),
        y=altair.Y("data:N", title=None, sort=_data_sets(standings), axis=altair.Axis(grid=True, ticks=False)),
    )
    all_of_them = base.mark_tick(color="#c9c9c9", thickness=1.5, height=7, clip=True)
    dots = (
        base.transform_filter(altair.FieldOneOfPredicate("method", names))
        .mark_circle(size=70, opacity=0.85, stroke="white", strokeWidth=0.8, clip=True)
        .encode(color=colours(altair, "method", names))
    )
    layers = altair.layer(all_of_them, dots, data=altair.Data(values=rows))
    told = altair.Title(
        "Loss next to the best method's on each data set",
        subtitle="Lost reward, or regret where it is known, from the first step on. Grey: all the others.",
    )
    return styled(altair, layers.properties(title=told, width=620, height=altair.Step(16)))


def _data_sets(standings: list[Row]) -> list[str]:
    """Those first on which AdaptiveReleaf is nearest to the best."""
    known: dict[str, float] = {}
    for standing in sorted(standings, key=lambda standing: standing["method"] != ALWAYS[0]):
        known = standing["ratios"] | known if known else dict(standing["ratios"])
    return sorted(known, key=lambda data: known[data])


def ranks(diagram: Row) -> Any:
    """A critical-difference diagram: mean ranks, the best at the top, and a bar beside methods that don't differ."""
    import altair

    order = sorted(diagram["ranks"], key=lambda name: diagram["ranks"][name])
    points = [{"method": name, "rank": diagram["ranks"][name]} for name in order]
    bars = [
        {"method": name, "clique": place, "rank": _bar(diagram, place)}
        for place, clique in enumerate(diagram["cliques"])
        for name in clique
    ]
    y = altair.Y("method:N", sort=order, title=None, axis=altair.Axis(grid=True, ticks=False, labelLimit=200))
    x = altair.X("rank:Q", title="mean rank", scale=altair.Scale(zero=False, nice=False, padding=14))
    dots = altair.Chart(altair.Data(values=points)).mark_circle(size=80, opacity=1, color=COLOURS[0]).encode(x=x, y=y)
    numbers = dots.mark_text(align="left", dx=8, fontSize=11).encode(text=altair.Text("rank:Q", format=".1f"))
    lines = (
        altair.Chart(altair.Data(values=bars))
        .mark_line(strokeWidth=3, color="#777")
        .encode(x=x, y=y, detail="clique:N", order="clique:N")
    )
    layers = altair.layer(lines, dots, numbers) if bars else altair.layer(dots, numbers)
    told = altair.Title(
        f"Mean rank over {diagram['data_sets']} data sets",
        subtitle="A bar joins methods that don't differ significantly (Wilcoxon's test, Holm's correction, 5 %).",
    )
    return styled(altair, layers.properties(title=told, width=560, height=altair.Step(20)))


def _bar(diagram: Row, place: int) -> float:
    """Where a clique's bar stands: right of all points, each next to the one before."""
    values = diagram["ranks"].values()
    width = max(max(values) - min(values), 1.0)
    return float(max(values) + width * (0.12 + 0.025 * place))


def colours(altair: Any, field: str, names: list[str]) -> Any:
    palette = [COLOURS[place % len(COLOURS)] for place in range(len(names))]
    return altair.Color(f"{field}:N", sort=names, scale=altair.Scale(domain=names, range=palette), title=None)


def styled(altair: Any, chart: Any) -> Any:
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
