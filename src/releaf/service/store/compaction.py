"""Compaction of stores: free space goes back to the disk, and no row changes."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

import apsw

from releaf.service.errors import StoreError
from releaf.service.store import repair
from releaf.service.store.backup_file import ORDERS, is_backup, schema_version
from releaf.service.store.sqlite_errors import advice
from releaf.service.store.sqlite_leases import DatabaseLock

SIZES = """
    SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
    FROM pg_class AS c WHERE c.relnamespace = 'releaf'::regnamespace AND c.relkind = 'r'
"""


async def compact(address: str, *, full: bool = False) -> tuple[int, int]:
    """Compact a store; return its size in bytes before and after.

    SQLite rewrites the file without free space (``VACUUM``), which needs a store that no process uses. PostgreSQL makes
    the space of deleted rows reusable (``VACUUM (ANALYZE)``), also while services run; with ``full`` it rewrites the
    tables too (``VACUUM (FULL)``), so that their files have nothing of deleted rows, and locks each meanwhile.
    """
    if address.startswith(("postgresql://", "postgres://")):
        return await _compact_postgres(address, full)
    return _compact_sqlite(Path(address).resolve())


def _compact_sqlite(path: Path) -> tuple[int, int]:
    if is_backup(path):
        raise StoreError(f"{path} is a backup, which has no free space: expected a store")
    folder = Path(f"{path}-leases")
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = DatabaseLock(path, folder)
    try:
        if not lock.is_exclusive:
            raise StoreError(f"another process uses {path}: stop the service first")
        damage = repair.find_damage(path)
        if damage is not None:
            raise StoreError(f"{path} is damaged ({damage}): restart the service, which repairs it")
        before = _size(path)
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            if not schema_version(connection):
                raise StoreError(f"{path} is no store: expected a file that releaf serve made")
            connection.pragma("synchronous", "FULL")
            connection.execute("VACUUM")
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        return before, _size(path)
    except apsw.Error as error:
        raise StoreError(f"{path}: {advice(error)} ({error})") from error
    finally:
        lock.close()


def _size(path: Path) -> int:
    files = (Path(f"{path}{suffix}") for suffix in ("", "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


async def _compact_postgres(address: str, full: bool) -> tuple[int, int]:
    import asyncpg

    from releaf.service.store.postgres_backups import open_connection

    async with open_connection(address) as connection:
        if await connection.fetchval("SELECT to_regclass('releaf.meta') IS NULL"):
            raise StoreError("the database has no store: expected one that releaf serve made")
        before, how = await connection.fetchval(SIZES), "FULL, ANALYZE" if full else "ANALYZE"
        for table in ("meta", *ORDERS):
            if not await connection.fetchval("SELECT to_regclass($1) IS NULL", f"releaf.{table}"):
                await connection.execute(f"VACUUM ({how}) releaf.{table}")
        if full:  # the earlier files are emptied, and what was in memory is written
            with suppress(asyncpg.InsufficientPrivilegeError):  # then the server does it within minutes
                await connection.execute("CHECKPOINT")
        return int(before), int(await connection.fetchval(SIZES))
