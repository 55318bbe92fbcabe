"""Event stores: one interface, with SQLite (embedded) and PostgreSQL behind it."""

from __future__ import annotations

from releaf.service.store.base import LEASE_TIMEOUT, EventStore


def open_store(address: str, *, lease_timeout: float = LEASE_TIMEOUT, salvage: bool = False) -> EventStore:
    """Return the store at a ``postgresql://`` address or in a file; call its ``open`` to connect.

    Parameters
    ----------
    address
        A file, or ``postgresql://user:password@host:port/database``.
    lease_timeout
        Seconds without a heartbeat after which to take over another process's lease.
    salvage
        Whether to continue with what is left of a damaged, truncated or missing file; otherwise to refuse it.
    """
    if address.startswith(("postgresql://", "postgres://")):
        from releaf.service.store.postgres import PostgresStore

        return PostgresStore(address, lease_timeout=lease_timeout)
    if "://" in address:
        raise ValueError(f"store is {address.split('://')[0]}://…: expected a file or a postgresql:// address")
    from releaf.service.store.sqlite import SqliteStore

    return SqliteStore(address, lease_timeout=lease_timeout, salvage=salvage)
