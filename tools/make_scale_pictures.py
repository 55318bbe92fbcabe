"""Draw the pictures of docs/explanation/scale.md from benchmarks/results/staleness.json.

python tools/make_scale_pictures.py [FOLDER]

Each is a small SVG like those of make_doc_pictures.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair
from make_doc_pictures import BLUE, GREEN, GREY, ORANGE, ROOT, svg

RESULTS = ROOT / "docs" / "results"
MEASURED = ROOT / "benchmarks" / "results" / "staleness.json"
ONE = "one learner"
COLOURS = {"AdaptiveReleaf": BLUE, "AdaptiveReleaf, 2,000 labels": GREEN, "Releaf": ORANGE, "LinUCB": GREY}
WORLDS = {"steady": "a steady world", "change": "a world that changes once"}
MINUTE_TICKS = [1.0, 2, 5, 10, 20, 50, 100, 200]
Rows = list[dict[str, Any]]


def measured() -> Rows:
    findings = json.loads(MEASURED.read_text(encoding="utf-8"))["findings"]
    return [finding["detail"] for finding in findings if finding["detail"]["learns"] == ONE]


def regret() -> Any:
    """Regret against the age of the copy, for each policy, rate and world."""
    return _by_age("regret", "regret of 1,000 decisions", measured(), [0.5, 1, 2, 5, 10, 20, 50, 100, 200], "~g")


def labels() -> Any:
    """The share of decisions that ask for their reward, of those learners that do not always ask."""
    rows = [row for row in measured() if row["policy"] not in ("AdaptiveReleaf", "LinUCB")]
    for row in rows:
        decisions = 60 * len(row["by_minute"]) * row["rate"]
        row["labels"] = {name: (value or 0.0) / decisions for name, value in row["labels"].items()}
    return _by_age("labels", "share of decisions that ask", rows, [0.003, 0.01, 0.03, 0.1, 0.3, 1], ".1~%")


def _by_age(name: str, title: str, rows: Rows, ticks: list[float], form: str) -> Any:
    lowest = ticks[0]
    shown = [
        {"age": f"{row['age']} s", "policy": row["policy"], "value": row[name]["mean"], "rate": row["rate"]}
        | {"stream": row["stream"]}
        | {"low": max(row[name]["mean"] - margin, lowest), "high": row[name]["mean"] + margin}
        for row in rows
        for margin in [row[name]["margin"] or 0.0]
    ]
    panels, policies = [], [policy for policy in COLOURS if any(row["policy"] == policy for row in rows)]
    for rate in sorted({row["rate"] for row in shown}):
        line = []
        for stream in WORLDS:
            here = [row for row in shown if row["rate"] == rate and row["stream"] == stream]
            line.append(_panel(here, f"{WORLDS[stream]}, {rate:,} decisions/s", title, ticks, form, policies))
        panels.append(altair.hconcat(*line, spacing=24))
    return altair.vconcat(*panels, spacing=18)


def _panel(rows: Rows, heading: str, title: str, ticks: list[float], form: str, policies: list[str]) -> Any:
    ages = list(dict.fromkeys(row["age"] for row in rows))
    scale = _log(ticks)
    base = altair.Chart(altair.Data(values=rows)).encode(
        x=altair.X("age:N", sort=ages, title="age of the copy, at most", axis=altair.Axis(labelAngle=0, grid=False)),
        color=altair.Color("policy:N", title=None, scale=_colours(policies), legend=_legend()),
    )
    y = altair.Y("value:Q", title=title, scale=scale, axis=_at(ticks, form))
    lines = base.mark_line(strokeWidth=2.2, point=altair.OverlayMarkDef(size=45)).encode(y=y)
    margins = base.mark_rule(strokeWidth=1.4, opacity=0.55, clip=True).encode(
        y=altair.Y("low:Q", scale=scale, title=title), y2="high:Q"
    )
    heading = altair.Title(heading, fontSize=13, fontWeight="normal", anchor="start")
    return (margins + lines).properties(width=245, height=150, title=heading)


def _legend() -> Any:
    return altair.Legend(columns=4, columnPadding=20, symbolOpacity=1)


def _colours(policies: list[str]) -> Any:
    return altair.Scale(domain=policies, range=[COLOURS[policy] for policy in policies])


def minutes() -> Any:
    """AdaptiveReleaf's regret minute by minute, for each age, where the world changes after five."""
    rows = [
        {"minute": minute, "value": value, "age": f"{row['age']} s"}
        for row in measured()
        if (row["stream"], row["rate"], row["policy"]) == ("change", 1_000, "AdaptiveReleaf")
        for minute, value in enumerate(row["by_minute"], 1)
    ]
    ages = list(dict.fromkeys(row["age"] for row in rows))
    scale = altair.Scale(domain=ages, range=["#9ecae1", "#4292c6", "#08519c", ORANGE])
    return (
        altair.Chart(altair.Data(values=rows))
        .mark_line(strokeWidth=2.2, point=altair.OverlayMarkDef(size=40))
        .encode(
            x=altair.X("minute:O", title="minute", axis=altair.Axis(labelAngle=0, grid=False)),
            y=altair.Y("value:Q", title="regret of 1,000 decisions", scale=_log(MINUTE_TICKS), axis=_at(MINUTE_TICKS)),
            color=altair.Color("age:N", sort=ages, scale=scale, title="age of the copy, at most"),
        )
        .properties(width=560, height=200)
    )


def _log(ticks: list[float]) -> Any:
    return altair.Scale(type="log", domain=[ticks[0], ticks[-1]])


def _at(ticks: list[float], form: str = "~g") -> Any:
    return altair.Axis(format=form, values=ticks)


DRAWN: dict[str, Callable[[], Any]] = {
    "staleness-regret": regret,
    "staleness-labels": labels,
    "staleness-minutes": minutes,
}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWN.items():
        path = folder / f"{name}.svg"
        path.write_text(svg(draw()) + "\n", encoding="utf-8")
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
