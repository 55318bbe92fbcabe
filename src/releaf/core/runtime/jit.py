"""Compile kernels once: kept on disk where that is possible, safe when many processes start together.

Numba's own cache keeps one index per function that concurrent processes overwrite, and notices only changes
of the file a kernel stands in. Here every compiled kernel has a file of its own, named after a digest of
its signature, the processor and *all* sources of ``releaf.core`` and of the folder it stands in, and appears
under that name complete or not at all. Where no folder can be written, kernels are compiled anew in each process.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numba
from numba.core.caching import FunctionCache

Function = TypeVar("Function", bound=Callable[..., Any])

_CORE = Path(__file__).parents[1]
# No NaN reaches a kernel and no kernel divides by zero, so numpy's error model (no checks) is safe. A kernel lets other
# threads run meanwhile; each learner has a lock that keeps them out of its own arrays.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}


@cache
def _digest_of_sources(folder: Path) -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted({*_CORE.rglob("*.py"), *folder.glob("*.py")}):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_DIGEST = hashlib.sha256().digest_size
_MONTH = 30 * 24 * 3600


class _KeyedFiles:
    """One file for each compiled signature of a function; there is no index to fight over.

    A file is the SHA-256 of the rest, then the pickled machine code. One that was damaged is as good as none, and those
    of other sources are removed when they have not been used for a month.
    """

    def __init__(self, folder: str, name: str, sources: str) -> None:
        self._folder = Path(folder)
        self._name = name
        self._sources = sources

    def _path(self, key: tuple[Any, ...]) -> Path:
        text = f"{key[0]} {key[1]} {self._sources}"  # signature, processor
        return self._folder / f"{self._name}.{hashlib.sha256(text.encode()).hexdigest()[:20]}.nbc"

    def load(self, key: tuple[Any, ...]) -> Any:
        path = self._path(key)
        try:
            content = path.read_bytes()
            if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
                return None
            with contextlib.suppress(OSError):
                os.utime(path)
            return pickle.loads(content[_DIGEST:])
        except Exception:  # whatever is wrong with the file, the kernel is compiled anew
            return None

    def save(self, key: tuple[Any, ...], data: Any) -> None:
        path = self._path(key)
        content = pickle.dumps(data)
        with contextlib.suppress(OSError):  # a full or read-only disk costs speed at the next start, nothing else
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(temporary, path)
            self._remove_unused()

    def _remove_unused(self) -> None:
        function = self._name.rpartition("-")[0]  # without the line on which it stands
        for path in self._folder.glob(f"{function}-*.nbc"):
            if time.time() - path.stat().st_mtime > _MONTH:
                path.unlink()


class _Cache(FunctionCache):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        sources = _digest_of_sources(Path(function.__code__.co_filename).parent)
        self._cache_file = _KeyedFiles(self._cache_path, self._impl.filename_base, sources)


class Kept(NamedTuple):
    """Compiled kernels on disk."""

    folder: Path
    compiled: int
    writable: bool


def kept_kernels() -> Kept:
    """Where compiled kernels are kept, how many there are, and whether more can be."""
    try:
        folder = Path(FunctionCache(kept_kernels)._cache_path)
    except RuntimeError:  # Numba finds no folder to write to
        return Kept(_CORE, 0, False)
    count = sum(1 for _ in _CORE.rglob("*.nbc"))
    if _CORE not in folder.parents:
        count += sum(1 for _ in folder.parent.rglob("*.nbc"))
    return Kept(folder, count, os.access(folder, os.W_OK))


def door(function: Function) -> Function:
    """Compile a function that Python calls; the machine code is kept on disk."""
    compiled = numba.njit(**_OPTIONS)(function)
    # Numba finds no folder to write to, or a later Numba works otherwise: go on without
    with contextlib.suppress(RuntimeError, AttributeError, TypeError):
        compiled._cache = _Cache(function)
    return compiled  # type: ignore[no-any-return]


def inner(function: Function) -> Function:
    """Compile a function that only kernels call; it is merged into each of them."""
    return numba.njit(**_OPTIONS, forceinline=True)(function)  # type: ignore[no-any-return]


def outlined(function: Function) -> Function:
    """Compile a function that kernels call rarely; it stays a call, to keep the hot path short."""
    return numba.njit(**_OPTIONS)(function)  # type: ignore[no-any-return]
