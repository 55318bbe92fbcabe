"""Both clients against a real service, also over a faulty connection."""

from __future__ import annotations

import asyncio
import csv
import gc
import io
import json
import logging
import pickle
import re
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, get_type_hints
from uuid import uuid4

import httpx
import numpy as np
import pytest
from client_kinds import ACTIONS, FEATURES, KINDS, PATIENT, new_experiment, patient_client, patients
from flaky_server import run_flaky_server
from polling import TIMEOUT_SECONDS
from pyarrow import parquet
from running_service import free_port, run_service, start_service

import releaf
from releaf.client import AsyncClient, Client, Conflict, Decision, ServiceError, Unavailable
from releaf.client.request_encoding import split_by_size


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with run_service(tmp_path_factory.mktemp("service")) as url:
        yield url


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]


@pytest.fixture
def client(kind: Any, service: str) -> Iterator[Any]:
    with kind(service) as made:
        yield made


@pytest.fixture
def name(service: str) -> str:
    return new_experiment(service)


def decided(service: str, name: str) -> int:
    with Client(service) as client:
        return int(client.info(name)["counts"]["decisions"])


# --- what the service offers --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["decide", "decide_stream", "decisions", "export", "feed"])
def test_the_documented_types_of_methods_can_be_resolved(method: str) -> None:
    result = str(get_type_hints(getattr(Client, method))["return"])
    assert ("Iterator" in result) == (method in ("decide_stream", "decisions", "feed"))


def test_a_blocking_client_works_inside_a_running_event_loop(service: str, name: str) -> None:
    async def main() -> list[Any]:
        with patient_client(service) as client:
            return [client.decide(name, PATIENT), *client.decide_stream(name, patients(3), chunk=2)]

    assert [decision.id for decision in asyncio.run(main())] == [1, 2, 3, 4]


def test_every_method_works_against_a_service(kind: Any, service: str, tmp_path: Path) -> None:
    with run_flaky_server(service) as proxy, kind(proxy.url) as client:
        live_a_life(client, tmp_path)
        called = {(arrived.method, arrived.path.partition("?")[0]) for arrived in proxy.received}
    offered = httpx.get(f"{service}/openapi.json").json()["paths"]
    for path, methods in offered.items():
        # Personalizer has a client of its own, and defaults are reported only where a decision comes too late.
        if path.startswith("/v1/") and "/personalizer/" not in path and not path.endswith("/discard"):
            pattern = re.compile(re.sub(r"{\w+}", "[^/]+", path))
            for method in methods:
                assert any(verb == method.upper() and pattern.fullmatch(place) for verb, place in called), path


def live_a_life(client: Any, folder: Path) -> None:
    name = f"life-{uuid4().hex[:8]}"
    assert client.health()["version"] == releaf.__version__
    assert "AdaptiveReleaf" in [policy["name"] for policy in client.policies()]
    made = client.create(name, ACTIONS, FEATURES, policy="LinUCB", parameters={"alpha": 0.5})
    assert (made["name"], made["status"], made["actions"]) == (name, "live", ACTIONS)
    assert made["features"] == FEATURES.to_dict()
    assert name in [one["name"] for one in client.experiments()]
    assert client.info(name) == made

    client.add_shadow(name, "rival", "EpsilonGreedy", {"seed": 1})
    client.add_shadow(name, "other", "Random")
    decision = client.decide(name, PATIENT)
    assert isinstance(decision, Decision)
    assert decision.id == 1
    assert decision.action in ACTIONS
    assert decision.wants_reward
    assert client.reward(name, decision, 1.0) == "learnt"
    assert client.reward(name, decision.id, 1.0) == "repeated"
    batch = client.decide_many(name, [PATIENT, [50, None, True], np.array([60.0, np.nan, 1.0])])
    assert [one.id for one in batch] == [2, 3, 4]
    assert client.reward_many(name, [(batch[0], 0.0), (3, 1)]) == ["learnt", "learnt"]

    assert len(client.relevance(name)["actions"]) == 2
    assert client.partition(name, "age")["feature"] == "age"
    assert client.explain(name, decision)["action"] == decision.action
    assert client.preview(name, PATIENT)["action"] in ACTIONS
    assert sum(point["decisions"] for point in client.series(name)) == 4
    assert sum(point["decisions"] for point in client.series(name, since="2020-01-01", limit=1)) == 4
    summary = client.summary(name, until=datetime.now(UTC) + timedelta(days=1), baseline=ACTIONS[1])
    assert (summary["decisions"], summary["baseline"]) == (4, ACTIONS[1])
    assert [one["decision"] for one in client.decisions(name)] == [4, 3, 2, 1]
    assert [one["decision"] for one in client.decisions(name, outcome="waiting")] == [4]
    frozen = client.policy(name)
    assert frozen is not None
    assert client.policy(name, etag=frozen.etag) is None
    client.export(name, folder / "log.csv")
    kept = client.set_retention(name, contexts_days=30)["retention"]
    assert kept == {"contexts_days": 30, "decisions_days": None, "hash_contexts": False}
    assert [one["change"] for one in client.changes(name, page=2)][0::3] == ["set_retention", "create"]
    assert client.erase_subject(name, "nobody")["decisions"] == 0
    feed = client.feed(name)
    with patient_client(client_url(client)) as other, deciding(other, name):
        assert next(feed).data["decision"] >= 5
    feed.close()

    assert client.observe(name, PATIENT, "ward", 1.0) == "learnt"
    assert client.add_action(name, "refer/élan ..")["actions"] == [*ACTIONS, "refer/élan .."]
    assert client.retire_action(name, "home")["actions"] == ["ward", "refer/élan .."]
    assert client.model(name).actions == ("ward", "refer/élan ..")
    assert [shadow["name"] for shadow in client.remove_shadow(name, "other")["shadows"]] == ["rival"]
    with pytest.raises(Conflict, match="not shown to earn more"):
        client.promote(name, "rival")
    promoted = client.promote(name, "rival", force=True)
    assert promoted["policy"]["name"] == "EpsilonGreedy"
    assert [shadow["name"] for shadow in promoted["shadows"]] == ["former"]
    assert client.retire(name)["status"] == "retired"
    with pytest.raises(Conflict, match="retired"):
        client.decide(name, PATIENT)


def client_url(client: Any) -> str:
    return str((client if isinstance(client, Client) else client._client).url)


def test_a_learner_continues_in_a_service(client: Any, tmp_path: Path) -> None:
    learner = releaf.LinTS(ACTIONS, FEATURES, seed=0)
    for patient in patients(5):
        learner.learn(learner.decide(patient), 1.0)
    learner.save(tmp_path / "learner.releaf")
    for model in (learner, learner.to_bytes(), tmp_path / "learner.releaf"):
        made = f"model-{uuid4().hex[:8]}"
        client.create(made, ACTIONS, FEATURES, policy="LinTS", model=model)
        assert client.model(made).estimate([PATIENT]) == pytest.approx(learner.estimate([PATIENT]))


def test_a_decision_has_the_fields_of_the_api_message(client: Any, name: str) -> None:
    from releaf.service.messages import Answer

    fields = {"id" if field == "decision" else field for field in Answer.__struct_fields__}
    assert fields | {"is_default", "context", "error"} == set(Decision.__dataclass_fields__)
    made = f"deadline-{uuid4().hex[:8]}"
    client.create(made, ACTIONS, 3, policy="LinUCB", reward_within=3600, reward_default=0.0)
    deadline = client.decide(made, [0, 0, 0]).deadline
    assert timedelta(minutes=59) < deadline - datetime.now(UTC) < timedelta(minutes=61)


def test_errors_have_status_code_and_message(client: Any, name: str) -> None:
    with pytest.raises(ServiceError, match="unknown experiment 'nowhere'") as unknown:
        client.decide("nowhere", PATIENT)
    assert (unknown.value.status, unknown.value.code) == (404, "unknown_experiment")
    with pytest.raises(ServiceError, match="age") as wrong:
        client.decide(name, PATIENT | {"age": 500})
    assert wrong.value.status == 422
    with pytest.raises(Conflict, match=name):
        client.create(name, ACTIONS, 2)
    with pytest.raises(ServiceError) as late:
        client.reward(name, 99, 1.0)
    assert late.value.status == 404
    decision = client.decide(name, PATIENT)
    client.reward(name, decision, 1.0)
    with pytest.raises(Conflict):
        client.reward(name, decision, 0.0)
    with pytest.raises(ServiceError):
        client.decide_many(name, [PATIENT, {"age": 3}])
    assert client.info(name)["counts"]["decisions"] == 1


def test_invalid_arguments_raise_before_anything_is_sent(client: Any, name: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a context must be a mapping or a sequence of values, got 'age'"):
        client.decide(name, "age")
    with pytest.raises(ValueError, match="numbers must be finite"):
        client.decide(name, [float("inf"), 1, True])
    with pytest.raises(TypeError, match=r"timedelta.* can't be sent as JSON"):
        client.decide(name, [timedelta(1), 1, True])
    with pytest.raises(ValueError, match="keys has 1 entries, contexts has 2"):
        client.decide_many(name, [PATIENT, PATIENT], keys=["a"])
    with pytest.raises(TypeError, match="decision must be a decision or its number, got 'first'"):
        client.reward(name, "first", 1.0)
    with pytest.raises(ValueError, match="chunk must be at least 1, got 0"):
        next(client.decide_stream(name, [PATIENT], chunk=0))
    with pytest.raises(ValueError, match="since needs a time zone"):
        next(client.decisions(name, since=datetime(2026, 1, 1)))
    with pytest.raises(ValueError, match="format must be one of csv, parquet, ndjson"):
        client.export(name, tmp_path / "log.xlsx")


def test_names_that_look_like_paths_are_escaped(client: Any, name: str) -> None:
    """An action called ".." must not make the experiment itself the one that is deleted."""
    with pytest.raises(ServiceError) as error:
        client.retire_action(name, "..")
    assert error.value.status in (404, 422)
    assert client.info(name)["status"] == "live"


# --- many at a time -----------------------------------------------------------------------------------------


def test_a_long_stream_yields_one_answer_per_context_in_order(client: Any, name: str) -> None:
    taken = []

    def source() -> Iterator[dict[str, Any]]:
        for number, patient in enumerate(patients(5_000)):
            taken.append(number)
            yield patient | {"age": 999} if number % 1_000 == 7 else patient

    answers = client.decide_stream(name, source(), chunk=500)
    first = next(answers)
    assert first.id == 1
    assert len(taken) == 500  # no more than a portion was taken from the source for it
    everything = [first, *answers]
    wrong = [place for place, answer in enumerate(everything) if isinstance(answer, ServiceError)]
    decisions = [answer for answer in everything if isinstance(answer, Decision)]
    assert len(everything) == 5_000
    assert wrong == [7, 1_007, 2_007, 3_007, 4_007]
    assert "age" in str(everything[7])
    assert [decision.id for decision in decisions] == list(range(1, 4_996))
    told = list(client.reward_stream(name, ((decision, 1.0) for decision in decisions), chunk=2_000))
    assert told == ["learnt"] * 4_995
    assert client.info(name)["counts"]["rewards"] == 4_995
    assert [one["decision"] for one in client.decisions(name, page=1_000)] == list(range(4_995, 0, -1))


def test_an_async_client_accepts_an_asynchronous_source(service: str, name: str) -> None:
    async def source() -> AsyncIterator[dict[str, Any]]:
        for patient in patients(30):
            await asyncio.sleep(0)
            yield patient

    async def run() -> list[Decision | ServiceError]:
        async with AsyncClient(service, decide_timeout=None) as client:
            return [answer async for answer in client.decide_stream(name, source(), chunk=7)]

    assert len(asyncio.run(run())) == 30
    with patient_client(service) as client, pytest.raises(TypeError, match="needs an AsyncClient"):
        next(client.decide_stream(name, source()))


@contextmanager
def deciding(client: Client, name: str) -> Iterator[None]:
    """Another client decides every 0.1 s, since a feed shows only what happens once it is connected."""
    stop = threading.Event()

    def decide() -> None:
        while not stop.wait(0.1):
            client.decide(name, PATIENT)

    thread = threading.Thread(target=decide)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_chunks_are_limited_by_size() -> None:
    lines = [b"x" * 400_000] * 5 + [b"y" * 2_000_000] + [b"z"] * 3
    assert [len(portion) for portion in split_by_size(lines)] == [2, 2, 1, 1, 3]
    assert list(split_by_size([])) == []


def test_exports_are_written_to_files(client: Any, name: str, tmp_path: Path) -> None:
    decisions = [answer.id for answer in client.decide_stream(name, patients(300))]
    assert client.export(name, tmp_path / "log.csv") == tmp_path / "log.csv"
    rows = list(csv.DictReader(io.StringIO((tmp_path / "log.csv").read_text())))
    assert [int(row["decision"]) for row in rows] == decisions
    client.export(name, tmp_path / "log.parquet")
    assert parquet.read_table(tmp_path / "log.parquet").num_rows == 300
    client.export(name, tmp_path / "log.txt", format="ndjson")
    assert [json.loads(line)["decision"] for line in (tmp_path / "log.txt").read_text().splitlines()] == decisions
    with pytest.raises(ServiceError):
        client.export("nowhere", tmp_path / "log.csv")
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 1 + 300
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "log.parquet", "log.txt"]


def test_threads_share_a_client(service: str, name: str) -> None:
    with patient_client(service) as client, ThreadPoolExecutor(8) as threads:
        numbers = list(threads.map(lambda patient: client.decide(name, patient).id, patients(200)))
    assert sorted(numbers) == list(range(1, 201))


# --- where things go wrong ----------------------------------------------------------------------------------

FAULTS = ["lost", "unanswered", "cut", "slow", "busy", "rate", "proxy"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_retried_decision_is_made_once(kind: Any, service: str, name: str, fault: str) -> None:
    timeout = 2.0 if fault == "slow" else TIMEOUT_SECONDS
    with run_flaky_server(service, fault, fault) as proxy, kind(proxy.url, timeout=timeout) as client:
        decision = client.decide(name, PATIENT)
        assert decision.id == 1
        assert client.reward(name, decision, 1.0) == "learnt"
        assert [arrived.fault for arrived in proxy.received] == [fault, fault, "none", "none"]
        assert len({json.loads(arrived.body)["key"] for arrived in proxy.received[:3]}) == 1
    assert decided(service, name) == 1


@pytest.mark.parametrize("fault", ["unanswered", "cut"])
def test_retried_batches_streams_and_rewards_happen_once(kind: Any, service: str, name: str, fault: str) -> None:
    with run_flaky_server(service, fault) as proxy, kind(proxy.url) as client:
        batch = client.decide_many(name, patients(20))
        proxy.faults.extend(["none", fault, fault])
        stream = list(client.decide_stream(name, patients(40), chunk=10))
        assert [decision.id for decision in [*batch, *stream]] == list(range(1, 61))
        proxy.faults.append(fault)
        assert client.reward_many(name, [(decision, 1.0) for decision in batch]) == ["repeated"] * 20
        proxy.faults.append(fault)
        assert list(client.reward_stream(name, [(decision, 0.0) for decision in stream])) == ["repeated"] * 40
        counts = client.info(name)["counts"]
    assert (counts["decisions"], counts["rewards"]) == (60, 60)


def test_lines_that_were_not_committed_are_sent_again(kind: Any, service: str, name: str) -> None:
    with run_flaky_server(service, "unkept") as proxy, kind(proxy.url) as client:
        assert [decision.id for decision in client.decide_stream(name, patients(5))] == [1, 2, 3, 4, 5]
    assert proxy.received[0].body == proxy.received[1].body
    with run_flaky_server(service, *["unkept"] * 100) as proxy, kind(proxy.url, retry_for=0.5) as client:
        answers = list(client.decide_stream(name, patients(3)))
    assert [type(answer) for answer in answers] == [Decision, Unavailable, Decision]
    assert decided(service, name) == 8


def test_a_stream_survives_a_killed_service(kind: Any, tmp_path: Path) -> None:
    """Killed in the middle and started again: each context is decided once, each reward learnt once."""
    port = free_port()
    processes = [start_service(tmp_path, port)]

    def kill_and_start_again() -> None:
        processes[-1].kill()
        processes[-1].wait()
        processes.append(start_service(tmp_path, port))

    try:
        with kind(f"http://127.0.0.1:{port}", retry_for=120.0) as client:
            client.create("stream", ACTIONS, FEATURES, policy="LinUCB")
            stream = client.decide_stream("stream", patients(3_000), chunk=50)
            decisions = list(islice(stream, 500))
            trouble_maker = threading.Timer(0.05, kill_and_start_again)
            trouble_maker.start()
            decisions += stream
            trouble_maker.join()
            assert [decision.id for decision in decisions] == list(range(1, 3_001))
            trouble_maker = threading.Timer(0.05, kill_and_start_again)
            trouble_maker.start()
            list(client.reward_stream("stream", [(decision, 1.0) for decision in decisions], chunk=50))
            trouble_maker.join()
            counts = client.info("stream")["counts"]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert (counts["decisions"], counts["rewards"], counts["waiting"]) == (3_000, 3_000, 0)


def test_a_client_waits_for_a_service_that_starts_late(kind: Any, service: str, name: str) -> None:
    port = free_port()
    asked = threading.Event()

    def start() -> None:
        asked.wait()
        time.sleep(0.5)
        with run_flaky_server(service, port=port):
            done.wait(TIMEOUT_SECONDS)

    done = threading.Event()
    late = threading.Thread(target=start)
    late.start()
    try:
        with kind(f"http://127.0.0.1:{port}") as client:
            asked.set()
            assert client.decide(name, PATIENT).id == 1
            assert client.add_action(name, "refer")["actions"] == [*ACTIONS, "refer"]
    finally:
        done.set()
        late.join()
    assert decided(service, name) == 1


def test_changes_that_can_not_have_arrived_are_retried(kind: Any, service: str) -> None:
    port, made = free_port(), f"late-{uuid4().hex[:8]}"
    done = threading.Event()

    def start() -> None:
        with run_flaky_server(service, "rate", port=port):
            done.wait(TIMEOUT_SECONDS)

    late = threading.Timer(0.3, start)
    late.start()
    try:
        with kind(f"http://127.0.0.1:{port}") as client:
            assert client.create(made, ACTIONS, 3, policy="Random")["status"] == "live"
    finally:
        done.set()
        late.join()


@pytest.mark.parametrize("fault", ["lost", "unanswered", "busy"])
def test_changes_that_may_have_arrived_are_not_retried(kind: Any, service: str, fault: str) -> None:
    made = f"doubt-{uuid4().hex[:8]}"
    with run_flaky_server(service, fault) as proxy, kind(proxy.url) as client:
        with pytest.raises(Unavailable) as error:
            client.create(made, ACTIONS, 3, policy="Random")
        assert len(proxy.received) == 1
        if fault != "busy":
            assert "the outcome is unknown" in str(error.value)
        there = made in [one["name"] for one in client.experiments()]
    assert there == (fault == "unanswered")


def test_the_client_respects_retry_after(kind: Any, service: str, name: str) -> None:
    with run_flaky_server(service, "busy", retry_after="1") as proxy, kind(proxy.url) as client:
        client.decide(name, PATIENT)
        first, second = proxy.received
        assert second.at - first.at >= 1.0
        soon = (datetime.now(UTC) + timedelta(seconds=2)).replace(microsecond=0)
        proxy.retry_after = soon.strftime("%a, %d %b %Y %H:%M:%S GMT")
        proxy.faults.append("busy")
        client.decide(name, PATIENT)
        assert datetime.now(UTC) >= soon


def test_retries_end_after_retry_for_seconds(kind: Any, service: str, name: str) -> None:
    with (
        run_flaky_server(service, *["busy"] * 1_000) as proxy,
        kind(proxy.url, retry_for=2.0, circuit_breaker=None) as client,
    ):
        with pytest.raises(Unavailable, match="come back later") as error:
            client.decide(name, PATIENT)
        assert (error.value.status, error.value.code, error.value.retry_after) == (503, "busy", 0.0)
        assert 2 <= len(proxy.received) <= 6  # pauses double from at least 0.05 s
        proxy.retry_after = "3600"
        with pytest.raises(Unavailable) as error:
            client.decide(name, PATIENT)
        assert error.value.retry_after == 3600
    with kind(f"http://127.0.0.1:{free_port()}", retry_for=0.0) as client, pytest.raises(Unavailable) as gone:
        client.decide(name, PATIENT)
    assert (gone.value.status, gone.value.code) == (None, "no-answer")
    assert decided(service, name) == 0


def test_a_broken_export_is_retried_from_the_start(kind: Any, service: str, name: str, tmp_path: Path) -> None:
    with run_flaky_server(service) as proxy, kind(proxy.url) as client:
        list(client.decide_stream(name, patients(500)))
        proxy.faults.extend(["cut", "cut"])
        client.export(name, tmp_path / "log.ndjson")
        assert len(proxy.received) == 1 + 3
    assert len((tmp_path / "log.ndjson").read_text().splitlines()) == 500


def test_a_feed_reconnects(kind: Any, service: str, name: str) -> None:
    with run_flaky_server(service, "busy", "cut") as proxy, kind(proxy.url) as client, patient_client(service) as other:
        feed = client.feed(name)
        with deciding(other, name):
            seen = list(islice(feed, 4))
        feed.close()
    assert [event.kind for event in seen] == ["decision", "reconnected", "decision", "decision"]
    numbers = [event.data["decision"] for event in seen if event.kind == "decision"]
    assert numbers == sorted(set(numbers))


def test_responses_of_another_server_are_errors(kind: Any, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(tmp_path)],
        env={"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        found = re.search(r"http://[\d.]+:\d+", process.stdout.readline())
        assert found is not None
        (tmp_path / "healthz").write_text("fine")
        with kind(found[0]) as client:
            with pytest.raises(ServiceError, match="not JSON: is this a service"):
                client.health()
            with pytest.raises(ServiceError, match="the response has no explanation"):
                client.experiments()
        process.terminate()


# --- settings -----------------------------------------------------------------------------------------------

SECRET = "rlf_Ab12Cd34_" + "s3cr3t" * 7


def test_the_key_is_not_in_logs_or_errors(kind: Any, service: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with run_flaky_server(service) as proxy, kind(proxy.url, key=SECRET) as client:
        shown = [repr(client), str(getattr(client, "_client", client))]
        with pytest.raises(ServiceError) as refused:
            client.info("nowhere")
        shown += traceback.format_exception(refused.value)
    with kind(f"http://127.0.0.1:{free_port()}", key=SECRET, retry_for=0.0) as client:
        with pytest.raises(Unavailable) as gone:
            client.info("nowhere")
        shown += [*traceback.format_exception(gone.value), repr(gone.value.__cause__)]
    for wrong in (f"{SECRET}\n", f"{SECRET} x", f"{SECRET}é"):
        with pytest.raises(ValueError, match="key must consist of printable ASCII") as error:
            Client(key=wrong)
        shown += traceback.format_exception(error.value)
    with pytest.raises(ValueError, match="must not contain a user or a password") as error:
        Client(f"http://user:{SECRET}@127.0.0.1")
    shown += [str(error.value), caplog.text]
    assert not [text for text in shown if "s3cr3t" in text]


def test_address_and_key_come_from_the_environment(
    kind: Any, service: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RELEAF_URL", f"{service}/")
    with kind() as client:
        assert client.health()["status"]
    add = [sys.executable, "-m", "releaf", "keys", "add", "test", "--scope", "mine:admin", "--json"]
    variables = {"PYTHONPATH": ":".join(sys.path)}
    key = json.loads(subprocess.run(add, cwd=tmp_path, env=variables, capture_output=True, check=True).stdout)["key"]
    with run_service(tmp_path, "--require-keys") as locked:
        monkeypatch.setenv("RELEAF_URL", locked)
        with kind() as client, pytest.raises(ServiceError) as nobody:
            client.create("mine", ACTIONS, 2, policy="Random")
        monkeypatch.setenv("RELEAF_KEY", key)
        with kind() as client:
            client.create("mine", ACTIONS, 2, policy="Random")
            assert client.decide("mine", [0, 0]).id == 1
            with pytest.raises(ServiceError) as foreign:
                client.create("yours", ACTIONS, 2, policy="Random")
    assert (nobody.value.status, foreign.value.status) == (401, 403)


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://127.0.0.1", "http://", "http://x:y"])
def test_an_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="url must start with http:// or https:// and have a host"):
        Client(url)


def test_every_method_is_in_the_reference() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "client.md").read_text(encoding="utf-8")
    methods = {name for name in dir(Client) if not name.startswith("_")} - {"close"}
    assert methods == set(re.findall(r"automethod:: Client\.(\w+)", page))
    assert methods <= set(dir(AsyncClient))


def test_errors_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(Conflict(409, "name_taken", "there is one already", None)))
    assert (type(error), error.status, str(error)) == (Conflict, 409, "there is one already (name_taken, 409)")


def test_importing_the_client_loads_no_heavy_packages() -> None:
    program = "import sys, releaf.client; print({'numba', 'msgspec', 'starlette', 'apsw'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.stdout == "set()\n", done.stderr


def test_no_connection_is_left_open(kind: Any, service: str, name: str, tmp_path: Path) -> None:
    """Unclosed sockets would warn, and warnings are errors."""
    with kind(service) as client:
        client.decide(name, PATIENT)
        feed = client.feed(name)
        with patient_client(service) as other, deciding(other, name):
            next(feed)
        feed.close()
    gc.collect()


def test_the_metrics_that_the_documentation_names_are_there(service: str, name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "service.md").read_text(encoding="utf-8")
    with patient_client(service) as client:
        client.decide(name, PATIENT)
    measured = httpx.get(f"{service}/metrics").text
    named = set(re.findall(r"`(releaf_\w+)`", page))
    assert len(named) > 5
    assert [one for one in named if not re.search(rf"^# TYPE {one} ", measured, flags=re.MULTILINE)] == []


def test_a_client_polls_the_frozen_policy(client: Any, name: str) -> None:
    version = client.policy(name)
    assert version.load().decide(PATIENT, seed=1).action in ACTIONS
    assert client.policy(name, etag=version.etag) is None
    assert client.policy(name, etag='"other"') == version
