"""Discarded decisions: their answers came too late, their clients took a default, and no reward is learnt for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from client_kinds import KINDS
from flaky_server import FlakyServer, run_flaky_server
from polling import wait_until
from service_api import Api, running_api
from typer.testing import CliRunner

import releaf
from releaf.cli import app
from releaf.client import Client, Conflict, ServiceError

CONTEXT = [0.25, 0.75]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("service")) as api:
        yield api


def counts(api: Api, path: str) -> Any:
    return api.get(path)["counts"]


def test_a_discarded_decision_is_dropped_and_counted_and_teaches_nothing(api: Api) -> None:
    path = api.new("LinUCB")
    api.post(f"{path}/decide", {"contexts": [CONTEXT] * 3, "keys": ["a", "b", "c"]})
    api.post(f"{path}/reward", {"decision": 3, "reward": 1.0})
    assert api.post(f"{path}/discard", {"keys": ["a", "c"]}) == {"discarded": 1, "refused": 0}
    assert api.post(f"{path}/discard", {"keys": ["a"]}) == {"discarded": 0, "refused": 0}  # again
    told = counts(api, path)
    assert (told["waiting"], told["rewards"], told["dropped"], told["discarded"]) == (1, 1, 1, 1)
    assert api.get(f"{path}/decisions")["decisions"][-1]["outcome"] == "dropped"
    api.refused(410, "too_late", "POST", f"{path}/reward", {"decision": 1, "reward": 1.0})
    text = api.http.get("/metrics").text
    assert f'releaf_decisions_discarded_total{{experiment="{path.rpartition("/")[2]}"}} 1.0' in text
    assert f'releaf_decisions_unaccounted{{experiment="{path.rpartition("/")[2]}"}} 0.0' in text


def test_a_request_that_comes_after_its_key_was_discarded_is_refused(api: Api) -> None:
    path = api.new("LinUCB")
    assert api.post(f"{path}/discard", {"keys": ["late"]}) == {"discarded": 0, "refused": 1}
    message = api.refused(409, "discarded", "POST", f"{path}/decide", {"context": CONTEXT, "key": "late"})
    assert message == "key 'late' was discarded: its client took a default instead"
    assert counts(api, path)["decisions"] == 0


def test_discarded_keys_survive_a_restart_and_an_audit_finds_nothing(tmp_path: Path) -> None:
    store = ("--store", str(tmp_path / "store.db"))
    with running_api(tmp_path, *store) as api:
        path = api.new("LinUCB", rewards={"within_seconds": 600, "default": 0.0})
        api.post(f"{path}/decide", {"contexts": [CONTEXT] * 3, "keys": ["a", "b", "c"]})
        api.post(f"{path}/discard", {"keys": ["a", "late"]})
        before = counts(api, path)
    with running_api(tmp_path, *store) as api:
        assert counts(api, path) == before
        for key in ("a", "late"):
            api.refused(409, "discarded", "POST", f"{path}/decide", {"context": CONTEXT, "key": key})
    told = CliRunner().invoke(app, ["store", "check", str(tmp_path / "store.db"), "--json"])
    assert json.loads(told.stdout)["sound"], told.stdout


# --- clients ------------------------------------------------------------------------------------------------


@contextmanager
def experiment(api: Api, *faults: str) -> Iterator[tuple[str, FlakyServer]]:
    """Address of an experiment with a default reward, and a proxy whose first answers have faults."""
    path = api.new("LinUCB", rewards={"within_seconds": 600, "default": 0.0})
    api.post(f"{path}/decide", {"context": CONTEXT})
    with run_flaky_server(api.url, *faults) as proxy:
        yield path, proxy


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_reports_defaults_so_that_their_late_decisions_are_dropped(kind: str, api: Api) -> None:
    connect: Any = KINDS[kind]
    with experiment(api, "slow", "slow", "busy", "proxy") as (path, proxy), connect(proxy.url) as client:
        made = [client.decide(path.rpartition("/")[2], CONTEXT, timeout=0.5, default="a") for _ in range(2)]
        assert all(one.is_default for one in made)
        wait_until(lambda: counts(api, path)["discarded"] == 2)
        assert counts(api, path)["waiting"] == 1  # the one that a program knows


def test_a_client_that_is_closed_reports_its_last_defaults(api: Api) -> None:
    with experiment(api, "slow") as (path, proxy):
        with Client(proxy.url) as client:
            made = client.decide_many(path.rpartition("/")[2], [CONTEXT] * 3, timeout=0.5, default="b")
            assert [one.action for one in made] == ["b"] * 3
        wait_until(lambda: counts(api, path)["discarded"] == 3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_default_is_learnt_when_the_application_reports_it_with_its_reward(kind: str, api: Api) -> None:
    connect: Any = KINDS[kind]
    path, twin = api.new("LinUCB"), api.new("LinUCB")
    with connect(api.url) as client:
        name = path.rpartition("/")[2]
        assert client.observe(name, CONTEXT, "b", 1.0, key="k") == "learnt"
        assert client.observe(name, CONTEXT, "b", 1.0, key="k") == "repeated"
        assert client.observe(name, [0.5, 0.5], "a", 0.0, probability=0.25) == "learnt"
        for wrong, told in (({"action": "c"}, "action is 'c'"), ({"reward": 2.0}, "reward is 2.0: expected")):
            with pytest.raises(ServiceError, match=told):
                client.observe(name, CONTEXT, **{"action": "a", "reward": 0.5, **wrong})
    told = counts(api, path)
    assert (told["decisions"], told["rewards"], told["waiting"]) == (2, 2, 0)
    later, first = api.get(f"{path}/decisions")["decisions"]
    assert [(one["action"], one["reward"], one["probability"]) for one in (first, later)] == [
        ("b", 1.0, None),
        ("a", 0.0, 0.25),
    ]
    learner = releaf.from_bytes(api.model(twin))
    learner.observe(CONTEXT, "b", 1.0)
    learner.observe([0.5, 0.5], "a", 0.0)
    estimates = releaf.from_bytes(api.model(path)).estimate([CONTEXT])
    assert estimates == pytest.approx(learner.estimate([CONTEXT]))


def test_what_an_application_reported_survives_a_restart(tmp_path: Path) -> None:
    store = ("--store", str(tmp_path / "store.db"), "--snapshot-events", "1000000")
    with running_api(tmp_path, *store) as api:
        path = api.new("AdaptiveReleaf", parameters={"observe": "always"})
        api.post(f"{path}/shadows", {"name": "s", "policy": {"name": "LinUCB", "parameters": {}}})
        for number in range(30):
            context = [number / 30, 0.5]
            api.post(f"{path}/observe", {"context": context, "action": "ab"[number % 2], "reward": number / 30})
            api.post(f"{path}/decide", {"context": context})
    told = CliRunner().invoke(app, ["store", "check", str(tmp_path / "store.db"), "--json"])
    assert json.loads(told.stdout)["sound"], told.stdout


def test_a_learner_that_asks_for_some_rewards_only_learns_nothing_that_was_reported(api: Api) -> None:
    path = api.new("Releaf")
    body = {"context": CONTEXT, "action": "a", "reward": 1.0}
    assert "can't learn what the application decided" in api.refused(422, "invalid", "POST", f"{path}/observe", body)


def test_the_same_key_gives_the_same_default_again(api: Api) -> None:
    with experiment(api, "slow") as (path, proxy), Client(proxy.url) as client:
        name = path.rpartition("/")[2]
        assert client.decide(name, CONTEXT, key="order 7", timeout=0.5, default="a").is_default
        wait_until(lambda: counts(api, path)["discarded"] == 1)
        again = client.decide(name, CONTEXT, key="order 7", default="a", timeout=30)
        assert (again.is_default, again.action) == (True, "a")
        with pytest.raises(Conflict, match="its client took a default instead"):
            client.decide(name, CONTEXT, key="order 7", timeout=30)


@pytest.mark.parametrize("content", [b"{}", b"[]", b"3", b"<html>Welcome</html>"])
def test_an_answer_that_is_no_decision_is_an_error_that_names_the_request(content: bytes) -> None:
    with serving(content) as url, Client(url) as client:
        with pytest.raises(ServiceError, match="is this a service") as caught:
            client.decide("shop", CONTEXT)
        assert (caught.value.status, caught.value.code) == (200, "unexpected")
        assert client.decide("shop", CONTEXT, default="a").is_default
        assert client.decide_many("shop", [CONTEXT], default="a")[0].is_default
        with pytest.raises(ServiceError, match="is this a service"):
            client.reward("shop", 1, 1.0)


@contextmanager
def serving(content: bytes) -> Iterator[str]:
    """The address of another program, which answers everything with this."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.02,)).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
