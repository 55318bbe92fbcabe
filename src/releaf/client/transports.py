"""Blocking and asynchronous HTTP with one interface, so that the clients are written once, with coroutines.

Coroutines over the :data:`BLOCKING` transport never suspend: :func:`run` and :func:`iterate` need no event loop.
"""

from __future__ import annotations

import operator
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager
from inspect import isawaitable
from typing import Any, NamedTuple, TypeVar

import anyio
import httpx
from httpx import Response

from releaf.client.deadlines import async_deadline, blocking_deadline, bounded_client

T = TypeVar("T")


class Transport(NamedTuple):
    """Functions of httpx and of Python that either return their result or an awaitable of it."""

    client: Callable[..., Any]
    read: Callable[[Response], Any]
    close: Callable[[Response], Any]
    lines: Callable[[Response], Any]
    parts: Callable[[Response], Any]
    sleep: Callable[[float], Any]
    call: Callable[..., Any]  # a function that may wait for the disk
    deadline: Callable[[float | None], AbstractContextManager[None]]  # bounds a block, in seconds


async def _close_shielded(response: Response) -> None:
    with anyio.CancelScope(shield=True):
        await response.aclose()


BLOCKING = Transport(
    bounded_client,
    Response.read,
    Response.close,
    Response.iter_lines,
    Response.iter_bytes,
    time.sleep,
    operator.call,
    blocking_deadline,
)
ASYNC = Transport(
    httpx.AsyncClient,
    Response.aread,
    _close_shielded,
    Response.aiter_lines,
    Response.aiter_bytes,
    anyio.sleep,
    anyio.to_thread.run_sync,
    async_deadline,
)


async def settle(result: Any) -> Any:
    return await result if isawaitable(result) else result


async def each(items: Any) -> AsyncIterator[Any]:
    if isinstance(items, AsyncIterator):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise RuntimeError("a coroutine over a blocking transport must not suspend")


def iterate(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Iterate over an asynchronous generator that never suspends."""
    try:
        while True:
            try:
                item = run(items.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        run(items.aclose())
