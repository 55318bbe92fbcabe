"""Statements for the leases of the PostgreSQL store.

A holder of leases is the session that writes: it has a row with its heartbeat, and an advisory lock that ends with it.
"""

from __future__ import annotations

HOLDER_CLASS = 0x5EB0  # first key of the advisory locks of holders; the second is the holder's id

# Takes the place of {fence}, evaluated once in a statement: an error unless the epochs of the leases are the latest.
FENCE = "(SELECT holds_leases(${experiments}::int[], ${epochs}::bigint[]))"

REGISTER_HOLDER = """
    WITH ended AS (DELETE FROM lease_holders WHERE pg_try_advisory_xact_lock_shared($1, id)),
    made AS (INSERT INTO lease_holders (beat) VALUES (0) RETURNING id)
    SELECT id, pg_advisory_lock($1, id) FROM made
"""
LEASE = """
    SELECT epoch, holder, (SELECT beat FROM lease_holders WHERE id = holder),
        pg_try_advisory_xact_lock_shared($2, holder) AS has_ended
    FROM leases WHERE experiment = $1
"""
CLAIM_LEASE = """
    INSERT INTO leases VALUES ($1::int, $2::bigint + 1, $3::int)
    ON CONFLICT (experiment) DO UPDATE SET epoch = excluded.epoch, holder = excluded.holder WHERE leases.epoch = $2
    RETURNING epoch
"""
RELEASE_LEASE = "UPDATE leases SET holder = NULL WHERE experiment = $1 AND epoch = $2"
BEAT = """
    WITH beaten AS (UPDATE lease_holders SET beat = beat + 1 WHERE id = $1)
    SELECT experiment, epoch FROM leases WHERE holder = $1
"""
SESSIONS = """
    SELECT {what} FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND {where}
"""
OLDER_VERSIONS = SESSIONS.format(what="count(*)", where="classid = $1::bigint::oid AND objid <> 0")
END_SESSION = SESSIONS.format(
    what="pg_terminate_backend(pid)", where="(classid, objid) = ($1::bigint::oid, $2::bigint::oid)"
)
