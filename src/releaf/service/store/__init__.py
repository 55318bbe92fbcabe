"""Event stores: one interface, with SQLite (embedded) and PostgreSQL behind it."""

from __future__ import annotations

from releaf.service.store.base import EventStore


def open_store(address: str) -> EventStore:
    """Return the store at a ``postgresql://`` address or in a file; call its ``open`` to connect."""
    if address.startswith(("postgresql://", "postgres://")):
        from releaf.service.store.postgres import PostgresStore

        return PostgresStore(address)
    if "://" in address:
        raise ValueError(f"store is {address.split('://')[0]}://…: expected a file or a postgresql:// address")
    from releaf.service.store.sqlite import SqliteStore

    return SqliteStore(address)
