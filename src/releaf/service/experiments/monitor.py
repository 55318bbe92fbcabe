"""Monitor of an experiment: reads its time series now and then, in a thread, for alerts and metrics."""

from __future__ import annotations

import asyncio
import time

from releaf.service.experiments.alerts import SeriesReading, find_alerts, read_series
from releaf.service.experiments.learner_slot import action_names
from releaf.service.experiments.series_summary import SeriesCopy
from releaf.service.experiments.state import ExperimentState
from releaf.service.messages import AlertInfo

SECONDS = 5.0  # between two readings
MAX_TIME_SHARE = 0.01  # of the time may go into readings


class ExperimentMonitor:
    """The latest reading of an experiment's time series."""

    def __init__(self) -> None:
        self.reading = SeriesReading([], [], {})
        self._next_at = 0.0
        self._read: tuple[int, int] | None = None  # decisions and outcomes of the latest reading

    async def read_if_due(self, state: ExperimentState) -> None:
        """Read the time series if it has changed, and the latest reading is old enough."""
        actions, counters = action_names(state.learner), state.counters
        if not actions:  # they come with the first decision
            return
        outcomes = counters.rewards + counters.defaults + counters.dropped
        started, now_at = time.monotonic(), (counters.decisions, outcomes)
        if started < self._next_at or now_at == self._read:
            return
        copy = SeriesCopy.of(state.series, state.learner.reward_range, state.cohorts.unsettled_from)
        self.reading, self._read = await asyncio.to_thread(read_series, copy, actions[0]), now_at
        self._next_at = started + max(SECONDS, (time.monotonic() - started) / MAX_TIME_SHARE)

    def alerts(self, state: ExperimentState, now: float) -> list[AlertInfo]:
        """The alerts of the experiment now."""
        return find_alerts(state, self.reading.shifts, self.reading.floored, now)
