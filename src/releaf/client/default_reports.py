"""Reports in the background of calls that ended in a default, so that the service drops their decisions."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import httpx

from releaf.client.request_encoding import encode_json

MOST_KEYS = 100_000  # to report, of which the oldest are given up
KEYS_PER_REPORT = 1_000
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # seconds between attempts, doubled after each
TIMEOUT = 5.0  # seconds of an attempt
LAST_TIMEOUT = 1.0  # seconds for what is left when the client is closed
GIVEN_UP = (400, 401, 403, 404, 405, 409, 422)  # statuses that another attempt would not change


class DefaultReports:
    """Sends idempotency keys of calls that ended in a default, from a thread of its own, until the service knows them.

    The answer of such a call may only be late: its decision would otherwise wait for a reward, and get the default
    reward, of an action that nobody took.

    Parameters
    ----------
    url, headers
        Of the client.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url, self._headers = url, headers
        self._keys: OrderedDict[tuple[str, str], None] = OrderedDict()  # pairs of a path and a key, the oldest first
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def add(self, path: str, keys: Sequence[str]) -> None:
        """Report keys soon; returns at once."""
        with self._changed:
            for key in keys:
                self._keys[path, key] = None
            while len(self._keys) > MOST_KEYS:
                self._keys.popitem(last=False)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._run, name="reports of default decisions", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Try once more to report what is left, and end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(2 * LAST_TIMEOUT)

    def _run(self) -> None:
        failures = 0
        with httpx.Client(base_url=self._url, headers=self._headers, timeout=TIMEOUT) as http:
            while self._wait(min(FIRST_PAUSE * 2.0 ** min(failures, 16), LONGEST_PAUSE)):
                failures = 0 if self._send(http) else failures + 1
            http.timeout = httpx.Timeout(LAST_TIMEOUT)
            while self._keys and self._send(http):
                pass

    def _wait(self, pause: float) -> bool:
        """Wait for keys, and a pause in which more may come; False if the client was closed."""
        until = time.monotonic() + pause
        with self._changed:
            self._changed.wait_for(lambda: self._keys or self._is_closed)
            self._changed.wait_for(lambda: self._is_closed, max(0.0, until - time.monotonic()))
            return not self._is_closed

    def _send(self, http: httpx.Client) -> bool:
        """Report the oldest keys of one path; whether that needs no further attempt."""
        with self._changed:
            path = next(iter(self._keys))[0]
            some = [pair for pair in self._keys if pair[0] == path][:KEYS_PER_REPORT]
        try:
            content = encode_json({"keys": [key for _, key in some]})
            answer = http.post(path, content=content, headers={"Content-Type": "application/json"})
        except httpx.TransportError:
            return False
        if not (answer.is_success or answer.status_code in GIVEN_UP):
            return False
        with self._changed:
            for pair in some:
                self._keys.pop(pair, None)
        return True
