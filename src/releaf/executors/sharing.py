"""A function with all that it carries, handed to many processes: its arrays lie in one file that all map to memory."""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

ALIGNED = 64  # bytes, as compiled loops like arrays


@dataclass(frozen=True, slots=True)
class Shared:
    """What a process needs to have the function: where it lies, itself without its arrays, and then these."""

    file: str
    spans: tuple[tuple[int, int], ...]
    folder: str  # in which the program works now

    def load(self) -> Callable[[Any], Any]:
        """The function, in the program's folder. What a process writes to an array is its own."""
        with suppress(OSError):  # it may be gone
            os.chdir(self.folder)
        with Path(self.file).open("rb") as file:
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        pickled, *arrays = (mapped[begin:end] for begin, end in self.spans)
        function: Callable[[Any], Any] = pickle.loads(pickled, buffers=arrays)
        return function


@contextmanager
def shared(function: Callable[[Any], Any]) -> Iterator[Shared]:
    """Lay out a function for other processes of this machine, as long as the block lasts."""
    arrays: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(function, protocol=5, buffer_callback=arrays.append)
    with tempfile.TemporaryDirectory(prefix="releaf-shared-", ignore_cleanup_errors=True) as folder:
        path, spans = Path(folder) / "function", []
        with path.open("wb") as file:
            contents: list[Buffer] = [pickled, *(array.raw() for array in arrays)]
            for content in contents:
                begin = file.tell()
                file.write(content)
                spans.append((begin, file.tell()))
                file.write(bytes(-file.tell() % ALIGNED))
        yield Shared(str(path), tuple(spans), os.getcwd())
