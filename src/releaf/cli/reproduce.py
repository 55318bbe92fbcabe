"""`releaf reproduce`: the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from releaf.cli.console import Json, OnRay, Workers, check_ray_address, console, error_messages, progress_bar, require

NAMES = (
    *("breast-cancer", "intrusion", "lipschitz", "webpages", "synthetic", "lemma1", "relevance"),
    *("relevance-recovery", "bounds", "regret-and-dimension", "guarantee", "balance", "price"),
)


def _fetch_intrusion() -> None:
    """Download the data if it is missing, with a progress bar."""
    from releaf.streams.intrusion import fetch_intrusion

    with progress_bar(of_bytes=True) as progress:
        task = progress.add_task("KDD Cup 1999 data", total=None)
        fetch_intrusion(lambda so_far, total: progress.update(task, completed=so_far, total=total or None))


def reproduce(
    experiments: Annotated[list[str] | None, typer.Argument(help=f"Any of {', '.join(NAMES)}; all by default.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs of each policy.")] = 10,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter streams, two runs each.")] = False,
    report: Annotated[Path, typer.Option(help="The report; pictures go to its folder.")] = Path(
        "releaf-report/index.html"
    ),
    store: Annotated[Path, typer.Option(help="Folder of finished runs, which are reused.")] = Path("releaf-runs"),
    workers: Workers = None,
    ray: OnRay = None,
    as_json: Json = False,
) -> None:
    """Run the paper's experiments, print its tables next to ours, and write a report with plots."""
    require("reproduce", "pyarrow", "altair", "vl_convert", "sklearn")
    check_ray_address(ray)
    from releaf.evaluate import Store
    from releaf.executors import executor_for
    from releaf.paper import EXPERIMENTS
    from releaf.report import html_report
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
    sections: list[html_report.Section] = []
    failed = False
    if quick and not as_json:
        console.print(f"[yellow]A quick look[/]: {seeds} runs each over shorter streams than the captions say.")
    with error_messages(), executor_for(workers, ray) as executor:
        for experiment in chosen:
            try:
                results = _results(experiment.runs(seeds, quick), experiment.title, Store(store), executor)
            except DataError as error:
                console.print(f"[red]{experiment.title} was skipped:[/] {escape(str(error))}")
                failed = True
                continue
            except KeyboardInterrupt:
                console.print(f"Stopped. Finished runs are in {store}; run the same command again to continue.")
                raise typer.Exit(130) from None
            figures = experiment.figures(results)
            for shown in figures if not as_json else ():
                print_table(shown)
            sections.append(
                html_report.Section(experiment.name, experiment.title, figures, experiment.pictures(results))
            )
            html_report.write(report, "RELEAF, reproduced", about, sections)
    if sections:
        pictures = html_report.save_pictures(report.parent, sections, 1.0 if quick else 2.0)
        html_report.save_figures(report.parent / "figures.json", sections)
        html_report.save_picture_data(report.parent / "pictures.json", sections)
        if as_json:
            print((report.parent / "figures.json").read_text(encoding="utf-8"), end="")
            raise typer.Exit(1 if failed else 0)
        console.print(f"The report with charts is {report}; {len(pictures)} pictures are in the same folder.")
    raise typer.Exit(1 if failed else 0)


def print_table(figures: Any) -> None:
    """Print a table without cutting off figures: on narrow terminals without differences, or with wrapped lines."""
    from rich.measure import Measurement

    from releaf.report.terminal import figures_table

    unbounded = console.options.update(max_width=1_000)
    for table in (figures_table(figures), figures_table(figures, differences=False)):
        needed = Measurement.get(console, unbounded, table).maximum
        if needed <= console.width:
            break
    console.print(table, width=max(needed, console.width), crop=False, soft_wrap=needed > console.width)


def _results(runs: list[Any], title: str, store: Any, executor: Any) -> dict[str, list[Any]]:
    """Execute the runs of an experiment with a progress bar; returns the ledgers of each label."""
    from releaf.evaluate import sweep

    if any(run.stream == "intrusion" for run in runs):
        _fetch_intrusion()
    with progress_bar() as progress:
        task = progress.add_task(title, total=len(runs))
        ledgers = sweep(runs, store, executor, lambda *_: progress.advance(task))
    results: dict[str, list[Any]] = {}
    for run, ledger in zip(runs, ledgers, strict=True):
        results.setdefault(run.label, []).append(ledger)
    return results
