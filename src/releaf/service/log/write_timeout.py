"""Write time-out: requests get an answer in time although a commit goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from releaf.service.errors import ApiError, service_unavailable


@contextmanager
def write_timeout(seconds: float, on_timeout: Callable[[], None]) -> Iterator[None]:
    """Call ``on_timeout`` if the block takes longer than this; the block itself runs to its end.

    A commit is never cancelled: its outcome would be unknown.
    """
    timer = asyncio.get_running_loop().call_later(seconds, on_timeout)
    try:
        yield
    finally:
        timer.cancel()


def commit_timed_out() -> ApiError:
    """The answer to requests whose commit takes too long."""
    return service_unavailable("the commit timed out; its outcome is unknown: retry with the same idempotency key")
