"""Measured regret against Theorem 5's exponent, and against a learner that ignores relevance."""

from __future__ import annotations

from typing import Any

import numpy as np

from releaf import theory
from releaf.evaluate import Ledger, Run
from releaf.paper.experiment import Results, curves, seeded_runs
from releaf.report.figures import Column, Figures, Line, Picture

# d, D, and the steps that are affordable; γ_rel = 2 looks at all quadruples of features.
CASES = {(1, 5): 1_000_000, (1, 20): 500_000, (1, 50): 250_000, (2, 6): 250_000, (2, 20): 5_000}
ZOOMING = {(1, 5): 50_000, (1, 20): 20_000}
EXPONENT = (
    Column("exponent of T", digits=3),
    Column("regret a step at the end", digits=4),
    Column("steps (T)", digits=0),
)


def fitted_exponent(ledger: Ledger, start: int = 1_000) -> float | None:
    """The slope of ln regret against ln T from ``start`` on; None for runs that are hardly longer."""
    if ledger.steps < 5 * start:
        return None
    steps = np.geomspace(start, ledger.steps, 40)
    return float(np.polyfit(np.log(steps), np.log(_regret_at(ledger, steps)), 1)[0])


def waves_of_splits(rho: float, steps: int) -> list[float]:
    """The steps at which intervals of level 0, 1, … have all split, where contexts are uniform and halves are made.

    An interval of level l splits at 2^(ρl) arrivals and has a share of 2^(-l) of them, so all of that level are done
    2^((1+ρ)l) steps after those of the level before.
    """
    ends = [1.0]
    while ends[-1] <= steps:
        ends.append(ends[-1] + 2.0 ** ((1 + rho) * len(ends)))
    return ends[:-1]


def exponent_between_waves(ledger: Ledger, rho: float) -> float | None:
    """The growth of RELEAF's regret from one wave of splits to the next, as an exponent of T.

    Each wave brings explorations, then a long rest; a slope that ends in a rest flatters. So regret is compared at
    equal phases of the last two waves that are over, and the slopes are averaged over the phases. None for runs
    that are shorter.
    """
    ends = waves_of_splits(rho, ledger.steps)
    if len(ends) < 3:
        return None
    earlier, later = ends[-2:]
    phases = np.geomspace(1.0, ledger.steps / later, 20)
    growth = np.log(_regret_at(ledger, phases * later)) - np.log(_regret_at(ledger, phases * earlier))
    return float(np.mean(growth) / np.log(later / earlier))


def _regret_at(ledger: Ledger, steps: Any) -> Any:
    return np.maximum(np.interp(steps, ledger.curves["steps"], ledger.curves["regret"]), 1e-9)


class Bounds:
    """Regret over time for d = 1, 2 and D up to 50."""

    name = "bounds"
    title = "Regret against Theorem 5"

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        runs = []
        for (d, features), affordable in CASES.items():
            arguments, steps = {"gamma_rel": d, "lipschitz": 1.0}, affordable // (20 if quick else 1)
            runs += self._runs(seeds, "RELEAF", "Releaf", arguments, d, features, steps)
        for (d, features), affordable in ZOOMING.items():
            steps = affordable // (2 if quick else 1)
            runs += self._runs(seeds, "CZ", "ContextualZooming", {}, d, features, steps)
        return runs

    def _runs(
        self, seeds: int, name: str, policy: str, arguments: dict[str, Any], d: int, features: int, steps: int
    ) -> list[Run]:
        stream = {"steps": steps, "features": features, "actions": 2, "gamma_rel": d, "lipschitz": 1.0}
        return seeded_runs(seeds, f"{name}, d = {d}, D = {features}", policy, arguments, "generate", stream)

    def figures(self, results: Results) -> list[Figures]:
        lines = []
        for label, ledgers in results.items():
            d, features = (int(part.split("=")[1]) for part in label.split(", ")[1:])
            rho = theory.balanced_rho(d)
            if label.startswith("CZ"):
                bound, found = (features + 1) / (features + 2), [fitted_exponent(ledger) for ledger in ledgers]
            else:
                bound, found = rho / (1 + rho), [exponent_between_waves(ledger, rho) for ledger in ledgers]
            slopes = [slope for slope in found if slope is not None]
            losses, steps = [ledger.regret / ledger.steps for ledger in ledgers], [float(ledgers[0].steps)]
            lines.append(Line(label, (bound, None, None), (slopes, losses, steps)))
        caption = (
            "The bound's exponent is g = ρ*/(1+ρ*) of Theorem 5 for RELEAF, (D+1)/(D+2) for learners "
            "that ignore relevance. RELEAF's exponents compare regret at equal phases of two waves of splits, and need "
            "a stream that has two; those of CZ are fitted from step 1,000 on. Two actions, L = 1, uniform contexts, "
            "RELEAF with its practical control numbers (divided by 5000), for which no theorem speaks."
        )
        return [Figures("Growth of the regret", EXPONENT, lines, caption, "the bound")]

    def pictures(self, results: Results) -> list[Picture]:
        rows = [row for row in curves(results, results, "regret") if row["x"] >= 100 and row["y"] > 0]
        longest = max(row["x"] for row in rows)
        for d, features in ((1, 20), (2, 6)):
            for steps in np.geomspace(100, longest, 30).astype(int).tolist():
                bound = theory.general_bounds(steps, features=features, actions=2, d_rel=d).total
                rows.append({"series": f"bound of Theorem 5, d = {d}, D = {features}", "x": steps, "y": float(bound)})
        caption = (
            "Both axes are logarithmic; linear regret has slope 1. The theorem's bounds are for control numbers that "
            "are not divided, and far above what is measured."
        )
        return [Picture("Regret over time", "lines", rows, "step", "regret so far", log=True, caption=caption)]
