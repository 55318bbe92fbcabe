"""Token-bucket rate limiter."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address, ip_network
from math import ceil

from releaf.service.errors import ApiError

MAX_BUCKETS = 10_000


class RateLimiter:
    """A token bucket per name: it gains ``rate`` tokens a second, up to ``burst``.

    A bucket is one number, the time at which it will be full again. A name without a bucket has a full one, so full
    buckets can be deleted.

    Parameters
    ----------
    rate
        Tokens per second; 0 for no limit.
    burst
        Capacity of a bucket; by default the tokens of one second, and at least one.
    what
        What is limited, for the error message.
    clock
        Monotonic time in seconds.
    max_buckets
        Largest number of buckets.
    """

    def __init__(
        self,
        rate: float,
        *,
        burst: float | None = None,
        what: str = "requests",
        clock: Callable[[], float] = time.monotonic,
        max_buckets: int = MAX_BUCKETS,
    ) -> None:
        self.rate, self.what = rate, what
        self._clock, self._max_buckets = clock, max_buckets
        self._cost = 1.0 / rate if rate > 0 else 0.0
        self._capacity = max(rate if burst is None else burst, 1.0) * self._cost
        self._full: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._full)

    def acquire(self, name: str) -> None:
        """Take a token, or raise an error with status 429 and the time until there is one."""
        if not self._cost:
            return
        now = self._clock()
        full = max(self._full.get(name, now), now) + self._cost
        wait = full - now - self._capacity
        if wait > 1e-9:  # tolerance for rounding errors
            limit = f"more than {self.rate:g} {self.what} a second"
            raise ApiError(429, "too_many", f"{limit}: slow down", retry_after=max(1, ceil(wait)))
        self._full[name] = full
        if len(self._full) > self._max_buckets:
            self._evict(now)

    def _evict(self, now: float) -> None:
        """Delete the full buckets; if most are in use, also the oldest ones, down to half of the maximum."""
        used = {name: full for name, full in self._full.items() if full > now}
        if len(used) > self._max_buckets // 2:
            used = dict(list(used.items())[-(self._max_buckets // 2) :])
        self._full = used


@lru_cache(maxsize=4096)
def address_block(address: str) -> str:
    """The address block that limits apply to: an IPv4 address, or an IPv6 /64, which one client has as a whole.

    >>> address_block("192.0.2.7"), address_block("2001:db8::1:2:3:4")
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
