"""`releaf store backup`, `restore`, `compact` and `export`: files from and to the decision service's store."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from releaf.cli.console import Json, console, error_messages, fail, print_json, progress_bar, require
from releaf.cli.keys import in_store, must_exist
from releaf.cli.store_argument import RequiredStore, StoreArgument

if TYPE_CHECKING:
    from releaf.service.store.backup_file import Manifest

Result = TypeVar("Result")
FORMATS = ("csv", "ndjson", "parquet")
Report = Callable[[int, int], None]
BackupFile = Annotated[Path, typer.Argument(help="The backup.", metavar="FILE")]


def backup(
    store: RequiredStore,
    file: Annotated[Path, typer.Argument(help="The file to write; it must not exist.", metavar="FILE")],
    as_json: Json = False,
) -> None:
    """Write a consistent copy of a store to one file, also while the service runs.

    The file has the same format for SQLite and PostgreSQL, and a manifest with counts and checksums. It contains all
    contexts and the hashes of the API keys: keep it as safe as the store.
    """
    with error_messages():
        _require_service()
        from releaf.service.store.backups import back_up

        manifest = _with_progress("Backing up", lambda report: back_up(store, file, report))
    if as_json:
        _print_manifest(manifest)
        return
    size = file.stat().st_size / 1e6
    console.print(f"{file} has a backup of {_told(manifest)}; {size:,.1f} MB.", highlight=False, markup=False)


def restore(file: BackupFile, store: RequiredStore, as_json: Json = False) -> None:
    """Write a backup to a new store: a file that does not exist, or a PostgreSQL database without a schema releaf.

    Checks the manifest and all checksums first. Decisions made after the backup are unknown to the new store: their
    rewards are refused, and their numbers are not given out again.
    """
    with error_messages():
        _require_service()
        from releaf.service.experiments.change_records import record_restoration
        from releaf.service.store.backups import restore as write_store

        manifest = _with_progress("Restoring", lambda report: write_store(file, store, report))
        in_store(store, lambda opened: opened.add_change(record_restoration(str(file), manifest)))
    if as_json:
        _print_manifest(manifest)
        return
    console.print(f"The store has {_told(manifest)}, as of {manifest.created}.", highlight=False, markup=False)


def compact(
    store: StoreArgument = "releaf.db",
    full: Annotated[
        bool, typer.Option("--full", help="PostgreSQL: rewrite the tables (VACUUM FULL); stop the service first.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Give unused space back to the disk; no row is changed or dropped.

    SQLite: rewrites the file (VACUUM); stop the service first, and have as much free space as the store takes.
    PostgreSQL: VACUUM (ANALYZE), which makes the space of deleted rows reusable, also while the service runs; --full
    also rewrites the tables, so that their files have nothing of deleted rows.
    """
    with error_messages():
        _require_service()
        from releaf.service.store.compaction import compact as compact_store

        must_exist(store)
        before, after = _run(compact_store(store, full=full))
    if as_json:
        print_json({"bytes_before": before, "bytes_after": after})
        return
    console.print(f"The store takes {after / 1e6:,.1f} MB; it took {before / 1e6:,.1f} MB.", highlight=False)


def export(
    store: Annotated[str, typer.Argument(help="A store, or a backup.", metavar="STORE")],
    experiment: Annotated[str, typer.Argument(help="The name of the experiment.")],
    file_format: Annotated[
        str | None, typer.Option("--format", metavar="csv|ndjson|parquet", help="File format.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file to write; by default stdout.")
    ] = None,
) -> None:
    """Export all decisions of an experiment with their rewards, with or without a running service."""
    with error_messages():
        _require_service()
        chosen = file_format or (output.suffix.removeprefix(".").lower() if output else "csv")
        if chosen not in FORMATS:
            raise ValueError(f"format is {chosen!r}: expected one of {', '.join(FORMATS)}")
        if chosen == "parquet" and output is None and sys.stdout.isatty():
            fail("Parquet is binary: name a file with -o")
        with readable_store(store) as address, _opened(output) as file:
            _run(_export(address, experiment, chosen, file))


async def _export(address: str, experiment: str, file_format: str, file: IO[bytes]) -> None:
    from releaf.service.experiments.offline_export import export_from_store

    async for part in export_from_store(address, experiment, file_format):
        file.write(part)
    file.flush()


def _opened(output: Path | None) -> Any:
    from releaf.atomic_file import replace_file

    return nullcontext(sys.stdout.buffer) if output is None else replace_file(output)


@contextmanager
def readable_store(address: str) -> Iterator[str]:
    """The address of a store that can be opened: the given one, or a temporary copy if it is a backup."""
    from releaf.service.store.backup_file import is_backup
    from releaf.service.store.backups import restore as write_store

    if "://" in address or not is_backup(address):
        must_exist(address)
        yield address
        return
    with tempfile.TemporaryDirectory(prefix="releaf-") as folder:
        copy = str(Path(folder) / "store.db")
        _with_progress("Reading the backup", lambda report: write_store(Path(address), copy, report))
        yield copy


def _with_progress(title: str, act: Callable[[Report], Awaitable[Result]]) -> Result:
    with progress_bar() as bar:
        task = bar.add_task(title, total=None)
        return _run(act(lambda done, total: bar.update(task, completed=done, total=total)))


def _run(work: Awaitable[Result]) -> Result:
    """Run a coroutine; an error of the store becomes a ``ValueError`` with passwords masked."""
    from releaf.service.errors import StoreError
    from releaf.service.structured_logging import mask

    async def awaited() -> Result:
        return await work

    try:
        return asyncio.run(awaited())
    except StoreError as error:
        raise ValueError(mask(str(error))) from None


def _require_service() -> None:
    require("service", "msgspec", "apsw", "asyncpg")


def _print_manifest(manifest: Manifest) -> None:
    import msgspec

    print_json(msgspec.to_builtins(manifest))


def _told(manifest: Manifest) -> str:
    events = sum(one.events for one in manifest.experiments)
    count = len(manifest.experiments)
    return f"{count:,} experiment{'' if count == 1 else 's'} and {events:,} events"
