"""Charts of off-policy evaluation: weights, overlap, calibration and sensitivity. :mod:`releaf.plot` exports them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.chart_import import import_charts
from releaf.evaluate.estimators import Estimate, importance_weights
from releaf.evaluate.propensities import Propensities
from releaf.evaluate.sensitivity import SensitivityBound
from releaf.statistics import effective_sample_size
from releaf.streams import Log

POINTS = 200  # of a curve
BINS = 40  # of a histogram
LEAST_SHOWN = 1e-4  # propensities below are shown there


def weights(log: Log, chosen: Any) -> Any:
    """Share of all weight that the heaviest rows carry, a line per policy; the name tells the effective sample size.

    The diagonal is a log that the policy itself made, in which all rows count alike. A line that rises at once means
    that a few rows decide the estimate.

    Parameters
    ----------
    log
        A log with propensities.
    chosen
        As for :func:`releaf.evaluate.ips`; or a mapping from names to it, for several policies.
    """
    charts = import_charts()
    policies = chosen if isinstance(chosen, Mapping) else {"policy": chosen}
    rows, names = [], []
    for policy, target in policies.items():
        drawn = np.sort(importance_weights(log, target))[::-1]
        total, squares = float(drawn.sum()), float((drawn**2).sum())
        if not total:
            raise ValueError(f"{policy!r} never takes a logged action: there are no weights to draw")
        names.append(f"{policy}: {effective_sample_size(total, squares):,.0f} effective rows")
        share = np.concatenate([[0.0], np.cumsum(drawn) / total])
        at = np.unique(np.linspace(0, len(drawn), POINTS).astype(int))
        rows += [{"x": float(i / len(drawn)), "y": float(share[i]), "series": names[-1]} for i in at]
    alt, unit = charts.altair, charts.altair.Scale(domain=[0.0, 1.0])
    x = alt.X("x:Q", title="share of rows, the heaviest first", scale=unit, axis=alt.Axis(format="%", tickCount=10))
    y = alt.Y("y:Q", title="share of the weight", scale=unit, axis=alt.Axis(format="%", tickCount=10))
    equal = charts.Chart(alt.Data(values=[{"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 1.0}]))
    curves = charts.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2)
    layers = [
        equal.mark_line(color=charts.GREY, strokeDash=[5, 4]).encode(x=x, y=y),
        curves.encode(
            x=x, y=y, color=charts.coloured(names), tooltip=["series:N", "x:Q", "y:Q"], **charts.dashed(names)
        ),
    ]
    return charts.finished(charts.Layers(layer=layers).properties(width=charts.WIDTH, height=charts.HEIGHT))


def overlap(propensities: Log | Propensities, chosen: Any = None) -> Any:
    """Histogram of propensities, a part per action: of the rows that took it, and of the rows in which a policy would.

    Where a policy would act and the log's propensities are near 0, nothing tells what it would earn.

    Parameters
    ----------
    propensities
        The result of :func:`releaf.evaluate.estimate_propensities`, which has the propensities of all actions; or a log
        with those of the taken actions.
    chosen
        Position of the policy's action in each row; with a log, only the rows in which it is the logged one are known.
    """
    charts = import_charts()
    log = propensities.log if isinstance(propensities, Propensities) else propensities
    if log.probabilities is None:
        raise ValueError("the log has no probabilities: see releaf.evaluate.estimate_propensities")
    parts = []
    known = log.probabilities if isinstance(propensities, Log) else np.append(log.probabilities, propensities.table)
    least = float(10.0 ** np.floor(np.log10(np.clip(known[known > 0].min(), LEAST_SHOWN, 0.1))))
    edges = np.geomspace(least, 1.0, BINS + 1)
    for index, action in enumerate(log.actions):
        series = {"logged": log.probabilities[log.taken == index]}
        if chosen is not None:
            wanted = np.asarray(chosen) == index
            if isinstance(propensities, Propensities):
                series["policy"] = propensities.table[wanted, index]
            else:
                series["policy, where logged"] = log.probabilities[wanted & (log.taken == index)]
        rows = [row for name, values in series.items() for row in _histogram(values, edges, name)]
        part = _bars(charts, rows, list(series), least).properties(width=270, height=130, title=str(action))
        parts.append(part)
    return charts.finished(charts.Grid(concat=parts, columns=2))


def calibration(propensities: Propensities, bins: int = 10) -> Any:
    """Estimated propensities against how often the action was taken, a line per action; on the diagonal both agree.

    Parameters
    ----------
    propensities
        The result of :func:`releaf.evaluate.estimate_propensities`.
    bins
        Number of groups of rows with similar propensities.
    """
    charts = import_charts()
    found = propensities.calibration(bins)
    names = [str(action) for action in propensities.log.actions]
    rows = [{"x": part.predicted, "y": part.observed, "series": str(part.action)} for part in found]
    end = max(max(part.predicted, part.observed) for part in found)
    diagonal = charts.Chart(charts.altair.Data(values=[{"x": 0.0, "y": 0.0}, {"x": end, "y": end}]))
    line = diagonal.mark_line(color=charts.GREY, strokeDash=[5, 4]).encode(x="x:Q", y="y:Q")
    base = charts.Chart(charts.altair.Data(values=rows)).encode(
        x=charts.altair.X("x:Q", title="estimated propensity"),
        y=charts.altair.Y("y:Q", title="share of rows that took the action"),
        color=charts.coloured(names),
        tooltip=["series:N", "x:Q", "y:Q"],
    )
    layers = [line, base.mark_line(strokeWidth=1.5), base.mark_circle(size=50, opacity=1)]
    return charts.finished(charts.Layers(layer=layers).properties(width=charts.HEIGHT, height=charts.HEIGHT))


def sensitivity(bounds: Sequence[SensitivityBound], value: float | None = None) -> Any:
    """Bounds of a policy's value over the strength of hidden confounding Λ, with 95 % intervals.

    Parameters
    ----------
    bounds
        The result of :func:`releaf.evaluate.sensitivity`.
    value
        A value to mark, for example the log's own mean reward.
    """
    charts = import_charts()
    alt = charts.altair
    if not bounds:
        raise ValueError("bounds must not be empty")
    data = charts.Chart(alt.Data(values=[bound._asdict() for bound in bounds]))
    x = alt.X(
        "lam:Q", title="Λ, the odds ratio that hidden confounders may have", scale=alt.Scale(zero=False, nice=False)
    )
    up = alt.Scale(zero=False)
    layers = [
        data.mark_area(opacity=0.2, color=charts.COLOURS[0]).encode(
            x=x, y=alt.Y("low95:Q", title="mean reward", scale=up), y2="high95:Q"
        ),
        data.mark_area(opacity=0.45, color=charts.COLOURS[0]).encode(x=x, y=alt.Y("low:Q", scale=up), y2="high:Q"),
    ]
    if value is not None:
        mark = charts.Chart(alt.Data(values=[{"y": float(value), "text": "the log's own"}]))
        layers.append(mark.mark_rule(strokeDash=[5, 4], color=charts.GREY).encode(y="y:Q"))
        text = mark.mark_text(align="right", dy=-7, dx=-4, color="#555555", fontSize=12)
        layers.append(text.encode(y="y:Q", x=alt.value("width"), text="text:N"))
    return charts.finished(charts.Layers(layer=layers).properties(width=charts.WIDTH, height=charts.HEIGHT))


def estimates(results: Mapping[str, Estimate | Mapping[str, Estimate]]) -> Any:
    """Estimates with their 95 % intervals, a line each.

    Parameters
    ----------
    results
        A mapping from names to estimates, such as :func:`releaf.evaluate.estimate_all` returns; or from policies to
        such mappings.
    """
    charts = import_charts()
    rows = []
    for name, found in results.items():
        parts = {name: found} if isinstance(found, Estimate) else {f"{name}, {kind}": e for kind, e in found.items()}
        rows += [{"y": key, "x": e.value, "low": e.low, "high": e.high} for key, e in parts.items()]
    if not rows:
        raise ValueError(f"results must not be empty, got {results!r}")
    drawn = charts.estimates(rows, "mean reward")
    return charts.finished(drawn.properties(width=charts.WIDTH, height=24 * len(rows) + 20))


def _histogram(values: Array, edges: Array, name: str) -> list[dict[str, Any]]:
    counts, _ = np.histogram(np.clip(values, edges[0], 1.0), bins=edges)
    return [
        {"low": float(low), "high": float(high), "rows": int(count), "base": 0, "series": name}
        for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
        if count
    ]


def _bars(charts: Any, rows: list[dict[str, Any]], names: list[str], least: float) -> Any:
    alt = charts.altair
    ticks = alt.Axis(values=[0.0001, 0.001, 0.01, 0.1, 1.0], format="~g", grid=False)
    scale = alt.Scale(type="log", domain=[least, 1.0], nice=False)
    return (
        charts.Chart(alt.Data(values=rows))
        .mark_bar(opacity=0.55)
        .encode(
            x=alt.X("low:Q", title="propensity", scale=scale, axis=ticks),
            x2="high:Q",
            y=alt.Y("rows:Q", title="rows", stack=None),
            y2="base:Q",
            color=charts.coloured(names),
            tooltip=["series:N", "low:Q", "high:Q", "rows:Q"],
        )
    )
