"""Error against labels: geometric means over data sets at each budget, as findings, a table and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.labels.policies import ALL
from benchmarks.labels.runs import BUDGETS, OWN_ORDER, parsed
from benchmarks.measure import Finding
from benchmarks.quality import statistics
from benchmarks.quality.pictures import colours, styled
from benchmarks.quality.suite import Size
from benchmarks.quality.sweep import Results
from benchmarks.quality.tables import of_kind
from releaf.report.terminal import table

PERCENT = [0.5, 1, 2, 5, 10, 20, 30, 40, 50]
SHUFFLED, OWN = "shuffled", "own order"


def findings(sizes: dict[str, Size], results: Results) -> list[Finding]:
    """For each order, policy and budget: the geometric mean of its loss over the data sets that all finished."""
    found = []
    for order in (SHUFFLED, OWN):
        losses = _losses(results, order)
        data_sets = [data for data in sizes if all(data in each for each in losses.values())]
        for method, each in losses.items():
            if data_sets:
                found.append(_point(method, order, each, data_sets, sizes, results))
    return found


def _losses(results: Results, order: str) -> dict[str, dict[str, float]]:
    """Mean losses by method and data set."""
    losses: dict[str, dict[str, float]] = {}
    for (data, method), outcomes in results.items():
        values = [outcome.loss for outcome in outcomes if outcome.loss is not None]
        if values and data.endswith(OWN_ORDER) == (order == OWN):
            losses.setdefault(method, {})[data.removesuffix(OWN_ORDER)] = float(np.mean(values))
    return losses


def _point(
    method: str,
    order: str,
    losses: dict[str, float],
    data_sets: Sequence[str],
    sizes: dict[str, Size],
    results: Results,
) -> Finding:
    asking, budget = parsed(method)
    mean = statistics.geometric_mean([max(losses[data], 0.5 / sizes[data].steps) for data in data_sets])
    names = [data + OWN_ORDER if order == OWN else data for data in data_sets]
    labels = float(np.mean([outcome.labels for data in names for outcome in results[data, method]]))
    detail: dict[str, Any] = {"policy": asking.name, "bandit": asking.bandit, "order": order, "budget": budget}
    detail |= {"labels": labels, "data_sets": len(data_sets), "losses": losses}
    of = "all rewards" if budget == ALL else f"{budget:,} labels"
    what = f"{asking.name}, {of}, {order}: loss, geometric mean"
    return Finding(what=what, value=100 * mean, unit="%", detail=detail)


def tables(found: list[Finding]) -> list[Table]:
    rows = [{**finding.detail, "mean": finding.value} for finding in found]
    return [_table(rows, order) for order in (SHUFFLED, OWN) if any(row["order"] == order for row in rows)]


def _table(rows: list[dict[str, Any]], order: str) -> Table:
    mine = [row for row in rows if row["order"] == order]
    made = table(
        f"Loss with few labels, {order}: {mine[0]['data_sets']} data sets",
        "Geometric means of the lost reward in percent of all steps. A logistic regression is told the right action "
        "for each label, which is more than the reward of the action taken. All but AdaptiveReleaf know the length of "
        "the stream. all: every reward is learnt.",
    )
    made.add_column("policy", no_wrap=True)
    for budget in BUDGETS:
        made.add_column(f"{budget:,}", justify="right")
    made.add_column("all", justify="right")
    for policy in dict.fromkeys(row["policy"] for row in mine):
        means = {row["budget"]: f"{row['mean']:.1f}" for row in mine if row["policy"] == policy}
        made.add_row(policy, *(means.get(budget, "") for budget in (*BUDGETS, ALL)))
    return made


def save(found: list[Finding], folder: Path, suffix: str = "") -> None:
    """Write the picture into a folder, as SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    picture(found).save(str(folder / f"quality-labels{suffix}.svg"))


def picture(found: list[Finding]) -> Any:
    """Loss against the budget, a line for each policy; broken for those that are told right actions."""
    import altair

    points = of_kind(found, "budget")
    rows = [
        {"policy": row["policy"], "order": row["order"], "labels": row["budget"], "loss": finding.value}
        | {"told": "rewards" if row["bandit"] else "right actions"}
        for finding, row in zip(found, points, strict=True)
        if row["budget"] != ALL
    ]
    names = list(dict.fromkeys(row["policy"] for row in rows))
    x = altair.X(
        "labels:Q",
        title="labels",
        scale=altair.Scale(type="log", nice=False, padding=12),
        axis=altair.Axis(values=list(BUDGETS)),
    )
    y = altair.Y(
        "loss:Q",
        title="lost reward, %",
        scale=altair.Scale(type="log", nice=False, padding=12),
        axis=altair.Axis(values=PERCENT),
    )
    dashes = altair.StrokeDash("told:N", title=None, scale=altair.Scale(range=[[1, 0], [4, 3]]))
    base = altair.Chart().encode(x=x, y=y, color=colours(altair, "policy", names))
    layers = altair.layer(
        base.mark_line(strokeWidth=2).encode(strokeDash=dashes),
        base.mark_circle(size=70, opacity=1, stroke="white", strokeWidth=0.8),
        data=altair.Data(values=rows),
    )
    facets = layers.properties(width=380, height=320).facet(
        column=altair.Column("order:N", title=None, sort=[SHUFFLED])
    )
    told = altair.Title(
        "Loss against the number of labels",
        subtitle="Geometric means over data sets with more than 2,000 steps.",
    )
    return styled(altair, facets.properties(title=told))
