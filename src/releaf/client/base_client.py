"""`BaseClient`: the settings of a client, and sending calls with retries."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import httpx

from releaf._version import __version__
from releaf.client.call import ApiCall
from releaf.client.retries import RetrySchedule
from releaf.client.transports import Transport, settle

T = TypeVar("T")
DEFAULT_URL = "http://127.0.0.1:8000"


class BaseClient:
    """Address, key, time-outs and connections of a client."""

    _transport: Transport

    def __init__(
        self, url: str | None = None, *, key: str | None = None, timeout: float = 15.0, retry_for: float = 30.0
    ) -> None:
        self.url = _validate_url(url or os.environ.get("RELEAF_URL") or DEFAULT_URL)
        self.timeout, self.retry_for = timeout, retry_for
        headers = {"User-Agent": f"releaf/{__version__}"} | _authorization(key or os.environ.get("RELEAF_KEY"))
        self._http = self._transport.client(base_url=self.url, headers=headers)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def _send(self, call: ApiCall[T]) -> T:
        """Send a call, with retries."""
        schedule = RetrySchedule(call, timeout=self.timeout, retry_for=self.retry_for)
        while True:
            try:
                response = await self._attempt(call, schedule.timeout)
            except httpx.TransportError as error:
                pause: float | None = schedule.pause_after_failure(error)
            else:
                pause = schedule.pause_after_response(response)
            if pause is None:
                return call.read(response)
            await settle(self._transport.sleep(pause))

    async def _attempt(self, call: ApiCall[Any], timeout: httpx.Timeout) -> httpx.Response:
        response: httpx.Response = await settle(self._http.send(call.request(self._http, timeout), stream=True))
        try:
            if call.take is not None and response.is_success:
                await settle(call.take(self._transport, response))
            else:
                await settle(self._transport.read(response))
        except BaseException:
            await settle(self._transport.close(response))
            raise
        return response


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
