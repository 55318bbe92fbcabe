"""Backup file: a SQLite file with all tables of a store and a manifest, whichever store they come from.

The application id in the file's header tells a backup from a store, so that no service writes to a backup.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from releaf._version import __version__
from releaf.service.errors import StoreError
from releaf.service.store import migrations
from releaf.service.store.sqlite_errors import advice
from releaf.service.timestamps import format_timestamp

FORMAT = 1  # version of the manifest
APPLICATION_ID = 0x524C4642  # "RLFB"
APPLICATION_ID_AT = slice(68, 72)  # in the header of a SQLite file
STEP_PAGES = 2_000  # copied between two reports of progress
# All tables of a store besides meta, with the order of their rows in checksums.
ORDERS = {
    "experiments": "id",
    "pages": "experiment, last",
    "rewards": "experiment, decision",
    "snapshots": "experiment, last",
    "keys": "id",
    "pages_set_aside": "experiment, last, moved, checksum",
    "rewards_set_aside": "experiment, decision, moved, event",
    "changes": "id",
}
EXPERIMENTS = """
    SELECT name, retired,
        (SELECT count(*) FROM pages WHERE experiment = id),
        (SELECT coalesce(sum(events), 0) FROM pages WHERE experiment = id),
        (SELECT coalesce(max(decision), 0) FROM pages WHERE experiment = id),
        (SELECT count(*) FROM rewards WHERE experiment = id),
        (SELECT count(*) FROM snapshots WHERE experiment = id)
    FROM experiments ORDER BY id
"""
# Decisions that an experiment may have made since its backup, whose numbers a restored store does not issue again: more
# than a service can make. They grow with time, so that stores that were restored one after the other differ too.
SKIPPED_PER_SECOND, LEAST_SKIPPED = 10_000, 1_000_000
Progress = Callable[[int, int], None]


class ExperimentSummary(Struct):
    """An experiment in a manifest: counts of its rows, and the number of its latest decision."""

    name: str
    retired: bool
    pages: int
    events: int
    decisions: int
    rewards: int
    snapshots: int


class TableSummary(Struct):
    """A table in a manifest: the number of its rows, and a checksum of all of them."""

    rows: int
    checksum: str


class Manifest(Struct):
    """Content of a backup."""

    format: int
    releaf: str
    created: str
    source: str
    schema: int
    experiments: list[ExperimentSummary]
    tables: dict[str, TableSummary]


def issued_numbers(manifest: Manifest) -> list[tuple[str, int]]:
    """The latest decision that may have been issued until now, by name of the experiment."""
    seconds = max(0.0, time.time() - datetime.fromisoformat(manifest.created).timestamp())
    skipped = LEAST_SKIPPED + math.ceil(seconds) * SKIPPED_PER_SECOND
    return [(one.name, one.decisions + skipped) for one in manifest.experiments]


def is_backup(path: str | Path) -> bool:
    """Whether a file is a backup, by its header."""
    try:
        with open(path, "rb") as file:
            return int.from_bytes(file.read(100)[APPLICATION_ID_AT], "big") == APPLICATION_ID
    except OSError:
        return False


@contextmanager
def new_backup(path: Path) -> Iterator[apsw.Connection]:
    """A database to copy a store to, which becomes the file when the block ends without an error."""
    if path.exists():
        raise StoreError(f"{path} exists: choose another name for the backup")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.touch(0o600)
        with closing(apsw.Connection(str(temporary))) as connection:
            yield connection
        publish_file(temporary, path)
    except apsw.Error as error:
        raise StoreError(f"{path}: {advice(error)} ({error})") from error
    finally:
        temporary.unlink(missing_ok=True)


def publish_file(temporary: Path, path: Path) -> None:
    """Move a complete file to its name, and wait for the disk."""
    _sync(temporary)
    os.replace(temporary, path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def copy_database(source: apsw.Connection, target: apsw.Connection, on_progress: Progress) -> None:
    """Copy a SQLite database by SQLite's backup API, consistently while others write to it."""
    source.execute("BEGIN")
    try:
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # the connection sees no later commit now
        with target.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(STEP_PAGES)
                on_progress(backup.page_count - backup.remaining, backup.page_count)
    finally:
        source.execute("ROLLBACK")


def seal(connection: apsw.Connection, source: str) -> Manifest:
    """Write the manifest of a copied store, which makes it a backup."""
    connection.pragma("journal_mode", "DELETE")  # a single file, which can be read without writing to its folder
    damage = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
    if damage != ["ok"]:
        raise StoreError(f"the store is damaged ({'; '.join(damage)}): restart the service, which repairs it")
    manifest = Manifest(
        format=FORMAT,
        releaf=__version__,
        created=format_timestamp(time.time()),
        source=source,
        schema=schema_version(connection),
        experiments=_summarize_experiments(connection),
        tables={table: _summarize_table(connection, table) for table in tables_of(connection)},
    )
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('manifest', ?)", (msgspec.json.encode(manifest).decode(),))
    connection.pragma("application_id", APPLICATION_ID)
    return manifest


@contextmanager
def open_backup(path: Path) -> Iterator[tuple[apsw.Connection, Manifest]]:
    """Open a backup after a check of its manifest and all checksums; :class:`StoreError` if one differs."""
    if not path.exists():
        raise StoreError(f"there is no backup {path}")
    if not is_backup(path):
        raise StoreError(f"{path} is no backup: expected a file that releaf store backup made")
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            yield connection, _check(connection, path)
    except (apsw.Error, msgspec.DecodeError) as error:
        raise StoreError(f"the backup {path} is damaged ({error}): use another one") from error


def _check(connection: apsw.Connection, path: Path) -> Manifest:
    text = connection.execute("SELECT value FROM meta WHERE name = 'manifest'").get
    manifest = msgspec.json.decode(text or "null", type=Manifest)
    migrations.missing_migrations(manifest.schema, migrations.SQLITE, str(path))
    found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
    findings = [] if found == ["ok"] else found
    tables = {table: _summarize_table(connection, table) for table in tables_of(connection)}
    findings += [
        f"table {name} has {_told(tables.get(name))}, its manifest {_told(manifest.tables.get(name))}"
        for name in {**manifest.tables, **tables}
        if manifest.tables.get(name) != tables.get(name)
    ]
    if schema_version(connection) != manifest.schema:
        findings.append("its schema version differs from that of its manifest")
    if not findings and manifest.experiments != _summarize_experiments(connection):
        findings.append("its experiments differ from those of its manifest")
    if findings:
        raise StoreError(f"the backup {path} is damaged ({'; '.join(findings)}): use another one")
    return manifest


def schema_version(connection: apsw.Connection) -> int:
    """Schema version of the tables; 0 if there are none."""
    if not connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'meta'").get:
        return 0
    return int(connection.execute("SELECT value FROM meta WHERE name = 'version'").get or 0)


def tables_of(connection: apsw.Connection) -> list[str]:
    """The tables that this schema version has, besides meta."""
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return [table for table in ORDERS if table in names]


def columns_of(connection: apsw.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]


def rows_of(connection: apsw.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    """All rows of a table, in the order of its checksum."""
    names = ", ".join(columns_of(connection, table))
    yield from connection.execute(f"SELECT {names} FROM {table} ORDER BY {ORDERS[table]}")  # noqa: S608


def _summarize_experiments(connection: apsw.Connection) -> list[ExperimentSummary]:
    return [
        ExperimentSummary(name, bool(retired), *counts) for name, retired, *counts in connection.execute(EXPERIMENTS)
    ]


def _summarize_table(connection: apsw.Connection, table: str) -> TableSummary:
    digest, count, encoder = hashlib.blake2b(digest_size=16), 0, msgspec.msgpack.Encoder()
    for row in rows_of(connection, table):
        digest.update(encoder.encode(row))
        count += 1
    return TableSummary(count, digest.hexdigest())


def _told(summary: TableSummary | None) -> str:
    return "nothing" if summary is None else f"{summary.rows:,} rows with checksum {summary.checksum}"
