"""Charts of runs: regret over the steps, and errors against labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.chart_import import import_charts
from releaf.evaluate.ledger import Ledger, account, thin_steps
from releaf.plot.named_results import named_results
from releaf.policy import Trace
from releaf.streams import Stream

POINTS = 498  # maximum number of points of a line


def regret(results: Any, *, stream: Stream | None = None, log: bool = False) -> Any:
    """Cumulative regret over the steps, a line per policy; several runs are averaged and their range is shaded.

    Parameters
    ----------
    results
        A ledger of :func:`releaf.evaluate.run`, or a trace of :func:`releaf.replay`; or several.
    stream
        The stream of the traces. A trace has no rewards of other actions; without its stream, 1 − reward is summed,
        which counts errors if rewards are 0 and 1.
    log
        Logarithmic axes, on which a power law is a straight line.
    """
    charts = import_charts()
    runs = _curves(results, stream)
    rows = [row for name, curves in runs.items() for row in _line(name, [(run.steps, run.lost) for run in curves])]
    if log:
        rows = [row for row in rows if row["y"] > 0 and row.get("lowest", 1) > 0]
        if not rows:
            raise ValueError("log=True: there is no regret above 0 to draw on a logarithmic axis")
    drawn = charts.lines(rows, "steps", f"cumulative {_loss_name(runs)}", list(runs), log)
    return charts.finished(drawn.properties(width=charts.WIDTH, height=charts.HEIGHT))


def labels(results: Any, *, stream: Stream | None = None, over_time: bool = False, budget: float | None = None) -> Any:
    """Errors against the number of labels, a dot per run; or labels over the steps, a line per policy.

    Labels used before the first decision count too.

    Parameters
    ----------
    results, stream
        As for :func:`regret`.
    over_time
        Draw labels over the steps.
    budget
        A number of labels to mark with a line.
    """
    charts = import_charts()
    runs = _curves(results, stream)
    if over_time:
        rows = [
            row for name, curves in runs.items() for row in _line(name, [(run.steps, run.labels) for run in curves])
        ]
        drawn = charts.lines(rows, "steps", "labels asked for", list(runs))
    else:
        rows = [
            {"x": float(run.labels[-1]), "y": run.error, "series": name}
            for name, curves in runs.items()
            for run in curves
        ]
        drawn = charts.dots(rows, "labels", f"{_loss_name(runs, 'errors')}, %", list(runs))
    if budget is not None:
        drawn = _with_budget(charts, drawn, _positive("budget", budget), down=not over_time)
    return charts.finished(drawn.properties(width=charts.WIDTH, height=charts.HEIGHT))


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or not value > 0:
        raise ValueError(f"{name} must be a number above 0, got {name}={value!r}")
    return float(value)


class _Curves(NamedTuple):
    """Cumulative loss and labels of a run at some steps, and its error in percent."""

    steps: Array
    lost: Array
    labels: Array
    error: float
    is_regret: bool


def _curves(results: Any, stream: Stream | None) -> dict[str, list[_Curves]]:
    runs = {name: [_curves_of(run, stream) for run in given] for name, given in named_results(results).items()}
    if len({run.is_regret for given in runs.values() for run in given}) > 1:
        raise ValueError("results are both ledgers and traces: expected stream=, so that the regret of all is known")
    return runs


def _curves_of(run: Any, stream: Stream | None) -> _Curves:
    if isinstance(run, Trace) and stream is not None:
        if len(run) != len(stream):
            raise ValueError(f"stream has {len(stream)} steps, a trace has {len(run)}: expected the stream it is from")
        run = account(run, stream, points=POINTS)
    if isinstance(run, Ledger):
        if "regret" not in run.curves:
            raise ValueError("a ledger is of a log, by rejection: expected one of a stream, whose regret is known")
        steps, lost, asked = (np.asarray(run.curves[name]) for name in ("steps", "regret", "labels"))
        at = thin_steps(len(steps), POINTS)
        return _Curves(steps[at], lost[at], asked[at] + run.prior_labels, run.error, True)
    if not isinstance(run, Trace):
        raise TypeError(f"results must be ledgers of releaf.evaluate.run or traces of releaf.replay, got {run!r}")
    if not len(run):
        raise ValueError("a trace is empty: expected at least one step")
    missed = 1.0 - run.rewards
    if not ((missed >= 0) & (missed <= 1)).all():
        raise ValueError("a trace has rewards outside of [0, 1]: expected stream=, to compute the regret")
    at = thin_steps(len(run), POINTS)
    return _Curves(
        at + 1.0, np.cumsum(missed)[at], np.cumsum(run.observed)[at].astype(float), 100.0 * float(missed.mean()), False
    )


def _loss_name(runs: dict[str, list[_Curves]], known: str = "regret") -> str:
    return known if next(iter(runs.values()))[0].is_regret else "1 − reward"


def _line(name: str, curves: list[tuple[Array, Array]]) -> list[dict[str, Any]]:
    """Points of a line; for several runs, their mean and range at the steps of the shortest."""
    steps = min((steps for steps, _ in curves), key=lambda steps: float(steps[-1]))
    heights = np.array([np.interp(steps, *curve) for curve in curves])
    rows = [
        {"x": float(step), "y": float(height), "series": name}
        for step, height in zip(steps, heights.mean(axis=0), strict=True)
    ]
    if len(curves) > 1:
        for row, lowest, highest in zip(rows, heights.min(axis=0), heights.max(axis=0), strict=True):
            row |= {"lowest": float(lowest), "highest": float(highest)}
    return rows


def _with_budget(charts: Any, drawn: Any, budget: float, down: bool) -> Any:
    """Add a dashed line at a number of labels, vertical or horizontal."""
    base = charts.Chart(charts.altair.Data(values=[{"budget": budget, "text": f"budget {budget:,g}"}]))
    where = {"x" if down else "y": "budget:Q"}
    rule = base.mark_rule(strokeDash=[5, 4], color=charts.GREY, strokeWidth=1.5).encode(**where)
    above = {"y": charts.altair.value(0)} if down else {"x": charts.altair.value("width")}
    offset: dict[str, Any] = {"dy": -9} if down else {"dx": 6, "align": "left"}
    text = base.mark_text(color="#555555", fontSize=12, **offset).encode(text="text:N", **where, **above)
    return charts.Layers(layer=[drawn, rule, text])
