"""`releaf schema`: guess the features of a file's columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from releaf.cli.console import Json, console, error_messages, errors, print_json, show_problems

if TYPE_CHECKING:
    from releaf.streams.table_files import TableRows

GUESS_ROWS = 100_000  # rows that features are guessed from
# Columns of the decision service's export that are no features.
SERVICE_COLUMNS = {"decision", "at", "explored", "wants_reward", "outcome", "rewarded_at"}


Keep = Annotated[
    list[str] | None, typer.Option(help="A column that is a feature, whatever it looks like; may be repeated.")
]


def schema(
    file: Annotated[Path, typer.Argument(help="A CSV, Parquet, Arrow or DSJSON file.")],
    action: Annotated[str, typer.Option(help="Column of the action taken, which is no feature.")] = "action",
    reward: Annotated[str, typer.Option(help="Column of its reward, which is no feature.")] = "reward",
    leave_out: Annotated[list[str] | None, typer.Option(help="A column that is no feature; may be repeated.")] = None,
    keep: Keep = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Output file (stdout).")] = None,
    as_json: Json = False,
) -> None:
    """Guess the features of a file from its first 100,000 rows, as TOML to edit.

    Identifiers, constant columns and columns that look like propensities are left out, with the reason.
    """
    from releaf.streams.table_files import read_first_rows

    with error_messages():
        rows = read_first_rows(file, GUESS_ROWS)
        known = [name for name in (action, reward) if name in rows.columns]
        guessed = guess_schema(rows, [*known, *(leave_out or [])], keep or [])
        if output is not None:
            output.write_text(guessed.to_toml(), encoding="utf-8")
    show_guess(guessed)
    show_problems(str(file), rows.unit, list(rows.problems), len(rows.problems))
    if as_json:
        print_json(guessed.to_dict())
    elif output is None:
        print(guessed.to_toml(), end="")
    else:
        console.print(f"{output} has {len(guessed.inputs)} features. Edit it, then: releaf train … --schema {output}")


def read_schema(path: Path) -> Any:
    """The schema of a TOML file."""
    from releaf import Schema
    from releaf.streams.data_files import open_text

    with open_text(path) as file:
        text = file.read()
    try:
        return Schema.from_toml(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def guess_schema(rows: TableRows, leave_out: list[str], keep: list[str]) -> Any:
    """Guess the schema of some rows."""
    import warnings

    from releaf import Schema

    columns = rows.columns
    left_out = list(dict.fromkeys([*leave_out, *(SERVICE_COLUMNS if set(columns) >= SERVICE_COLUMNS else ())]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # show_guess tells the same
        return Schema.guess(
            columns, leave_out=left_out, keep=keep, row_name=lambda row: f"{rows.unit} {rows.line(row)}"
        )


def show_guess(schema: Any, can_keep: bool = True) -> None:
    """Print the features that were guessed, and the columns that were left out, which ``--keep`` may overrule."""
    width = max(map(len, (*schema.inputs, *schema.left_out)))
    errors.print("Features, guessed from the first rows:", highlight=False)
    for name, feature in schema.inputs.items():
        note = f" ({schema.notes[name]})" if name in schema.notes else ""
        errors.print(f"  {escape(name):<{width}}  {escape(_describe(feature) + note)}", highlight=False)
    if schema.left_out:
        how = "--keep makes a column a feature all the same" if can_keep else "a schema can have them all the same"
        errors.print(f"Left out ({how}):", highlight=False)
    for name, why in schema.left_out.items():
        errors.print(f"  {escape(name):<{width}}  {escape(why)}", highlight=False)


def _describe(feature: Any) -> str:
    """A guessed feature in a few words; each may be missing."""
    if feature.kind == "datetime":
        return f"date from {feature.start} to {feature.end}: {', '.join(feature.parts)}"
    if feature.kind == "categorical":
        return f"{len(feature.values):,} categories" + (' and "other"' if feature.other else "")
    return "boolean" if feature.kind == "boolean" else "number"
