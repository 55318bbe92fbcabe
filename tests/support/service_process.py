"""``releaf serve`` as a process that tests kill, pause and start again, and a connection to it."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from polling import TIMEOUT_SECONDS, wait_until
from running_service import COMPILE_TIMEOUT_SECONDS, START_TIMEOUT_SECONDS, STOP_TIMEOUT_SECONDS, free_port

FREQUENT_SNAPSHOTS = ("--snapshot-events", "150", "--snapshot-seconds", "0.2")
SHOP_EXPERIMENT = {
    "name": "shop",
    "actions": ["tea", "coffee", "milk"],
    "features": [
        {"name": "age", "kind": "continuous", "low": 18.0, "high": 90.0},
        {"name": "spent", "kind": "quantile"},
        {"name": "plan", "kind": "categorical", "values": ["basic", "plus", "pro"]},
    ],
    "policy": {"name": "AdaptiveReleaf", "parameters": {"seed": 5}},
    "rewards": {"within_seconds": 2.0, "default": 0.0},
}


class NoResponse(Exception):
    """A request to which no whole answer came."""


class HttpConnection:
    """A client's connection, opened again after a failure."""

    def __init__(self, port: int, timeout: float = TIMEOUT_SECONDS) -> None:
        self._port, self._timeout = port, timeout
        self._connection: http.client.HTTPConnection | None = None

    def __call__(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, http.client.HTTPMessage, Any]:
        """The status, headers and content of an answer; content is bytes where it is not JSON."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            named.setdefault("Content-Type", "application/json")
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        try:
            if self._was_closed():
                self.close()
            if self._connection is None:
                self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._timeout)
            self._connection.request(method, path, content, named)
            answer = self._connection.getresponse()
            given = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise NoResponse(str(error)) from error
        is_json = given and answer.headers.get_content_type() in ("application/json", "application/problem+json")
        return answer.status, answer.headers, json.loads(given) if is_json else given

    def _was_closed(self) -> bool:
        """Whether the service closed the connection, on which it waits for a request for seconds only."""
        sock = self._connection.sock if self._connection is not None else None
        return sock is not None and bool(select.select([sock], [], [], 0)[0])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __del__(self) -> None:  # of a client whose thread ended with its service
        self.close()


class ServiceProcess:
    """``releaf serve`` in a process of its own, which keeps its port when it is started again.

    Parameters
    ----------
    folder
        For its log.
    store
        The address of its store.
    options
        Of the command.
    program
        What Python is to run instead of ``-m releaf``.
    """

    def __init__(self, folder: Path, store: str, *options: str, program: Sequence[str] = ("-m", "releaf")) -> None:
        self.port, self.store = free_port(), store
        self._log = folder / f"service-{self.port}.log"
        self._command = [sys.executable, *program, "serve", "--store", store, "--port", str(self.port), *options]
        self._process: subprocess.Popen[bytes] | None = None
        self.call = HttpConnection(self.port)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.call.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, **environment: str) -> None:
        """Start it and wait until it has taken up its experiments, or stands by."""
        variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, env=variables, stdout=log, stderr=log)
        try:
            wait_until(self._is_up, START_TIMEOUT_SECONDS, f"the service does not start, see {self._log}")
        except BaseException:
            self.__exit__()
            raise

    def _is_up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the service has ended: {self.log_text()[-3000:]}"
        try:
            status, _, told = self.call("GET", "/readyz")
            return status == 200 or (isinstance(told, dict) and told["error"]["code"] == "standby")
        except NoResponse:
            return False

    def send(self, what: signal.Signals) -> None:
        os.kill(self.pid, what)

    def has_ended(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None

    def kill(self) -> None:
        """End it in the middle of whatever it is doing."""
        self.send(signal.SIGKILL)
        self.wait_for_exit()

    def stop(self) -> int:
        """Ask it to end; returns its exit code."""
        self.send(signal.SIGTERM)
        return self.wait_for_exit()

    def wait_for_exit(self) -> int:
        """Wait until it has ended; returns its exit code."""
        assert self._process is not None
        process, self._process = self._process, None
        try:
            return process.wait(STOP_TIMEOUT_SECONDS)
        finally:
            process.kill()
            self.call.close()

    def log_text(self) -> str:
        """Everything the service logged."""
        return self._log.read_text()

    def create(self, **differences: Any) -> None:
        """Create an experiment, for which a machine that never did may have to compile first."""
        self.call.close()  # which may take longer than a connection is kept open
        call = HttpConnection(self.port, COMPILE_TIMEOUT_SECONDS)
        status, _, body = call("POST", "/v1/experiments", SHOP_EXPERIMENT | differences)
        call.close()
        assert status == 201, body

    def info(self, experiment: str = "shop") -> Any:
        status, _, body = self.call("GET", f"/v1/experiments/{experiment}")
        assert status == 200, body
        return body

    def model(self, experiment: str = "shop") -> bytes:
        status, _, content = self.call("GET", f"/v1/experiments/{experiment}/model")
        assert status == 200
        assert isinstance(content, bytes)
        return content

    def decide(self, experiment: str = "shop") -> Any:
        """A decision on some context; it must come."""
        status, _, body = self.call("POST", f"/v1/experiments/{experiment}/decide", {"context": [40, 7.5, "plus"]})
        assert status == 200, body
        return body

    def wait_for_decision(self) -> float:
        """Seconds until the service made a decision."""
        started = time.monotonic()

        def decides() -> bool:
            try:
                return self.call("POST", "/v1/experiments/shop/decide", {"context": [40, 7.5, "plus"]})[0] == 200
            except NoResponse:
                return False

        wait_until(decides, message=lambda: f"no decisions: {self.log_text()[-3000:]}")
        return time.monotonic() - started


def wait_for_rewards(service: ServiceProcess) -> None:
    """Wait until no decision is pending."""
    wait_until(lambda: service.info()["counts"]["waiting"] == 0, message="decisions are pending after their deadline")
