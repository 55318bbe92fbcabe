"""`releaf store`: maintenance of the decision service's store."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from releaf.cli.audit_log import audit as audit_log
from releaf.cli.console import Json, console, error_messages, print_json, require
from releaf.cli.erasure import erase
from releaf.cli.keys import in_store
from releaf.cli.manual import USUAL, epilog, paragraphs
from releaf.cli.store_files import backup, compact, export, readable_store, restore

if TYPE_CHECKING:
    from releaf.service.log.audit import AuditReport, ExperimentAudit

app = typer.Typer(
    help="Maintain the store of the decision service.",
    epilog=epilog("releaf store backup releaf.db releaf-backup.db", ("serve",)),
    no_args_is_help=True,
)


def check(
    store: Annotated[
        str,
        typer.Argument(envvar="RELEAF_STORE", help="A store (a file, or a postgresql:// address), or a backup."),
    ] = "releaf.db",
    option: Annotated[str | None, typer.Option("--store", hidden=True)] = None,
    as_json: Json = False,
) -> None:
    """Replay every experiment's log from its beginning, and compare it with the rest of the store.

    Compares checksums, the numbers of decisions, rewards and snapshots, and states bit for bit; of a backup, first its
    manifest. The log is unchanged, and a damaged file is refused. Stop the service first, or check a backup.
    """
    with error_messages():
        require("service", "msgspec", "apsw", "asyncpg")
        from releaf.service.experiments.serialization import EXPERIMENT_FORMAT
        from releaf.service.log.audit import audit

        with readable_store(option or store) as address:
            report: AuditReport[Any] = in_store(address, lambda opened: audit(opened, EXPERIMENT_FORMAT))
    if as_json:
        print_json({"sound": report.is_sound, "experiments": [_described(one) for one in report.experiments]})
    else:
        _show(report)
    if not report.is_sound:
        raise typer.Exit(1)


def _described(audit: ExperimentAudit[Any]) -> dict[str, Any]:
    names = ("name", "pages", "events", "decisions", "rewards", "replayed_from", "snapshots", "findings")
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
        if one.replayed_from and not one.findings:
            about = f"the replay starts after event {one.replayed_from:,}: pages before it are redacted, and sound"
            console.print(f"{escape(one.name)}: {about}", highlight=False)
        for finding in one.findings:
            console.print(f"{escape(one.name)}: {escape(finding)}", highlight=False)


CHECK_CODE = "0, or 1 if it fails or finds damage"
COMMANDS: tuple[tuple[Callable[..., None], str], ...] = (
    (check, "releaf store check releaf.db"),
    (backup, "releaf store backup releaf.db releaf-backup.db"),
    (restore, "releaf store restore releaf-backup.db restored.db"),
    (compact, "releaf store compact releaf.db"),
    (export, "releaf store export releaf.db triage -o triage.parquet"),
    (erase, "releaf store erase releaf.db triage patient-7 --backup releaf-backup.db"),
    (audit_log, "releaf store audit releaf.db --experiment triage"),
)
EXIT_CODES: dict[Callable[..., None], str] = {
    check: CHECK_CODE,
    erase: "0, or 1 if it fails or a backup holds decisions of the subject",
}
for _command, _example in COMMANDS:
    app.command(help=paragraphs(_command), epilog=epilog(_example, ("serve",), EXIT_CODES.get(_command, USUAL)))(
        _command
    )
