"""`releaf demo --notebook`: write a notebook that runs top to bottom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.markup import escape

from releaf.cli.console import console, error_messages, fail, print_json

CELLS = (
    (
        "markdown",
        """\
# releaf in five minutes

A page shows each visitor one of four teasers, and a click is the reward. Which features matter for which teaser, what
would have been the best choice, and what is that worth? This notebook uses a generated log with *planted* relevance,
so that every answer can be compared with the truth.""",
    ),
    (
        "code",
        """\
import releaf
from releaf import evaluate, streams

log = streams.planted_log(20_000, seed=0)
log.contexts[0]""",
    ),
    (
        "markdown",
        """\
## What are the columns?

`Schema.guess` takes dates apart, and leaves out identifiers and propensities. A pandas or polars table works, too.""",
    ),
    (
        "code",
        """\
schema = releaf.Schema.guess({name: log.columns[name] for name in log.contexts[0]})
schema""",
    ),
    (
        "markdown",
        """\
## Learn from the log

The first time this compiles for some seconds. Half of the log is for learning, the other half for evaluation.""",
    ),
    (
        "code",
        """\
half = len(log.contexts) // 2
bandit = releaf.AdaptiveReleaf(log.actions, schema, seed=0)
bandit.learn_log(log.contexts[:half], log.columns["action"][:half], log.columns["reward"][:half])
bandit""",
    ),
    ("markdown", "## Which features matter for which action?\n\nThe shares of each action add up to 1."),
    ("code", "bandit.relevance()"),
    ("code", "log.relevant  # the truth"),
    (
        "markdown",
        """\
## Why this action?

An explanation goes from an action's base rate, feature by feature, to its estimate here.""",
    ),
    (
        "code",
        """\
decision = bandit.decide(log.contexts[half])
decision""",
    ),
    ("code", "bandit.explain(decision)"),
    (
        "markdown",
        """\
## What is it worth?

Off-policy evaluation estimates the mean reward of another policy from the log's propensities. Here the true one is
known: the probability of a click on every teaser.""",
    ),
    (
        "code",
        """\
import numpy as np

later = streams.Log(
    contexts=log.contexts[half:],
    taken=np.array([log.actions.index(action) for action in log.columns["action"][half:]]),
    rewards=log.columns["reward"][half:],
    probabilities=log.columns["probability"][half:],
    features=schema,
    actions=log.actions,
)
chosen = evaluate.choices(bandit, later)
estimate = evaluate.snips(later, chosen)
truth = log.expected[half:][np.arange(len(chosen)), chosen].mean()
print(f"the log's own policy:  {later.rewards.mean():.3f}")
print(f"AdaptiveReleaf:        {estimate.value:.3f} (95 % from {estimate.low:.3f} to {estimate.high:.3f})")
print(f"the truth:             {truth:.3f}")""",
    ),
    (
        "markdown",
        """\
## Go on, one visitor at a time

`decide` and `learn` go on from here: a reward may come days later, by the decision's id.""",
    ),
    (
        "code",
        """\
generator = np.random.default_rng(0)
clicks = []
for context, rates in zip(log.contexts[half : half + 500], log.expected[half : half + 500]):
    decision = bandit.decide(context)
    clicks.append(float(generator.random() < rates[decision.index]))
    if decision.wants_reward:
        bandit.learn(decision.id, clicks[-1])
print(f"{np.mean(clicks):.0%} of 500 visitors clicked")
bandit.save("teasers.releaf")""",
    ),
)


def write_notebook(path: Path, force: bool, as_json: bool) -> None:
    """Write the notebook; refuses to replace a file unless ``force`` is set."""
    if path.suffix != ".ipynb":
        fail(f"--output is {str(path)!r}: expected a name that ends in .ipynb")
    if path.exists() and not force:
        fail(f"{path} exists: name another file with --output, or replace it with --force")
    with error_messages():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(notebook(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if as_json:
        print_json({"file": str(path), "cells": len(CELLS)})
        return
    console.print(f"{escape(str(path))} has {len(CELLS)} cells. Next: jupyter lab {escape(str(path))}", highlight=False)


def notebook() -> dict[str, Any]:
    """The notebook as nbformat 4.5, without outputs."""
    cells = [_cell(number, kind, text) for number, (kind, text) in enumerate(CELLS)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _cell(number: int, kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})
