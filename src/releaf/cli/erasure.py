"""`releaf store erase`: erasure of one subject."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from releaf.cli.console import Json, console, error_messages, print_json, require
from releaf.cli.keys import in_store, must_exist
from releaf.cli.store_argument import RequiredStore

if TYPE_CHECKING:
    from releaf.service.messages import ErasureProof


def erase(
    store: RequiredStore,
    experiment: Annotated[str, typer.Argument(help="The name of the experiment.", metavar="EXPERIMENT")],
    subject: Annotated[str, typer.Argument(help="The subject, as given with its decisions.", metavar="SUBJECT")],
    backup: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A backup to search for the subject, unchanged; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Erase all decisions of one subject, with their contexts and rewards, and print a proof.

    They leave the log, the table of rewards, the samples of learners and the snapshots; what learners added up stays.
    The service must be stopped; a running one erases by POST …/erase. Compact the store afterwards.
    """
    with error_messages():
        require("service", "msgspec", "apsw", "asyncpg")
        import msgspec

        from releaf.service.errors import ApiError, StoreError
        from releaf.service.experiments.offline_erasure import count_in_backup, erase_in_store

        must_exist(store)
        try:
            proof: ErasureProof = in_store(store, lambda opened: erase_in_store(opened, experiment, subject))
            searched = {str(file): asyncio.run(count_in_backup(file, experiment, subject)) for file in backup or ()}
        except (ApiError, StoreError) as error:
            raise ValueError(str(error)) from None
    found = [{"file": file, "created": at, "decisions": count} for file, (at, count) in searched.items()]
    if as_json:
        print_json({**msgspec.to_builtins(proof), "backups": found})
    else:
        _show(proof, found)
    if any(one["decisions"] for one in found):
        raise typer.Exit(1)


def _show(proof: ErasureProof, found: list[dict[str, Any]]) -> None:
    lines = [
        f"Erased {proof.decisions:,} decisions and {proof.rewards:,} rewards of subject {proof.subject}; "
        f"{proof.learner_rows:,} contexts left the learners.",
        f"Searched {proof.searched_pages:,} pages, up to event {proof.searched_events:,}, again: "
        f"{proof.found_after:,} decisions of the subject are left.",
    ]
    if proof.backups_before is not None:
        lines.append(f"Backups made from {proof.backups_since} to {proof.backups_before} hold them: delete these.")
    if proof.set_aside_pages:
        lines.append(f"{proof.set_aside_pages:,} pages of a damaged log were set aside and not searched.")
    lines += [f"{one['file']}, made {one['created']}, holds {one['decisions']:,} of them." for one in found]
    lines.append("Next: releaf store compact")
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
