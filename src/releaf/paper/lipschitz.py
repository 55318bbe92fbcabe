"""Sensitivity of RELEAF and contextual zooming to the Lipschitz constant L, which the paper's text promises."""

from __future__ import annotations

from typing import Any

import numpy as np

from releaf.evaluate import Run
from releaf.paper.breast_cancer import labels_of
from releaf.paper.experiment import Results, line
from releaf.paper.settings import releaf_arguments
from releaf.report.figures import Column, Figures, Picture

CONSTANTS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
STREAMS: dict[str, dict[str, Any]] = {
    "breast cancer": {"stream": "breast_cancer", "positive": "malignant", "steps": 50_000},
    "network intrusion": {"stream": "intrusion", "positive": "attack", "steps": 20_000},
}
COLUMNS = (
    Column("error %", lambda ledger: ledger.error),
    Column("exploitation error %", lambda ledger: ledger.exploitation_error),
    Column("labels", labels_of, 0),
)


def _label(policy: str, constant: float, stream: str) -> str:
    return f"{policy}, L = {constant:g}, {stream}"


class Lipschitz:
    """Errors over a range of L on both labelled data sets."""

    name = "lipschitz"
    title = "Sensitivity to L"

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        runs = []
        for stream, about in STREAMS.items():
            steps = about["steps"] // (10 if quick else 1)
            for constant in CONSTANTS[::2] if quick else CONSTANTS:
                policies = {
                    "RELEAF": ("Releaf", releaf_arguments(lipschitz=constant)),
                    "CZ": ("ContextualZooming", {"lipschitz": constant}),
                }
                runs += [
                    Run(
                        label=_label(name, constant, stream),
                        stream=about["stream"],
                        stream_arguments={"steps": steps} | ({} if about["stream"] == "intrusion" else {"seed": seed}),
                        policy=policy,
                        policy_arguments=given,
                        seed=seed,
                        positive=about["positive"],
                    )
                    for name, (policy, given) in policies.items()
                    for seed in range(seeds)
                ]
        return runs

    def figures(self, results: Results) -> list[Figures]:
        lines = [line(label, COLUMNS, results) for label in results]
        caption = (
            "All other settings as in the experiments on the two data sets. The paper blames CZ's L = 0.5. A smaller L "
            "asks RELEAF for more observations in each cell, in proportion to 1/L², and lets fewer features be "
            "candidates for relevance."
        )
        return [Figures("Sensitivity to L", COLUMNS, lines, caption)]

    def pictures(self, results: Results) -> list[Picture]:
        rows = []
        for label, ledgers in results.items():
            policy, constant, stream = label.split(", ")
            error = float(np.mean([ledger.error for ledger in ledgers]))
            rows.append({"series": f"{policy}, {stream}", "x": float(constant.removeprefix("L = ")), "y": error})
        return [Picture("Error against L", "lines", rows, "L", "error of all decisions, %", log="x")]
