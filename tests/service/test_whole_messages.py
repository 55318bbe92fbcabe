"""Whole requests and responses: one write each, the same bytes as through ASGI, in order and within limits."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from polling import TIMEOUT_SECONDS, wait_until
from running_service import START_TIMEOUT_SECONDS, STOP_TIMEOUT_SECONDS

from releaf.service.app import make_server, make_service
from releaf.service.http import endpoint
from releaf.service.settings import ServiceSettings

BODY_LIMIT = 1000
DECIDE = "/v1/experiments/one/decide"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder: Path = tmp_path_factory.mktemp("service")
    settings = ServiceSettings(store=str(folder / "store.db"), port=0, body_limit=BODY_LIMIT)
    service = make_service(settings)
    server = make_server(service, settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, START_TIMEOUT_SECONDS)
        bound: int = server.servers[0].sockets[0].getsockname()[1]
        policy = {"name": "Random", "parameters": {"seed": 0}}
        spec = {"name": "one", "actions": ["a"], "features": 1, "policy": policy}
        assert asked(bound, request("/v1/experiments", spec)).startswith(b"HTTP/1.1 201")
        yield bound
    finally:
        server.should_exit = True
        thread.join(STOP_TIMEOUT_SECONDS)


def request(path: str, content: object, *headers: str, method: str = "POST") -> bytes:
    body = json.dumps(content)
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", body]).encode()


def asked(port: int, *parts: bytes) -> bytes:
    """What is answered to parts that are sent one after the other, until the service closes the connection."""
    closing_request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    with closing(socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)) as connection:
        for part in (*parts, closing_request):
            connection.sendall(part)
        got = b""
        while received := connection.recv(65_536):
            got += received
    return got


def without_id(answer: bytes) -> bytes:
    return re.sub(rb"x-request-id: [0-9a-f]{32}", b"x-request-id: ID", answer)


def test_a_whole_response_has_the_same_bytes_as_one_in_steps(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    info = b"GET /v1/experiments/one HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    whole = asked(port, info)
    monkeypatch.setattr(endpoint, "respond", lambda *given: False)
    in_steps = asked(port, info)
    assert whole.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
    assert without_id(whole) == without_id(in_steps)


def test_a_whole_response_repeats_the_request_id_that_was_sent(port: int) -> None:
    answer = asked(port, request(DECIDE, {"context": [0.5]}, "X-Request-ID: mine"))
    assert b"\r\nx-request-id: mine\r\n" in answer


def test_requests_on_one_connection_are_answered_in_order_however_they_are_cut(port: int) -> None:
    two = [request(DECIDE, {"context": [0.5], "key": key}) for key in ("k1", "k2")]
    first = re.findall(rb'"decision":(\d+)', asked(port, b"".join(two)))
    together = b"".join(two)
    again = asked(port, *[together[place : place + 7] for place in range(0, len(together), 7)])
    assert re.findall(rb'"decision":(\d+)', again) == first
    assert len(first) == 2


def test_a_request_to_close_is_answered_and_obeyed(port: int) -> None:
    answer = asked(port, request(DECIDE, {"context": [0.5]}, "Connection: close"))
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"\r\nconnection: close\r\n" in answer
    assert answer.count(b"HTTP/1.1") == 1


def test_a_body_that_was_announced_is_waited_for(port: int) -> None:
    head, _, body = request(DECIDE, {"context": [0.5]}, "Expect: 100-continue").partition(b"\r\n\r\n")
    answer = asked(port, head + b"\r\n\r\n", body)
    assert answer.count(b"HTTP/1.1 200 OK") == 2  # and that of the request that closes


def test_a_whole_body_beyond_the_limit_is_refused(port: int) -> None:
    answer = asked(port, request(DECIDE, {"context": [0.5], "key": "k" * BODY_LIMIT}))
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"the body is longer than 1,000 bytes" in answer


def test_head_has_no_body(port: int) -> None:
    answer = asked(port, b"HEAD /v1/experiments/one HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b'"name"' not in answer.split(b"HTTP/1.1")[1]
