"""The paper's network-intrusion experiment."""

from __future__ import annotations

from typing import Any

from releaf.evaluate import Run
from releaf.paper.breast_cancer import labels_of
from releaf.paper.experiment import Column, Figures, Picture, Results, curves, line
from releaf.paper.settings import FURTHER, RIVALS, SAMPLE, VARIANTS, VOTING

# The paper tells none of them; a ρ a little above the balanced 2+2√2 gives its numbers of labels.
SETTINGS: dict[str, Any] = {"lipschitz": 1.0, "rho": 5.5, "delta": 0.01, "control_divisor": 5000}
STEPS, TRAINING = 20_000, 30_000
# error %, exploitation error %, labels
PAPER: dict[str, tuple[float | None, ...]] = {
    "AM": (3.07, None, 0),
    "Adaboost": (3.1, None, 1_500),
    "Online Adaboost": (2.25, None, 20_000),
    "Blum": (1.64, None, 20_000),
    "CZ": (53.0, None, 20_000),
    "Hybrid-ε": (8.8, None, 20_000),
    "LinUCB": (0.27, None, 20_000),
    "RELEAF": (1.19, 0.24, 398),
    "RELEAF-ALL": (1.07, 0.22, 20_000),
    "RELEAF-FO": (0.68, 0.24, 229),
}
# Share of exploitations in which a feature (counted from 1) was relevant to "predict attack".
PAPER_RELEVANCE = {1: 45.0, 15: 40.0, 2: 7.0, 4: 5.0}
COLUMNS = (
    Column("error %", lambda ledger: ledger.error),
    Column("exploitation error %", lambda ledger: ledger.exploitation_error),
    Column("labels", labels_of, 0),
)
# Slivkins' own confidence radii, with which his balls shrink so slowly that the stream is over before.
SLOW = ("ContextualZooming", {"lipschitz": 0.5, "confidence": 4.0})


class Intrusion:
    """Table of the network-intrusion simulations."""

    name = "intrusion"
    title = "Network intrusion"

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        steps = 5_000 if quick else STEPS
        stream: dict[str, Any] = {"stream": "intrusion", "stream_arguments": {"steps": steps}, "positive": "attack"}
        runs = []
        for seed in range(seeds):
            for name, observe in VARIANTS.items():
                made = {"observe": observe, **SETTINGS}
                runs.append(Run(label=name, policy="Releaf", policy_arguments=made, seed=seed, **stream))
            for name, (policy, given) in {**RIVALS, "CZ, c = 4": SLOW, **FURTHER}.items():
                arguments = {**given, **self._votes(policy, seed, steps)}
                runs.append(Run(label=name, policy=policy, policy_arguments=arguments, seed=seed, **stream))
        return runs

    def _votes(self, policy: str, seed: int, steps: int) -> dict[str, Any]:
        """Six classifiers of 5,000 records each, from those that follow the stream; AdaBoost's sample follows them."""
        if policy not in VOTING:
            return {}
        size = 500 if steps < STEPS else TRAINING // 6
        cases = {"stream": "intrusion", "arguments": {"steps": TRAINING, "start": STEPS, "scaled_by": steps}}
        given: dict[str, Any] = {"experts": {**cases, "count": 6, "size": size, "seed": seed}}
        if policy == "AdaBoost":
            arguments = {"steps": SAMPLE, "start": STEPS + TRAINING, "scaled_by": steps}
            given["sample"] = {"stream": "intrusion", "arguments": arguments, "size": SAMPLE}
        return given

    def figures(self, results: Results) -> list[Figures]:
        names = (*VARIANTS, *RIVALS, "CZ, c = 4", *FURTHER)
        return [
            Figures(
                "Network intrusion",
                COLUMNS,
                [line(name, COLUMNS, results, PAPER.get(name, ())) for name in names],
                "The first 20,000 records of the KDD'99 10 % file, 15 features. L = 1, ρ = 5.5, δ = 0.01, control "
                "numbers divided by 5000. Base classifiers of 6 × 5,000 later records. The stream is always the same, "
                "so policies that draw nothing at random don't vary.",
            )
        ]

    def pictures(self, results: Results) -> list[Picture]:
        rows = curves(results, (*VARIANTS, "LinUCB", "CZ", "Hybrid-ε"), "errors")
        return [Picture("Network intrusion: errors over time", "lines", rows, "step", "wrong verdicts so far")]
