"""Embedded event store: one SQLite file, with lock files next to it.

Writing and reading have a connection and a thread each: in SQLite's write-ahead mode they don't wait for each other. A
commit is on disk when it returns (``synchronous=FULL``).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import apsw

from releaf.service.errors import StoreError
from releaf.service.store import migrations, repair
from releaf.service.store.backup_file import is_backup
from releaf.service.store.base import (
    FIRST_CHECKSUM,
    ChangeRow,
    Commit,
    ExperimentRow,
    KeyRow,
    LeaseLost,
    Snapshot,
    body_checksum,
)
from releaf.service.store.sql_queries import BYTES_PER_READ, SqlQueries
from releaf.service.store.sqlite_errors import DAMAGE, advice
from releaf.service.store.sqlite_leases import DatabaseLock, Leases
from releaf.service.store.sqlite_writer import BUSY_SECONDS, SqliteWriter

INSERT_PAGE = "INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?, ?)"
INSERT_SNAPSHOT = "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?)"
INSERT_REWARD = "INSERT INTO rewards VALUES (?, ?, ?, ?, ?, ?)"
INSERT_CHANGE = "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)"  # SQLite assigns the id
PAGES = "SELECT * FROM pages WHERE experiment = ? AND last > ? ORDER BY last LIMIT ?"
PAGES_BACK = "SELECT * FROM pages WHERE experiment = ? AND last < ? ORDER BY last DESC LIMIT ?"

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Values = tuple[Any, ...]


class SqliteStore(SqlQueries):
    """Event store in one SQLite file.

    Parameters
    ----------
    path
        The file; ``open`` creates it if it is missing. Its folder must exist.
    scripts
        Schema migrations.
    """

    def __init__(self, path: str | Path, scripts: Sequence[str] = migrations.SQLITE) -> None:
        self._path = Path(path).resolve()
        self._scripts = scripts
        self._leases = Leases(self._folder)
        self._database_lock: DatabaseLock | None = None
        self._writing: SqliteWriter
        self._reading: ThreadPoolExecutor
        self._reader: apsw.Connection
        self._inode: int

    @property
    def _folder(self) -> Path:
        return Path(f"{self._path}-leases")

    @property
    def _writer(self) -> apsw.Connection:
        return self._writing.connection

    # --- opening and closing

    async def open(self) -> list[str]:
        if self._database_lock is not None:
            raise StoreError(f"{self._path} is already open: close the store before opening it again")
        self._writing = SqliteWriter()
        self._reading = ThreadPoolExecutor(1, "store-read")
        try:
            with self._translated_errors():
                return await self._writing.run(self._open)
        except BaseException:
            self._end_threads()
            raise

    def _open(self) -> list[str]:
        if is_backup(self._path):
            raise StoreError(f"{self._path} is a backup: restore it to a store, with releaf store restore")
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with ExitStack() as undo:
            database_lock = DatabaseLock(self._path, self._folder)
            undo.callback(database_lock.close)
            try:
                messages = self._repair(database_lock) if database_lock.is_exclusive else []
                self._path.touch(0o600)  # SQLite creates its other files with the same mode
                self._writing.use(undo.enter_context(closing(self._connect())))
                self._migrate(self._writer)
                self._reader = undo.enter_context(closing(self._connect()))
            except DAMAGE:
                database_lock.mark_damaged()
                raise
            self._reader.pragma("query_only", True)
            self._inode = self._path.stat().st_ino
            database_lock.mark_open()
            database_lock.share()
            undo.pop_all()
        self._database_lock = database_lock
        return messages

    def _repair(self, database_lock: DatabaseLock) -> list[str]:
        """Check the file, unless it is unchanged since a clean close, and repair a damaged one; return messages."""
        path = self._path
        if repair.was_interrupted(path):
            moved_to = repair.replace_damaged(path)
            return [f"{path} was damaged. A fresh file has all readable rows; the damaged file is {moved_to}"]
        if not path.exists() or path.stat().st_size == 0:
            return [self._start_empty()] if database_lock.was_used else []
        if database_lock.closed_cleanly:
            return []
        torn, why = repair.torn_wal(path), repair.find_damage(path)
        messages = [torn] if torn else []
        return messages if why is None else [*messages, repair.repair(path, why, self._migrate)]

    def _start_empty(self) -> str:
        moved_to = repair.move_aside(self._path)  # SQLite would delete the write-ahead log of an empty file
        return f"{self._path} was in use and is now missing or empty: a new one was created; the remains are {moved_to}"

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(str(self._path))
        connection.set_busy_timeout(int(1000 * BUSY_SECONDS))
        connection.pragma("journal_mode", "WAL")
        connection.pragma("synchronous", "FULL")
        connection.pragma("temp_store", "MEMORY")
        connection.pragma("cache_size", -16_000)  # in kB
        connection.pragma("trusted_schema", False)
        connection.pragma("secure_delete", True)  # overwrite what retention deletes
        return connection

    def _migrate(self, connection: apsw.Connection, version: int | None = None) -> None:
        """Migrate the tables to a version, by default the latest."""
        with _transaction(connection):
            names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            if names and "meta" not in names:
                raise StoreError(f"{self._path} is a database of another program: use another file for the store")
            connection.execute(migrations.META)
            current = int(connection.execute("SELECT value FROM meta WHERE name = 'version'").get or 0)
            missing = migrations.missing_migrations(max(current, version or 0), self._scripts, str(self._path))
            for script in self._scripts[current:version] if version else missing:
                connection.execute(script)
            reached = version or len(self._scripts)
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('version', ?)", (str(reached),))

    async def close(self) -> None:
        if self._database_lock is None:
            return
        database_lock, self._database_lock = self._database_lock, None
        try:
            with self._translated_errors():
                await asyncio.get_running_loop().run_in_executor(self._reading, self._reader.close)
                await self._writing.run(self._writer.close)
        finally:
            self._leases.release_all()
            database_lock.close_cleanly()
            self._end_threads()

    def _end_threads(self) -> None:
        self._reading.shutdown()
        self._writing.shutdown()

    async def ping(self) -> None:
        await self._write(self._ping)

    def _ping(self) -> None:
        self._check_file()
        self._writer.execute("INSERT OR REPLACE INTO meta VALUES ('ping', ?)", (str(time.time()),))

    # --- experiments

    async def create(
        self, name: str, created: float, spec: bytes, snapshot: bytes, change: ChangeRow | None = None
    ) -> ExperimentRow:
        return await self._write(self._create, name, created, spec, snapshot, change)

    def _create(
        self, name: str, created: float, spec: bytes, snapshot: bytes, change: ChangeRow | None
    ) -> ExperimentRow:
        insert = "INSERT INTO experiments (name, created, spec) VALUES (?, ?, ?)"
        with _transaction(self._writer):
            try:
                self._writer.execute(insert, (name, created, spec))
            except apsw.ConstraintError:
                raise KeyError(name) from None
            experiment = self._writer.last_insert_rowid()
            first = Snapshot(experiment, 0, body_checksum(snapshot), snapshot, FIRST_CHECKSUM)
            self._writer.execute(INSERT_SNAPSHOT, first)
            self._record(change)
        return ExperimentRow(experiment, name, created, spec, False)

    async def retire(self, experiment: int) -> None:
        await self._write(self._change, "UPDATE experiments SET retired = 1 WHERE id = ?", (experiment,), None)

    # --- leases

    async def acquire(self, experiment: int) -> bool:
        return await self._write(self._leases.acquire, experiment)

    async def release(self, experiment: int) -> None:
        await self._write(self._leases.release, experiment)

    def holds(self, experiment: int) -> bool:
        return experiment in self._leases

    def _check_lease(self, experiment: int) -> None:
        if experiment not in self._leases:
            raise LeaseLost(f"this process does not hold the lease of experiment {experiment}: acquire it first")

    # --- the log

    async def commit(self, commits: Sequence[Commit]) -> None:
        self._check_open()
        with self._translated_errors():
            await self._writing.commit(self._commit, commits)

    def _commit(self, commits: Sequence[Commit]) -> None:
        pages = [commit.page for commit in commits]
        rewards = [
            (page.experiment, decision, outcome, reward, at, page.last)
            for page, rows, _ in commits
            for decision, outcome, reward, at in rows
        ]
        changes = [change for commit in commits for change in commit.changes]
        for page in pages:
            self._check_lease(page.experiment)
        self._check_file()
        try:
            if len(pages) == 1 and not rewards and not changes:  # a single statement is a transaction by itself
                self._writer.execute(INSERT_PAGE, pages[0])
                return
            with _transaction(self._writer):
                self._writer.executemany(INSERT_PAGE, pages)
                if rewards:
                    self._writer.executemany(INSERT_REWARD, rewards)
                for change in changes:
                    self._record(change)
        except apsw.ConstraintError as error:
            raise LeaseLost(f"another process has written to this log ({error}): read it again") from error

    async def set_aside(self, experiment: int, after: int, why: str) -> int:
        return await self._write(self._set_aside, experiment, after, why)

    def _set_aside(self, experiment: int, after: int, why: str) -> int:
        self._check_lease(experiment)
        moved, which = (time.time(), why), (experiment, after)
        with _transaction(self._writer):
            for table, number in (("rewards", "event"), ("pages", "last")):
                where = f"FROM {table} WHERE experiment = ? AND {number} > ?"
                self._writer.execute(f"INSERT INTO {table}_set_aside SELECT *, ?, ? {where}", moved + which)
                self._writer.execute(f"DELETE {where}", which)
            return self._writer.changes()

    async def redact(
        self, experiment: int, bodies: Sequence[tuple[int, bytes]], rewards_until: int, snapshots_before: int
    ) -> None:
        await self._write(self._redact, experiment, bodies, rewards_until, snapshots_before)

    def _redact(
        self, experiment: int, bodies: Sequence[tuple[int, bytes]], rewards_until: int, snapshots_before: int
    ) -> None:
        self._check_lease(experiment)
        self._check_file()
        update = "UPDATE pages SET body = ? WHERE experiment = ? AND last = ?"
        drop_rewards = "DELETE FROM rewards WHERE experiment = ? AND event <= ?"
        drop_snapshots = "DELETE FROM snapshots WHERE experiment = ? AND last < ?"
        with _transaction(self._writer):
            self._writer.executemany(update, [(body, experiment, last) for last, body in bodies])
            self._writer.execute(drop_rewards, (experiment, rewards_until))
            self._writer.execute(drop_snapshots, (experiment, snapshots_before))
        with suppress(apsw.Error):  # a reader may be in the way; a later checkpoint does it
            self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    # --- snapshots

    async def add_snapshot(self, snapshot: Snapshot) -> None:
        await self._write(self._change_with_lease, snapshot.experiment, INSERT_SNAPSHOT, [snapshot])

    async def drop_snapshots(self, experiment: int, numbers: Sequence[int]) -> None:
        delete = "DELETE FROM snapshots WHERE experiment = ? AND last = ?"
        await self._write(self._change_with_lease, experiment, delete, [(experiment, number) for number in numbers])

    # --- keys

    async def add_key(self, key: KeyRow, change: ChangeRow | None = None) -> None:
        insert = "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        if not await self._write(self._change, insert, key, change):
            raise KeyError(key.id)

    async def revoke_key(self, key: str, at: float, change: ChangeRow | None = None) -> bool:
        update = "UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL"
        return await self._write(self._change, update, (at, key), change) > 0

    # --- audit log

    async def add_change(self, change: ChangeRow) -> None:
        await self._write(self._change, INSERT_CHANGE, change[:-1], None)

    def _record(self, change: ChangeRow | None) -> None:
        if change is not None:
            self._writer.execute(INSERT_CHANGE, change[:-1])  # without the id

    # --- connections and threads

    def _change(self, statement: str, values: Values, change: ChangeRow | None) -> int:
        """Run one statement, and record a change if it changes rows; return their number."""
        self._check_file()
        with _transaction(self._writer):
            self._writer.execute(statement, values)
            changed = self._writer.changes()
            if changed:
                self._record(change)
        return changed

    def _change_with_lease(self, experiment: int, statement: str, rows: Sequence[Values]) -> None:
        self._check_lease(experiment)
        self._check_file()
        with _transaction(self._writer):
            self._writer.executemany(statement, rows)

    def _select(self, statement: str, values: Values) -> list[tuple[Any, ...]]:
        """Select rows, up to a total size of BYTES_PER_READ."""
        rows, size = [], 0
        with closing(self._reader.execute(statement, values)) as cursor:
            for row in cursor:
                rows.append(row)
                size += len(row[-1]) if type(row[-1]) is bytes else 0
                if size > BYTES_PER_READ:
                    break
        return rows

    def _check_file(self) -> None:
        """Raise if the file was moved or removed: SQLite would keep writing to a file that nobody can open again."""
        if os.stat(self._path).st_ino != self._inode:
            raise StoreError(
                f"{self._path} was replaced while in use: restore the original file, or restart the service"
            )

    async def _write(self, do: Callable[[*Ts], T], *args: *Ts) -> T:
        self._check_open()
        with self._translated_errors():
            return await self._writing.run(do, *args)

    async def _read_pages(self, experiment: int, beyond: int, count: int, *, back: bool = False) -> list[Any]:
        return await self._read(PAGES_BACK if back else PAGES, experiment, beyond, count)

    async def _read(self, statement: str, *values: Any) -> list[Any]:
        self._check_open()
        with self._translated_errors():
            return await asyncio.get_running_loop().run_in_executor(self._reading, self._select, statement, values)

    def _check_open(self) -> None:
        if self._database_lock is None:
            raise StoreError(f"{self._path} is not open: open the store first")

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise a :class:`StoreError` with advice for each error of SQLite or the disk."""
        try:
            yield
        except (apsw.Error, OSError) as error:
            if self._database_lock is not None and isinstance(error, DAMAGE):
                self._database_lock.mark_damaged()
            raise StoreError(f"{self._path}: {advice(error)} ({error})") from error


@contextmanager
def _transaction(connection: apsw.Connection) -> Iterator[None]:
    """Run a transaction: commit at the end, roll back on any error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite rolls back by itself after some errors
            connection.execute("ROLLBACK")
        raise
