"""SIGTERM: /readyz fails at once, all else goes on for the drain seconds, then the service stops."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from polling import wait_until
from service_process import HttpConnection, NoResponse, ServiceProcess

DRAIN_SECONDS = 4.0


@pytest.fixture
def service(tmp_path: Path) -> ServiceProcess:
    return ServiceProcess(tmp_path, str(tmp_path / "releaf.db"), "--drain-seconds", str(DRAIN_SECONDS))


def wait_for_503(service: ServiceProcess) -> None:
    """Wait for as long as a signal takes to arrive."""
    wait_until(lambda: service.call("GET", "/readyz")[0] == 503, DRAIN_SECONDS)


def test_a_service_drains_before_it_stops(service: ServiceProcess) -> None:
    with service:
        service.create(policy={"name": "LinUCB"})
        assert service.call("GET", "/readyz")[0] == 200
        started = time.monotonic()
        service.send(signal.SIGTERM)
        wait_for_503(service)
        assert service.call("GET", "/readyz")[2]["error"]["code"] == "stopping"
        decided = 0
        try:
            while True:  # each on a connection of its own
                call = HttpConnection(service.port)
                status, _, body = call("POST", "/v1/experiments/shop/decide", {"context": [40, 7.5, "plus"]})
                call.close()
                assert status == 200, body
                assert service.call("GET", "/healthz")[0] == 200
                decided = body["decision"]
                ended = time.monotonic()
                time.sleep(0.05)
        except NoResponse:
            pass
        assert ended - started > DRAIN_SECONDS / 2  # not far from the end, on a busy machine too
        assert decided >= 2
        assert service.wait_for_exit() == 0
        service.start()
        assert service.info()["counts"]["decisions"] >= decided


def test_a_drained_service_ends_without_an_error(service: ServiceProcess) -> None:
    with service:
        started = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - started >= DRAIN_SECONDS


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_stops_at_once(tmp_path: Path, second: signal.Signals) -> None:
    with ServiceProcess(tmp_path, str(tmp_path / "releaf.db"), "--drain-seconds", "1000") as service:
        service.send(signal.SIGTERM)
        wait_for_503(service)
        service.send(second)
        assert service.wait_for_exit() == 0


def test_by_default_sigterm_stops_at_once(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, str(tmp_path / "releaf.db")) as service:
        started = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - started < DRAIN_SECONDS
