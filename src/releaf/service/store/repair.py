"""Damage to the file of the embedded store: how it is found, and what can be saved.

What can still be read goes to a fresh database that takes the place of the damaged one, which is kept beside it. SQLite
keeps no checksums: a page of the log or a snapshot whose bytes were altered is read as it is, and found out later by
its own checksum.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

WAL_HEADER, FRAME_HEADER = 32, 24
TABLES = ("experiments", "pages", "rewards", "snapshots", "keys", "pages_set_aside", "rewards_set_aside")
KEPT = ("experiments", "pages", "rewards", "snapshots", "keys")  # what messages count
DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.IOError, apsw.FormatError, apsw.SQLError)

# Numbers are given again: what is left of an experiment or an event that is lost must not meet the next of its number.
TIDY = """
    DELETE FROM pages WHERE experiment NOT IN (SELECT id FROM experiments);
    DELETE FROM snapshots WHERE experiment NOT IN (SELECT id FROM experiments);
    DELETE FROM rewards WHERE event > max(
        coalesce((SELECT max(last) FROM pages WHERE pages.experiment = rewards.experiment), 0),
        coalesce((SELECT max(last) FROM snapshots WHERE snapshots.experiment = rewards.experiment), 0)
    );
"""


def damage(path: Path) -> str | None:
    """What is wrong with a database file, in SQLite's words."""
    try:
        found = _sheltered(path)
        try:
            verdict = [str(row[0]) for row in found.execute("PRAGMA quick_check(3)")]
        finally:
            found.close()
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return str(error)
    return None if verdict == ["ok"] else "; ".join(verdict).replace("\n", " ")


def torn_wal(path: Path) -> str | None:
    """A message where the write-ahead log ends in the middle of a frame."""
    wal = Path(f"{path}-wal")
    size = wal.stat().st_size if wal.exists() else 0
    if size == 0:
        return None
    with wal.open("rb") as file:
        page_size = int.from_bytes(file.read(WAL_HEADER)[8:12], "big")
    if size >= WAL_HEADER and (size - WAL_HEADER) % (page_size + FRAME_HEADER) == 0:
        return None
    return (
        f"{wal} ends in the middle of a write: one that was under way when the process died, which nobody was told of, "
        "or the file was cut; all whole writes before it are kept"
    )


def salvage(path: Path, why: str, prepare: Callable[[apsw.Connection, int | None], None]) -> str:
    """Replace a damaged database by a fresh one with all that can be read, and say so.

    The fresh one takes its place only when it is complete, so that this can be interrupted and begun again. ``prepare``
    makes its tables, of the version that the damaged one had, where that is known.
    """
    fresh_path = _fresh(path)
    _remove(fresh_path)
    fresh_path.touch(stat.S_IMODE(path.stat().st_mode))
    fresh = apsw.Connection(str(fresh_path))
    try:
        fresh.pragma("synchronous", "FULL")
        prepare(fresh, _version(path))
        counts = _copy(path, fresh)
    finally:
        fresh.close()
    kept_as = put_in_place(path)
    saved = ", ".join(f"{counts[table]} {table}" for table in KEPT)
    return f"{path} was damaged ({why}). What could be read is in a fresh file now ({saved}); the old is {kept_as}"


def move_away(path: Path) -> Path:
    """Give a damaged database another name, together with its write-ahead log; returns the name."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    damaged = Path(f"{path}.damaged-{stamp}")
    while damaged.exists():
        damaged = Path(f"{damaged}x")
    for suffix in ("", "-wal"):
        if os.path.exists(f"{path}{suffix}"):
            os.rename(f"{path}{suffix}", f"{damaged}{suffix}")
    Path(f"{path}-shm").unlink(missing_ok=True)  # only an index of the write-ahead log
    return damaged


def put_in_place(path: Path) -> Path:
    """Put the fresh database where the damaged one was; returns the damaged one's new name."""
    damaged = move_away(path)
    os.rename(_fresh(path), path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    return damaged


def was_interrupted(path: Path) -> bool:
    """Whether a salvage ended after the damaged file was moved, with the complete fresh one still waiting."""
    return not path.exists() and _fresh(path).exists()


def _fresh(path: Path) -> Path:
    return Path(f"{path}-salvage")


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _sheltered(path: Path) -> apsw.Connection:
    """A connection that leaves the write-ahead log as it is."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.set_busy_timeout(5000)
    return connection


def _forgiving(path: Path) -> apsw.Connection:
    """A connection that also reads a file that was cut short."""
    connection = _sheltered(path)
    connection.pragma("writable_schema", True)
    return connection


def _copy(path: Path, fresh: apsw.Connection) -> dict[str, int]:
    """Copy all rows that can be read; returns how many, by table."""
    follow = fresh.execute("SELECT sql FROM sqlite_schema WHERE name = 'pages_follow'").get
    fresh.execute("BEGIN; DROP TRIGGER pages_follow")  # rows come in no order here
    try:
        damaged = _forgiving(path)
    except apsw.Error:
        damaged = None
    if damaged is not None:
        for table in TABLES:
            _copy_table(damaged, fresh, table)
        damaged.close()
    fresh.execute(TIDY)
    fresh.execute(follow)
    fresh.execute("COMMIT")
    return {table: fresh.execute(f"SELECT count(*) FROM {table}").get for table in KEPT}  # noqa: S608


def _copy_table(damaged: apsw.Connection, fresh: apsw.Connection, table: str) -> None:
    columns = [str(row[1]) for row in fresh.execute(f"PRAGMA table_info({table})")]
    names = ", ".join(columns)
    insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608
    for row in _readable(damaged, table, names):
        try:
            fresh.execute(insert, row)
        except apsw.ConstraintError:  # a value of another type: the row is damaged
            continue


def _readable(damaged: apsw.Connection, table: str, names: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a table from its beginning and, where that breaks off, from its end."""
    reached: Any = -1
    for order in ("ASC", "DESC"):
        rows = f"SELECT rowid, {names} FROM {table} NOT INDEXED WHERE rowid > ? ORDER BY rowid {order}"  # noqa: S608
        try:
            for rowid, *row in damaged.execute(rows, (reached,)):
                if order == "ASC":
                    reached = rowid
                yield tuple(row)
        except DAMAGE:
            continue
        return


def _version(path: Path) -> int | None:
    """The version of a damaged database's tables, where it can be read."""
    try:
        damaged = _forgiving(path)
        try:
            return int(damaged.execute("SELECT value FROM meta WHERE name = 'version'").get)
        finally:
            damaged.close()
    except (*DAMAGE, TypeError, ValueError):
        return None
