"""What the runs amount to: standings, significant wins, cliques, data sets, and where AdaptiveReleaf loses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.measure import Finding
from benchmarks.quality import catalogue, methods, statistics
from benchmarks.quality.suite import Size
from benchmarks.quality.sweep import Results
from benchmarks.quality.tasks import Outcome

MOST = 0.9  # share of the data sets that a method of the first diagram finished on
OURS, REFERENCE = "AdaptiveReleaf", "LinUCB"
Losses = dict[str, dict[str, list[float]]]  # by method and data set, one for each seed
Sizes = dict[str, Size]


def findings(sizes: Sizes, results: Results) -> list[Finding]:
    """All that is kept of the runs: methods, the best first, then comparisons, data sets, and defeats."""
    losses, first_pass = _losses(results), _losses(results, first_pass=True)
    least, least_at_first = _least(losses), _least(first_pass)
    sizes = {data: size for data, size in sizes.items() if data in least}
    ranks = statistics.mean_ranks(losses, list(sizes))
    standings = []
    for name in losses:
        standing = _standing(name, losses, least, sizes, results)
        at_first = statistics.geometric_mean(list(_ratios(first_pass[name], least_at_first, sizes).values()))
        standings.append(standing | {"mean_rank": ranks[name], "over_best_in_first_pass": at_first})
    standings.sort(key=lambda standing: standing["over_best"])
    found = [
        Finding(what=f"{each['method']}: loss over the best's, geometric mean", value=each["over_best"], detail=each)
        for each in standings
    ]
    return [
        *found,
        _comparison(losses, sizes),
        *_diagrams(losses, sizes),
        *(_problem(data, size, least[data], losses) for data, size in sizes.items()),
        *_defeats(losses, sizes),
    ]


def _losses(results: Results, first_pass: bool = False) -> Losses:
    """Without runs that took too long or failed."""
    losses: Losses = {}
    for (data, name), outcomes in results.items():
        every = [outcome.first_pass if first_pass else outcome.loss for outcome in outcomes]
        found = [loss for loss in every if loss is not None]
        if found:
            losses.setdefault(name, {})[data] = found
    return losses


def _least(losses: Losses) -> dict[str, float]:
    """The lowest mean loss on each data set."""
    least: dict[str, float] = {}
    for each in losses.values():
        for data, values in each.items():
            least[data] = min(least.get(data, math.inf), float(np.mean(values)))
    return least


def _ratios(mine: dict[str, list[float]], least: dict[str, float], sizes: Sizes) -> dict[str, float]:
    return {data: statistics.ratio(float(np.mean(mine[data])), least[data], sizes[data].steps) for data in mine}


def _standing(name: str, losses: Losses, least: dict[str, float], sizes: Sizes, results: Results) -> dict[str, Any]:
    method, mine = methods.BY_NAME[name], losses[name]
    ratios = _ratios(mine, least, sizes)
    worst = max(ratios, key=lambda data: ratios[data])
    told = {data: _told(results[data, name], sizes[data].steps) for data in mine}
    return {
        "method": name,
        "package": method.package,
        "version": method.version,
        "settings": dict(method.settings),
        "over_best": statistics.geometric_mean(list(ratios.values())),
        "over_linucb": _over(mine, losses.get(REFERENCE, {}), sizes),
        "worst": ratios[worst],
        "worst_on": worst,
        "microseconds": float(np.median([each["microseconds"] for each in told.values()])),
        "megabytes": float(np.median([each["megabytes"] for each in told.values()])),
        "data_sets": len(mine),
        "seeds": max(map(len, mine.values())),
        "losses": told,
        "ratios": ratios,
    }


def _over(mine: dict[str, list[float]], other: dict[str, list[float]], sizes: Sizes) -> float | None:
    """Loss over another method's, on the data sets and shuffles that both ran on; a geometric mean."""
    common = [data for data in mine if data in other]
    pairs = {data: statistics.paired(mine[data], other[data]) for data in common}
    ratios = [statistics.ratio(*pairs[data], sizes[data].steps) for data in common]
    return statistics.geometric_mean(ratios) if ratios else None


def _told(outcomes: list[Outcome], steps: int) -> dict[str, float]:
    """The mean loss over seeds, its standard error, and what a run cost."""
    done = [outcome for outcome in outcomes if outcome.loss is not None]
    values = [outcome.loss for outcome in done if outcome.loss is not None]
    error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
    return {
        "mean": float(np.mean(values)),
        "standard_error": error,
        "seeds": len(values),
        "microseconds": float(np.median([outcome.seconds for outcome in done])) / steps * 1e6,
        "megabytes": float(np.median([outcome.megabytes for outcome in done])),
    }


def _comparison(losses: Losses, sizes: Sizes) -> Finding:
    """Significant wins of each method over each other, and those of AdaptiveReleaf less its losses, over all others."""
    wins = statistics.wins(losses, {data: size.examples for data, size in sizes.items()})
    balance = {name: sum(wins[name].values()) - sum(each[name] for each in wins.values()) for name in wins}
    what = "AdaptiveReleaf: significant wins less losses over all other methods"
    return Finding(what=what, value=balance.get(OURS, 0), unit="", detail={"wins": wins, "balance": balance})


def _diagrams(losses: Losses, sizes: Sizes) -> list[Finding]:
    """Mean ranks and cliques: of those that finished on nearly all data sets, and of all methods.

    Each on the data sets that all of these finished on; the second are small ones.
    """
    most = {name: each for name, each in losses.items() if len(each) >= MOST * len(sizes)}
    found = []
    for title, some in (("all", most), ("small", losses)):
        data_sets = [data for data in sizes if all(data in each for each in some.values())]
        if len(some) > 1 and len(data_sets) > 1:
            ranks, cliques = statistics.mean_ranks(some, data_sets), statistics.cliques(some, data_sets)
            detail = {"diagram": title, "data_sets": len(data_sets), "ranks": ranks, "cliques": cliques}
            what = f"AdaptiveReleaf: mean rank among {len(some)} methods on {len(data_sets)} data sets"
            found.append(Finding(what=what, value=ranks.get(OURS, 0.0), unit="", detail=detail))
    return found


def _problem(data: str, size: Size, least: float, losses: Losses) -> Finding:
    best = min((name for name in losses if data in losses[name]), key=lambda name: np.mean(losses[name][data]))
    of = catalogue.BY_NAME[data]
    detail: dict[str, Any] = {"data": data, "split": of.split, "source": of.package, "licence": of.licence}
    detail |= {"best": best, "steps": size.steps, "features": size.features, "categorical": size.categorical}
    detail |= {"actions": size.actions, "missing": size.missing, "regret": size.regret, "passes": size.passes}
    kind = "regret" if size.regret else "loss"
    return Finding(what=f"{data}: the least {kind}, by {best}", value=100 * least, unit="%", detail=detail)


def _defeats(losses: Losses, sizes: Sizes) -> list[Finding]:
    """Every data set on which another method has a lower loss than AdaptiveReleaf, the largest ratio first."""
    mine = losses.get(OURS, {})
    found = []
    for data, size in sizes.items():
        others = {
            name: statistics.paired(mine[data], each[data])
            for name, each in losses.items()
            if data in each and data in mine
        }
        ahead = {name: pair for name, pair in others.items() if pair[1] < pair[0]}
        if ahead:
            best = min(ahead, key=lambda name: ahead[name][1] / ahead[name][0])
            own, other = ahead[best]
            significant = [
                name for name, pair in ahead.items() if statistics.is_better(pair[1], pair[0], size.examples)
            ]
            detail = {"defeat": data, "by": best, "ours": own, "theirs": other, "ahead": len(ahead)}
            detail["significant"] = sorted(significant, key=lambda name: ahead[name][1])
            value = statistics.ratio(own, other, size.steps)
            found.append(Finding(what=f"AdaptiveReleaf loses on {data} to {best}", value=value, detail=detail))
    return sorted(found, key=lambda finding: -finding.value)
