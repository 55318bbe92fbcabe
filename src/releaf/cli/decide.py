"""`releaf decide`: decisions for contexts from a file or stdin."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.markup import escape

from releaf.cli.console import Json, Model, error_messages, errors, print_json
from releaf.decision import Decision
from releaf.policy import Policy


def decide(
    model: Model,
    rows: Annotated[
        Path | None, typer.Argument(help="Contexts as CSV with a header, or as JSON lines; stdin by default.")
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Save pending decisions in the model, for later rewards.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Read contexts, and print a decision for each, line by line.

    Unusable rows are reported on stderr with their line, the others are decided, and the exit code is 1.
    """
    import releaf
    from releaf.streams.data_files import open_text

    broken = 0
    with error_messages():
        learner = releaf.load(model)
        source = "stdin" if rows is None else str(rows)
        with sys.stdin if rows is None else open_text(rows) as file:
            first = file.readline().removeprefix("\ufeff")
            as_json = as_json or first.lstrip().startswith("{")
            write = _write_json if as_json else _write_csv
            for line, context in _contexts(file, first, learner.schema, source, header=not as_json):
                try:
                    if isinstance(context, Exception):
                        raise context
                    choice = learner.decide(context)
                except (ValueError, TypeError) as error:
                    broken += 1
                    errors.print(f"{escape(source)}, line {line}: {escape(str(error))}", highlight=False)
                    continue
                write(line, choice, learner)
        if save:
            learner.save(model)
    raise typer.Exit(1 if broken else 0)


def _contexts(file: IO[str], first: str, schema: Any, source: str, header: bool) -> Iterator[tuple[int, Any]]:
    """Yield each line number with its context, or an exception."""
    if first.lstrip().startswith("{"):
        for number, text in enumerate(chain([first], file), 1):
            if text.strip():
                yield number, parse_json_context(text, tuple(schema.inputs))
        return
    yield from _csv_contexts(file, first, schema, source, header)


def parse_json_context(text: str, names: tuple[str, ...]) -> Any:
    """The features of a JSON object, or an exception."""
    try:
        context = json.loads(text)
    except json.JSONDecodeError as error:
        return ValueError(f"no JSON: {error}")
    return {name: context[name] for name in names if name in context} if isinstance(context, dict) else context


def _csv_contexts(file: IO[str], first: str, schema: Any, source: str, header: bool) -> Iterator[tuple[int, Any]]:
    from releaf.streams.csv_columns import parse_column
    from releaf.streams.tables import read_header, records

    names = read_header(csv.reader([first]), source)
    lacking = [name for name in schema.inputs if name not in names]
    if lacking:
        raise ValueError(f"{source} has no column {lacking[0]!r}; it has {', '.join(names)}")
    if header:
        print("line,id,action,probability,explored,wants_reward")
    wanted = [(name, names.index(name), feature) for name, feature in schema.inputs.items()]
    for line, row in records(csv.reader(file), source, len(names)):
        if isinstance(row, ValueError):
            yield line + 1, row
        else:
            yield line + 1, {name: parse_column([row[index]], feature)[0] for name, index, feature in wanted}


def _write_csv(line: int, choice: Decision, learner: Policy) -> None:
    chance = "" if choice.probability is None else f"{choice.probability:.12g}"
    csv.writer(sys.stdout, lineterminator="\n").writerow(
        [line, choice.id, choice.action, chance, choice.explored, choice.wants_reward]
    )


def _write_json(line: int, choice: Decision, learner: Policy) -> None:
    print_json({"line": line, **decision_to_dict(choice, learner)})


def decision_to_dict(choice: Decision, learner: Policy) -> dict[str, Any]:
    """A decision as plain data."""
    names = learner.schema.names
    data = {name: getattr(choice, name) for name in ("id", "action", "probability", "explored", "wants_reward")}
    if choice.estimates is not None:
        data["estimates"] = dict(zip(map(str, learner.actions), choice.estimates, strict=True))
    if choice.relevant is not None:
        chosen = choice.relevant[choice.index]
        data["relevant"] = None if chosen is None else [names[index] for index in chosen]
    return data
