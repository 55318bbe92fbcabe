"""`releaf compare`: policies side by side on streams and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from releaf.cli.console import (
    Json,
    OnRay,
    Workers,
    check_ray_address,
    console,
    error_messages,
    fail,
    print_json,
    progress_bar,
    require,
)
from releaf.cli.policies import policy_class

POLICIES = ["AdaptiveReleaf", "Releaf", "LinUCB", "LinTS", "EpsilonGreedy", "Random"]
STREAMS = {"breast_cancer": {"steps": 10_000}, "intrusion": {"steps": 10_000}, "draft": {"steps": 10_000}}


def compare(
    policies: Annotated[list[str] | None, typer.Argument(help=f"Names of policies ({', '.join(POLICIES)}).")] = None,
    stream: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(STREAMS)}; may be repeated (breast_cancer).")
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option(help="FILE:COLUMN, a table with the label in a column; may be repeated.")
    ] = None,
    shuffle: Annotated[
        bool, typer.Option(help="Shuffle the rows of a table for each run, by the run's seed; or keep their order.")
    ] = True,
    steps: Annotated[int | None, typer.Option(min=1, help="Length of each stream (10,000).")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs of each policy.")] = 3,
    workers: Workers = None,
    ray: OnRay = None,
    store: Annotated[Path, typer.Option(help="Folder of finished runs, which are reused.")] = Path("releaf-runs"),
    as_json: Json = False,
) -> None:
    """Run policies over streams or your own tables, and compare their regret or error and their number of labels."""
    require("reproduce", "pyarrow")
    check_ray_address(ray)
    from releaf.evaluate import Store, sweep
    from releaf.executors import executor_for

    with error_messages():
        names = policies or POLICIES
        for name in names:
            policy_class(name)
        described = _described(stream or ([] if table else ["breast_cancer"]), table or [], steps)
        runs = _runs(names, described, seeds, shuffle)
        with executor_for(workers, ray) as executor, progress_bar() as progress:
            task = progress.add_task("comparing", total=len(runs))
            ledgers = sweep(runs, Store(store), executor, lambda *_: progress.advance(task))
    grouped: dict[tuple[str, str], list[Any]] = {}
    for run, ledger in zip(runs, ledgers, strict=True):
        grouped.setdefault((run.label, run.policy), []).append(ledger)
    lines = [_line(name, policy, results) for (name, policy), results in grouped.items()]
    order = {run.label: _order(run, seeds) for run in runs}
    for line in lines:
        line["order"] = order[line["stream"]]
    if as_json:
        print_json(lines)
        return
    for name in dict.fromkeys(line["stream"] for line in lines):
        _show(name, [line for line in lines if line["stream"] == name], seeds)


def _described(streams: list[str], tables: list[str], steps: int | None) -> dict[str, tuple[str, dict[str, Any]]]:
    """Per stream: its name, the function that creates it, and its arguments."""
    described: dict[str, tuple[str, dict[str, Any]]] = {}
    for name in streams:
        if name not in STREAMS:
            fail(f"there is no stream {name!r}; expected one of {', '.join(STREAMS)}")
        described[name] = (name, {"steps": steps} if steps else dict(STREAMS[name]))
    for entry in tables:
        path, colon, label = entry.rpartition(":")
        if not colon:
            fail(f"--table {entry}: expected FILE:COLUMN")
        if not Path(path).is_file():
            fail(f"there is no file {path}")
        described[path] = ("table", {"data": path, "label": label})
    return described


def _order(run: Any, seeds: int) -> str:
    """The order of the rows of a run's stream, in words; empty for a generated stream."""
    if run.stream != "table":
        return ""
    if "seed" not in run.stream_arguments:
        return "rows in the order of the file, the same in each run"
    return f"rows shuffled, by {'seed 0' if seeds == 1 else f'seeds 0 to {seeds - 1}'}"


def _runs(
    policies: list[str], described: dict[str, tuple[str, dict[str, Any]]], seeds: int, shuffle: bool
) -> list[Any]:
    from releaf.evaluate import Run

    runs = []
    for label, (function, arguments) in described.items():
        for policy in policies:
            for seed in range(seeds):
                fixed = function == "intrusion" or (function == "table" and not shuffle)
                given = arguments if fixed else {**arguments, "seed": seed}
                runs.append(Run(stream=function, stream_arguments=given, policy=policy, seed=seed, label=label))
    return runs


def _line(stream: str, policy: str, ledgers: list[Any]) -> dict[str, Any]:
    import numpy as np

    from releaf.statistics import t_half_width

    def mean_and_half_width(values: list[float]) -> dict[str, float]:
        return {"mean": float(np.mean(values)), "half_width": t_half_width(values)}

    knows = ledgers[0].best_reward is not None  # of expected rewards
    losses = [100 * ledger.regret / ledger.steps if knows else ledger.error for ledger in ledgers]
    return {
        "stream": stream,
        "policy": policy,
        "regret %" if knows else "error %": mean_and_half_width(losses),
        "labels": mean_and_half_width([float(ledger.labels) for ledger in ledgers]),
        "seconds": mean_and_half_width([float(ledger.seconds) for ledger in ledgers]),
    }


def _show(stream: str, lines: list[dict[str, Any]], seeds: int) -> None:
    from releaf.report.terminal import table

    loss = "regret %" if "regret %" in lines[0] else "error %"
    meaning = "of a full reward, per step" if loss == "regret %" else "of decisions"
    runs = f"Mean of {seeds} runs ± 95 % interval (Student's t)" if seeds > 1 else "One run"
    order = f" {lines[0]['order'].capitalize()}." if lines[0]["order"] else ""
    made = table(stream, f"{runs}; {loss} {meaning}.{order}")
    made.add_column("", no_wrap=True)
    for name in (loss, "labels"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("")
    worst = max(line[loss]["mean"] for line in lines) or 1.0
    for line in sorted(lines, key=lambda line: line[loss]["mean"]):
        share = line[loss]
        bar = "█" * max(round(30 * share["mean"] / worst), 1)
        spread = f" ± {share['half_width']:.2f}" if seeds > 1 else ""
        cells = (f"{share['mean']:.2f}{spread}", f"{line['labels']['mean']:,.0f}")
        made.add_row(escape(line["policy"]), *cells, bar)
    console.print(made)
