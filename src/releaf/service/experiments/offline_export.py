"""Export of an experiment's decisions straight from its store, without a service."""

from __future__ import annotations

from collections.abc import AsyncIterator

from releaf.service.experiments.clock import MonotonicClock
from releaf.service.experiments.decision_export import export_decisions
from releaf.service.experiments.served_experiment import LIVE, ServedExperiment
from releaf.service.log.group_commit import GroupCommit
from releaf.service.settings import ServiceSettings
from releaf.service.store.base import EventStore


async def export_from_store(store: EventStore, name: str, file_format: str) -> AsyncIterator[bytes]:
    """Export all decisions of an experiment of an open store as a file, in chunks.

    The experiment is recovered as at the start of a service: its state knows which decisions are pending. Raises a
    ``ValueError`` if there is no such experiment, another process serves it, or it can't be recovered.
    """
    rows = {row.name: row for row in await store.experiments()}
    if name not in rows:
        raise ValueError(f"unknown experiment {name!r}: expected one of {', '.join(rows) or 'none'}")
    if not await store.acquire(rows[name].id):
        raise ValueError(
            f"another process serves experiment {name!r}: export it from that service, or from a backup "
            "(releaf store backup)"
        )
    settings = ServiceSettings()
    group_commit = GroupCommit(store, settings.write_timeout, lambda seconds, events: None)
    experiment = ServedExperiment(rows[name], store, group_commit, MonotonicClock(), settings)
    group_commit.start()
    try:
        await experiment.recover()
        if experiment.status != LIVE:
            raise ValueError(f"experiment {name!r} can't be recovered: {'; '.join(experiment.messages)}")
        async for part in export_decisions(experiment, file_format):
            yield part
    finally:
        await group_commit.stop()
        await store.release(rows[name].id)
