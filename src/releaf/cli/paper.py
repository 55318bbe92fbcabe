"""The paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from releaf.cli.console import (
    Json,
    OnRay,
    Workers,
    console,
    explained,
    print_json,
    require,
    require_ray,
    steps_bar,
)

NAMES = (
    *("breast-cancer", "intrusion", "webpages", "synthetic", "lemma1", "relevance", "bounds"),
    "relevance-recovery",
)


def demo(
    seeds: Annotated[int, typer.Option(min=1, help="How many shuffles of the cases to average over.")] = 10,
    steps: Annotated[int, typer.Option(min=1000, help="How many cases each run decides.")] = 50_000,
    as_json: Json = False,
) -> None:
    """Diagnose breast-cancer cases one by one, learning which features matter; next to the paper's figures."""
    from releaf.evaluate import Run, execute
    from releaf.paper.breast_cancer import BALANCED, OF_EXPLOITATIONS, PAPER
    from releaf.paper.experiment import Figures, line
    from releaf.paper.settings import VARIANTS
    from releaf.report.terminal import figures_table

    results: dict[str, list[Any]] = {variant: [] for variant in VARIANTS}
    with steps_bar() as progress:
        task = progress.add_task("compiling, once only", total=len(results) * seeds)
        for variant, observe in VARIANTS.items():
            for seed in range(seeds):
                arguments = {"observe": observe, **BALANCED}
                stream = {"steps": steps, "seed": seed}
                run = Run(
                    stream="breast_cancer",
                    stream_arguments=stream,
                    policy="Releaf",
                    policy_arguments=arguments,
                    seed=seed,
                    positive="malignant",
                )
                results[variant].append(execute(run))
                progress.update(task, description=f"{variant}, shuffle {seed + 1} of {seeds}", advance=1)
    if as_json:
        print_json({variant: [_plain(ledger) for ledger in ledgers] for variant, ledgers in results.items()})
        return
    times = "one shuffle" if seeds == 1 else f"mean of {seeds} shuffles ± 95 % interval"
    lines = [line(variant, OF_EXPLOITATIONS, results, PAPER[variant]) for variant in VARIANTS]
    caption = (
        "error, missed, false: of exploitations. L = 1.5, ρ = 2+2√2, δ = 0.01,\n"
        "divisor 5000; the paper tells only the last. `releaf reproduce` has more."
    )
    figures = Figures(f"Breast cancer: {steps:,} cases, {times}", OF_EXPLOITATIONS, lines, caption)
    console.print(figures_table(figures, differences=False))
    console.print(_relevance(results["RELEAF"]))


def _plain(ledger: Any) -> dict[str, Any]:
    """The figures of a run, without its curves."""
    return {name: value for name, value in ledger.to_dict().items() if name not in ("curves", "partition")}


def _fetch_intrusion() -> None:
    """Download the data where it is not there, with a bar."""
    from releaf.streams.intrusion import fetch_intrusion

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("KDD Cup 1999 data", total=None)
        fetch_intrusion(lambda so_far, total: progress.update(task, completed=so_far, total=total or None))


def _relevance(ledgers: list[Any]) -> Table:
    import numpy as np

    from releaf.paper.breast_cancer import PAPER_RELEVANCE
    from releaf.report.terminal import table
    from releaf.streams import breast_cancer

    names = breast_cancer(683).features
    shares = 100 * np.mean([np.array(ledger.relevance)[0] for ledger in ledgers], axis=0)
    made = table("Relevance to “benign”: share of RELEAF's exploitations", "The paper names the four highest only.")
    made.add_column("")
    made.add_column("%", justify="right")
    made.add_column("", min_width=24)
    made.add_column("the paper %", justify="right", style="dim")
    for place in np.argsort(-shares):
        theirs = PAPER_RELEVANCE.get(int(place) + 1)
        bar = "█" * round(shares[place] / 2)
        made.add_row(names[place].replace("_", " "), f"{shares[place]:.0f}", bar, f"{theirs:.0f}" if theirs else "")
    return made


def reproduce(
    experiments: Annotated[list[str] | None, typer.Argument(help=f"Any of {', '.join(NAMES)}; all when none.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many runs of each policy.")] = 10,
    quick: Annotated[bool, typer.Option("--quick", help="A look: shorter streams, two runs each.")] = False,
    report: Annotated[Path, typer.Option(help="The report; pictures go beside it.")] = Path("releaf-report/index.html"),
    store: Annotated[Path, typer.Option(help="Where finished runs are kept, not to be done again.")] = Path(
        "releaf-runs"
    ),
    workers: Workers = None,
    ray: OnRay = None,
    as_json: Json = False,
) -> None:
    """Run the paper's experiments, print its tables next to ours, and write a report with plots."""
    require("reproduce", "pyarrow", "altair", "vl_convert", "sklearn")
    require_ray(ray)
    from releaf.evaluate import Store
    from releaf.executors import executor_for
    from releaf.paper import EXPERIMENTS
    from releaf.report import page
    from releaf.report.terminal import figures_table
    from releaf.streams import DataError

    unknown = [name for name in experiments or [] if name not in EXPERIMENTS]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: expected any of {', '.join(EXPERIMENTS)}")
    chosen = [EXPERIMENTS[name] for name in EXPERIMENTS if not experiments or name in experiments]
    if report.is_dir() or not report.suffix:
        report = report / "index.html"
    report.parent.mkdir(parents=True, exist_ok=True)
    seeds = min(seeds, 2) if quick else seeds
    about = f"The paper's experiments, {seeds} runs each: means with 95 % intervals next to the paper's figures."
    about += " A quick look: streams are shorter than the captions say, so labels can't be compared." if quick else ""
    sections: list[page.Section] = []
    failed = False
    with explained(), executor_for(workers, ray) as executor:
        for experiment in chosen:
            try:
                results = _results(experiment.runs(seeds, quick), experiment.title, Store(store), executor)
            except DataError as error:
                console.print(f"[red]{experiment.title} is left out:[/] {escape(str(error))}")
                failed = True
                continue
            except KeyboardInterrupt:
                console.print(f"Stopped. Finished runs are kept in {store}; the same command goes on from them.")
                raise typer.Exit(130) from None
            figures = experiment.figures(results)
            for shown in figures if not as_json else ():
                console.print(figures_table(shown))
            sections.append(page.Section(experiment.name, experiment.title, figures, experiment.pictures(results)))
            page.write(report, "RELEAF, reproduced", about, sections)
    if sections:
        pictures = page.save_pictures(report.parent, sections)
        page.save_figures(report.parent / "figures.json", sections)
        if as_json:
            print((report.parent / "figures.json").read_text(encoding="utf-8"), end="")
            raise typer.Exit(1 if failed else 0)
        console.print(f"{report} has all this with plots; {len(pictures)} pictures are beside it.")
    raise typer.Exit(1 if failed else 0)


def _results(runs: list[Any], title: str, store: Any, executor: Any) -> dict[str, list[Any]]:
    """Do the runs of an experiment that were not done before, with a bar; the ledgers of each label."""
    from releaf.evaluate import sweep

    if any(run.stream == "intrusion" for run in runs):
        _fetch_intrusion()
    with steps_bar() as progress:
        task = progress.add_task(title, total=len(runs))
        ledgers = sweep(runs, store, executor, lambda *_: progress.advance(task))
    results: dict[str, list[Any]] = {}
    for run, ledger in zip(runs, ledgers, strict=True):
        results.setdefault(run.label, []).append(ledger)
    return results
