"""What every store can do. The service writes through this interface only.

An experiment's log is a chain of *pages*: the events of one group commit, in order. Each page's checksum covers the
checksum of the page before it, so that a page that is lost, altered or out of place is noticed. Rewards also stand in
a table of their own, which is written in the same transaction: with it a decision's reward is found without reading
the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

FIRST_CHECKSUM = b"\0" * 16


class StoreError(Exception):
    """The store can't be written or read now: the disk is full, the server is gone.

    Nothing of a commit was kept as long as the lease is still held. Where it is not (:meth:`Store.holds`), the
    connection broke, perhaps just after the commit: acquire the lease again and read the log from where it was known.
    """


class LeaseLost(StoreError):
    """Another process may write to the experiment now, so this one must not."""


class Page(NamedTuple):
    """Some consecutive events of an experiment."""

    experiment: int
    last: int  # the number of its last event; events count from 1
    events: int  # how many there are
    decision: int  # the number of the latest decision before or in this page
    at: float  # when the last event happened, in seconds since 1970
    checksum: bytes
    body: bytes


class RewardRow(NamedTuple):
    """What became of a decision that waited for its reward."""

    decision: int
    outcome: str  # "rewarded", "default" or "dropped"
    reward: str | None  # JSON; None where it was dropped
    at: float


class Commit(NamedTuple):
    """What is written in one go for one experiment."""

    page: Page
    rewards: Sequence[RewardRow]


class ExperimentRow(NamedTuple):
    """An experiment as it was created."""

    id: int
    name: str
    created: float
    spec: bytes  # JSON of messages.NewExperiment, the model left out
    retired: bool


class Snapshot(NamedTuple):
    """The state of an experiment after an event of its log."""

    experiment: int
    last: int
    checksum: bytes  # of the body
    body: bytes
    page_checksum: bytes  # of the page that ends with that event, where the chain goes on


class KeyRow(NamedTuple):
    """An API key, of which only a hash is kept."""

    id: str
    name: str
    digest: bytes
    scopes: str  # "experiment:scope" separated by spaces; * for all experiments
    created: float
    revoked: float | None


def page_checksum(before: bytes, last: int, body: bytes) -> bytes:
    """The checksum of a page that follows the page with the checksum ``before``."""
    return hashlib.blake2b(before + last.to_bytes(8, "little") + body, digest_size=16).digest()


def body_checksum(body: bytes) -> bytes:
    """The checksum of a snapshot."""
    return hashlib.blake2b(body, digest_size=16).digest()


class Store(Protocol):
    """Keeps experiments, their logs and snapshots. Every method may raise :class:`StoreError`.

    What changes an experiment's log or snapshots (``commit``, ``set_aside``, ``add_snapshot``, ``drop_snapshots``)
    raises :class:`LeaseLost` without its lease; ``retire`` only marks the experiment and needs none.
    """

    async def open(self) -> list[str]:
        """Connect, bring tables to this version, and return messages about damage that was found, if any."""

    async def close(self) -> None:
        """Give up all leases and disconnect."""

    async def ping(self) -> None:
        """Raise unless something can be written, which takes no more than a write; reconnect where that is needed."""

    # --- experiments

    async def experiments(self) -> list[ExperimentRow]: ...

    async def create(self, name: str, created: float, spec: bytes, snapshot: bytes) -> ExperimentRow:
        """Keep a new experiment together with its first snapshot; ``KeyError`` where the name is taken."""

    async def retire(self, experiment: int) -> None: ...

    # --- leases

    async def acquire(self, experiment: int) -> bool:
        """Become the only writer of an experiment; False while another process is. Ends with this process."""

    async def release(self, experiment: int) -> None: ...

    def holds(self, experiment: int) -> bool:
        """Whether this store is the experiment's writer, as far as it knows; answers at once."""

    # --- the log

    async def commit(self, commits: Sequence[Commit]) -> None:
        """Write all of it or nothing; on disk when it returns.

        ``LeaseLost`` where the lease is gone, or where events or rewards of these numbers are in the log already: then
        another process wrote them. Let it finish: where it is cancelled, it may or may not have been written.
        """

    def pages(self, experiment: int, after: int = 0) -> AsyncIterator[Page]:
        """The pages whose last event comes after ``after``, in order, read some at a time."""

    def pages_back(self, experiment: int, decision: int) -> AsyncIterator[Page]:
        """Pages from the one that holds a decision backwards to the first; none where no page holds it."""

    async def rewards(self, experiment: int, first: int, last: int) -> dict[int, RewardRow]:
        """What became of the decisions from ``first`` to ``last``, by their number."""

    async def set_aside(self, experiment: int, after: int, why: str) -> int:
        """Move pages after an event, which can't be read or trusted, out of the log, with their rewards; how many.

        Snapshots stay: drop those of later events, which would belong to another log from now on.
        """

    async def latest_set_aside(self, experiment: int) -> int:
        """The number of the latest decision in pages that were set aside; 0 where there are none."""

    # --- snapshots

    async def snapshots(self, experiment: int) -> list[int]:
        """After which events there are snapshots, the latest first."""

    async def snapshot(self, experiment: int, last: int) -> Snapshot:
        """The snapshot after an event; ``KeyError`` where there is none."""

    async def add_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, in the place of one after the same event."""

    async def drop_snapshots(self, experiment: int, numbers: Sequence[int]) -> None:
        """Remove the snapshots after these events."""

    # --- keys

    async def keys(self) -> list[KeyRow]: ...

    async def add_key(self, key: KeyRow) -> None:
        """Keep a new key; ``KeyError`` where there is one of that id."""

    async def revoke_key(self, key: str, at: float) -> bool:
        """Note that a key is no longer good; False where there is none, or it was revoked before."""
