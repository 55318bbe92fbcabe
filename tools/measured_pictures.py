"""Pictures of the documentation that are drawn from figures measured before, and from the theorems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import altair

from releaf import theory

ROOT = Path(__file__).parents[1]
OFF_POLICY = ROOT / "benchmarks" / "results" / "off_policy.json"
REPRODUCED = ROOT / "docs" / "results" / "figures.json"
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#767676"
WIDTH = 620
OVERLAP = {1.0: "much", 3.0: "some", 6.0: "little", 10.0: "hardly any"}


def bound() -> Any:
    """The bound of Theorem 5 on the regret of a step, over the number of steps, and what was measured."""
    horizons = [10.0**exponent for exponent in range(3, 45)]
    limits = [theory.general_bounds(round(steps), features=5, actions=2, d_rel=1).total / steps for steps in horizons]
    curve = [{"T": steps, "regret": limit} for steps, limit in zip(horizons, limits, strict=True)]
    found = _measured("Growth of the regret", "RELEAF, d = 1, D = 5")
    measured = [
        {"T": found["steps (T)"], "regret": found["regret a step at the end"], "text": "measured, divisor 5,000"}
    ]
    marks = altair.Axis(values=[10.0**exponent for exponent in (6, 12, 18, 24, 30, 36, 42)], format=".0e", grid=False)
    x = altair.X("T:Q", title="number of decisions T", scale=altair.Scale(type="log"), axis=marks)
    steps_of_y = altair.Axis(values=[1e-3, 1e-1, 1e1, 1e3, 1e5], format="~g")
    y = altair.Y("regret:Q", title="regret for each decision", scale=altair.Scale(type="log"), axis=steps_of_y)
    line = altair.Chart(altair.Data(values=curve)).mark_line(color=BLUE, strokeWidth=2.5).encode(x=x, y=y)
    name = [{"T": 1e17, "regret": 1.2e3, "text": "bound of Theorem 5, divisor 1"}]
    worst = [{"T": 1e44, "regret": 1.0, "text": "1: as bad as a decision can be"}]
    rule = altair.Chart(altair.Data(values=worst)).mark_rule(color=GREY, strokeDash=[5, 4]).encode(y=y)
    point = altair.Chart(altair.Data(values=measured)).mark_circle(color=ORANGE, size=90, opacity=1).encode(x=x, y=y)
    texts = [
        _text(name, x, y, BLUE, "left", 10),
        _text(worst, x, y, GREY, "right", 0),
        _text(measured, x, y, ORANGE, "left", 12),
    ]
    return (rule + line + point + texts[0] + texts[1] + texts[2]).properties(width=WIDTH - 80, height=250)


def coverage() -> Any:
    """How often 95 % intervals of IPS held the truth, the asymptotic ones and those that are the default."""
    rows = [
        {
            "overlap": OVERLAP[detail["strength"]],
            "held": finding["value"],
            "interval": "normal" if detail["estimator"].endswith("normal") else "auto, the default",
            "rewards": "frequent rewards" if detail["rate"] == 1 else "rare rewards",
        }
        for finding in json.loads(OFF_POLICY.read_text(encoding="utf-8"))["findings"]
        for detail in [finding["detail"]]
        if detail.get("estimator") in ("ips", "ips, normal") and "rate" in detail and detail["rows"] == 500
    ]
    base = altair.Chart().encode(
        x=altair.X("overlap:N", sort=list(OVERLAP.values()), title="overlap of log and policy", axis=_level()),
        y=altair.Y("held:Q", title="intervals that held the truth", axis=altair.Axis(format="%")).scale(
            domain=[0.5, 1]
        ),
        color=altair.Color("interval:N", title=None, scale=altair.Scale(range=[BLUE, ORANGE])),
    )
    lines = base.mark_line(strokeWidth=2.5, point=altair.OverlayMarkDef(size=55))
    wanted = altair.Chart().mark_rule(color=GREY, strokeDash=[5, 4]).encode(y=altair.datum(0.95))
    panels = altair.layer(wanted, lines, data=altair.Data(values=rows)).properties(width=235, height=190)
    return panels.facet(altair.Column("rewards:N", title=None, header=altair.Header(labelFontSize=13)))


def _level() -> Any:
    return altair.Axis(labelAngle=0)


def _text(values: list[dict[str, Any]], x: Any, y: Any, colour: str, align: str, dx: int) -> Any:
    mark = altair.Chart(altair.Data(values=values)).mark_text(color=colour, align=align, dx=dx, dy=-9, fontSize=12)
    return mark.encode(x=x, y=y, text="text:N")


def _measured(title: str, label: str) -> dict[str, float]:
    """The means of a line of a table of the reproduction, by column."""
    for table in json.loads(REPRODUCED.read_text(encoding="utf-8"))["tables"]:
        for line in table["lines"]:
            if (table["title"], line["label"]) == (title, label):
                cells = zip(table["columns"], line["cells"], strict=True)
                return {column["name"]: cell["mean"] for column, cell in cells if cell is not None}
    raise SystemExit(f"figures.json has no line “{label}” in “{title}”")
