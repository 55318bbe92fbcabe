"""The embedded store: one SQLite file, with locks beside it.

Writing and reading have a thread and a connection of their own: in SQLite's write-ahead mode they don't wait for each
other. A commit is on disk when it returns (``synchronous=FULL``).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import apsw

from releaf.service.store import migrations
from releaf.service.store import repair as salvage
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
from releaf.service.store.leases import Leases, Presence
from releaf.service.store.sqlite_writer import BUSY_SECONDS, Writer

PAGES_AT_ONCE, BYTES_AT_ONCE = 2_000, 4 << 20  # read in one go

INSERT_PAGE = "INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?, ?)"
INSERT_SNAPSHOT = "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?)"
INSERT_REWARD = "INSERT INTO rewards VALUES (?, ?, ?, ?, ?, ?)"
PAGES = "SELECT * FROM pages WHERE experiment = ? AND last > ? ORDER BY last LIMIT ?"
PAGES_BACK = "SELECT * FROM pages WHERE experiment = ? AND last < ? ORDER BY last DESC LIMIT ?"
PAGE_OF_DECISION = (
    "SELECT last FROM pages WHERE experiment = ? AND decision >= ? ORDER BY experiment, decision, last LIMIT 1"
)

DAMAGE = (apsw.CorruptError, apsw.NotADBError)
LAST = Page._fields.index("last")

ADVICE: tuple[tuple[type[Exception], str], ...] = (
    (apsw.FullError, "the disk is full; make room, then the service goes on by itself"),
    (apsw.BusyError, "another program keeps the file locked; end what uses it besides the service"),
    (apsw.LockedError, "another program keeps the file locked; end what uses it besides the service"),
    (apsw.CantOpenError, "the file can't be opened; see that its folder exists and that the service may write there"),
    (apsw.ReadOnlyError, "the file can't be written; see that it and its folder belong to the service's user"),
    (apsw.PermissionsError, "the file can't be written; see that it and its folder belong to the service's user"),
    (apsw.CorruptError, "the file is damaged; restart the service, which then saves what can be read"),
    (apsw.NotADBError, "the file is damaged; restart the service, which then saves what can be read"),
    (apsw.IOError, "the disk can't be read or written; look at its state and at the room on it"),
    (apsw.NoMemError, "there is no memory left; give the machine more, or end other programs"),
    (FileNotFoundError, "the file or its folder is not there; make the folder, or put the file back"),
    (PermissionError, "no right to write there; see that the file and its folder belong to the service's user"),
    (OSError, "the disk can't be read or written; look at its state and at the room on it"),
)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Values = tuple[Any, ...]


class SqliteStore:
    """Keeps everything in one file.

    Parameters
    ----------
    path
        The file; it is made where there is none, in a folder that has to be there.
    scripts
        The tables, version by version.
    """

    def __init__(self, path: str | Path, scripts: Sequence[str] = migrations.SQLITE) -> None:
        self._path = Path(path).resolve()
        self._scripts = scripts
        self._leases = Leases(self._folder)
        self._presence: Presence | None = None
        self._writing: Writer
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
        if self._presence is not None:
            raise StoreError(f"{self._path} is open already: close the store before it is opened again")
        self._writing = Writer()
        self._reading = ThreadPoolExecutor(1, "store-read")
        try:
            with self._told():
                return await self._writing.run(self._open)
        except BaseException:
            self._end_threads()
            raise

    def _open(self) -> list[str]:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with ExitStack() as undo:
            presence = Presence(self._path, self._folder)
            undo.callback(presence.abandon)
            try:
                messages = self._mend(presence) if presence.alone else []
                self._path.touch(0o600)  # SQLite gives its other files the same mode
                self._writing.use(undo.enter_context(closing(self._connect())))
                self._make_tables(self._writer)
                self._reader = undo.enter_context(closing(self._connect()))
            except DAMAGE:
                presence.note_damage()
                raise
            self._reader.pragma("query_only", True)
            self._inode = self._path.stat().st_ino
            presence.note_open()
            presence.share()
            undo.pop_all()
        self._presence = presence
        return messages

    def _mend(self, presence: Presence) -> list[str]:
        """Check the file, unless it is as it was left, and save what can be saved of a damaged one."""
        path = self._path
        if salvage.was_interrupted(path):
            kept_as = salvage.put_in_place(path)
            return [f"{path} was damaged. What could be read is in a fresh file now; the old is {kept_as}"]
        if not path.exists() or path.stat().st_size == 0:
            return [self._begin_afresh()] if presence.was_used else []
        if presence.was_closed:
            return []
        torn, why = salvage.torn_wal(path), salvage.damage(path)
        messages = [torn] if torn else []
        return messages if why is None else [*messages, salvage.salvage(path, why, self._make_tables)]

    def _begin_afresh(self) -> str:
        kept_as = salvage.move_away(self._path)  # SQLite would remove the write-ahead log of an empty file
        return f"{self._path} is missing or empty though it was in use: a new one was begun; what was left is {kept_as}"

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(str(self._path))
        connection.set_busy_timeout(int(1000 * BUSY_SECONDS))
        connection.pragma("journal_mode", "WAL")
        connection.pragma("synchronous", "FULL")
        connection.pragma("temp_store", "MEMORY")
        connection.pragma("cache_size", -16_000)  # in kB
        connection.pragma("trusted_schema", False)
        return connection

    def _make_tables(self, connection: apsw.Connection, version: int | None = None) -> None:
        """Bring tables to a version, the latest unless told otherwise."""
        with _transaction(connection):
            names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            if names and "meta" not in names:
                raise StoreError(f"{self._path} is a database of another program: give the store a file of its own")
            connection.execute(migrations.META)
            found = int(connection.execute("SELECT value FROM meta WHERE name = 'version'").get or 0)
            missing = migrations.outstanding(max(found, version or 0), self._scripts, str(self._path))
            for script in self._scripts[found:version] if version else missing:
                connection.execute(script)
            reached = version or len(self._scripts)
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('version', ?)", (str(reached),))

    async def close(self) -> None:
        if self._presence is None:
            return
        presence, self._presence = self._presence, None
        try:
            with self._told():
                await asyncio.get_running_loop().run_in_executor(self._reading, self._reader.close)
                await self._writing.run(self._writer.close)
        finally:
            self._leases.release_all()
            presence.leave()
            self._end_threads()

    def _end_threads(self) -> None:
        self._reading.shutdown()
        self._writing.shutdown()

    async def ping(self) -> None:
        await self._write(self._ping)

    def _ping(self) -> None:
        self._check_place()
        self._writer.execute("INSERT OR REPLACE INTO meta VALUES ('ping', ?)", (str(time.time()),))

    # --- experiments

    async def experiments(self) -> list[ExperimentRow]:
        rows = await self._read("SELECT id, name, created, spec, retired FROM experiments ORDER BY id")
        return [ExperimentRow(*row)._replace(retired=bool(row[-1])) for row in rows]

    async def create(self, name: str, created: float, spec: bytes, snapshot: bytes) -> ExperimentRow:
        return await self._write(self._create, name, created, spec, snapshot)

    def _create(self, name: str, created: float, spec: bytes, snapshot: bytes) -> ExperimentRow:
        insert = "INSERT INTO experiments (name, created, spec) VALUES (?, ?, ?)"
        with _transaction(self._writer):
            try:
                self._writer.execute(insert, (name, created, spec))
            except apsw.ConstraintError:
                raise KeyError(name) from None
            experiment = self._writer.last_insert_rowid()
            first = Snapshot(experiment, 0, body_checksum(snapshot), snapshot, FIRST_CHECKSUM)
            self._writer.execute(INSERT_SNAPSHOT, first)
        return ExperimentRow(experiment, name, created, spec, False)

    async def retire(self, experiment: int) -> None:
        await self._write(self._change, "UPDATE experiments SET retired = 1 WHERE id = ?", (experiment,))

    # --- leases

    async def acquire(self, experiment: int) -> bool:
        return await self._write(self._leases.acquire, experiment)

    async def release(self, experiment: int) -> None:
        await self._write(self._leases.release, experiment)

    def holds(self, experiment: int) -> bool:
        return experiment in self._leases

    def _check_lease(self, experiment: int) -> None:
        if experiment not in self._leases:
            raise LeaseLost(f"experiment {experiment} is not this process's to write to: acquire its lease first")

    # --- the log

    async def commit(self, commits: Sequence[Commit]) -> None:
        self._check_open()
        with self._told():
            await self._writing.commit(self._commit, commits)

    def _commit(self, commits: Sequence[Commit]) -> None:
        pages = [page for page, _ in commits]
        rewards = [
            (page.experiment, decision, outcome, reward, at, page.last)
            for page, rows in commits
            for decision, outcome, reward, at in rows
        ]
        for page in pages:
            self._check_lease(page.experiment)
        self._check_place()
        try:
            if len(pages) == 1 and not rewards:  # a statement by itself is a transaction: all in one call
                self._writer.execute(INSERT_PAGE, pages[0])
                return
            with _transaction(self._writer):
                self._writer.executemany(INSERT_PAGE, pages)
                if rewards:
                    self._writer.executemany(INSERT_REWARD, rewards)
        except apsw.ConstraintError as error:
            raise LeaseLost(f"another process has written to the log of this one ({error}): read it again") from error

    async def pages(self, experiment: int, after: int = 0) -> AsyncIterator[Page]:
        while found := await self._read(PAGES, (experiment, after, PAGES_AT_ONCE)):
            for row in found:
                yield Page(*row)
            after = found[-1][LAST]

    async def pages_back(self, experiment: int, decision: int) -> AsyncIterator[Page]:
        start = await self._read(PAGE_OF_DECISION, (experiment, decision))
        before, count = (start[0][0] + 1, 1) if start else (0, 0)
        while found := await self._read(PAGES_BACK, (experiment, before, count)):
            for row in found:
                yield Page(*row)
            before, count = found[-1][LAST], min(2 * count, PAGES_AT_ONCE)

    async def rewards(self, experiment: int, first: int, last: int) -> dict[int, RewardRow]:
        select = "SELECT decision, outcome, reward, at FROM rewards WHERE experiment = ? AND decision BETWEEN ? AND ?"
        return {row[0]: RewardRow(*row) for row in await self._read(select, (experiment, first, last))}

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

    async def latest_set_aside(self, experiment: int) -> int:
        rows = await self._read("SELECT max(decision) FROM pages_set_aside WHERE experiment = ?", (experiment,))
        return int(rows[0][0] or 0)

    # --- snapshots

    async def snapshots(self, experiment: int) -> list[int]:
        rows = await self._read("SELECT last FROM snapshots WHERE experiment = ? ORDER BY last DESC", (experiment,))
        return [row[0] for row in rows]

    async def snapshot(self, experiment: int, last: int) -> Snapshot:
        rows = await self._read("SELECT * FROM snapshots WHERE experiment = ? AND last = ?", (experiment, last))
        if not rows:
            raise KeyError((experiment, last))
        return Snapshot(*rows[0])

    async def add_snapshot(self, snapshot: Snapshot) -> None:
        await self._write(self._change_held, snapshot.experiment, INSERT_SNAPSHOT, [snapshot])

    async def drop_snapshots(self, experiment: int, numbers: Sequence[int]) -> None:
        delete = "DELETE FROM snapshots WHERE experiment = ? AND last = ?"
        await self._write(self._change_held, experiment, delete, [(experiment, number) for number in numbers])

    # --- keys

    async def keys(self) -> list[KeyRow]:
        return [KeyRow(*row) for row in await self._read("SELECT * FROM keys ORDER BY created, id")]

    async def add_key(self, key: KeyRow) -> None:
        insert = "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        if not await self._write(self._change, insert, key):
            raise KeyError(key.id)

    async def revoke_key(self, key: str, at: float) -> bool:
        update = "UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL"
        return await self._write(self._change, update, (at, key)) > 0

    # --- in the threads

    def _change(self, statement: str, values: Values) -> int:
        """Run one statement, which is a transaction of its own; returns how many rows it changed."""
        self._check_place()
        self._writer.execute(statement, values)
        return self._writer.changes()

    def _change_held(self, experiment: int, statement: str, rows: Sequence[Values]) -> None:
        self._check_lease(experiment)
        self._check_place()
        with _transaction(self._writer):
            self._writer.executemany(statement, rows)

    def _select(self, statement: str, values: Values) -> list[tuple[Any, ...]]:
        """The first rows of a selection: all of them, unless they are large."""
        rows, size = [], 0
        with closing(self._reader.execute(statement, values)) as cursor:
            for row in cursor:
                rows.append(row)
                size += len(row[-1]) if type(row[-1]) is bytes else 0
                if size > BYTES_AT_ONCE:
                    break
        return rows

    def _check_place(self) -> None:
        """Raise where the file was moved or removed: SQLite would go on writing to it, and nobody would find it."""
        if os.stat(self._path).st_ino != self._inode:
            raise StoreError(f"{self._path} was replaced while it was in use: put the former file back, or restart")

    async def _write(self, do: Callable[[*Ts], T], *args: *Ts) -> T:
        self._check_open()
        with self._told():
            return await self._writing.run(do, *args)

    async def _read(self, statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
        self._check_open()
        with self._told():
            return await asyncio.get_running_loop().run_in_executor(self._reading, self._select, statement, values)

    def _check_open(self) -> None:
        if self._presence is None:
            raise StoreError(f"{self._path} is not open: open the store first")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say of an error of SQLite or the disk what to do about it."""
        try:
            yield
        except (apsw.Error, OSError) as error:
            if self._presence is not None and isinstance(error, DAMAGE):
                self._presence.note_damage()
            raise StoreError(f"{self._path}: {advice(error)} ({error})") from error


@contextmanager
def _transaction(connection: apsw.Connection) -> Iterator[None]:
    """All or nothing; the connection can be used again afterwards, whatever happened."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite ends it by itself after some errors
            connection.execute("ROLLBACK")
        raise


def advice(error: Exception) -> str:
    """What to do about an error, in a sentence."""
    return next((text for kind, text in ADVICE if isinstance(error, kind)), "the file can't be used")
