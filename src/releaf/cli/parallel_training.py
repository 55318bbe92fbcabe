"""Parallel training for `releaf train`."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from releaf.cli.console import console, errors, fail, print_json, progress_bar, require, show_problems
from releaf.cli.log_actions import chosen_actions, show_actions, warn_of_rare_actions
from releaf.cli.policies import check_options, policy_class

if TYPE_CHECKING:
    from releaf.train import Report


def fit(
    log: Path,
    output: Path,
    *,
    policy: Any,
    features: Any,
    actions: Any,
    options: dict[str, Any],
    columns: dict[str, Any],
    skip_bad: bool,
    workers: int | None,
    ray: str | None,
    as_json: bool,
) -> None:
    """Fit a learner to a log in parallel, and save it."""
    require("tables", "pyarrow")
    check_options(policy, options)
    from releaf.core.releaf.summing import HEAVIEST
    from releaf.executors import executor_for
    from releaf.train import Report, fit_log

    report, started = Report(), time.perf_counter()
    with progress_bar() as progress, executor_for(workers, ray) as executor:
        bar = progress.add_task("starting", total=None)

        def update_bar(what: str, done: int, total: int) -> None:
            progress.update(bar, description=what, completed=done, total=total)

        learner = fit_log(
            str(log),
            features,
            actions=actions,
            policy=policy,
            executor=executor,
            skip_bad=skip_bad,
            report=report,
            progress=update_bar,
            **columns,
            **options,
        )
    if report.cut:
        errors.print(f"{report.cut:,} rows have a weight above {HEAVIEST:,.0f}, which was clipped.", highlight=False)
    seconds = time.perf_counter() - started
    # No rate: the workers start and compile in this time, which they do not count.
    speed = f"in {seconds:,.1f} s, with the start of the workers"
    save_trained(learner, log, output, report, "row", speed, {"seconds": seconds}, as_json)


def save_trained(
    learner: Any,
    log: Path,
    output: Path,
    report: Report,
    unit: str,
    speed: str,
    timing: dict[str, float],
    as_json: bool,
) -> None:
    """Save a learner, and show how many rows it has learnt, and how fast; unit: "line" or "row" of the log."""
    output.parent.mkdir(parents=True, exist_ok=True)
    learner.save(output)
    show_problems(str(log), unit, report.problems, report.left_out)
    warn_of_rare_actions({label: found.rows for label, found in report.actions.items()}, learner.actions)
    if as_json:
        counts = {**asdict(report), "problems": [{unit: line, "problem": why} for line, why in report.problems]}
        about = {"model": str(output), "policy": type(learner).__name__, "actions": learner.actions}
        by_action = {str(label): rows._asdict() for label, rows in report.actions.items()}
        print_json({**counts, **about, "by_action": by_action, **timing})
        return
    console.print(f"{output} has learnt {report.learnt:,} rows ({speed}): {escape(repr(learner))}", highlight=False)
    show_actions(report.actions)
    look = f"releaf relevance {output}, or " if learner.traits.finds_relevance else ""
    console.print(f"Next: {look}releaf decide {output} < rows.csv", highlight=False)


def fitted_policy(name: str) -> Any:
    """The policy class of this name; exits with an error message if it can't be fitted in parallel."""
    from releaf.train.parallel_fit import FITS

    made = policy_class(name)
    if made not in FITS:
        fitted = " and ".join(known.__name__ for known in FITS)
        fail(f"--workers, --ray and folders are for {fitted}: {name} learns from one file, row by row")
    return made


def actions_of(log: Path, action: str, given: str | None) -> Any:
    """The actions of --actions, of the type that they have in the first rows of a log's first file."""
    if given is None:
        return None
    from releaf.cli.schema import GUESS_ROWS
    from releaf.streams.batches import missing_column_message
    from releaf.streams.table_files import read_first_rows
    from releaf.streams.tables import normalize_actions
    from releaf.train.parallel_fit import files_of

    first = Path(files_of(str(log))[0])
    rows = read_first_rows(first, GUESS_ROWS)
    if action not in rows.columns:
        fail(missing_column_message(first, action, rows.columns))
    return chosen_actions(given, {label for label in normalize_actions(rows.columns[action]) if label is not None})


def features_of(log: Path, schema: Path | None, leave_out: list[str], keep: list[str]) -> Any:
    """The features of a log: of a schema file, or guessed from the first rows of its first file."""
    from releaf.cli.schema import GUESS_ROWS, guess_schema, read_schema, show_guess
    from releaf.streams.batches import missing_column_message
    from releaf.streams.table_files import read_first_rows
    from releaf.train.parallel_fit import files_of

    first = Path(files_of(str(log))[0])  # raises if it is no Parquet file
    if schema is not None:
        return read_schema(schema)
    rows = read_first_rows(first, GUESS_ROWS)
    for name in leave_out:
        if name not in rows.columns:
            fail(missing_column_message(first, name, rows.columns))
    features = guess_schema(rows, leave_out, keep)
    show_guess(features)
    return features
