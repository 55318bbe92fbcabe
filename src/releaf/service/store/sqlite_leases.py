"""Leases and the open-database lock of the embedded store: lock files next to the database.

The operating system releases a file lock when its process ends, however it ends. The files themselves stay: if they
were removed, two processes could hold locks on two files of the same name.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from releaf.service.errors import StoreError

OPEN, DAMAGED = b"open", b"damaged"
CHECK_TIMEOUT = 60.0  # seconds to wait for a process that checks or repairs the file


class Leases:
    """Leases of experiments: exclusive file locks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[int, int] = {}

    def __contains__(self, experiment: int) -> bool:
        return experiment in self._held

    def acquire(self, experiment: int) -> bool:
        if experiment in self._held:
            return True
        lock = os.open(self._folder / str(experiment), os.O_RDWR | os.O_CREAT, 0o600)
        if not _try_lock(lock, fcntl.LOCK_EX):
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


class DatabaseLock:
    """Lock of a database file: exclusive while a process checks or repairs it, shared while processes use it.

    A process that opens the database alone may check and repair it. The lock file also records inode, size and
    modification time at the last clean close, so that an untouched database needs no check.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self._path = path
        self._lock = os.open(folder / "open", os.O_RDWR | os.O_CREAT, 0o600)
        self.is_exclusive = _try_lock(self._lock, fcntl.LOCK_EX)
        if not self.is_exclusive:
            self.share()

    def share(self) -> None:
        """Downgrade to a shared lock, so that other processes can open the database; wait for one that checks it."""
        until = time.monotonic() + CHECK_TIMEOUT
        while not _try_lock(self._lock, fcntl.LOCK_SH):
            if time.monotonic() > until:
                raise StoreError(f"another process is checking or repairing {self._path}: try again later")
            time.sleep(0.05)

    @property
    def was_used(self) -> bool:
        return os.fstat(self._lock).st_size > 0

    @property
    def closed_cleanly(self) -> bool:
        """Whether the database is unchanged since its last clean close."""
        return os.pread(self._lock, 100, 0) == self._fingerprint()

    def mark_open(self) -> None:
        """Record that the database is in use, if this process opened it alone and so has checked it."""
        if self.is_exclusive:
            self._write_state(OPEN)

    def mark_damaged(self) -> None:
        """Make the next process that opens the database alone check it."""
        self._write_state(DAMAGED)

    def close_cleanly(self) -> None:
        """Record a clean close, unless other processes have the database open or marked it damaged; then unlock."""
        if _try_lock(self._lock, fcntl.LOCK_EX) and os.pread(self._lock, 100, 0) == OPEN:
            self._write_state(self._fingerprint())
        self.close()

    def close(self) -> None:
        os.close(self._lock)

    def _write_state(self, text: bytes) -> None:
        os.pwrite(self._lock, text, 0)
        os.ftruncate(self._lock, len(text))
        os.fsync(self._lock)

    def _fingerprint(self) -> bytes:
        try:
            status = self._path.stat()
        except OSError:
            return b"missing"
        return f"closed {status.st_ino} {status.st_size} {status.st_mtime_ns}".encode()


def _try_lock(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
