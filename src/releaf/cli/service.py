"""The decision service from the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from releaf.cli.console import errors, explained, fail, require

STORE = typer.Option(
    envvar="RELEAF_STORE", help="The file of the embedded store, or postgresql://user:password@host/database."
)


def serve(
    store: Annotated[str, STORE] = "releaf.db",
    host: Annotated[str, typer.Option(help="Where to listen; beyond this machine, every request needs a key.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 for any that is free.")] = 8000,
    name: Annotated[
        list[str] | None, typer.Option(help="A further name that clients call it by (Host); may be repeated.")
    ] = None,
    require_keys: Annotated[bool, typer.Option(help="Ask for keys on this machine too.")] = False,
    body_limit: Annotated[int, typer.Option(min=1024, help="The largest request, in bytes.")] = 4 << 20,
    batch_limit: Annotated[int, typer.Option(min=1, help="The most contexts or rewards in a request.")] = 10_000,
    rate_limit: Annotated[
        float, typer.Option(min=0, help="The most requests a second of one key or address; 0 for no limit.")
    ] = 10_000,
    snapshot_events: Annotated[int, typer.Option(min=1, help="Events between snapshots.")] = 50_000,
    snapshot_seconds: Annotated[float, typer.Option(min=0, help="Seconds between snapshots, at least.")] = 10.0,
    log_format: Annotated[str, typer.Option(help="json or text.")] = "",
    log_level: Annotated[str, typer.Option(help="DEBUG tells every request.")] = "INFO",
) -> None:
    """Serve decisions over HTTP, with a dashboard at / and nothing lost that was acknowledged."""
    require("service", "starlette", "uvicorn", "msgspec", "apsw", "jinja2", "prometheus_client")
    with explained():
        from releaf.service.app import serve as run
        from releaf.service.settings import Settings

        if log_format not in ("", "json", "text"):
            fail(f"--log-format is {log_format!r}: expected json or text")
        if log_level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
            fail(f"--log-level is {log_level!r}: expected DEBUG, INFO, WARNING or ERROR")
        settings = Settings(
            store=store,
            host=host,
            port=port,
            hosts=tuple(name or ()),
            require_keys=require_keys,
            body_limit=body_limit,
            batch_limit=batch_limit,
            rate_limit=rate_limit,
            snapshot_events=snapshot_events,
            snapshot_seconds=snapshot_seconds,
            log_format=log_format or ("text" if errors.is_terminal else "json"),
        )
        run(settings, log_level.upper())
