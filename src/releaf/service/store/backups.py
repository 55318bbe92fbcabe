"""Backup and restoration of stores: from SQLite and PostgreSQL to a backup file, and from that to either."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw

from releaf.service.errors import StoreError
from releaf.service.store import migrations, repair
from releaf.service.store.backup_file import (
    Manifest,
    Progress,
    copy_database,
    is_backup,
    issued_numbers,
    new_backup,
    open_backup,
    publish_file,
    schema_version,
    seal,
)
from releaf.service.store.number_marks import forget_events, read_marks
from releaf.service.store.sqlite_errors import advice
from releaf.service.store.sqlite_leases import DatabaseLock


async def back_up(address: str, path: Path, on_progress: Progress = lambda done, total: None) -> Manifest:
    """Write a consistent copy of a store to a new file, also while services use the store; the store is unchanged."""
    with new_backup(path) as connection:
        if is_postgres(address):
            from releaf.service.store.postgres_backups import dump

            await dump(address, connection, on_progress)
            return seal(connection, "postgresql")
        _copy_sqlite(Path(address), connection, on_progress)
        return seal(connection, "sqlite")


async def restore(path: Path, address: str, on_progress: Progress = lambda done, total: None) -> Manifest:
    """Write a backup to a new store, with the tables of the backup's version; all of it or nothing.

    Its experiments go on with numbers that no decision since the backup can have.

    Raises a :class:`StoreError` if the backup is damaged, or the store exists already.
    """
    with open_backup(path) as (connection, manifest):
        if is_postgres(address):
            from releaf.service.store.postgres_backups import load

            await load(connection, manifest, address, on_progress)
        else:
            _restore_sqlite(connection, manifest, Path(address).resolve(), on_progress)
    return manifest


def is_postgres(address: str) -> bool:
    """Whether an address is that of a PostgreSQL database."""
    return address.startswith(("postgresql://", "postgres://"))


def _copy_sqlite(path: Path, target: apsw.Connection, on_progress: Progress) -> None:
    if not path.exists():
        raise StoreError(f"there is no store {path}")
    if is_backup(path):
        raise StoreError(f"{path} is a backup: expected a store")
    with closing(repair.open_without_checkpoint(path)) as source:
        try:
            version = schema_version(source)
        except apsw.Error as error:
            raise StoreError(f"{path}: {advice(error)} ({error})") from error
        if not version:
            raise StoreError(f"{path} is no store: expected a file that releaf serve made")
        migrations.missing_migrations(version, migrations.SQLITE, str(path))
        copy_database(source, target, on_progress)


def _restore_sqlite(backup: apsw.Connection, manifest: Manifest, path: Path, on_progress: Progress) -> None:
    folder = Path(f"{path}-leases")
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = DatabaseLock(path, folder)
    try:
        _require_no_store(path, lock)
        temporary = Path(f"{path}-restore")
        temporary.unlink(missing_ok=True)
        temporary.touch(0o600)
        try:
            with closing(apsw.Connection(str(temporary))) as target:
                copy_database(backup, target, on_progress)
                target.execute("DELETE FROM meta WHERE name IN ('manifest', 'ping')")
                target.executemany(repair.SKIP_NUMBERS, issued_numbers(manifest))
                target.executemany(repair.SKIP_NUMBERS, [(mark.name, mark.reserved) for mark in read_marks(folder)])
                target.pragma("application_id", 0)
            forget_events(folder)  # of a store that was there
            publish_file(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    finally:
        lock.close()


def _require_no_store(path: Path, lock: DatabaseLock) -> None:
    """Raise an error if there is a store, or parts of one: SQLite would apply a write-ahead log to another database."""
    if not lock.is_exclusive:
        raise StoreError(f"another process uses {path}: restore to another file")
    remains = [Path(f"{path}{suffix}") for suffix in ("", "-wal", "-salvage")]
    found = [str(file) for file in remains if file.exists() and file.stat().st_size]
    if found:
        raise StoreError(f"{', '.join(found)} exists: move it away, or restore to another file")
