"""Damage detection and repair of the embedded store's SQLite file.

A repair copies all readable rows to a fresh database, which replaces the damaged one; the damaged file stays next to
it. SQLite has no checksums: it reads altered bytes of a log page or snapshot without an error, and their own checksums
reveal the damage later.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from releaf.service.store.migrations import META
from releaf.service.store.number_marks import NumberMark

WAL_HEADER, FRAME_HEADER = 32, 24
TABLES = (
    *("experiments", "pages", "rewards", "snapshots", "keys", "pages_set_aside", "rewards_set_aside", "changes"),
    "leases",
)
COUNTED = ("experiments", "pages", "rewards", "snapshots", "keys")  # in the message about a repair
READ_ERRORS = (apsw.CorruptError, apsw.NotADBError, apsw.IOError, apsw.FormatError, apsw.SQLError)

# Numbers are reused: rows of a lost experiment or event must not be taken for those of the next with that number.
DELETE_ORPHANS = """
    DELETE FROM pages WHERE experiment NOT IN (SELECT id FROM experiments);
    DELETE FROM snapshots WHERE experiment NOT IN (SELECT id FROM experiments);
    DELETE FROM rewards WHERE event > max(
        coalesce((SELECT max(last) FROM pages WHERE pages.experiment = rewards.experiment), 0),
        coalesce((SELECT max(last) FROM snapshots WHERE snapshots.experiment = rewards.experiment), 0)
    );
"""

# The latest decision that may have been issued, by name of the experiment (see LATEST_SET_ASIDE).
SKIP_NUMBERS = """
    INSERT INTO meta VALUES ('issued:' || ?, ?) ON CONFLICT (name)
    DO UPDATE SET value = max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))
"""
SKIP_KNOWN_NUMBERS = """
    INSERT INTO meta
    SELECT 'issued:' || name, max(
        coalesce((SELECT max(decision) FROM pages WHERE experiment = id), 0),
        coalesce((SELECT max(decision) FROM rewards WHERE experiment = id), 0)
    ) FROM experiments WHERE true
    ON CONFLICT (name) DO UPDATE SET value = max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))
"""


def find_damage(path: Path) -> str | None:
    """SQLite's description of the damage in a database file; None if it is sound."""
    try:
        connection = open_without_checkpoint(path)
        try:
            verdict = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
        finally:
            connection.close()
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return str(error)
    return None if verdict == ["ok"] else "; ".join(verdict).replace("\n", " ")


def torn_wal(path: Path) -> str | None:
    """A message if the write-ahead log ends in the middle of a frame."""
    wal = Path(f"{path}-wal")
    size = wal.stat().st_size if wal.exists() else 0
    if size == 0:
        return None
    with wal.open("rb") as file:
        page_size = int.from_bytes(file.read(WAL_HEADER)[8:12], "big")
    if size >= WAL_HEADER and (size - WAL_HEADER) % (page_size + FRAME_HEADER) == 0:
        return None
    return (
        f"{wal} ends in the middle of a write: the process died during a commit that it had not acknowledged, or the "
        "file was truncated. All complete commits before it are kept"
    )


def find_missing_events(path: Path, marks: Sequence[NumberMark]) -> list[str]:
    """Events that a sound database lacks although they were in it, one text for each experiment."""
    connection = open_without_checkpoint(path)
    try:
        found = {mark: _last_event(connection, mark.name) for mark in marks}
    finally:
        connection.close()
    return [
        f"experiment {mark.name} lacks events {last + 1:,} to {mark.event:,}"
        for mark, last in found.items()
        if last < mark.event
    ]


def _last_event(connection: apsw.Connection, name: str) -> int:
    """The latest event of an experiment that a database has, be it in a snapshot or set aside."""
    tables = " UNION ALL ".join(
        f"SELECT last FROM {table} WHERE experiment = (SELECT id FROM experiments WHERE name = $1)"  # noqa: S608
        for table in ("pages", "snapshots", "pages_set_aside")
    )
    try:
        return int(connection.execute(f"SELECT max(last) FROM ({tables})", (name,)).get or 0)  # noqa: S608
    except apsw.SQLError:  # the tables are gone too
        return 0


def skip_numbers(path: Path, marks: Sequence[NumberMark]) -> None:
    """Make experiments of a database continue beyond the decisions that were issued."""
    connection = apsw.Connection(str(path))
    try:
        connection.execute(META)
        connection.executemany(SKIP_NUMBERS, [(mark.name, mark.reserved) for mark in marks])
    finally:
        connection.close()


def skipped(marks: Sequence[NumberMark]) -> str:
    """The part of a message that names the skipped decisions."""
    named = ", ".join(f"{mark.reserved:,} of {mark.name}" for mark in marks if mark.reserved)
    return f"; decision numbers are skipped up to {named}" if named else ""


def repair(
    path: Path,
    found: str,
    create_tables: Callable[[apsw.Connection, int | None], None],
    marks: Sequence[NumberMark],
) -> str:
    """Replace a damaged or missing database by a fresh one with all readable rows; return a message about it.

    The fresh database replaces the damaged one only when it is complete, so that a repair can be interrupted and
    started again. ``create_tables`` creates its tables, at the damaged one's schema version if that is readable.
    """
    fresh_path = _fresh_path(path)
    _remove(fresh_path)
    fresh_path.touch(stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600)
    has_content = path.exists() and path.stat().st_size > 0  # SQLite would delete the write-ahead log of an empty file
    fresh = apsw.Connection(str(fresh_path))
    try:
        fresh.pragma("synchronous", "FULL")
        create_tables(fresh, _schema_version(path) if has_content else None)
        counts = _copy(path if has_content else None, fresh)
        fresh.executemany(SKIP_NUMBERS, [(mark.name, mark.reserved) for mark in marks])
    finally:
        fresh.close()
    moved_to = replace_damaged(path)
    saved = ", ".join(f"{counts[table]} {table}" for table in COUNTED)
    kept = f"; the damaged file is {moved_to}" if any(_files(moved_to)) else ""
    return f"{path} {found}. A fresh file has all readable rows ({saved}){skipped(marks)}{kept}"


def move_aside(path: Path) -> Path:
    """Rename a damaged database and its write-ahead log; return the new name."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    damaged = Path(f"{path}.damaged-{stamp}")
    while damaged.exists():
        damaged = Path(f"{damaged}x")
    for suffix in ("", "-wal"):
        if os.path.exists(f"{path}{suffix}"):
            os.rename(f"{path}{suffix}", f"{damaged}{suffix}")
    Path(f"{path}-shm").unlink(missing_ok=True)  # only an index of the write-ahead log
    return damaged


def replace_damaged(path: Path) -> Path:
    """Move the fresh database to the path of the damaged one; return the damaged one's new name."""
    damaged = move_aside(path)
    os.rename(_fresh_path(path), path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    return damaged


def was_interrupted(path: Path) -> bool:
    """Whether a repair ended between moving the damaged file aside and moving the complete fresh one to its path."""
    return not path.exists() and _fresh_path(path).exists()


def _fresh_path(path: Path) -> Path:
    return Path(f"{path}-salvage")  # the name is part of the format on disk


def _files(path: Path) -> list[Path]:
    return [file for file in (path, Path(f"{path}-wal")) if file.exists()]


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def open_without_checkpoint(path: Path) -> apsw.Connection:
    """Open a database without changing its write-ahead log."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.set_busy_timeout(5000)
    return connection


def _open_damaged(path: Path) -> apsw.Connection:
    """Open a database even if its file is truncated."""
    connection = open_without_checkpoint(path)
    connection.pragma("writable_schema", True)
    return connection


def _copy(path: Path | None, fresh: apsw.Connection) -> dict[str, int]:
    """Copy all readable rows; return their number by table."""
    trigger = fresh.execute("SELECT sql FROM sqlite_schema WHERE name = 'pages_follow'").get
    fresh.execute("BEGIN; DROP TRIGGER pages_follow")  # rows are copied in any order
    try:
        damaged = None if path is None else _open_damaged(path)
    except apsw.Error:
        damaged = None
    if damaged is not None:
        for table in TABLES:
            _copy_table(damaged, fresh, table)
        _copy_meta(damaged, fresh)
        damaged.close()
    fresh.execute(SKIP_KNOWN_NUMBERS)
    fresh.execute(DELETE_ORPHANS)
    fresh.execute(trigger)
    fresh.execute("COMMIT")
    return {table: fresh.execute(f"SELECT count(*) FROM {table}").get for table in COUNTED}  # noqa: S608


def _copy_meta(damaged: apsw.Connection, fresh: apsw.Connection) -> None:
    """Copy what the store knows about itself, except for the schema version."""
    try:
        for row in damaged.execute("SELECT name, value FROM meta WHERE name <> 'version'"):
            fresh.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", row)
    except READ_ERRORS:
        return


def _copy_table(damaged: apsw.Connection, fresh: apsw.Connection, table: str) -> None:
    columns = [str(row[1]) for row in fresh.execute(f"PRAGMA table_info({table})")]
    if not columns:  # the table is newer than the schema version of the damaged database
        return
    names = ", ".join(columns)
    insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608
    for row in _readable(damaged, table, names):
        try:
            fresh.execute(insert, row)
        except apsw.ConstraintError:  # a value of another type: the row is damaged
            continue


def _readable(damaged: apsw.Connection, table: str, names: str) -> Iterator[tuple[Any, ...]]:
    """Read the rows of a table from its start and, if that fails, from its end."""
    reached: Any = -1
    for order in ("ASC", "DESC"):
        rows = f"SELECT rowid, {names} FROM {table} NOT INDEXED WHERE rowid > ? ORDER BY rowid {order}"  # noqa: S608
        try:
            for rowid, *row in damaged.execute(rows, (reached,)):
                if order == "ASC":
                    reached = rowid
                yield tuple(row)
        except READ_ERRORS:
            continue
        return


def _schema_version(path: Path) -> int | None:
    """Schema version of a damaged database; None if it is unreadable."""
    try:
        damaged = _open_damaged(path)
        try:
            return int(damaged.execute("SELECT value FROM meta WHERE name = 'version'").get)
        finally:
            damaged.close()
    except (*READ_ERRORS, TypeError, ValueError):
        return None
