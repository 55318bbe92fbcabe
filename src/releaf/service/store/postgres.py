"""The store in a PostgreSQL database, in a schema named ``releaf``.

One connection holds the leases (advisory locks of its session) and does all the writing: whoever loses the locks has
lost the connection too, and can't write any more. Every write is a single statement, so it costs one round trip and is
a transaction of its own. A pooler between service and server must keep sessions (PgBouncer: ``pool_mode=session``).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Any

import asyncpg

from releaf.service.store import migrations
from releaf.service.store.base import (
    FIRST_CHECKSUM,
    Commit,
    ExperimentRow,
    KeyRow,
    LeaseLost,
    Page,
    RewardRow,
    Snapshot,
    StoreError,
    body_checksum,
)

LEASES = 0x5EAF  # the class of our advisory locks; within it 0 is for whoever changes the tables
CONNECT_SECONDS, COMMAND_SECONDS, CLOSE_SECONDS = 5.0, 25.0, 5.0
READERS = 4
PAGES_AT_ONCE, BYTES_AT_ONCE = 2_000, 4 << 20  # read in one go

SESSION = {
    "application_name": "releaf",
    "search_path": "releaf",
    "synchronous_commit": "on",
    "statement_timeout": "20s",  # before COMMAND_SECONDS, so that it is known what became of a statement
    "lock_timeout": "10s",
    "jit": "off",
    # A client whose machine is gone is noticed in some eight seconds, and its locks are free.
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "8000",
}

INSERT_PAGES = """
    INSERT INTO pages
    SELECT * FROM unnest($1::int[], $2::bigint[], $3::bigint[], $4::bigint[], $5::float8[], $6::bytea[], $7::bytea[])
"""
INSERT_REWARDS = """
    INSERT INTO rewards
    SELECT * FROM unnest($8::int[], $9::bigint[], $10::text[], $11::text[], $12::float8[], $13::bigint[])
"""
INSERT_PAGES_AND_REWARDS = f"WITH written AS ({INSERT_PAGES}) {INSERT_REWARDS}"
PAGES = """
    SELECT experiment, last, events, decision, at, checksum, body FROM (
        SELECT *, sum(octet_length(body)) OVER (ORDER BY last {order}) - octet_length(body) AS size_before FROM (
            SELECT * FROM pages WHERE experiment = $1 AND last {beyond} $2 ORDER BY last {order} LIMIT $3
        ) AS next_ones
    ) AS sized WHERE size_before <= $4 ORDER BY last {order}
"""
PAGES_ON = PAGES.format(order="ASC", beyond=">")
PAGES_BACK = PAGES.format(order="DESC", beyond="<")
PAGE_OF_DECISION = "SELECT last FROM pages WHERE experiment = $1 AND decision >= $2 ORDER BY decision, last LIMIT 1"
CREATE = """
    WITH made AS (INSERT INTO experiments (name, created, spec) VALUES ($1, $2, $3) RETURNING id)
    INSERT INTO snapshots SELECT id, 0, $4, $5, $6 FROM made RETURNING experiment
"""
SET_ASIDE = """
    WITH old_rewards AS (DELETE FROM rewards WHERE experiment = $1 AND event > $2 RETURNING *),
    old_pages AS (DELETE FROM pages WHERE experiment = $1 AND last > $2 RETURNING *),
    moved_rewards AS (INSERT INTO rewards_set_aside SELECT *, $3::float8, $4::text FROM old_rewards),
    moved_pages AS (INSERT INTO pages_set_aside SELECT *, $3::float8, $4::text FROM old_pages RETURNING 1)
    SELECT count(*) FROM moved_pages
"""
INSERT_SNAPSHOT = """
    INSERT INTO snapshots VALUES ($1, $2, $3, $4, $5) ON CONFLICT (experiment, last)
    DO UPDATE SET checksum = excluded.checksum, body = excluded.body, page_checksum = excluded.page_checksum
"""
REWARDS = "SELECT decision, outcome, reward, at FROM rewards WHERE experiment = $1 AND decision BETWEEN $2 AND $3"
SET_META = "INSERT INTO meta VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value"

TROUBLE = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)

GONE = "the server can't be reached; see that it runs and that its address is right: the service goes on by itself then"
NO_RIGHT = "the user may not do this; it needs the right to make a schema in the database, and to write to it"
FULL = "the server has no room left on its disk, or no memory; make room, then the service goes on by itself"
ADVICE: tuple[tuple[Any, str], ...] = (
    (
        asyncpg.InvalidAuthorizationSpecificationError,
        "the server refuses the user or its password: correct it",
    ),
    (asyncpg.InvalidCatalogNameError, "the server has no such database; create it, or correct the address"),
    (asyncpg.InsufficientPrivilegeError, NO_RIGHT),
    (asyncpg.TooManyConnectionsError, "the server takes no more connections; raise its max_connections, or end others"),
    (asyncpg.InsufficientResourcesError, FULL),
    (
        asyncpg.ReadOnlySQLTransactionError,
        "the server is read-only, perhaps a standby: give the primary's address",
    ),
    (asyncpg.UndefinedTableError, "the tables are gone; restart the service, which makes them, or restore a backup"),
    (asyncpg.QueryCanceledError, "the server took too long; see what else it is doing"),
    (asyncpg.LockNotAvailableError, "another program keeps the tables locked; end what uses them besides the service"),
    (asyncpg.DataCorruptedError, "the database is damaged; restore a backup"),
    (asyncpg.IndexCorruptedError, "an index of the database is damaged; run REINDEX, or restore a backup"),
    ((asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError, OSError, TimeoutError), GONE),
    ((asyncpg.InterfaceError, asyncpg.InternalClientError), GONE),
)


class PostgresStore:
    """Keeps everything in a PostgreSQL database.

    Parameters
    ----------
    address
        ``postgresql://user:password@host:port/database``.
    scripts
        The tables, version by version.
    """

    def __init__(self, address: str, scripts: Sequence[str] = migrations.POSTGRES) -> None:
        self._address = address
        self._where = masked(address)
        self._scripts = scripts
        self._turn = asyncio.Lock()  # a connection does one thing at a time
        self._held: set[int] = set()
        self._writer: Any = None
        self._readers: Any = None

    # --- opening and closing

    async def open(self) -> list[str]:
        if self._readers is not None:
            raise StoreError(f"{self._where} is open already: close the store before it is opened again")
        async with self._turn:
            try:
                writer = await self._connected()
                await self._make_tables(writer)
                settings = {"server_settings": SESSION, "timeout": CONNECT_SECONDS, "command_timeout": COMMAND_SECONDS}
                self._readers = await asyncpg.create_pool(self._address, min_size=0, max_size=READERS, **settings)
            except BaseException as error:
                self._drop_writer()
                raise self._told(error) from None
        return []

    async def _connected(self) -> Any:
        """The writing connection, made anew where it was lost; the leases of the lost one stay lost."""
        if self._is_cut():
            self._drop_writer()
            try:
                self._writer = await asyncpg.connect(
                    self._address, timeout=CONNECT_SECONDS, command_timeout=COMMAND_SECONDS, server_settings=SESSION
                )
            except (ValueError, asyncpg.ClientConfigurationError):  # whose text may hold parts of the password
                raise StoreError(
                    f"{self._where} can't be understood: expected postgresql://user:password@host:port/database, "
                    "with %40 for an @ in the password, %2F for a / and so on"
                ) from None
            self._writer.add_termination_listener(self._on_termination)
        return self._writer

    def _on_termination(self, connection: Any) -> None:
        if connection is self._writer:
            self._held.clear()

    def _drop_writer(self) -> None:
        self._held.clear()
        if self._writer is not None:
            self._writer.terminate()
            self._writer = None

    async def _make_tables(self, writer: Any) -> None:
        async with writer.transaction():
            await writer.execute("SELECT pg_advisory_xact_lock($1, 0)", LEASES)
            if await writer.fetchval("SELECT to_regnamespace('releaf') IS NULL"):
                await writer.execute("CREATE SCHEMA releaf")
            if await writer.fetchval("SELECT to_regclass('releaf.meta') IS NULL"):
                await writer.execute(migrations.META)
            version = int(await writer.fetchval("SELECT value FROM meta WHERE name = 'version'") or 0)
            missing = migrations.outstanding(version, self._scripts, self._where)
            for script in missing:
                await writer.execute(script)
            if missing:
                await writer.execute(SET_META, "version", str(len(self._scripts)))

    async def close(self) -> None:
        readers, writer = self._readers, self._writer
        self._readers = self._writer = None
        self._held.clear()
        for connection in (readers, writer):
            if connection is not None:
                try:
                    await asyncio.wait_for(connection.close(), CLOSE_SECONDS)
                except TROUBLE:
                    connection.terminate()

    async def ping(self) -> None:
        await self._write(SET_META, "ping", str(time.time()))

    # --- experiments

    async def experiments(self) -> list[ExperimentRow]:
        return [ExperimentRow(*row) for row in await self._read("SELECT * FROM experiments ORDER BY id")]

    async def create(self, name: str, created: float, spec: bytes, snapshot: bytes) -> ExperimentRow:
        first = (body_checksum(snapshot), snapshot, FIRST_CHECKSUM)
        try:
            made = await self._write(CREATE, name, created, spec, *first)
        except asyncpg.UniqueViolationError:
            raise KeyError(name) from None
        return ExperimentRow(made[0][0], name, created, spec, False)

    async def retire(self, experiment: int) -> None:
        await self._write("UPDATE experiments SET retired = true WHERE id = $1", experiment)

    # --- leases

    async def acquire(self, experiment: int) -> bool:
        if experiment in self._held:
            return True
        locked = await self._write("SELECT pg_try_advisory_lock($1, $2)", LEASES, experiment)
        if locked[0][0]:
            self._held.add(experiment)
        return bool(locked[0][0])

    async def release(self, experiment: int) -> None:
        if experiment in self._held:
            self._held.discard(experiment)
            await self._write("SELECT pg_advisory_unlock($1, $2)", LEASES, experiment)

    def holds(self, experiment: int) -> bool:
        return experiment in self._held

    # --- the log

    async def commit(self, commits: Sequence[Commit]) -> None:
        pages = [page for page, _ in commits]
        rewards = [(page.experiment, *row, page.last) for page, rows in commits for row in rows]
        experiments = {page.experiment for page in pages}
        try:
            if rewards:
                await self._write(INSERT_PAGES_AND_REWARDS, *_columns(pages), *_columns(rewards), held=experiments)
            elif pages:
                await self._write(INSERT_PAGES, *_columns(pages), held=experiments)
        except asyncpg.UniqueViolationError as error:
            raise LeaseLost(f"another process has written to the log of this one ({error}): read it again") from error

    async def pages(self, experiment: int, after: int = 0) -> AsyncIterator[Page]:
        while found := await self._read(PAGES_ON, experiment, after, PAGES_AT_ONCE, BYTES_AT_ONCE):
            for row in found:
                yield Page(*row)
            after = found[-1]["last"]

    async def pages_back(self, experiment: int, decision: int) -> AsyncIterator[Page]:
        start = await self._read(PAGE_OF_DECISION, experiment, decision)
        before, count = (start[0][0] + 1, 1) if start else (0, 0)
        while found := await self._read(PAGES_BACK, experiment, before, count, BYTES_AT_ONCE):
            for row in found:
                yield Page(*row)
            before, count = found[-1]["last"], min(2 * count, PAGES_AT_ONCE)

    async def rewards(self, experiment: int, first: int, last: int) -> dict[int, RewardRow]:
        return {row[0]: RewardRow(*row) for row in await self._read(REWARDS, experiment, first, last)}

    async def set_aside(self, experiment: int, after: int, why: str) -> int:
        moved = await self._write(SET_ASIDE, experiment, after, time.time(), why, held=(experiment,))
        return int(moved[0][0])

    async def latest_set_aside(self, experiment: int) -> int:
        rows = await self._read("SELECT max(decision) FROM pages_set_aside WHERE experiment = $1", experiment)
        return int(rows[0][0] or 0)

    # --- snapshots

    async def snapshots(self, experiment: int) -> list[int]:
        rows = await self._read("SELECT last FROM snapshots WHERE experiment = $1 ORDER BY last DESC", experiment)
        return [row[0] for row in rows]

    async def snapshot(self, experiment: int, last: int) -> Snapshot:
        rows = await self._read("SELECT * FROM snapshots WHERE experiment = $1 AND last = $2", experiment, last)
        if not rows:
            raise KeyError((experiment, last))
        return Snapshot(*rows[0])

    async def add_snapshot(self, snapshot: Snapshot) -> None:
        await self._write(INSERT_SNAPSHOT, *snapshot, held=(snapshot.experiment,))

    async def drop_snapshots(self, experiment: int, numbers: Sequence[int]) -> None:
        delete = "DELETE FROM snapshots WHERE experiment = $1 AND last = ANY($2::bigint[])"
        await self._write(delete, experiment, list(numbers), held=(experiment,))

    # --- keys

    async def keys(self) -> list[KeyRow]:
        return [KeyRow(*row) for row in await self._read("SELECT * FROM keys ORDER BY created, id")]

    async def add_key(self, key: KeyRow) -> None:
        try:
            await self._write("INSERT INTO keys VALUES ($1, $2, $3, $4, $5, $6)", *key)
        except asyncpg.UniqueViolationError:
            raise KeyError(key.id) from None

    async def revoke_key(self, key: str, at: float) -> bool:
        update = "UPDATE keys SET revoked = $1 WHERE id = $2 AND revoked IS NULL RETURNING id"
        return bool(await self._write(update, at, key))

    # --- the connections

    async def _write(self, statement: str, *values: Any, held: Collection[int] = ()) -> list[Any]:
        """Run one statement, a transaction of its own, on the writing connection."""
        self._check_open()
        async with self._turn:
            self._check_leases(held)
            try:
                writer = await self._connected()
                return await writer.fetch(statement, *values)  # type: ignore[no-any-return]
            except asyncpg.UniqueViolationError:
                raise
            except BaseException as error:
                if not isinstance(error, asyncpg.PostgresError) or self._is_cut():
                    self._drop_writer()  # nobody knows what became of the statement, so the leases go with it
                raise self._told(error) from None

    def _is_cut(self) -> bool:
        return self._writer is None or self._writer.is_closed()

    def _check_leases(self, experiments: Collection[int]) -> None:
        if self._is_cut():
            self._held.clear()  # before a new connection is made, which has none of them
            if experiments:
                raise LeaseLost(f"{self._where}: {GONE} (the connection was lost)")
        for experiment in experiments:
            if experiment not in self._held:
                raise LeaseLost(f"experiment {experiment} is not this process's to write to: acquire its lease first")

    async def _read(self, statement: str, *values: Any) -> list[Any]:
        self._check_open()
        try:
            return await self._readers.fetch(statement, *values)  # type: ignore[no-any-return]
        except TROUBLE as error:
            raise self._told(error) from None

    def _check_open(self) -> None:
        if self._readers is None:
            raise StoreError(f"{self._where} is not open: open the store first")

    def _told(self, error: BaseException) -> BaseException:
        """What to raise for an error: one of the server's with what to do about it, any other as it is."""
        if not isinstance(error, TROUBLE):
            return error
        advice = next((text for kind, text in ADVICE if isinstance(error, kind)), "the server reports an error")
        return StoreError(f"{self._where}: {advice} ({type(error).__name__}: {error})")


def _columns(rows: Sequence[tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
    return zip(*rows, strict=True)


def masked(address: str) -> str:
    """An address without its password, for people to read."""
    hidden = re.sub(r"://([^:@/?]*):.*@", r"://\1:***@", address)
    return re.sub(r"((?:^|[?&])password=)[^&]*", r"\1***", hidden)
