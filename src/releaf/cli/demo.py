"""`releaf demo`: RELEAF and AdaptiveReleaf on the breast-cancer data."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from releaf.cli.console import Json, console, error_messages, print_json, progress_bar

ADAPTIVE = "AdaptiveReleaf"
# Colours of the heat map, from 0 to 100 %.
SHADES = ("#f7fbff", "#deebf7", "#c6dbef", "#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#084594")
PALE_TEXT_FROM = 4
STEPS = 50_000  # as in the paper


def demo(
    seeds: Annotated[int, typer.Option(min=1, help="Number of shuffles to average over.")] = 10,
    steps: Annotated[int, typer.Option(min=1000, help="Number of decisions per run.")] = 50_000,
    budget: Annotated[int, typer.Option(min=10, help="Label budget of AdaptiveReleaf.")] = 1_000,
    as_json: Json = False,
) -> None:
    """Diagnose breast cancer: RELEAF next to the paper's figures, and AdaptiveReleaf with few labels.

    Shows the errors and labels of each, the relevance of each feature to each action, and the explanation of one
    decision.
    """
    from releaf.evaluate import execute

    runs = _runs(seeds, steps, budget)
    results: dict[str, list[Any]] = {}
    with error_messages(), progress_bar() as progress:
        task = progress.add_task("", total=len(runs))
        for run in runs:
            first = "compiled once, " if not run.seed else ""
            progress.update(task, description=f"{run.label}, {first}shuffle {run.seed + 1} of {seeds}")
            results.setdefault(run.label, []).append(execute(run))
            progress.advance(task)
    if as_json:
        print_json({name: [_figures_of(ledger) for ledger in ledgers] for name, ledgers in results.items()})
        return
    console.print(_decided(results, seeds, steps))
    console.print(
        f"Errors in %; the paper counts those of exploitations, over {STEPS:,} cases.\n"
        "The cases repeat 499 rows, so every learner meets each of them many times.\n",
        style="dim",
        highlight=False,
    )
    console.print(_relevance(results))
    console.print(
        "RELEAF: share of exploitations in which the feature was the relevant one; the\n"
        "paper names four. AdaptiveReleaf: share of what its model explains.\n",
        style="dim",
        highlight=False,
    )
    console.print(_one_decision(steps, budget), highlight=False, markup=False, width=80)


def _runs(seeds: int, steps: int, budget: int) -> list[Any]:
    from releaf.evaluate import Run
    from releaf.paper.settings import VARIANTS, releaf_arguments

    policies: dict[str, tuple[str, dict[str, Any]]] = {
        name: ("Releaf", releaf_arguments(observe)) for name, observe in VARIANTS.items()
    }
    policies[ADAPTIVE] = (ADAPTIVE, {"label_budget": budget})
    return [
        Run(
            label=name,
            stream="breast_cancer",
            stream_arguments={"steps": steps, "seed": seed},
            policy=policy,
            policy_arguments=arguments,
            seed=seed,
            positive="malignant",
        )
        for name, (policy, arguments) in policies.items()
        for seed in range(seeds)
    ]


def _figures_of(ledger: Any) -> dict[str, Any]:
    """The figures of a run, without its curves."""
    return {name: value for name, value in ledger.to_dict().items() if name not in ("curves", "partition")}


def _decided(results: dict[str, list[Any]], seeds: int, steps: int) -> Table:
    """Errors and labels of each learner, next to the paper's figures."""
    from releaf.paper.breast_cancer import PAPER, labels_of
    from releaf.report.number_format import format_mean
    from releaf.report.terminal import table

    runs = "one shuffle" if seeds == 1 else f"mean of {seeds} shuffles ± 95 % interval"
    made = table(f"Breast cancer: {steps:,} cases, {runs}", "")
    made.add_column("", no_wrap=True)
    for heading in ("labels", "exploiting", "all decisions"):
        made.add_column(heading, justify="right", no_wrap=True)
        if heading != "all decisions":
            made.add_column("paper", justify="right", no_wrap=True, style="dim")
    for name, ledgers in results.items():
        error, *_, labels = PAPER.get(name, (None, None))
        made.add_row(
            name,
            format_mean([labels_of(ledger) for ledger in ledgers], 0),
            "" if labels is None else f"{labels:,.0f}",
            format_mean([ledger.exploitation_error for ledger in ledgers], 2),
            "" if error is None else f"{error:.2f}",
            format_mean([ledger.error for ledger in ledgers], 2),
        )
    return made


def _relevance(results: dict[str, list[Any]]) -> Table:
    """Heat map of the relevance of each feature to each action, for both learners."""
    import numpy as np

    from releaf.paper.breast_cancer import PAPER_RELEVANCE
    from releaf.report.terminal import table
    from releaf.streams import breast_cancer

    cases = breast_cancer(1)
    shares = {
        name: np.mean([np.array(ledger.relevance) for ledger in results[name]], axis=0) for name in ("RELEAF", ADAPTIVE)
    }
    made = table("Which features matter for which action, %", "")
    made.add_column("", no_wrap=True)
    for name in shares:
        for index, action in enumerate(cases.actions):
            made.add_column(f"{name if index == 0 else ''}\n{action}", justify="right", no_wrap=True)
        if name == "RELEAF":
            made.add_column("paper\nbenign", justify="right", style="dim", no_wrap=True)
    for feature in np.argsort(-shares["RELEAF"][0]):
        theirs = PAPER_RELEVANCE.get(int(feature) + 1)
        ours = {name: [_tile(float(share)) for share in found[:, feature]] for name, found in shares.items()}
        printed = f"{theirs:.0f}" if theirs else ""
        made.add_row(cases.features[feature].replace("_", " "), *ours["RELEAF"], printed, *ours[ADAPTIVE])
    return made


def _tile(share: float) -> Text:
    """A share in percent, on a background that is darker for higher shares."""
    shade = min(int(2 * share * len(SHADES)), len(SHADES) - 1)  # 50 % has the darkest colour
    colour = "white" if shade >= PALE_TEXT_FROM else "black"
    return Text(f"{100 * share:5.0f}  ", style=f"{colour} on {SHADES[shade]}")


def _one_decision(steps: int, budget: int) -> str:
    """Explanation of one decision of AdaptiveReleaf, after one run."""
    import releaf
    from releaf.streams import breast_cancer

    cases = breast_cancer(steps, seed=0)
    bandit = releaf.AdaptiveReleaf(cases.actions, cases.features, seed=0, label_budget=budget)
    bandit.replay(cases.contexts, cases.rewards)
    malignant = int(cases.rewards[:, 1].argmax())
    return f"One case explained\n{bandit.explain(bandit.decide(cases.contexts[malignant]))}"
