"""Event store in a PostgreSQL database, in a schema named ``releaf``.

One connection does all writes, and holds an advisory lock of its session: when the process ends, so does the session,
and others take over its leases at once. From a process that stopped without an end they take over after the lease
time-out. Every write is a single statement, one round trip and one transaction, and checks the epochs of its leases. A
pooler between service and server must keep sessions (PgBouncer: ``pool_mode=session``).
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar

import asyncpg

from releaf.service.errors import StoreError
from releaf.service.store import migrations
from releaf.service.store.base import (
    FIRST_CHECKSUM,
    LEASE_TIMEOUT,
    ChangeRow,
    Commit,
    ExperimentRow,
    KeyRow,
    LeaseLost,
    Snapshot,
    body_checksum,
)
from releaf.service.store.lease_heartbeat import Heartbeat, SilenceWatch
from releaf.service.store.postgres_leases import (
    BEAT,
    CLAIM_LEASE,
    END_SESSION,
    FENCE,
    HOLDER_CLASS,
    LEASE,
    OLDER_VERSIONS,
    REGISTER_HOLDER,
    RELEASE_LEASE,
)
from releaf.service.store.sql_queries import BYTES_PER_READ, SqlQueries

LOCK_CLASS = 0x5EAF  # first key of the advisory lock of a migration, with 0; older versions: with an experiment
CONNECT_SECONDS, COMMAND_SECONDS, CLOSE_SECONDS = 5.0, 25.0, 5.0
READERS = 4
log = logging.getLogger("releaf.service")

SESSION = {
    "application_name": "releaf",
    "search_path": "releaf",
    "synchronous_commit": "on",
    "statement_timeout": "20s",  # shorter than COMMAND_SECONDS, so that the outcome of a statement is known
    "lock_timeout": "10s",
    "jit": "off",
    # The server notices a dead client machine within about eight seconds, and releases its locks.
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "8000",
}

INSERT_PAGES = """
    INSERT INTO pages
    SELECT * FROM unnest($1::int[], $2::bigint[], $3::bigint[], $4::bigint[], $5::float8[], $6::bytea[], $7::bytea[])
    WHERE {fence}
"""
INSERT_REWARDS = """
    INSERT INTO rewards
    SELECT * FROM unnest($8::int[], $9::bigint[], $10::text[], $11::text[], $12::float8[], $13::bigint[])
"""
INSERT_PAGES_AND_REWARDS = f"WITH written AS ({INSERT_PAGES}) {INSERT_REWARDS}"


def _insert_changes(first: int, given: str = "") -> str:
    """Statement that records changes, whose columns are the parameters from this number on, if a table has rows."""
    kinds = ["float8[]", *["text[]"] * 7]
    columns = ", ".join(f"${number}::{kind}" for number, kind in enumerate(kinds, first))
    tables = f"{given}, unnest({columns})" if given else f"unnest({columns})"
    return f"INSERT INTO changes SELECT row.* FROM {tables} AS row"  # noqa: S608


INSERT_ALL = f"WITH written AS ({INSERT_PAGES}), rewarded AS ({INSERT_REWARDS}) {_insert_changes(14)}"
PAGES = """
    SELECT experiment, last, events, decision, at, checksum, body FROM (
        SELECT *, sum(octet_length(body)) OVER (ORDER BY last {order}) - octet_length(body) AS size_before FROM (
            SELECT * FROM pages WHERE experiment = $1 AND last {beyond} $2 ORDER BY last {order} LIMIT $3
        ) AS next_ones
    ) AS sized WHERE size_before <= $4 ORDER BY last {order}
"""
PAGES_ON = PAGES.format(order="ASC", beyond=">")
PAGES_BACK = PAGES.format(order="DESC", beyond="<")
CREATE = f"""
    WITH made AS (INSERT INTO experiments (name, created, spec) VALUES ($1, $2, $3) RETURNING id),
    recorded AS ({_insert_changes(7)})
    INSERT INTO snapshots SELECT id, 0, $4, $5, $6 FROM made RETURNING experiment
"""  # noqa: S608
ADD_KEY = f"WITH made AS (INSERT INTO keys VALUES ($1, $2, $3, $4, $5, $6)) {_insert_changes(7)}"  # noqa: S608
REVOKE_KEY = f"""
    WITH revoked AS (UPDATE keys SET revoked = $1 WHERE id = $2 AND revoked IS NULL RETURNING id),
    recorded AS ({_insert_changes(3, "revoked")})
    SELECT id FROM revoked
"""  # noqa: S608
SET_ASIDE = """
    WITH old_rewards AS (DELETE FROM rewards WHERE experiment = $1 AND event > $2 AND {fence} RETURNING *),
    old_pages AS (DELETE FROM pages WHERE experiment = $1 AND last > $2 AND {fence} RETURNING *),
    moved_rewards AS (INSERT INTO rewards_set_aside SELECT *, $3::float8, $4::text FROM old_rewards),
    moved_pages AS (INSERT INTO pages_set_aside SELECT *, $3::float8, $4::text FROM old_pages RETURNING 1)
    SELECT count(*) FROM moved_pages
"""
REDACT = """
    WITH redacted AS (
        UPDATE pages SET body = given.body FROM unnest($2::bigint[], $3::bytea[]) AS given (last, body)
        WHERE pages.experiment = $1 AND pages.last = given.last AND {fence}
    ), dropped AS (
        DELETE FROM rewards WHERE experiment = $1 AND (event <= $4 OR decision = ANY($6::bigint[])) AND {fence}
    )
    DELETE FROM snapshots WHERE experiment = $1 AND last < $5 AND {fence}
"""
INSERT_SNAPSHOT = """
    INSERT INTO snapshots SELECT $1::int, $2::bigint, $3::bytea, $4::bytea, $5::bytea WHERE {fence}
    ON CONFLICT (experiment, last)
    DO UPDATE SET checksum = excluded.checksum, body = excluded.body, page_checksum = excluded.page_checksum
"""
DROP_SNAPSHOTS = "DELETE FROM snapshots WHERE experiment = $1 AND last = ANY($2::bigint[]) AND {fence}"
SET_META = "INSERT INTO meta VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value"

CLIENT_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)

UNREACHABLE = "the server is unreachable; check that it runs and its address; then the service recovers by itself"
NO_PRIVILEGE = "the user lacks a privilege; grant it CREATE on the database, and write access to the schema releaf"
FULL = "the server is out of disk space or memory; free some, then the service recovers by itself"
ADVICE: tuple[tuple[Any, str], ...] = (
    (asyncpg.InvalidAuthorizationSpecificationError, "the server rejects the user or its password: correct it"),
    (asyncpg.InvalidCatalogNameError, "the database does not exist; create it, or correct the address"),
    (asyncpg.InsufficientPrivilegeError, NO_PRIVILEGE),
    (
        asyncpg.TooManyConnectionsError,
        "the server accepts no more connections; raise its max_connections, or close others",
    ),
    (asyncpg.InsufficientResourcesError, FULL),
    (asyncpg.ReadOnlySQLTransactionError, "the server is read-only, perhaps a standby: use the primary's address"),
    (
        asyncpg.UndefinedTableError,
        "the tables are missing; restart the service, which creates them, or restore a backup",
    ),
    (asyncpg.QueryCanceledError, "the statement timed out; check the load of the server"),
    (
        asyncpg.LockNotAvailableError,
        "another program has locked the tables; stop all programs that use them besides the service",
    ),
    (asyncpg.DataCorruptedError, "the database is damaged; restore a backup"),
    (asyncpg.IndexCorruptedError, "a database index is damaged; run REINDEX, or restore a backup"),
    ((asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError, OSError, TimeoutError), UNREACHABLE),
    ((asyncpg.InterfaceError, asyncpg.InternalClientError), UNREACHABLE),
)


class PostgresStore(SqlQueries):
    """Event store in a PostgreSQL database.

    Parameters
    ----------
    address
        ``postgresql://user:password@host:port/database``.
    scripts
        Schema migrations.
    lease_timeout
        Seconds without a heartbeat after which to take over another process's lease.
    """

    remains: ClassVar[tuple[str, ...]] = (
        "deleted rows in free space of PostgreSQL's files, until others take it, or releaf store compact --full",
        "PostgreSQL's write-ahead log, until its segments are recycled, and archives of it",
    )

    def __init__(
        self, address: str, scripts: Sequence[str] = migrations.POSTGRES, *, lease_timeout: float = LEASE_TIMEOUT
    ) -> None:
        self._address = address
        self._where = mask_password(address)
        self._scripts = scripts
        self._writer_lock = asyncio.Lock()  # a connection runs one statement at a time
        self._epochs: dict[int, int] = {}  # of held leases, by experiment
        self._holder: int | None = None  # id of the writer's session in the table of holders
        self._watch: SilenceWatch[int] = SilenceWatch(lease_timeout)
        self._heartbeat = Heartbeat(lease_timeout, self._beat)
        self._writer: Any = None
        self._readers: Any = None

    # --- opening and closing

    async def open(self) -> list[str]:
        if self._readers is not None:
            raise StoreError(f"{self._where} is already open: close the store before opening it again")
        async with self._writer_lock:
            try:
                writer = await self._connected_writer()
                await self._migrate(writer)
                settings = {"server_settings": SESSION, "timeout": CONNECT_SECONDS, "command_timeout": COMMAND_SECONDS}
                self._readers = await asyncpg.create_pool(self._address, min_size=0, max_size=READERS, **settings)
            except BaseException as error:
                self._drop_writer()
                raise self._translate(error) from None
        self._heartbeat.start()
        return []

    async def _connected_writer(self) -> Any:
        """The writing connection, reconnected if it was lost; the leases of the lost one stay lost."""
        if self._is_disconnected():
            self._drop_writer()
            self._writer = await connect(self._address, SESSION, COMMAND_SECONDS)
            self._writer.add_termination_listener(self._on_termination)
        return self._writer

    def _on_termination(self, connection: Any) -> None:
        if connection is self._writer:
            self._forget_leases()

    def _forget_leases(self) -> None:
        self._epochs.clear()
        self._holder = None

    def _drop_writer(self) -> None:
        self._forget_leases()
        if self._writer is not None:
            self._writer.terminate()
            self._writer = None

    async def _migrate(self, writer: Any) -> None:
        async with writer.transaction():
            await writer.execute("SELECT pg_advisory_xact_lock($1, 0)", LOCK_CLASS)
            if await writer.fetchval("SELECT to_regnamespace('releaf') IS NULL"):
                await writer.execute("CREATE SCHEMA releaf")
            if await writer.fetchval("SELECT to_regclass('releaf.meta') IS NULL"):
                await writer.execute(migrations.META)
            version = int(await writer.fetchval("SELECT value FROM meta WHERE name = 'version'") or 0)
            missing = migrations.missing_migrations(version, self._scripts, self._where)
            if missing and version and await writer.fetchval(OLDER_VERSIONS, LOCK_CLASS):
                raise StoreError(f"{self._where} is in use by an older releaf: stop that before this one starts")
            for script in missing:
                await writer.execute(script)
            if missing:
                await writer.execute(SET_META, "version", str(len(self._scripts)))
            await writer.execute(migrations.ADD_SECRET, migrations.new_secret())

    async def close(self) -> None:
        await self._heartbeat.stop()
        readers, writer = self._readers, self._writer
        self._readers = self._writer = None
        self._forget_leases()
        for connection in (readers, writer):
            if connection is not None:
                try:
                    await asyncio.wait_for(connection.close(), CLOSE_SECONDS)
                except CLIENT_ERRORS:
                    connection.terminate()

    async def ping(self) -> None:
        await self._write(SET_META, "ping", str(time.time()))

    # --- experiments

    async def create(
        self, name: str, created: float, spec: bytes, snapshot: bytes, change: ChangeRow | None = None
    ) -> ExperimentRow:
        first = (body_checksum(snapshot), snapshot, FIRST_CHECKSUM)
        try:
            made = await self._write(CREATE, name, created, spec, *first, *_change_columns(change))
        except asyncpg.UniqueViolationError:
            raise KeyError(name) from None
        return ExperimentRow(made[0][0], name, created, spec, False)

    async def retire(self, experiment: int) -> None:
        await self._write("UPDATE experiments SET retired = true WHERE id = $1", experiment)

    # --- leases

    async def acquire(self, experiment: int) -> bool:
        if experiment in self._epochs:
            return True
        if self._holder is None:
            self._holder = (await self._write(REGISTER_HOLDER, HOLDER_CLASS))[0]["id"]
        found = await self._write(LEASE, experiment, HOLDER_CLASS)
        epoch, other, beat, has_ended = found[0] if found else (0, None, 0, True)
        if other is None or has_ended:
            return await self._claim(experiment, epoch)
        if not self._watch.is_silent(other, beat or 0):
            return False
        log.warning("store: the holder of the lease of experiment %d gave no heartbeat: taking over", experiment)
        try:
            return await self._claim(experiment, epoch)
        except StoreError:  # it may have stopped in the middle of a statement, whose locks end with the session
            await self._write(END_SESSION, HOLDER_CLASS, other)
            raise

    async def _claim(self, experiment: int, epoch: int) -> bool:
        holder = self._holder
        if holder is None:
            return False  # the connection was lost just now
        claimed = await self._write(CLAIM_LEASE, experiment, epoch, holder)
        if claimed and holder == self._holder:
            self._epochs[experiment] = claimed[0]["epoch"]
        return experiment in self._epochs

    async def release(self, experiment: int) -> None:
        epoch = self._epochs.pop(experiment, None)
        if epoch is not None:
            await self._write(RELEASE_LEASE, experiment, epoch)

    def holds(self, experiment: int) -> bool:
        return experiment in self._epochs

    async def _beat(self) -> None:
        """Show that this process runs, and notice the leases that another one has taken over.

        Readers have connections of their own: a heartbeat waits for no long write.
        """
        held, holder = dict(self._epochs), self._holder
        if holder is not None:
            latest = dict(await self._read(BEAT, holder))
            for experiment, epoch in held.items():
                if latest.get(experiment) != epoch and self._epochs.get(experiment) == epoch:
                    del self._epochs[experiment]

    # --- the log

    async def commit(self, commits: Sequence[Commit]) -> None:
        pages = [commit.page for commit in commits]
        rewards = [(page.experiment, *row, page.last) for page, rows, _ in commits for row in rows]
        changes = [change for commit in commits for change in commit.changes]
        experiments = {page.experiment for page in pages}
        try:
            if changes:
                columns = (*_columns(pages), *(_columns(rewards) if rewards else [()] * 6), *_change_columns(*changes))
                await self._write(INSERT_ALL, *columns, held=experiments)
            elif rewards:
                await self._write(INSERT_PAGES_AND_REWARDS, *_columns(pages), *_columns(rewards), held=experiments)
            elif pages:
                await self._write(INSERT_PAGES, *_columns(pages), held=experiments)
        except asyncpg.UniqueViolationError as error:
            raise LeaseLost(f"another process has written to this log ({error}): read it again") from error

    async def set_aside(self, experiment: int, after: int, why: str) -> int:
        moved = await self._write(SET_ASIDE, experiment, after, time.time(), why, held=(experiment,))
        return int(moved[0][0])

    async def redact(
        self,
        experiment: int,
        bodies: Sequence[tuple[int, bytes]],
        rewards_until: int,
        snapshots_before: int,
        decisions: Sequence[int] = (),
    ) -> None:
        columns = _columns(bodies) if bodies else [(), ()]
        values = (*columns, rewards_until, snapshots_before, list(decisions))
        await self._write(REDACT, experiment, *values, held=(experiment,))

    # --- snapshots

    async def add_snapshot(self, snapshot: Snapshot) -> None:
        await self._write(INSERT_SNAPSHOT, *snapshot, held=(snapshot.experiment,))

    async def drop_snapshots(self, experiment: int, numbers: Sequence[int]) -> None:
        await self._write(DROP_SNAPSHOTS, experiment, list(numbers), held=(experiment,))

    # --- keys

    async def add_key(self, key: KeyRow, change: ChangeRow | None = None) -> None:
        try:
            await self._write(ADD_KEY, *key, *_change_columns(change))
        except asyncpg.UniqueViolationError:
            raise KeyError(key.id) from None

    async def revoke_key(self, key: str, at: float, change: ChangeRow | None = None) -> bool:
        return bool(await self._write(REVOKE_KEY, at, key, *_change_columns(change)))

    # --- audit log

    async def add_change(self, change: ChangeRow) -> None:
        await self._write(_insert_changes(1), *_change_columns(change))

    # --- the connections

    async def _write(self, statement: str, *values: Any, held: Collection[int] = ()) -> list[Any]:
        """Run one statement, in its own transaction, on the writing connection.

        ``held`` names the experiments whose leases the statement needs: it has ``{fence}``, which checks their epochs.
        """
        self._check_open()
        async with self._writer_lock:
            if held:
                epochs = self._check_leases(held)
                fence = FENCE.format(experiments=len(values) + 1, epochs=len(values) + 2)
                statement, values = statement.format(fence=fence), (*values, list(epochs), list(epochs.values()))
            try:
                writer = await self._connected_writer()
                return await writer.fetch(statement, *values)  # type: ignore[no-any-return]
            except asyncpg.UniqueViolationError:
                raise
            except asyncpg.ObjectNotInPrerequisiteStateError as error:
                for experiment in held:  # it may have been any of them; those that were not taken can be claimed again
                    self._epochs.pop(experiment, None)
                raise LeaseLost(f"{self._where}: {error}") from None
            except BaseException as error:
                if not isinstance(error, asyncpg.PostgresError) or self._is_disconnected():
                    self._drop_writer()  # the outcome of the statement is unknown, so give up the leases
                raise self._translate(error) from None

    def _is_disconnected(self) -> bool:
        return self._writer is None or self._writer.is_closed()

    def _check_leases(self, experiments: Collection[int]) -> dict[int, int]:
        """Epochs of the held leases of experiments."""
        if self._is_disconnected():
            self._forget_leases()  # a new connection has none of them
            raise LeaseLost(f"{self._where}: {UNREACHABLE} (the connection was lost)")
        for experiment in experiments:
            if experiment not in self._epochs:
                raise LeaseLost(f"this process does not hold the lease of experiment {experiment}: acquire it first")
        return {experiment: self._epochs[experiment] for experiment in experiments}

    async def _read_pages(self, experiment: int, beyond: int, count: int, *, back: bool = False) -> list[Any]:
        return await self._read(PAGES_BACK if back else PAGES_ON, experiment, beyond, count, BYTES_PER_READ)

    async def _read(self, statement: str, *values: Any) -> list[Any]:
        self._check_open()
        try:
            return await self._readers.fetch(statement, *values)  # type: ignore[no-any-return]
        except CLIENT_ERRORS as error:
            raise self._translate(error) from None

    def _check_open(self) -> None:
        if self._readers is None:
            raise StoreError(f"{self._where} is not open: open the store first")

    def _translate(self, error: BaseException) -> BaseException:
        return translate_error(error, self._where)


async def connect(address: str, session: dict[str, str], command_timeout: float | None) -> Any:
    """Connect to a database; a :class:`StoreError` if the address is not valid."""
    try:
        return await asyncpg.connect(
            address, timeout=CONNECT_SECONDS, command_timeout=command_timeout, server_settings=session
        )
    except (ValueError, asyncpg.ClientConfigurationError):  # its text may contain parts of the password
        raise StoreError(
            f"{mask_password(address)} is no valid address: expected postgresql://user:password@host:port/database, "
            "with the password percent-encoded (%40 for @, %2F for /)"
        ) from None


def translate_error(error: BaseException, where: str) -> BaseException:
    """Turn an error of the server or connection into a :class:`StoreError` with advice; return others unchanged."""
    if not isinstance(error, CLIENT_ERRORS):
        return error
    advice = next((text for kind, text in ADVICE if isinstance(error, kind)), "the server reports an error")
    return StoreError(f"{where}: {advice} ({type(error).__name__}: {error})")


def _columns(rows: Sequence[tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
    return zip(*rows, strict=True)


def _change_columns(*changes: ChangeRow | None) -> Iterable[tuple[Any, ...]]:
    """Columns of changes, without their ids; empty columns for None."""
    rows = [change[:-1] for change in changes if change is not None]
    return _columns(rows) if rows else [()] * (len(ChangeRow._fields) - 1)


def mask_password(address: str) -> str:
    hidden = re.sub(r"://([^:@/?]*):.*@", r"://\1:***@", address)
    return re.sub(r"((?:^|[?&])password=)[^&]*", r"\1***", hidden)
