"""Theorems 2 and 3: how explorations grow with T, and where exploring costs as much as exploiting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from operator import attrgetter
from typing import Any

import numpy as np

from releaf import theory
from releaf.evaluate import Ledger, Run
from releaf.paper.experiment import Results, seeded_runs
from releaf.report.figures import Column, Figures, Line, Picture

BALANCED = theory.balanced_rho(1)
RHOS = (3.5, 4.0, 4.5, BALANCED, 5.5, 6.0, 7.0, 8.0)
DIVISORS = (100, 1000, 5000)
STEPS = 500_000
STREAM = {"features": 3, "actions": 2, "lipschitz": 1.0}
FEWEST = 300  # steps before which nothing is fitted


def label_of(rho: float, divisor: int) -> str:
    return f"ρ = {rho:.2f}, divisor {divisor}"


def exploration_exponent(ledger: Ledger, rho: float) -> float | None:
    """The slope of ln explorations against ln T, over steps that are a whole level apart.

    Uniform contexts fill all intervals of a level within a factor 2^(1+ρ) of time, and each new level starts with
    explorations. In between the count rises in stairs, so only steps at the same place of a stair are comparable.
    None where nearly all steps are explorations, or the run is shorter than two stairs.
    """
    stairs = math.floor(math.log2(ledger.steps / FEWEST) / (1 + rho))
    steps = ledger.steps / 2.0 ** ((1 + rho) * np.arange(stairs + 1))
    explored = np.exp(np.interp(np.log(steps), np.log(ledger.curves["steps"]), np.log(ledger.curves["explored"])))
    if stairs < 1 or (explored > 0.9 * steps).any():
        return None
    return float(np.polyfit(np.log(steps), np.log(explored), 1)[0])


def crossing(rhos: Sequence[float], exploring: Sequence[float], exploiting: Sequence[float]) -> float | None:
    """The first ρ at which the regret of exploring falls to that of exploiting; None where it does not."""
    ratio = np.log(np.maximum(exploring, 1e-9)) - np.log(np.maximum(exploiting, 1e-9))
    for index in range(1, len(rhos)):
        before, after = ratio[index - 1], ratio[index]
        if before > 0 >= after:
            return float(rhos[index - 1] + (rhos[index] - rhos[index - 1]) * before / (before - after))
    return None


def bounds_crossing(horizon: int) -> float | None:
    """The ρ at which the bounds of Theorems 1 and 2 are equal after so many steps."""
    rhos = np.linspace(2.0, 12.0, 1001).tolist()
    given: dict[str, Any] = {"features": STREAM["features"], "lipschitz": STREAM["lipschitz"]}
    exploring = [theory.exploration_bound(horizon, actions=2, rho=rho, **given) for rho in rhos]
    return crossing(rhos, exploring, [theory.exploitation_bound(horizon, rho=rho, **given) for rho in rhos])


class Balance:
    """Explorations and both parts of the regret, for ρ around ρ* = 2+2√2."""

    name = "balance"
    title = "Exploring against exploiting"

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        steps = STEPS // (10 if quick else 1)
        runs = []
        for divisor, rho in product(DIVISORS, RHOS):
            arguments = {"lipschitz": 1.0, "rho": rho, "control_divisor": divisor}
            runs += seeded_runs(
                seeds, label_of(rho, divisor), "Releaf", arguments, "generate", {**STREAM, "steps": steps}
            )
        return runs

    def figures(self, results: Results) -> list[Figures]:
        return [_growth(results), _crossings(results)]

    def pictures(self, results: Results) -> list[Picture]:
        return [_exponents(results), _regrets(results)]


def _growth(results: Results) -> Figures:
    columns = (*(Column(f"divisor {divisor}", digits=3) for divisor in DIVISORS), Column("4/(1+ρ)", digits=3))
    lines = []
    for rho in RHOS:
        fitted = [_fitted(results, rho, divisor) for divisor in DIVISORS]
        bounds = (4 / rho,) * len(DIVISORS)
        lines.append(Line(f"ρ = {rho:.2f}", (*bounds, None), (*fitted, [4 / (1 + rho)])))
    caption = (
        "Theorem 2 bounds explorations by T^(4/ρ)·ln T for any contexts, in which the shortest intervals have level "
        "log₂(T)/ρ. Uniform contexts, as here, reach level log₂(T)/(1+ρ), for which the same count gives 4/(1+ρ). The "
        "theorem is for divisor 1, with which these streams are explored to the end up to ρ*. With 5000 most cells "
        "need one or two rewards, whatever their size, and the exponent falls below both. At ρ ≤ 4 the bound is "
        "vacuous. – where nearly all steps are explorations, or the stream is too short."
    )
    return Figures("Explorations grow as T to the power of", columns, lines, caption, "4/ρ")


def _fitted(results: Results, rho: float, divisor: int) -> list[float]:
    found = (exploration_exponent(ledger, rho) for ledger in results.get(label_of(rho, divisor), []))
    return [slope for slope in found if slope is not None]


def _crossings(results: Results) -> Figures:
    columns = (Column("R_O = R_I at ρ", digits=2), Column("R_O at ρ*", digits=0), Column("R_I at ρ*", digits=0))
    lines = []
    for divisor in DIVISORS:
        exploring, exploiting = (_parts(results, divisor, part) for part in ("exploring", "exploiting"))
        found = [crossing(RHOS, *pair) for pair in zip(exploring, exploiting, strict=True)]
        at = RHOS.index(BALANCED)
        ours = (
            [rho for rho in found if rho is not None],
            [run[at] for run in exploring],
            [run[at] for run in exploiting],
        )
        lines.append(Line(f"divisor {divisor}", (BALANCED, None, None), ours))
    steps = next(iter(results.values()))[0].steps
    caption = (
        f"After {steps:,} steps. ρ* balances the exponents of the bounds, not the regrets of a stream of given length: "
        "those depend on constants, of which the divisor is one. The bounds of Theorems 1 and 2 themselves are equal "
        f"at ρ = {bounds_crossing(steps):.2f} after as many steps, where both are far above the number of steps."
    )
    return Figures("Where exploring costs as much as exploiting", columns, lines, caption, "ρ*")


def _parts(results: Results, divisor: int, part: str) -> list[list[float]]:
    """The regret of "exploring" or "exploiting" for each seed and ρ."""
    find = attrgetter(f"regret_{part}")
    columns = [[find(ledger) for ledger in results[label_of(rho, divisor)]] for rho in RHOS]
    return [list(row) for row in zip(*columns, strict=True)]


def _exponents(results: Results) -> Picture:
    rows = []
    for divisor in DIVISORS:
        slopes = {rho: _fitted(results, rho, divisor) for rho in RHOS}
        rows += [_point(f"divisor {divisor}", rho, float(np.mean(found))) for rho, found in slopes.items() if found]
    rows += [_point("Theorem 2: 4/ρ", rho, 4 / rho) for rho in RHOS]
    rows += [_point("uniform contexts: 4/(1+ρ)", rho, 4 / (1 + rho)) for rho in RHOS]
    caption = "Measured exponents are fitted over steps that are a factor 2^(1+ρ) apart, one level of intervals."
    return Picture("Growth of explorations", "lines", rows, "ρ", "exponent of T", "", log=True, caption=caption)


def _regrets(results: Results) -> Picture:
    rows = []
    for divisor in DIVISORS:
        for name, part in (("R_O", "exploring"), ("R_I", "exploiting")):
            means = np.mean(_parts(results, divisor, part), axis=0)
            series = f"{name}, divisor {divisor}"
            rows += [_point(series, rho, float(mean)) for rho, mean in zip(RHOS, means, strict=True) if mean > 0]
    ends = min(row["y"] for row in rows), max(row["y"] for row in rows)
    rows += [_point(f"ρ* = {BALANCED:.2f}", BALANCED, end) for end in ends]
    caption = (
        "Both axes are logarithmic. R_O, the regret of explorations, falls as ρ grows, R_I, that of exploitations, "
        "rises. R_O falls in steps: where ρ is so large that a level of intervals is not reached before the stream "
        "ends, the explorations of that level are saved."
    )
    return Picture("Regret of exploring and exploiting", "lines", rows, "ρ", "regret", "", log=True, caption=caption)


def _point(series: str, x: float, y: float) -> dict[str, Any]:
    return {"series": series, "x": x, "y": y}
