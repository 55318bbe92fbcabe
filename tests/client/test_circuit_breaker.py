"""The circuit breaker of both clients: it opens after failures in a row, and one request probes the service."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from client_kinds import KINDS, PATIENT, new_experiment, patients
from flaky_server import run_flaky_server
from polling import TIMEOUT_SECONDS, wait_until
from running_service import free_port, run_service

from releaf.client import AsyncClient, CircuitBreaker, Client, Decision, ServiceError, Unavailable
from releaf.client.circuit_breaker import Admission, Circuit

FOR_LONG = CircuitBreaker(failures=3, open_for=3600)
BRIEFLY = CircuitBreaker(failures=3, open_for=1.0)


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


@pytest.mark.parametrize("fault", ["lost", "cut", "slow", "drip", "busy", "bug", "proxy"])
def test_failures_in_a_row_open_the_circuit(kind: Any, service: str, name: str, fault: str) -> None:
    with (
        run_flaky_server(service, *[fault] * 1_000) as proxy,
        kind(proxy.url, retry_for=0.0, circuit_breaker=FOR_LONG) as client,
    ):
        for _ in range(3):
            with pytest.raises(ServiceError) as error:
                client.decide(name, PATIENT, timeout=0.5)
            assert error.value.code != "circuit-open"
        assert len(proxy.received) == 3
        for call in (
            lambda: client.decide(name, PATIENT),
            lambda: client.reward(name, 1, 1.0),
            lambda: client.info(name),
            lambda: list(client.decide_stream(name, [PATIENT])),
        ):
            with pytest.raises(Unavailable, match="not sent: the circuit is open after 3 failures in a row") as open_:
                call()
            assert (open_.value.status, open_.value.code) == (None, "circuit-open")
            assert open_.value.retry_after is not None
            assert 3000 < open_.value.retry_after <= 3600
        assert client.decide(name, PATIENT, default="home").is_default
        assert [one.action for one in client.decide_many(name, [PATIENT] * 2, default="home")] == ["home"] * 2
        assert len(proxy.received) == 3


def test_errors_about_one_experiment_leave_the_circuit_closed(kind: Any, service: str, name: str) -> None:
    with kind(service, circuit_breaker=FOR_LONG) as client:
        full = f"{name}-full"
        client.create(full, ["home", "ward"], 3, policy="LinUCB", parameters={"max_pending": 1})
        client.decide(full, [0.1, 0.2, 0.3])
        made = [client.decide(full, [0.1, 0.2, 0.3], timeout=0.9, default="home") for _ in range(5)]
        assert {one.error.code for one in made} == {"pending_limit"}
        assert not client.decide(name, PATIENT, timeout=30).is_default


def test_refused_connections_open_the_circuit(kind: Any) -> None:
    with kind(f"http://127.0.0.1:{free_port()}", circuit_breaker=FOR_LONG) as client:
        made = [client.decide("any", PATIENT, timeout=0.9, default="home") for _ in range(10)]
    assert made[0].error.code == "no-answer"
    assert made[-1].error.code == "circuit-open"
    assert "refused" in made[-1].error.message or "failed" in made[-1].error.message


def test_the_circuit_breaker_is_on_by_default_and_off_with_none(kind: Any, service: str, name: str) -> None:
    for options, sent in (({}, 5), ({"circuit_breaker": None}, 20)):
        with (
            run_flaky_server(service, *["busy"] * 1_000) as proxy,
            kind(proxy.url, retry_for=0.0, **options) as client,
        ):
            # all at once, since after 5 seconds one request more would be sent
            errors = [client.decide(name, PATIENT, default="home").error for _ in range(20)]
            assert len(proxy.received) == sent
            assert sum(error.code == "busy" for error in errors) == sent


def test_answers_other_than_server_errors_keep_the_circuit_closed(kind: Any, service: str, name: str) -> None:
    faults = ["busy", "busy", "rate", "busy", "busy", "none", "busy", "busy"]
    with (
        run_flaky_server(service, *faults) as proxy,
        kind(proxy.url, retry_for=0.0, circuit_breaker=FOR_LONG) as client,
    ):
        for _ in faults:
            client.decide(name, PATIENT, default="home")
        for _ in range(5):
            with pytest.raises(ServiceError, match="unknown experiment"):
                client.info("nowhere")
        assert client.decide(name, PATIENT).id == 2
        assert len(proxy.received) == len(faults) + 6


def test_one_request_at_a_time_probes_the_service(kind: Any, service: str, name: str) -> None:
    """Two probes fail, the third closes the circuit; in between the client sends nothing."""
    with (
        run_flaky_server(service, *["busy"] * 5) as proxy,
        kind(proxy.url, retry_for=0.0, circuit_breaker=BRIEFLY) as client,
    ):
        decisions: list[Decision] = []

        def is_decided() -> bool:
            decisions.append(client.decide(name, PATIENT, default="home"))
            return not decisions[-1].is_default

        wait_until(is_decided)
        assert len(decisions) > 6
        assert [arrived.fault for arrived in proxy.received] == ["busy"] * 5 + ["none"]
        times = [arrived.at for arrived in proxy.received]
        assert all(later - earlier > 0.9 for earlier, later in pairwise(times[2:]))
        assert not any(client.decide(name, PATIENT, default="home").is_default for _ in range(10))


def test_a_call_with_time_left_waits_until_the_circuit_closes(kind: Any, service: str, name: str) -> None:
    with run_flaky_server(service) as proxy, kind(proxy.url, retry_for=60.0, circuit_breaker=BRIEFLY) as client:
        decision = client.decide(name, PATIENT)
        proxy.faults.extend(["busy"] * 4)
        assert client.reward(name, decision, 1.0) == "learnt"
        proxy.faults.extend(["busy"] * 3)
        assert client.decide(name, PATIENT, timeout=0.9, default="home").is_default
        again = client.decide(name, PATIENT, timeout=TIMEOUT_SECONDS)
        assert client.reward_many(name, [(again, 0.0)]) == ["learnt"]


def test_health_is_asked_for_while_the_circuit_is_open(kind: Any, service: str, name: str) -> None:
    with (
        run_flaky_server(service, *["busy"] * 3) as proxy,
        kind(proxy.url, retry_for=0.0, circuit_breaker=FOR_LONG) as client,
    ):
        for _ in range(3):
            client.decide(name, PATIENT, default="home")
        assert client.health()["status"]
        assert client.decide(name, PATIENT, default="home").error.code == "circuit-open"


def test_threads_share_the_circuit(service: str, name: str) -> None:
    with (
        run_flaky_server(service, *["busy"] * 1_000) as proxy,
        Client(proxy.url, retry_for=0.0, circuit_breaker=FOR_LONG) as client,
        ThreadPoolExecutor(16) as threads,
    ):
        made = list(threads.map(lambda patient: client.decide(name, patient, default="home"), patients(500)))
        assert all(decision.is_default for decision in made)
        assert 3 <= len(proxy.received) <= 3 + 16  # what was under way when it opened


def test_tasks_share_the_circuit_and_a_cancelled_probe_gives_way(service: str, name: str) -> None:
    breaker = CircuitBreaker(failures=3, open_for=3.0)

    async def run(url: str, proxy: Any) -> Decision:
        async with AsyncClient(url, retry_for=0.0, circuit_breaker=breaker, decide_timeout=None) as client:
            for _ in range(3):
                await client.decide(name, PATIENT, default="home")
            waiting = [client.decide(name, patient, default="home") for patient in patients(100)]
            assert all("circuit-open" in str(decision.error) for decision in await asyncio.gather(*waiting))
            await asyncio.sleep(breaker.open_for)
            proxy.faults.append("slow")
            probe = asyncio.create_task(client.decide(name, PATIENT, default="home"))
            while proxy.faults:
                await asyncio.sleep(0.01)
            probe.cancel()
            with pytest.raises(asyncio.CancelledError):
                await probe
            return await client.decide(name, PATIENT, default="home")  # at once: 3 seconds later another could, anyway

    with run_flaky_server(service, *["busy"] * 3) as proxy:
        assert not asyncio.run(run(proxy.url, proxy)).is_default


def test_exactly_one_of_many_threads_is_the_probe() -> None:
    circuit = Circuit(FOR_LONG)
    for _ in range(3):
        assert circuit.admit() == Admission(wait=0.0, is_probe=False)
        circuit.fail(Admission(), "refused")
    assert circuit.admit().wait > 0
    for _ in range(20):
        circuit.release(Admission(is_probe=True))  # as if the time were over
        start = threading.Barrier(16)

        def admit(start: threading.Barrier = start) -> Admission:
            start.wait(TIMEOUT_SECONDS)
            return circuit.admit()

        with ThreadPoolExecutor(16) as threads:
            admissions = [pending.result() for pending in [threads.submit(admit) for _ in range(16)]]
        assert sorted(admission.is_probe for admission in admissions) == [False] * 15 + [True]
        assert sum(admission.wait == 0 for admission in admissions) == 1


def test_requests_from_before_neither_prolong_an_open_circuit_nor_free_its_probe() -> None:
    circuit = Circuit(CircuitBreaker(failures=1, open_for=3600))
    before = circuit.admit()
    circuit.fail(circuit.admit(), "refused")
    wait = circuit.admit().wait
    circuit.fail(before, "timed out")
    circuit.release(before)
    assert 0 < circuit.admit().wait <= wait
    circuit.succeed()  # an answer, whoever got it
    assert circuit.admit() == Admission()


def test_invalid_settings_are_rejected() -> None:
    with pytest.raises(ValueError, match="failures must be at least 1, got 0"):
        CircuitBreaker(failures=0)
    for wrong in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="open_for must be a positive number of seconds"):
            CircuitBreaker(open_for=wrong)
