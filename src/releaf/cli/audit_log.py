"""`releaf store audit`: the audit log of the decision service's store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from releaf.cli.console import Json, console, error_messages, print_json, require
from releaf.cli.keys import in_store, must_exist
from releaf.cli.store_argument import StoreArgument

if TYPE_CHECKING:
    from releaf.service.messages import ChangeInfo
    from releaf.service.store.base import EventStore

TEXT_LENGTH = 60  # of a value in the table


def audit(
    store: StoreArgument = "releaf.db",
    experiment: Annotated[str | None, typer.Option(help="Only changes of this experiment.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The number of changes, the latest first.")] = 50,
    as_json: Json = False,
) -> None:
    """Print the audit log: who changed what and when, before and after; also while a service runs."""
    with error_messages():
        require("service", "msgspec", "apsw", "asyncpg")
        must_exist(store)
        changes: list[ChangeInfo] = in_store(store, lambda opened: _read(opened, experiment, limit))
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(changes))
    elif changes:
        _show(changes)
    else:
        console.print("The audit log has no such changes.", highlight=False)


async def _read(store: EventStore, experiment: str | None, limit: int) -> list[ChangeInfo]:
    from releaf.service.experiments.change_records import MAX_ID, change_message

    if experiment is not None and experiment not in [row.name for row in await store.experiments()]:
        raise ValueError(f"unknown experiment {experiment!r}")
    return [change_message(row) for row in await store.changes(experiment, MAX_ID, limit)]


def _show(changes: list[ChangeInfo]) -> None:
    from releaf.report.terminal import table

    made = table("Audit log, the latest change first", "")
    for title in ("time", "experiment", "who", "change", "before", "after"):
        made.add_column(title, overflow="fold")
    for change in changes:
        what = change.change if change.subject is None else f"{change.change} {change.subject}"
        before, after = differing(change)
        cells = (change.at[:19].replace("T", " "), change.experiment or "", change.actor, what, before, after)
        made.add_row(*map(escape, cells))
    console.print(made)


def differing(change: ChangeInfo) -> tuple[str, str]:
    """The values that a change took away and those that it brought, as text; of lists, the entries that differ."""
    before, after = change.before or {}, change.after or {}
    names = [name for name in after if name not in before or before[name] != after[name]]
    former = [_text(name, before[name], after[name]) for name in names if name in before]
    return "\n".join(former), "\n".join(_text(name, after[name], before.get(name)) for name in names)


def _text(name: str, value: Any, other: Any) -> str:
    if isinstance(value, list):
        kept = other if isinstance(other, list) else []
        shown = ", ".join(_entry(one) for one in value if one not in kept) or "–"
    else:
        shown = _entry(value)
    return f"{name}: {shown}" if len(shown) <= TEXT_LENGTH else f"{name}: {shown[: TEXT_LENGTH - 1]}…"


def _entry(value: Any) -> str:
    """A shadow or a policy by its name, other values as they are."""
    if isinstance(value, dict) and "name" in value:
        policy = value.get("policy")
        return f"{value['name']} ({policy['name']})" if policy else str(value["name"])
    return "–" if value is None else str(value)
