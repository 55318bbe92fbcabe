"""Circuit breaker: after several failures in a row, no requests for some seconds, then one that probes the service."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from math import inf
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class CircuitBreaker:
    """Settings of a client's circuit breaker.

    After ``failures`` failed attempts in a row, of all threads or tasks together, the circuit is open: for ``open_for``
    seconds the client sends nothing. Then it sends one request. If the service answers it, the circuit is closed; if
    not, it stays open for as long again. Failed are attempts without a connection or a complete answer, time-outs, and
    answers with a status of 500 or more that don't come from the service, such as a proxy's, or say that it is not
    ready. Its errors about one experiment do not count, because it may serve the others.

    Parameters
    ----------
    failures
        Failed attempts in a row that open the circuit.
    open_for
        Seconds for which it stays open.

    Examples
    --------
    >>> from releaf.client import Client, CircuitBreaker
    >>> patient = Client("http://127.0.0.1:8000", circuit_breaker=CircuitBreaker(failures=20, open_for=1.0))
    >>> patient.close()
    """

    failures: int = 5
    open_for: float = 5.0

    def __post_init__(self) -> None:
        if self.failures < 1:
            raise ValueError(f"failures must be at least 1, got {self.failures}")
        if not 0 < self.open_for < inf:
            raise ValueError(f"open_for must be a positive number of seconds, got {self.open_for}")


class Admission(NamedTuple):
    """Whether a request may be sent (``wait`` is 0), or for how many seconds not."""

    wait: float = 0.0
    is_probe: bool = False


class Circuit:
    """State of a circuit breaker, for any number of threads and tasks; without settings it never opens."""

    def __init__(self, settings: CircuitBreaker | None) -> None:
        self._limit = inf if settings is None else settings.failures
        self._open_for = 0.0 if settings is None else settings.open_for
        self._lock = threading.Lock()  # never held while anything waits, so tasks of an event loop may share it
        self._failures = 0  # in a row
        self._blocked_until = -inf  # while the circuit is open
        self._reason = ""

    def admit(self) -> Admission:
        with self._lock:
            if self._failures < self._limit:
                return Admission()
            now = time.monotonic()
            if now < self._blocked_until:
                return Admission(wait=self._blocked_until - now)
            self._blocked_until = now + self._open_for  # then another probe, if this one still has no result
            return Admission(is_probe=True)

    def succeed(self) -> None:
        """Close the circuit: the service has answered."""
        with self._lock:
            self._failures = 0

    def fail(self, admission: Admission, reason: str) -> None:
        """Count a failed attempt; one that was sent before the circuit opened does not keep it open for longer."""
        with self._lock:
            was_closed = self._failures < self._limit
            self._failures += 1
            if self._failures >= self._limit and (was_closed or admission.is_probe):
                self._blocked_until = time.monotonic() + self._open_for
                self._reason = reason

    def release(self, admission: Admission) -> None:
        """Let another request probe the service: this one ended without a result, as when a task is cancelled."""
        with self._lock:
            if admission.is_probe:
                self._blocked_until = -inf

    def describe(self) -> str:
        with self._lock:
            return f"the circuit is open after {self._failures} failures in a row, the last of them: {self._reason}"
