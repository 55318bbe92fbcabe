"""The paper's network-intrusion experiment."""

from __future__ import annotations

from typing import Any

from releaf.evaluate import Run
from releaf.paper.breast_cancer import labels_of
from releaf.paper.experiment import Results, curves, line
from releaf.paper.settings import (
    BASELINES,
    ENSEMBLES,
    FURTHER,
    PAIRS,
    PAIRS_TEXT,
    SAMPLE,
    SETTINGS_TEXT,
    VARIANTS,
    releaf_arguments,
    vote_arguments,
)
from releaf.report.figures import Column, Figures, Picture

STEPS, TRAINING = 20_000, 30_000
# Table `tab:schemeintrusion`: error %, exploitation error %, labels. WM's and TrackExp's figures are of column R1 of
# the table on ACAP that the paper's source has commented out; AM's, Online AdaBoost's and Blum's are there too.
PAPER: dict[str, tuple[float | None, ...]] = {
    "AM": (3.07, None, 0),
    "Adaboost": (3.1, None, 1_500),
    "Online Adaboost": (2.25, None, 20_000),
    "Blum": (1.64, None, 20_000),
    "CZ": (53.0, None, 20_000),
    "Hybrid-ε": (8.8, None, 20_000),
    "LinUCB": (0.27, None, 20_000),
    "WM": (0.29, None, None),
    "TrackExp": (0.52, None, None),
    "RELEAF": (1.19, 0.24, 398),
    "RELEAF-ALL": (1.07, 0.22, 20_000),
    "RELEAF-FO": (0.68, 0.24, 229),
}
# Table `tab:relevancefreq`: share of exploitations in which a feature (from 1) was relevant to "predict attack".
PAPER_RELEVANCE = {1: 45.0, 15: 40.0, 2: 7.0, 4: 5.0}
COLUMNS = (
    Column("error %", lambda ledger: ledger.error),
    Column("exploitation error %", lambda ledger: ledger.exploitation_error),
    Column("labels", labels_of, 0),
)
# Slivkins' own confidence radii, with which his balls shrink so slowly that the stream is over before.
SLOW = ("ContextualZooming", {"lipschitz": 0.5, "confidence": 4.0})
CONSECUTIVE, BY_STREAM = ", consecutive chunks", ", scaled by the stream"
ADAPTIVE: dict[str, dict[str, Any]] = {
    "AdaptiveReleaf": {},
    "AdaptiveReleaf, 250 labels at most": {"label_budget": 250},
}


class Intrusion:
    """Table of the network-intrusion simulations."""

    name = "intrusion"
    title = "Network intrusion"

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        steps = STEPS // 4 if quick else STEPS
        runs = []
        for seed in range(seeds):
            for name, observe in VARIANTS.items():
                runs.append(self._run(name, "Releaf", releaf_arguments(observe), seed, steps))
                runs.append(self._run(name + BY_STREAM, "Releaf", releaf_arguments(observe), seed, steps, steps))
            for name, further in PAIRS.items():
                runs.append(self._run(name, "Releaf", releaf_arguments(**further), seed, steps))
            for name, (policy, given) in {**BASELINES, "CZ, c = 4": SLOW, **FURTHER}.items():
                runs.append(self._run(name, policy, {**given, **self._votes(policy, seed, steps)}, seed, steps))
                if policy in ENSEMBLES:
                    chunks = self._votes(policy, None, steps)
                    runs.append(self._run(name + CONSECUTIVE, policy, {**given, **chunks}, seed, steps))
            for name, given in ADAPTIVE.items():
                runs.append(self._run(name, "AdaptiveReleaf", given, seed, steps))
        return runs

    def _run(
        self, label: str, policy: str, arguments: dict[str, Any], seed: int, steps: int, scaled_by: int | None = None
    ) -> Run:
        return Run(
            label=label,
            stream="intrusion",
            stream_arguments={"steps": steps, "scaled_by": scaled_by},
            policy=policy,
            policy_arguments=arguments,
            seed=seed,
            positive="attack",
        )

    def _votes(self, policy: str, seed: int | None, steps: int) -> dict[str, Any]:
        """Classifiers of 5,000 of the records that follow the stream each; AdaBoost's sample follows them.

        Six, whose records are dealt out at random, or, where the seed is None, eight consecutive chunks.
        """
        count = 8 if seed is None else 6
        size = 500 if steps < STEPS else TRAINING // 6
        training = count * TRAINING // 6
        cases = {"stream": "intrusion", "arguments": {"steps": training, "start": STEPS}}
        sample = {"stream": "intrusion", "arguments": {"steps": SAMPLE, "start": STEPS + training}}
        return vote_arguments(policy, {**cases, "count": count, "size": size, "seed": seed}, sample)

    def figures(self, results: Results) -> list[Figures]:
        chunks = [name + CONSECUTIVE for name, (policy, _) in {**BASELINES, **FURTHER}.items() if policy in ENSEMBLES]
        by_stream = [name + BY_STREAM for name in VARIANTS]
        paper = {**PAPER, **{name + BY_STREAM: PAPER[name] for name in VARIANTS}}
        names = (*VARIANTS, *by_stream, *PAIRS, *BASELINES, "CZ, c = 4", *FURTHER, *chunks, *ADAPTIVE)
        return [
            Figures(
                "Network intrusion",
                COLUMNS,
                [line(name, COLUMNS, results, paper.get(name.removesuffix(CONSECUTIVE), ())) for name in names],
                "The first 20,000 records of the KDD'99 10 % file, 15 features, scaled by the minimum and maximum of "
                f"the whole file, or, where a row says so, of the stream. {SETTINGS_TEXT}. {PAIRS_TEXT} CZ has the "
                "paper's L = 0.5. Base classifiers are of 6 × 5,000 later records, or, in the rows "
                "“consecutive chunks”, of 8 × 5,000. The stream is always the same, so policies that draw nothing at "
                "random don't vary.",
            )
        ]

    def pictures(self, results: Results) -> list[Picture]:
        rows = curves(results, (*VARIANTS, "LinUCB", "CZ", "Hybrid-ε", "AdaptiveReleaf"), "errors")
        return [Picture("Network intrusion: errors over time", "lines", rows, "step", "wrong verdicts so far")]
