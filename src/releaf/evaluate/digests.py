"""Digests of files, so that what was found in a file is never taken for what it holds now."""

from __future__ import annotations

import hashlib
import os
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

FILES = ("data", "path")  # arguments of streams that name a file, or a folder of files
_SETTLED = 2 * 10**9  # nanoseconds after which another change of a file has another time


def files_of(arguments: dict[str, Any]) -> dict[str, str | None]:
    """The digest of each file that arguments name, also those of a stream among them; None where there is no file."""
    found: dict[str, str | None] = {}
    for name, value in arguments.items():
        if isinstance(value, dict):
            found |= files_of(value)
        elif name in FILES and isinstance(value, str):
            found[value] = digest(value)
    return found


def digest(path: str) -> str | None:
    """Of the content of a file, or of all files in a folder; None where it can't be read."""
    try:
        if os.path.isdir(path):
            parts = [(str(part.relative_to(path)), digest(str(part))) for part in sorted(Path(path).rglob("*"))]
            return hashlib.sha256(repr(parts).encode()).hexdigest()
        now = os.stat(path)
        changed = max(now.st_mtime_ns, now.st_ctime_ns)
        if time.time_ns() - changed < _SETTLED:
            return _digest(path)
        return _known_digest(path, (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns))
    except OSError:
        return None


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=1_000)
def _known_digest(path: str, status: tuple[int, ...]) -> str:
    return _digest(path)
