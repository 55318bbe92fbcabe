"""Audit of a store after faults: every acknowledged answer is in the log, and replay gives the served model."""

from __future__ import annotations

import asyncio

from client_load import ClientLoad, reward_of

from releaf.service.experiments.serialization import EXPERIMENT_FORMAT
from releaf.service.experiments.state import ExperimentState
from releaf.service.log.audit import ExperimentAudit, audit
from releaf.service.log.events import AnyEvent, Decided, Rewarded
from releaf.service.log.page_chain import LogPosition, decode_events
from releaf.service.log.snapshot_check import load_snapshot
from releaf.service.store import open_store
from releaf.service.store.base import EventStore


def audit_after_load(
    address: str, load: ClientLoad | None = None, model: bytes | None = None
) -> ExperimentAudit[ExperimentState]:
    """Audit the only experiment, and compare it with what clients were told and the model they got."""
    return asyncio.run(_audit(address, load, model))


async def _audit(address: str, load: ClientLoad | None, model: bytes | None) -> ExperimentAudit[ExperimentState]:
    store = open_store(address)
    assert await store.open() == []
    try:
        report = await audit(store, EXPERIMENT_FORMAT)
        (found,) = report.experiments
        assert found.findings == [], found.findings
        assert found.state is not None
        assert EXPERIMENT_FORMAT.to_bytes(found.state) == await _from_latest_snapshot(store)
        if model is not None:
            assert found.state.learner.to_bytes() == model
        if load is not None:
            _compare(load, await history(store))
        return found
    finally:
        await store.close()


async def _from_latest_snapshot(store: EventStore) -> bytes:
    """The state as a service finds it that starts."""
    (row,) = await store.experiments()
    snapshot = await store.snapshot(row.id, (await store.snapshots(row.id))[0])
    state = load_snapshot(snapshot, EXPERIMENT_FORMAT)
    position = LogPosition(snapshot.last, snapshot.page_checksum)
    async for page in store.pages(row.id, position.last):
        position = position.advance(page)
        for event in decode_events(page):
            state.apply(event)
    return EXPERIMENT_FORMAT.to_bytes(state)


async def history(store: EventStore) -> list[AnyEvent]:
    """All events of the only experiment."""
    (row,) = await store.experiments()
    return [event async for page in store.pages(row.id) for event in decode_events(page)]


def _compare(load: ClientLoad, events: list[AnyEvent]) -> None:
    """All that was acknowledged is in the log as it was told, and nothing is there twice."""
    assert not load.violations, load.violations[:10]
    decided = [event for event in events if isinstance(event, Decided)]
    assert [event.number for event in decided] == list(range(1, len(decided) + 1))
    keys = [event.key for event in decided if event.key is not None]
    assert len(set(keys)) == len(keys)
    for number, told in load.decisions.items():
        event = decided[number - 1]
        names = ("action", "probability", "explored", "wants_reward", "context", "key")
        assert [getattr(event, name) for name in names] == [told[name] for name in names], f"{event} is not {told}"
    rewards = [(event.decision, event.reward) for event in events if isinstance(event, Rewarded)]
    assert len(dict(rewards)) == len(rewards)
    assert load.rewards.items() <= dict(rewards).items()
    assert all(reward == reward_of(number) for number, reward in rewards)
    changes = [event for event in events if not isinstance(event, Decided | Rewarded)]
    assert len(load.changes) <= len(changes)
