"""`releaf serve`: run the decision service."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from releaf.cli.console import error_messages, errors, fail, require
from releaf.cli.service_configuration import PREFIX, format_config, read_config, unknown_variables
from releaf.service.settings import ServiceSettings

DEFAULTS = ServiceSettings()
SHARED_OPTIONS = {field.name for field in fields(DEFAULTS)} - {"log_format"}  # options that are settings of the service
CONTEXT = {"auto_envvar_prefix": PREFIX}  # so that every option has an environment variable


def _option(about: str, metavar: str, **further: Any) -> Any:
    return typer.Option(help=about, metavar=metavar, **further)


def _limit(about: str, metavar: str, least: float) -> Any:
    return _option(about, metavar, min=least, rich_help_panel="Limits")


def serve(
    context: typer.Context,
    config: Annotated[
        Path | None,
        _option(
            "File with settings; options and variables override it.", "FILE.toml", is_eager=True, callback=read_config
        ),
    ] = None,
    print_config: Annotated[
        bool,
        typer.Option(
            "--print-config", allow_from_autoenv=False, help="Print all settings and their sources as TOML, and exit."
        ),
    ] = False,
    store: Annotated[
        str, _option("File of the embedded store, or postgresql://user:password@host/database.", "STORE")
    ] = DEFAULTS.store,
    host: Annotated[
        str, _option("Address to listen on; requests need a key unless it is loopback.", "ADDRESS")
    ] = DEFAULTS.host,
    port: Annotated[int, _option("Port; 0 for a free one.", "PORT", min=0, max=65_535)] = DEFAULTS.port,
    name: Annotated[
        list[str] | None, _option("A further allowed host name; requests then need a key. May be repeated.", "HOST")
    ] = None,
    require_keys: Annotated[
        bool, typer.Option("--require-keys", help="Require keys on a loopback address too.")
    ] = DEFAULTS.require_keys,
    trusted_proxy: Annotated[
        list[str] | None,
        _option(
            "A proxy whose X-Forwarded-… headers count, an address or a network; requests then need a key. May be "
            "repeated.",
            "ADDRESS/CIDR",
        ),
    ] = None,
    body_limit: Annotated[int, _limit("Maximum size of a request.", "BYTES", 1024)] = DEFAULTS.body_limit,
    batch_limit: Annotated[
        int, _limit("Maximum number of contexts or rewards in a request.", "COUNT", 1)
    ] = DEFAULTS.batch_limit,
    rate_limit: Annotated[
        float, _limit("Maximum requests per second of a key or address; 0 for no limit.", "RATE", 0)
    ] = DEFAULTS.rate_limit,
    connection_limit: Annotated[int, _limit("Maximum number of connections.", "COUNT", 1)] = DEFAULTS.connection_limit,
    client_connection_limit: Annotated[
        int | None,
        _limit("Maximum number of connections of an address; by default a quarter of all.", "COUNT", 1),
    ] = DEFAULTS.client_connection_limit,
    feed_limit: Annotated[
        int, _limit("Maximum number of live feeds of a key or address.", "COUNT", 1)
    ] = DEFAULTS.feed_limit,
    total_feed_limit: Annotated[int, _limit("Maximum number of live feeds of all clients.", "COUNT", 1)] = (
        DEFAULTS.total_feed_limit
    ),
    read_timeout: Annotated[float, _limit("Time-out for receiving a request.", "SECONDS", 0.1)] = DEFAULTS.read_timeout,
    send_timeout: Annotated[
        float, _limit("Time-out for a client that receives nothing of its response.", "SECONDS", 0.1)
    ] = DEFAULTS.send_timeout,
    write_timeout: Annotated[
        float, _limit("Time-out for writing an event to disk.", "SECONDS", 0.1)
    ] = DEFAULTS.write_timeout,
    salvage: Annotated[
        bool,
        typer.Option(
            "--salvage", allow_from_autoenv=False, help="Continue with what is left of a damaged store, this once."
        ),
    ] = DEFAULTS.salvage,
    lease_timeout: Annotated[
        float, _option("Time without a heartbeat after which to take over from another process.", "SECONDS", min=0.5)
    ] = DEFAULTS.lease_timeout,
    snapshot_events: Annotated[int, _option("Events between snapshots.", "COUNT", min=1)] = DEFAULTS.snapshot_events,
    snapshot_seconds: Annotated[
        float, _option("Minimum time between snapshots.", "SECONDS", min=0)
    ] = DEFAULTS.snapshot_seconds,
    drain_seconds: Annotated[
        float, _option("Time after SIGTERM in which /readyz answers 503 and all else goes on.", "SECONDS", min=0)
    ] = DEFAULTS.drain_seconds,
    personalizer: Annotated[
        str,
        _option(
            "Experiment that answers Azure Personalizer's API at this address; created unless it is there.",
            "EXPERIMENT",
        ),
    ] = DEFAULTS.personalizer,
    log_format: Annotated[str, _option("Log format; by default text in a terminal, json elsewhere.", "json|text")] = "",
    log_level: Annotated[str, _option("Log level; DEBUG logs every request.", "LEVEL")] = "INFO",
) -> None:
    """Serve decisions over HTTP, with a dashboard at /; acknowledged requests are durable."""
    options: dict[str, Any] = {option: value for option, value in locals().items() if option in SHARED_OPTIONS}
    if log_format not in ("", "json", "text"):
        fail(f"--log-format is {log_format!r}: expected json or text")
    if log_level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        fail(f"--log-level is {log_level!r}: expected DEBUG, INFO, WARNING or ERROR")
    log_format = log_format or ("text" if errors.is_terminal else "json")
    for warning in unknown_variables(context, os.environ):
        errors.print(warning, highlight=False, markup=False, soft_wrap=True)
    with error_messages():
        options |= {"hosts": tuple(name or ()), "trusted_proxies": tuple(trusted_proxy or ())}
        settings = replace(DEFAULTS, **options, log_format=log_format)
        if print_config:
            shown = {**options, "name": settings.hosts, "trusted_proxy": settings.trusted_proxies}
            shown["client_connection_limit"] = settings.connections_per_client
            shown |= {"log_format": log_format, "log_level": log_level.upper()}
            print(format_config(context, shown), end="")
            return
        require("service", "starlette", "uvicorn", "msgspec", "apsw", "jinja2", "prometheus_client")
        from releaf.service.app import serve as run

        run(settings, log_level.upper())
