"""What the runs amount to: loss by data set and method, ranks, and how far from the best each method is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.measure import Finding
from benchmarks.quality import catalogue, methods, suite
from benchmarks.quality.runs import Outcome, Results

Losses = dict[str, dict[str, list[float]]]  # by method and data set, one for each seed


def failures(results: Results) -> list[str]:
    """A line for each method that an error ended on a data set."""
    return [
        f"{name} failed on {data}: {outcome.failure}"
        for (data, name), outcomes in results.items()
        if (outcome := next((each for each in outcomes if each.failure), None))
    ]


def findings(sizes: dict[str, suite.Size], results: Results) -> list[Finding]:
    """All that is kept of the runs: methods, the best first, then data sets, then error against labels."""
    losses = _losses(results)
    least = {data: min(float(np.mean(each[data])) for each in losses.values() if data in each) for data in sizes}
    standings = [_standing(name, losses, least, sizes) for name in losses]
    standings.sort(key=lambda finding: finding.value)
    problems = [_problem(data, size, least[data], losses) for data, size in sizes.items()]
    return [*standings, *problems, *_frugal(results)]


def _losses(results: Results) -> Losses:
    """Without runs that took too long or failed, and without those about labels only."""
    losses: Losses = {}
    for (data, name), outcomes in results.items():
        found = [outcome.loss for outcome in outcomes if outcome.loss is not None]
        if found and methods.BY_NAME[name] in methods.METHODS:
            losses.setdefault(name, {})[data] = found
    return losses


def _standing(name: str, losses: Losses, least: dict[str, float], sizes: dict[str, suite.Size]) -> Finding:
    method, mine = methods.BY_NAME[name], losses[name]
    # Half a wrong action in the whole stream stands for none, so that there is a ratio to a perfect method.
    none = {data: 0.5 / sizes[data].steps for data in mine}
    ratios = {data: max(float(np.mean(mine[data])), none[data]) / max(least[data], none[data]) for data in mine}
    worst = max(ratios, key=lambda data: ratios[data])
    return Finding(
        what=f"{name}: loss over the best's, geometric mean",
        value=math.exp(np.mean(np.log(list(ratios.values())))),
        detail={
            "method": name,
            "package": method.package,
            "version": method.version,
            "settings": dict(method.settings),
            "mean_rank": float(np.mean([_rank(name, data, losses) for data in least])),
            "worst": float(ratios[worst]),
            "worst_on": worst,
            "data_sets": len(mine),
            "losses": {data: _spread(values) for data, values in mine.items()},
            "ratios": {data: float(ratio) for data, ratio in ratios.items()},
        },
    )


def _rank(name: str, data: str, losses: Losses) -> float:
    """Its place on a data set, shared among equals; who took too long there comes last."""
    every = np.array([np.mean(each.get(data, math.inf)) for each in losses.values()])
    mine = every[list(losses).index(name)]
    return float(1 + np.sum(every < mine) + (np.sum(every == mine) - 1) / 2)


def _spread(values: list[float]) -> dict[str, float]:
    """The mean over seeds and its standard error."""
    error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "standard_error": error, "seeds": len(values)}


def _problem(data: str, size: suite.Size, least: float, losses: Losses) -> Finding:
    best = min((name for name in losses if data in losses[name]), key=lambda name: np.mean(losses[name][data]))
    detail: dict[str, Any] = {"data": data, "source": catalogue.BY_NAME[data].package, "best": best}
    detail |= {"steps": size.steps, "features": size.features, "actions": size.actions}
    detail |= {"regret": size.regret, "passes": size.passes}
    kind = "regret" if size.regret else "error"
    return Finding(what=f"{data}: the least {kind}, by {best}", value=100 * least, unit="%", detail=detail)


def _frugal(results: Results) -> list[Finding]:
    """Error against the number of labels, for all that look at some of the rewards only, and for those next to them."""
    found = []
    for (data, name), outcomes in results.items():
        method = methods.BY_NAME[name]
        told = method in methods.FRUGAL or name in methods.NEXT_TO_FRUGAL
        done = [outcome for outcome in outcomes if outcome.loss is not None]
        if data in methods.FRUGAL_ON and told and done:
            found.append(_point(data, name, done))
    return sorted(found, key=lambda finding: (finding.detail["data"], finding.detail["labels"]))


def _point(data: str, name: str, outcomes: list[Outcome]) -> Finding:
    spread = _spread([outcome.loss for outcome in outcomes if outcome.loss is not None])
    labels = float(np.mean([outcome.labels for outcome in outcomes]))
    detail = {"data": data, "frugal": name, "labels": labels, **spread}
    return Finding(what=f"{data}: error of {name}", value=100 * spread["mean"], unit="%", detail=detail)
