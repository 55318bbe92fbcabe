"""Digests of input files, which identify the results that depend on them."""

from __future__ import annotations

import hashlib
import os
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from releaf.streams.data_files import file_digest

FILE_ARGUMENTS = ("data", "path")  # arguments of streams that are paths of files or folders
_MTIME_RESOLUTION = 2 * 10**9  # nanoseconds; within it, two changes of a file may share a time stamp


def digests_of_files(arguments: dict[str, Any]) -> dict[str, str | None]:
    """Digest of each file that the arguments name, also in nested mappings; None for a missing file."""
    digests: dict[str, str | None] = {}
    for name, value in arguments.items():
        if isinstance(value, dict):
            digests |= digests_of_files(value)
        elif name in FILE_ARGUMENTS and isinstance(value, str):
            digests[value] = digest(value)
    return digests


def digest(path: str) -> str | None:
    """Digest of the content of a file, or of all files in a folder; None if it can't be read."""
    try:
        if os.path.isdir(path):
            parts = [(str(part.relative_to(path)), digest(str(part))) for part in sorted(Path(path).rglob("*"))]
            return hashlib.sha256(repr(parts).encode()).hexdigest()
        now = os.stat(path)
        changed = max(now.st_mtime_ns, now.st_ctime_ns)
        if time.time_ns() - changed < _MTIME_RESOLUTION:
            return file_digest(path)
        return _cached_digest(path, (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns))
    except OSError:
        return None


@lru_cache(maxsize=1_000)
def _cached_digest(path: str, status: tuple[int, ...]) -> str:
    return file_digest(path)
