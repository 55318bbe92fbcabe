"""Connection limits, read time-outs, feeds and log-in forms, against a real server."""

from __future__ import annotations

import itertools
import json
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from polling import TIMEOUT_SECONDS, wait_until
from running_service import START_TIMEOUT_SECONDS, STOP_TIMEOUT_SECONDS, free_port, start_service
from service_api import Api
from starlette.routing import Route
from typer.testing import CliRunner

from releaf.cli import app
from releaf.service.app import Service, make_server, make_service
from releaf.service.auth.trusted_proxies import TrustedProxies
from releaf.service.dashboard.login import ProtectedPage, _is_local
from releaf.service.http.connection_limits import HEADER_LIMIT, ClientConnections
from releaf.service.settings import ServiceSettings

READ_SECONDS, FEEDS, CONNECTIONS = 0.6, 2, 4
START = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@dataclass
class Running:
    """A service in a thread, and how to reach it."""

    service: Service
    port: int
    api: Api

    def connect(self, client: str = "127.0.0.1") -> socket.socket:
        address = ("127.0.0.1", self.port)
        return socket.create_connection(address, timeout=TIMEOUT_SECONDS, source_address=(client, 0))


@contextmanager
def running(folder: Path, **further: Any) -> Iterator[Running]:
    settings = ServiceSettings(store=str(folder / "store.db"), port=0, **{"read_timeout": TIMEOUT_SECONDS, **further})
    service = make_service(settings)
    server = make_server(service, settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, START_TIMEOUT_SECONDS)
        port = server.servers[0].sockets[0].getsockname()[1]
        api = Api(f"http://127.0.0.1:{port}")
        with closing(api.http):
            yield Running(service, port, api)
    finally:
        server.should_exit = True
        thread.join(STOP_TIMEOUT_SECONDS)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("service")
    with running(folder, feed_limit=FEEDS) as one:
        yield one


@pytest.fixture(scope="module")
def short_timeout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service that waits for a request no longer than READ_SECONDS."""
    with running(tmp_path_factory.mktemp("short"), read_timeout=READ_SECONDS) as one:
        yield one


def all_of(connection: socket.socket) -> bytes:
    """What comes until the service closes the connection."""
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)


def answer_of(connection: socket.socket) -> bytes:
    """One answer of /healthz."""
    got = b""
    while not got.endswith(b"}"):
        part = connection.recv(65_536)
        assert part, got
        got += part
    return got


def sent_until_closed(connection: socket.socket, line: bytes, pause: float = 0.0) -> int:
    """How often a line could be sent before the service closed the connection."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    for count in itertools.count():
        try:
            connection.sendall(line)
        except ConnectionError:
            return count
        assert time.monotonic() < deadline, "the service goes on reading"
        time.sleep(pause)
    raise AssertionError


# --- headers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [b"x: " + b"a" * 1000 + b"\r\n", b"a" * 1000], ids=["many", "one"])
def test_endless_headers_are_rejected(served: Running, line: bytes) -> None:
    with served.connect() as connection:
        connection.sendall(START + b"y: ")
        connection.sendall((line * 100)[: HEADER_LIMIT - len(START) - 3])  # and no more, so that no reset is sent
        answer = all_of(connection)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "head_too_large"


def test_headers_in_one_packet_are_limited_too(served: Running) -> None:
    with served.connect() as connection:
        connection.sendall(START + b"y: " + b"a" * HEADER_LIMIT + b"\r\n\r\n")
        try:
            answer = all_of(connection)
        except ConnectionResetError:
            answer = b""
    assert b" 200 " not in answer


def test_large_headers_are_accepted_and_do_not_add_up_over_requests(served: Running) -> None:
    with served.connect() as connection:
        for _ in range(3):
            connection.sendall(START + b"y: " + b"a" * (HEADER_LIMIT - 200) + b"\r\n\r\n")
            assert answer_of(connection).startswith(b"HTTP/1.1 200 ")


def test_endless_trailers_are_rejected(served: Running) -> None:
    head = b"POST /v1/experiments HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with served.connect() as connection:
        connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
        line = b"x: " + b"a" * 1000 + b"\r\n"
        assert sent_until_closed(connection, line) * len(line) < 20 << 20  # what is on the way counts too


def test_large_bodies_do_not_count_as_headers(served: Running) -> None:
    body = b'{"name": "' + b"a" * (10 * HEADER_LIMIT) + b'"}'
    answer = served.api.http.post("/v1/experiments", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422


# --- time ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", b"GET", START, b"\r\n"], ids=["nothing", "word", "headers", "blank"])
def test_an_incomplete_request_times_out(short_timeout: Running, sent: bytes) -> None:
    with short_timeout.connect() as connection:
        connection.sendall(sent)
        assert all_of(connection) == b""


def test_slow_headers_do_not_extend_the_timeout(short_timeout: Running) -> None:
    with short_timeout.connect() as connection:
        connection.sendall(START)
        assert sent_until_closed(connection, b"x: y\r\n", pause=0.05) > 0


def test_a_connection_may_be_idle_but_a_started_request_times_out(short_timeout: Running) -> None:
    with short_timeout.connect() as connection:
        for _ in range(2):
            connection.sendall(START + b"\r\n")
            assert answer_of(connection).startswith(b"HTTP/1.1 200 ")
            time.sleep(READ_SECONDS * 2)
        connection.sendall(START)
        assert all_of(connection) == b""


def test_pipelined_requests_are_all_answered(served: Running) -> None:
    with served.connect() as connection:
        connection.sendall((START + b"\r\n") * 20 + START + b"Connection: close\r\n\r\n")
        assert all_of(connection).count(b"HTTP/1.1 200 ") == 21


# --- many of them -------------------------------------------------------------------------------------------


def test_connections_beyond_the_limit_get_a_503(tmp_path: Path) -> None:
    with running(tmp_path, connection_limit=CONNECTIONS, client_connection_limit=CONNECTIONS + 1) as one:
        with ExitStack() as open_ones:
            resting = [open_ones.enter_context(one.connect()) for _ in range(CONNECTIONS)]
            for connection in resting:
                connection.sendall(START + b"\r\n")
                assert answer_of(connection).startswith(b"HTTP/1.1 200 ")
            with one.connect() as further:
                further.sendall(START + b"\r\n")
                answer = all_of(further)
                assert answer.startswith(b"HTTP/1.1 503 ")
                assert b"\r\nx-request-id: " in answer
                assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "connection_limit"
        wait_until(lambda: one.api.http.get("/healthz").status_code == 200)


def is_closed(connection: socket.socket) -> bool:
    """Whether the service has closed a connection, or answers before it does."""
    return bool(select.select([connection], [], [], 0)[0])


def test_slow_connections_of_one_client_do_not_take_the_service_from_others(tmp_path: Path) -> None:
    limit, share = 8, 2  # a quarter
    with running(tmp_path, connection_limit=limit) as one, ExitStack() as stack:
        slow = [stack.enter_context(one.connect("127.0.0.2")) for _ in range(3 * limit)]
        for connection in slow[:share]:
            connection.sendall(START)  # and never the end of the headers
        wait_until(lambda: sum(map(is_closed, slow)) == len(slow) - share)
        assert not any(map(is_closed, slow[:share]))
        for _ in range(share):
            other = stack.enter_context(one.connect("127.0.0.1"))
            other.sendall(START + b"\r\n")
            assert answer_of(other).startswith(b"HTTP/1.1 200 ")
        slow[0].sendall(b"\r\n")  # the slow one gets its answer in the end
        assert answer_of(slow[0]).startswith(b"HTTP/1.1 200 ")


def test_a_connection_beyond_the_limit_of_its_client_gets_a_503_and_closed_ones_are_released(tmp_path: Path) -> None:
    with running(tmp_path, client_connection_limit=2) as one:
        for _ in range(3):
            with one.connect("127.0.0.2") as first, one.connect("127.0.0.2") as second:
                for connection in (first, second):
                    connection.sendall(START + b"\r\n")
                    assert answer_of(connection).startswith(b"HTTP/1.1 200 ")
                with one.connect("127.0.0.2") as third:
                    head, _, body = all_of(third).partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
                assert b"\r\nretry-after: 1" in head
                problem = json.loads(body)
                assert problem["error"]["code"] == "client_connection_limit"
                assert f"\r\nx-request-id: {problem['request_id']}\r\n".encode() in head
            wait_until(lambda: _can_connect(one))


def _can_connect(one: Running) -> bool:
    """Whether the service has noticed that the connections of a client are closed."""
    with ExitStack() as stack:
        both = [stack.enter_context(one.connect("127.0.0.2")) for _ in range(2)]
        try:
            for connection in both:
                connection.sendall(START + b"Connection: close\r\n\r\n")
            return all(all_of(connection).startswith(b"HTTP/1.1 200 ") for connection in both)
        except ConnectionError:
            return False


def test_the_connection_limit_of_a_client_does_not_apply_to_trusted_proxies(tmp_path: Path) -> None:
    settings = {"client_connection_limit": 1, "trusted_proxies": ("127.0.0.2",)}
    with running(tmp_path, **settings) as one, ExitStack() as stack:
        many = [stack.enter_context(one.connect("127.0.0.2")) for _ in range(10)]
        for connection in many:
            connection.sendall(START + b"\r\n")
            assert answer_of(connection).startswith(b"HTTP/1.1 200 ")


def test_connections_are_counted_for_an_ipv6_network() -> None:
    clients = ClientConnections(2, TrustedProxies(()))
    assert [clients.open(f"2001:db8::{number}") for number in range(3)] == [True, True, False]
    assert clients.open("2001:db8:0:1::1")
    clients.close("2001:db8::1")
    assert clients.open("2001:db8::9")
    for address in ("2001:db8::9", "2001:db8::0", "2001:db8:0:1::1"):
        clients.close(address)
    assert len(clients) == 0


def test_the_number_of_feeds_of_an_address_is_limited_and_closed_ones_are_released(served: Running) -> None:
    path = served.api.new("EpsilonGreedy")
    for _ in range(3):
        with ExitStack() as feeds:
            for _ in range(FEEDS):
                feed = feeds.enter_context(served.api.http.stream("GET", f"{path}/feed"))
                assert feed.status_code == 200
            served.api.refused(429, "too_many", "GET", f"{path}/feed")
        wait_until(lambda: len(served.service.registry.feeds) == 0)
    for _ in range(FEEDS + 1):
        assert served.api.http.head(f"{path}/feed").status_code == 200


# --- ends ---------------------------------------------------------------------------------------------------


def test_feeds_end_when_the_service_stops(tmp_path: Path) -> None:
    port = free_port()
    process = start_service(tmp_path, port)
    try:
        api = Api(f"http://127.0.0.1:{port}")
        path = api.new("EpsilonGreedy")
        with api.http.stream("GET", f"{path}/feed", timeout=TIMEOUT_SECONDS) as feed:
            lines = feed.iter_lines()
            assert next(lines) == ": watching"
            process.send_signal(signal.SIGTERM)
            assert not any(lines)  # and it ends as an answer should
            assert process.wait(STOP_TIMEOUT_SECONDS) == 0
        api.http.close()
    finally:
        process.kill()
        process.wait()


def test_a_feed_ends_when_its_key_is_revoked(tmp_path: Path) -> None:
    with running(tmp_path, require_keys=True) as one:
        keys = [_key(tmp_path, "admin", "*:admin"), _key(tmp_path, "reader", "*:read")]
        admin, reader = Api(one.api.url, keys[0]["key"]), Api(one.api.url, keys[1]["key"])
        with closing(admin.http), closing(reader.http):
            wait_until(lambda: reader.http.get("/v1/experiments").status_code == 200)
            path = admin.new("EpsilonGreedy")
            with reader.http.stream("GET", f"{path}/feed") as feed:
                lines = feed.iter_lines()
                assert next(lines) == ": watching"
                _cli("keys", "revoke", keys[1]["id"], "--store", str(tmp_path / "store.db"))
                _read_to_the_end(lines, admin, path)


def test_a_feed_ends_when_its_session_logs_out(tmp_path: Path) -> None:
    with running(tmp_path, require_keys=True) as one:
        admin = Api(one.api.url, _key(tmp_path, "admin", "*:admin")["key"])
        key = admin.http.headers["Authorization"].removeprefix("Bearer ")
        wait_until(lambda: admin.http.get("/v1/experiments").status_code == 200)
        path = admin.new("EpsilonGreedy")
        with (
            closing(admin.http),
            httpx.Client(base_url=one.api.url, trust_env=False, timeout=TIMEOUT_SECONDS) as browser,
        ):
            own = {"Origin": one.api.url}
            assert browser.post("/login", data={"key": key}, headers=own).status_code == 303
            with browser.stream("GET", f"{path}/feed") as feed:
                lines = feed.iter_lines()
                assert next(lines) == ": watching"
                assert browser.post("/logout", headers=own).status_code == 303
                _read_to_the_end(lines, admin, path)


def _read_to_the_end(lines: Iterator[str], api: Api, path: str) -> None:
    """Read a feed, of which an end is expected while decisions are made."""
    ended = threading.Event()
    deciding = threading.Thread(target=_decide_until, args=(api, path, ended))
    deciding.start()
    started = time.monotonic()
    try:
        for _ in lines:
            assert time.monotonic() - started < STOP_TIMEOUT_SECONDS, "still told of events"
    finally:
        ended.set()
        deciding.join()


def _decide_until(api: Api, path: str, ended: threading.Event) -> None:
    while not ended.wait(0.1):
        api.post(f"{path}/decide", {"context": [0.5, 0.5]})


def _cli(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def _key(folder: Path, name: str, scope: str) -> Any:
    return json.loads(_cli("keys", "add", name, "--scope", scope, "--store", str(folder / "store.db"), "--json"))


# --- the way in ---------------------------------------------------------------------------------------------


ELSEWHERE = [
    *("//evil.example", "/\\evil.example", "/é/evil.example/x", "/%2Fevil.example", "/%5Cevil.example", "evil.example"),
    *(
        "/\t/evil.example",
        "/%09/evil.example",
        "/\u2028/evil.example",
        "https://evil.example",
        "",
        "/\x7f/evil.example",
    ),
]


@pytest.mark.parametrize("place", ELSEWHERE)
def test_log_in_does_not_redirect_to_other_hosts(served: Running, place: str) -> None:
    assert not _is_local(place)
    answer = served.api.http.post("/login", data={"key": "wrong", "next": place})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?failed=1&next=%2F"


@pytest.mark.parametrize("place", ["/", "/new", "/experiments/a?b=c%20d#e", "/experiments/%C3%A9"])
def test_log_in_redirects_to_own_pages(place: str) -> None:
    assert _is_local(place)


def test_a_form_with_too_many_fields_is_rejected(served: Running) -> None:
    answer = served.api.http.post("/login", data={f"a{number}": "1" for number in range(11)})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "text/plain; charset=utf-8")
    assert "10 fields" in answer.text


def test_an_internal_error_of_a_page_is_only_in_the_log(served: Running, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("a secret")

    routes = served.service.app.routes
    routes.insert(0, Route("/broken", ProtectedPage(broken, served.service.access)))
    try:
        answer = served.api.http.get("/broken")
    finally:
        del routes[0]
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "GET /broken failed" in caplog.text


# --- clients that don't read their responses ----------------------------------------------------------------


def unread_export(served: Running, path: str, client: str = "127.0.0.1") -> socket.socket:
    """A connection that asks for a large export and reads none of it."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(TIMEOUT_SECONDS)
    connection.bind((client, 0))
    connection.connect(("127.0.0.1", served.port))
    connection.sendall(f"GET {path}/export?format=ndjson HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return connection


def with_large_log(served: Running) -> str:
    path = served.api.new("Random", features=20)
    for _ in range(4):
        served.api.post(f"{path}/decide", {"contexts": [[0.123456] * 20] * 5_000})
    return path


def test_an_export_ends_when_its_client_does_not_read_it(tmp_path: Path) -> None:
    with running(tmp_path, send_timeout=READ_SECONDS) as served:
        path, exports = with_large_log(served), served.service.registry.exports
        with unread_export(served, path), unread_export(served, path):
            wait_until(lambda: len(exports) == 2)
            wait_until(lambda: len(exports) == 0)


def test_an_export_goes_on_while_its_client_reads_slowly(tmp_path: Path) -> None:
    with running(tmp_path, send_timeout=8 * READ_SECONDS) as served, ExitStack() as connections:
        connection = connections.enter_context(unread_export(served, with_large_log(served)))
        parts = []
        for _ in range(16):
            time.sleep(READ_SECONDS)
            parts.append(connection.recv(1 << 20))
        while not parts[-1].endswith(b"0\r\n\r\n"):
            parts.append(connection.recv(1 << 20))
            assert parts[-1]
        assert b"".join(parts).count(b'{"decision":') > 19_900  # without those that are in two chunks


def test_exports_of_one_client_leave_room_for_others(served: Running) -> None:
    path, exports = with_large_log(served), served.service.registry.exports
    with ExitStack() as connections:
        for _ in range(2):
            connections.enter_context(unread_export(served, path))
        wait_until(lambda: len(exports) == 2)
        assert "try again" in served.api.refused(429, "too_many_exports", "GET", f"{path}/export")
        other = connections.enter_context(unread_export(served, path, "127.0.0.2"))
        assert other.recv(12) == b"HTTP/1.1 200"
    wait_until(lambda: len(exports) == 0)
