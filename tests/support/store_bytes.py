"""All that a store holds, byte by byte: what a search after an erasure has to look at."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

TABLES = ("meta", "experiments", "pages", "rewards", "snapshots", "keys", "changes", "pages_set_aside")


async def rows(address: str) -> Iterator[Any]:
    """All values of all tables of a store."""
    if address.startswith("postgresql"):
        import asyncpg

        connection = await asyncpg.connect(address, server_settings={"search_path": "releaf"})
        found = [await connection.fetch(f"SELECT * FROM {table}") for table in TABLES]
        await connection.close()
        return (value for table in found for row in table for value in row)
    import apsw

    with closing(apsw.Connection(address)) as file:
        found = [list(file.execute(f"SELECT * FROM {table}")) for table in TABLES]
    return (value for table in found for row in table for value in row)


def opened(content: bytes) -> Iterator[bytes]:
    """Content, and what it holds if it is compressed."""
    yield content
    try:
        yield zlib.decompress(content)
    except zlib.error:
        return


def forms_of(value: float | str) -> list[bytes]:
    """The bytes of a value in MessagePack, in a learner's arrays, rounded to a float32, and as text."""
    if isinstance(value, str):
        return [value.encode()]
    rounded = struct.unpack("<f", struct.pack("<f", value))[0]
    numbers = [struct.pack(form, number) for form in ("<d", ">d", "<f", ">f") for number in (value, rounded)]
    return [*numbers, repr(value).encode()]


async def find_in_store(address: str, *values: float | str) -> set[float | str]:
    """Those of the values that are anywhere in the tables of a store or, of SQLite, in its files."""
    contents = [value if isinstance(value, bytes) else str(value).encode() for value in await rows(address)]
    contents = [part for content in contents for part in opened(content)]
    if "://" not in address:
        path = Path(address)
        contents += [file.read_bytes() for file in path.parent.rglob(f"{path.name}*") if file.is_file()]
    return {value for value in values if any(form in content for form in forms_of(value) for content in contents)}
