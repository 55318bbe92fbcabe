"""`releaf schema`: guess the features of a file's columns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from releaf.cli.console import Json, console, error_messages, errors, print_json

GUESS_ROWS = 100_000  # rows that features are guessed from
# Columns of the decision service's export that are no features.
SERVICE_COLUMNS = {"decision", "at", "explored", "wants_reward", "outcome", "rewarded_at"}


def schema(
    file: Annotated[Path, typer.Argument(help="A CSV, Parquet or Arrow file.")],
    leave_out: Annotated[list[str] | None, typer.Option(help="A column that is no feature; may be repeated.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Output file (stdout).")] = None,
    as_json: Json = False,
) -> None:
    """Guess the features of a file from its first 100,000 rows, as TOML to edit."""
    from releaf.streams.tables import read_first_rows

    with error_messages():
        columns, more = read_first_rows(file, GUESS_ROWS)
        guessed = guess_schema(columns, leave_out or [], more)
        if output is not None:
            output.write_text(guessed.to_toml(), encoding="utf-8")
    if as_json:
        print_json(guessed.to_dict())
    elif output is None:
        print(guessed.to_toml(), end="")
    else:
        console.print(f"{output} has {len(guessed)} features. Edit it, then: releaf train … --schema {output}")


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


def guess_schema(columns: dict[str, Any], leave_out: list[str], more: bool) -> Any:
    """Guess the schema of some rows; if the file has more rows, later values may be missing."""
    from releaf import Schema
    from releaf.features import feature_from_dict, feature_to_dict

    left_out = list(dict.fromkeys([*leave_out, *(SERVICE_COLUMNS if set(columns) >= SERVICE_COLUMNS else ())]))
    if "probability" in columns and "probability" not in left_out:
        errors.print("The column 'probability' is taken for the propensity, and is not a feature.", highlight=False)
        left_out.append("probability")
    schema = Schema.guess(columns, leave_out=left_out)
    if not more:
        return schema
    described = zip(schema.names, schema.features, strict=True)
    return Schema({name: feature_from_dict({**feature_to_dict(f), "missing": True}) for name, f in described})
