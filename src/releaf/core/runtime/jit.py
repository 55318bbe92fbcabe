"""JIT compilation of kernels, with a cache on disk that concurrent processes can share.

Numba's own cache has one index per function, which concurrent processes overwrite, and it checks only the file that
defines a kernel for changes. This cache writes one file per compiled kernel. The file's name is a digest of the
signature, the processor and *all* sources of ``releaf.core`` and of the kernel's own folder; the file appears
under that name complete or not at all. Without a writable folder, each process compiles the kernels anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import tempfile
import time
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numba.core.caching import FunctionCache

from releaf.core.runtime import compile_notice

Function = TypeVar("Function", bound=Callable[..., Any])

# With NUMBA_DISABLE_JIT=1 kernels run as plain Python: under a debugger, with coverage, and with bounds checked.
IS_COMPILED = not numba.config.DISABLE_JIT
if IS_COMPILED:
    compile_notice.install()
_CORE = Path(__file__).parents[1]
# No NaN reaches a kernel and no kernel divides by zero, so numpy's error model (no checks) is safe. Kernels release the
# GIL; each learner has a lock that protects its own arrays.
# C code calls no kernel, so the wrapper for it, a twelfth of the compile time, is left out.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}


@cache
def _digest_of_sources(folders: frozenset[Path]) -> str:
    """Digest of all sources of ``releaf.core`` and of these folders."""
    digest = hashlib.sha256(numba.__version__.encode())
    paths = {path for folder in folders for path in folder.glob("*.py")}
    for path in sorted({*_CORE.rglob("*.py"), *paths}):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _folders_of(function: Any) -> frozenset[Path]:
    """Folders of the sources of a function and of the kernels in its closure."""
    plain = getattr(function, "py_func", function)
    if not isinstance(plain, FunctionType):
        return frozenset()
    inner = [_folders_of(cell.cell_contents) for cell in plain.__closure__ or ()]
    return frozenset({Path(plain.__code__.co_filename).parent}).union(*inner)


_DIGEST = hashlib.sha256().digest_size
_MONTH = 30 * 24 * 3600


class _KeyedFiles:
    """Cache with one file for each compiled signature of a function, and no shared index.

    A file holds the SHA-256 of the rest, then the pickled machine code. A damaged file counts as missing. Files of
    other sources are removed after a month without use.
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
        except Exception:  # a file that cannot be read is a cache miss
            return None

    def save(self, key: tuple[Any, ...], data: Any) -> None:
        path = self._path(key)
        content = pickle.dumps(data)
        with contextlib.suppress(OSError):  # without a cache file the next start compiles again
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(temporary, path)
            self._remove_unused()

    def _remove_unused(self) -> None:
        for path in self._folder.glob("*.nbc"):
            if time.time() - path.stat().st_mtime > _MONTH:
                path.unlink()


class _Cache(FunctionCache):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        sources = _digest_of_sources(_folders_of(function))
        self._cache_file = _KeyedFiles(self._cache_path, self._impl.filename_base, sources)

    def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        """Key without the values of closures: sources and cache name determine them."""
        return signature, codegen.magic_tuple()


class KernelCache(NamedTuple):
    """Location and size of the cache of compiled kernels."""

    folder: Path
    compiled: int
    writable: bool


def kernel_cache() -> KernelCache:
    """Describe the kernel cache: its folder, the number of compiled kernels, and whether the folder is writable."""
    try:
        folder = Path(FunctionCache(kernel_cache)._cache_path)
    except RuntimeError:  # Numba finds no folder to write to
        return KernelCache(_CORE, 0, False)
    count = sum(1 for _ in _CORE.rglob("*.nbc"))
    if _CORE not in folder.parents:
        count += sum(1 for _ in folder.parent.rglob("*.nbc"))
    return KernelCache(folder, count, os.access(folder, os.W_OK))


def entry_point(function: Function, *, cache_name: str | None = None) -> Function:
    """Compile a function that Python calls, and cache its machine code on disk.

    ``cache_name`` distinguishes functions that one factory makes.
    """
    if not IS_COMPILED:
        return _in_python(function)
    if cache_name is not None:
        function.__qualname__ = function.__name__ = cache_name
    compiled = numba.njit(**_OPTIONS)(function)
    # without a writable folder, or with a Numba of other internals, kernels are not cached
    with contextlib.suppress(RuntimeError, AttributeError, TypeError):
        compiled._cache = _Cache(function)
    return compiled  # type: ignore[no-any-return]


def _in_python(function: Function) -> Function:
    """Run a kernel in plain Python as if compiled: integers wrap around silently, results are Python numbers."""

    @wraps(function)
    def called(*arguments: Any) -> Any:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            result = function(*arguments)
        return tuple(map(_plain, result)) if isinstance(result, tuple) else _plain(result)

    return called  # type: ignore[return-value]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def inlined(function: Function) -> Function:
    """Compile a function that only kernels call, and inline it into each of them."""
    if not IS_COMPILED:
        return function
    return numba.njit(**_OPTIONS, forceinline=True)(function)  # type: ignore[no-any-return]


def outlined(function: Function) -> Function:
    """Compile a function that kernels call rarely, without inlining, to keep the hot path short."""
    if not IS_COMPILED:
        return function
    return numba.njit(**_OPTIONS)(function)  # type: ignore[no-any-return]
