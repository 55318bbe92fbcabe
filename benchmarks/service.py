"""The decision service: durable decisions a second and their waits, next to the same server answering a constant.

Every answered decision is on disk. All sides are measured in turn, each on a new process, and ratios are medians over
the rounds. How much the constant's own figures differ between rounds tells how noisy the machine was.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.load import throughput
from benchmarks.measure import Finding, Say
from benchmarks.paced_load import Waits, paced
from benchmarks.service_processes import NAME, constant, create, embedded, get, postgres, service

FEATURES, ACTIONS = 9, ("benign", "malignant")
BATCH, BATCH_CONNECTIONS = 100, 16
WARM_UP_SECONDS = 1.0
SHAPES = ((3, 5), (10, 30))  # actions and features of the experiments whose waits are measured
EVENTS_A_PAGE = 50
COLD_POLICY = "AdaptiveReleaf"
Side = Callable[[], AbstractContextManager[str]]


@dataclass(frozen=True, slots=True)
class Extent:
    """How long everything is measured."""

    rounds: int
    seconds: float
    batch_seconds: float
    paced_seconds: float
    events: int  # of the log from which the service starts


FULL = Extent(rounds=5, seconds=4.0, batch_seconds=2.0, paced_seconds=20.0, events=1_000_000)
QUICK = Extent(rounds=3, seconds=2.0, batch_seconds=1.0, paced_seconds=8.0, events=100_000)


def run(say: Say, *, quick: bool = False) -> list[Finding]:
    extent = QUICK if quick else FULL
    with contextlib.ExitStack() as stack:
        sides: dict[str, Side] = {"SQLite": embedded}
        server = stack.enter_context(postgres())
        if server is not None:
            sides["PostgreSQL"] = lambda: service(server.database())
        rates = _measure_rates(say, sides, extent)
    waits = [finding for shape in SHAPES for finding in _waits(say, *shape, extent)]
    return [*_rates(rates), *waits, *_cold_start(say), *_starts(say, extent)]


# --- as much as it takes --------------------------------------------------------------------------------------


def _measure_rates(say: Say, sides: dict[str, Side], extent: Extent) -> dict[str, list[float]]:
    """Requests a second of the constant, and decisions a second of each side, one by one and in batches."""
    contexts = _contexts(BATCH, FEATURES)
    one, many = json.dumps({"context": contexts[0]}), json.dumps({"contexts": contexts})
    rates: dict[str, list[float]] = {"constant": []}
    for number in range(extent.rounds):
        say(f"service: round {number + 1} of {extent.rounds}")
        with constant() as url:
            rates["constant"].append(_rate(f"{url}/v1/experiments/{NAME}/decide", one, extent.seconds))
        for name, start in sides.items():
            with start() as url:  # a new process each time, with a new experiment: none is slowed down by earlier ones
                path = create(url, actions=ACTIONS, features=FEATURES)
                rates.setdefault(name, []).append(_rate(f"{path}/decide", one, extent.seconds))
            with start() as url:
                path = create(url, actions=ACTIONS, features=FEATURES)
                rate = _rate(f"{path}/decide", many, extent.batch_seconds, connections=BATCH_CONNECTIONS)
                rates.setdefault(f"{name}, batches", []).append(BATCH * rate)
    return rates


def _rate(url: str, body: str, seconds: float, **options: Any) -> float:
    throughput(url, body, WARM_UP_SECONDS, **options)
    return throughput(url, body, seconds, **options)


def _contexts(count: int, features: int) -> list[list[float]]:
    draw = random.Random(0)
    return [[round(draw.random(), 4) for _ in range(features)] for _ in range(count)]


def _rates(rates: dict[str, list[float]]) -> list[Finding]:
    base = rates["constant"]
    noise = (max(base) - min(base)) / median(base)
    made = [
        Finding(what="service: constant answers a second", value=median(base), unit="/s", detail={"rounds": base}),
        Finding(what="service: noise: spread of the constant over its rounds", value=100 * noise, unit="%"),
    ]
    for name, taken in rates.items():
        if name == "constant":
            continue
        ratios = [mine / other for mine, other in zip(taken, base, strict=True)]
        what, least = f"service: {name}: decisions a second", 20.0 if "batches" in name else 0.5
        detail = {"lowest": min(ratios), "highest": max(ratios)}
        made += [
            Finding(what=what, value=median(taken), unit="/s", detail={"rounds": taken}),
            Finding(what=f"{what} over constant", value=median(ratios), at_least=least, detail=detail),
        ]
    return made


# --- waits at half of the maximum -----------------------------------------------------------------------------


def _waits(say: Say, actions: int, features: int, extent: Extent) -> list[Finding]:
    """Waits of decisions and rewards at half of the most decisions, with a snapshot and an export meanwhile.

    The same load on the constant tells what this machine and the program that asks add.
    """
    shape = f"{actions} × {features}"
    say(f"service: waits of AdaptiveReleaf, {shape}")
    bodies = [json.dumps({"context": context}) for context in _contexts(1_000, features)]
    spec = {"actions": [f"a{number}" for number in range(actions)], "features": features}
    with embedded() as url:
        half = _rate(f"{create(url, **spec)}/decide", bodies[0], extent.batch_seconds) / 2
    events = int(half * extent.paced_seconds / 3)  # so that snapshots are due within the window
    with embedded("--snapshot-events", str(max(events, 1)), "--snapshot-seconds", "1") as url:
        path = create(url, **spec)
        paced(f"{path}/decide", bodies, extent.paced_seconds / 4, rate=half / 2, rewards=f"{path}/reward")
        before = get(path)["snapshot"]
        with _export(path):
            waits = paced(f"{path}/decide", bodies, extent.paced_seconds, rate=half, rewards=f"{path}/reward")
        snapshots_came = get(path)["snapshot"] > before
    with constant() as url:
        floor = paced(f"{url}/v1/experiments/{NAME}/decide", bodies, extent.paced_seconds / 2, rate=half)
    detail = {
        "requests_a_second": half,
        "requests": len(waits.decided) + len(waits.rewarded),
        "rewards": len(waits.rewarded),
        "snapshot_in_the_window": snapshots_came,
        "p50_ms": 1000 * waits.quantile(0.5),
        "highest_ms": 1000 * waits.quantile(1.0),
    }
    return [
        _quantile(f"{shape}: p99 at half of the maximum", waits, floor, 0.99, 20.0, detail),
        _quantile(f"{shape}: p99.9 at half of the maximum", waits, floor, 0.999, 50.0, detail),
    ]


def _quantile(what: str, waits: Waits, floor: Waits, share: float, at_most: float, detail: dict[str, Any]) -> Finding:
    detail = {**detail, "constant_ms": 1000 * floor.quantile(share)}
    value = 1000 * waits.quantile(share)
    return Finding(what=f"service: AdaptiveReleaf {what}", value=value, unit="ms", at_most=at_most, detail=detail)


@contextlib.contextmanager
def _export(path: str) -> Any:
    """Another process reads an export of all decisions meanwhile."""
    program = f"import time, urllib.request; time.sleep(1); urllib.request.urlopen('{path}/export').read()"
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        yield
    finally:
        if process.wait(120):
            raise RuntimeError("the export failed")


# --- starts ---------------------------------------------------------------------------------------------------


def _cold_start(say: Say) -> list[Finding]:
    """How long the first experiment takes where no kernel is compiled yet."""
    say("service: the first experiment without compiled kernels")
    with tempfile.TemporaryDirectory() as folder:
        cold = {"NUMBA_CACHE_DIR": f"{folder}/kernels"}
        with service(f"{folder}/cold.db", environment=cold) as url:
            started = time.perf_counter()
            create(url, actions=ACTIONS, features=FEATURES, policy={"name": COLD_POLICY})
            seconds = time.perf_counter() - started
    what = "service: first AdaptiveReleaf experiment without compiled kernels"
    return [Finding(what=what, value=seconds, unit="s", at_most=20.0)]


def _starts(say: Say, extent: Extent) -> list[Finding]:
    say("service: starting from a long log")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.db"
        asyncio.run(_write_log(path, extent.events))
        seconds = []
        for _ in range(3):
            started = time.perf_counter()
            with service(str(path), graceful=False):
                seconds.append(time.perf_counter() - started)
        size = path.stat().st_size / 1e6
    started = time.perf_counter()
    with embedded():
        empty = time.perf_counter() - started
    detail = {"seconds": seconds, "seconds_with_an_empty_store": empty, "megabytes": size}
    what = f"service: start with {extent.events:,} events after the snapshot"
    most = 15.0 * extent.events / FULL.events
    return [Finding(what=what, value=median(seconds), unit="s", at_most=most, detail=detail)]


async def _write_log(path: Path, events: int) -> None:
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
    for _ in range(0, events, 2 * EVENTS_A_PAGE):
        contexts = [[draw.random() for _ in range(FEATURES)] for _ in range(EVENTS_A_PAGE)]
        made = await experiment.decide(contexts, [None] * EVENTS_A_PAGE)
        given = [RewardOf(decision=event.number, reward=float(draw.random() < event.context[0])) for event in made]
        await experiment.reward(given)
    await registry.group_commit.stop()
    await registry.store.close()  # without a snapshot: the next start has to replay the whole log
