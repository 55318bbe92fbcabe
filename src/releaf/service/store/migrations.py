"""Schema migrations of the stores.

Each store has a list of scripts: the first creates the tables of version 1, the next migrates them to version 2, and so
on. A store applies the missing ones in order, in one transaction. A released script never changes. Tables of the same
version have the same columns in all stores, so that a backup can be restored to any.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from releaf.service.errors import StoreError

META = "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
# Every store draws a secret when it is created, and one of an older version when it is opened.
ADD_SECRET = "INSERT INTO meta VALUES ('secret', $1) ON CONFLICT (name) DO NOTHING"  # noqa: S105

SQLITE = (
    # Bodies stay out of the primary key, so that a commit touches few pages of the file: rows lie in write order.
    # The trigger rejects a page that begins before the end of the log: its writer has an outdated view of the log.
    """
    CREATE TABLE experiments (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, created REAL NOT NULL, spec BLOB NOT NULL,
        retired INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE pages (
        experiment INTEGER NOT NULL, last INTEGER NOT NULL, events INTEGER NOT NULL, decision INTEGER NOT NULL,
        at REAL NOT NULL, checksum BLOB NOT NULL, body BLOB NOT NULL, PRIMARY KEY (experiment, last)
    ) STRICT;
    CREATE INDEX pages_by_decision ON pages (experiment, decision, last);
    CREATE TRIGGER pages_follow BEFORE INSERT ON pages
    WHEN EXISTS (SELECT 1 FROM pages WHERE experiment = new.experiment AND last > new.last - new.events)
    BEGIN SELECT RAISE(ABORT, 'the events are in the log already'); END;
    CREATE TABLE rewards (
        experiment INTEGER NOT NULL, decision INTEGER NOT NULL, outcome TEXT NOT NULL, reward TEXT, at REAL NOT NULL,
        event INTEGER NOT NULL, PRIMARY KEY (experiment, decision)
    ) STRICT;
    CREATE TABLE snapshots (
        experiment INTEGER NOT NULL, last INTEGER NOT NULL, checksum BLOB NOT NULL, body BLOB NOT NULL,
        page_checksum BLOB NOT NULL, PRIMARY KEY (experiment, last)
    ) STRICT;
    CREATE TABLE keys (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, digest BLOB NOT NULL, scopes TEXT NOT NULL, created REAL NOT NULL,
        revoked REAL
    ) STRICT;
    CREATE TABLE pages_set_aside (
        experiment INTEGER NOT NULL, last INTEGER NOT NULL, events INTEGER NOT NULL, decision INTEGER NOT NULL,
        at REAL NOT NULL, checksum BLOB NOT NULL, body BLOB NOT NULL, moved REAL NOT NULL, why TEXT NOT NULL
    ) STRICT;
    CREATE TABLE rewards_set_aside (
        experiment INTEGER NOT NULL, decision INTEGER NOT NULL, outcome TEXT NOT NULL, reward TEXT, at REAL NOT NULL,
        event INTEGER NOT NULL, moved REAL NOT NULL, why TEXT NOT NULL
    ) STRICT;
    """,
    # The audit log. Its rows are only ever added.
    """
    CREATE TABLE changes (
        at REAL NOT NULL, experiment TEXT, actor TEXT NOT NULL, request_id TEXT, change TEXT NOT NULL, subject TEXT,
        state_before TEXT, state_after TEXT, id INTEGER PRIMARY KEY AUTOINCREMENT
    ) STRICT;
    CREATE INDEX changes_by_experiment ON changes (experiment, id);
    CREATE TRIGGER changes_not_updated BEFORE UPDATE ON changes
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
    CREATE TRIGGER changes_not_deleted BEFORE DELETE ON changes
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
    """,
    # Leases. The epoch grows with every holder: it is the fencing token that each commit is checked against.
    """
    CREATE TABLE leases (experiment INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, holder TEXT) STRICT;
    """,
)

POSTGRES = (
    # EXTERNAL storage, without compression: to compress bodies costs more than to write them.
    """
    CREATE TABLE experiments (
        id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE, created float8 NOT NULL,
        spec bytea NOT NULL, retired bool NOT NULL DEFAULT false
    );
    CREATE TABLE pages (
        experiment int NOT NULL, last bigint NOT NULL, events bigint NOT NULL, decision bigint NOT NULL,
        at float8 NOT NULL, checksum bytea NOT NULL, body bytea NOT NULL,
        PRIMARY KEY (experiment, last)
    );
    CREATE INDEX pages_by_decision ON pages (experiment, decision, last);
    CREATE FUNCTION pages_follow() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT FROM pages WHERE experiment = new.experiment AND last > new.last - new.events) THEN
            RAISE unique_violation USING MESSAGE = 'the events are in the log already';
        END IF;
        RETURN new;
    END $$;
    CREATE TRIGGER pages_follow BEFORE INSERT ON pages FOR EACH ROW EXECUTE FUNCTION pages_follow();
    CREATE TABLE rewards (
        experiment int NOT NULL, decision bigint NOT NULL, outcome text NOT NULL, reward text, at float8 NOT NULL,
        event bigint NOT NULL, PRIMARY KEY (experiment, decision)
    );
    CREATE TABLE snapshots (
        experiment int NOT NULL, last bigint NOT NULL, checksum bytea NOT NULL, body bytea NOT NULL,
        page_checksum bytea NOT NULL, PRIMARY KEY (experiment, last)
    );
    CREATE TABLE keys (
        id text PRIMARY KEY, name text NOT NULL, digest bytea NOT NULL, scopes text NOT NULL, created float8 NOT NULL,
        revoked float8
    );
    CREATE TABLE pages_set_aside (LIKE pages, moved float8 NOT NULL, why text NOT NULL);
    CREATE TABLE rewards_set_aside (LIKE rewards, moved float8 NOT NULL, why text NOT NULL);
    ALTER TABLE pages ALTER body SET STORAGE EXTERNAL;
    ALTER TABLE snapshots ALTER body SET STORAGE EXTERNAL;
    """,
    """
    CREATE TABLE changes (
        at float8 NOT NULL, experiment text, actor text NOT NULL, request_id text, change text NOT NULL, subject text,
        state_before text, state_after text, id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY
    );
    CREATE INDEX changes_by_experiment ON changes (experiment, id);
    CREATE FUNCTION changes_stay() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE 'the audit log is append-only';
    END $$;
    CREATE TRIGGER changes_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON changes EXECUTE FUNCTION changes_stay();
    """,
    # The share lock keeps another process from taking over a lease between this check and the end of the transaction.
    """
    CREATE TABLE leases (experiment int PRIMARY KEY, epoch bigint NOT NULL, holder int);
    CREATE TABLE lease_holders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, beat bigint NOT NULL);
    CREATE FUNCTION holds_leases(experiments int[], epochs bigint[]) RETURNS bool LANGUAGE plpgsql AS $$
    DECLARE found_leases int;
    BEGIN
        PERFORM FROM leases JOIN unnest(experiments, epochs) AS held (experiment, epoch) USING (experiment, epoch)
        FOR SHARE OF leases;
        GET DIAGNOSTICS found_leases = ROW_COUNT;
        IF found_leases < cardinality(experiments) THEN
            RAISE object_not_in_prerequisite_state USING MESSAGE = 'another process has taken over the lease';
        END IF;
        RETURN true;
    END $$;
    """,
)


def new_secret() -> str:
    """A random secret of a store, in hexadecimal digits."""
    return secrets.token_hex(32)


def missing_migrations(version: int, scripts: Sequence[str], where: str) -> Sequence[str]:
    """Scripts that tables of this version need; :class:`StoreError` if the version is newer than all scripts."""
    if version > len(scripts):
        raise StoreError(
            f"{where} has schema version {version}, this releaf supports versions up to {len(scripts)}: "
            "run the newer releaf that migrated it, or use another store"
        )
    return scripts[version:]
