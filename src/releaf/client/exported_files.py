"""Files with the decisions of an experiment, written atomically."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from releaf.atomic_file import replace_file
from releaf.client.transports import Transport, each, settle

EXPORT_FORMATS = ("csv", "parquet", "ndjson")


def export_format(path: str | os.PathLike[str], wanted: str | None) -> str:
    name = wanted or Path(path).suffix.removeprefix(".").lower()
    if name not in EXPORT_FORMATS:
        raise ValueError(
            f"format must be one of {', '.join(EXPORT_FORMATS)}, given or as the file's ending, got {name!r}"
        )
    return name


def export_taker(path: str | os.PathLike[str]) -> Callable[[Transport, httpx.Response], Awaitable[None]]:
    """Make a function that writes a response to a file."""

    async def take(transport: Transport, response: httpx.Response) -> None:
        with replace_file(path) as file:
            async for part in each(transport.parts(response)):
                await settle(transport.call(file.write, part))

    return take
