"""A function with all that it carries, handed to many processes: its arrays lie in one file that all map to memory."""

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

ALIGNED = 64  # bytes, as compiled loops like arrays
PREFIX = "releaf-shared-"
_numbers = count()


@dataclass(frozen=True, slots=True)
class Shared:
    """What a process needs to have the function: where it lies, itself without its arrays, and then these."""

    file: str
    spans: tuple[tuple[int, int], ...]
    folder: str  # in which the program works now
    number: int  # of all that the program has shared, since names of files come again

    def load(self) -> Callable[[Any], Any]:
        """The function, in the program's folder. What a process writes to an array is its own."""
        with suppress(OSError):  # it may be gone
            os.chdir(self.folder)
        with Path(self.file).open("rb") as file:
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        pickled, *arrays = (mapped[begin:end] for begin, end in self.spans)
        function: Callable[[Any], Any] = pickle.loads(pickled, buffers=arrays)
        return function

    def remove(self) -> None:
        """Leave nothing behind of a program that is gone; a file without a name has gone with it."""
        if PREFIX in self.file:
            shutil.rmtree(Path(self.file).parent, ignore_errors=True)


@contextmanager
def shared(function: Callable[[Any], Any]) -> Iterator[Shared]:
    """Lay out a function for other processes of this machine, as long as the block lasts."""
    arrays: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(function, protocol=5, buffer_callback=arrays.append)
    with _nameless_file() if _others_can_open() else _named_file() as (file, name):
        spans = []
        contents: list[Buffer] = [pickled, *(array.raw() for array in arrays)]
        for content in contents:
            begin = file.tell()
            file.write(content)
            spans.append((begin, file.tell()))
            file.write(bytes(-file.tell() % ALIGNED))
        file.flush()
        yield Shared(name, tuple(spans), os.getcwd(), next(_numbers))


def _others_can_open() -> bool:
    """Whether processes of the same user can open what this one has open; Linux denies it where rights were dropped."""
    try:
        return Path("/proc/self/fd").stat().st_uid == os.geteuid()
    except (OSError, AttributeError):
        return False


@contextmanager
def _nameless_file() -> Iterator[tuple[IO[bytes], str]]:
    """A file that is gone with the last process that has it open, whatever ends them."""
    with tempfile.TemporaryFile(prefix=PREFIX) as file:
        yield file, f"/proc/{os.getpid()}/fd/{file.fileno()}"


@contextmanager
def _named_file() -> Iterator[tuple[IO[bytes], str]]:
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "function"
        with path.open("wb") as file:
            yield file, str(path)
