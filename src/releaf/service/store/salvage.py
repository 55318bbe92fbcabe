"""Check of the embedded store's file before its first use, and its salvage if something is lost.

A store refuses a file that is damaged, lacks events, or is missing although it was in use: whoever runs the service
decides whether to restore a backup, or to continue with what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw

from releaf.service.errors import StoreError
from releaf.service.store import repair
from releaf.service.store.number_marks import NumberMark, forget_events, read_marks
from releaf.service.store.sqlite_leases import DatabaseLock

CreateTables = Callable[[apsw.Connection, int | None], None]


class FileCheck:
    """Checks a database file that no other process uses.

    Parameters
    ----------
    path
        The file.
    folder
        Where its locks and marks are.
    lock
        The exclusive lock of the file.
    create_tables
        Creates the tables of a schema version, by default the latest.
    """

    def __init__(self, path: Path, folder: Path, lock: DatabaseLock, create_tables: CreateTables) -> None:
        self._path, self._folder, self._lock, self._create_tables = path, folder, lock, create_tables

    def run(self, salvage: bool) -> list[str]:
        """Check the file, unless it is unchanged since a clean close; return messages about it.

        Raises a :class:`StoreError` if something is lost, unless ``salvage`` allows to continue with what is left.
        """
        path, marks = self._path, read_marks(self._folder)
        if repair.was_interrupted(path):
            moved_to = repair.replace_damaged(path)
            return [f"{path} was damaged. A fresh file has all readable rows; the damaged file is {moved_to}"]
        if not path.exists() or path.stat().st_size == 0:
            return self._check_absent(marks, salvage)
        if self._lock.closed_cleanly:
            return []
        torn, damage = repair.torn_wal(path), repair.find_damage(path)
        messages = [torn] if torn else []
        if damage is not None:
            self._require(
                salvage, f"is damaged ({damage})", "copies all readable rows to a fresh file, keeps the old one"
            )
            return [*messages, self._repair(f"was damaged ({damage})", marks)]
        missing = repair.find_missing_events(path, marks)
        if missing:
            why = f"was truncated or replaced by an older file: {'; '.join(missing)}"
            self._require(salvage, why, "continues without these events")
            repair.skip_numbers(path, marks)
            forget_events(self._folder)
            return [*messages, f"{path} {why}. The experiments continue without them{repair.skipped(marks)}"]
        return messages

    def _check_absent(self, marks: list[NumberMark], salvage: bool) -> list[str]:
        wal = Path(f"{self._path}-wal")
        if not (self._lock.was_used or marks or (wal.exists() and wal.stat().st_size > 0)):
            return []  # a new store
        state = "empty" if self._path.exists() else "missing"
        self._require(
            salvage, f"was in use and is now {state}", "creates a new file without experiments, keeps what is left"
        )
        return [self._repair(f"was in use and is now {state}", marks)]

    def _require(self, salvage: bool, found: str, remedy: str) -> None:
        if not salvage:
            raise StoreError(
                f"{self._path} {found}. Restore the file, or a backup of it. Or start once with releaf serve "
                f"--salvage, which {remedy}, and never issues the lost numbers again"
            )

    def _repair(self, found: str, marks: list[NumberMark]) -> str:
        message = repair.repair(self._path, found, self._create_tables, marks)
        forget_events(self._folder)
        return message
