"""State file format: plain arrays behind a JSON header, with a checksum and atomic replacement.

Layout: the magic line, the SHA-256 of everything after it, the length of the header, the header (JSON, with the
name, type, shape and offset of each array), the arrays, each aligned to 64 bytes. The format contains no
pickle, so loading a state never runs code.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from releaf.arrays import Array

MAGIC = b"releaf-state\n"
FORMAT = 1
_ALIGN = 64
_DIGEST = hashlib.sha256().digest_size
_START = len(MAGIC) + _DIGEST + 8
_DTYPES = {"<i8", "<i4", "<u8", "<f4", "<f8", "|u1", "|b1"}


class StateError(ValueError):
    """The file or bytes are not a complete, unaltered learner of a version that this package can read."""


def to_bytes(header: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    """Serialize a state to the bytes that ``write`` writes to a file."""
    return b"".join(_pieces(header, arrays))


def from_bytes(content: bytes, name: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Parse the header and the arrays of a state; a :class:`StateError` with this name where it is damaged."""
    if not content.startswith(MAGIC):
        raise StateError(f"{name} is not a releaf state file: it should begin with {MAGIC.decode().strip()!r}")
    if len(content) < _START:
        raise StateError(f"{name} is truncated: {len(content)} bytes are fewer than its header needs")
    found, body = content[len(MAGIC) : len(MAGIC) + _DIGEST], memoryview(content)[len(MAGIC) + _DIGEST :]
    if hashlib.sha256(body).digest() != found:
        raise StateError(f"{name} is truncated or was altered: its checksum does not match; restore it from a copy")
    try:
        header = json.loads(bytes(body[8 : 8 + int.from_bytes(body[:8], "little")]))
        if header["format"] == FORMAT:
            views = {array: _view(body, place) for array, place in header.pop("arrays").items()}
            if sum(view.nbytes for view in views.values()) > len(body):
                raise StateError(f"{name} has a header that no releaf writes: its arrays overlap")
            return header, {array: view.copy() for array, view in views.items()}
    except StateError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StateError(f"{name} has a header that no releaf writes: {error!r}") from error
    raise StateError(
        f"{name} has state format {header['format']}, this version of releaf reads format {FORMAT}: "
        f"load it with releaf {header.get('version', 'of that time')} or a version that knows both"
    )


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Write a state to a temporary file beside ``path``, then rename it atomically.

    A reader of ``path`` sees the old file or the new one, also after a crash.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder: expected the name of a file")
    pieces = _pieces(header, arrays)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(target.parent)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read the header and the arrays of a state file; a :class:`StateError` where it is damaged."""
    return from_bytes(Path(path).read_bytes(), str(path))


def _pieces(header: dict[str, Any], arrays: dict[str, Array]) -> list[bytes]:
    """Serialize a state as a list of chunks; joined, they would take twice the memory."""
    digest, body = hashlib.sha256(), _body(header, arrays)
    for piece in body:
        digest.update(piece)
    return [MAGIC, digest.digest(), *body]


def _body(header: dict[str, Any], arrays: dict[str, Array]) -> list[bytes]:
    """Chunks after the checksum."""
    places: dict[str, Any] = {}
    pieces: list[bytes] = []
    offset = 0
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).tobytes()
        places[name] = {"dtype": array.dtype.str, "shape": array.shape, "offset": offset, "bytes": len(data)}
        pieces += [data, b"\0" * (-len(data) % _ALIGN)]
        offset += len(data) + -len(data) % _ALIGN
    text = json.dumps({**header, "format": FORMAT, "arrays": places}, sort_keys=True).encode()
    text += b" " * (-(_START + len(text)) % _ALIGN)
    return [len(text).to_bytes(8, "little"), text, *pieces]


def _view(body: memoryview, place: dict[str, Any]) -> Array:
    if place["dtype"] not in _DTYPES:
        raise StateError(f"array type {place['dtype']!r} is not one of {sorted(_DTYPES)}")
    begin = 8 + int.from_bytes(body[:8], "little") + place["offset"]
    flat = np.frombuffer(body[begin : begin + place["bytes"]], dtype=place["dtype"])
    return flat.reshape(place["shape"])


def _sync_folder(folder: Path) -> None:
    """Make the rename durable, on systems that can open a folder."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
