"""Settings of a service process, as set by the options of ``releaf serve``."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from ipaddress import IPv4Network, IPv6Network, ip_network
from math import isfinite

EXPERIMENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """The settings of one service process.

    Attributes
    ----------
    store
        File of the embedded store, or a ``postgresql://`` address.
    host, port
        Address and port to listen on.
    hosts
        Host names that the service accepts in the ``Host`` header, besides its own address.
    require_keys
        Whether every request needs an API key on a loopback address too. Every request needs one if the address is not
        loopback, or if there are further host names or trusted proxies: these make the service reachable from
        elsewhere. Without keys the service refuses requests that a proxy has forwarded.
    trusted_proxies
        Addresses and networks of proxies whose ``X-Forwarded-For`` and ``X-Forwarded-Proto`` headers count.
    body_limit
        Largest body of a request, in bytes.
    batch_limit
        Largest number of contexts or rewards in one request.
    rate_limit
        Requests per second of one key, or of one address if no key is needed; 0 for no limit.
    read_timeout
        Seconds within which the headers of a request must arrive, and then its whole body.
    connection_limit
        Largest number of open connections; the service answers requests on further ones with 503.
    client_connection_limit
        Largest number of open connections of one address (an IPv6 /64); the service closes further ones with 503. By
        default a quarter of ``connection_limit``. It does not apply to trusted proxies.
    feed_limit
        Largest number of open feeds of one key, or of one address if no key is needed.
    total_feed_limit
        Largest number of open feeds of all keys and addresses together.
    send_timeout
        Seconds within which a client must receive something more of a response that waits to be sent; otherwise the
        service closes the connection.
    write_timeout
        Write time-out: seconds after which the service answers 503 if the event is still not on disk.
    lease_timeout
        Seconds without a heartbeat of another process after which this one takes over its experiments. Heartbeats come
        five times in this time; set it to the same value for all processes of a store.
    salvage
        Whether to continue with what is left of a damaged store; otherwise the service refuses it.
    snapshot_events
        Number of events after which the service saves a snapshot in the background.
    snapshot_seconds
        Shortest time between two snapshots: they compete with requests for the processor.
    drain_seconds
        Seconds after SIGTERM for which the service goes on answering, while /readyz answers 503; then it stops.
    personalizer
        The experiment that answers Personalizer's API at ``/personalizer/…``, created unless it is there; empty: none.
    log_format
        "json" for programs, or "text" for people.
    """

    store: str = "releaf.db"
    host: str = "127.0.0.1"
    port: int = 8000
    hosts: tuple[str, ...] = ()
    require_keys: bool = False
    trusted_proxies: tuple[str, ...] = ()
    body_limit: int = 4 << 20
    batch_limit: int = 10_000
    rate_limit: float = 10_000.0
    read_timeout: float = 30.0
    connection_limit: int = 4096
    client_connection_limit: int | None = None
    feed_limit: int = 50
    total_feed_limit: int = 200
    send_timeout: float = 30.0
    write_timeout: float = 10.0
    lease_timeout: float = 5.0
    salvage: bool = False
    snapshot_events: int = 50_000
    snapshot_seconds: float = 10.0
    drain_seconds: float = 0.0
    personalizer: str = ""
    log_format: str = "json"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not isfinite(value):
                raise ValueError(f"{field.name} is {value}: expected a finite number")
        for text in self.trusted_proxies:
            parse_network(text)
        if self.personalizer and not EXPERIMENT_NAME.fullmatch(self.personalizer):
            raise ValueError(
                f"personalizer is {self.personalizer!r}: expected the name of an experiment, 1 to 64 letters, digits, "
                "_, . and -"
            )

    @property
    def connections_per_client(self) -> int:
        """Largest number of open connections of one address."""
        return self.client_connection_limit or max(1, self.connection_limit // 4)

    @property
    def is_local(self) -> bool:
        """Whether the service listens on a loopback address."""
        return self.host in LOOPBACK

    @property
    def needs_keys(self) -> bool:
        """Whether every request needs an API key."""
        return self.require_keys or not self.is_local or bool(self.hosts) or bool(self.trusted_proxies)


def parse_network(text: str) -> IPv4Network | IPv6Network:
    """Parse an address or a network of addresses.

    >>> parse_network("10.1.0.0/16")
    IPv4Network('10.1.0.0/16')
    """
    try:
        return ip_network(text)
    except ValueError:
        raise ValueError(f"trusted_proxy is {text!r}: expected an address or a network such as 10.1.0.0/16") from None
