"""Sequences of calls, whose results a client yields while its caller iterates over them."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from releaf.client.base_client import BaseClient
from releaf.client.call import NDJSON, ApiCall, get
from releaf.client.request_encoding import split_by_size
from releaf.client.response_decoding import has_unavailable_line, lines_reader
from releaf.client.transports import BLOCKING

Info = dict[str, Any]


async def send_lines(
    client: BaseClient,
    path: str,
    source: Any,
    chunk: int,
    line: Callable[[Any], bytes],
    read: Callable[[Info], Any],
    timeout: float | None,
) -> AsyncIterator[Any]:
    """Send items of a source as lines, in chunks; a retry sends the same chunk, with the same idempotency keys."""
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, got {chunk}")
    items = aiter(source) if isinstance(source, AsyncIterable) else iter(source)
    while taken := await _take(client, items, chunk):
        for lines in split_by_size(map(line, taken)):
            call = ApiCall(
                method="POST",
                path=path,
                read=lines_reader(read, len(lines)),
                body=b"\n".join(lines) + b"\n",
                content_type=NDJSON,
                is_incomplete=has_unavailable_line,
                timeout=timeout,
            )
            for result in await client._send(call):
                yield result


async def _take(client: BaseClient, items: Iterator[Any] | AsyncIterator[Any], most: int) -> list[Any]:
    if not isinstance(items, AsyncIterator):
        return list(islice(items, most))
    if client._transport is BLOCKING:
        raise TypeError(f"an asynchronous source needs an AsyncClient, got {items!r}")
    taken = []
    async for item in items:
        taken.append(item)
        if len(taken) == most:
            break
    return taken


async def send_pages(client: BaseClient, path: str, filters: Mapping[str, Any], field: str) -> AsyncIterator[Info]:
    """Iterate over the entries of all pages of a list, which are in this field of each."""
    before = None
    while True:
        page = await client._send(get(path, **filters, before=before))
        for entry in page[field]:
            yield entry
        before = page["next"]
        if before is None:
            return
