"""Embedded event store: one SQLite file, with lock files next to it.

Writing and reading have a connection and a thread each: in SQLite's write-ahead mode they don't wait for each other. A
commit is on disk when it returns (``synchronous=FULL``).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar, TypeVarTuple

import apsw

from releaf.service.errors import StoreError
from releaf.service.store import migrations
from releaf.service.store.backup_file import is_backup
from releaf.service.store.base import (
    FIRST_CHECKSUM,
    LEASE_TIMEOUT,
    ChangeRow,
    Commit,
    ExperimentRow,
    KeyRow,
    LeaseLost,
    LogPage,
    Snapshot,
    body_checksum,
)
from releaf.service.store.lease_heartbeat import Heartbeat
from releaf.service.store.number_marks import MarkFile
from releaf.service.store.salvage import FileCheck
from releaf.service.store.sql_queries import BYTES_PER_READ, SqlQueries
from releaf.service.store.sqlite_errors import DAMAGE, advice
from releaf.service.store.sqlite_leases import DatabaseLock, Leases
from releaf.service.store.sqlite_writer import BUSY_SECONDS, SqliteWriter

INSERT_PAGE = "INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?, ?)"
INSERT_ONE_PAGE = """
    INSERT INTO pages SELECT ?, ?, ?, ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM leases WHERE experiment = ? AND epoch = ?)
"""
CLAIM_LEASE = """
    INSERT INTO leases VALUES ($1, $2 + 1, $3)
    ON CONFLICT (experiment) DO UPDATE SET epoch = excluded.epoch, holder = excluded.holder WHERE epoch = $2
"""
RELEASE_LEASE = "UPDATE leases SET holder = NULL WHERE experiment = ? AND epoch = ?"
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
    lease_timeout
        Seconds without a heartbeat after which to take over another process's lease.
    salvage
        Whether to continue with what is left of a damaged, truncated or missing file; otherwise ``open`` raises.
    """

    remains: ClassVar[tuple[str, ...]] = ()  # it overwrites what is deleted

    def __init__(
        self,
        path: str | Path,
        scripts: Sequence[str] = migrations.SQLITE,
        *,
        lease_timeout: float = LEASE_TIMEOUT,
        salvage: bool = False,
    ) -> None:
        self._path = Path(path).resolve()
        self._scripts, self._salvage = scripts, salvage
        self._marks: dict[int, MarkFile] = {}  # of experiments whose lease this process holds
        self._leases = Leases(self._path, self._folder, lease_timeout)
        self._heartbeat = Heartbeat(lease_timeout, self._drop_lost_leases)
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
                messages = await self._writing.run(self._open)
        except BaseException:
            self._end_threads()
            raise
        self._heartbeat.start()
        return messages

    def _open(self) -> list[str]:
        if is_backup(self._path):
            raise StoreError(f"{self._path} is a backup: restore it to a store, with releaf store restore")
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with ExitStack() as undo:
            database_lock = DatabaseLock(self._path, self._folder)
            undo.callback(database_lock.close)
            try:
                check = FileCheck(self._path, self._folder, database_lock, self._migrate)
                messages = check.run(self._salvage) if database_lock.is_exclusive else []
                self._path.touch(0o600)  # SQLite creates its other files with the same mode
                self._writing.use(undo.enter_context(closing(self._connect())))
                self._migrate(self._writer, is_alone=database_lock.is_exclusive)
                self._reader = undo.enter_context(closing(self._connect()))
            except DAMAGE:
                database_lock.mark_damaged()
                raise
            self._reader.pragma("query_only", True)
            self._inode = self._path.stat().st_ino
            self._leases.open()
            undo.callback(self._leases.close)
            database_lock.mark_open()
            database_lock.share()
            undo.pop_all()
        self._database_lock = database_lock
        return messages

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

    def _migrate(self, connection: apsw.Connection, version: int | None = None, *, is_alone: bool = True) -> None:
        """Migrate the tables to a version, by default the latest; not while a process of an older version runs."""
        with _transaction(connection):
            names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            if names and "meta" not in names:
                raise StoreError(f"{self._path} is a database of another program: use another file for the store")
            connection.execute(migrations.META)
            current = int(connection.execute("SELECT value FROM meta WHERE name = 'version'").get or 0)
            missing = migrations.missing_migrations(max(current, version or 0), self._scripts, str(self._path))
            if missing and current and not is_alone:
                raise StoreError(f"{self._path} is in use by an older releaf: stop that before this one starts")
            for script in self._scripts[current:version] if version else missing:
                connection.execute(script)
            reached = version or len(self._scripts)
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('version', ?)", (str(reached),))
            connection.execute(migrations.ADD_SECRET, (migrations.new_secret(),))

    async def close(self) -> None:
        if self._database_lock is None:
            return
        await self._heartbeat.stop()
        database_lock, self._database_lock = self._database_lock, None
        try:
            with self._translated_errors():
                await asyncio.get_running_loop().run_in_executor(self._reading, self._reader.close)
                await self._writing.run(self._writer.close)
        finally:
            self._leases.close()
            self._close_marks()
            database_lock.close_cleanly()
            self._end_threads()

    def _close_marks(self) -> None:
        while self._marks:
            self._marks.popitem()[1].close()

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
        return await self._write(self._acquire, experiment)

    def _acquire(self, experiment: int) -> bool:
        if experiment in self._leases.epochs:
            return True
        self._check_file()
        found = self._writer.execute("SELECT epoch, holder FROM leases WHERE experiment = ?", (experiment,)).get
        epoch, holder = found or (0, None)
        if holder not in (None, self._leases.holder) and not self._leases.can_take_over(holder):
            return False
        self._writer.execute(CLAIM_LEASE, (experiment, epoch, self._leases.holder))
        if self._writer.changes() == 0:  # another process was faster
            return False
        self._open_mark(experiment)
        self._leases.epochs[experiment] = epoch + 1
        return True

    def _open_mark(self, experiment: int) -> None:
        """Read the mark anew: another process may have written it since this one held the lease."""
        if experiment in self._marks:
            self._marks.pop(experiment).close()
        name = self._writer.execute("SELECT name FROM experiments WHERE id = ?", (experiment,)).get
        self._marks[experiment] = MarkFile(self._folder, str(name))

    async def release(self, experiment: int) -> None:
        epoch = self._leases.epochs.pop(experiment, None)
        if epoch is not None:
            await self._write(self._change, RELEASE_LEASE, (experiment, epoch), None)

    def holds(self, experiment: int) -> bool:
        return experiment in self._leases.epochs

    async def _drop_lost_leases(self) -> None:
        """Notice the leases that another process has taken over."""
        held = dict(self._leases.epochs)
        if held:
            latest = dict(
                await self._read("SELECT experiment, epoch FROM leases WHERE holder = ?", self._leases.holder)
            )
            for experiment, epoch in held.items():
                if latest.get(experiment) != epoch and self._leases.epochs.get(experiment) == epoch:
                    del self._leases.epochs[experiment]

    def _epoch(self, experiment: int) -> int:
        epoch = self._leases.epochs.get(experiment)
        if epoch is None:
            raise LeaseLost(f"this process does not hold the lease of experiment {experiment}: acquire it first")
        return epoch

    def _check_leases(self, experiments: Iterable[int]) -> None:
        """Raise unless the epochs of held leases are the latest; within a transaction, this holds until its end."""
        for experiment in experiments:
            epoch = self._epoch(experiment)
            latest = self._writer.execute("SELECT epoch FROM leases WHERE experiment = ?", (experiment,)).get
            if latest != epoch:
                raise self._lease_lost(experiment)

    def _lease_lost(self, experiment: int) -> LeaseLost:
        self._leases.epochs.pop(experiment, None)
        return LeaseLost(f"another process has taken over the lease of experiment {experiment}")

    # --- the log

    async def commit(self, commits: Sequence[Commit]) -> None:
        self._check_open()
        with self._translated_errors():
            await self._writing.run(self._commit, commits)

    def _commit(self, commits: Sequence[Commit]) -> None:
        pages = [commit.page for commit in commits]
        rewards = [
            (page.experiment, decision, outcome, reward, at, page.last)
            for page, rows, _ in commits
            for decision, outcome, reward, at in rows
        ]
        changes = [change for commit in commits for change in commit.changes]
        experiments = {page.experiment: self._epoch(page.experiment) for page in pages}
        self._check_file()
        for page in pages:
            self._marks[page.experiment].reserve(page.decision)
        self._insert(pages, rewards, changes, experiments)
        for page in pages:
            self._marks[page.experiment].record(page.last)

    def _insert(
        self,
        pages: Sequence[LogPage],
        rewards: Sequence[Values],
        changes: Sequence[ChangeRow],
        experiments: dict[int, int],
    ) -> None:
        try:
            if len(pages) == 1 and not rewards and not changes:  # a single statement is a transaction by itself
                (lease,) = experiments.items()
                self._writer.execute(INSERT_ONE_PAGE, (*pages[0], *lease))
                if self._writer.changes() == 0:
                    raise self._lease_lost(lease[0])
                return
            with _transaction(self._writer):
                self._check_leases(experiments)
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
        self._epoch(experiment)
        moved, which = (time.time(), why), (experiment, after)
        with _transaction(self._writer):
            self._check_leases((experiment,))
            for table, number in (("rewards", "event"), ("pages", "last")):
                where = f"FROM {table} WHERE experiment = ? AND {number} > ?"
                self._writer.execute(f"INSERT INTO {table}_set_aside SELECT *, ?, ? {where}", moved + which)
                self._writer.execute(f"DELETE {where}", which)
            return self._writer.changes()

    async def redact(
        self,
        experiment: int,
        bodies: Sequence[tuple[int, bytes]],
        rewards_until: int,
        snapshots_before: int,
        decisions: Sequence[int] = (),
    ) -> None:
        await self._write(self._redact, experiment, bodies, rewards_until, snapshots_before, decisions)

    def _redact(
        self,
        experiment: int,
        bodies: Sequence[tuple[int, bytes]],
        rewards_until: int,
        snapshots_before: int,
        decisions: Sequence[int],
    ) -> None:
        self._epoch(experiment)
        self._check_file()
        update = "UPDATE pages SET body = ? WHERE experiment = ? AND last = ?"
        drop_rewards = "DELETE FROM rewards WHERE experiment = ? AND event <= ?"
        drop_reward = "DELETE FROM rewards WHERE experiment = ? AND decision = ?"
        drop_snapshots = "DELETE FROM snapshots WHERE experiment = ? AND last < ?"
        with _transaction(self._writer):
            self._check_leases((experiment,))
            self._writer.executemany(update, [(body, experiment, last) for last, body in bodies])
            self._writer.execute(drop_rewards, (experiment, rewards_until))
            self._writer.executemany(drop_reward, [(experiment, decision) for decision in decisions])
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
        self._epoch(experiment)
        self._check_file()
        with _transaction(self._writer):
            self._check_leases((experiment,))
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
