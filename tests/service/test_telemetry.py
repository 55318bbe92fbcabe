"""OpenTelemetry spans and metrics of a running service, and none where the packages are absent."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from polling import wait_until
from running_service import run_service
from service_api import Api

from releaf.service.app import make_server, make_service
from releaf.service.http.telemetry import MOST_EVENTS, Telemetry
from releaf.service.settings import ServiceSettings

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

CONTEXT = [0.25, 0.75]
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Traced(NamedTuple):
    """A service whose spans and metrics stay in memory."""

    api: Api
    spans: InMemorySpanExporter
    reader: InMemoryMetricReader

    def last_span(self, name: str) -> Any:
        """The latest span; it ends after the response is sent."""
        found: list[Any] = []

        def has_come() -> bool:
            found[:] = [span for span in self.spans.get_finished_spans() if span.name == name]
            return bool(found)

        wait_until(has_come)
        return found[-1]

    def sums(self, metric: str, experiment: str) -> dict[Any, int]:
        """Counts of an experiment, by whether decisions explored."""
        data: Any = self.reader.get_metrics_data()
        points = [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for one in scope.metrics
            if one.name == metric
            for point in one.data.data_points
        ]
        return {
            point.attributes.get("releaf.explored"): point.value
            for point in points
            if point.attributes.get("releaf.experiment") == experiment
        }


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider(metric_readers=[reader])
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    settings = ServiceSettings(store=str(tmp_path_factory.mktemp("service") / "store.db"), port=0, write_timeout=60)
    server = make_server(make_service(settings, telemetry=Telemetry(tracers, meters)), settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        api = Api(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
        with closing(api.http):
            yield Traced(api, spans, reader)
    finally:
        server.should_exit = True
        thread.join(60)
        meters.shutdown()
        tracers.shutdown()


@pytest.fixture
def path(traced: Traced) -> str:
    made = traced.api.new("LinTS")
    traced.spans.clear()
    return made


def test_the_span_of_a_decision_names_it_and_its_probability(traced: Traced, path: str) -> None:
    answer = traced.api.post(f"{path}/decide", {"context": CONTEXT}, traceparent=f"00-{TRACE}-{PARENT}-01")
    span = traced.last_span("decide")
    told = span.attributes
    assert told["releaf.experiment"] == path.rsplit("/", 1)[1]
    assert (told["releaf.decision.id"], told["releaf.decision.action"]) == (answer["decision"], answer["action"])
    assert told["releaf.decision.probability"] == answer["probability"]
    assert told["releaf.decision.explored"] == answer["explored"]
    assert "releaf.decision.cost" not in told
    assert (told["http.request.method"], told["http.response.status_code"]) == ("POST", 200)
    assert f"{span.context.trace_id:032x}" == TRACE  # a part of the client's trace
    assert f"{span.parent.span_id:016x}" == PARENT
    assert span.kind.name == "SERVER"
    assert span.end_time > span.start_time


def test_the_span_of_a_batch_has_an_event_for_each_decision_and_not_too_many(traced: Traced, path: str) -> None:
    answers = traced.api.post(f"{path}/decide", {"contexts": [CONTEXT] * (MOST_EVENTS + 20)})["decisions"]
    span = traced.last_span("decide")
    assert span.attributes["releaf.decisions"] == MOST_EVENTS + 20
    assert [event.attributes["releaf.decision.id"] for event in span.events] == [
        answer["decision"] for answer in answers[:MOST_EVENTS]
    ]
    assert span.events[0].attributes["releaf.decision.probability"] == answers[0]["probability"]


def test_the_span_of_a_reward_names_its_decision(traced: Traced, path: str) -> None:
    number = traced.api.post(f"{path}/decide", {"context": CONTEXT})["decision"]
    traced.api.post(f"{path}/reward", {"decision": number, "reward": 0.5})
    told = traced.last_span("reward").attributes
    assert (told["releaf.decision.id"], told["releaf.reward"], told["releaf.rewards"]) == (number, 0.5, 1)


def test_a_rejected_request_has_a_span_with_its_status_and_no_decision(traced: Traced, path: str) -> None:
    traced.api.refused(422, "invalid", "POST", f"{path}/decide", {"context": [1]})
    told = traced.last_span("decide").attributes
    assert told["http.response.status_code"] == 422
    assert "releaf.decision.id" not in told


def test_requests_that_neither_decide_nor_reward_have_no_span(traced: Traced, path: str) -> None:
    traced.api.get(path)
    traced.api.get("/healthz")
    traced.api.post(f"{path}/decide", {"context": CONTEXT})
    traced.last_span("decide")
    assert [span.name for span in traced.spans.get_finished_spans()] == ["decide"]


def test_metrics_count_decisions_and_rewards_and_measure_requests(traced: Traced, path: str) -> None:
    name = path.rsplit("/", 1)[1]
    answers = traced.api.post(f"{path}/decide", {"contexts": [CONTEXT] * 5})["decisions"]
    for _ in range(2):  # the second one repeats the reward
        traced.api.post(f"{path}/reward", {"decision": answers[0]["decision"], "reward": 1.0})
    traced.api.lines(f"{path}/reward", {"decision": answers[1]["decision"], "reward": 0.0})
    explored = sum(answer["explored"] for answer in answers)
    expected = {is_explored: count for is_explored, count in ((True, explored), (False, 5 - explored)) if count}
    assert traced.sums("releaf.decisions", name) == expected
    assert traced.sums("releaf.rewards", name) == {None: 2}
    data: Any = traced.reader.get_metrics_data()
    metrics = [one for scope in data.resource_metrics[0].scope_metrics for one in scope.metrics]
    (durations,) = [one for one in metrics if one.name == "releaf.request.duration"]
    operations = {point.attributes["releaf.operation"] for point in durations.data.data_points}
    assert {"decide", "reward"} <= operations
    assert all(point.sum > 0 for point in durations.data.data_points)


def test_slots_of_personalizers_api_are_traced_and_counted(traced: Traced) -> None:
    body = {"name": "news", "actions": {}, "features": 4, "action_features": 4}
    policy = {"name": "HybridLinUCB", "parameters": {"seed": 0, "least_probability": 0.1}}
    assert traced.api.http.post("/v1/experiments", json={**body, "policy": policy}).status_code == 201
    base = "/v1/experiments/news/personalizer/v1.1-preview.3/multislot"
    ask = {
        "eventId": "page",
        "actions": [{"id": "politics", "features": []}, {"id": "sports", "features": [{"length": 3}]}],
        "slots": [{"id": "top", "baselineAction": "politics"}, {"id": "side", "baselineAction": "sports"}],
    }
    assert traced.api.http.post(f"{base}/rank", json=ask).status_code == 201
    span = traced.last_span("rank_slots")
    first, second = (event.attributes for event in span.events)
    assert (first["releaf.decision.id"], second["releaf.decision.id"]) == (1, 2)
    assert (0 < first["releaf.decision.probability"] < 1, second["releaf.decision.probability"]) == (True, 1.0)
    rewards = {"reward": [{"slotId": "top", "value": 1.0}, {"slotId": "side", "value": 0.0}]}
    for _ in range(2):  # the second ones are ignored
        assert traced.api.http.post(f"{base}/events/page/reward", json=rewards).status_code == 204
    traced.last_span("reward_slots")
    told = [dict(span.attributes or {}).get("releaf.rewards") for span in traced.spans.get_finished_spans()]
    assert 2 in told
    assert sum(traced.sums("releaf.decisions", "news").values()) == 2
    assert traced.sums("releaf.rewards", "news") == {None: 2}


# --- the program ------------------------------------------------------------------------------------------------------


def test_the_service_sends_spans_and_metrics_to_the_collector_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: dict[str, bytes] = {}

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            received[self.path] = received.get(self.path, b"") + content
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_address[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
        with run_service(tmp_path, "--write-timeout", "60") as url:
            api = Api(url)
            with closing(api.http):
                path = api.new("LinUCB")
                api.post(f"{path}/decide", {"context": CONTEXT})
                wait_until(lambda: b"releaf.decision.probability" in received.get("/v1/traces", b""))
                wait_until(lambda: b"releaf.decisions" in received.get("/v1/metrics", b""))
        collector.shutdown()
    assert b"service.name" in received["/v1/traces"]


def test_without_the_packages_the_service_decides_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "opentelemetry.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(absent), *sys.path]))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    program = "from releaf.service.http import telemetry; assert telemetry.find_telemetry() is None"
    subprocess.run([sys.executable, "-c", program], check=True)
    with run_service(tmp_path, "--write-timeout", "60") as url:
        api = Api(url)
        with closing(api.http):
            path = api.new("LinUCB")
            number = api.post(f"{path}/decide", {"context": CONTEXT})["decision"]
            assert api.post(f"{path}/reward", {"decision": number, "reward": 1.0})["status"] == "learnt"
