"""Export of the recorded decisions, by a process of its own, so that decisions don't wait for it."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator

import msgspec

from releaf.service.errors import StoreError
from releaf.service.experiments.served_experiment import ServedExperiment
from releaf.service.log.export_files import FORMATS, ExportTask

CHUNK = 256 << 10  # bytes
log = logging.getLogger("releaf.service")
__all__ = ["FORMATS", "export_decisions"]


async def export_decisions(
    experiment: ServedExperiment, address: str, file_format: str, exports: asyncio.Semaphore
) -> AsyncIterator[bytes]:
    """Export all decisions as a file, in chunks.

    Parameters
    ----------
    experiment
        The experiment.
    address
        Of the store, which the process opens for reading.
    file_format
        One of FORMATS.
    exports
        Limits how many run at the same time.
    """
    inputs = experiment.live().learner.schema.inputs
    task = ExportTask(
        store=address,
        experiment=experiment.id,
        file_format=file_format,
        names=list(inputs),
        kinds=[feature.kind for feature in inputs.values()],
        wants_all=experiment.live().learner.wants_all,
    )
    await experiment.flush()
    async with exports:
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
