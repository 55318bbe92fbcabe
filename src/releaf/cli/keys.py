"""`releaf keys`: create, list and revoke API keys of the decision service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.markup import escape

from releaf.cli.console import Json, console, error_messages, errors, fail, print_json, require
from releaf.cli.manual import epilog, paragraphs

if TYPE_CHECKING:
    from releaf.service.store.base import EventStore, KeyRow

Result = TypeVar("Result")
StoreAddress = Annotated[
    str,
    typer.Option(
        "--store", envvar="RELEAF_STORE", help="The store of the service: a file, or a postgresql:// address."
    ),
]

app = typer.Typer(
    help="Create, list and revoke API keys of the decision service.",
    epilog=epilog("releaf keys add triage-app --scope triage:decide --scope triage:reward", ("serve",)),
    no_args_is_help=True,
)


def add(
    name: Annotated[str, typer.Argument(help="Owner or purpose of the key.")],
    scope: Annotated[
        list[str],
        typer.Option(
            help="experiment:scope, * for all experiments; read, decide, reward, or admin for all; may be repeated."
        ),
    ],
    store: StoreAddress = "releaf.db",
    as_json: Json = False,
) -> None:
    """Create an API key and print it once; the store keeps only its hash."""
    require("service", "msgspec", "apsw", "asyncpg")
    from releaf.service.auth.api_keys import make_key
    from releaf.service.experiments.change_records import record_key

    with error_messages():
        plain, row = make_key(name, scope)
        in_store(store, lambda opened: opened.add_key(row, record_key("add_key", row)))
    if as_json:
        print_json({"key": plain, **_described(row)})
        return
    console.print(plain, highlight=False, markup=False, soft_wrap=True)
    console.print(f"Save it now, it is not shown again. Its scopes: {row.scopes}.", highlight=False, markup=False)
    console.print(f"Send it as Authorization: Bearer …; revoke it with: releaf keys revoke {row.id}", highlight=False)


def list_keys(store: StoreAddress = "releaf.db", as_json: Json = False) -> None:
    """List the keys with their public ids, names, scopes, and dates of creation and revocation."""
    with error_messages():
        must_exist(store)
        rows: list[KeyRow] = in_store(store, lambda opened: opened.keys())
    if as_json:
        print_json([_described(row) for row in rows])
    elif rows:
        _show(rows)
    else:
        console.print("There are no keys. Next: releaf keys add NAME --scope '*:decide'", highlight=False)


def revoke(
    key: Annotated[str, typer.Argument(help="The key's public id, the part after rlf_; or the whole key.")],
    store: StoreAddress = "releaf.db",
    as_json: Json = False,
) -> None:
    """Revoke a key; a running service rejects it and ends its sessions within seconds."""
    with error_messages():
        must_exist(store)
        public = key.removeprefix("rlf_").partition("_")[0]
        if not in_store(store, lambda opened: _revoke(opened, public)):
            fail(f"there is no valid key {public}; see releaf keys list")
    if as_json:
        print_json({"id": public, "revoked": True})
        return
    console.print(f"The key {public} is revoked.", highlight=False)


async def _revoke(store: EventStore, public: str) -> bool:
    import time

    require("service", "msgspec")
    from releaf.service.experiments.change_records import record_key

    row = next((row for row in await store.keys() if row.id == public), None)
    at = time.time()
    return row is not None and await store.revoke_key(public, at, record_key("revoke_key", row, at))


COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("add", add, "releaf keys add triage-app --scope triage:decide --scope triage:reward"),
    ("list", list_keys, "releaf keys list --store releaf.db"),
    ("revoke", revoke, "releaf keys revoke Ab12Cd34"),
)
for _name, _command, _example in COMMANDS:
    app.command(_name, help=paragraphs(_command), epilog=epilog(_example, ("serve",)))(_command)


def in_store(address: str, act: Callable[[EventStore], Awaitable[Result]]) -> Result:
    """Open a store, call a function with it, and close it."""
    require("service", "apsw", "asyncpg")
    from releaf.service.errors import StoreError
    from releaf.service.store import open_store
    from releaf.service.structured_logging import mask

    async def opened() -> Result:
        store = open_store(address)
        damage = await store.open()
        try:
            for message in damage:
                errors.print(f"[yellow]{escape(mask(message))}[/]", highlight=False)
            return await act(store)
        finally:
            await store.close()

    try:
        return asyncio.run(opened())
    except (StoreError, ValueError, OSError) as error:
        raise ValueError(mask(str(error))) from None


def must_exist(address: str) -> None:
    """Fail if the store does not exist, instead of creating it."""
    if "://" not in address and not Path(address).is_file():
        fail(f"there is no store {address}; releaf serve and releaf keys add create one")


def _described(row: KeyRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "scopes": row.scopes.split(),
        "created": _time(row.created),
        "revoked": None if row.revoked is None else _time(row.revoked),
    }


def _show(rows: list[KeyRow]) -> None:
    from releaf.report.terminal import table

    made = table("API keys", "")
    for title in ("id", "name", "scopes", "created", "revoked"):
        made.add_column(title)
    for row in rows:
        style = "dim" if row.revoked is not None else ""
        since, until = _time(row.created)[:16], "" if row.revoked is None else _time(row.revoked)[:16]
        made.add_row(row.id, escape(row.name), escape(row.scopes), since, until, style=style)
    console.print(made)


def _time(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
