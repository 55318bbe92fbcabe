"""`releaf decide`: decisions for contexts from a file or stdin."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from releaf.cli.console import Json, Model, error_messages, errors, fail, print_json
from releaf.cli.row_files import open_rows, parse_json
from releaf.decision import Decision
from releaf.policy import Policy


def decide(
    model: Model,
    rows: Annotated[
        Path | None,
        typer.Argument(help="Contexts as CSV with a header, JSON lines, Parquet or Arrow; CSV or JSON on stdin."),
    ] = None,
    eligible: Annotated[
        str | None,
        typer.Option(help="Column of the actions that may be chosen: names separated by |, or lists; empty: all."),
    ] = None,
    label_cost: Annotated[
        str | None,
        typer.Option(
            help="What a row's reward costs to find out, in ordinary labels: a number, or a column; empty: 1.",
            metavar="NUMBER|COLUMN",
        ),
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(help="Column of the costs of actions: name=cost separated by |, or mappings; empty: fixed ones."),
    ] = None,
    k: Annotated[
        int | None, typer.Option(min=1, help="Choose a slate of so many actions (JointReleaf, HybridLinUCB).")
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Save pending decisions in the model, for later rewards (`releaf reward`).")
    ] = False,
    as_json: Json = False,
) -> None:
    """Read contexts, and print a decision for each, line by line.

    Unusable rows are reported on stderr with their line, the others are decided, and the exit code is 1.
    """
    import releaf

    broken = 0
    with error_messages():
        learner = releaf.load(model)
        prices = _LabelCosts(label_cost)
        if k is not None and not learner.traits.takes_action_features:
            fail(f"{type(learner).__name__} chooses no slates: expected no --k, or a JointReleaf or HybridLinUCB")
        further = {} if k is None else {"k": k}
        options = [column for column in (eligible, cost, prices.column) if column is not None]
        required = (*learner.schema.inputs, *options)
        with open_rows(rows, required) as file:
            as_json = as_json or file.kind == "json"
            slate = "" if k is None else ",slate"
            header = "" if as_json else f"{file.unit},id,action,probability,explored,wants_reward{slate}\n"
            for number, row in file.rows:
                print(header, end="")  # not before a row was read: the file may lack columns
                header = ""
                try:
                    context = _context(row, learner.schema, file.kind)
                    among, costs = _eligible(row, eligible, learner.actions), _costs(row, cost, learner.actions)
                    price = prices.of(row)
                    priced = {} if price is None else {"label_cost": price}
                    choice = learner.decide(context, among, costs, **further, **priced)
                except (ValueError, TypeError) as error:
                    broken += 1
                    where = f"{file.source}, {file.unit} {number}"
                    errors.print(f"{escape(where)}: {escape(str(error))}", highlight=False)
                    continue
                if as_json:
                    print_json({file.unit: number, **decision_to_dict(choice, learner)})
                else:
                    _write_csv(number, choice)
            print(header, end="")
        if save:
            learner.save(model)
    raise typer.Exit(1 if broken else 0)


def _context(row: Any, schema: Any, kind: str) -> Any:
    """The features of a row; raises if the row is an exception."""
    from releaf.streams.csv_columns import parse_column

    if isinstance(row, Exception):
        raise row
    if kind != "csv":
        return features_of_row(row, tuple(schema.inputs))
    return {name: parse_column([row[name]], feature)[0] for name, feature in schema.inputs.items()}


def _eligible(row: Any, column: str | None, actions: tuple[Any, ...]) -> list[Any] | None:
    """The eligible actions of a row; None where all are."""
    return None if column is None or not isinstance(row, dict) else eligible_in_cell(row.get(column), actions)


def eligible_in_cell(cell: Any, actions: tuple[Any, ...]) -> list[Any] | None:
    """The eligible actions in a cell, by the learner's names; None where all are."""
    from releaf.streams.eligible_column import names_in_cell

    names = names_in_cell(cell)
    known = {str(action): action for action in actions}
    return None if names is None else [known.get(name, name) for name in names]


def _costs(row: Any, column: str | None, actions: tuple[Any, ...]) -> Any:
    """The costs of a row; None for the fixed ones."""
    from releaf.streams.cost_column import costs_in_cell

    return None if column is None or not isinstance(row, dict) else costs_in_cell(row.get(column), actions)


class _LabelCosts:
    """Costs of the labels of rows: a number for all, or a column."""

    def __init__(self, given: str | None) -> None:
        self.number = None if given is None else _number(given)
        self.column = given if self.number is None else None

    def of(self, row: Any) -> float | None:
        """Cost of the label of a row; None for an ordinary one."""
        if self.column is None or not isinstance(row, dict):
            return self.number
        cell = row.get(self.column)
        if cell is None or cell != cell or (isinstance(cell, str) and not cell.strip()):
            return None
        cost = _number(cell)
        if cost is None:
            raise ValueError(f"{self.column} is {cell!r}: expected what the label costs, a number")
        return cost


def _number(given: Any) -> float | None:
    try:
        return float(given)
    except (TypeError, ValueError):
        return None


def features_of_row(row: Any, names: tuple[str, ...]) -> Any:
    """The features among the values of a mapping; anything else unchanged."""
    return {name: row[name] for name in names if name in row} if isinstance(row, dict) else row


def parse_json_context(text: str, names: tuple[str, ...]) -> Any:
    """The features of a JSON object, or an exception."""
    return features_of_row(parse_json(text), names)


def _write_csv(number: int, choice: Decision) -> None:
    chance = "" if choice.probability is None else f"{choice.probability:.12g}"
    slate = [] if choice.slate is None else ["|".join(map(str, choice.slate))]
    csv.writer(sys.stdout, lineterminator="\n").writerow(
        [number, choice.id, choice.action, chance, choice.explored, choice.wants_reward, *slate]
    )


def decision_to_dict(choice: Decision, learner: Policy) -> dict[str, Any]:
    """A decision as plain data."""
    names = learner.schema.names
    data = {name: getattr(choice, name) for name in ("id", "action", "probability", "explored", "wants_reward")}
    if choice.estimates is not None:
        actions = learner.actions
        if choice.eligible is not None and len(choice.eligible) == len(choice.estimates):
            actions = choice.eligible  # of the others there are no estimates
        data["estimates"] = dict(zip(map(str, actions), choice.estimates, strict=True))
    if choice.cost is not None:
        data["cost"] = choice.cost
    if choice.label_cost is not None:
        data["label_cost"] = choice.label_cost
    if choice.group is not None:
        data["group"] = choice.group
    if choice.eligible is not None:
        data["eligible"] = list(choice.eligible)
    if choice.slate is not None:
        data |= {"slate": list(choice.slate), "slate_probabilities": choice.slate_probabilities}
    if choice.relevant is not None:
        chosen = choice.relevant[choice.index]
        data["relevant"] = None if chosen is None else [names[index] for index in chosen]
    return data
