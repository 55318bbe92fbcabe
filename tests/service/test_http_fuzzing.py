"""Thousands of malformed requests: all are rejected, none fails, and memory does not grow."""

from __future__ import annotations

import json
import random
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import postgres_server
import pytest
from polling import TIMEOUT_SECONDS
from service_process import SHOP_EXPERIMENT, HttpConnection, NoResponse, ServiceProcess

WARM_UP = 2_000
GROWTH = 24 << 20  # bytes
EXPERIMENTS = "/v1/experiments"
PATHS = [
    *(f"{EXPERIMENTS}/shop{rest}" for rest in ("", "/decide", "/reward", "/preview", "/actions", "/shadows")),
    *(f"{EXPERIMENTS}/shop/{rest}" for rest in ("relevance", "decisions", "series", "model", "export", "explain/1")),
    *(f"{EXPERIMENTS}/shop/{rest}" for rest in ("partition/age", "explain/0", "explain/99999999999999999999999", "x")),
    *(f"{EXPERIMENTS}/shop/{rest}" for rest in ("actions/nothing", "shadows/none/promote", "explain/%00", "%2e%2e")),
    *(EXPERIMENTS, f"{EXPERIMENTS}/nowhere/decide", f"{EXPERIMENTS}/%F0%9F%92%A9", f"{EXPERIMENTS}/shop%2Fdecide"),
    *("/", "//", "/v1", "/v1/policies", "/healthz", "/readyz", "/metrics", "/openapi.json", "/login", "/logout"),
    *("/../../etc/passwd", "/%ff%fe", "/a" * 500, "/v1/experiments/" + "x" * 5_000, "/?", "/static/../page.js"),
]
GET, POST = "GET", "POST"
METHODS = ["GET", "POST", "POST", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "BREW"]
TYPES = ["application/json"] * 6 + [
    "application/x-ndjson",
    "text/plain",
    "",
    "application/json; charset=utf-16",
    "a/b;" * 90,
]
SENSIBLE = [
    *((POST, f"{EXPERIMENTS}/shop/{rest}") for rest in ("decide", "decide", "reward", "preview", "actions", "shadows")),
    *(
        (GET, f"{EXPERIMENTS}/shop/{rest}")
        for rest in ("decisions", "export", "explain/1", "partition/age", "relevance")
    ),
    (POST, EXPERIMENTS),
]
QUERIES = [
    "",
    "",
    "",
    "?limit=-1",
    "?limit=1e9",
    "?before=x",
    "?since=never",
    "?until=%FF",
    "?format=exe",
    "?explored=2",
]
QUERIES += [
    "?a=1&a=2",
    "?" + "&".join(f"q{n}=1" for n in range(50)),
    "?=%%%",
    "?outcome=\u00e9".encode().decode("latin-1"),
]
SOUND: list[Any] = [
    {"context": [40, 7.5, "plus"], "key": "a key"},
    {"context": {"age": 40, "spent": 7.5, "plan": "plus"}},
    {"contexts": [[40, 7.5, "plus"]] * 3, "keys": ["a", "b", "c"]},
    {"decision": 1, "reward": 0.5},
    {"rewards": [{"decision": 1, "reward": 0.5}, {"decision": 2, "reward": [0.1, 0.2, 0.3]}]},
    {"action": "rum"},
    {"name": "beside", "policy": {"name": "LinUCB", "parameters": {"alpha": 1}}},
    SHOP_EXPERIMENT,
]
ODD: list[Any] = [
    *(
        None,
        True,
        -1,
        0,
        2**63,
        2**64,
        10**40,
        -(10**40),
        1e308,
        -0.0,
        1e-320,
        0.1,
        "",
        "x",
        "\x00",
        "\ufeff",
        "💩" * 50,
    ),
    *("x" * 10_000, [], {}, [[]], [{}], {"": None}, [None] * 100, {"a": {"b": {"c": []}}}, ["age"], [1, 2, 3], "NaN"),
]
RAW = [
    *(
        b"",
        b" ",
        b"{",
        b"}",
        b'{"context": [1,2',
        b"[" * 10_000,
        b'{"a":' * 5_000,
        b"\xff\xfe\x00",
        b"null",
        b"NaN",
        b'"',
    ),
    *(b'{"context": [NaN, Infinity, 1]}', b'{"context": [1e999, 1, "plus"]}', b"\x00" * 100, b"{}{}", b"1" * 5_000),
    *(
        b'{"context": [40, 7, "\xc3\x28"]}',
        b'{"context": [40, 7, "\\ud800"]}',
        b"[1,]",
        b"{'context': 1}",
        b"\n\n\n{}\n\n",
    ),
    *(
        b'{"decision": 1, "decision": 2, "reward": 1}',
        b'{"decision": 1.5, "reward": 1}',
        b'{"decision": "1", "reward": 1}',
    ),
]
HEADERS: list[dict[str, str]] = [{}] * 60 + [
    {"Idempotency-Key": ""},
    {"Idempotency-Key": "\u00ff" * 300},
    {"Authorization": "Bearer"},
    {"Authorization": "Bearer \u00e9\u00e9"},
    {"Authorization": "Bearer rlf_" + "x" * 5_000},
    {"Host": "elsewhere.example"},
    {"Origin": "https://elsewhere.example"},
    {"Cookie": "session=;;;==\u00ff; " * 20},
    {"Accept": "*" * 5_000},
    {"X-Many": "y" * 60_000},
    {"Transfer-Encoding": "gzip"},
    {"Expect": "100-continue"},
]
GARBAGE = [
    *(
        b"\x00" * 50,
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\r\n",
        b"A" * 70_000,
    ),
    *(b"GET / HTTP/1.1\r\nHost: x\r\nBad Header\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\nabc"),
    b"POST /v1/experiments/shop/decide HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nabcdefg",
    b"POST /v1/experiments/shop/decide HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nabc\r\n0\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /v1/experiments/shop/feed HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
]
HALF = b"POST /v1/experiments/shop/decide HTTP/1.1\r\nHost: %s\r\n"
HALF += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"


class Fuzz:
    """Sends odd requests and counts what comes back."""

    def __init__(self, service: ServiceProcess, seed: int) -> None:
        self._chance, self._service, self._call = random.Random(seed), service, HttpConnection(service.port)
        self.statuses: Counter[int] = Counter()
        self.failures: list[str] = []

    def send(self, requests: int) -> None:
        ways: list[Callable[[], None]] = [self._whole] * 45 + [
            self._garbage,
            self._half,
            self._large,
            self._whole,
            self._half,
        ]
        for _ in range(requests):
            self._chance.choice(ways)()
        self._call.close()

    def _whole(self) -> None:
        pick = self._chance.choice
        method, path = pick(SENSIBLE) if self._chance.random() < 0.6 else (pick(METHODS), pick(PATHS))
        path, body = path + pick(QUERIES), self._body()
        headers = {"Content-Type": pick(TYPES)} | pick(HEADERS)
        if path.startswith(f"{EXPERIMENTS}/shop") and (method, path.count("/")) == ("DELETE", 3):
            method = "PUT"  # the experiment is still wanted
        try:
            status, _, _ = self._call(method, path, body, **headers)
        except NoResponse:
            return  # refused so firmly that the connection is closed
        except UnicodeEncodeError:
            self._call.close()
            return  # nothing that could be sent
        self.statuses[status] += 1
        if status >= 500:
            self.failures.append(f"{status}: {method} {path} {headers} {body[:300]!r}")

    def _body(self) -> bytes:
        pick = self._chance.choice
        if self._chance.random() < 0.3:
            return pick(RAW)
        made = json.dumps(self._mutated(pick(SOUND))).encode()
        return b"\n".join([made, pick(RAW), made]) if self._chance.random() < 0.1 else made

    def _mutated(self, value: Any) -> Any:
        """A sound request with something odd in some place."""
        pick = self._chance.choice
        if self._chance.random() < 0.25 or not isinstance(value, dict | list) or not value:
            return pick(ODD)
        if isinstance(value, list):
            place = self._chance.randrange(len(value))
            return [*value[:place], self._mutated(value[place]), *value[place + 1 :]]
        name = pick(list(value))
        odd = self._mutated(value[name])
        rest = {key: kept for key, kept in value.items() if key != name}
        return rest | pick([{name: odd}, {}, {name: value[name], "unknown": odd}, {name.upper(): value[name]}])

    def _garbage(self) -> None:
        self._raw(self._chance.choice(GARBAGE), patience=0.05)

    def _half(self) -> None:
        host = f"127.0.0.1:{self._service.port}".encode()
        self._raw(HALF % (host, self._chance.randint(50, 1_000_000), b'{"context": [40, 7'), patience=0)

    def _large(self) -> None:
        host = f"127.0.0.1:{self._service.port}".encode()
        self._raw(HALF % (host, 6 << 20, b" " * (5 << 20)), patience=1)

    def _raw(self, content: bytes, patience: float) -> None:
        """Bytes as they are; the connection is dropped soon after."""
        with socket.create_connection(("127.0.0.1", self._service.port), TIMEOUT_SECONDS) as connection:
            try:
                connection.sendall(content)
                if patience:
                    connection.settimeout(patience)
                    told = connection.recv(1000)
                    if told.startswith(b"HTTP/1.1 5"):
                        self.failures.append(f"{told!r} to {content[:300]!r}")
            except OSError:
                return


def memory_of(service: ServiceProcess) -> int:
    """Bytes of it that are in memory."""
    return int(Path(f"/proc/{service.pid}/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize(
    ("store", "requests"),
    [("sqlite", 10_000), ("postgres", 4_000), pytest.param("postgres", 10_000, marks=pytest.mark.soak)],
)
def test_malformed_requests_are_rejected_without_memory_growth(tmp_path: Path, store: str, requests: int) -> None:
    address = str(tmp_path / "store.db") if store == "sqlite" else postgres_server.new_database()
    with ServiceProcess(tmp_path, address) as service:
        service.create()
        for _ in range(3):
            service.decide()
        fuzz = Fuzz(service, seed=7)
        fuzz.send(WARM_UP)
        before = memory_of(service)
        fuzz.send(requests - WARM_UP)
        growth = memory_of(service) - before
        print(f"memory grew by {growth / 2**20:.1f} MB from {before / 2**20:.0f} MB; statuses {dict(fuzz.statuses)}")
        assert not fuzz.failures, "\n".join(fuzz.failures[:10])
        assert growth < GROWTH
        assert len(fuzz.statuses) > 8
        service.decide()
        assert "Traceback" not in service.log_text()
        assert service.stop() == 0
