"""Leases and the open-database lock of the embedded store: lock files next to the database.

The operating system releases a file lock when its process ends, however it ends: then others take over its leases at
once. From a process that stopped without an end they take over after the lease time-out.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import threading
import time
import uuid
from pathlib import Path

from releaf.service.errors import StoreError
from releaf.service.store.base import BEATS_PER_TIMEOUT
from releaf.service.store.lease_heartbeat import SilenceWatch

OPEN, DAMAGED = b"open", b"damaged"
CHECK_TIMEOUT = 60.0  # seconds to wait for a process that checks or repairs the file
SQLITE_WRITE_LOCK = "120"  # first byte of the write lock in the index of the write-ahead log (SQLite's file format)

log = logging.getLogger("releaf.service")


class Leases:
    """Leases of this process: epochs of its experiments, and a locked file that shows that it runs.

    The file has the process id and the heartbeat, which a thread writes: a slow disk or a long computation does not
    silence it, a pause of the process does. Heartbeats need no disk, because processes on one machine see each other's
    writes in the page cache.

    Parameters
    ----------
    database
        The SQLite file.
    folder
        Where the lock files are.
    timeout
        The lease time-out in seconds.
    """

    def __init__(self, database: Path, folder: Path, timeout: float) -> None:
        self._database, self._folder, self._timeout = database, folder, timeout
        self._watch: SilenceWatch[str] = SilenceWatch(timeout)
        self._file: int | None = None
        self._thread: threading.Thread
        self._stop = threading.Event()
        self._reported: set[str] = set()  # silent holders that the log has a message about
        self.holder = ""  # name of this process in the table of leases
        self.epochs: dict[int, int] = {}  # of held leases, by experiment

    def open(self) -> None:
        """Create and lock the file of this process, remove those of ended ones, and start the heartbeat."""
        self.holder = uuid.uuid4().hex
        unlocked = self._folder / f"new-{self.holder}"
        self._file = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        _try_lock(self._file, fcntl.LOCK_EX)
        unlocked.rename(self._path(self.holder))
        for path in self._folder.glob("holder-*"):
            self._read_heartbeat(path.name.removeprefix("holder-"))
        self._stop.clear()
        self._thread = threading.Thread(target=self._beat, args=(self._file,), name="lease-heartbeat", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Release all leases, and remove the file. Its name is never used again, so that nobody can lock another."""
        self.epochs.clear()
        if self._file is not None:
            self._stop.set()
            self._thread.join()
            self._path(self.holder).unlink(missing_ok=True)
            os.close(self._file)
            self._file = None

    def can_take_over(self, holder: str) -> bool:
        """Whether the holder of a lease has ended, or is silent for the lease time-out.

        A holder that stopped in the middle of a write to the database could continue that write at any later moment,
        over the writes of others. No check prevents that, so this kills the process first.
        """
        found = self._read_heartbeat(holder)
        if found is None:
            self._watch.forget(holder)
            return True
        process, beat = found
        if not self._watch.is_silent(holder, beat):
            return False
        if holder not in self._reported:
            self._reported.add(holder)
            log.warning("store: process %d gave no heartbeat for %g s: taking over its leases", process, self._timeout)
        if write_lock_owner(self._database) == process:
            log.error("store: process %d stopped in the middle of a write to the file: killing it", process)
            try:
                os.kill(process, signal.SIGKILL)
            except OSError as error:
                log.error(
                    "store: process %d could not be killed: %s. Kill it, so that this one takes over", process, error
                )
                return False
        return True

    def _read_heartbeat(self, holder: str) -> tuple[int, int] | None:
        """Process id and heartbeat of a holder; None if it has ended. Then its file is removed."""
        try:
            file = os.open(self._path(holder), os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            if _try_lock(file, fcntl.LOCK_SH):
                self._path(holder).unlink(missing_ok=True)
                return None
            process, _, beat = os.pread(file, 100, 0).partition(b" ")
            return int(process or 0), int(beat or 0)
        finally:
            os.close(file)

    def _beat(self, file: int) -> None:
        beats = 0
        while not self._stop.is_set():
            beats += 1
            os.pwrite(file, f"{os.getpid()} {beats:020d}".encode(), 0)
            self._stop.wait(self._timeout / BEATS_PER_TIMEOUT)

    def _path(self, holder: str) -> Path:
        return self._folder / f"holder-{holder}"


def write_lock_owner(database: Path) -> int | None:
    """Id of the process that is in the middle of a write to an SQLite file; None if there is none, or it is unknown.

    Linux lists all locks in /proc/locks. To ask for a lock itself would need to open and close the file, which would
    release SQLite's own locks of this process.
    """
    try:
        inode = os.stat(f"{database}-shm").st_ino
        locks = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    for line in locks:
        words = line.split()
        is_write_lock = words[1:2] == ["POSIX"] and words[3] == "WRITE" and words[6] == SQLITE_WRITE_LOCK
        if is_write_lock and int(words[5].rpartition(":")[2]) == inode:
            return int(words[4])
    return None


class DatabaseLock:
    """Lock of a database file: exclusive while a process checks or repairs it, shared while processes use it.

    Its file stays: if it were removed, two processes could hold locks on two files of the same name.

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
