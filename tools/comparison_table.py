"""Table of the README: releaf beside other libraries, by features and by what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
NO, UNMEASURED = "no", "not measured"
HEADINGS = ["", "**releaf**", "VowpalWabbit", "MABWiser", "contextualbandits", "River", "obp"]
FEATURES = [
    ["finds the features that matter to each action", "yes", "weights", NO, NO, NO, NO],
    ["explains a decision, with intervals", "yes", NO, NO, NO, NO, NO],
    ["asks only for the rewards that it needs", "yes", NO, NO, NO, NO, NO],
    ["learns a late reward by the decision's id", "yes", NO, NO, NO, NO, NO],
    ["takes categories, dates, missing values as they are", "yes", "categories", NO, NO, NO, NO],
    ["learns from features of actions", "yes", "yes", NO, NO, NO, NO],
    ["has continuous actions", NO, "yes", NO, NO, NO, "estimates only"],
    ["off-policy estimates", "with intervals", "yes", NO, "yes", "replay", "the most kinds"],
    ["runs as a service", "with a durable log", "a daemon", NO, NO, NO, NO],
]
STEP_OF = {"releaf": "releaf", "VowpalWabbit": "VowpalWabbit, bare examples"}  # its fastest interface
LABELS = 100


def comparison() -> str:
    """All rows as Markdown: features first, then figures of benchmarks/results."""
    rows = [HEADINGS, ["---"] * len(HEADINGS), *FEATURES, *_errors(), _steps(), _labels()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _errors() -> list[list[str]]:
    """Loss over that of the same LinUCB, geometric mean, and time, each of the package's best policy.

    The loss of releaf is that of the latest run, with ten shuffles; times are of one run.
    """
    methods = [detail for detail in _details("quality-sealed") if "over_linucb" in detail]
    best = [
        min((each for each in methods if each["package"] == package), key=lambda each: each["over_linucb"])
        for package in ("releaf", "vowpalwabbit")
    ]
    (data_sets,) = {each["data_sets"] for each in methods}
    latest = min(each["over_linucb"] for each in _details("quality-sealed-ten") if "over_linucb" in each)
    errors = [latest, *(each["over_linucb"] for each in best[1:])]
    name = f"[errors](docs/adaptive.md#how-it-compares) over LinUCB's, {data_sets} data sets"
    return [
        [name, *(f"{each:.2f}" for each in errors), *[UNMEASURED] * 4],
        ["time of a step there", *(f"{each['microseconds']:.0f} µs" for each in best), *[UNMEASURED] * 4],
    ]


def _steps() -> list[str]:
    """Time to decide and learn one by one with a simple model."""
    (times,) = [detail["microseconds"] for detail in _details("libraries") if "microseconds" in detail]
    names = [heading.strip("*") for heading in HEADINGS[1:]]
    shown = [times.get(STEP_OF.get(name, name)) for name in names]
    where = "[time of a step](benchmarks/libraries.py), simplest models"
    return [where, *(UNMEASURED if time is None else f"{time:.0f} µs" for time in shown)]


def _labels() -> list[str]:
    """Loss with few labels, next to LinUCB's with all."""
    loss = {
        (each["policy"], each["budget"]): finding["value"]
        for finding in _findings("labels")
        for each in [finding["detail"]]
        if each["order"] == "shuffled"
    }
    few, everything = loss["AdaptiveReleaf", LABELS], loss["LinUCB", 0]
    name = f"[errors with {LABELS} labels](docs/adaptive.md#with-few-labels) (LinUCB with all: {everything:.1f} %)"
    return [name, f"{few:.1f} %", *[UNMEASURED] * 5]


def _details(name: str) -> list[dict[str, Any]]:
    return [finding["detail"] for finding in _findings(name)]


def _findings(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["findings"]
    return found
