"""The two clients: what is left when all but sending and waiting is shared."""

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
from releaf.client.api_methods import Operations
from releaf.client.calls import Call, Events, Take, Walk, export_format, place
from releaf.client.responses import Event
from releaf.client.retries import Attempts

T = TypeVar("T")
HERE = "http://127.0.0.1:8000"
FEED_SILENCE = 45.0  # seconds without a sign of life, which a feed gives every 15
FILE_SILENCE = 60.0  # seconds that a long log may take to be read
RECONNECT_PAUSE = 0.5  # seconds


class _Settings(Operations):
    """Where the service is, who asks, and how long to wait."""

    def __init__(
        self, url: str | None = None, *, key: str | None = None, timeout: float = 15.0, retry_for: float = 30.0
    ) -> None:
        self.url = _address(url or os.environ.get("RELEAF_URL") or HERE)
        self.timeout, self.retry_for = timeout, retry_for
        headers = {"User-Agent": f"releaf/{__version__}"}
        self._options: dict[str, Any] = {
            "base_url": self.url,
            "headers": headers | _authorization(key or os.environ.get("RELEAF_KEY")),
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _attempts(self, call: Call[Any]) -> Attempts:
        return Attempts(call, timeout=self.timeout, retry_for=self.retry_for)


class Client(_Settings):
    """A client of a decision service, which threads may share.

    Calls that may be repeated, all but changes of an experiment, are tried again when the connection breaks or the
    service is busy, with growing pauses, for ``retry_for`` seconds. None of them happens twice by that. Changes are
    tried again only where they can't have arrived. What is refused raises a :class:`ServiceError`.

    Parameters
    ----------
    url
        Where the service is; by default the variable ``RELEAF_URL``, or ``http://127.0.0.1:8000``.
    key
        The API key; by default the variable ``RELEAF_KEY``.
    timeout
        Seconds that one attempt may wait for the service.
    retry_for
        Seconds after which a call is not tried again; 0 for a single attempt.

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
        """Write the log to a file, whole or not at all: "csv", "parquet" or "ndjson", by default as its name ends."""
        call = _export(experiment, export_format(path, format))
        with _replaced(path) as file:

            def keep(response: httpx.Response) -> None:
                _empty(file)
                for part in response.iter_bytes():
                    file.write(part)

            self._exchange(call, keep)
        return Path(path)

    def feed(self, experiment: str) -> Iterator[Event]:
        """What happens in an experiment, as it happens, without end. Connects anew when the connection is lost."""
        call, again = _feed(experiment), False
        while True:
            response, events = self._exchange(call, _leave_open), Events()
            try:
                if again:
                    yield Event("reconnected", {})
                with suppress(httpx.TransportError):
                    for line in response.iter_lines():
                        if event := events.add(line):
                            yield event
            finally:
                response.close()
            again = True
            time.sleep(RECONNECT_PAUSE)

    def _send(self, call: Call[T]) -> T:
        return call.read(self._exchange(call))

    def _walk(self, walk: Walk[T]) -> Iterator[T]:
        answer: Any = None
        while True:
            try:
                step = walk.send(answer)
            except StopIteration:
                return
            if isinstance(step, Take):
                answer = list(islice(_not_async(step.source), step.most))
            else:
                answer = self._send(step)
                yield from answer.items

    def _exchange(self, call: Call[Any], take: Callable[[httpx.Response], Any] = httpx.Response.read) -> httpx.Response:
        """The answer of the service, its content taken; tried again as often as that makes sense."""
        attempts = self._attempts(call)
        while True:
            try:
                response = self._once(call.request(self._http, attempts.timeout), take)
            except httpx.TransportError as error:
                pause: float | None = attempts.failed(error)
            else:
                pause = attempts.answered(response)
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


class AsyncClient(_Settings):
    """The same for asyncio. Parameters and methods are those of :class:`Client`.

    What that returns is awaited here, and its iterators are asynchronous ones.

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
        with _replaced(path) as file:

            async def keep(response: httpx.Response) -> None:
                _empty(file)
                async for part in response.aiter_bytes():
                    await anyio.to_thread.run_sync(file.write, part)

            await self._exchange(call, keep)
        return Path(path)

    async def feed(self, experiment: str) -> AsyncIterator[Event]:
        """As :meth:`Client.feed`."""
        call, again = _feed(experiment), False
        while True:
            response, events = await self._exchange(call, _leave_open_async), Events()
            try:
                if again:
                    yield Event("reconnected", {})
                with suppress(httpx.TransportError):
                    async for line in response.aiter_lines():
                        if event := events.add(line):
                            yield event
            finally:
                await response.aclose()
            again = True
            await anyio.sleep(RECONNECT_PAUSE)

    async def _send(self, call: Call[T]) -> T:
        return call.read(await self._exchange(call))

    async def _walk(self, walk: Walk[T]) -> AsyncIterator[T]:
        answer: Any = None
        while True:
            try:
                step = walk.send(answer)
            except StopIteration:
                return
            if isinstance(step, Take):
                answer = await _taken(step)
            else:
                answer = await self._send(step)
                for item in answer.items:
                    yield item

    async def _exchange(
        self, call: Call[Any], take: Callable[[httpx.Response], Awaitable[Any]] = httpx.Response.aread
    ) -> httpx.Response:
        attempts = self._attempts(call)
        while True:
            try:
                response = await self._once(call.request(self._http, attempts.timeout), take)
            except httpx.TransportError as error:
                pause: float | None = attempts.failed(error)
            else:
                pause = attempts.answered(response)
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


def _address(url: str) -> str:
    if "@" in url:
        raise ValueError("url must not hold a user or a password; give an API key as key=")
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        parts = httpx.URL()
    if parts.scheme not in ("http", "https") or not parts.host:
        raise ValueError(f"url must begin with http:// or https:// and name a host, got {url!r}")
    return url.rstrip("/")


def _authorization(key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    if not (key.isascii() and key.isprintable()) or " " in key or not key:
        raise ValueError("key must consist of ASCII letters, digits and signs, without spaces or line ends")
    return {"Authorization": f"Bearer {key}"}


# --- files, feeds and sources -------------------------------------------------------------------------------


def _export(experiment: str, kind: str) -> Call[None]:
    path = place(experiment, "export")
    return Call(method="GET", path=path, read=_nothing, params={"format": kind}, silence=FILE_SILENCE)


def _feed(experiment: str) -> Call[None]:
    return Call(method="GET", path=place(experiment, "feed"), read=_nothing, silence=FEED_SILENCE)


def _nothing(response: httpx.Response) -> None:
    """What is read of an answer whose content was taken as it came."""


def _leave_open(response: httpx.Response) -> None:
    """The lines of a feed are read one by one, later."""


async def _leave_open_async(response: httpx.Response) -> None:
    """The lines of a feed are read one by one, later."""


@contextmanager
def _replaced(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file that takes its place only when all of it is there."""
    target = Path(path)
    number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(number, "w+b") as file:
            yield file
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _empty(file: IO[bytes]) -> None:
    """Begin anew: an attempt before may have got half of it."""
    file.seek(0)
    file.truncate()


def _not_async(source: Iterator[Any] | AsyncIterator[Any]) -> Iterator[Any]:
    if isinstance(source, AsyncIterator):
        raise TypeError(f"an asynchronous source needs an AsyncClient, got {source!r}")
    return source


async def _taken(step: Take) -> list[Any]:
    if not isinstance(step.source, AsyncIterator):
        return list(islice(step.source, step.most))
    taken: list[Any] = []
    while len(taken) < step.most:
        try:
            taken.append(await anext(step.source))
        except StopAsyncIteration:
            break
    return taken
