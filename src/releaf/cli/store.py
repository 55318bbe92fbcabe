"""`releaf store`: maintenance of the decision service's store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from releaf.cli.console import Json, console, error_messages, print_json, require
from releaf.cli.keys import StoreAddress, in_store, must_exist

if TYPE_CHECKING:
    from releaf.service.log.audit import AuditReport, ExperimentAudit

app = typer.Typer(
    help="Maintain the store of the decision service.",
    epilog="Example: releaf store check --store releaf.db",
    no_args_is_help=True,
)


@app.command(epilog="Example: releaf store check --store releaf.db")
def check(store: StoreAddress = "releaf.db", as_json: Json = False) -> None:
    """Replay every experiment's log from its beginning, and compare it with the rest of the store.

    Compares checksums, the numbers of decisions, rewards and snapshots, and states bit for bit. The log is unchanged,
    and a damaged file is refused. Stop the service first. The exit code is 1 if a check fails.
    """
    with error_messages():
        require("service", "msgspec", "apsw", "asyncpg")
        from releaf.service.experiments.serialization import EXPERIMENT_FORMAT
        from releaf.service.log.audit import audit

        must_exist(store)
        report: AuditReport[Any] = in_store(store, lambda opened: audit(opened, EXPERIMENT_FORMAT))
    if as_json:
        print_json({"sound": report.is_sound, "experiments": [_described(one) for one in report.experiments]})
    else:
        _show(report)
    if not report.is_sound:
        raise typer.Exit(1)


def _described(audit: ExperimentAudit[Any]) -> dict[str, Any]:
    names = ("name", "pages", "events", "decisions", "rewards", "snapshots", "findings")
    return {name: getattr(audit, name) for name in names}


def _show(report: AuditReport[Any]) -> None:
    from releaf.report.terminal import table

    if not report.experiments:
        console.print("The store has no experiments.", highlight=False)
        return
    made = table("Logs, replayed from their beginning", "")
    made.add_column("experiment")
    for title in ("events", "decisions", "rewards", "snapshots"):
        made.add_column(title, justify="right")
    made.add_column("")
    for one in report.experiments:
        counts = (one.events, one.decisions, one.rewards, len(one.snapshots))
        verdict = "[red]damaged[/]" if one.findings else "[green]sound[/]"
        made.add_row(escape(one.name), *(f"{count:,}" for count in counts), verdict)
    console.print(made)
    for one in report.experiments:
        for finding in one.findings:
            console.print(f"{escape(one.name)}: {escape(finding)}", highlight=False)
