"""`releaf reward`: learn the rewards of decisions that `releaf decide --save` kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from releaf.cli.console import Json, Model, console, error_messages, errors, print_json
from releaf.cli.row_files import RowFile, open_rows
from releaf.policy import Policy


def reward(
    model: Model,
    rows: Annotated[
        Path | None,
        typer.Argument(help="Columns id and reward, as CSV, JSON lines, Parquet or Arrow; stdin by default."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Output file of the learner (MODEL).")] = None,
    as_json: Json = False,
) -> None:
    """Learn rewards of pending decisions by their id, and save the model.

    The output of `releaf decide --save` with a column `reward` will do. A column `action` tells the action that was
    taken, if a decision was overruled. Rows without a reward are skipped. Unusable rows are reported on stderr with
    their line, the others are learnt, and the exit code is 1.
    """
    import releaf

    learnt = without = broken = 0
    with error_messages():
        learner = releaf.load(model)
        with open_rows(rows, ("id", "reward")) as file:
            for number, row in file.rows:
                try:
                    known = _learn(learner, row, file)
                except (ValueError, TypeError) as error:
                    broken += 1
                    where = f"{file.source}, {file.unit} {number}"
                    errors.print(f"{escape(where)}: {escape(str(error))}", highlight=False)
                    continue
                learnt, without = learnt + known, without + (not known)
        target = output or model
        learner.save(target)
    left = learner.labels_left
    if as_json:
        counts = {"learnt": learnt, "without_reward": without, "unusable": broken}
        print_json({"model": str(target), **counts, "pending": learner.pending, "labels_left": left})
    else:
        budget = "" if left is None else f" {left:,} labels are left."
        text = f"{target} has learnt {_count(learnt, 'reward')}; {_count(learner.pending, 'decision')} pending.{budget}"
        console.print(escape(text), highlight=False, soft_wrap=True)
    raise typer.Exit(1 if broken else 0)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _learn(learner: Policy, row: Any, file: RowFile) -> bool:
    """Learn one row; returns whether it has a reward."""
    if isinstance(row, Exception):
        raise row
    if not isinstance(row, dict) or "id" not in row:
        raise ValueError(f"expected an object with id and reward, got {row!r}")
    given = row.get("reward")
    if given is None or (isinstance(given, str) and not given.strip()) or given != given:
        return False
    taken = row.get("action")
    if isinstance(taken, str) and not taken.strip():
        taken = None
    if file.kind == "csv":
        given, taken = _number("reward", given), _name(learner, taken)
    elif taken is not None:
        taken = _name(learner, taken)
    if learner.wants_all:
        taken = None  # the rewards of all actions are learnt
        if file.kind == "csv":
            raise ValueError("the learner needs the rewards of all actions: expected JSON lines, with a list of them")
    learner.learn(_id(row["id"]), given, taken)
    return True


def _id(given: Any) -> int:
    number = _number("id", given)
    if number != int(number):
        raise ValueError(f"id is {given!r}: expected the id of a decision, a whole number")
    return int(number)


def _number(what: str, given: Any) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = float("nan")
    if number - number != 0.0:  # NaN or infinite
        raise ValueError(f"{what} is {given!r}: expected a number")
    return number


def _name(learner: Policy, given: Any) -> Any:
    """The action of this name, whatever its type: texts of a CSV file may stand for numbers."""
    return {str(action): action for action in learner.actions}.get(str(given), given) if given is not None else None
