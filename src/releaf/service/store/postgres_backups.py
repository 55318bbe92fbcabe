"""Dump of a PostgreSQL store to a backup file, and its restoration."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import apsw

from releaf.service.errors import StoreError
from releaf.service.store import migrations
from releaf.service.store.backup_file import ORDERS, Manifest, Progress, columns_of, issued_numbers, rows_of, tables_of
from releaf.service.store.postgres import (
    CLIENT_ERRORS,
    LOCK_CLASS,
    SESSION,
    SET_META,
    connect,
    mask_password,
    translate_error,
)

ROWS_PER_BATCH = 200  # bodies of pages and snapshots may be megabytes
IDENTITIES = ("experiments", "changes")  # tables whose ids the database assigns


async def dump(address: str, target: apsw.Connection, on_progress: Progress) -> None:
    """Copy all tables to an empty database, as they are at one moment (``REPEATABLE READ``)."""
    async with (
        open_connection(address) as source,
        source.transaction(isolation="repeatable_read", readonly=True),
    ):
        if await source.fetchval("SELECT to_regclass('releaf.meta') IS NULL"):
            raise StoreError("the database has no store: expected one that releaf serve made")
        version = int(await source.fetchval("SELECT value FROM meta WHERE name = 'version'"))
        migrations.missing_migrations(version, migrations.POSTGRES, "the database")
        target.execute("BEGIN")
        for script in (migrations.META, *migrations.SQLITE[:version]):
            target.execute(script)
        meta = await source.fetch("SELECT name, value FROM meta WHERE name <> 'ping'")
        target.executemany("INSERT INTO meta VALUES (?, ?)", [tuple(row) for row in meta])
        tables = tables_of(target)
        counts = [await source.fetchval(f"SELECT count(*) FROM {table}") for table in tables]  # noqa: S608
        done, total = 0, sum(counts)
        for table in tables:
            async for rows in _batches(source, table, columns_of(target, table)):
                marks = ", ".join("?" * len(rows[0]))
                target.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608
                done += len(rows)
                on_progress(done, total)
        target.execute("COMMIT")


async def load(backup: apsw.Connection, manifest: Manifest, address: str, on_progress: Progress) -> None:
    """Create the tables of the backup's version and fill them, in one transaction."""
    async with open_connection(address) as target, target.transaction():
        await target.execute("SELECT pg_advisory_xact_lock($1, 0)", LOCK_CLASS)
        if not await target.fetchval("SELECT to_regclass('releaf.meta') IS NULL"):
            raise StoreError("the database has a store already: restore to another one, or drop its schema releaf")
        if await target.fetchval("SELECT to_regnamespace('releaf') IS NULL"):
            await target.execute("CREATE SCHEMA releaf")
        for script in (migrations.META, *migrations.POSTGRES[: manifest.schema]):
            await target.execute(script)
        meta = list(backup.execute("SELECT name, value FROM meta WHERE name NOT IN ('manifest', 'ping')"))
        meta += [(f"issued:{name}", str(number)) for name, number in issued_numbers(manifest)]
        await target.executemany(SET_META, meta)  # the version, and the secret, by which receipts and hashes stay valid
        done, total = 0, sum(table.rows for table in manifest.tables.values())
        tables = tables_of(backup)
        for table in tables:
            columns = columns_of(backup, table)
            for rows in _in_batches(_converted(table, rows_of(backup, table))):
                await target.copy_records_to_table(table, schema_name="releaf", columns=columns, records=rows)
                done += len(rows)
                on_progress(done, total)
        for table in IDENTITIES:
            if table in tables:
                following = f"(SELECT coalesce(max(id), 0) + 1 FROM {table})"  # noqa: S608
                await target.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), {following}, false)")


@asynccontextmanager
async def open_connection(address: str) -> AsyncIterator[Any]:
    """A connection to the database of a store, without a time-out of statements."""
    try:
        connection = await connect(address, {**SESSION, "statement_timeout": "0"}, None)
        try:
            yield connection
        finally:
            await connection.close()
    except CLIENT_ERRORS as error:
        raise translate_error(error, mask_password(address)) from None


async def _batches(source: Any, table: str, columns: list[str]) -> AsyncIterator[list[tuple[Any, ...]]]:
    select = f"SELECT {', '.join(columns)} FROM {table} ORDER BY {ORDERS[table]}"  # noqa: S608
    cursor = await source.cursor(select)
    while rows := await cursor.fetch(ROWS_PER_BATCH):
        yield [tuple(row) for row in rows]


def _in_batches(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, ROWS_PER_BATCH)):
        yield batch


def _converted(table: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Rows with PostgreSQL's booleans, which SQLite has as numbers."""
    for row in rows:
        yield (*row[:-1], bool(row[-1])) if table == "experiments" else row
