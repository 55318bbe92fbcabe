"""How a service is run: what ``releaf serve`` takes from its options."""

from __future__ import annotations

from dataclasses import dataclass

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one service process.

    Attributes
    ----------
    store
        The file of the embedded store, or a ``postgresql://`` address.
    host, port
        Where to listen.
    hosts
        Further names under which the service may be called (the ``Host`` header), besides its own address.
    require_keys
        Whether every request needs an API key; always so beyond the loopback address.
    body_limit
        The largest body of a request, in bytes.
    batch_limit
        The most contexts or rewards in one request.
    rate_limit
        The most requests a second of one key, or of one address where no key is needed; 0 for no limit.
    read_timeout
        Seconds in which the headers of a request have to arrive, and then its whole body.
    connection_limit
        The most connections at a time; requests on further ones are answered with 503.
    feed_limit
        The most feeds at a time of one key, or of one address where no key is needed.
    commit_timeout
        Seconds after which a request is answered with 503 when its event is still not on disk.
    snapshot_events
        After how many events a snapshot is made in the background.
    snapshot_seconds
        How long to wait between two snapshots at least: they take time that requests want.
    log_format
        "json", or "text" for people.
    """

    store: str = "releaf.db"
    host: str = "127.0.0.1"
    port: int = 8000
    hosts: tuple[str, ...] = ()
    require_keys: bool = False
    body_limit: int = 4 << 20
    batch_limit: int = 10_000
    rate_limit: float = 10_000.0
    read_timeout: float = 30.0
    connection_limit: int = 4096
    feed_limit: int = 50
    commit_timeout: float = 10.0
    snapshot_events: int = 50_000
    snapshot_seconds: float = 10.0
    log_format: str = "json"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOOPBACK

    @property
    def needs_keys(self) -> bool:
        """Whether every request needs an API key."""
        return self.require_keys or not self.is_local
