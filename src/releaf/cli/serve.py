"""`releaf serve`: run the decision service."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Annotated, Any

import typer

from releaf.cli.console import error_messages, errors, fail, require
from releaf.service.settings import ServiceSettings

DEFAULTS = ServiceSettings()
SHARED_OPTIONS = {field.name for field in fields(DEFAULTS)} - {"log_format"}  # options that are settings of the service

STORE = typer.Option(
    metavar="STORE",
    envvar="RELEAF_STORE",
    help="File of the embedded store, or postgresql://user:password@host/database.",
)


def _limit(about: str, metavar: str, least: float) -> Any:
    return typer.Option(help=about, metavar=metavar, min=least, rich_help_panel="Limits")


def serve(
    store: Annotated[str, STORE] = DEFAULTS.store,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; requests need a key unless it is loopback.")
    ] = DEFAULTS.host,
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65_535, help="Port; 0 for a free one.")
    ] = DEFAULTS.port,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A further allowed host name; requests then need a key. May be repeated."),
    ] = None,
    require_keys: Annotated[
        bool, typer.Option("--require-keys", help="Require keys on a loopback address too.")
    ] = DEFAULTS.require_keys,
    body_limit: Annotated[int, _limit("Maximum size of a request.", "BYTES", 1024)] = DEFAULTS.body_limit,
    batch_limit: Annotated[
        int, _limit("Maximum number of contexts or rewards in a request.", "COUNT", 1)
    ] = DEFAULTS.batch_limit,
    rate_limit: Annotated[
        float, _limit("Maximum requests per second of a key or address; 0 for no limit.", "RATE", 0)
    ] = DEFAULTS.rate_limit,
    connection_limit: Annotated[int, _limit("Maximum number of connections.", "COUNT", 1)] = DEFAULTS.connection_limit,
    feed_limit: Annotated[
        int, _limit("Maximum number of live feeds of a key or address.", "COUNT", 1)
    ] = DEFAULTS.feed_limit,
    read_timeout: Annotated[float, _limit("Time-out for receiving a request.", "SECONDS", 0.1)] = DEFAULTS.read_timeout,
    snapshot_events: Annotated[
        int, typer.Option(metavar="COUNT", min=1, help="Events between snapshots.")
    ] = DEFAULTS.snapshot_events,
    snapshot_seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Minimum time between snapshots.")
    ] = DEFAULTS.snapshot_seconds,
    log_format: Annotated[
        str, typer.Option(metavar="json|text", help="Log format; by default text in a terminal, json elsewhere.")
    ] = "",
    log_level: Annotated[str, typer.Option(metavar="LEVEL", help="Log level; DEBUG logs every request.")] = "INFO",
) -> None:
    """Serve decisions over HTTP, with a dashboard at /; acknowledged requests are durable."""
    options = {option: value for option, value in locals().items() if option in SHARED_OPTIONS}
    require("service", "starlette", "uvicorn", "msgspec", "apsw", "jinja2", "prometheus_client")
    with error_messages():
        from releaf.service.app import serve as run

        if log_format not in ("", "json", "text"):
            fail(f"--log-format is {log_format!r}: expected json or text")
        if log_level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
            fail(f"--log-level is {log_level!r}: expected DEBUG, INFO, WARNING or ERROR")
        log_format = log_format or ("text" if errors.is_terminal else "json")
        settings = replace(DEFAULTS, **options, hosts=tuple(name or ()), log_format=log_format)
        run(settings, log_level.upper())
