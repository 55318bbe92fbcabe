"""Recovery is bounded by snapshots: a log that is many times as long is not replayed for longer."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import postgres_server
import pytest

from releaf.service.experiments.registry import ExperimentRegistry
from releaf.service.messages import NewExperiment, PolicySpec, RewardOf
from releaf.service.settings import ServiceSettings
from releaf.service.store import open_store

SNAPSHOT_EVENTS = 400
MOST_OVERDUE = 4  # times the events after which a snapshot is due, since saving one takes a while


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "store.db") if request.param == "sqlite" else postgres_server.new_database()


async def started(address: str, seconds: float = 0.0) -> ExperimentRegistry:
    settings = ServiceSettings(store=address, snapshot_events=SNAPSHOT_EVENTS, snapshot_seconds=seconds)
    registry = ExperimentRegistry(open_store(address), settings)
    await registry.start()
    return registry


def test_a_log_of_any_length_is_replayed_from_its_latest_snapshot(address: str) -> None:
    async def replayed_after(batches: int) -> tuple[int, int]:
        """Events of the log, and those that a recovery replays when the process ends without a last snapshot."""
        registry = await started(address)
        experiment = registry.experiments.get("shop") or await registry.create(
            NewExperiment(name="shop", actions=["a", "b"], features=2, policy=PolicySpec(name="LinUCB"))
        )
        for _ in range(batches):
            made = await experiment.decide([[0.25, 0.5]] * 50, [None] * 50)
            await experiment.reward([RewardOf(decision=event.number, reward=0.5) for event in made])
        await experiment.snapshots.wait()
        await experiment.recover()
        events, replayed = experiment.last, experiment._recovery.replayed if experiment._recovery else -1
        await registry.stop()
        return events, replayed

    async def test() -> None:
        short, long = await replayed_after(20), await replayed_after(400)
        assert long[0] > 20 * short[0]
        assert 0 <= short[1] <= MOST_OVERDUE * SNAPSHOT_EVENTS
        assert 0 <= long[1] <= MOST_OVERDUE * SNAPSHOT_EVENTS

    asyncio.run(test())


def test_snapshots_that_grow_with_pending_decisions_become_rarer(tmp_path: Path) -> None:
    """Else they would take more and more of the time: without rewards, each is longer than the one before."""
    batches, batch = 200, 100

    async def test() -> None:
        registry = await started(str(tmp_path / "store.db"), seconds=1e6)  # then only overdue ones are saved
        experiment = await registry.create(
            NewExperiment(name="shop", actions=["a", "b"], features=2, policy=PolicySpec(name="LinUCB"))
        )
        saved = set()
        for _ in range(batches):
            await experiment.decide([[0.25, 0.5]] * batch, [None] * batch)
            await experiment.snapshots.wait()
            saved.add(experiment.snapshots.last)
        await registry.stop()
        pairs = list(pairwise(sorted(saved)))
        assert len(pairs) >= 3
        assert all(later - former >= former for former, later in pairs if former >= 3 * SNAPSHOT_EVENTS)

    asyncio.run(test())
