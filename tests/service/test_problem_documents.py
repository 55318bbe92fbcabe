"""Errors as problem documents (RFC 9457), and request ids in every response and in the log."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from polling import TIMEOUT_SECONDS
from service_api import Api, running_api

from releaf.client.response_decoding import error_from


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def api(folder: Path) -> Iterator[Api]:
    with running_api(folder, "--log-level", "DEBUG") as api:
        yield api


def raw(api: Api, content: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer to bytes, after which the service closes the connection."""
    url = httpx.URL(api.url)
    with socket.create_connection((url.host, url.port or 80), timeout=TIMEOUT_SECONDS) as connection:
        connection.sendall(content)
        received = b""
        while part := connection.recv(65_536):
            received += part
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return int(status.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body


def logged(folder: Path, request_id: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (folder / "service.log").read_text().splitlines())
    return [line for line in lines if line.get("request_id") == request_id]


def test_an_error_is_a_problem_document_with_the_members_of_before(api: Api) -> None:
    answer = api.http.get("/v1/experiments/no.such?x=1", headers={"X-Request-ID": "abc-1"})
    assert answer.headers["content-type"] == "application/problem+json"
    message = "unknown parameter 'x': expected none"
    assert answer.json() == {
        "type": "urn:releaf:problem:invalid",
        "title": answer.json()["title"],
        "status": 422,
        "detail": message,
        "instance": "/v1/experiments/no.such",
        "request_id": "abc-1",
        "error": {"status": 422, "code": "invalid", "message": message},
    }
    assert answer.json()["title"].startswith("Unprocessable")


def test_the_instance_is_a_uri_reference_of_limited_length(api: Api) -> None:
    answer = api.http.get("/v1/ü x%22%3Cb%3E" + "a" * 5_000).json()
    assert answer["instance"].startswith("/v1/%C3%BC%20x%22%3Cb%3Eaaa")
    assert len(answer["instance"]) < 1_000


def test_clients_of_before_and_of_now_decode_it(api: Api) -> None:
    error = error_from(api.http.get("/v1/experiments/none"))
    assert (error.status, error.code, error.message) == (404, "unknown_experiment", "unknown experiment 'none'")


def test_a_client_decodes_the_problem_document_of_a_proxy() -> None:
    problem = {"type": "about:blank", "title": "Bad Gateway", "status": 502, "detail": "no upstream answers"}
    error = error_from(httpx.Response(502, json=problem, headers={"Content-Type": "application/problem+json"}))
    assert (error.status, error.code, error.message) == (502, "unexpected", "no upstream answers")


def test_the_answer_to_an_invalid_line_is_as_before(api: Api) -> None:
    good, bad = api.lines(f"{api.new()}/decide", {"context": [0.5, 0.5]}, {"context": [0.5]})
    assert good["decision"] == 1
    assert list(bad) == ["error"]
    assert sorted(bad["error"]) == ["code", "message", "status"]


# --- request ids ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/experiments", "/healthz", "/nothing", "/", "/login", "/static/style.css"])
def test_every_response_has_a_request_id_of_its_own(api: Api, path: str) -> None:
    first, second = (api.http.get(path).headers["x-request-id"] for _ in range(2))
    assert first != second
    assert len(first) == 32
    assert api.http.get(path, headers={"X-Request-ID": "trace:7/x"}).headers["x-request-id"] == "trace:7/x"


@pytest.mark.parametrize("sent", ["", "a b", 'a"b', "x" * 129, "a,b", "<b>", "a\tb", "é"])
def test_an_id_that_could_do_harm_is_replaced(api: Api, sent: str) -> None:
    answer = api.http.get("/nothing", headers=[(b"X-Request-ID", sent.encode("latin-1"))])
    assert answer.headers["x-request-id"] != sent
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


def test_an_ambiguous_id_is_replaced(api: Api) -> None:
    answer = api.http.get("/healthz", headers=[("X-Request-ID", "a"), ("X-Request-ID", "b")])
    assert len(answer.headers["x-request-id"]) == 32


def test_the_request_id_is_in_the_log(api: Api, folder: Path) -> None:
    api.http.get("/healthz", headers={"X-Request-ID": "fine-1"})
    api.http.get("/v1/experiments/none", headers={"X-Request-ID": "lost-1"})
    (fine,), (lost,) = logged(folder, "fine-1"), logged(folder, "lost-1")
    assert (fine["operation"], fine["status"]) == ("healthz", 200)
    assert (lost["operation"], lost["status"]) == ("get_experiment", 404)


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"GARBAGE\r\n\r\n", 400, "not_http"),
        (b"GET / HTTP/1.1\r\nx: " + b"a" * (64 << 10), 431, "head_too_large"),
    ],
)
def test_malformed_requests_get_a_problem_document_and_an_id_too(
    api: Api, folder: Path, content: bytes, status: int, code: str
) -> None:
    got, headers, body = raw(api, content[: 64 << 10])
    problem = json.loads(body)
    assert (got, problem["status"], problem["error"]["code"]) == (status, status, code)
    assert headers["content-type"] == "application/problem+json"
    assert int(headers["content-length"]) == len(body)
    assert problem["request_id"] == headers["x-request-id"]
    assert logged(folder, headers["x-request-id"])
