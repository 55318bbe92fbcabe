"""`releaf serve`: run the decision service."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from releaf.cli.console import error_messages, errors, fail, require

STORE = typer.Option(
    metavar="STORE",
    envvar="RELEAF_STORE",
    help="File of the embedded store, or postgresql://user:password@host/database.",
)


def _limit(about: str, metavar: str, least: float) -> Any:
    return typer.Option(help=about, metavar=metavar, min=least, rich_help_panel="Limits")


def serve(
    store: Annotated[str, STORE] = "releaf.db",
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; unless loopback, requests need a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65_535, help="Port; 0 for a free one.")] = 8000,
    name: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="A further allowed host name; may be repeated.")
    ] = None,
    require_keys: Annotated[bool, typer.Option("--require-keys", help="Require keys on this machine too.")] = False,
    body_limit: Annotated[int, _limit("Maximum size of a request.", "BYTES", 1024)] = 4 << 20,
    batch_limit: Annotated[int, _limit("Maximum number of contexts or rewards in a request.", "COUNT", 1)] = 10_000,
    rate_limit: Annotated[
        float, _limit("Maximum requests per second of a key or address; 0 for no limit.", "RATE", 0)
    ] = 10_000,
    connection_limit: Annotated[int, _limit("Maximum number of connections.", "COUNT", 1)] = 4096,
    feed_limit: Annotated[int, _limit("Maximum number of live feeds of a key or address.", "COUNT", 1)] = 50,
    read_timeout: Annotated[float, _limit("Time-out for receiving a request.", "SECONDS", 0.1)] = 30.0,
    snapshot_events: Annotated[int, typer.Option(metavar="COUNT", min=1, help="Events between snapshots.")] = 50_000,
    snapshot_seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Minimum time between snapshots.")
    ] = 10.0,
    log_format: Annotated[
        str, typer.Option(metavar="json|text", help="Log format; by default text in a terminal, json elsewhere.")
    ] = "",
    log_level: Annotated[str, typer.Option(metavar="LEVEL", help="Log level; DEBUG logs every request.")] = "INFO",
) -> None:
    """Serve decisions over HTTP, with a dashboard at /; acknowledged requests are durable."""
    require("service", "starlette", "uvicorn", "msgspec", "apsw", "jinja2", "prometheus_client")
    with error_messages():
        from releaf.service.app import serve as run
        from releaf.service.settings import ServiceSettings

        if log_format not in ("", "json", "text"):
            fail(f"--log-format is {log_format!r}: expected json or text")
        if log_level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
            fail(f"--log-level is {log_level!r}: expected DEBUG, INFO, WARNING or ERROR")
        settings = ServiceSettings(
            store=store,
            host=host,
            port=port,
            hosts=tuple(name or ()),
            require_keys=require_keys,
            body_limit=body_limit,
            batch_limit=batch_limit,
            rate_limit=rate_limit,
            connection_limit=connection_limit,
            feed_limit=feed_limit,
            read_timeout=read_timeout,
            snapshot_events=snapshot_events,
            snapshot_seconds=snapshot_seconds,
            log_format=log_format or ("text" if errors.is_terminal else "json"),
        )
        run(settings, log_level.upper())
