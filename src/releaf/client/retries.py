"""Retries with exponential backoff and jitter, within the time-out of a call."""

from __future__ import annotations

import random
import time
from math import inf
from typing import Any

import httpx

from releaf.client.call import ApiCall
from releaf.client.response_decoding import UNAVAILABLE_STATUSES, error_from
from releaf.client.responses import ServiceError, Unavailable

FIRST_PAUSE = 0.1  # seconds, doubled after each attempt
MAX_PAUSE = 5.0
MAX_CIRCUIT_PAUSE = 0.5  # until the next look whether the circuit is closed
CONNECT_TIMEOUT = 5.0
MIN_TIMEOUT = 1.0  # of a last attempt, when hardly any time is left
MIN_LEFT = 0.05  # seconds of a call's own time-out for which another attempt is worth it
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class RetrySchedule:
    """The attempts of one call, with growing random pauses, so that clients don't retry at the same moment."""

    def __init__(self, call: ApiCall[Any], *, timeout: float, retry_for: float) -> None:
        self._rule, self._read_timeout, self._is_incomplete = call.retry, call.read_timeout, call.is_incomplete
        self._timeout, self._retry_for, self._whole = timeout, retry_for, call.timeout
        self._started = time.monotonic()
        self._attempts = self._circuit_pauses = 0
        self._last: ServiceError | None = None  # of the latest attempt

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the time-out of the whole call; None if it has none, an error if they have passed."""
        if self._whole is None:
            return None
        left = self._whole - self.elapsed
        if left <= 0:
            raise self._last or Unavailable(None, "no-answer", f"no attempt was possible in {self._whole:g} s")
        return left

    @property
    def timeout(self) -> httpx.Timeout:
        """Time-out of the next attempt."""
        left = self.seconds_left
        if left is None:
            left = max(self._retry_for - self.elapsed, MIN_TIMEOUT) if self._attempts else inf
        most = min(self._timeout, left)
        return httpx.Timeout(most, connect=min(most, CONNECT_TIMEOUT), read=self._read_timeout or most)

    def pause_after_failure(self, error: httpx.TransportError) -> float:
        """Seconds until the next attempt after one without a response; raise `Unavailable` if there is none."""
        self._attempts += 1
        unsent = isinstance(error, UNSENT)
        pause = self._pause(None) if unsent or self._rule == "always" else None
        self._last = Unavailable(None, "no-answer", self._describe(error, unsent))
        if pause is None:
            raise self._last from error
        return pause

    def pause_after_response(self, response: httpx.Response) -> float | None:
        """None if the response is final; seconds until the next attempt; raise if it is an error without a retry."""
        self._attempts += 1
        if response.is_success or response.status_code == 304:  # not modified
            return self._pause(None) if self._is_incomplete(response) else None
        self._last = error_from(response)
        again = response.status_code == 429 or (response.status_code in UNAVAILABLE_STATUSES and self._rule == "always")
        pause = self._pause(self._last.retry_after) if again else None
        if pause is None:
            raise self._last
        return pause

    def pause_while_open(self, wait: float, reason: str) -> float:
        """Seconds until another look at a circuit that is open for so long; raise if the call ends before."""
        if not self._has_time_for(wait):
            message = f"not sent: {reason}; the next attempt is in {wait:.1f} s"
            raise self._last or Unavailable(None, "circuit-open", message, wait)
        self._circuit_pauses += 1
        return min(wait, _jitter(self._circuit_pauses, MAX_CIRCUIT_PAUSE))

    def _pause(self, retry_after: float | None) -> float | None:
        if self._rule == "never":
            return None
        pause = (retry_after or 0.0) + _jitter(self._attempts, MAX_PAUSE)
        return pause if self._has_time_for(pause) else None

    def _has_time_for(self, pause: float) -> bool:
        then = self.elapsed + pause
        return then <= self._retry_for and (self._whole is None or then + MIN_LEFT <= self._whole)

    def _describe(self, error: httpx.TransportError, unsent: bool) -> str:
        url = error.request.url
        tries = "" if self._attempts < 2 else f" after {self._attempts} attempts"
        within = "" if self._whole is None else f" within {self._whole:g} s"
        doubt = "" if unsent or self._rule != "unsent" else "; the outcome is unknown: check before you retry"
        reason = str(error) or type(error).__name__
        return f"no response from {url.scheme}://{url.netloc.decode()}{within}{tries}: {reason}{doubt}"


def _jitter(number: int, longest: float) -> float:
    """A random pause, the longer the more attempts or pauses there were."""
    usual = min(longest, FIRST_PAUSE * 2.0 ** min(number - 1, 16))
    return random.uniform(usual / 2, usual)
