"""Prometheus metrics (/metrics).

Requests update plain numbers, which costs less than a microsecond; a scrape reads what other parts know (counts of
experiments, lag of the store). Everything runs in the event loop, so there are no locks.
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
from releaf.service.messages import Counts, SpendInfo

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
STATUSES = ("live", "standby", "recovering", "damaged", "retired")
ALERTS = ("stalled_rewards", "drift", "propensity_floor", "label_budget", "spend_budget", "pending_limit")
RECENT = 1_000  # decisions over which the exploration rate is computed
LATENCIES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
BATCHES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0)  # events


class ActionReading(NamedTuple):
    """Decisions that took an action, their rewards, and the sum of these."""

    action: str
    decisions: int
    rewards: int
    reward_sum: float


class LiftReading(NamedTuple):
    """By how much the policy in charge earns more than the first action would, with its bounds."""

    baseline: str
    lift: float
    low: float
    high: float


class ExperimentReading(NamedTuple):
    """An experiment at the time of a scrape."""

    name: str
    status: str
    counts: Counts
    label_budget: int | None
    events: int
    snapshot: int
    labels_spent: float | None = None  # of the learner in charge, if it has a budget
    alerts: Sequence[str] = ()  # kinds of the alerts
    actions: Sequence[ActionReading] = ()
    lift: LiftReading | None = None
    spend: SpendInfo | None = None  # where the policy weighs costs
    pending_limit: int | None = None  # of an experiment that is live


class StoreLag(NamedTuple):
    """Events in memory that are not on disk yet, and the age of the oldest in seconds."""

    events: int
    seconds: float


class ClockReading(NamedTuple):
    """Jumps of the machine's clock, and the seconds by which it is ahead of the service's."""

    jumps: int
    offset: float


class Histogram:
    """Counts of values by range."""

    __slots__ = ("counts", "edges", "total")

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges, self.counts, self.total = edges, [0] * (len(edges) + 1), 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.edges, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by upper edge, as Prometheus expects them."""
        cumulative, below = [], 0
        for edge, count in zip((*self.edges, math.inf), self.counts, strict=True):
            below += count
            cumulative.append(("+Inf" if edge == math.inf else str(edge), float(below)))
        return cumulative


class RecentDecisions:
    """The share of explored decisions among the last 1,000 of an experiment."""

    __slots__ = ("_explored", "_ring", "_total")

    def __init__(self) -> None:
        self._ring, self._total, self._explored = bytearray(RECENT), 0, 0

    def add(self, explored: Sequence[bool]) -> None:
        """Add decisions: whether each explored."""
        for one in explored:
            slot = self._total % RECENT
            self._explored += one - self._ring[slot]
            self._ring[slot] = one
            self._total += 1

    @property
    def exploration_rate(self) -> float | None:
        """The rate; None before the first decision of this process."""
        return self._explored / min(self._total, RECENT) if self._total else None


class Metrics:
    """Counts requests and commits, and renders all metrics for Prometheus.

    Attributes
    ----------
    experiments
        Callback that reads the experiments; set by the application.
    store_lag
        Callback that reads the lag of the store; set by the application.
    clock
        Callback that reads the clock; set by the application.
    """

    def __init__(self) -> None:
        self.experiments: Callable[[], Iterable[ExperimentReading]] = tuple
        self.store_lag: Callable[[], StoreLag] = lambda: StoreLag(0, 0.0)
        self.clock: Callable[[], ClockReading] = lambda: ClockReading(0, 0.0)
        self._requests: dict[tuple[str, int], int] = {}
        self._latencies: dict[str, Histogram] = {}
        self._recent: dict[str, RecentDecisions] = {}
        self._commit_seconds, self._commit_events = Histogram(LATENCIES), Histogram(BATCHES)
        self._loop_lag = Histogram(LATENCIES)
        self._failed_commits = 0
        self._process = ProcessCollector(registry=None)

    # --- updates

    def count_request(self, operation: str, status: int, seconds: float) -> None:
        """Count a request. Operations are those of the API, so that their number is bounded."""
        try:
            self._requests[operation, status] += 1
            self._latencies[operation].add(seconds)
        except KeyError:
            self._requests[operation, status] = 1
            self._latencies.setdefault(operation, Histogram(LATENCIES)).add(seconds)

    def recent_decisions(self, experiment: str) -> RecentDecisions:
        """The window of recent decisions of an experiment."""
        return self._recent.setdefault(experiment, RecentDecisions())

    def count_commit(self, events: int, seconds: float) -> None:
        self._commit_events.add(events)
        self._commit_seconds.add(seconds)

    def add_loop_lag(self, seconds: float) -> None:
        """Add how late a timer of the event loop was."""
        self._loop_lag.add(seconds)

    def count_failed_commit(self) -> None:
        self._failed_commits += 1

    # --- scrapes

    def text(self, is_readable: Callable[[str], bool] = lambda experiment: True) -> bytes:
        """Render the metrics in the format of ``CONTENT_TYPE``: those of the service, and of readable experiments."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Scrape(lambda: self._collect(is_readable)))
        registry.register(self._process)
        return generate_latest(registry)

    def _collect(self, is_readable: Callable[[str], bool]) -> Iterator[Metric]:
        yield InfoMetricFamily("releaf", "The version of the service.", value={"version": __version__})
        yield from self._collect_requests()
        yield from self._collect_experiments([one for one in self.experiments() if is_readable(one.name)])
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
        """Yield metrics of experiments; an unknown value, such as a missing budget, is left out."""
        for name, help_text, field in COUNTERS:
            counter = CounterMetricFamily(name, help_text, labels=("experiment",))
            for reading in readings:
                counter.add_metric((reading.name,), getattr(reading.counts, field))
            yield counter
        rates = {name: recent.exploration_rate for name, recent in self._recent.items()}
        about = f"Share of explored decisions among the last {RECENT:,} of this process."
        rate: tuple[str, str, Read] = ("releaf_exploration_rate", about, lambda reading: rates.get(reading.name))
        for name, help_text, read in (rate, *GAUGES):
            gauge = GaugeMetricFamily(name, help_text, labels=("experiment",))
            for reading in readings:
                if (known := read(reading)) is not None:
                    gauge.add_metric((reading.name,), known)
            yield gauge
        yield from _collect_spend(readings)
        yield from _collect_alerts(readings)
        yield from _collect_actions(readings)
        statuses = GaugeMetricFamily("releaf_experiments", "Experiments by status.", labels=("status",))
        for status in STATUSES:
            statuses.add_metric((status,), sum(reading.status == status for reading in readings))
        yield statuses

    def _collect_store(self) -> Iterator[Metric]:
        lag = self.store_lag()
        yield GaugeMetricFamily("releaf_store_lag_events", "Events in memory that are not on disk yet.", lag.events)
        yield GaugeMetricFamily("releaf_store_lag_seconds", "Age of the oldest of them.", lag.seconds)
        clock = self.clock()
        yield CounterMetricFamily("releaf_clock_jumps", "Jumps of the machine's clock by over 5 seconds.", clock.jumps)
        yield GaugeMetricFamily(
            "releaf_clock_offset_seconds", "Machine's clock less the clock of the service.", clock.offset
        )
        yield CounterMetricFamily("releaf_commits_failed", "Commits that failed.", self._failed_commits)
        for name, help_text, taken in (
            ("releaf_commit_seconds", "Time to write a group of events to disk.", self._commit_seconds),
            ("releaf_commit_events", "Events written together.", self._commit_events),
            ("releaf_event_loop_lag_seconds", "How late timers of the event loop are.", self._loop_lag),
        ):
            yield HistogramMetricFamily(name, help_text, taken.buckets(), taken.total)


def _collect_spend(readings: list[ExperimentReading]) -> Iterator[Metric]:
    """Yield metrics of experiments whose policies weigh costs; those of a budget only where there is one."""
    priced = [(reading.name, reading.spend) for reading in readings if reading.spend is not None]
    total = CounterMetricFamily("releaf_spend", "Sum of the costs of the actions taken.", labels=("experiment",))
    for name, spend in priced:
        total.add_metric((name,), spend.spent)
    yield total
    for field, metric, help_text in (
        ("cost_weight", "releaf_cost_weight", "Reward that a unit of cost counts for."),
        ("budget", "releaf_spend_budget", "What may be spent in a period of the budget."),
        ("ahead", "releaf_spend_ahead", "Spend of the policy in charge ahead of its allowance, or behind."),
    ):
        gauge = GaugeMetricFamily(metric, help_text, labels=("experiment",))
        for name, spend in priced:
            if (known := getattr(spend, field)) is not None:
                gauge.add_metric((name,), known)
        yield gauge


def _collect_alerts(readings: list[ExperimentReading]) -> Iterator[Metric]:
    alerts = GaugeMetricFamily(
        "releaf_alerts",
        "Alerts of the experiment by kind; the dashboard says what to do.",
        labels=("experiment", "kind"),
    )
    for reading in readings:
        for kind in ALERTS:
            alerts.add_metric((reading.name, kind), sum(one == kind for one in reading.alerts))
    yield alerts


def _collect_actions(readings: list[ExperimentReading]) -> Iterator[Metric]:
    """Yield metrics of actions, which are a few seconds old."""
    labels = ("experiment", "action")
    decisions = CounterMetricFamily("releaf_action_decisions", "Decisions that took the action.", labels=labels)
    rewards = CounterMetricFamily("releaf_action_rewards", "Rewards of these decisions.", labels=labels)
    sums = GaugeMetricFamily("releaf_action_reward_sum", "Sum of these rewards.", labels=labels)
    for reading in readings:
        for one in reading.actions:
            decisions.add_metric((reading.name, one.action), one.decisions)
            rewards.add_metric((reading.name, one.action), one.rewards)
            sums.add_metric((reading.name, one.action), one.reward_sum)
    yield from (decisions, rewards, sums)
    about = "By how much the policy in charge earns more for each decision than the first action would"
    for suffix, field, what in (
        ("", "lift", "."),
        ("_low", "low", ": lower bound."),
        ("_high", "high", ": upper bound."),
    ):
        gauge = GaugeMetricFamily(f"releaf_lift{suffix}", about + what, labels=("experiment", "baseline"))
        for reading in readings:
            if reading.lift is not None:
                gauge.add_metric((reading.name, reading.lift.baseline), getattr(reading.lift, field))
        yield gauge


class _Scrape(Collector):
    """One scrape, as a collector of a registry."""

    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterator[Metric]:
        return self._collect()


COUNTERS = (  # field of the counts
    ("releaf_decisions", "Decisions taken.", "decisions"),
    ("releaf_explored", "Decisions that explored.", "explored"),
    ("releaf_rewards_wanted", "Decisions that asked for their reward.", "asked"),
    ("releaf_rewards_received", "Rewards received.", "rewards"),
    ("releaf_rewards_default", "Decisions without a reward in time that got the default.", "defaults"),
    ("releaf_rewards_dropped", "Decisions without a reward in time that were dropped.", "dropped"),
    ("releaf_decisions_discarded", "Of those that were dropped: their clients took a default instead.", "discarded"),
)
Read = Callable[[ExperimentReading], float | None]
GAUGES: tuple[tuple[str, str, Read], ...] = (
    (
        "releaf_labels_spent",
        "Labels spent: decisions that asked for their reward, which the label budget counts.",
        lambda one: one.counts.asked if one.labels_spent is None else one.labels_spent,
    ),
    ("releaf_labels_budget", "Label budget: rewards that may be asked for.", lambda one: one.label_budget),
    (
        "releaf_decisions_waiting",
        "Pending decisions: those that wait for their reward.",
        lambda one: one.counts.waiting,
    ),
    (
        "releaf_decisions_waiting_limit",
        "Number of decisions that may be pending; new ones are refused beyond it.",
        lambda one: one.pending_limit,
    ),
    (
        "releaf_decisions_unaccounted",
        "Decisions that asked for a reward, less those rewarded, defaulted, dropped or waiting: always 0.",
        lambda one: (
            one.counts.asked - one.counts.rewards - one.counts.defaults - one.counts.dropped - one.counts.waiting
        ),
    ),
    ("releaf_mean_reward", "Mean of the rewards.", lambda one: one.counts.mean_reward),
    ("releaf_snapshot_age_events", "Events since the last snapshot.", lambda one: one.events - one.snapshot),
)
