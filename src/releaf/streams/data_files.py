"""Data files outside the package: search path, download with checksum, and reading."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from releaf.atomic_file import replace_file

DownloadProgress = Callable[[int, int], None]  # bytes done, bytes in total (0 if unknown)
_CHUNK = 1 << 20
_READ_TIMEOUT = 30  # seconds without data


class DataError(RuntimeError):
    """A data file is missing and could not be downloaded, or has the wrong content."""


class UnusableRowError(ValueError):
    """A row of a file can't be used, and ``skip_bad`` was not set; the message names the file and the row."""


def cache_folder() -> Path:
    """Folder of downloads: ``$RELEAF_CACHE``, or ``releaf`` in the user's cache folder."""
    if os.environ.get("RELEAF_CACHE"):
        return Path(os.environ["RELEAF_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "releaf"


def require_pyarrow(path: str | os.PathLike[str]) -> None:
    """Raise an ImportError with the install command if pyarrow is missing."""
    if find_spec("pyarrow") is None:
        raise ImportError(f'{path} needs pyarrow to be read: pip install "releaf[tables]"', name="pyarrow")


@contextmanager
def errors_with_path(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert pyarrow's read errors to a ValueError that names the file, and says if it is of another format."""
    require_pyarrow(path)
    import pyarrow

    try:
        yield
    except FileNotFoundError:
        raise
    except IsADirectoryError:
        raise
    except (pyarrow.ArrowException, OSError) as error:
        suffix = Path(path).suffix
        kind, magic = ("a Parquet", b"PAR1") if suffix == ".parquet" else ("an Arrow", b"ARROW1")
        if Path(path).is_file() and not _starts_with(path, magic):
            what = f"is not {kind} file, though its name ends in {suffix}: rename it to end in .csv if it is CSV"
            raise ValueError(f"{path} {what}") from None
        raise ValueError(f"{path} can't be read: {error}") from None


def _starts_with(path: str | os.PathLike[str], magic: bytes) -> bool:
    with open(path, "rb") as file:
        return file.read(len(magic)) == magic


def find(name: str) -> Path | None:
    """Find a data file in ``$RELEAF_DATA`` (or ``../shared/data`` if unset), or in the cache."""
    given = os.environ.get("RELEAF_DATA")
    folders = [Path(given)] if given else [Path("..") / "shared" / "data"]
    for folder in (*folders, cache_folder()):
        if (folder / name).is_file():
            return folder / name
    return None


def file_digest(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(name: str, url: str, sha256: str, progress: DownloadProgress | None = None) -> Path:
    """Find a data file, or download it to the cache; verify its checksum in both cases.

    Raises
    ------
    DataError
        If the download fails, with instructions, or if the checksum is wrong.
    """
    path = find(name)
    if path is None:
        path = cache_folder() / name
        _download(url, path, sha256, progress)
    elif file_digest(path) != sha256:
        raise DataError(f"{path} has the wrong content: its sha256 is not {sha256}; remove it and try again")
    return path


def _download(url: str, path: Path, sha256: str, progress: DownloadProgress | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    try:
        with replace_file(path) as file:
            for chunk in _chunks(url, progress):
                digest.update(chunk)
                file.write(chunk)
            if digest.hexdigest() != sha256:
                raise DataError(f"{url} returned the wrong content (its sha256 is {digest.hexdigest()})")
    except (OSError, urllib.error.URLError) as error:
        raise DataError(
            f"{path.name} could not be downloaded from {url} ({error}). "
            f"Download it on a machine with network access, put it in a folder, and set RELEAF_DATA to that folder"
        ) from error


def _chunks(url: str, progress: DownloadProgress | None) -> Iterator[bytes]:
    if not url.startswith(("https://", "http://")):
        raise DataError(f"{url} is not an http(s) URL")
    with urllib.request.urlopen(url, timeout=_READ_TIMEOUT) as answer:  # noqa: S310 - checked above
        total, so_far = int(answer.headers.get("Content-Length") or 0), 0
        while chunk := answer.read(_CHUNK):
            so_far += len(chunk)
            if progress is not None:
                progress(so_far, total)
            yield chunk


GZIP = b"\x1f\x8b"
# First bytes of files that are no UTF-8 text, what they are, and what to do.
_MAGIC = (
    (b"PAR1", "a Parquet file: rename it to end in .parquet"),
    (b"ARROW1", "an Arrow file: rename it to end in .arrow"),
    (b"FEA1", "an old Feather file: write it again as Parquet"),
    (GZIP, "compressed with gzip: rename it to end in .gz"),
    (b"PK\x03\x04", "a spreadsheet or a zip archive: export it as CSV, or unpack it"),
    (b"\xd0\xcf\x11\xe0", "a spreadsheet: export it as CSV"),
    (b"\xff\xfe", "UTF-16 text: save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text: save it as UTF-8"),
)


class TextFile(io.TextIOWrapper):
    """UTF-8 text, whose errors name the file."""

    def __init__(self, binary: Any, source: str) -> None:
        super().__init__(binary, encoding="utf-8-sig", newline="")
        self._source = source

    def __next__(self) -> str:  # type: ignore[override]
        return self._checked(super().__next__)

    def readline(self, size: int = -1) -> str:  # type: ignore[override]
        return self._checked(super().readline, size)

    def read(self, size: int | None = -1) -> str:
        return self._checked(super().read, size)

    def _checked(self, read: Callable[..., str], *arguments: Any) -> str:
        try:
            return read(*arguments)
        except UnicodeDecodeError as error:
            byte = f"0x{error.object[error.start]:02x}"
            how = f"iconv -f latin1 -t utf-8 {self._source}"
            raise ValueError(
                f"{self._source} is not UTF-8 text: it has the byte {byte}. Save it as UTF-8, or convert it: {how}"
            ) from None
        except (zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{self._source} is a damaged gzip file: {error}") from None


def open_text(path: str | os.PathLike[str]) -> TextFile:
    """Open a text file, gzipped or not, for reading."""
    is_gzip = str(path).endswith(".gz")
    if is_gzip and os.path.getsize(path) and not _starts_with(path, GZIP):
        raise ValueError(f"{path} is not compressed with gzip, though its name ends in .gz: rename it")
    binary = gzip.open(path, "rb") if is_gzip else open(path, "rb")  # noqa: SIM115 - the text closes it
    try:
        return text_of(binary, str(path))
    except BaseException:
        binary.close()
        raise


def text_of(binary: Any, source: str) -> TextFile:
    """The text of an open binary file, by its name in messages; raises if it is obviously none."""
    try:
        head = binary.peek(8)[:8] if hasattr(binary, "peek") else b""
    except (EOFError, zlib.error):
        head = b""  # a damaged archive, as reading will tell
    for magic, what in _MAGIC:
        if head.startswith(magic):
            raise ValueError(f"{source} is {what}")
    return TextFile(binary, source)


def min_max_scale(columns: Any, by: Any = None) -> Any:
    """Scale columns to [0, 1] by the minimum and maximum of ``by``, or of themselves; a constant column becomes 0.

    Values beyond are clipped.
    """
    known = columns if by is None else by
    low, high = known.min(axis=0), known.max(axis=0)
    return np.clip((columns - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
