"""Redaction of log pages: what retention and erasure share.

A page that lost something can't be replayed. So two snapshots must exist after it first, and the snapshots before it go
in the transaction that redacts it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from releaf.service.experiments.served_experiment import ServedExperiment

PAGES_PER_WRITE = 100
SNAPSHOTS_NEEDED = 2  # after a redacted page, in case one is damaged


async def cover(
    experiment: ServedExperiment,
    last: int,
    contexts_before: float | None = None,
    decisions_before: float | None = None,
    last_decision: int = 0,
) -> bool:
    """Make sure that two sound snapshots are at or after an event; each needs an event of its own."""
    for _ in range(SNAPSHOTS_NEEDED):
        await experiment.change("note_redaction", contexts_before, decisions_before, last_decision)
        await asyncio.shield(experiment.save_snapshot())
        if len(await sound_snapshots(experiment, last)) >= SNAPSHOTS_NEEDED:
            return True
    experiment.report("the log is not redacted: it needs two snapshots first, and could not save them", logging.ERROR)
    return False


async def sound_snapshots(experiment: ServedExperiment, last: int) -> list[int]:
    """Event numbers of the sound snapshots at or after an event."""
    known = await experiment.store.snapshots(experiment.id)
    return [number for number in known if number >= last and number not in experiment.snapshots.damaged]


async def write_redacted(
    experiment: ServedExperiment,
    bodies: Sequence[tuple[int, bytes]],
    rewards_until: int,
    snapshots_before: int,
    decisions: Sequence[int] = (),
) -> None:
    """Write redacted bodies (see `EventStore.redact`)."""
    writing = experiment.store.redact(experiment.id, bodies, rewards_until, snapshots_before, decisions)
    await asyncio.shield(writing)  # the outcome of a cancelled write would be unknown
