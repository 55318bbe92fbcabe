"""How many bytes a decision and a reward take in each store, and in an exported Parquet file.

The log is written through the service's own classes, and snapshots as they come about. Contexts are random numbers with
all their digits, which do not compress: what real features take is less.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.measure import Finding, Say
from benchmarks.service_processes import postgres

FEATURES, ACTIONS = 10, [f"action {number}" for number in range(4)]
DECISIONS, PAGES = 50_000, (1, 20, 500)  # decisions in a group commit
FEW = 2_000  # where each is a commit of its own
NAME = "cases"
LOG = "unnest('{releaf.pages, releaf.rewards}'::regclass[]) name"
Size = Callable[[Any], Awaitable[int]]


def run(say: Say) -> list[Finding]:
    findings = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(postgres())
        address = server.database() if server else None
        for together in PAGES:
            say(f"storage: embedded, {together} together")
            path = folder / f"{together}.db"
            findings += asyncio.run(_measured(str(path), "SQLite", together, _size_of_file))
            if address:
                say(f"storage: PostgreSQL, {together} together")
                findings += asyncio.run(_measured(address, "PostgreSQL", together, _size_of_tables))
    return findings


async def _measured(store: str, kind: str, together: int, size_of: Size) -> list[Finding]:
    """The growth of a store by decisions alone, then by their rewards; and, once, the size of an export."""
    from releaf.service.experiments.registry import ExperimentRegistry
    from releaf.service.messages import NewExperiment, RewardOf
    from releaf.service.settings import ServiceSettings
    from releaf.service.store import open_store

    decisions = DECISIONS if together > 1 else FEW
    registry = ExperimentRegistry(open_store(store), ServiceSettings(store=store, snapshot_events=10**9))
    await registry.start()
    experiment = await registry.create(NewExperiment(name=f"{NAME}{together}", actions=ACTIONS, features=FEATURES))
    draw, made, sizes = random.Random(0), [], [await size_of(registry.store)]
    for _ in range(decisions // together):
        contexts = [[draw.random() for _ in range(FEATURES)] for _ in range(together)]
        made += await experiment.decide(contexts, [None] * together)
    sizes.append(await size_of(registry.store))
    for first in range(0, decisions, together):
        given = made[first : first + together]
        rewards = [RewardOf(decision=event.number, reward=float(draw.random() < event.context[0])) for event in given]
        await experiment.reward(rewards)
    sizes.append(await size_of(registry.store))
    bytes_each = [(after - before) / decisions for before, after in pairwise(sizes)]
    detail = {"store": kind, "together": together, "features": FEATURES, "events": 2 * decisions}
    findings = [
        Finding(what=f"storage: {kind}, {together} together: a {what}", value=each, unit="bytes", detail=detail)
        for what, each in zip(("decision", "reward"), bytes_each, strict=True)
    ]
    if kind == "SQLite" and together == max(PAGES):
        findings += await _exported(experiment, decisions)
    await registry.stop()
    return findings


async def _exported(experiment: Any, decisions: int) -> list[Finding]:
    from releaf.service.experiments.decision_export import export_decisions
    from releaf.service.experiments.serialization import to_bytes
    from releaf.service.log.state_format import compress

    content = b"".join([chunk async for chunk in export_decisions(experiment, "parquet")])
    snapshot = compress(to_bytes(experiment.live()))
    return [
        Finding(what="storage: Parquet: a decision and its reward", value=len(content) / decisions, unit="bytes"),
        Finding(what="storage: a snapshot of AdaptiveReleaf", value=len(snapshot) / 1e6, unit="MB"),
    ]


async def _size_of_file(store: Any) -> int:
    """What the embedded store takes once its write-ahead log is in the file."""
    await store._write(lambda: list(store._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")))
    return int(store._path.stat().st_size)


async def _size_of_tables(store: Any) -> int:
    """Tables and indices of the log, without PostgreSQL's own."""
    import asyncpg

    connection = await asyncpg.connect(store._address)
    try:
        return int(await connection.fetchval("SELECT sum(pg_total_relation_size(name)) FROM " + LOG))
    finally:
        await connection.close()
