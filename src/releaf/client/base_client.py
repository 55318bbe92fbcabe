"""`BaseClient`: the settings of a client, and sending calls with retries and a circuit breaker."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import httpx

from releaf._version import __version__
from releaf.client.call import ApiCall
from releaf.client.circuit_breaker import Admission, Circuit, CircuitBreaker
from releaf.client.default_reports import DefaultReports
from releaf.client.response_decoding import is_of_one_experiment
from releaf.client.responses import ServiceError, Unavailable
from releaf.client.retries import RetrySchedule
from releaf.client.transports import Transport, settle

T = TypeVar("T")
DEFAULT_URL = "http://127.0.0.1:8000"
DECIDE_TIMEOUT = 0.9  # seconds
NOT_DECIDED = ("circuit-open", "discarded")  # codes of errors after which no decision is left
DEFAULT_BREAKER = CircuitBreaker()
# Every connection is kept: with fewer, many threads would open new ones all the time. The service closes a connection
# that was idle for 65 seconds, and so the client has to do it first.
LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=100, keepalive_expiry=30.0)


class BaseClient:
    """Address, key, time-outs, circuit breaker and connections of a client."""

    _transport: Transport

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        timeout: float = 15.0,
        retry_for: float = 30.0,
        decide_timeout: float | None = DECIDE_TIMEOUT,
        circuit_breaker: CircuitBreaker | None = DEFAULT_BREAKER,
    ) -> None:
        self.url = _validate_url(url or os.environ.get("RELEAF_URL") or DEFAULT_URL)
        self.timeout, self.retry_for = timeout, retry_for
        self.decide_timeout = positive_seconds("decide_timeout", decide_timeout)
        self._circuit = Circuit(circuit_breaker)
        headers = {"User-Agent": f"releaf/{__version__}"} | _authorization(key or os.environ.get("RELEAF_KEY"))
        self._defaults = DefaultReports(self.url, headers)
        self._http = self._transport.client(base_url=self.url, headers=headers, limits=LIMITS)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def _send(self, call: ApiCall[T]) -> T:
        """Send a call, with retries; if the service is unavailable, return the call's fallback."""
        try:
            return call.read(await self._response(call))
        except ServiceError as error:
            if call.fallback is None or not _is_no_answer(error):
                raise
            if call.discards is not None and error.code not in NOT_DECIDED:
                self._defaults.add(*call.discards)
            return call.fallback(error)

    async def _response(self, call: ApiCall[Any]) -> httpx.Response:
        schedule = RetrySchedule(call, timeout=self.timeout, retry_for=self.retry_for)
        while True:
            admission = self._circuit.admit() if call.breaks_circuit else Admission()
            if admission.wait:
                pause: float | None = schedule.pause_while_open(admission.wait, self._circuit.describe())
            else:
                try:
                    response = await self._attempt(call, schedule, admission)
                except httpx.TransportError as error:
                    pause = schedule.pause_after_failure(error)
                else:
                    pause = schedule.pause_after_response(response)
            if pause is None:
                return response
            await settle(self._transport.sleep(pause))

    async def _attempt(self, call: ApiCall[Any], schedule: RetrySchedule, admission: Admission) -> httpx.Response:
        """Send a call once, and report the result to the circuit breaker."""
        circuit = self._circuit if call.breaks_circuit else Circuit(None)
        try:
            response = await self._exchange(call, schedule.timeout, schedule.seconds_left)
        except httpx.PoolTimeout:  # says nothing about the service
            circuit.release(admission)
            raise
        except httpx.TransportError as error:
            circuit.fail(admission, str(error) or type(error).__name__)
            raise
        except BaseException:
            circuit.release(admission)
            raise
        if response.is_server_error and not is_of_one_experiment(response):
            circuit.fail(admission, f"status {response.status_code}")
        else:
            circuit.succeed()
        return response

    async def _exchange(self, call: ApiCall[Any], timeout: httpx.Timeout, seconds: float | None) -> httpx.Response:
        """Send a request and read its response, in so many seconds."""
        request = call.request(self._http, timeout)
        try:
            with self._transport.deadline(seconds):
                response: httpx.Response = await settle(self._http.send(request, stream=True))
                try:
                    if call.take is not None and response.is_success:
                        await settle(call.take(self._transport, response))
                    else:
                        await settle(self._transport.read(response))
                except BaseException:
                    await settle(self._transport.close(response))
                    raise
        except TimeoutError as error:
            raise httpx.ReadTimeout("timed out", request=request) from error
        return response


def _is_no_answer(error: ServiceError) -> bool:
    """Whether the service failed to answer, or its answer came too late; otherwise the request is wrong."""
    is_no_decision = error.code == "unexpected" and error.status == 200
    return isinstance(error, Unavailable) or (error.status or 0) >= 500 or is_no_decision or error.code == "discarded"


def positive_seconds(name: str, seconds: float | None) -> float | None:
    if seconds is not None and not seconds > 0:
        raise ValueError(f"{name} must be a positive number of seconds, got {seconds!r}")
    return seconds


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
