"""Queries that are the same in SQLite and PostgreSQL. Both take ``$1``, ``$2``, … in the order of the values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import Any

from releaf.service.store.base import ChangeRow, ExperimentRow, KeyRow, LogPage, RewardRow, Snapshot

PAGES_PER_READ, BYTES_PER_READ = 2_000, 4 << 20
NUMBERS_PER_READ = 1_000  # of decisions
LAST = LogPage._fields.index("last")

SECRET = "SELECT value FROM meta WHERE name = 'secret'"  # noqa: S105
EXPERIMENTS = "SELECT id, name, created, spec, retired FROM experiments ORDER BY id"
PAGE_OF_DECISION = """
    SELECT last FROM pages WHERE experiment = $1 AND decision >= $2 ORDER BY experiment, decision, last LIMIT 1
"""
REWARDS = "SELECT decision, outcome, reward, at FROM rewards WHERE experiment = $1 AND decision BETWEEN $2 AND $3"
REWARDS_OF = "SELECT decision, outcome, reward, at FROM rewards WHERE experiment = $1 AND decision IN ({})"
NEXT_REWARD = "SELECT min(decision) FROM rewards WHERE experiment = $1 AND decision >= $2"
LATEST_SET_ASIDE = """
    SELECT max(decision) FROM pages_set_aside WHERE experiment = $1
    UNION ALL
    SELECT CAST(value AS bigint) FROM meta
    WHERE name = (SELECT 'issued:' || experiments.name FROM experiments WHERE id = $1)
"""
COUNT_SET_ASIDE = "SELECT count(*) FROM pages_set_aside WHERE experiment = $1"
SNAPSHOTS = "SELECT last FROM snapshots WHERE experiment = $1 ORDER BY last DESC"
SNAPSHOT = "SELECT * FROM snapshots WHERE experiment = $1 AND last = $2"
KEYS = "SELECT * FROM keys ORDER BY created, id"
ALL_CHANGES = "SELECT * FROM changes WHERE id < $1 ORDER BY id DESC LIMIT $2"
CHANGES = "SELECT * FROM changes WHERE experiment = $1 AND id < $2 ORDER BY experiment DESC, id DESC LIMIT $3"


class SqlQueries(ABC):
    """The reading methods of an event store."""

    @abstractmethod
    async def _read(self, statement: str, *values: Any) -> list[Any]:
        """Rows that a statement selects."""

    @abstractmethod
    async def _read_pages(self, experiment: int, beyond: int, count: int, *, back: bool = False) -> list[Any]:
        """Pages after an event, or before it, the latest first: at most ``count``, and about BYTES_PER_READ."""

    async def secret(self) -> bytes:
        return bytes.fromhex((await self._read(SECRET))[0][0])

    async def experiments(self) -> list[ExperimentRow]:
        return [ExperimentRow(*row)._replace(retired=bool(row[-1])) for row in await self._read(EXPERIMENTS)]

    async def pages(self, experiment: int, after: int = 0) -> AsyncIterator[LogPage]:
        while rows := await self._read_pages(experiment, after, PAGES_PER_READ):
            for row in rows:
                yield LogPage(*row)
            after = rows[-1][LAST]

    async def pages_back(self, experiment: int, decision: int) -> AsyncIterator[LogPage]:
        start = await self._read(PAGE_OF_DECISION, experiment, decision)
        before, count = (start[0][0] + 1, 1) if start else (0, 0)
        while rows := await self._read_pages(experiment, before, count, back=True):
            for row in rows:
                yield LogPage(*row)
            before, count = rows[-1][LAST], min(2 * count, PAGES_PER_READ)

    async def rewards(self, experiment: int, first: int, last: int) -> dict[int, RewardRow]:
        return {row[0]: RewardRow(*row) for row in await self._read(REWARDS, experiment, first, last)}

    async def rewards_of(self, experiment: int, decisions: Sequence[int]) -> dict[int, RewardRow]:
        found: dict[int, RewardRow] = {}
        for first in range(0, len(decisions), NUMBERS_PER_READ):
            some = decisions[first : first + NUMBERS_PER_READ]
            statement = REWARDS_OF.format(", ".join(f"${place}" for place in range(2, 2 + len(some))))
            found |= {row[0]: RewardRow(*row) for row in await self._read(statement, experiment, *some)}
        return found

    async def next_reward(self, experiment: int, first: int) -> int | None:
        decision: int | None = (await self._read(NEXT_REWARD, experiment, first))[0][0]
        return decision

    async def latest_set_aside(self, experiment: int) -> int:
        rows = await self._read(LATEST_SET_ASIDE, experiment)
        return max(int(row[0] or 0) for row in rows)

    async def count_set_aside(self, experiment: int) -> int:
        return int((await self._read(COUNT_SET_ASIDE, experiment))[0][0])

    async def snapshots(self, experiment: int) -> list[int]:
        return [row[0] for row in await self._read(SNAPSHOTS, experiment)]

    async def snapshot(self, experiment: int, last: int) -> Snapshot:
        rows = await self._read(SNAPSHOT, experiment, last)
        if not rows:
            raise KeyError((experiment, last))
        return Snapshot(*rows[0])

    async def keys(self) -> list[KeyRow]:
        return [KeyRow(*row) for row in await self._read(KEYS)]

    async def changes(self, experiment: str | None, before: int, limit: int) -> list[ChangeRow]:
        if experiment is None:
            return [ChangeRow(*row) for row in await self._read(ALL_CHANGES, before, limit)]
        return [ChangeRow(*row) for row in await self._read(CHANGES, experiment, before, limit)]
