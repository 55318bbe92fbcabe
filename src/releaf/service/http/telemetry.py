"""OpenTelemetry spans and metrics of decisions and rewards, where the extra ``otel`` is installed.

Without its packages `find_telemetry` returns None, and requests do nothing for it. With them, spans and metrics go to
the providers that the program has set, or to the collector of ``OTEL_EXPORTER_OTLP_ENDPOINT`` (`configure_export`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any, Protocol

from releaf._version import __version__
from releaf.service.http.asgi import Scope
from releaf.service.messages import Learnt, RewardOf

try:
    from opentelemetry import metrics, propagate, trace
except ImportError:
    metrics = propagate = trace = None  # type: ignore[assignment]

TRACED_SCOPES = ("decide", "reward")  # operations that need them are traced
MOST_EVENTS = 100  # of one span: decisions of a batch
SERVER_ERROR = 500
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
log = logging.getLogger("releaf.service")


class MadeDecision(Protocol):
    """What a span tells of a decision: its event in the log has all of this."""

    number: int
    action: str | int
    probability: float | None
    explored: bool
    cost: float | None


def find_telemetry() -> Telemetry | None:
    """Spans and metrics for the providers of this process; None if the packages are absent."""
    return None if trace is None else Telemetry()


class Telemetry:
    """Makes the spans of requests, and counts decisions and rewards.

    Parameters
    ----------
    tracer_provider, meter_provider
        Of OpenTelemetry; None for those of the process.
    """

    def __init__(self, tracer_provider: Any = None, meter_provider: Any = None) -> None:
        self.tracer = trace.get_tracer("releaf.service", __version__, tracer_provider)
        meter = metrics.get_meter("releaf.service", __version__, meter_provider)
        self.decisions = meter.create_counter("releaf.decisions", "{decision}", "Decisions taken")
        self.rewards = meter.create_counter("releaf.rewards", "{reward}", "Rewards learnt")
        self.duration = meter.create_histogram("releaf.request.duration", "s", "Time to answer a request")

    def start(self, operation: str, scope: Scope) -> TracedRequest:
        """Start the span of a request, as a child of the client's, if its headers name one."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        attributes = {"http.request.method": scope["method"], "releaf.request_id": scope["request_id"]}
        experiment = scope.get("path_params", {}).get("experiment")
        if experiment is not None:
            attributes["releaf.experiment"] = experiment
        span = self.tracer.start_span(
            operation, propagate.extract(headers), kind=trace.SpanKind.SERVER, attributes=attributes
        )
        return TracedRequest(self, operation, span)


class TracedRequest:
    """A request with its span."""

    __slots__ = ("_operation", "_span", "_telemetry")

    def __init__(self, telemetry: Telemetry, operation: str, span: Any) -> None:
        self._telemetry, self._operation, self._span = telemetry, operation, span

    def add_decisions(self, experiment: str, made: Sequence[MadeDecision]) -> None:
        """Count decisions; the span has a single one as attributes, and those of a batch as events."""
        for explored in (False, True):
            number = sum(event.explored is explored for event in made)
            if number:
                labels: dict[str, Any] = {"releaf.experiment": experiment, "releaf.explored": explored}
                self._telemetry.decisions.add(number, labels)
        if not self._span.is_recording():
            return
        self._span.set_attribute("releaf.decisions", len(made))
        if len(made) == 1:
            self._span.set_attributes(_decision_attributes(made[0]))
            return
        for event in made[:MOST_EVENTS]:
            self._span.add_event("decision", _decision_attributes(event))

    def add_rewards(self, experiment: str, given: Sequence[RewardOf], results: Sequence[Learnt]) -> None:
        """Count the rewards that were new; the span has the decision of a single one."""
        learnt = sum(one.status == "learnt" for one in results)
        if learnt:
            self._telemetry.rewards.add(learnt, {"releaf.experiment": experiment})
        if self._span.is_recording():
            self._span.set_attribute("releaf.rewards", learnt)
            if len(given) == 1:
                self._span.set_attribute("releaf.decision.id", given[0].decision)
                if isinstance(given[0].reward, int | float):
                    self._span.set_attribute("releaf.reward", float(given[0].reward))

    def end(self, status: int, seconds: float) -> None:
        """End the span, and measure the time of the request."""
        labels: dict[str, Any] = {"releaf.operation": self._operation, "http.response.status_code": status}
        self._telemetry.duration.record(seconds, labels)
        self._span.set_attribute("http.response.status_code", status)
        if status >= SERVER_ERROR:
            self._span.set_status(trace.StatusCode.ERROR)
        self._span.end()


def _decision_attributes(event: MadeDecision) -> dict[str, Any]:
    attributes = {
        "releaf.decision.id": event.number,
        "releaf.decision.action": str(event.action),
        "releaf.decision.explored": event.explored,
        "releaf.decision.probability": event.probability,
        "releaf.decision.cost": event.cost,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def configure_export() -> None:
    """Send spans and metrics by OTLP where the environment names a collector; a program may have done so before."""
    if trace is None or not any(os.environ.get(name) for name in ENDPOINTS):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        log.warning("no spans are exported, %s: pip install 'releaf[otel]'", error)
        return
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "releaf")})
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(tracers)
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    metrics.set_meter_provider(MeterProvider(resource=resource, metric_readers=[reader]))
