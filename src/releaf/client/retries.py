"""When a call is tried again, for how long, and what is raised in the end."""

from __future__ import annotations

import random
import time
from typing import Any

import httpx

from releaf.client.calls import BUSY, Call, refusal
from releaf.client.responses import Unavailable

FIRST_PAUSE = 0.1  # seconds; then twice as long each time
LONGEST_PAUSE = 5.0
CONNECT_WITHIN = 5.0
LEAST_TIMEOUT = 1.0  # of a last attempt when hardly any time is left
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Attempts:
    """The attempts at one call: pauses that grow, with chance so that clients don't come back together."""

    def __init__(self, call: Call[Any], *, timeout: float, retry_for: float) -> None:
        self._repeat, self._silence, self._undone = call.repeat, call.silence, call.undone
        self._timeout, self._retry_for = timeout, retry_for
        self._began = time.monotonic()
        self._pauses = 0

    @property
    def timeout(self) -> httpx.Timeout:
        """How long the next attempt may take."""
        left = max(self._retry_for - (time.monotonic() - self._began), LEAST_TIMEOUT)
        most = min(self._timeout, left) if self._pauses else self._timeout
        return httpx.Timeout(most, connect=min(most, CONNECT_WITHIN), read=self._silence or most)

    def failed(self, error: httpx.TransportError) -> float:
        """Seconds until the next attempt, after one that got no answer; raises where there is none."""
        unsent = isinstance(error, UNSENT)
        pause = self._pause(None) if unsent or self._repeat == "always" else None
        if pause is None:
            raise Unavailable(None, "no-answer", self._told(error, unsent)) from error
        return pause

    def answered(self, response: httpx.Response) -> float | None:
        """None if that is the answer; seconds until the next attempt; raises where it was refused for good."""
        if response.is_success:
            return self._pause(None) if self._undone(response) else None
        error = refusal(response)
        again = response.status_code == 429 or (response.status_code in BUSY and self._repeat == "always")
        pause = self._pause(error.retry_after) if again else None
        if pause is None:
            raise error
        return pause

    def _pause(self, retry_after: float | None) -> float | None:
        if self._repeat == "never":
            return None
        usual = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._pauses)
        pause = (retry_after or 0.0) + random.uniform(usual / 2, usual)
        self._pauses += 1
        over = time.monotonic() - self._began + pause > self._retry_for
        return None if over else pause

    def _told(self, error: httpx.TransportError, unsent: bool) -> str:
        url = error.request.url
        tries = "" if self._pauses < 2 else f" after {self._pauses} attempts"
        doubt = "" if unsent or self._repeat != "unsent" else "; it may have been done all the same, look first"
        return (
            f"no answer from {url.scheme}://{url.netloc.decode()}{tries}: {str(error) or type(error).__name__}{doubt}"
        )
