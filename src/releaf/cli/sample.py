"""`releaf sample`: write a click log with planted relevance, to try the other commands on."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from releaf.cli.console import Json, console, error_messages, fail, print_json, require

if TYPE_CHECKING:
    from releaf.streams.planted_log import PlantedLog

Values = dict[str, Any]
# What is wrong with broken rows, in turn. Columns of a Parquet file have one type and one length.
BREAKS_OF_CSV: dict[str, Callable[[Values], Values]] = {
    "a text as age": lambda row: row | {"age": "old"},
    "a reward of 7": lambda row: row | {"reward": 7},
    "no action": lambda row: row | {"action": ""},
    "a date that is none": lambda row: row | {"at": "yesterday"},
    "a lost field": lambda row: {name: row[name] for name in list(row)[1:]},
}
BREAKS_OF_PARQUET: dict[str, Callable[[Values], Values]] = {
    "a reward of 7": lambda row: row | {"reward": 7},
    "no action": lambda row: row | {"action": None},
    "no reward": lambda row: row | {"reward": None},
}


def sample(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Output file: CSV, or Parquet if its name ends in .parquet.")
    ] = Path("clicks.csv"),
    rows: Annotated[int, typer.Option(min=1, help="Number of visits.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of visits, actions and clicks.")] = 0,
    broken: Annotated[int, typer.Option(min=0, help="Number of broken rows, to see how commands report them.")] = 5,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    as_json: Json = False,
) -> None:
    """Write a click log with planted relevance, to try the other commands on.

    Each row is a visit to a page: what was known of the visitor, which of four teasers was shown, with which
    probability, and whether it was clicked. Clicks depend on one or two known columns for each teaser, so that what
    `releaf relevance` finds can be compared with the truth. `releaf.streams.planted_log` makes the same in Python.
    """
    from releaf.streams.planted_log import planted_log

    if output.suffix not in (".csv", ".parquet"):
        fail(f"--output is {str(output)!r}: expected a name that ends in .csv or .parquet")
    if output.exists() and not force:
        fail(f"{output} exists: name another file with --output, or replace it with --force")
    if broken >= rows:
        fail(f"--broken is {broken:,}: expected fewer than the {rows:,} rows")
    as_csv = output.suffix == ".csv"
    with error_messages():
        if not as_csv:
            require("tables", "pyarrow")
        log = planted_log(rows, seed)
        breaks = BREAKS_OF_CSV if as_csv else BREAKS_OF_PARQUET
        places = _spread(rows, broken)
        problems = dict(zip(places, list(breaks) * (broken // len(breaks) + 1), strict=False))
        made = (breaks[problems[place]](row) if place in problems else row for place, row in enumerate(_rows(log)))
        output.parent.mkdir(parents=True, exist_ok=True)
        (_write_csv if as_csv else _write_parquet)(output, list(log.columns), made)
    unit, first = ("line", 2) if as_csv else ("row", 0)
    found = [{unit: place + first, "problem": what} for place, what in problems.items()]
    if as_json:
        print_json({"file": str(output), "rows": rows, "relevant": log.relevant, "broken": found})
        return
    _show(output, log, rows, broken)


def _spread(rows: int, count: int) -> list[int]:
    """So many places, evenly over the rows and not among the first ones, which `head` shows."""
    return [(place + 1) * rows // (count + 1) for place in range(count)]


def _rows(log: PlantedLog) -> Iterable[Values]:
    """The rows as plain values; None for a missing one."""
    from releaf.streams.planted_log import plain_values

    columns = [plain_values(column) for column in log.columns.values()]
    for values in zip(*columns, strict=True):
        yield dict(zip(log.columns, values, strict=True))


def _write_csv(path: Path, names: list[str], rows: Iterable[Values]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(row.values() for row in rows)


def _write_parquet(path: Path, names: list[str], rows: Iterable[Values]) -> None:
    import pyarrow
    from pyarrow import parquet

    columns = dict(zip(names, map(list, zip(*(row.values() for row in rows), strict=True)), strict=True))
    parquet.write_table(pyarrow.table(columns), path)


def _show(path: Path, log: PlantedLog, rows: int, broken: int) -> None:
    """Print what is in the file, what is planted in it, and what to do next."""
    count = f", {broken:,} of them broken" if broken else ""
    console.print(f"{escape(str(path))} has {rows:,} visits{count}. Planted: a click depends", highlight=False)
    for action, features in log.relevant.items():
        console.print(f"  on {action:<6} by {' and '.join(features)}", highlight=False)
    learner = escape(str(path.with_suffix(".releaf")))
    skip = " --skip-bad" if broken else ""
    console.print(f"Next: releaf train {escape(str(path))} -o {learner}{skip}", highlight=False, soft_wrap=True)
