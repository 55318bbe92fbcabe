"""How often someone may do something."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address, ip_network
from math import ceil

from releaf.service.errors import Problem

MOST_BUCKETS = 10_000


class RateLimit:
    """A token bucket for each name: ``rate`` tokens a second flow in, ``burst`` is the most it holds.

    A bucket is kept as one number, the time at which it will be full again; who has none has a full one. So a bucket
    that has filled up can be forgotten.

    Parameters
    ----------
    rate
        Times a second; 0 for no limit.
    burst
        Times at once; as many as in one second by default, and at least one.
    what
        What there was too much of, for the message.
    clock
        Seconds that only go forward.
    most
        How many buckets are kept at the most.
    """

    def __init__(
        self,
        rate: float,
        *,
        burst: float | None = None,
        what: str = "requests",
        clock: Callable[[], float] = time.monotonic,
        most: int = MOST_BUCKETS,
    ) -> None:
        self.rate, self.what = rate, what
        self._clock, self._most = clock, most
        self._cost = 1.0 / rate if rate > 0 else 0.0
        self._depth = max(rate if burst is None else burst, 1.0) * self._cost
        self._full: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._full)

    def take(self, name: str) -> None:
        """Take a token, or raise a problem with the status 429 that says when there will be one."""
        if not self._cost:
            return
        now = self._clock()
        full = max(self._full.get(name, now), now) + self._cost
        wait = full - now - self._depth
        if wait > 1e-9:  # less is what sums of fractions are off by
            limit = f"more than {self.rate:g} {self.what} a second"
            raise Problem(429, "too_many", f"{limit}: slow down", retry_after=max(1, ceil(wait)))
        self._full[name] = full
        if len(self._full) > self._most:
            self._forget(now)

    def _forget(self, now: float) -> None:
        """Forget the full buckets; and where most are in use, the oldest half, so that this is seldom done."""
        used = {name: full for name, full in self._full.items() if full > now}
        if len(used) > self._most // 2:
            used = dict(list(used.items())[-(self._most // 2) :])
        self._full = used


@lru_cache(maxsize=4096)
def neighbourhood(address: str) -> str:
    """The address that limits go by: of IPv6 the first half, since one client has all of the other half.

    >>> neighbourhood("192.0.2.7"), neighbourhood("2001:db8::1:2:3:4")
    ('192.0.2.7', '2001:db8::/64')
    """
    try:
        known = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if known.version == 4:
        return str(known)
    mapped = known.ipv4_mapped
    return str(mapped) if mapped else str(ip_network((int(known), 64), strict=False))
