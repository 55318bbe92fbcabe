"""The figures of `releaf demo`: RELEAF and AdaptiveReleaf on the breast-cancer data."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.table import Table
from rich.text import Text

from releaf.cli.console import console, error_messages, print_json, progress_bar

ADAPTIVE = "AdaptiveReleaf"
# Colours of the heat map, from 0 to 100 %.
SHADES = ("#f7fbff", "#deebf7", "#c6dbef", "#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#084594")
PALE_TEXT_FROM = 4
STEPS = 50_000  # as in the paper
CONSTRUCTED = b"constructed\n"


def show_figures(seeds: int, steps: int, budget: int, as_json: bool) -> None:
    """Run all learners, and print their errors and labels, relevance, and an explanation."""
    from releaf.evaluate import execute

    runs = _runs(seeds, steps, budget)
    results: dict[str, list[Any]] = {}
    with error_messages(), progress_bar() as progress, _compiled_beside() as wait_for_adaptive:
        task = progress.add_task("", total=len(runs))
        for run in runs:
            first = "compiled once, " if not run.seed else ""
            progress.update(task, description=f"{run.label}, {first}shuffle {run.seed + 1} of {seeds}")
            if run.label == ADAPTIVE:
                wait_for_adaptive()
            results.setdefault(run.label, []).append(execute(run))
            progress.advance(task)
    if as_json:
        print_json({name: [_figures_of(ledger) for ledger in ledgers] for name, ledgers in results.items()})
        return
    console.print(_decided(results, seeds, steps))
    console.print(
        f"Errors in %; the paper counts those of exploitations, over {STEPS:,} cases.\n"
        "RELEAF-FO asks half as often as RELEAF, since a label serves both actions. The\n"
        "paper gives both the same number of labels; its 1.68 % was not reproduced.\n"
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


@contextmanager
def _compiled_beside() -> Iterator[Callable[[], object]]:
    """Compile kernels in a second process, where none are compiled yet: it takes half of the time on two cores.

    This process compiles RELEAF's kernels meanwhile. It yields a function that waits until an AdaptiveReleaf was
    constructed, whose kernels this process would compile too; at the end, those of explanations are compiled.
    """
    from releaf.core.runtime.jit import kernel_cache

    kernels = kernel_cache()
    if kernels.compiled or not kernels.writable:
        yield lambda: None
        return
    program = "from releaf.cli.demo_figures import compile_adaptive; compile_adaptive()"
    variables = os.environ | {"RELEAF_QUIET": "1"}
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", program], stdout=subprocess.PIPE, env=variables
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline
        process.wait()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def compile_adaptive() -> None:
    """Compile the kernels of AdaptiveReleaf that its replay does without."""
    import releaf

    bandit = releaf.AdaptiveReleaf(2, 2, seed=0)
    sys.stdout.buffer.write(CONSTRUCTED)
    sys.stdout.flush()
    bandit.relevance()
    bandit.explain([0.5, 0.5])


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
