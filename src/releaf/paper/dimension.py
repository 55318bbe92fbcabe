"""Regret against the number of features, at a fixed number of relevant ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from releaf.evaluate import Run
from releaf.paper.experiment import Results
from releaf.paper.settings import RELEAF, SETTINGS_TEXT
from releaf.report.figures import Column, Figures, Line, Picture

STEPS = 10_000  # affordable for RELEAF at D = 200, where each step looks at 19,900 pairs of features
DIMENSIONS = (5, 10, 20, 50, 100, 200)
QUICK_STEPS, QUICK_DIMENSIONS = 5_000, (5, 20, 50)
RELEVANT = [[0], [1]]  # of each of two actions
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "RELEAF": ("Releaf", RELEAF),
    "CZ": ("ContextualZooming", {}),
    "LinUCB": ("LinUCB", {}),
    "Random": ("Random", {}),
}
REGRET = (
    Column("regret a step", lambda ledger: ledger.regret / ledger.steps, 4),
    Column("explorations", lambda ledger: float(ledger.explored), 0),
)


class RegretAndDimension:
    """Regret at d = 1 for D from 5 to 200: the same problems, with more and more features that don't matter."""

    name = "regret-and-dimension"
    title = "Regret and the number of features"

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        steps, dimensions = (QUICK_STEPS, QUICK_DIMENSIONS) if quick else (STEPS, DIMENSIONS)
        return [
            Run(
                label=f"{name}, D = {features}",
                stream="generate",
                stream_arguments=_stream(steps, features, seed),
                policy=policy,
                policy_arguments=given,
                seed=seed,
            )
            for name, (policy, given) in POLICIES.items()
            for features in dimensions
            for seed in range(seeds)
        ]

    def figures(self, results: Results) -> list[Figures]:
        lines = []
        for label, ledgers in results.items():
            ours = tuple([float(column.find(ledger) or 0.0) for ledger in ledgers] for column in REGRET)
            lines.append(Line(label, (None,) * len(REGRET), ours))
        steps = next(iter(results.values()))[0].steps
        caption = (
            f"T = {steps:,}, two actions, one relevant feature each (d = 1), L = 1, noise ±0.1, uniform contexts. The "
            "expected rewards of a run are the same functions at every D: only irrelevant features are added. RELEAF: "
            f"{SETTINGS_TEXT}; defaults of the others. {growth_text(results)} The exponent of T in Theorem 5 does "
            "not depend on D, but the constants do: D(D − 1)/2 pairs of features are explored, and D − 1 is inside "
            "the logarithm of the control numbers. The figure shows how regret grows with D at this T; it does not "
            "show the exponent, and no theorem speaks for control numbers that are divided."
        )
        return [Figures("Regret against the number of features D", REGRET, lines, caption)]

    def pictures(self, results: Results) -> list[Picture]:
        rows = [
            {"series": name, "x": features, "y": regret}
            for label, ledgers in results.items()
            for name, features in [split(label)]
            for regret in [ledger.regret / ledger.steps for ledger in ledgers]
        ]
        caption = (
            "Means with 95 % intervals over the runs. The horizontal axis is logarithmic. Each run has the same "
            "problem at every D. “Random” is the regret of knowing nothing."
        )
        title = "Regret a step against the number of features"
        return [Picture(title, "means", rows, "features (D)", "regret a step", log="x", caption=caption)]


def _stream(steps: int, features: int, seed: int) -> dict[str, Any]:
    shape = {"steps": steps, "features": features, "actions": len(RELEVANT), "relevant": RELEVANT}
    return {**shape, "lipschitz": 1.0, "noise": 0.1, "problem": seed, "seed": seed}


def split(label: str) -> tuple[str, int]:
    """The policy's name and D of a label such as "RELEAF, D = 50"."""
    name, _, features = label.partition(", D = ")
    return name, int(features)


def growth_text(results: Results) -> str:
    """By what factor each policy's mean regret grows from the least to the most features, as a sentence."""
    regret: dict[str, dict[int, float]] = {}
    for label, ledgers in results.items():
        name, features = split(label)
        regret.setdefault(name, {})[features] = float(np.mean([ledger.regret for ledger in ledgers]))
    factors = [f"{name} {means[max(means)] / means[min(means)]:.2f}" for name, means in regret.items()]
    dimensions = [features for means in regret.values() for features in means]
    return f"From D = {min(dimensions)} to D = {max(dimensions)} regret grows by the factor {', '.join(factors)}."
