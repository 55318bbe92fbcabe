"""The tables of a store, version by version.

Each store has a list of scripts: the first makes the tables of version 1, the next makes version 2 of them, and so on.
A store applies those it lacks, in order and in one transaction. A script that was released never changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from releaf.service.store.base import StoreError

META = "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)"

SQLITE = (
    # The bodies stay out of the key, so that a commit touches few pages of the file; rows lie in the order of writing.
    # Whoever writes events that are there already takes an old log for the latest: no page may begin before the end.
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
)

POSTGRES = (
    # Bodies are stored as they are: to compress them costs more than to write them.
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
)


def outstanding(version: int, scripts: Sequence[str], where: str) -> Sequence[str]:
    """The scripts that tables of a version lack; :class:`StoreError` where the version is newer than all of them."""
    if version > len(scripts):
        raise StoreError(
            f"{where} has tables of version {version}, this releaf knows them up to version {len(scripts)}: "
            "run the newer releaf that made them, or use another store"
        )
    return scripts[version:]
