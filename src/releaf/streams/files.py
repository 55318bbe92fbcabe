"""Data files that are too large, or not ours, to carry in the package: found, or downloaded once and checked."""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

Progress = Callable[[int, int], None]  # bytes so far, and in all (0 when unknown)
_CHUNK = 1 << 20
_PATIENCE = 30  # seconds without a byte


class DataError(RuntimeError):
    """Data that is not here and could not be fetched, or is not what it should be."""


def cache_folder() -> Path:
    """Where downloads are kept: ``$RELEAF_CACHE``, or ``releaf`` in the user's cache folder."""
    if os.environ.get("RELEAF_CACHE"):
        return Path(os.environ["RELEAF_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "releaf"


@contextmanager
def named_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let what pyarrow can't read in a file be told with its path."""
    import pyarrow

    try:
        yield
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} can't be read: {error}") from None


def find(name: str) -> Path | None:
    """A data file in ``$RELEAF_DATA``, in ``../shared/data`` beside the working folder, or in the cache."""
    given = os.environ.get("RELEAF_DATA")
    folders = [Path(given)] if given else [Path("..") / "shared" / "data"]
    for folder in (*folders, cache_folder()):
        if (folder / name).is_file():
            return folder / name
    return None


def fetch(name: str, url: str, sha256: str, progress: Progress | None = None) -> Path:
    """The data file: found, or downloaded to the cache; its content is checked either way.

    Raises
    ------
    DataError
        When it can't be downloaded, with what to do, or when its content is not what it should be.
    """
    path = find(name)
    if path is None:
        path = cache_folder() / name
        _download(url, path, sha256, progress)
    elif _digest(path) != sha256:
        raise DataError(f"{path} is not the file that is meant: its sha256 is not {sha256}; remove it and try again")
    return path


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _download(url: str, path: Path, sha256: str, progress: Progress | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in _chunks(url, progress):
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != sha256:
            raise DataError(f"what {url} gave is not the file that is meant (its sha256 is {digest.hexdigest()})")
        os.replace(temporary, path)
    except (OSError, urllib.error.URLError) as error:
        raise DataError(
            f"{path.name} could not be downloaded from {url} ({error}). "
            f"Where there is a network, put it in a folder, and set RELEAF_DATA to that folder"
        ) from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def _chunks(url: str, progress: Progress | None) -> Iterator[bytes]:
    if not url.startswith(("https://", "http://")):
        raise DataError(f"{url} is no web address")
    with urllib.request.urlopen(url, timeout=_PATIENCE) as answer:  # noqa: S310 - checked above
        total, so_far = int(answer.headers.get("Content-Length") or 0), 0
        while chunk := answer.read(_CHUNK):
            so_far += len(chunk)
            if progress is not None:
                progress(so_far, total)
            yield chunk


def open_text(path: str | os.PathLike[str]) -> IO[str]:
    """A text file, gzipped or not, to be read."""
    if str(path).endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def scaled(columns: Any, by: Any = None) -> Any:
    """Columns scaled to [0, 1] by the minimum and maximum of those of ``by``, their own when None.

    Values beyond are cut off; a column that never varies is 0.
    """
    known = columns if by is None else by
    low, high = known.min(axis=0), known.max(axis=0)
    return np.clip((columns - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
