"""The actions of a log: which ones a command takes, how many rows each has, and which are so rare as to be misspelt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.markup import escape

from releaf.cli.console import console, errors, fail
from releaf.decision import ActionName

RARE_ROWS = 20  # below which an action is rare, if it also has less than a tenth of an equal share
OnlyActions = Annotated[
    str | None,
    typer.Option("--actions", metavar="A,B,…", help="The actions: rows of others are unusable (those of the log)."),
]


def chosen_actions(given: str | None, labels: Iterable[ActionName]) -> tuple[ActionName, ...] | None:
    """The actions of --actions, of the type that they have in the log; None without that option."""
    if given is None:
        return None
    known = {str(label): label for label in labels}
    names = [name.strip() for name in given.split(",")]
    if "" in names or len(set(names)) < len(names):
        fail(f"--actions {given}: expected distinct names, separated by commas")
    unknown = [name for name in names if name not in known]
    if unknown:
        fail(f"--actions: the first rows of the log have no action {unknown[0]!r}; they have {', '.join(known)}")
    return tuple(known[name] for name in names)


def show_actions(rows: Mapping[ActionName, Sequence[Any]]) -> None:
    """Print the number of rows and the mean reward of each action."""
    console.print("Actions, with their rows and mean reward:")
    width = max(len(str(label)) for label in rows) if rows else 0
    for label, (count, mean) in sorted(rows.items(), key=lambda entry: -entry[1][0]):
        console.print(f"  {escape(str(label)):<{width}}  {count:>9,}  {mean:.4f}", highlight=False, soft_wrap=True)


def warn_of_rare_actions(counts: Mapping[ActionName, int], known: Iterable[ActionName]) -> None:
    """Warn of actions that are so rare among the rows that they may be misspelt."""
    share = sum(counts.values()) / (10 * max(len(counts), 1))
    rare = {label: count for label, count in counts.items() if count < min(RARE_ROWS, share)}
    kept = ",".join(str(label) for label in known if label not in rare)
    for label, count in rare.items():
        rows = "1 row" if count == 1 else f"{count:,} rows"
        errors.print(
            f"[yellow]Warning:[/] {escape(repr(label))} has {rows}: is it misspelt? Leave it out with "
            f"--actions {escape(kept)} --skip-bad",
            highlight=False,
        )
