"""Pickled functions whose arrays worker processes map from one shared file."""

from __future__ import annotations

import mmap
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

ALIGNMENT = 64  # bytes, for aligned loads in compiled loops
PREFIX = "releaf-shared-"
_numbers = count()


@dataclass(frozen=True, slots=True)
class SharedFunction:
    """Location of a shared function: the file, and the spans of its pickle and of its arrays."""

    file: str
    spans: tuple[tuple[int, int], ...]
    folder: str  # working directory of the program
    number: int  # unique within the program, since file names are reused

    def load(self) -> Callable[[Any], Any]:
        """Load the function and change to the program's directory. Arrays are mapped copy-on-write."""
        with suppress(OSError):  # the directory may be gone
            os.chdir(self.folder)
        with Path(self.file).open("rb") as file:
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        pickled, *arrays = (mapped[begin:end] for begin, end in self.spans)
        function: Callable[[Any], Any] = pickle.loads(pickled, buffers=arrays)
        return function

    def remove(self) -> None:
        """Remove the file of a program that is gone; an unnamed file is gone already."""
        if PREFIX in self.file:
            shutil.rmtree(Path(self.file).parent, ignore_errors=True)


@contextmanager
def share(function: Callable[[Any], Any]) -> Iterator[SharedFunction]:
    """Share a function with other processes of this machine within the block."""
    arrays: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(function, protocol=5, buffer_callback=arrays.append)
    with _unnamed_file() if _proc_fd_is_readable() else _named_file() as (file, name):
        spans = []
        contents: list[Buffer] = [pickled, *(array.raw() for array in arrays)]
        for content in contents:
            begin = file.tell()
            file.write(content)
            spans.append((begin, file.tell()))
            file.write(bytes(-file.tell() % ALIGNMENT))
        file.flush()
        yield SharedFunction(name, tuple(spans), os.getcwd(), next(_numbers))


def _proc_fd_is_readable() -> bool:
    """Whether other processes can open this one's files through /proc; not if it dropped privileges."""
    try:
        return Path("/proc/self/fd").stat().st_uid == os.geteuid()
    except (OSError, AttributeError):
        return False


@contextmanager
def _unnamed_file() -> Iterator[tuple[IO[bytes], str]]:
    """An unlinked file, which the system removes with the last process that has it open."""
    with tempfile.TemporaryFile(prefix=PREFIX) as file:
        yield file, f"/proc/{os.getpid()}/fd/{file.fileno()}"


@contextmanager
def _named_file() -> Iterator[tuple[IO[bytes], str]]:
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "function"
        with path.open("wb") as file:
            yield file, str(path)
