"""Concurrent clients of a service that decide and reward, and remember every acknowledged answer."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter, deque
from typing import Any, Self

from polling import TIMEOUT_SECONDS, wait_until
from service_process import HttpConnection, NoResponse


def reward_of(decision: int) -> float:
    """The reward that clients give to a decision: always the same, so that they can give it twice."""
    return decision * 7919 % 101 / 100


class ClientLoad:
    """Clients that decide and reward, in all ways there are, until `stop`.

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
    reads
        Whether another one lists, explains and exports decisions meanwhile.
    """

    def __init__(self, port: int, seed: int, clients: int = 3, changes: bool = True, reads: bool = False) -> None:
        self._port, self._over = port, threading.Event()
        self._lock = threading.Lock()
        self.decisions: dict[int, dict[str, Any]] = {}  # acknowledged, with their context and key
        self.keys: dict[str, int] = {}
        self.rewards: dict[int, float] = {}  # acknowledged
        self.changes: list[str] = []  # acknowledged
        self.reads: Counter[str] = Counter()  # answered in full
        self.statuses: Counter[int] = Counter()
        self.unanswered = 0
        self.refusals: list[str] = []  # what a 503 said
        self.violations: list[str] = []  # answers that must not be
        self._waiting: deque[int] = deque()
        tasks = [(_Client(self, random.Random(seed + n)).run, f"client {n}") for n in range(clients)]
        tasks += [(self._change, "changes")] if changes else []
        tasks += [(self._read, "reads")] if reads else []
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
            thread.join(2 * TIMEOUT_SECONDS)
            assert not thread.is_alive()

    def __repr__(self) -> str:
        counts = f"{len(self.decisions)} decisions, {len(self.rewards)} rewards, {len(self.changes)} changes"
        counts += f", {self.reads.total()} reads" if self.reads else ""
        return f"{counts} acknowledged, {self.unanswered} requests unanswered, statuses {dict(self.statuses)}"

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def pause(self, seconds: float) -> None:
        self._over.wait(seconds)

    def acknowledged(self) -> int:
        return len(self.decisions) + len(self.rewards)

    def wait_for_progress(self, events: int) -> None:
        """Wait until so many more decisions and rewards were acknowledged."""
        goal = self.acknowledged() + events
        wait_until(lambda: self.acknowledged() >= goal, message=lambda: f"no progress: {self.statuses}")

    def ask(self, call: HttpConnection, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Send a request; the status is 0 where no answer came."""
        try:
            status, found, told = call(method, f"/v1/experiments/shop{path}", body, **headers)
        except NoResponse:
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
        call, turn = HttpConnection(self._port), 0
        while not self.is_over:
            turn += 1
            policy: dict[str, Any] = {"name": ("LinUCB", "EpsilonGreedy", "AdaptiveReleaf")[turn % 3], "parameters": {}}
            for method, path, body in (
                ("POST", "/actions", {"action": f"extra {turn}"}),
                ("POST", "/shadows", {"name": f"shadow-{turn}", "policy": policy}),
                ("DELETE", f"/actions/extra%20{turn}", None),
                ("POST", f"/shadows/shadow-{turn}/promote?force=true", None),
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

    def _read(self) -> None:
        """List, explain and export; an export has each acknowledged decision, once and in order."""
        call = HttpConnection(self._port)
        while not self.is_over:
            known = len(self.decisions)
            for path in ("/decisions?limit=200", "/explain/1", "/series", "/relevance", "/export?format=ndjson"):
                status, told = self.ask(call, "GET", path)
                if status == 200:
                    self.reads[path.partition("?")[0]] += 1
                    if path.startswith("/export"):
                        self._check_export(told, known)
                elif status not in (0, 404, 429, 503):  # 404: not a single decision yet
                    self.violations.append(f"GET {path}: {status} {told}")
                self.pause(0.02)
        call.close()

    def _check_export(self, content: Any, known: int) -> None:
        numbers = [json.loads(line)["decision"] for line in content.splitlines()] if content else []
        if numbers != list(range(1, len(numbers) + 1)) or len(numbers) < known:
            self.violations.append(f"an export has {len(numbers)} decisions of {known}, up to {numbers[-1:]}")


class _Client:
    """Decides and rewards in one way after the other."""

    def __init__(self, load: ClientLoad, chance: random.Random) -> None:
        self._load, self._chance, self._call = load, chance, HttpConnection(load._port)

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
