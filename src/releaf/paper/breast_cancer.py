"""The paper's breast-cancer experiment: the rows that its percentages are fractions of, and its table."""

from __future__ import annotations

from typing import Any

from releaf.evaluate import Ledger, Run
from releaf.paper.experiment import Results, curves, line
from releaf.paper.settings import (
    BASELINES,
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

STEPS, BUDGET = 50_000, 1_000
# Table `tab:schemes`: error %, missed %, false %, labels.
PAPER: dict[str, tuple[float | None, ...]] = {
    "AM": (8.22, 17.20, 4.09, 0),
    "Adaboost": (4.60, 3.82, 4.97, 1_500),
    "Online Adaboost": (4.68, 4.07, 4.95, 50_000),
    "Blum": (11.18, 27.12, 3.86, 50_000),
    "CZ": (3.15, 4.24, 2.89, 50_000),
    "Hybrid-ε": (8.83, 11.77, 7.48, 50_000),
    "LinUCB": (10.67, 7.27, 12.22, 50_000),
    "RELEAF": (1.88, 1.93, 1.86, 2_630),
    "RELEAF-ALL": (1.24, 1.19, 1.36, 50_000),
    "RELEAF-FO": (1.68, 1.34, 1.82, 2_630),
}
# Table `tab:relevancefreq`: share of exploitations in which a feature (from 1) was relevant to "predict benign".
PAPER_RELEVANCE = {3: 27.0, 1: 22.0, 7: 21.0, 2: 12.0}
HALF_OPEN = ", [a, b)"
ADAPTIVE: dict[str, dict[str, Any]] = {
    "AdaptiveReleaf": {},
    f"AdaptiveReleaf, {BUDGET:,} labels at most": {"label_budget": BUDGET},
}


def labels_of(ledger: Ledger) -> float:
    """Labels as the paper counts them: those observed, and those that AdaBoost's weights were made with."""
    return ledger.labels + ledger.weight_labels


def regret_with_labels(ledger: Ledger) -> float:
    """Regret of equation (1) where observing a label costs c_O = 1."""
    return ledger.regret + labels_of(ledger)


OF_EXPLOITATIONS = (
    Column("error %", lambda ledger: ledger.exploitation_error),
    Column("missed %", lambda ledger: ledger.exploitation_missed),
    Column("false %", lambda ledger: ledger.exploitation_false),
    Column("labels (cost at c_O = 1)", labels_of, 0),
    Column("error of all %", lambda ledger: ledger.error),
    Column("regret at c_O = 1", regret_with_labels, 0),
)
OF_ALL = (
    Column("error %", lambda ledger: ledger.error),
    Column("missed %", lambda ledger: ledger.missed),
    Column("false %", lambda ledger: ledger.false),
    Column("labels (cost at c_O = 1)", labels_of, 0),
    Column("regret at c_O = 1", regret_with_labels, 0),
)


class BreastCancer:
    """Table of the breast-cancer simulations."""

    name = "breast-cancer"
    title = "Breast cancer"

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        steps = STEPS // 10 if quick else STEPS
        runs = []
        for seed in range(seeds):
            stream = {"stream": "breast_cancer", "stream_arguments": {"steps": steps, "seed": seed}}
            mirrored = {**stream, "stream": "releaf.paper.mirrored:breast_cancer"}
            for name, observe in VARIANTS.items():
                runs.append(self._run(name, "Releaf", releaf_arguments(observe), seed, stream))
                runs.append(self._run(name + HALF_OPEN, "Releaf", releaf_arguments(observe), seed, mirrored))
            for name, further in PAIRS.items():
                runs.append(self._run(name, "Releaf", releaf_arguments(**further), seed, stream))
            for name, (policy, given) in {**BASELINES, **FURTHER}.items():
                runs.append(self._run(name, policy, {**given, **self._votes(policy, seed)}, seed, stream))
            for name, given in ADAPTIVE.items():
                runs.append(self._run(name, "AdaptiveReleaf", given, seed, stream))
        return runs

    def _run(self, label: str, policy: str, arguments: dict[str, Any], seed: int, stream: dict[str, Any]) -> Run:
        return Run(label=label, policy=policy, policy_arguments=arguments, seed=seed, positive="malignant", **stream)

    def _votes(self, policy: str, seed: int) -> dict[str, Any]:
        """Six classifiers of ten of the first 200 rows each; AdaBoost's weights from 1,500 cases of another shuffle."""
        cases = {"stream": "breast_cancer", "arguments": {"steps": 200, "seed": seed, "rows": "training"}}
        sample = {"stream": "breast_cancer", "arguments": {"steps": SAMPLE, "seed": 1_000 + seed}}
        return vote_arguments(policy, {**cases, "count": 6, "size": 10, "seed": seed}, sample)

    def figures(self, results: Results) -> list[Figures]:
        variants = [*VARIANTS, *(name + HALF_OPEN for name in VARIANTS), *PAIRS]
        releaf = [
            line(name, OF_EXPLOITATIONS, results, PAPER.get(name.removesuffix(HALF_OPEN), ())) for name in variants
        ]
        others = [line(name, OF_ALL, results, PAPER.get(name, ())) for name in (*BASELINES, *FURTHER, *ADAPTIVE)]
        return [
            Figures(
                "Breast cancer: RELEAF",
                OF_EXPLOITATIONS,
                releaf,
                "Errors are of exploitations: the paper's can be nothing else, for its 2,630 random explorations alone "
                f"cost 2.6 %. {SETTINGS_TEXT}. {PAIRS_TEXT} Intervals are (a, b] as printed; in "
                "the rows “[a, b)” they are closed on the other side, which matters here because 0.5 is both a value "
                "and a boundary.",
            ),
            Figures(
                "Breast cancer: baselines and AdaptiveReleaf",
                OF_ALL,
                others,
                "Errors are of all decisions. Every policy has its defaults. Base classifiers are of 6 × 10 cases of "
                "the first 200 rows. Rows below LinUCB are not in the paper's table.",
            ),
        ]

    def pictures(self, results: Results) -> list[Picture]:
        dots = [
            {"series": name, "x": labels_of(ledger), "y": ledger.error}
            for name in (*VARIANTS, *ADAPTIVE, "AM", "Adaboost", "CZ", "Hybrid-ε", "LinUCB")
            for ledger in results.get(name, [])
        ]
        explored = curves(results, VARIANTS, "explored")
        return [
            Picture(
                "Breast cancer: error against labels",
                "dots",
                dots,
                "labels observed",
                "error of all decisions, %",
                caption="Each dot is one shuffle of the cases.",
            ),
            Picture("Breast cancer: explorations over time", "lines", explored, "step", "explorations"),
        ]
