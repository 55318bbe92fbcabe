"""The `EventStore` interface, and the rows that stores hold. The service reads and writes only through it.

An experiment's log is a chain of *pages*, each with the events of one group commit in order. A page's checksum covers
the checksum of the previous page, so that readers detect a lost, altered or misplaced page. A separate table holds the
rewards, written in the same transaction: it finds a decision's reward without reading the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from releaf.service.errors import StoreError

FIRST_CHECKSUM = b"\0" * 16


LEASE_TIMEOUT = 5.0  # seconds without a heartbeat after which another process may take over a lease
BEATS_PER_TIMEOUT = 5


class LeaseLost(StoreError):
    """The process does not hold the lease of the experiment: another one may write to it."""


class LogPage(NamedTuple):
    """Consecutive events of an experiment: one group commit."""

    experiment: int
    last: int  # number of its last event; the first event of a log is 1
    events: int  # number of events in the page
    decision: int  # number of the latest decision before or in this page
    at: float  # time of the last event, in seconds since 1970
    checksum: bytes
    body: bytes


class RewardRow(NamedTuple):
    """Outcome of a pending decision."""

    decision: int
    outcome: str  # "rewarded", "default" or "dropped"
    reward: str | None  # JSON; None if the decision was dropped
    at: float


class ChangeRow(NamedTuple):
    """A change of an experiment, of a key or of the settings, in the audit log."""

    at: float
    experiment: str | None  # its name; None for keys and settings
    actor: str  # the public id of a key, "anonymous" or "command line"
    request_id: str | None
    change: str  # such as "promote"
    subject: str | None  # the name of the action, shadow or key
    before: str | None  # JSON
    after: str | None  # JSON
    id: int = 0  # assigned by the store


class Commit(NamedTuple):
    """One experiment's part of a group commit: a page, the rewards in it, and its changes for the audit log."""

    page: LogPage
    rewards: Sequence[RewardRow]
    changes: Sequence[ChangeRow] = ()


class ExperimentRow(NamedTuple):
    """An experiment as created."""

    id: int
    name: str
    created: float
    spec: bytes  # JSON of messages.NewExperiment, without the model
    retired: bool


class Snapshot(NamedTuple):
    """The state of an experiment after an event of its log."""

    experiment: int
    last: int
    checksum: bytes  # of the body
    body: bytes
    page_checksum: bytes  # of the page that ends with that event, where the chain continues


class KeyRow(NamedTuple):
    """An API key; the store has only a hash of its secret."""

    id: str
    name: str
    digest: bytes
    scopes: str  # "experiment:scope" separated by spaces; * for all experiments
    created: float
    revoked: float | None


def page_checksum(before: bytes, last: int, body: bytes) -> bytes:
    """Checksum of a page that follows the page with the checksum ``before``."""
    return hashlib.blake2b(before + last.to_bytes(8, "little") + body, digest_size=16).digest()


def body_checksum(body: bytes) -> bytes:
    """Checksum of a snapshot's body."""
    return hashlib.blake2b(body, digest_size=16).digest()


class EventStore(Protocol):
    """Storage of experiments, their logs, snapshots, API keys and the audit log.

    Every method may raise :class:`StoreError`. A method that takes a ``change`` records it in the audit log in the same
    transaction: both are there or neither.

    Methods that change an experiment's log or snapshots (``commit``, ``set_aside``, ``redact``, ``add_snapshot``,
    ``drop_snapshots``) raise :class:`LeaseLost` without its lease. ``retire`` only marks the experiment and needs none.
    """

    @property
    def remains(self) -> tuple[str, ...]:
        """Where bytes of deleted rows stay, in words."""

    async def open(self) -> list[str]:
        """Connect, migrate the tables to this version, and return messages about damage found, if any.

        Raises :class:`StoreError` if something is lost, unless the store may salvage what is left.
        """

    async def close(self) -> None:
        """Release all leases and disconnect."""

    async def ping(self) -> None:
        """Write something small, and raise if that fails; reconnect if needed."""

    async def secret(self) -> bytes:
        """The secret of the store, drawn when it was created."""

    # --- experiments

    async def experiments(self) -> list[ExperimentRow]: ...

    async def create(
        self, name: str, created: float, spec: bytes, snapshot: bytes, change: ChangeRow | None = None
    ) -> ExperimentRow:
        """Add an experiment together with its first snapshot; ``KeyError`` if the name is taken."""

    async def retire(self, experiment: int) -> None: ...

    # --- leases

    async def acquire(self, experiment: int) -> bool:
        """Acquire the lease: the exclusive right to write to an experiment. False while another process holds it.

        The lease ends with the process. If the process stops without an end, it ends when no heartbeat has come for
        the lease time-out. Each acquisition has a higher *epoch*, the fencing token: every write checks in its own
        transaction that the epoch is still the latest, so that a process that continues writes nothing.
        """

    async def release(self, experiment: int) -> None: ...

    def holds(self, experiment: int) -> bool:
        """Whether this store holds the lease, as of the latest write or heartbeat; does no input or output."""

    # --- the log

    async def commit(self, commits: Sequence[Commit]) -> None:
        """Write all commits in one transaction, on disk when this returns.

        Raises ``LeaseLost`` without the lease, or if the log already has events or rewards of these numbers: then
        another process wrote them. Don't cancel it: the outcome of a cancelled commit is unknown.
        """

    def pages(self, experiment: int, after: int = 0) -> AsyncIterator[LogPage]:
        """Iterate over the pages that end after event ``after``, in order, reading some at a time."""

    def pages_back(self, experiment: int, decision: int) -> AsyncIterator[LogPage]:
        """Iterate backwards from the page that holds a decision to the first page; empty if no page holds it."""

    async def rewards(self, experiment: int, first: int, last: int) -> dict[int, RewardRow]:
        """Outcomes of the decisions from ``first`` to ``last``, by decision number."""

    async def rewards_of(self, experiment: int, decisions: Sequence[int]) -> dict[int, RewardRow]:
        """Outcomes of these decisions, by decision number."""

    async def next_reward(self, experiment: int, first: int) -> int | None:
        """The lowest decision from ``first`` on that has an outcome; None if there is none."""

    async def set_aside(self, experiment: int, after: int, why: str) -> int:
        """Move damaged pages after an event, and their rewards, out of the log; return the number of pages.

        Snapshots stay: drop those of later events, which don't belong to the log from now on.
        """

    async def redact(
        self,
        experiment: int,
        bodies: Sequence[tuple[int, bytes]],
        rewards_until: int,
        snapshots_before: int,
        decisions: Sequence[int] = (),
    ) -> None:
        """Replace the bodies of pages that end with these events, in one transaction.

        Deletes rewards written up to event ``rewards_until``, those of ``decisions``, and the snapshots before event
        ``snapshots_before``, which a replay could not start from any more.
        """

    async def count_set_aside(self, experiment: int) -> int:
        """Number of damaged pages that were set aside."""

    async def latest_set_aside(self, experiment: int) -> int:
        """Latest decision in pages set aside, or that a lost file may have issued; 0 if there is none."""

    # --- snapshots

    async def snapshots(self, experiment: int) -> list[int]:
        """Event numbers of the snapshots, the latest first."""

    async def snapshot(self, experiment: int, last: int) -> Snapshot:
        """The snapshot after an event; ``KeyError`` if there is none."""

    async def add_snapshot(self, snapshot: Snapshot) -> None:
        """Add a snapshot, or replace the one after the same event."""

    async def drop_snapshots(self, experiment: int, numbers: Sequence[int]) -> None:
        """Remove the snapshots after these events."""

    # --- keys

    async def keys(self) -> list[KeyRow]: ...

    async def add_key(self, key: KeyRow, change: ChangeRow | None = None) -> None:
        """Add a key; ``KeyError`` if its id exists."""

    async def revoke_key(self, key: str, at: float, change: ChangeRow | None = None) -> bool:
        """Revoke a key; False if there is no such key, or it is revoked already."""

    # --- audit log

    async def add_change(self, change: ChangeRow) -> None:
        """Record a change that the store itself does not hold, such as that of the settings."""

    async def changes(self, experiment: str | None, before: int, limit: int) -> list[ChangeRow]:
        """Changes of an experiment, or all, with ids below ``before``, the latest first."""
