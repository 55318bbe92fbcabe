"""What to do about errors of SQLite and of the disk."""

from __future__ import annotations

import apsw

DAMAGE = (apsw.CorruptError, apsw.NotADBError)

_LOCKED = "another program has locked the file; stop all programs that use it besides the service"
_READ_ONLY = "the file is not writable; make the service's user the owner of the file and its folder"
_DAMAGED = "the file is damaged; stop the service, and start it with --salvage, which keeps all readable rows"
_DISK = "reading or writing the disk failed; check its health and free space"
ADVICE: tuple[tuple[type[Exception], str], ...] = (
    (apsw.FullError, "the disk is full; free some space, then the service recovers by itself"),
    (apsw.BusyError, _LOCKED),
    (apsw.LockedError, _LOCKED),
    (apsw.CantOpenError, "the file can't be opened; check that its folder exists and that the service may write there"),
    (apsw.ReadOnlyError, _READ_ONLY),
    (apsw.PermissionsError, _READ_ONLY),
    (apsw.CorruptError, _DAMAGED),
    (apsw.NotADBError, _DAMAGED),
    (apsw.IOError, _DISK),
    (apsw.NoMemError, "out of memory; give the machine more, or stop other programs"),
    (FileNotFoundError, "the file or its folder does not exist; create the folder, or restore the file"),
    (PermissionError, "permission denied; make the service's user the owner of the file and its folder"),
    (OSError, _DISK),
)


def advice(error: Exception) -> str:
    """One sentence on the cause of an error and its remedy."""
    return next((text for kind, text in ADVICE if isinstance(error, kind)), "the file can't be used")
