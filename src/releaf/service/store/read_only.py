"""Read-only access to a store, for processes that read while a service writes; they take no lease and no lock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

from releaf.service.store.sql_queries import BYTES_PER_READ, SqlQueries

BUSY_MILLISECONDS = 10_000


@asynccontextmanager
async def open_reader(address: str) -> AsyncIterator[SqlQueries]:
    """Open a store at a ``postgresql://`` address or in a file, for reading."""
    if address.startswith(("postgresql://", "postgres://")):
        import asyncpg

        from releaf.service.store.postgres import SESSION

        connection = await asyncpg.connect(address, server_settings={**SESSION, "default_transaction_read_only": "on"})
        try:
            yield _PostgresReader(connection)
        finally:
            await connection.close()
    else:
        import apsw

        with closing(apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY)) as file:
            file.set_busy_timeout(BUSY_MILLISECONDS)
            yield SqliteReader(file)


class SqliteReader(SqlQueries):
    """Reads a store from a connection to its file."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def _read(self, statement: str, *values: Any) -> list[Any]:
        return list(self._connection.execute(statement, values))

    async def _read_pages(self, experiment: int, beyond: int, count: int, *, back: bool = False) -> list[Any]:
        from releaf.service.store.sqlite import PAGES, PAGES_BACK

        rows, size = [], 0
        with closing(self._connection.execute(PAGES_BACK if back else PAGES, (experiment, beyond, count))) as cursor:
            for row in cursor:
                rows.append(row)
                size += len(row[-1])
                if size > BYTES_PER_READ:
                    break
        return rows


class _PostgresReader(SqlQueries):
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def _read(self, statement: str, *values: Any) -> list[Any]:
        rows: list[Any] = await self._connection.fetch(statement, *values)
        return rows

    async def _read_pages(self, experiment: int, beyond: int, count: int, *, back: bool = False) -> list[Any]:
        from releaf.service.store.postgres import PAGES_BACK, PAGES_ON

        return await self._read(PAGES_BACK if back else PAGES_ON, experiment, beyond, count, BYTES_PER_READ)
