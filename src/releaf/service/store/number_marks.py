"""Marks of the issued numbers, next to the embedded store's file: what tells of events that the file has lost.

A mark has two numbers. ``event`` is the latest event on disk: a file that ends before it was truncated, or replaced by
an older one. The write of ``event`` is not synced, so that it costs little: after a power cut it may be an earlier one.
``reserved`` is at least the latest decision, and synced before the store commits a decision: after a loss, the
experiment continues beyond it, so that no number is issued twice.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

BLOCK = 10_000  # decisions to reserve at once: a sync for each block
DIGITS = 20


class NumberMark(NamedTuple):
    """The mark of an experiment, by its name: the numbers in a lost file are those of a name, not of an id."""

    name: str
    event: int
    reserved: int

    def to_bytes(self) -> bytes:
        return f"{self.event:0{DIGITS}d} {self.reserved:0{DIGITS}d} {self.name}\n".encode()

    @classmethod
    def parse(cls, content: bytes) -> NumberMark | None:
        """Parse the content of a file; None if it is unreadable."""
        try:
            event, reserved, name = content.decode().removesuffix("\n").split(" ", 2)
            return cls(name, int(event), int(reserved))
        except ValueError:
            return None


class MarkFile:
    """The open file of a mark, written by the holder of the experiment's lease.

    Parameters
    ----------
    folder
        Where the marks are.
    name
        Name of the experiment.
    """

    def __init__(self, folder: Path, name: str) -> None:
        digest = hashlib.blake2b(name.encode(), digest_size=12).hexdigest()
        self._file = os.open(folder / f"numbers-{digest}", os.O_RDWR | os.O_CREAT, 0o600)
        self._mark = self._read() or NumberMark(name, 0, 0)

    def reserve(self, decision: int) -> None:
        """Reserve a block of decisions on disk, unless this one is reserved; before its commit."""
        if decision > self._mark.reserved:
            latest = self._read() or self._mark  # of another process, if this one has lost its lease
            self._mark = latest._replace(reserved=max(latest.reserved, decision + BLOCK))
            self._write()
            os.fsync(self._file)

    def record(self, event: int) -> None:
        """Record the latest event, after its commit."""
        self._mark = self._mark._replace(event=event)
        self._write()

    def close(self) -> None:
        os.close(self._file)

    def _read(self) -> NumberMark | None:
        return NumberMark.parse(os.pread(self._file, 1 << 16, 0))

    def _write(self) -> None:
        os.pwrite(self._file, self._mark.to_bytes(), 0)


def read_marks(folder: Path) -> list[NumberMark]:
    """All readable marks of a store."""
    marks = [NumberMark.parse(path.read_bytes()) for path in sorted(folder.glob("numbers-*"))]
    return [mark for mark in marks if mark is not None]


def forget_events(folder: Path) -> None:
    """Expect no events any more, after a salvage; the reserved decisions stay reserved."""
    for mark in read_marks(folder):
        file = MarkFile(folder, mark.name)
        file.record(0)
        file.close()
