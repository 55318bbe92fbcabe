"""A function with all that it carries, handed to many processes: its arrays lie in one file that all map to memory."""

from __future__ import annotations

import mmap
import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ALIGNED = 64  # bytes, as compiled loops like arrays


@dataclass(frozen=True, slots=True)
class Shared:
    """What a process needs to have the function: itself without its arrays, and where these lie in which file."""

    pickled: bytes
    file: str
    spans: tuple[tuple[int, int], ...]

    def load(self) -> Callable[[Any], Any]:
        """The function. What a process writes to an array is its own."""
        if not self.spans:
            return _function(self.pickled, [])
        with Path(self.file).open("rb") as file:
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        return _function(self.pickled, [mapped[begin:end] for begin, end in self.spans])


@contextmanager
def shared(function: Callable[[Any], Any]) -> Iterator[Shared]:
    """Lay out a function for other processes of this machine, as long as the block lasts."""
    arrays: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(function, protocol=5, buffer_callback=arrays.append)
    with tempfile.TemporaryDirectory(prefix="releaf-shared-", ignore_cleanup_errors=True) as folder:
        path, spans = Path(folder) / "arrays", []
        with path.open("wb") as file:
            for array in arrays:
                begin = file.tell()
                file.write(array.raw())
                spans.append((begin, file.tell()))
                file.write(bytes(-file.tell() % ALIGNED or ALIGNED))  # never an empty file, which can't be mapped
        yield Shared(pickled, str(path), tuple(spans))


def _function(pickled: bytes, arrays: list[memoryview]) -> Callable[[Any], Any]:
    function: Callable[[Any], Any] = pickle.loads(pickled, buffers=arrays)
    return function
