"""`releaf demo --service`: a service in a temporary folder, with a simulated stream of visitors."""

from __future__ import annotations

import heapq
import itertools
import math
import signal
import socket
import subprocess
import sys
import tempfile
import time
import webbrowser
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from releaf.cli.console import console, error_messages, errors, fail, require

if TYPE_CHECKING:
    from releaf.client import Client

EXPERIMENT, SHADOW = "teasers", "LinUCB"
FORGET = 2_000  # rewards of each action that the learner remembers, so that it follows the drift
RATE = 40  # visitors per second
DRIFT_AFTER = 4_000  # visitors after which tastes change, again and again
MEAN_DELAY = 3.0  # seconds from a decision to its click
DEADLINE = 20  # seconds, after which a visitor who did not click counts as reward 0
RECENT = 500  # decisions of which the progress line shows the mean
START_SECONDS, COMPILE_SECONDS, STOP_SECONDS = 120, 600, 60
PAUSE = 0.05  # between two polls of a service that starts


def run_service(port: int, browser: bool, minutes: float | None) -> None:
    """Run the service and its visitors until Ctrl-C, or for so many minutes."""
    require("service", "starlette", "uvicorn", "msgspec", "apsw", "jinja2", "prometheus_client", "httpx")
    from releaf.client import ServiceError

    signal.signal(signal.SIGTERM, _interrupt)  # so that the service is stopped too
    with tempfile.TemporaryDirectory(prefix="releaf-demo-") as folder:
        try:
            with error_messages(), _service(Path(folder), _free_port(port)) as url, _client(url) as client:
                _create(client)
                _describe(url)
                if browser:
                    webbrowser.open(f"{url}/")
                _simulate(client, math.inf if minutes is None else time.monotonic() + 60 * minutes)
        except ServiceError as error:
            fail(f"the service failed: {error}")
        except typer.Exit as stopped:
            if stopped.exit_code != 128 + signal.SIGINT:
                raise  # Ctrl-C is how this command ends


def _client(url: str) -> Client:
    from releaf.client import Client

    return Client(url, timeout=COMPILE_SECONDS, decide_timeout=COMPILE_SECONDS)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


@contextmanager
def _service(folder: Path, port: int) -> Iterator[str]:
    """The address of a `releaf serve` of its own, which is stopped at the end."""
    options = ["--store", str(folder / "releaf.db"), "--port", str(port), "--log-level", "WARNING"]
    options += ["--write-timeout", str(COMPILE_SECONDS)]  # kernels that are being compiled may hold up the store
    with open(folder / "service.log", "wb") as log:
        # In a group of its own, so that Ctrl-C in the terminal stops the visitors first.
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "releaf", "serve", *options], stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_until_ready(process, f"http://127.0.0.1:{port}", folder / "service.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    import httpx

    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/readyz", timeout=5, trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(PAUSE)
    fail(f"the service did not start:\n{log.read_text(encoding='utf-8', errors='replace')}")


def _free_port(wanted: int) -> int:
    """The wanted port of the loopback address if it is free, or any other."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            errors.print(f"Port {wanted} is in use: taking another one.", highlight=False)
            probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _create(client: Client) -> None:
    """Create the experiment and its shadow; the first one waits for kernels that are not compiled yet."""
    import warnings

    from releaf import Schema
    from releaf.streams import planted_log

    known = planted_log(2_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is left out is no feature
        schema = Schema.guess(known.columns, leave_out=["action", "reward"])
    with errors.status("creating the experiment; compiling takes a minute the first time"):
        client.create(
            EXPERIMENT,
            actions=known.actions,
            features=schema,
            parameters={"forget": FORGET},
            reward_within=DEADLINE,
            reward_default=0.0,
        )
        client.add_shadow(EXPERIMENT, SHADOW, policy=SHADOW)


def _describe(url: str) -> None:
    console.print(
        f"The service runs at {url}, with its dashboard at /. Every second, {RATE} visitors of a\n"
        f"page come to the experiment '{EXPERIMENT}', which shows each of them one of four teasers. A click\n"
        f"arrives some seconds later; after {DEADLINE} s without one the reward is 0. Every {DRIFT_AFTER:,} visitors\n"
        f"tastes change: watch relevance follow, and the shadow {SHADOW} beside it.\n"
        f"  curl {url}/v1/experiments/{EXPERIMENT}/relevance\n"
        "Ctrl-C ends it, and removes its store.",
        highlight=False,
        soft_wrap=True,
    )


def _simulate(client: Client, end: float) -> None:
    """Let visitors come and click with a delay, until a time or an interruption."""
    import numpy as np

    from releaf.client import ServiceError, Unavailable

    draw, started, count = np.random.default_rng(0), time.monotonic(), 0
    clicks, recent = _Clicks(), deque[float](maxlen=RECENT)
    with errors.status("") as status:
        for context, rates in _visitors():
            due = min(started + count / RATE, end)
            time.sleep(max(due - time.monotonic(), 0.0))
            if time.monotonic() >= end:
                break
            for clicked in clicks.until(time.monotonic()):
                with suppress(ServiceError):  # a click after the deadline, or while the service is busy, is lost
                    client.reward(EXPERIMENT, clicked, 1.0)
            try:
                decision = client.decide(EXPERIMENT, context)
            except Unavailable as busy:
                status.update(f"a visitor is gone, since the service is busy: {busy}")
                continue
            rate = rates[str(decision.action)]
            count += 1
            recent.append(rate)
            if draw.random() < rate:
                clicks.add(time.monotonic() + draw.exponential(MEAN_DELAY), decision.id)
            if count % RATE == 0:
                status.update(f"{count:,} visitors; of the last {len(recent)}, {np.mean(recent):.0%} click")
    console.print(f"Stopped after {count:,} visitors.", highlight=False)


class _Clicks:
    """Clicks that will come, by their time."""

    def __init__(self) -> None:
        self._pending: list[tuple[float, int]] = []

    def add(self, at: float, decision: int) -> None:
        heapq.heappush(self._pending, (at, decision))

    def until(self, now: float) -> Iterator[int]:
        """The decisions whose click is due."""
        while self._pending and self._pending[0][0] <= now:
            yield heapq.heappop(self._pending)[1]


def _visitors() -> Iterator[tuple[dict[str, Any], dict[str, float]]]:
    """Visitors and the chance that each clicks on each teaser; after each drift, the teasers swap their visitors."""
    import numpy as np

    from releaf.streams import planted_log

    for season in itertools.count():
        log = planted_log(DRIFT_AFTER, seed=season)
        # Each season has all dates of a year, in any order, so that the weekday does not drift by itself.
        order, contexts = np.random.default_rng(season).permutation(DRIFT_AFTER), log.contexts
        for row in order.tolist():
            rates = np.roll(log.expected[row], season).tolist()
            yield contexts[row], dict(zip(log.actions, rates, strict=True))
