"""Time-outs of whole calls, default decisions, and connections, at a service that hangs, fails or is not there."""

from __future__ import annotations

import asyncio
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from client_kinds import ACTIONS, FEATURES, KINDS, PATIENT, Awaited, new_experiment, patient_client, patients
from flaky_server import run_flaky_server
from polling import TIMEOUT_SECONDS, wait_until
from running_service import free_port, run_service, start_service

from releaf.client import AsyncClient, Client, Decision, ServiceError, Unavailable

SOON = 0.5  # seconds: a time-out
AT_ONCE = 10.0  # seconds, on a busy machine; without a time-out, all that is tested here takes 15 or more


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with run_service(tmp_path_factory.mktemp("service")) as url:
        yield url


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]


@pytest.fixture
def name(service: str) -> str:
    return new_experiment(service)


@contextmanager
def takes_less_than(seconds: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds


@contextmanager
def url_with(service: str, fault: str) -> Iterator[str]:
    """The address of a server with this fault in all its responses."""
    if fault == "refused":
        yield f"http://127.0.0.1:{free_port()}"
    else:
        with run_flaky_server(service, *[fault] * 1_000) as proxy:
            yield proxy.url


# --- time-outs ----------------------------------------------------------------------------------------------

ENDLESS = ["refused", "lost", "cut", "slow", "drip", "drip-body", "busy", "rate", "proxy"]
METHODS: dict[str, Callable[..., Any]] = {
    "decide": lambda client, name, **options: client.decide(name, PATIENT, **options),
    "decide_many": lambda client, name, **options: client.decide_many(name, [PATIENT, PATIENT], **options),
    "decide_stream": lambda client, name, **options: list(client.decide_stream(name, patients(3), **options)),
    "reward": lambda client, name, **options: client.reward(name, 1, 1.0, **options),
    "reward_many": lambda client, name, **options: client.reward_many(name, [(1, 1.0)], **options),
    "reward_stream": lambda client, name, **options: list(client.reward_stream(name, [(1, 1.0)], **options)),
    "preview": lambda client, name, **options: client.preview(name, PATIENT, **options),
}


@pytest.mark.parametrize("fault", ENDLESS)
def test_a_time_out_bounds_all_attempts_of_a_decision(kind: Any, service: str, name: str, fault: str) -> None:
    with (
        url_with(service, fault) as url,
        kind(url, circuit_breaker=None) as client,
        takes_less_than(AT_ONCE),
        pytest.raises(Unavailable),
    ):
        client.decide(name, PATIENT, timeout=SOON)


@pytest.mark.parametrize("fault", ["slow", "drip"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_that_decides_or_rewards_has_a_time_out(
    kind: Any, service: str, name: str, method: str, fault: str
) -> None:
    with patient_client(service) as other:
        other.decide(name, PATIENT)
    with (
        url_with(service, fault) as url,
        kind(url) as client,
        takes_less_than(AT_ONCE),
        pytest.raises(Unavailable, match=r"within 0\.5 s") as error,
    ):
        METHODS[method](client, name, timeout=SOON)
    assert (error.value.status, error.value.code) == (None, "no-answer")


@pytest.mark.parametrize("method", METHODS)
def test_a_time_out_must_be_positive(kind: Any, service: str, name: str, method: str) -> None:
    with kind(service) as client:
        for wrong in (0, -1.0, float("nan")):
            with pytest.raises(ValueError, match="timeout must be a positive number of seconds, got"):
                METHODS[method](client, name, timeout=wrong)
    with pytest.raises(ValueError, match="decide_timeout must be a positive number of seconds, got 0"):
        Client(decide_timeout=0)


@pytest.mark.parametrize("make", [Client, Awaited])
def test_decide_times_out_in_less_than_a_second_by_default(make: Any, service: str, name: str) -> None:
    with (
        url_with(service, "slow") as url,
        make(url) as client,
        takes_less_than(AT_ONCE),
        pytest.raises(Unavailable, match=r"no response from http://127\.0\.0\.1:\d+ within 0\.9 s"),
    ):
        client.decide(name, PATIENT)


def test_attempts_go_on_while_there_is_time(kind: Any, service: str, name: str) -> None:
    with run_flaky_server(service, "lost", "busy", "cut") as proxy, kind(proxy.url, timeout=1.0) as client:
        assert client.decide(name, PATIENT, timeout=TIMEOUT_SECONDS).id == 1
        proxy.faults.append("slow")  # which takes the time-out of one attempt, not that of the call
        assert client.decide(name, PATIENT, timeout=TIMEOUT_SECONDS).id == 2
        assert [arrived.fault for arrived in proxy.received] == ["lost", "busy", "cut", "none", "slow", "none"]


def test_a_time_out_concerns_its_own_call_only(service: str, name: str) -> None:
    """One thread or task gives up, the others wait for their answers."""
    with run_flaky_server(service, "slow") as proxy:
        with patient_client(proxy.url) as client, ThreadPoolExecutor(8) as threads:
            hurried = threads.submit(client.decide, name, PATIENT, timeout=SOON, default="home")
            wait_until(lambda: proxy.received)
            others = list(threads.map(lambda patient: client.decide(name, patient), patients(30)))
            assert hurried.result().is_default
        assert not any(decision.is_default for decision in others)

        async def run() -> list[Decision]:
            proxy.faults.append("slow")
            async with AsyncClient(proxy.url, decide_timeout=None) as client:
                hurried = asyncio.create_task(client.decide(name, PATIENT, timeout=SOON, default="home"))
                while proxy.faults:
                    await asyncio.sleep(0.01)
                others = [client.decide(name, patient) for patient in patients(30)]
                return await asyncio.gather(hurried, *others)

        first, *rest = asyncio.run(run())
    assert first.is_default
    assert not any(decision.is_default for decision in rest)


def test_a_time_out_bounds_calls_through_a_proxy_of_the_environment(
    kind: Any, service: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_flaky_server(service, "none", "drip") as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        with kind(service) as client:
            assert client.decide(name, PATIENT).id == 1
            with takes_less_than(AT_ONCE), pytest.raises(Unavailable):
                client.decide(name, PATIENT, timeout=SOON)
        assert [arrived.path for arrived in proxy.received] == [f"{service}/v1/experiments/{name}/decide"] * 2


def test_a_large_request_to_a_server_that_does_not_read_times_out(kind: Any) -> None:
    """More than fits into the buffers of the sockets: the time-out ends a write."""
    with socket.create_server(("127.0.0.1", 0)) as deaf, kind(f"http://127.0.0.1:{deaf.getsockname()[1]}") as client:
        contexts = [[0.123456789] * 100] * 20_000
        with takes_less_than(2 * AT_ONCE), pytest.raises(Unavailable):
            client.decide_many("any", contexts, timeout=SOON)


# --- defaults -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [*ENDLESS, "bug"])
def test_a_default_replaces_a_decision_that_does_not_come_in_time(
    kind: Any, service: str, name: str, fault: str
) -> None:
    with url_with(service, fault) as url, kind(url, circuit_breaker=None) as client, takes_less_than(AT_ONCE):
        decision = client.decide(name, PATIENT, timeout=SOON, default="ward")
    assert decision.is_default
    assert (decision.action, decision.id, decision.probability, decision.wants_reward) == ("ward", None, None, False)
    assert decision.context == PATIENT
    assert isinstance(decision.error, ServiceError)
    assert pickle.loads(pickle.dumps(decision)).error.code == decision.error.code


def test_a_service_that_decides_is_asked_for_no_default(kind: Any, service: str, name: str) -> None:
    with kind(service) as client:
        made = [client.decide(name, PATIENT, default="no such action")]
        made += client.decide_many(name, [PATIENT, PATIENT], default="no such action")
    assert [decision.id for decision in made] == [1, 2, 3]
    assert not any(decision.is_default or decision.error or decision.context for decision in made)


def test_a_batch_has_one_default_or_one_for_each_context(kind: Any, service: str, name: str) -> None:
    with url_with(service, "busy") as url, kind(url, circuit_breaker=None) as client:
        contexts = [PATIENT, [50, None, True], PATIENT]
        same = client.decide_many(name, contexts, timeout=SOON, default="home")
        each = client.decide_many(name, contexts, timeout=SOON, default=("home", "ward", 3))
        with pytest.raises(ValueError, match="default has 2 entries, contexts has 3: expected one default for each"):
            client.decide_many(name, contexts, timeout=SOON, default=["home", "ward"])
    assert [decision.action for decision in same] == ["home"] * 3
    assert [decision.action for decision in each] == ["home", "ward", 3]
    assert [decision.context for decision in each] == contexts
    assert all(decision.is_default for decision in same + each)


def test_an_invalid_request_raises_in_spite_of_a_default(kind: Any, service: str, name: str) -> None:
    with kind(service) as client:
        for experiment, context, status in [("nowhere", PATIENT, 404), (name, PATIENT | {"age": 500}, 422)]:
            with pytest.raises(ServiceError) as error:
                client.decide(experiment, context, default="home")
            assert error.value.status == status
            with pytest.raises(ServiceError) as error:
                client.decide_many(experiment, [context], default="home")
            assert error.value.status == status
        client.retire(name)
        with pytest.raises(ServiceError, match="retired"):
            client.decide(name, PATIENT, default="home")


def test_a_default_has_no_reward_at_the_service(kind: Any, service: str, name: str) -> None:
    with url_with(service, "refused") as url, kind(url) as client:
        decision = client.decide(name, PATIENT, timeout=SOON, default="home")
    with run_flaky_server(service) as proxy, kind(proxy.url) as client:
        for send in (
            lambda: client.reward(name, decision, 1.0),
            lambda: client.reward_many(name, [(decision, 1.0)]),
            lambda: list(client.reward_stream(name, [(decision, 1.0)])),
            lambda: client.explain(name, decision),
        ):
            with pytest.raises(ValueError, match="the service did not make the default decision 'home'"):
                send()
        assert proxy.received == []


def test_the_next_experiment_can_continue_with_what_defaults_earned(kind: Any, service: str, name: str) -> None:
    with url_with(service, "refused") as url, kind(url) as client:
        made = client.decide_many(name, patients(20), timeout=SOON, default="ward")
    with kind(service) as client:
        client.create(f"{name}-1", ACTIONS, FEATURES, policy="LinTS")
        learner = client.model(f"{name}-1")
        assert learner.estimate([PATIENT]).tolist() == [[0.0, 0.0]]
        for decision in made:
            learner.observe(decision.context, decision.action, 1.0)
        client.create(f"{name}-2", ACTIONS, FEATURES, policy="LinTS", model=learner)
        home, ward = client.model(f"{name}-2").estimate([PATIENT])[0]
    assert home == 0.0
    assert ward > 0.5


@pytest.mark.parametrize("outage", ["paused", "killed"])
def test_defaults_bridge_an_outage_of_the_service(kind: Any, tmp_path: Path, outage: str) -> None:
    """A process that is stopped takes connections, and never answers."""
    port = free_port()
    process = start_service(tmp_path, port)
    try:
        with kind(f"http://127.0.0.1:{port}", decide_timeout=SOON) as client:
            client.create("triage", ACTIONS, FEATURES, policy="LinUCB")
            assert client.decide("triage", PATIENT, timeout=TIMEOUT_SECONDS).id == 1
            process.send_signal(signal.SIGSTOP if outage == "paused" else signal.SIGKILL)
            with takes_less_than(3 * AT_ONCE):
                meanwhile = [client.decide("triage", PATIENT, default="home") for _ in range(100)]
            assert all(decision.is_default for decision in meanwhile)
            assert meanwhile[-1].error.code == "circuit-open"
            if outage == "paused":
                process.send_signal(signal.SIGCONT)
            else:
                process.wait()
                process = start_service(tmp_path, port)
            after = wait_until(lambda: [d for d in [client.decide("triage", PATIENT, default="home")] if d.id])
            assert client.reward("triage", after[0], 1.0) == "learnt"
    finally:
        process.kill()
        process.wait()


# --- connections --------------------------------------------------------------------------------------------

AT_A_TIME = 40  # more than httpx keeps open by itself


def test_calls_in_a_row_share_a_connection(kind: Any, service: str, name: str) -> None:
    with run_flaky_server(service) as proxy, kind(proxy.url) as client:
        for patient in patients(20):
            decision = client.decide(name, patient, timeout=TIMEOUT_SECONDS)
            client.reward(name, decision, 1.0)
        client.info(name)
        assert len(proxy.received) == 41
        assert proxy.connections == 1


def test_threads_reuse_connections(service: str, name: str) -> None:
    everyone = threading.Barrier(AT_A_TIME)

    def decide(patient: dict[str, Any]) -> None:
        for _ in range(10):
            everyone.wait(TIMEOUT_SECONDS)  # all at the same time, again and again
            client.decide(name, patient)

    with run_flaky_server(service) as proxy, patient_client(proxy.url) as client:
        with ThreadPoolExecutor(AT_A_TIME) as threads:
            list(threads.map(decide, patients(AT_A_TIME)))
        assert len(proxy.received) == 10 * AT_A_TIME
        assert 1 < proxy.connections <= AT_A_TIME


def test_tasks_reuse_connections(service: str, name: str) -> None:
    async def run(url: str) -> None:
        async with AsyncClient(url, decide_timeout=None) as client:
            for _ in range(10):
                await asyncio.gather(*(client.decide(name, patient) for patient in patients(AT_A_TIME)))

    with run_flaky_server(service) as proxy:
        asyncio.run(run(proxy.url))
        assert len(proxy.received) == 10 * AT_A_TIME
        assert 1 < proxy.connections <= AT_A_TIME


def test_an_answer_that_came_too_late_is_not_taken_for_the_next(kind: Any, service: str, name: str) -> None:
    """The connection of a call that timed out is closed, so that nobody reads the rest of its answer."""
    with run_flaky_server(service, "drip-body") as proxy, kind(proxy.url) as client:
        assert client.decide(name, {"age": 1, "pulse": 1, "smoker": True}, timeout=SOON, default="home").is_default
        assert client.decide(name, PATIENT).id == 2
        assert proxy.connections == 2
