"""What Prometheus is told at /metrics.

What happens in a request is counted in plain numbers, which costs less than a microsecond; what is known elsewhere
(counts of experiments, the lag of the store) is read when the metrics are asked for. Everything is called from the
event loop, so nothing is locked.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from releaf._version import __version__
from releaf.service.messages import Counts

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
STATUSES = ("live", "standby", "recovering", "damaged", "retired")
RECENT = 1_000  # decisions that the exploration rate is of
LATENCIES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
BATCHES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0)  # events


class ExperimentReading(NamedTuple):
    """How an experiment stands when the metrics are asked for."""

    name: str
    status: str
    counts: Counts
    label_budget: int | None
    events: int
    snapshot: int


class StoreLag(NamedTuple):
    """Events that are applied in memory and not on disk yet, and how long the oldest has waited, in seconds."""

    events: int
    seconds: float


class Distribution:
    """How often a quantity lay in which range."""

    __slots__ = ("counts", "edges", "total")

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges, self.counts, self.total = edges, [0] * (len(edges) + 1), 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.edges, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """The upper edges, and how many values are not above them."""
        found, below = [], 0
        for edge, count in zip((*self.edges, math.inf), self.counts, strict=True):
            below += count
            found.append(("+Inf" if edge == math.inf else str(edge), float(below)))
        return found


class RecentDecisions:
    """The share of explored decisions among the last 1,000 of an experiment."""

    __slots__ = ("_explored", "_ring", "_total")

    def __init__(self) -> None:
        self._ring, self._total, self._explored = bytearray(RECENT), 0, 0

    def add(self, explored: Sequence[bool]) -> None:
        """Count decisions, of which these explored."""
        for one in explored:
            place = self._total % RECENT
            self._explored += one - self._ring[place]
            self._ring[place] = one
            self._total += 1

    @property
    def exploration_rate(self) -> float | None:
        """None before the first decision of this process."""
        return self._explored / min(self._total, RECENT) if self._total else None


class Metrics(Collector):
    """All that is measured, and its text for Prometheus.

    Attributes
    ----------
    experiments
        Asked for how the experiments stand; to be set by who knows.
    store_lag
        Asked for the lag of the store; to be set by who knows.
    """

    def __init__(self) -> None:
        self.experiments: Callable[[], Iterable[ExperimentReading]] = tuple
        self.store_lag: Callable[[], StoreLag] = lambda: StoreLag(0, 0.0)
        self._requests: dict[tuple[str, int], int] = {}
        self._latencies: dict[str, Distribution] = {}
        self._recent: dict[str, RecentDecisions] = {}
        self._commit_seconds, self._commit_events = Distribution(LATENCIES), Distribution(BATCHES)
        self._failed_commits = 0
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    # --- what happens

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """A request was answered. Operations are those of the API, so that there are few of them."""
        try:
            self._requests[operation, status] += 1
            self._latencies[operation].add(seconds)
        except KeyError:
            self._requests[operation, status] = 1
            self._latencies.setdefault(operation, Distribution(LATENCIES)).add(seconds)

    def recent(self, experiment: str) -> RecentDecisions:
        """Where the decisions of an experiment are counted; to be kept, and told each decision with ``add``."""
        return self._recent.setdefault(experiment, RecentDecisions())

    def committed(self, events: int, seconds: float) -> None:
        """A group of events is on disk."""
        self._commit_events.add(events)
        self._commit_seconds.add(seconds)

    def commit_failed(self) -> None:
        """A group of events could not be written."""
        self._failed_commits += 1

    # --- what is told

    def text(self) -> bytes:
        """All metrics, in the format named by ``CONTENT_TYPE``."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """What the registry asks for."""
        yield InfoMetricFamily("releaf", "The version of the service.", value={"version": __version__})
        yield from self._collect_requests()
        yield from self._collect_experiments(list(self.experiments()))
        yield from self._collect_store()

    def _collect_requests(self) -> Iterator[Metric]:
        count = CounterMetricFamily("releaf_requests", "Requests answered.", labels=("operation", "status"))
        for (operation, status), number in self._requests.items():
            count.add_metric((operation, str(status)), number)
        yield count
        seconds = HistogramMetricFamily("releaf_request_seconds", "Time to answer a request.", labels=("operation",))
        for operation, taken in self._latencies.items():
            seconds.add_metric((operation,), taken.buckets(), taken.total)
        yield seconds

    def _collect_experiments(self, readings: list[ExperimentReading]) -> Iterator[Metric]:
        """A value that is not known, such as the budget where there is none, is left out."""
        for name, told, value in COUNTERS:
            counter = CounterMetricFamily(name, told, labels=("experiment",))
            for reading in readings:
                counter.add_metric((reading.name,), value(reading))
            yield counter
        rates = {name: recent.exploration_rate for name, recent in self._recent.items()}
        rate: tuple[str, str, Callable[[ExperimentReading], float | None]] = (
            "releaf_exploration_rate",
            f"Share of explored decisions among the last {RECENT:,} of this process.",
            lambda reading: rates.get(reading.name),
        )
        for name, told, read in (rate, *GAUGES):
            gauge = GaugeMetricFamily(name, told, labels=("experiment",))
            for reading in readings:
                if (known := read(reading)) is not None:
                    gauge.add_metric((reading.name,), known)
            yield gauge
        statuses = GaugeMetricFamily("releaf_experiments", "Experiments by status.", labels=("status",))
        for status in STATUSES:
            statuses.add_metric((status,), sum(reading.status == status for reading in readings))
        yield statuses

    def _collect_store(self) -> Iterator[Metric]:
        lag = self.store_lag()
        yield GaugeMetricFamily("releaf_store_lag_events", "Events in memory that are not on disk yet.", lag.events)
        yield GaugeMetricFamily("releaf_store_lag_seconds", "How long the oldest of them has waited.", lag.seconds)
        yield CounterMetricFamily("releaf_commits_failed", "Commits that the store refused.", self._failed_commits)
        for name, told, taken in (
            ("releaf_commit_seconds", "Time to write a group of events to disk.", self._commit_seconds),
            ("releaf_commit_events", "Events written together.", self._commit_events),
        ):
            yield HistogramMetricFamily(name, told, taken.buckets(), taken.total)


COUNTERS: tuple[tuple[str, str, Callable[[ExperimentReading], int]], ...] = (
    ("releaf_decisions", "Decisions taken.", lambda reading: reading.counts.decisions),
    ("releaf_explored", "Decisions that explored.", lambda reading: reading.counts.explored),
    ("releaf_rewards_wanted", "Decisions that asked for their reward.", lambda reading: reading.counts.asked),
    ("releaf_rewards_received", "Rewards that came.", lambda reading: reading.counts.rewards),
    (
        "releaf_rewards_default",
        "Rewards that did not come; the default stood in.",
        lambda reading: reading.counts.defaults,
    ),
    (
        "releaf_rewards_dropped",
        "Rewards that did not come and are not waited for.",
        lambda reading: reading.counts.dropped,
    ),
)
GAUGES: tuple[tuple[str, str, Callable[[ExperimentReading], float | None]], ...] = (
    ("releaf_labels_spent", "Rewards asked for, which a budget counts.", lambda reading: reading.counts.asked),
    ("releaf_labels_budget", "Rewards that may be asked for.", lambda reading: reading.label_budget),
    ("releaf_decisions_waiting", "Decisions that wait for their reward.", lambda reading: reading.counts.waiting),
    ("releaf_mean_reward", "Mean of the rewards.", lambda reading: reading.counts.mean_reward),
    (
        "releaf_snapshot_age_events",
        "Events since the last snapshot.",
        lambda reading: reading.events - reading.snapshot,
    ),
)
