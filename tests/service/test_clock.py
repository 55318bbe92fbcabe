"""Jumps of the machine's clock: reported, and without effect on the deadlines of a running process."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from releaf.service.experiments.clock import MonotonicClock
from releaf.service.experiments.registry import ExperimentRegistry
from releaf.service.http.metrics import ClockReading, Metrics
from releaf.service.messages import NewExperiment, PolicySpec, RewardRules
from releaf.service.settings import ServiceSettings
from releaf.service.store import open_store

DAY = 86_400.0


class Machine:
    """A machine whose clocks a test sets."""

    def __init__(self) -> None:
        self.time_of_day, self.monotonic = 1_800_000_000.0, 1000.0

    def wait(self, seconds: float) -> None:
        self.time_of_day += seconds
        self.monotonic += seconds

    def clock(self) -> MonotonicClock:
        return MonotonicClock(lambda: self.time_of_day, lambda: self.monotonic)


@pytest.mark.parametrize("jump", [DAY, -DAY, 5.5, -5.5])
def test_a_jump_is_found_once_and_does_not_change_the_time(jump: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wait(100.0)
    assert clock.find_jump() is None
    before = clock.now()
    machine.time_of_day += jump
    machine.wait(1.0)
    assert clock.find_jump() == pytest.approx(jump)
    assert clock.jumps == 1
    assert clock.offset() == pytest.approx(jump)
    assert clock.now() == pytest.approx(before + 1.0)
    machine.wait(DAY)
    assert clock.find_jump() is None
    machine.time_of_day -= jump
    assert clock.find_jump() == pytest.approx(-jump)
    assert clock.jumps == 2


def test_small_adjustments_are_no_jumps_even_if_they_add_up() -> None:
    machine = Machine()
    clock = machine.clock()
    for _ in range(100):
        machine.time_of_day += 0.5
        machine.wait(0.5)
        assert clock.find_jump() is None
    assert clock.jumps == 0
    assert clock.offset() == pytest.approx(50.0)


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_deadlines_pass_by_the_monotonic_clock_whatever_the_machine_clock_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, jump: float
) -> None:
    machine = Machine()

    async def test() -> None:
        store = open_store(str(tmp_path / "store.db"))
        registry = ExperimentRegistry(store, ServiceSettings(), clock=machine.clock())
        await registry.start()
        assert registry._maintenance is not None
        registry._maintenance.cancel()  # this test does it by hand
        rules = RewardRules(within_seconds=60.0, default=0.0)
        spec = NewExperiment("shop", ["tea", "milk"], 2, PolicySpec("EpsilonGreedy"), rules)
        experiment = await registry.create(spec)
        await experiment.decide([[0.5, 0.5]] * 20, [None] * 20)
        machine.time_of_day += jump
        machine.wait(59.0)
        with caplog.at_level(logging.WARNING):
            await registry._maintain_once()
        assert f"the machine's clock jumped by {jump:+.1f} s" in caplog.text
        assert experiment.live().counts().waiting == 20
        machine.wait(2.0)
        await registry._maintain_once()
        counts = experiment.live().counts()
        assert (counts.waiting, counts.defaults) == (0, 20)
        assert registry.clock.jumps == 1
        await registry.stop()

    asyncio.run(test())


def test_jumps_are_a_metric() -> None:
    metrics = Metrics()
    metrics.clock = lambda: ClockReading(2, -3600.0)
    text = metrics.text().decode()
    assert "releaf_clock_jumps_total 2.0" in text
    assert "releaf_clock_offset_seconds -3600.0" in text
