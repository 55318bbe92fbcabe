"""Limits over HTTP: keys, scopes, rate limit, body and batch size, unknown paths and methods."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from polling import TIMEOUT_SECONDS, wait_until
from running_service import run_service
from service_api import Api, running_api
from typer.testing import CliRunner

from releaf.cli import app
from releaf.service.http.routes import OPERATIONS

EXPERIMENT = {"actions": ["a", "b"], "features": 2, "rewards": {"signed": False}}
ASK = {"context": [0.5, 0.5]}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    options = ("--body-limit", "20000", "--batch-limit", "10")
    with running_api(tmp_path_factory.mktemp("service"), *options) as api:
        yield api


# --- sizes --------------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_rejected(api: Api) -> None:
    path = api.new()
    api.refused(413, "too_large", "POST", f"{path}/decide", {"context": [0.5, 0.5], "key": "k" * 20_000})

    def parts() -> Iterator[bytes]:
        yield b'{"context": ['
        for _ in range(1000):
            yield b"0.5, " * 100

    headers = {"Content-Type": "application/json"}
    try:
        answer = api.http.post(f"{path}/decide", content=parts(), headers=headers)  # without a Content-Length
    except httpx.TransportError:
        pass  # answered and closed while we were still sending
    else:
        assert answer.status_code == 413
    assert api.post(f"{path}/decide", ASK)["decision"] == 1


def test_a_batch_that_is_too_long_is_rejected(api: Api) -> None:
    path = api.new()
    assert "10" in api.refused(413, "too_many", "POST", f"{path}/decide", {"contexts": [[0.5, 0.5]] * 11})
    lines, headers = (json.dumps(ASK).encode() + b"\n") * 11, {"Content-Type": "application/x-ndjson"}
    api.refused(413, "too_many", "POST", f"{path}/decide", content=lines, headers=headers)
    assert len(api.post(f"{path}/decide", {"contexts": [[0.5, 0.5]] * 10})["decisions"]) == 10
    rewards = [{"decision": number, "reward": 1} for number in range(1, 12)]
    api.refused(413, "too_many", "POST", f"{path}/reward", {"rewards": rewards})
    assert api.get(path)["counts"]["rewards"] == 0


TOO_LARGE: dict[str, dict[str, Any]] = {
    "AdaptiveReleaf": {"actions": list(range(1000)), "features": 2000},
    "LinUCB": {"actions": list(range(100)), "features": 2000},
    "Releaf": {"actions": list(range(1000)), "features": 300},
}


@pytest.mark.parametrize("policy", TOO_LARGE)
def test_a_learner_that_would_take_too_much_memory_is_rejected(api: Api, policy: str) -> None:
    body = {"name": "huge", "policy": {"name": policy}, **TOO_LARGE[policy]}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(api.refused, 422, "invalid", "POST", "/v1/experiments", body)
        while not waiting.done():  # others are served meanwhile
            assert httpx.get(f"{api.url}/healthz", timeout=TIMEOUT_SECONDS, trust_env=False).status_code == 200
        assert "MB, the maximum is" in waiting.result()


def test_error_messages_are_truncated(api: Api) -> None:
    path = api.new(features=[{"name": "town", "kind": "categorical", "values": ["Ulm"]}])
    message = api.refused(422, "invalid", "POST", f"{path}/decide", {"context": ["x" * 19_000]})
    assert len(message) < 2_100


# --- places and methods -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        *("/v1", "/v1/", "/v2/experiments", "/v1/experiments/", "/v1/experiments/x/y", "/openapi.yaml", "/%00"),
        *("/v1/experiments//decide", "/v1/experiments/../decide", "/v1//experiments", "/V1/EXPERIMENTS"),
    ],
)
def test_unknown_paths_are_not_found(api: Api, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        api.refused(404, "not_found", method, path)


def test_other_methods_are_rejected_and_the_allowed_ones_named(api: Api) -> None:
    by_path: dict[str, set[str]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path.replace(":path", ""), set()).add(operation.method)
    for path, methods in by_path.items():
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} - methods:
            answer = api.http.request(method, path.replace("{", "").replace("}", ""))
            assert answer.status_code == 405, (method, path)
            assert answer.json()["error"]["code"] == "method_not_allowed"
            assert methods <= set(answer.headers["allow"].split(", "))


def test_health_and_metrics_are_served(api: Api) -> None:
    assert api.get("/healthz")["status"] == "alive"
    assert api.get("/readyz")["status"] == "ready"
    path = api.new("LinUCB")
    api.post(f"{path}/decide", {"contexts": [[0.5, 0.5]] * 4})
    api.post(f"{path}/reward", {"decision": 1, "reward": 1})
    text = api.http.get("/metrics").text
    name = path.rsplit("/", 1)[1]
    assert value(text, "releaf_decisions_total", name) == 4
    assert value(text, "releaf_rewards_received_total", name) == 1
    assert value(text, "releaf_decisions_waiting", name) == 3
    assert value(text, "releaf_decisions_unaccounted", name) == 0
    assert "releaf_event_loop_lag_seconds_count" in text


def value(metrics: str, metric: str, experiment: str) -> float:
    (line,) = [
        line for line in metrics.splitlines() if line.startswith(f"{metric}{{") and f'experiment="{experiment}"' in line
    ]
    return float(line.rsplit(" ", 1)[1])


def test_responses_disable_caching_and_sniffing(api: Api) -> None:
    for path in ("/v1/experiments", "/nothing", "/healthz"):
        headers = api.http.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_other_origins_and_hosts_are_rejected(api: Api) -> None:
    api.refused(403, "origin_foreign", "POST", f"{api.new()}/decide", ASK, headers={"Origin": "https://example.org"})
    api.refused(403, "host_foreign", "GET", "/v1/experiments", headers={"Host": "example.org"})


def test_a_websocket_upgrade_gets_a_plain_response(api: Api) -> None:
    wanted = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    headers = wanted | {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    assert api.http.get("/healthz", headers=headers).status_code == 200
    assert api.http.get("/v1/nothing", headers=headers).status_code == 404


def test_the_rate_limit_answers_429_with_retry_after(tmp_path: Path) -> None:
    with run_service(tmp_path, "--rate-limit", "5") as url, httpx.Client(base_url=url, trust_env=False) as http:
        answers = [http.get("/v1/policies") for _ in range(12)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused
        assert refused[0].json()["error"]["code"] == "too_many"
        assert int(refused[0].headers["retry-after"]) >= 1


# --- keys ---------------------------------------------------------------------------------------------------


def keys(folder: Path, *arguments: str) -> Any:
    done = CliRunner().invoke(app, ["keys", *arguments, "--store", str(folder / "releaf.db"), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, dict[str, Api]]]:
    """A service that needs keys, and someone with each scope on one experiment, and an administrator of all."""
    folder = tmp_path_factory.mktemp("keyed")
    scopes = {who: f"one:{who}" for who in ("read", "decide", "reward", "admin")} | {"all": "*:admin"}
    made = {name: keys(folder, "add", name, "--scope", scope)["key"] for name, scope in scopes.items()}
    with run_service(folder, "--require-keys") as url:
        people = {name: Api(url, key) for name, key in made.items()}
        people |= {"nobody": Api(url), "guess": Api(url, "rlf_x_y")}
        try:
            for name in ("one", "two"):
                answer = people["all"].http.post("/v1/experiments", json={"name": name, **EXPERIMENT})
                assert answer.status_code == 201
            yield folder, url, people
        finally:
            for one in people.values():
                one.http.close()


BODIES: dict[str, Any] = {
    "decide": ASK,
    "reward": {"decision": 1, "reward": 1},
    "preview": ASK,
    "create_experiment": {"name": "three", **EXPERIMENT},
    "add_action": {"action": "c"},
    "add_shadow": {"name": "s", "policy": {"name": "LinUCB"}},
}


def test_every_operation_requires_its_scope(keyed: tuple[Path, str, dict[str, Api]]) -> None:
    _, _, people = keyed
    for operation in OPERATIONS:
        path = operation.path.replace(":path", "").replace("{experiment}", "two")
        for part in ("action", "feature", "decision", "shadow"):
            path = path.replace(f"{{{part}}}", "1")
        for who in ("nobody", "guess"):
            answer = people[who].http.request(operation.method, path, json=BODIES.get(operation.name))
            if operation.scope == "none":
                assert answer.status_code == 200
            elif who == "guess" and answer.status_code != 401:
                assert answer.status_code == 429  # who guesses is soon told to slow down
            else:
                assert answer.status_code == 401, operation.name
                assert answer.headers["www-authenticate"].startswith("Bearer")
        if operation.scope in ("none", "any") or operation.name == "metrics":
            continue
        for who in ("read", "decide", "reward", "admin"):  # keys for another experiment
            answer = people[who].http.request(operation.method, path, json=BODIES.get(operation.name))
            assert answer.status_code == 403, (operation.name, who)


def test_a_key_allows_the_operations_of_its_scope_only(keyed: tuple[Path, str, dict[str, Api]]) -> None:
    _, _, people = keyed
    one = "/v1/experiments/one"
    for who, allowed in (
        ("read", {"read"}),
        ("decide", {"decide"}),
        ("reward", {"reward"}),
        ("admin", {"read", "decide", "reward", "admin"}),
    ):
        asked = {
            "read": people[who].http.get(one),
            "decide": people[who].http.post(f"{one}/decide", json=ASK),
            "reward": people[who].http.post(f"{one}/reward", json={"decision": 1, "reward": 1}),
            "admin": people[who].http.post(f"{one}/actions", json={"action": f"by {who}"}),
        }
        assert {scope for scope, answer in asked.items() if answer.status_code == 403} == set(asked) - allowed
        for scope in allowed:
            assert asked[scope].status_code in (200, 404)
    told = people["read"].get("/v1/experiments")["experiments"]
    assert [experiment["name"] for experiment in told] == ["one"]
    assert people["decide"].get("/v1/experiments")["experiments"] == []
    assert people["all"].get("/v1/experiments", after="one", limit=1)["experiments"][0]["name"] == "two"
    unknown = [
        people["read"].refused(422, "invalid", "GET", "/v1/experiments", params={"after": name})
        for name in ("two", "none")  # a key learns nothing of experiments that it may not read
    ]
    assert unknown[0].replace("two", "none") == unknown[1]
    people["admin"].refused(403, "forbidden", "POST", "/v1/experiments", {"name": "four", **EXPERIMENT})


def test_metrics_need_a_read_scope_and_show_readable_experiments_only(
    keyed: tuple[Path, str, dict[str, Api]],
) -> None:
    _, _, people = keyed
    for who in ("decide", "reward"):
        assert people[who].refused(403, "forbidden", "GET", "/metrics").endswith("has the scope read in no experiment")
    for who, shown in (("read", {"one"}), ("admin", {"one"}), ("all", {"one", "two"})):
        text = people[who].http.get("/metrics").text
        assert "releaf_requests_total" in text
        assert set(re.findall(r'experiment="(\w+)"', text)) == shown


def test_a_service_with_a_further_name_rejects_anonymous_requests(tmp_path: Path) -> None:
    with run_service(tmp_path, "--name", "public.example") as url, httpx.Client(base_url=url, trust_env=False) as http:
        for host in ("public.example", "127.0.0.1"):
            for path in ("/v1/experiments", "/metrics"):
                assert http.get(path, headers={"Host": host}).status_code == 401


def test_a_revoked_key_is_rejected_soon(keyed: tuple[Path, str, dict[str, Api]]) -> None:
    folder, url, people = keyed
    made = keys(folder, "add", "guest", "--scope", "one:read")
    guest = Api(url, made["key"])
    try:
        wait_until(lambda: guest.http.get("/v1/experiments/one").status_code == 200)
        keys(folder, "revoke", made["id"])
        wait_until(lambda: guest.http.get("/v1/experiments/one").status_code == 401)
        assert people["read"].get("/v1/experiments/one")["name"] == "one"
    finally:
        guest.http.close()
    assert made["key"] not in (folder / "service.log").read_text()
