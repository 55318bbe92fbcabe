"""The experiment of `releaf serve --personalizer` from its first start on."""

from __future__ import annotations

from pathlib import Path

import pytest
from event_stores import run_async

from releaf.service.experiments.registry import ExperimentRegistry
from releaf.service.many_actions import ManyActions
from releaf.service.personalizer.loop import ACTION_COLUMNS, CONTEXT_COLUMNS, ensure_loop
from releaf.service.settings import ServiceSettings
from releaf.service.store import open_store


def test_a_fresh_loop_is_maintained_before_and_after_its_first_rank(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = str(tmp_path / "store.db")
    registry = ExperimentRegistry(open_store(address), ServiceSettings(store=address))

    async def maintain_and_rank() -> None:
        await registry.start()
        try:
            await ensure_loop(registry, "dishes")
            await registry._maintain_once()
            assert "dishes" in registry._retention  # which comes last
            experiment, many = registry.find("dishes"), ManyActions({"tea": [0.5] * ACTION_COLUMNS}, is_ranked=True)
            await experiment.decide([[0.5] * CONTEXT_COLUMNS], ["first"], many=many)
            await registry._maintain_once()
            assert "tea" in experiment.monitor.reading.totals
        finally:
            await registry.stop()

    run_async(maintain_and_rank())
    assert not [record.message for record in caplog.records if record.levelname == "ERROR"]
