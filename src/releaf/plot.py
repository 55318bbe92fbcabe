"""Altair charts of learners and runs: relevance, regret, labels and partitions; and of off-policy evaluation.

Notebooks display them, and ``chart.save("x.png")``, ``"x.svg"`` or ``"x.html"`` writes a file that needs no network.
They are Altair charts, so ``chart.properties(title="Clicks")`` and the like work.

Functions take one result, a list of results, or a mapping from names to results, in which a list holds several runs of
one policy, for example with different seeds. Results of a list are named by their policy.

>>> import releaf
>>> from releaf.evaluate import run
>>> from releaf.streams import breast_cancer
>>> cases = breast_cancer(2_000)
>>> bandit = releaf.Releaf(cases.actions, cases.features, seed=0)
>>> ledger = run(bandit, cases)
>>> chart = releaf.plot.relevance(bandit)
>>> chart = releaf.plot.regret({"RELEAF": ledger})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.chart_import import import_charts
from releaf.datetimes import Trend
from releaf.evaluate.ledger import Ledger, account, thin_steps
from releaf.features import Continuous, Feature
from releaf.inspection import Interval
from releaf.off_policy_charts import calibration, estimates, overlap, sensitivity, weights
from releaf.policy import Policy, Trace
from releaf.streams import Stream

__all__ = [
    "calibration",
    "estimates",
    "labels",
    "overlap",
    "partition",
    "regret",
    "relevance",
    "sensitivity",
    "weights",
]

POINTS = 498  # maximum number of points of a line
MAX_WRITTEN = 200  # tiles up to which a heat map shows values
MAX_INTERVALS = 24  # features
MAX_EFFECTS = 9  # features
MAX_CATEGORIES = 12  # of a feature, those with the largest effects
COLUMNS = 3  # of the grid of effects
MIN_TILE = 48  # width in points of a tile with a number
LETTER = 7  # maximum width of a letter in points


def relevance(
    results: Any, *, actions: Sequence[Any] | None = None, features: Sequence[str] | None = None, most: int = 60
) -> Any:
    """Heat map of the relevance of each feature to each action, the most relevant features first.

    Parameters
    ----------
    results
        A learner with a method ``relevance``, or the ledger of its run; or several. Results of one name are averaged.
    actions, features
        Names, which a ledger does not have; those of the learner when None.
    most
        Maximum number of features, the most relevant ones.
    """
    charts = import_charts()
    maps = {name: _shared_table(name, runs, actions, features) for name, runs in _named(results).items()}
    highest = max(float(table.shares.max()) for table in maps.values()) or 1.0
    best: dict[str, float] = {}  # highest share of each feature, the sort key of all maps
    for table in maps.values():
        for feature, share in zip(table.features, table.shares.max(axis=0), strict=True):
            best[feature] = max(best.get(feature, 0.0), float(share))
    tiles = [_heat_map(charts, name, table, best, highest, most) for name, table in maps.items()]
    if len(tiles) == 1:
        return charts.finished(tiles[0])
    return charts.finished(charts.Grid(concat=tiles, columns=2).resolve_scale(x="independent", y="independent"))


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


def partition(learner: Policy | Ledger, feature: int | str | None = None, *, most: int | None = None) -> Any:
    """Partitions or effects of a learner's features.

    For :class:`releaf.Releaf` and other learners with a method ``partition``: the intervals of each feature, darker
    with more arrivals. For :class:`releaf.AdaptiveReleaf`: the additive effect of each feature on the estimate of each
    action, over the feature's range (see its method ``effect``), the most relevant features first.

    Parameters
    ----------
    learner
        A learner, or the ledger of its run if it has intervals.
    feature
        One feature, by name or position; when None, all of them.
    most
        Maximum number of features, the most relevant ones; when None, 24 with intervals and 9 with effects.
    """
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise ValueError(f"most must be a whole number of at least 1, got most={most!r}")
    if isinstance(learner, Policy) and learner.traits.has_effects:
        return _effects(learner, feature, most or MAX_EFFECTS)
    if _has_intervals(learner):
        return _intervals(learner, feature, most or MAX_INTERVALS)
    raise ValueError(f"{learner!r} has neither partitions nor effects: expected Releaf, GreedyReleaf or AdaptiveReleaf")


def _has_intervals(learner: Policy | Ledger) -> bool:
    if isinstance(learner, Ledger):
        return learner.partition is not None
    return isinstance(learner, Policy) and learner.traits.has_intervals


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or not value > 0:
        raise ValueError(f"{name} must be a number above 0, got {name}={value!r}")
    return float(value)


# --- runs -------------------------------------------------------------------------------------------------


class _Curves(NamedTuple):
    """Cumulative loss and labels of a run at some steps, and its error in percent."""

    steps: Array
    lost: Array
    labels: Array
    error: float
    is_regret: bool


def _named(results: Any) -> dict[str, list[Any]]:
    """Results by name; a learner is named by its class, a run of a list by its policy, or else by its position."""
    if isinstance(results, Mapping):
        named = {str(name): list(runs) if isinstance(runs, list | tuple) else [runs] for name, runs in results.items()}
    elif isinstance(results, list | tuple):
        named = {}
        for index, result in enumerate(results, start=1):
            known = result.policy if isinstance(result, Ledger | Trace) else type(result).__name__
            name = known or f"run {index}"
            named[name if name not in named else f"{name} {index}"] = [result]
    else:
        named = {"": [results]}
    if not named or not all(named.values()):
        raise ValueError(f"results must not be empty, got {results!r}")
    return named


def _curves(results: Any, stream: Stream | None) -> dict[str, list[_Curves]]:
    runs = {name: [_curves_of(run, stream) for run in given] for name, given in _named(results).items()}
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


# --- relevance --------------------------------------------------------------------------------------------


class _Table(NamedTuple):
    """Relevance of each feature to each action (A × D), and their names."""

    shares: Array
    actions: list[str]
    features: list[str]


def _shared_table(name: str, given: list[Any], actions: Any, features: Any) -> _Table:
    """Mean of the relevance tables of one name."""
    tables = [_table_of(source, actions, features) for source in given]
    if len({(*table.actions, "", *table.features) for table in tables}) > 1:
        raise ValueError(f"results of {name!r} have different actions or features: expected the same, to average them")
    return tables[0]._replace(shares=np.mean([table.shares for table in tables], axis=0))


def _table_of(source: Any, actions: Any = None, features: Any = None) -> _Table:
    shares = _shares_of(source)
    if isinstance(source, Ledger):
        own_actions, own_features = range(shares.shape[0]), [f"x{index}" for index in range(shares.shape[1])]
    else:
        own_actions, own_features = source.actions, source.schema.names
    return _Table(shares, _names("actions", actions, own_actions), _names("features", features, own_features))


def _shares_of(source: Any) -> Array:
    found: Any = source.relevance if isinstance(source, Ledger) else None
    if isinstance(source, Policy) and source.traits.finds_relevance:
        found = source.relevance()
    if found is None:
        raise ValueError(
            f"{_kind(source)} has no relevance: expected a learner with a method relevance, or the ledger of its run"
        )
    return np.asarray(found, dtype=np.float64)


def _kind(source: Any) -> str:
    return "the ledger of a policy that" if isinstance(source, Ledger) else type(source).__name__


def _names(what: str, given: Any, own: Any) -> list[str]:
    names = [str(name) for name in (own if given is None else given)]
    if len(names) != len(own) or len(set(names)) < len(names):
        raise ValueError(f"{what} must be {len(own)} different names, got {given!r}")
    return names


def _heat_map(charts: Any, name: str, table: _Table, best: Mapping[str, float], highest: float, most: int) -> Any:
    """Heat map with features as rows, since their names are long, and actions as columns."""
    order = sorted(range(len(table.features)), key=lambda index: -best[table.features[index]])[:most]
    rows = [
        {"x": action, "y": table.features[index], "value": float(table.shares[row, index])}
        for index in order
        for row, action in enumerate(table.actions)
    ]
    longest = max(len(action) for action in table.actions)
    wide, angle = max(MIN_TILE, LETTER * longest + 10), 0
    if wide > MIN_TILE and wide * len(table.actions) > charts.WIDTH:  # names don't fit side by side
        wide, angle = MIN_TILE, -40
    tiles = charts.heat(
        rows,
        None,
        None,
        highest=highest,
        written=len(rows) <= MAX_WRITTEN,
        orient="top",
        labelAngle=angle,
        labelLimit=200,
    )
    left_out = len(table.features) - len(order)
    cut = f"the {len(order)} most relevant of {len(table.features)} features" if left_out else ""
    title = {"title": ": ".join(part for part in (name, cut) if part)} if name or cut else {}
    return tiles.properties(
        width=wide * len(table.actions), height=(24 if len(order) <= 30 else 16) * len(order), **title
    )


# --- partitions and effects -------------------------------------------------------------------------------


def _shown(learner: Policy | Ledger, names: Sequence[str], feature: int | str | None, most: int) -> list[int]:
    """Positions of the features to show: the given one, or the most relevant first."""
    if feature is not None:
        if not isinstance(learner, Ledger):
            return [learner.schema.index(feature)]
        if not isinstance(feature, int) or not 0 <= feature < len(names):
            raise ValueError(f"unknown feature {feature!r}; the ledger has features 0 to {len(names) - 1}")
        return [feature]
    order = np.argsort(-_table_of(learner).shares.max(axis=0), kind="stable")
    return [int(index) for index in order[:most]]


def _partitions(source: Policy | Ledger) -> tuple[Sequence[str], Sequence[Feature], Callable[[int], list[Interval]]]:
    """Names of the features, the features, and the function that returns the intervals of one."""
    if not isinstance(source, Ledger):
        return source.schema.names, source.schema.features, source.partition
    stored = source.partition or []
    names = [f"x{index}" for index in range(len(stored))]
    return (
        names,
        [Continuous()] * len(stored),
        lambda index: [Interval(a, b, None, int(n)) for a, b, n in stored[index]],
    )


def _intervals(learner: Policy | Ledger, feature: int | str | None, most: int) -> Any:
    charts = import_charts()
    names, features, intervals_of = _partitions(learner)
    indices = sorted(_shown(learner, names, feature, most))
    kinds = [features[index] for index in indices]
    low, high, axis = 0.0, 1.0, "value, scaled to [0, 1]"
    if len(kinds) == 1 and type(kinds[0]) is Continuous:  # the parts of a date have no plain scale
        low, high, axis = kinds[0].low, kinds[0].high, "value"
    rows, end = [], 1.0
    for index, kind in zip(indices, kinds, strict=True):
        for start, stop, _, arrivals in intervals_of(index):
            row: dict[str, Any] = {"y": names[index], "value": arrivals, "where": "missing", "text": "missing"}
            if start == start:
                row |= {"where": kind.describe(start, stop), "text": None}
                if kind.categories and LETTER * len(row["where"]) <= charts.WIDTH * (stop - start):
                    row["text"] = row["where"].removeprefix("equal to ").strip("'")
            else:  # to the right of all others
                start, stop, end = 1.02, 1.12, 1.12
            rows.append({**row, "low": low + start * (high - low), "high": low + stop * (high - low)})
    ticks = None if end == 1.0 else np.linspace(low, high, 6).tolist()  # no ticks over the missing values
    drawn = charts.intervals(rows, axis, domain=(low, low + end * (high - low)), values=ticks)
    return charts.finished(drawn.properties(width=charts.WIDTH, height=26 * len(indices) + 10))


def _effects(learner: Policy, feature: int | str | None, most: int) -> Any:
    charts = import_charts()
    indices = _shown(learner, learner.schema.names, feature, most)
    effects = [learner.effect(index) for index in indices]
    amounts = [point.amount for effect in effects for points in effect.values() for point in points]
    low, high = min(amounts), max(amounts)
    margin = max(0.05 * (high - low), 0.01 * (learner.reward_range[1] - learner.reward_range[0]))
    limits = (low - margin, high + margin)
    actions = [str(action) for action in learner.actions]
    size = {"width": charts.WIDTH, "height": charts.HEIGHT} if len(indices) == 1 else {"width": 210, "height": 150}
    parts = []
    for turn, (index, effect) in enumerate(zip(indices, effects, strict=True)):
        title = "added to the estimate" if turn % COLUMNS == 0 else None
        kind = learner.schema.features[index]
        rows = _effect_rows(effect, kind.categories > 0)
        if kind.categories:
            part = charts.points(rows, title, actions, limits)
        else:
            part = charts.effect(rows, title, actions, limits, over_time=isinstance(kind, Trend))
        left_out = kind.categories - MAX_CATEGORIES
        cut = f" ({MAX_CATEGORIES} of {MAX_CATEGORIES + left_out} categories)" if left_out > 0 else ""
        parts.append(part.properties(title=learner.schema.names[index] + cut, **size))
    return charts.finished(parts[0] if len(parts) == 1 else charts.Grid(concat=parts, columns=COLUMNS))


def _milliseconds(value: Any) -> Any:
    """A date as the number that Vega takes; numbers unchanged."""
    return value.replace(tzinfo=UTC).timestamp() * 1e3 if isinstance(value, datetime) else value


def _effect_rows(effect: Mapping[Any, Any], are_categories: bool) -> list[dict[str, Any]]:
    """Points of a feature's effects; of many categories, those with the largest effects."""
    rows = [
        {"x": point.value, "y": point.amount, "series": str(action)}
        for action, points in effect.items()
        for point in points
    ]
    if not are_categories:
        return [{**row, "x": _milliseconds(row["x"])} for row in rows]
    strengths: dict[Any, float] = {}
    for row in rows:
        row["x"] = "missing" if row["x"] is None else str(row["x"])
        strengths[row["x"]] = max(strengths.get(row["x"], 0.0), abs(row["y"]))
    shown = sorted(strengths, key=lambda name: -strengths[name])[:MAX_CATEGORIES]
    return [row for row in rows if row["x"] in shown]
