"""Retries with exponential backoff and jitter."""

from __future__ import annotations

import random
import time
from typing import Any

import httpx

from releaf.client.call import ApiCall
from releaf.client.response_decoding import UNAVAILABLE_STATUSES, error_from
from releaf.client.responses import Unavailable

FIRST_PAUSE = 0.1  # seconds, doubled after each attempt
MAX_PAUSE = 5.0
CONNECT_TIMEOUT = 5.0
MIN_TIMEOUT = 1.0  # of a last attempt, when hardly any time is left
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class RetrySchedule:
    """The attempts of one call, with growing random pauses, so that clients don't retry at the same moment."""

    def __init__(self, call: ApiCall[Any], *, timeout: float, retry_for: float) -> None:
        self._rule, self._read_timeout, self._is_incomplete = call.retry, call.read_timeout, call.is_incomplete
        self._timeout, self._retry_for = timeout, retry_for
        self._started = time.monotonic()
        self._pauses = 0

    @property
    def timeout(self) -> httpx.Timeout:
        """Time-out of the next attempt."""
        left = max(self._retry_for - (time.monotonic() - self._started), MIN_TIMEOUT)
        most = min(self._timeout, left) if self._pauses else self._timeout
        return httpx.Timeout(most, connect=min(most, CONNECT_TIMEOUT), read=self._read_timeout or most)

    def pause_after_failure(self, error: httpx.TransportError) -> float:
        """Seconds until the next attempt after one without a response; raise `Unavailable` if there is none."""
        unsent = isinstance(error, UNSENT)
        pause = self._pause(None) if unsent or self._rule == "always" else None
        if pause is None:
            raise Unavailable(None, "no-answer", self._describe(error, unsent)) from error
        return pause

    def pause_after_response(self, response: httpx.Response) -> float | None:
        """None if the response is final; seconds until the next attempt; raise if it is an error without a retry."""
        if response.is_success:
            return self._pause(None) if self._is_incomplete(response) else None
        error = error_from(response)
        again = response.status_code == 429 or (response.status_code in UNAVAILABLE_STATUSES and self._rule == "always")
        pause = self._pause(error.retry_after) if again else None
        if pause is None:
            raise error
        return pause

    def _pause(self, retry_after: float | None) -> float | None:
        if self._rule == "never":
            return None
        usual = min(MAX_PAUSE, FIRST_PAUSE * 2**self._pauses)
        pause = (retry_after or 0.0) + random.uniform(usual / 2, usual)
        self._pauses += 1
        over = time.monotonic() - self._started + pause > self._retry_for
        return None if over else pause

    def _describe(self, error: httpx.TransportError, unsent: bool) -> str:
        url = error.request.url
        tries = "" if self._pauses < 2 else f" after {self._pauses} attempts"
        doubt = "" if unsent or self._rule != "unsent" else "; the outcome is unknown: check before you retry"
        return (
            f"no response from {url.scheme}://{url.netloc.decode()}{tries}: {str(error) or type(error).__name__}{doubt}"
        )
