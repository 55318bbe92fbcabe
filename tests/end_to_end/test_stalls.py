"""Nothing stalls the service: not its own start, and not a store that does not answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import postgres_server
import pytest
from polling import wait_until
from service_process import HttpConnection, NoResponse, ServiceProcess

CONTEXT = {"context": [40, 7.5, "plus"]}
NO_SNAPSHOTS = ("--snapshot-events", "100000000")
REQUESTS = 24


def test_a_service_answers_while_it_recovers(tmp_path: Path) -> None:
    """It says that it lives and is not ready, how far it is, and neither 404 nor 401 for what it does not know yet."""
    with ServiceProcess(tmp_path, str(tmp_path / "store.db"), *NO_SNAPSHOTS) as service:
        service.create(rewards={})
        for _ in range(20):
            status, _, _ = service.call(
                "POST", "/v1/experiments/shop/decide", {"contexts": [CONTEXT["context"]] * 2_000}
            )
            assert status == 200
        service.kill()
        seen: list[tuple[int, str, int]] = []
        starting = threading.Thread(target=service.start)
        starting.start()
        call = HttpConnection(service.port)
        while starting.is_alive():
            try:
                health, _, _ = call("GET", "/healthz")
                _, _, told = call("GET", "/readyz")
                decided, _, _ = call("POST", "/v1/experiments/shop/decide", CONTEXT)
            except NoResponse:
                continue
            seen.append((health, str(told), decided))
        starting.join()
        call.close()
        assert {health for health, _, _ in seen} == {200}
        assert {decided for _, _, decided in seen} <= {200, 503}
        assert any("events replayed" in told for _, told, _ in seen), seen[:3]
        assert service.info()["counts"]["decisions"] >= 40_000


def test_a_store_that_cannot_be_opened_ends_the_service_with_a_line(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    service = ServiceProcess(tmp_path, str(folder))
    with pytest.raises(AssertionError, match="the service has ended"):
        service.start()
    assert "the service can't start" in service.log_text()
    assert "Traceback" not in service.log_text()


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Another process that writes and does not end: as a disk that hangs, for the service."""
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_all_requests_are_answered_while_the_store_hangs(tmp_path: Path, kind: str) -> None:
    """Those in the commit that hangs, those that wait for its end, and later ones; readiness tells it too."""
    with postgres_server.own_server() if kind == "postgresql" else _no_server() as server:
        address = server.database() if server else str(tmp_path / "store.db")
        with ServiceProcess(tmp_path, address, "--write-timeout", "1") as service:
            service.create()
            first = service.decide()["decision"]
            with server.frozen() if server else locked_file(Path(address)):
                answers = _many_requests(service.port, first)
                assert {status for status, _ in answers} == {503}, answers
                later = _many_requests(service.port, first)
                assert {status for status, _ in later} == {503}, later
                wait_until(lambda: service.call("GET", "/readyz")[0] == 503, message="it reports itself ready")
                assert service.call("GET", "/healthz")[0] == 200
            wait_until(lambda: service.call("GET", "/readyz")[0] == 200, 60, "it does not become ready again")
            service.wait_for_decision()
            counts = service.info()["counts"]
            ended = counts["rewards"] + counts["defaults"] + counts["dropped"] + counts["waiting"]
            assert ended == counts["asked"]


@contextmanager
def _no_server() -> Iterator[Any]:
    yield None


def _many_requests(port: int, decision: int) -> list[tuple[int, str]]:
    """Decisions and rewards at the same time, each on a connection of its own; all must be answered."""

    def ask(number: int) -> tuple[int, str]:
        call = HttpConnection(port, timeout=30)
        try:
            if number % 3:
                status, _, told = call("POST", "/v1/experiments/shop/decide", CONTEXT)
            else:
                status, _, told = call("POST", "/v1/experiments/shop/reward", {"decision": decision, "reward": 1.0})
            return status, str(told)
        finally:
            call.close()

    with ThreadPoolExecutor(REQUESTS) as threads:
        return list(threads.map(ask, range(REQUESTS)))


def test_few_exports_run_at_once_and_decisions_go_on(tmp_path: Path) -> None:
    """Others are told to come again; the files are whole."""
    with ServiceProcess(tmp_path, str(tmp_path / "store.db")) as service:
        service.create(rewards={})
        for _ in range(15):
            body = {"contexts": [CONTEXT["context"]] * 2_000}
            assert service.call("POST", "/v1/experiments/shop/decide", body)[0] == 200

        def export(_: int) -> tuple[int, str | None, bytes]:
            call = HttpConnection(service.port)
            try:
                status, headers, content = call("GET", "/v1/experiments/shop/export?format=csv")
                return status, headers["Retry-After"], content if isinstance(content, bytes) else b""
            finally:
                call.close()

        with ThreadPoolExecutor(8) as threads:
            asked = [threads.submit(export, number) for number in range(8)]
            decided = 0
            while not all(one.done() for one in asked):
                service.decide()
                decided += 1
            told = [one.result() for one in asked]
        files = [content for status, _, content in told if status == 200]
        refused = [retry for status, retry, _ in told if status == 429]
        assert len(files) + len(refused) == 8
        assert files
        assert refused
        assert all(refused)
        for content in files:
            numbers = [int(line.split(b",")[0]) for line in content.splitlines()[1:]]
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(numbers) >= 30_000
        assert decided > 20
