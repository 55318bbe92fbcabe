"""Export of the recorded decisions, by a process of its own, so that decisions don't wait for it."""

from __future__ import annotations

import asyncio
import logging
import sys
import weakref
from collections.abc import AsyncIterator

import msgspec

from releaf.service.errors import ApiError, StoreError
from releaf.service.experiments.decision_costs import weighs_costs
from releaf.service.experiments.learner_factory import has_control
from releaf.service.experiments.served_experiment import ServedExperiment
from releaf.service.log.export_files import FORMATS, ExportTask

CHUNK = 256 << 10  # bytes
log = logging.getLogger("releaf.service")
__all__ = ["FORMATS", "ExportLimit", "export_decisions"]


class ExportLimit:
    """Limits how many exports run at the same time."""

    def __init__(self, most: int) -> None:
        self._free = most

    def start(self, export: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Count an export until its iterator is gone, however it ends; an error with status 429 if there are many."""
        if not self._free:
            raise ApiError(429, "too_many_exports", "other exports are running: try again in a while", retry_after=5)
        self._free -= 1
        weakref.finalize(export, self._end)
        return export

    def _end(self) -> None:
        self._free += 1


async def export_decisions(experiment: ServedExperiment, address: str, file_format: str) -> AsyncIterator[bytes]:
    """Export all decisions as a file, in chunks.

    Parameters
    ----------
    experiment
        The experiment.
    address
        Of the store, which the process opens for reading.
    file_format
        One of FORMATS.
    """
    state = experiment.live()
    inputs, learners = state.learner.schema.inputs, [state.learner, *(shadow.learner for shadow in state.shadows)]
    task = ExportTask(
        store=address,
        experiment=experiment.id,
        file_format=file_format,
        names=list(inputs),
        kinds=[feature.kind for feature in inputs.values()],
        wants_all=state.learner.wants_all,
        has_slates=state.learner.traits.takes_action_features,
        has_groups=has_control(experiment.spec) or any(learner.control_share for learner in learners),
        has_costs=weighs_costs(state.learner),
        has_label_costs=any(learner.takes_label_costs for learner in learners),
    )
    await experiment.flush()
    command = (sys.executable, "-m", "releaf.service.log.export_files")
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
    process = await asyncio.create_subprocess_exec(*command, **pipes)  # type: ignore[arg-type]
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        process.stdin.write(msgspec.json.encode(task))  # not an argument: the address may have a password
        process.stdin.write_eof()
        while chunk := await process.stdout.read(CHUNK):
            yield chunk
        if await process.wait() != 0:
            why = (await process.stderr.read()).decode(errors="replace").strip().splitlines()[-1:]
            raise StoreError(f"the export of {experiment.name} failed: {' '.join(why)}")
    finally:
        if process.returncode is None:  # the client has gone
            process.kill()
            await process.wait()
