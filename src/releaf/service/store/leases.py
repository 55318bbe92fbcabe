"""Locks of the embedded store: files beside the database, locked as long as a process lives.

The operating system frees a lock when the process that holds it ends, however it ends. The files themselves stay:
were they removed, two processes could hold locks on two files of one name.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from releaf.service.store.base import StoreError

OPEN, DAMAGED = b"open", b"damaged"
PATIENCE = 60.0  # seconds to wait for a process that checks or mends the file


class Leases:
    """Which experiments this store may write to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[int, int] = {}

    def __contains__(self, experiment: int) -> bool:
        return experiment in self._held

    def acquire(self, experiment: int) -> bool:
        if experiment in self._held:
            return True
        lock = os.open(self._folder / str(experiment), os.O_RDWR | os.O_CREAT, 0o600)
        if not _locked(lock, fcntl.LOCK_EX):
            os.close(lock)
            return False
        self._held[experiment] = lock
        return True

    def release(self, experiment: int) -> None:
        if experiment in self._held:
            os.close(self._held.pop(experiment))

    def release_all(self) -> None:
        for experiment in list(self._held):
            self.release(experiment)


class Presence:
    """Tells processes with the same database of each other, and whether it was closed as it should be.

    A process that opens the database while no other has it open may check and mend it; the lock file also notes how
    the database looked when the last process left it, so that one that nobody touched needs no check.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self._path = path
        self._lock = os.open(folder / "open", os.O_RDWR | os.O_CREAT, 0o600)
        self.alone = _locked(self._lock, fcntl.LOCK_EX)
        if not self.alone:
            self.share()

    def share(self) -> None:
        """Let others open the database too, now that it is sound; wait for another that is about to."""
        until = time.monotonic() + PATIENCE
        while not _locked(self._lock, fcntl.LOCK_SH):
            if time.monotonic() > until:
                raise StoreError(f"{self._path} is being checked or mended by another process: try again later")
            time.sleep(0.05)

    @property
    def was_used(self) -> bool:
        return os.fstat(self._lock).st_size > 0

    @property
    def was_closed(self) -> bool:
        """Whether the database is as the last process left it."""
        return os.pread(self._lock, 100, 0) == self._look()

    def note_open(self) -> None:
        """Note that the database is in use and, when it was opened by this process alone, that it was checked."""
        if self.alone:
            self._note(OPEN)

    def note_damage(self) -> None:
        """Have the next process that opens it alone check the database."""
        self._note(DAMAGED)

    def leave(self) -> None:
        """Note how the database looks, unless others have it open or found it damaged."""
        if _locked(self._lock, fcntl.LOCK_EX) and os.pread(self._lock, 100, 0) == OPEN:
            self._note(self._look())
        self.abandon()

    def abandon(self) -> None:
        os.close(self._lock)

    def _note(self, text: bytes) -> None:
        os.pwrite(self._lock, text, 0)
        os.ftruncate(self._lock, len(text))
        os.fsync(self._lock)

    def _look(self) -> bytes:
        try:
            found = self._path.stat()
        except OSError:
            return b"missing"
        return f"closed {found.st_ino} {found.st_size} {found.st_mtime_ns}".encode()


def _locked(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
