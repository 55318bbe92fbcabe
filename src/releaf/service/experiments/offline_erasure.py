"""Erasure of a subject in a store that no service uses, and the search for it in a backup."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from releaf.service.errors import StoreError
from releaf.service.experiments.change_records import TERMINAL
from releaf.service.experiments.clock import MonotonicClock
from releaf.service.experiments.erasure import erase_subject
from releaf.service.experiments.keyed_hashes import KeyedHashes
from releaf.service.experiments.served_experiment import LIVE, ServedExperiment
from releaf.service.log.events import Decided, decode_page
from releaf.service.log.group_commit import GroupCommit
from releaf.service.messages import ErasureProof
from releaf.service.settings import ServiceSettings
from releaf.service.store.backup_file import open_backup
from releaf.service.store.base import EventStore, ExperimentRow
from releaf.service.store.read_only import SqliteReader
from releaf.service.store.sql_queries import SqlQueries


async def erase_in_store(store: EventStore, name: str, subject: str) -> ErasureProof:
    """Erase all decisions of a subject in an open store; a ``ValueError`` if a service serves the experiment."""
    row = await _find(store, name)
    if not await store.acquire(row.id):
        raise ValueError(f"another process serves experiment {name!r}: ask it to erase, or stop it first")
    try:
        async with _served(store, row) as experiment:
            return await erase_subject(experiment, subject, TERMINAL)
    finally:
        await store.release(row.id)


@asynccontextmanager
async def _served(store: EventStore, row: ExperimentRow) -> AsyncIterator[ServedExperiment]:
    """The experiment as a service would serve it, but without requests."""
    commits = GroupCommit(store, math.inf, lambda seconds, events: None)
    experiment = ServedExperiment(row, store, commits, MonotonicClock(), ServiceSettings())
    commits.start()
    try:
        await experiment.recover()
        if experiment.status != LIVE:
            raise StoreError("; ".join(experiment.messages))
        yield experiment
    finally:
        await commits.stop()


async def _find(store: EventStore | SqlQueries, name: str) -> ExperimentRow:
    rows = {row.name: row for row in await store.experiments()}
    if name not in rows:
        raise ValueError(f"unknown experiment {name!r}: expected one of {', '.join(rows) or 'none'}")
    return rows[name]


async def count_in_backup(path: Path, name: str, subject: str) -> tuple[str, int]:
    """Time of a backup by its manifest, and how many decisions of a subject it holds."""
    with open_backup(path) as (connection, manifest):
        if name not in {one.name for one in manifest.experiments}:
            return manifest.created, 0
        reader, found = SqliteReader(connection), 0
        row = await _find(reader, name)
        try:
            hashed = KeyedHashes(await reader.secret(), row.id).subject(subject)
        except IndexError:  # of an earlier version, whose decisions had no subjects
            return manifest.created, 0
        async for page in reader.pages(row.id):
            if hashed.encode() in page.body:
                found += sum(isinstance(one, Decided) and one.subject == hashed for one in decode_page(page.body))
        return manifest.created, found
