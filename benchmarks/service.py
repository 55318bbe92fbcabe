"""The decision service: how many durable decisions a second, next to the same server answering a constant.

Every answered decision is on disk. The rates of all sides are measured in turn, and ratios are medians over the rounds.
PostgreSQL is one of the tests' own, started for this; without its server programs that side is left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.load import latencies, throughput
from benchmarks.measure import Finding, Say

FEATURES, ACTIONS = 9, ("benign", "malignant")
ROUNDS, SECONDS, BATCH = 5, 4.0, 100
EVENTS, EVENTS_A_PAGE = 1_000_000, 50
TIMEOUT = 180.0
NAME = "cases"


def run(say: Say) -> list[Finding]:
    draw = random.Random(0)
    contexts = [[round(draw.random(), 4) for _ in range(FEATURES)] for _ in range(BATCH)]
    one, many = json.dumps({"context": contexts[0]}), json.dumps({"contexts": contexts})
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        sides = {"constant": stack.enter_context(_constant())}
        sides["embedded"] = stack.enter_context(_service(Path(folder), f"{folder}/bench.db"))
        postgres = stack.enter_context(_postgres())
        if postgres:
            sides["PostgreSQL"] = stack.enter_context(_service(Path(folder), postgres))
        urls = {name: f"{url}/v1/experiments/{NAME}/decide" for name, url in sides.items()}
        rates: dict[str, list[float]] = {name: [] for name in (*urls, "batch")}
        for number in range(ROUNDS):
            for name, url in urls.items():
                say(f"service: {name}, round {number + 1} of {ROUNDS}")
                rates[name].append(throughput(url, one, SECONDS))
            rates["batch"].append(BATCH * throughput(urls["embedded"], many, SECONDS, connections=16))
        say("service: latencies at half of the maximum")
        half = median(rates["embedded"]) / 2
        waits = [latencies(urls["embedded"], one, half, SECONDS) for _ in range(3)]
    say("service: starting from a log of a million events")
    return [*_rates(rates), _waits(waits, half), *_starts(say)]


def _rates(rates: dict[str, list[float]]) -> list[Finding]:
    def ratio(side: str, other: str) -> float:
        return median(a / b for a, b in zip(rates[side], rates[other], strict=True))

    seen = {f"{name}_per_second": median(taken) for name, taken in rates.items() if taken}
    made = [
        Finding(what="service: constant answers a second", value=median(rates["constant"]), unit="/s"),
        Finding(what="service: durable decisions a second, embedded", value=median(rates["embedded"]), unit="/s"),
        Finding(what="service: embedded over constant", value=ratio("embedded", "constant"), at_least=0.5, detail=seen),
        Finding(what="service: decisions a second in batches of 100", value=median(rates["batch"]), unit="/s"),
        Finding(what="service: batches over single decisions", value=ratio("batch", "embedded"), at_least=20.0),
    ]
    if "PostgreSQL" in rates:
        made += [
            Finding(
                what="service: durable decisions a second, PostgreSQL", value=seen["PostgreSQL_per_second"], unit="/s"
            ),
            Finding(what="service: PostgreSQL over constant", value=ratio("PostgreSQL", "constant"), at_least=0.3),
        ]
    return made


def _waits(waits: list[list[float]], rate: float) -> Finding:
    worst = [taken[int(0.99 * len(taken))] for taken in waits]
    middle = [taken[len(taken) // 2] for taken in waits]
    detail = {"rate": rate, "p50_ms": [1000 * seconds for seconds in middle], "p99_ms": [1000 * s for s in worst]}
    what = "service: p99 at half of the maximum, embedded"
    return Finding(what=what, value=1000 * median(worst), unit="ms", at_most=20.0, detail=detail)


# --- starting from a long log -------------------------------------------------------------------------------


def _starts(say: Say) -> list[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.db"
        asyncio.run(_write_log(path, say))
        say("service: starting from a log of a million events, again and again")
        seconds = []
        for _ in range(3):
            started = time.perf_counter()
            with _service(Path(folder), str(path), create=False, graceful=False):
                seconds.append(time.perf_counter() - started)
        size = path.stat().st_size / 1e6
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        with _service(Path(folder), f"{folder}/empty.db", create=False):
            empty = time.perf_counter() - started
    detail = {"seconds": seconds, "seconds_with_an_empty_store": empty, "megabytes": size}
    what = "service: start with 1,000,000 events after the snapshot"
    return [Finding(what=what, value=median(seconds), unit="s", at_most=15.0, detail=detail)]


async def _write_log(path: Path, say: Say) -> None:
    """A log of decisions, each followed by its reward, as a service would have written it."""
    from releaf.service.experiments.registry import ExperimentRegistry
    from releaf.service.messages import NewExperiment, RewardOf
    from releaf.service.settings import ServiceSettings
    from releaf.service.store import open_store

    settings = ServiceSettings(store=str(path), snapshot_events=10**9)
    registry = ExperimentRegistry(open_store(str(path)), settings)
    await registry.start()
    experiment = await registry.create(NewExperiment(name=NAME, actions=list(ACTIONS), features=FEATURES))
    draw = random.Random(0)
    for done in range(0, EVENTS, 2 * EVENTS_A_PAGE):
        contexts = [[draw.random() for _ in range(FEATURES)] for _ in range(EVENTS_A_PAGE)]
        made = await experiment.decide(contexts, [None] * EVENTS_A_PAGE)
        given = [RewardOf(decision=event.number, reward=float(draw.random() < event.context[0])) for event in made]
        await experiment.reward(given)
        if done % 100_000 == 0:
            say(f"service: writing a log of a million events, {done:,}")
    await registry.group_commit.stop()
    await registry.store.close()  # without a snapshot: the next start has to replay the whole log


# --- sides --------------------------------------------------------------------------------------------------


@contextmanager
def _service(folder: Path, store: str, create: bool = True, graceful: bool = True) -> Iterator[str]:
    port = _free_port()
    command = [sys.executable, "-m", "releaf", "serve", "--port", str(port), "--store", store, "--rate-limit", "0"]
    with _process(command, folder / f"{port}.log") as process:
        url = f"http://127.0.0.1:{port}"
        _wait_for(f"{url}/readyz", process)
        if create:
            spec = {"name": NAME, "actions": ACTIONS, "features": FEATURES, "policy": {"parameters": {"seed": 0}}}
            _post(f"{url}/v1/experiments", spec)
        yield url
        if not graceful:
            process.kill()  # so that it leaves no snapshot


@contextmanager
def _constant() -> Iterator[str]:
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.constant", str(port)]
        with _process(command, Path(folder) / "log") as process:
            _wait_for(f"http://127.0.0.1:{port}/readyz", process)
            yield f"http://127.0.0.1:{port}"


@contextmanager
def _process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as told:
        process = subprocess.Popen(command, stdout=told, stderr=told)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(TIMEOUT)


@contextmanager
def _postgres() -> Iterator[str | None]:
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
    import postgres_server

    if postgres_server.find_binaries() is None:
        print("PostgreSQL's server programs are not here: that side is left out", file=sys.stderr)
        yield None
        return
    with postgres_server.own_server() as server:
        yield server.database()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.02)
    raise RuntimeError(f"{url} does not answer")


def _post(url: str, content: Any) -> None:
    body = json.dumps(content).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT):
        pass
