"""`releaf relevance` and `releaf explain`: what a learner has learnt, and why it decides as it does."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from releaf.arrays import Array
from releaf.cli.console import Json, Model, console, error_messages, fail, print_json
from releaf.cli.decide import decision_to_dict, eligible_in_cell, parse_json_context
from releaf.decision import Decision
from releaf.policy import Policy

SHADES = " ░▒▓█"


def relevance(
    model: Model,
    png: Annotated[Path | None, typer.Option(help="Write a chart as PNG.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the chart as an offline HTML page.")] = None,
    as_json: Json = False,
) -> None:
    """Show the relevance of each feature to each action, as a heat map."""
    import releaf

    with error_messages():
        learner = releaf.load(model)
        if not learner.traits.finds_relevance:
            fail(f"{type(learner).__name__} has no relevance")
        shares = learner.relevance()
        for path in (png, html):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                releaf.plot.relevance(learner).save(str(path))
    if as_json:
        print_json({str(action): row for action, row in shares.to_dict().items()})
        return
    console.print(_heat_map(learner, shares))
    for path in (png, html):
        if path is not None:
            console.print(f"The chart is in {path}.", highlight=False)


def _heat_map(learner: Policy, shares: Array) -> Any:
    from releaf.report.terminal import table

    made = table("Relevance: the share of each feature, for each action", "Darker is more relevant.")
    made.add_column("")
    for action in learner.actions:
        made.add_column(escape(str(action)), justify="right", no_wrap=True)
    order = sorted(range(len(learner.schema)), key=lambda index: -float(shares[:, index].max()))
    highest = max(float(shares.max()), 1e-12)
    for index in order:
        cells = [_cell(float(share), highest) for share in shares[:, index]]
        made.add_row(escape(learner.schema.names[index]), *cells)
    explained = getattr(shares, "explained", None)
    if explained is not None:
        made.add_section()
        made.add_row(
            "of the reward's variance", *(f"{total:.2%}" if total > 0 else "none" for total in explained.sum(axis=1))
        )
    return made


def _cell(share: float, highest: float) -> str:
    shade = SHADES[min(round(share / highest * (len(SHADES) - 1)), len(SHADES) - 1)]
    style = "bold" if share > 0.5 * highest else "dim" if share < 0.05 * highest else ""
    text = f"{shade * 3} {share:4.0%}"
    return f"[{style}]{text}[/]" if style else text


def explain(
    model: Model,
    row: Annotated[str, typer.Argument(help="A context: a JSON object, or its values in order, separated by commas.")],
    eligible: Annotated[str | None, typer.Option(help="The actions that may be chosen, separated by |.")] = None,
    cost: Annotated[str | None, typer.Option(help="The costs of the actions: name=cost, separated by |.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write a chart of the chosen action as PNG.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the chart as an offline HTML page.")] = None,
    as_json: Json = False,
) -> None:
    """Explain the decision that the learner would take for a context. The model is unchanged.

    The chart is a waterfall from the base rate of the chosen action to its estimate.
    """
    import releaf

    with error_messages():
        learner = releaf.load(model)
        context = _parse_context(row, learner.schema)
        among, costs = _parse_eligible(eligible, learner), _parse_costs(cost, learner)
        choice = learner.preview(context, among, costs)
        if not learner.traits.explains:
            if png or html:
                fail(f"{type(learner).__name__} has no explanations, so there is nothing to draw")
            _show_decision(choice, learner, as_json)
            return
        why = learner.explain(context if among is None and costs is None else choice)
        for path in (png, html):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                why.plot().save(str(path))
    if as_json:
        print_json({**decision_to_dict(choice, learner), "explanation": why.to_dict()})
        return
    console.print(escape(why.text), highlight=False)
    for path in (png, html):
        if path is not None:
            console.print(f"The chart is in {path}.", highlight=False)


def _parse_eligible(text: str | None, learner: Policy) -> Any:
    return None if text is None else eligible_in_cell(text, learner.actions)


def _parse_costs(text: str | None, learner: Policy) -> Any:
    from releaf.streams.cost_column import costs_in_cell

    return None if text is None else costs_in_cell(text, learner.actions)


def _show_decision(choice: Decision, learner: Policy, as_json: bool) -> None:
    """Show the decision of a policy without explanations."""
    if as_json:
        print_json({**decision_to_dict(choice, learner), "explanation": None})
    else:
        console.print(escape(repr(choice)), highlight=False)


def _parse_context(row: str, schema: Any) -> Any:
    from releaf.streams.csv_columns import parse_column

    if row.lstrip().startswith("{"):
        context = parse_json_context(row, tuple(schema.inputs))
        if isinstance(context, Exception):
            raise ValueError(f"the row is {context}")
        return context
    values = next(csv.reader([row]), [])
    inputs = schema.inputs
    if len(values) != len(inputs):
        raise ValueError(f"the row has {len(values)} values, expected {len(inputs)}: {', '.join(inputs)}")
    return [parse_column([value], feature)[0] for value, feature in zip(values, inputs.values(), strict=True)]
