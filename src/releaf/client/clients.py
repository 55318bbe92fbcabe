"""The clients: `Client` and `AsyncClient` share everything but sending and waiting."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any, Self, TypeVar

import anyio
import httpx

from releaf._version import __version__
from releaf.client.api_methods import ApiMethods
from releaf.client.call import ApiCall, CallSequence, TakeItems
from releaf.client.event_stream import EventStreamParser
from releaf.client.request_encoding import experiment_path, export_format
from releaf.client.responses import Event
from releaf.client.retries import RetrySchedule

T = TypeVar("T")
DEFAULT_URL = "http://127.0.0.1:8000"
FEED_TIMEOUT = 45.0  # seconds without data: the service sends a keep-alive every 15
EXPORT_TIMEOUT = 60.0  # seconds without data, while the service reads a long log
RECONNECT_PAUSE = 0.5  # seconds


class _BaseClient(ApiMethods):
    """Address, key and time-outs of a client."""

    def __init__(
        self, url: str | None = None, *, key: str | None = None, timeout: float = 15.0, retry_for: float = 30.0
    ) -> None:
        self.url = _validate_url(url or os.environ.get("RELEAF_URL") or DEFAULT_URL)
        self.timeout, self.retry_for = timeout, retry_for
        headers = {"User-Agent": f"releaf/{__version__}"}
        self._options: dict[str, Any] = {
            "base_url": self.url,
            "headers": headers | _authorization(key or os.environ.get("RELEAF_KEY")),
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _retry_schedule(self, call: ApiCall[Any]) -> RetrySchedule:
        return RetrySchedule(call, timeout=self.timeout, retry_for=self.retry_for)


class Client(_BaseClient):
    """A thread-safe client of a decision service.

    If the connection breaks or the service is unavailable, the client retries with growing pauses for ``retry_for``
    seconds. Retries are idempotent: nothing happens twice. Changes of an experiment are retried only if they can't have
    arrived. A rejected request raises a :class:`ServiceError`.

    Parameters
    ----------
    url
        URL of the service; by default the environment variable ``RELEAF_URL``, or ``http://127.0.0.1:8000``.
    key
        API key; by default the environment variable ``RELEAF_KEY``.
    timeout
        Time-out of one attempt, in seconds.
    retry_for
        Seconds for which a call is retried; 0 for a single attempt.

    Examples
    --------
    .. code-block:: python

        with Client("http://127.0.0.1:8000") as client:
            decision = client.decide("triage", {"age": 31, "pulse": 80})
            if decision.wants_reward:
                client.reward("triage", decision, 1.0)
    """

    def __init__(
        self, url: str | None = None, *, key: str | None = None, timeout: float = 15.0, retry_for: float = 30.0
    ) -> None:
        super().__init__(url, key=key, timeout=timeout, retry_for=retry_for)
        self._http = httpx.Client(**self._options)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def export(self, experiment: str, path: str | os.PathLike[str], *, format: str | None = None) -> Path:  # noqa: A002
        """Export all decisions to a file, atomically, as "csv", "parquet" or "ndjson"; by default by its extension."""
        call = _export(experiment, export_format(path, format))
        with _atomic_file(path) as file:

            def write(response: httpx.Response) -> None:
                _truncate(file)
                for part in response.iter_bytes():
                    file.write(part)

            self._exchange(call, write)
        return Path(path)

    def feed(self, experiment: str) -> Iterator[Event]:
        """Iterate over the events of an experiment as they happen, without end; reconnects if the connection breaks."""
        call, again = _feed(experiment), False
        while True:
            response, parser = self._exchange(call, _leave_open), EventStreamParser()
            try:
                if again:
                    yield Event("reconnected", {})
                with suppress(httpx.TransportError):
                    for line in response.iter_lines():
                        if event := parser.feed_line(line):
                            yield event
            finally:
                response.close()
            again = True
            time.sleep(RECONNECT_PAUSE)

    def _send(self, call: ApiCall[T]) -> T:
        return call.read(self._exchange(call))

    def _iterate(self, calls: CallSequence[T]) -> Iterator[T]:
        answer: Any = None
        while True:
            try:
                step = calls.send(answer)
            except StopIteration:
                return
            if isinstance(step, TakeItems):
                answer = list(islice(_require_sync(step.source), step.most))
            else:
                answer = self._send(step)
                yield from answer.items

    def _exchange(
        self, call: ApiCall[Any], take: Callable[[httpx.Response], Any] = httpx.Response.read
    ) -> httpx.Response:
        """Send a call, with retries; ``take`` reads the content of a successful response."""
        schedule = self._retry_schedule(call)
        while True:
            try:
                response = self._once(call.request(self._http, schedule.timeout), take)
            except httpx.TransportError as error:
                pause: float | None = schedule.pause_after_failure(error)
            else:
                pause = schedule.pause_after_response(response)
            if pause is None:
                return response
            time.sleep(pause)

    def _once(self, request: httpx.Request, take: Callable[[httpx.Response], Any]) -> httpx.Response:
        response = self._http.send(request, stream=True)
        try:
            (take if response.is_success else httpx.Response.read)(response)
        except BaseException:
            response.close()
            raise
        return response


class AsyncClient(_BaseClient):
    """A client for asyncio, with the parameters and methods of :class:`Client`.

    Its methods are coroutines, and its iterators are asynchronous.

    Examples
    --------
    .. code-block:: python

        async with AsyncClient() as client:
            decision = await client.decide("triage", {"age": 31, "pulse": 80})
            async for answer in client.decide_stream("triage", contexts):
                ...
    """

    def __init__(
        self, url: str | None = None, *, key: str | None = None, timeout: float = 15.0, retry_for: float = 30.0
    ) -> None:
        super().__init__(url, key=key, timeout=timeout, retry_for=retry_for)
        self._http = httpx.AsyncClient(**self._options)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self.close()

    async def export(self, experiment: str, path: str | os.PathLike[str], *, format: str | None = None) -> Path:  # noqa: A002
        """As :meth:`Client.export`."""
        call = _export(experiment, export_format(path, format))
        with _atomic_file(path) as file:

            async def write(response: httpx.Response) -> None:
                _truncate(file)
                async for part in response.aiter_bytes():
                    await anyio.to_thread.run_sync(file.write, part)

            await self._exchange(call, write)
        return Path(path)

    async def feed(self, experiment: str) -> AsyncIterator[Event]:
        """As :meth:`Client.feed`."""
        call, again = _feed(experiment), False
        while True:
            response, parser = await self._exchange(call, _leave_open_async), EventStreamParser()
            try:
                if again:
                    yield Event("reconnected", {})
                with suppress(httpx.TransportError):
                    async for line in response.aiter_lines():
                        if event := parser.feed_line(line):
                            yield event
            finally:
                await response.aclose()
            again = True
            await anyio.sleep(RECONNECT_PAUSE)

    async def _send(self, call: ApiCall[T]) -> T:
        return call.read(await self._exchange(call))

    async def _iterate(self, calls: CallSequence[T]) -> AsyncIterator[T]:
        answer: Any = None
        while True:
            try:
                step = calls.send(answer)
            except StopIteration:
                return
            if isinstance(step, TakeItems):
                answer = await _take_items(step)
            else:
                answer = await self._send(step)
                for item in answer.items:
                    yield item

    async def _exchange(
        self, call: ApiCall[Any], take: Callable[[httpx.Response], Awaitable[Any]] = httpx.Response.aread
    ) -> httpx.Response:
        schedule = self._retry_schedule(call)
        while True:
            try:
                response = await self._once(call.request(self._http, schedule.timeout), take)
            except httpx.TransportError as error:
                pause: float | None = schedule.pause_after_failure(error)
            else:
                pause = schedule.pause_after_response(response)
            if pause is None:
                return response
            await anyio.sleep(pause)

    async def _once(self, request: httpx.Request, take: Callable[[httpx.Response], Awaitable[Any]]) -> httpx.Response:
        response = await self._http.send(request, stream=True)
        try:
            await (take if response.is_success else httpx.Response.aread)(response)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await response.aclose()
            raise
        return response


# --- settings -----------------------------------------------------------------------------------------------


def _validate_url(url: str) -> str:
    if "@" in url:
        raise ValueError("url must not contain a user or a password: pass an API key as key=")
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        parts = httpx.URL()
    if parts.scheme not in ("http", "https") or not parts.host:
        raise ValueError(f"url must start with http:// or https:// and have a host, got {url!r}")
    return url.rstrip("/")


def _authorization(key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    if not (key.isascii() and key.isprintable()) or " " in key or not key:
        raise ValueError("key must consist of printable ASCII characters without spaces")
    return {"Authorization": f"Bearer {key}"}


# --- files, feeds and sources -------------------------------------------------------------------------------


def _export(experiment: str, kind: str) -> ApiCall[None]:
    path = experiment_path(experiment, "export")
    return ApiCall(method="GET", path=path, read=_read_nothing, params={"format": kind}, read_timeout=EXPORT_TIMEOUT)


def _feed(experiment: str) -> ApiCall[None]:
    return ApiCall(
        method="GET", path=experiment_path(experiment, "feed"), read=_read_nothing, read_timeout=FEED_TIMEOUT
    )


def _read_nothing(response: httpx.Response) -> None:
    """The result of a call whose content was read as a stream."""


def _leave_open(response: httpx.Response) -> None:
    """Leave the content unread: the feed reads it line by line."""


async def _leave_open_async(response: httpx.Response) -> None:
    """Leave the content unread: the feed reads it line by line."""


@contextmanager
def _atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces ``path`` when it is complete."""
    target = Path(path)
    number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(number, "w+b") as file:
            yield file
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _truncate(file: IO[bytes]) -> None:
    """Start again: a failed attempt may have written a part."""
    file.seek(0)
    file.truncate()


def _require_sync(source: Iterator[Any] | AsyncIterator[Any]) -> Iterator[Any]:
    if isinstance(source, AsyncIterator):
        raise TypeError(f"an asynchronous source needs an AsyncClient, got {source!r}")
    return source


async def _take_items(step: TakeItems) -> list[Any]:
    if not isinstance(step.source, AsyncIterator):
        return list(islice(step.source, step.most))
    taken: list[Any] = []
    while len(taken) < step.most:
        try:
            taken.append(await anext(step.source))
        except StopAsyncIteration:
            break
    return taken
