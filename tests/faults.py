"""Services that are ended in every way, clients that remember what they were told, and what has to be true then."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from releaf.service.experiments.serialization import EXPERIMENT_FORMAT
from releaf.service.experiments.state import ExperimentState
from releaf.service.log.audit import ExperimentAudit, audit
from releaf.service.log.events import AnyEvent, Decided, Rewarded
from releaf.service.log.page_chain import LogPosition, decode_events
from releaf.service.log.snapshot_check import load_snapshot
from releaf.service.store import open_store
from releaf.service.store.base import EventStore
from served import END_WITHIN, START_WITHIN, free_port

PATIENCE = 60.0  # seconds, for what takes one or two on a machine that does nothing else
COMPILED_WITHIN = 300.0
OFTEN = ("--snapshot-events", "150", "--snapshot-seconds", "0.2")
SHOP = {
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


class Unanswered(Exception):
    """A request to which no whole answer came."""


class Caller:
    """One client's connection."""

    def __init__(self, port: int, patience: float = PATIENCE) -> None:
        self._port, self._patience = port, patience
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
            if self._connection is None:
                self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._patience)
            self._connection.request(method, path, content, named)
            answer = self._connection.getresponse()
            given = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Unanswered(str(error)) from error
        is_json = given and answer.headers.get_content_type() == "application/json"
        return answer.status, answer.headers, json.loads(given) if is_json else given

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Service:
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
        self.call = Caller(self.port)

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
            wait_until(self._is_up, START_WITHIN, f"the service does not start, see {self._log}")
        except BaseException:
            self.__exit__()
            raise

    def _is_up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the service has ended: {self.said()[-3000:]}"
        try:
            return self.call("GET", "/healthz")[0] == 200
        except Unanswered:
            return False

    def send(self, what: signal.Signals) -> None:
        os.kill(self.pid, what)

    def kill(self) -> None:
        """End it in the middle of whatever it is doing."""
        self.send(signal.SIGKILL)
        self._ended()

    def stop(self) -> int:
        """Ask it to end; returns its exit code."""
        self.send(signal.SIGTERM)
        return self._ended()

    def _ended(self) -> int:
        assert self._process is not None
        process, self._process = self._process, None
        try:
            return process.wait(END_WITHIN)
        finally:
            process.kill()
            self.call.close()

    def said(self) -> str:
        """All that it logged."""
        return self._log.read_text()

    def create(self, **differences: Any) -> None:
        """Create an experiment, for which a machine that never did may have to compile first."""
        self.call.close()  # which may take longer than a connection is kept open
        call = Caller(self.port, COMPILED_WITHIN)
        status, _, told = call("POST", "/v1/experiments", SHOP | differences)
        call.close()
        assert status == 201, told

    def info(self, experiment: str = "shop") -> Any:
        status, _, told = self.call("GET", f"/v1/experiments/{experiment}")
        assert status == 200, told
        return told

    def model(self, experiment: str = "shop") -> bytes:
        status, _, content = self.call("GET", f"/v1/experiments/{experiment}/model")
        assert status == 200
        assert isinstance(content, bytes)
        return content

    def decide(self, experiment: str = "shop") -> Any:
        """A decision on some context; it must come."""
        status, _, told = self.call("POST", f"/v1/experiments/{experiment}/decide", {"context": [40, 7.5, "plus"]})
        assert status == 200, told
        return told

    def decides_again(self, within: float = PATIENCE) -> float:
        """Seconds until a decision was made."""
        started = time.monotonic()

        def decides() -> bool:
            try:
                return self.call("POST", "/v1/experiments/shop/decide", {"context": [40, 7.5, "plus"]})[0] == 200
            except Unanswered:
                return False

        wait_until(decides, within, f"no decisions: {self.said()[-3000:]}")
        return time.monotonic() - started


def wait_until(happens: Callable[[], bool], within: float, otherwise: str) -> None:
    until = time.monotonic() + within
    while not happens():
        assert time.monotonic() < until, otherwise
        time.sleep(0.02)


def settle(service: Service) -> None:
    """Wait until no decision waits for its reward any more."""
    wait_until(lambda: service.info()["counts"]["waiting"] == 0, PATIENCE, "decisions wait beyond their deadline")


def reward_of(decision: int) -> float:
    """The reward that clients give to a decision: always the same, so that they can give it twice."""
    return decision * 7919 % 101 / 100


class Load:
    """Clients that decide and reward, in all ways there are, until they are told to stop.

    Parameters
    ----------
    port
        Of the service.
    seed
        Of the clients' choices.
    clients
        How many there are, besides one that changes actions and shadows.
    changes
        Whether there is that one.
    """

    def __init__(self, port: int, seed: int, clients: int = 3, changes: bool = True) -> None:
        self._port, self._over = port, threading.Event()
        self._lock = threading.Lock()
        self.decisions: dict[int, dict[str, Any]] = {}  # acknowledged, with their context and key
        self.keys: dict[str, int] = {}
        self.rewards: dict[int, float] = {}  # acknowledged
        self.changes: list[str] = []  # acknowledged
        self.statuses: Counter[int] = Counter()
        self.unanswered = 0
        self.refusals: list[str] = []  # what a 503 said
        self.violations: list[str] = []  # answers that must not be
        self._waiting: deque[int] = deque()
        tasks = [(_Client(self, random.Random(seed + n)).run, f"client {n}") for n in range(clients)]
        tasks += [(self._change, "changes")] if changes else []
        self._threads = [threading.Thread(target=run, name=name, daemon=True) for run, name in tasks]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Let every client finish what it does, and no more."""
        self._over.set()
        for thread in self._threads:
            thread.join(2 * PATIENCE)
            assert not thread.is_alive()

    def __repr__(self) -> str:
        counts = f"{len(self.decisions)} decisions, {len(self.rewards)} rewards, {len(self.changes)} changes"
        return f"{counts} acknowledged, {self.unanswered} requests unanswered, statuses {dict(self.statuses)}"

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def pause(self, seconds: float) -> None:
        self._over.wait(seconds)

    def acknowledged(self) -> int:
        return len(self.decisions) + len(self.rewards)

    def await_progress(self, events: int) -> None:
        """Wait until so many more decisions and rewards were acknowledged."""
        goal = self.acknowledged() + events
        wait_until(lambda: self.acknowledged() >= goal, PATIENCE, f"the service does not get on: {self.statuses}")

    def ask(self, call: Caller, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Send a request; the status is 0 where no answer came."""
        try:
            status, found, told = call(method, f"/v1/experiments/shop{path}", body, **headers)
        except Unanswered:
            with self._lock:
                self.unanswered += 1
            self.pause(0.02)
            return 0, None
        with self._lock:
            self.statuses[status] += 1
            if status == 503:
                self.refusals.append(told["error"]["message"])
                if "Retry-After" not in found:
                    self.violations.append(f"a 503 without Retry-After: {told}")
        if status == 503:
            self.pause(0.05)
        elif status >= 500:
            self.violations.append(f"{method} {path}: {status} {told}")
        return status, told

    def decided(self, answer: dict[str, Any], context: list[Any], key: str | None) -> None:
        kept = answer | {"context": context, "key": key}
        with self._lock:
            number = answer["decision"]
            before = self.decisions.setdefault(number, kept)
            if before != kept:
                self.violations.append(f"decision {number} was answered as {before} and as {kept}")
            elif key is not None and self.keys.setdefault(key, number) != number:
                self.violations.append(f"key {key} got decisions {self.keys[key]} and {number}")
            if answer["wants_reward"]:
                self._waiting.append(number)

    def some_waiting(self, chance: random.Random, most: int) -> list[int]:
        """Decisions whose reward was not given yet, from anywhere among them: late and out of order."""
        with self._lock:
            self._waiting.rotate(chance.randrange(50))
            return list({self._waiting.popleft() for _ in range(min(most, len(self._waiting)))})

    def put_back(self, numbers: list[int]) -> None:
        with self._lock:
            self._waiting.extend(numbers)

    def rewarded(self, number: int, status: str) -> None:
        if status not in ("learnt", "repeated"):
            self.violations.append(f"the reward of decision {number} was {status}")
        with self._lock:
            self.rewards[number] = reward_of(number)

    def _change(self) -> None:
        """Add and remove actions and shadows, and promote them."""
        call, turn = Caller(self._port), 0
        while not self.is_over:
            turn += 1
            policy: dict[str, Any] = {"name": ("LinUCB", "EpsilonGreedy", "AdaptiveReleaf")[turn % 3], "parameters": {}}
            for method, path, body in (
                ("POST", "/actions", {"action": f"extra {turn}"}),
                ("POST", "/shadows", {"name": f"shadow-{turn}", "policy": policy}),
                ("DELETE", f"/actions/extra%20{turn}", None),
                ("POST", f"/shadows/shadow-{turn}/promote", None),
                ("DELETE", "/shadows/former", None),
            ):
                status, told = 0, None
                while status in (0, 503) and not self.is_over:  # until it is done, be it by an attempt before
                    self.pause(0.1)
                    status, told = self.ask(call, method, path, body)
                if status == 200:
                    self.changes.append(f"{method} {path}")
                elif status not in (0, 404, 409, 503):
                    self.violations.append(f"{method} {path}: {status} {told}")
        call.close()


class _Client:
    """Decides and rewards in one way after the other."""

    def __init__(self, load: Load, chance: random.Random) -> None:
        self._load, self._chance, self._call = load, chance, Caller(load._port)

    def run(self) -> None:
        ways = (self._one, self._one, self._batch, self._lines, self._reward, self._reward, self._rewards, self._again)
        while not self._load.is_over:
            self._chance.choice(ways)()
        self._call.close()

    def _context(self) -> list[Any]:
        chance = self._chance
        return [chance.uniform(18, 90), chance.expovariate(0.1), chance.choice(["basic", "plus", "pro"])]

    def _key(self) -> str:
        return f"{self._chance.getrandbits(64):x}"

    def _one(self) -> None:
        """With a key, so that it can be asked again until an answer comes; sometimes also after one came."""
        context, key = self._context(), self._key()
        for _ in range(200):
            status, answer = self._load.ask(self._call, "POST", "/decide", {"context": context}, Idempotency_Key=key)
            if status == 200:
                self._load.decided(answer, context, key)
                if self._chance.random() < 0.9:
                    return
            elif status not in (0, 503):
                self._load.violations.append(f"decide: {status} {answer}")
            if self._load.is_over:
                return

    def _batch(self) -> None:
        contexts = [self._context() for _ in range(self._chance.randint(1, 20))]
        keys = [self._key() for _ in contexts] if self._chance.random() < 0.5 else None
        body = {"contexts": contexts} | ({"keys": keys} if keys else {})
        for _ in range(200 if keys else 1):
            status, told = self._load.ask(self._call, "POST", "/decide", body)
            if status == 200:
                for place, answer in enumerate(told["decisions"]):
                    self._load.decided(answer, contexts[place], keys[place] if keys else None)
                return
            if self._load.is_over:
                return

    def _lines(self) -> None:
        asked: list[dict[str, Any]] = [{"context": self._context(), "key": self._key()} for _ in range(10)]
        body = b"\n".join(json.dumps(one).encode() for one in asked)
        status, told = self._load.ask(self._call, "POST", "/decide", body, Content_Type="application/x-ndjson")
        if status == 200:
            for one, line in zip(asked, told.splitlines(), strict=True):
                answer = json.loads(line)
                if "decision" in answer:
                    self._load.decided(answer, one["context"], one["key"])

    def _reward(self) -> None:
        for number in self._load.some_waiting(self._chance, 1):
            self._give(number)

    def _give(self, number: int) -> None:
        body = {"decision": number, "reward": reward_of(number)}
        status, told = self._load.ask(self._call, "POST", "/reward", body)
        if status == 200:
            self._load.rewarded(number, told["status"])
        elif status in (0, 503):
            self._load.put_back([number])
        elif status != 410:  # the deadline has passed, or its action is gone
            self._load.violations.append(f"reward of decision {number}: {status} {told}")

    def _rewards(self) -> None:
        numbers = self._load.some_waiting(self._chance, 15)
        body = {"rewards": [{"decision": number, "reward": reward_of(number)} for number in numbers]}
        if not numbers:
            return
        status, told = self._load.ask(self._call, "POST", "/reward", body)
        if status == 200:
            for one in told["rewards"]:
                self._load.rewarded(one["decision"], one["status"])
        elif status == 410:  # one of them is too late, so none was learnt
            for number in numbers:
                self._give(number)
        elif status in (0, 503):
            self._load.put_back(numbers)

    def _again(self) -> None:
        """A reward that was given, again; the same is no news, and another one is refused."""
        given = list(self._load.rewards)[-50:]
        if not given:
            return
        number = self._chance.choice(given)
        for reward, expected in ((reward_of(number), 200), (reward_of(number) / 2 + 0.3, 409)):
            if reward == reward_of(number) and expected == 409:
                continue
            status, told = self._load.ask(self._call, "POST", "/reward", {"decision": number, "reward": reward})
            if status not in (0, 503, expected) or (status == 200 and told["status"] != "repeated"):
                self._load.violations.append(f"reward of decision {number} given again: {status} {told}")


# --- afterwards ---------------------------------------------------------------------------------------------------


def checked(address: str, load: Load | None = None, model: bytes | None = None) -> ExperimentAudit[ExperimentState]:
    """The experiment's audit, which must find nothing: all that clients were told, and the model they got."""
    return asyncio.run(_checked(address, load, model))


async def _checked(address: str, load: Load | None, model: bytes | None) -> ExperimentAudit[ExperimentState]:
    store = open_store(address)
    assert await store.open() == []
    try:
        report = await audit(store, EXPERIMENT_FORMAT)
        (found,) = report.experiments
        assert found.findings == [], found.findings
        assert found.state is not None
        assert EXPERIMENT_FORMAT.to_bytes(found.state) == await _from_latest_snapshot(store)
        if model is not None:
            assert found.state.learner.to_bytes() == model
        if load is not None:
            _compare(load, await history(store))
        return found
    finally:
        await store.close()


async def _from_latest_snapshot(store: EventStore) -> bytes:
    """The state as a service finds it that starts."""
    (row,) = await store.experiments()
    snapshot = await store.snapshot(row.id, (await store.snapshots(row.id))[0])
    state = load_snapshot(snapshot, EXPERIMENT_FORMAT)
    position = LogPosition(snapshot.last, snapshot.page_checksum)
    async for page in store.pages(row.id, position.last):
        position = position.advance(page)
        for event in decode_events(page):
            state.apply(event)
    return EXPERIMENT_FORMAT.to_bytes(state)


async def history(store: EventStore) -> list[AnyEvent]:
    """All events of the only experiment."""
    (row,) = await store.experiments()
    return [event async for page in store.pages(row.id) for event in decode_events(page)]


def _compare(load: Load, events: list[AnyEvent]) -> None:
    """All that was acknowledged is in the log as it was told, and nothing is there twice."""
    assert not load.violations, load.violations[:10]
    decided = [event for event in events if isinstance(event, Decided)]
    assert [event.number for event in decided] == list(range(1, len(decided) + 1))
    keys = [event.key for event in decided if event.key is not None]
    assert len(set(keys)) == len(keys)
    for number, told in load.decisions.items():
        event = decided[number - 1]
        names = ("action", "probability", "explored", "wants_reward", "context", "key")
        assert [getattr(event, name) for name in names] == [told[name] for name in names], f"{event} is not {told}"
    rewards = [(event.decision, event.reward) for event in events if isinstance(event, Rewarded)]
    assert len(dict(rewards)) == len(rewards)
    assert load.rewards.items() <= dict(rewards).items()
    assert all(reward == reward_of(number) for number, reward in rewards)
    changes = [event for event in events if not isinstance(event, Decided | Rewarded)]
    assert len(load.changes) <= len(changes)
