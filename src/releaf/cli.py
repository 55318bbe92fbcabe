"""Commands a person types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from releaf._version import __version__

if TYPE_CHECKING:
    from releaf.paper.breast_cancer import Result

app = typer.Typer(
    help="Decide well while learning which information matters.",
    epilog="Example: releaf demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)
console = Console()
# 97.5 % quantiles of Student's t for 1, 2, … degrees of freedom; the last one serves for more.
T95 = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120)


def _version(show: bool) -> None:
    if show:
        console.print(f"releaf {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Decide well while learning which information matters."""


@app.command(epilog="Example: releaf demo --seeds 20")
def demo(
    seeds: Annotated[int, typer.Option(min=1, help="How many shuffles of the cases to average over.")] = 10,
    steps: Annotated[int, typer.Option(min=1000, help="How many cases each run decides.")] = 50_000,
) -> None:
    """Diagnose breast-cancer cases one by one, learning which features matter; next to the paper's figures."""
    from releaf.paper import breast_cancer as experiment

    chunks = 10
    results: dict[str, list[Result]] = {variant: [] for variant in experiment.VARIANTS}
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("compiling, once only", total=len(results) * seeds * chunks)
        for variant, found in results.items():
            for seed in range(seeds):
                for result in experiment.run(variant, seed, steps, chunks):
                    progress.update(task, description=f"{variant}, shuffle {seed + 1} of {seeds}")
                    if result is None:
                        progress.advance(task)
                    else:
                        found.append(result)
    console.print(_errors(results, steps))
    console.print(_relevance(results["RELEAF"]))


def _mean(values: list[float], digits: int) -> str:
    """Mean with its 95 % interval (Student's t); a figure that never varies needs none."""
    freedom = len(values) - 1
    quantile = T95[min(freedom, len(T95)) - 1]
    spread = quantile * float(np.std(values, ddof=1)) / len(values) ** 0.5 if freedom else 0.0
    margin = f" ±{spread:.{digits}f}" if spread else ""
    return f"{np.mean(values):,.{digits}f}{margin}"


def _times(seeds: int) -> str:
    return "one shuffle" if seeds == 1 else f"mean of {seeds} shuffles ± 95 % interval"


def _errors(results: dict[str, list[Result]], steps: int) -> Table:
    from releaf.paper.breast_cancer import PAPER

    seeds = len(next(iter(results.values())))
    table = _table(
        f"Breast cancer: {steps:,} cases, {_times(seeds)}",
        "error, missed, false: of exploitations; total: of all decisions.\n"
        "L = 1.5, ρ = 2+2√2, δ = 0.01, divisor 5000; the paper tells only the last.",
    )
    table.add_column("", no_wrap=True)
    for heading in ("error %", "missed %", "false %", "labels", "total %"):
        table.add_column(heading, justify="right", no_wrap=True)
    digits = (2, 2, 2, 0)
    for variant, found in results.items():
        measured = zip(*(result.figures for result in found), strict=True)
        ours = [_mean(list(values), places) for values, places in zip(measured, digits, strict=True)]
        theirs = [f"{value:,.{places}f}" for value, places in zip(PAPER[variant], digits, strict=True)]
        table.add_row(variant, *ours, _mean([result.total_error for result in found], 2))
        table.add_row("  the paper", *theirs, "", style="dim", end_section=True)
    return table


def _relevance(results: list[Result]) -> Table:
    from releaf.paper.breast_cancer import PAPER_RELEVANCE
    from releaf.streams import breast_cancer

    names = breast_cancer(683).features
    shares = np.mean([result.relevance for result in results], axis=0)
    table = _table(
        "Relevance to “benign”: share of RELEAF's exploitations",
        "The paper names the four highest only.",
    )
    table.add_column("")
    table.add_column("%", justify="right")
    table.add_column("", min_width=24)
    table.add_column("the paper %", justify="right", style="dim")
    for place in np.argsort(-shares):
        theirs = PAPER_RELEVANCE.get(int(place) + 1)
        bar = "█" * round(shares[place] / 2)
        table.add_row(names[place].replace("_", " "), f"{shares[place]:.0f}", bar, f"{theirs:.0f}" if theirs else "")
    return table


def _table(title: str, caption: str) -> Table:
    style = {
        "title_justify": "left",
        "caption_justify": "left",
        "title_style": "bold",
        "box": box.SIMPLE_HEAD,
        "padding": (0, 1, 0, 0),
    }
    return Table(title=title, caption=caption, **style)  # type: ignore[arg-type]


@app.command(epilog="Example: releaf warmup --actions 2 --actions 5 --gamma-rel 2")
def warmup(
    actions: Annotated[list[int] | None, typer.Option(min=1, help="Numbers of actions to expect [1 to 8].")] = None,
    gamma_rel: Annotated[list[int] | None, typer.Option(min=1, help="Values of gamma_rel to expect [1].")] = None,
) -> None:
    """Compile the kernels ahead, some seconds for each number of actions, so that later processes start fast.

    Those of the other policies serve all numbers of actions.
    """
    from releaf.policies import Releaf

    cases = [(number, gamma) for gamma in gamma_rel or [1] for number in actions or range(1, 9)]
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        for number, gamma in progress.track(cases, description="compiling RELEAF"):
            for observe in ("explored", "all-actions"):
                _compile(Releaf(number, 2 * gamma, gamma_rel=gamma, seed=0, observe=observe))
        for policy in progress.track(list(_other_policies()), description="compiling the others"):
            _compile(policy)
    numbers = ", ".join(map(str, actions or range(1, 9)))
    console.print(f"Kernels are ready: RELEAF's for {numbers} actions, the other policies' for any number.")


def _other_policies() -> Iterator[Any]:
    """One of each policy that is not RELEAF."""
    from releaf import Schema, ensembles, policies

    votes = ensembles.Experts(np.zeros((1, 3, 2)), np.zeros((1, 3)), 0, (0, 1, 2), Schema.of(2))
    ensembles.AdaBoost(3, 2, experts=votes, sample=(np.zeros((1, 2)), np.ones((1, 3))))  # for its training
    for room, given in ((policies, {}), (ensembles, {"experts": votes})):
        for name in room.__all__:
            policy: Any = getattr(room, name)
            if hasattr(policy, "traits"):
                yield policy(3, 2, seed=0, **given)


def _compile(policy: Any) -> None:
    """Call every kernel of a policy once."""
    contexts, actions = np.random.default_rng(0).random((200, len(policy.schema))), len(policy.actions)
    choice = policy.decide(contexts[0])
    if choice.wants_reward:
        policy.learn(choice, [1.0] * actions if policy.observe in ("all-actions", "labels") else 1.0)
    policy.replay(contexts, np.ones((len(contexts), actions)))
