"""Costs of labels over HTTP: requests, records, exports, status, recovery, and both clients."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from client_kinds import KINDS
from polling import wait_until
from running_service import run_service
from service_api import Api, running_api

import releaf
from releaf.client import ServiceError
from releaf.service.log.events import Decided, decode_page, encode_page

CONTEXT = [0.25, 0.75]
BUDGET: dict[str, Any] = {"label_budget": 20}
STOPS: dict[str, Any] = {"label_budget": 30, "observation_cost": 0.05, "stop_asking_after": 5}
PATIENT = ("--write-timeout", "60")  # nothing here is about a slow disk


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("service"), *PATIENT) as api:
        yield api


def test_the_cost_of_a_label_counts_against_the_budget(api: Api) -> None:
    path = api.new(parameters=BUDGET)
    answer = api.post(f"{path}/decide", {"context": CONTEXT, "label_cost": 2.5})
    assert (answer["wants_reward"], answer["label_cost"]) == (True, 2.5)
    info = api.get(path)
    assert (info["labels_spent"], info["labels"]["spent"], info["labels"]["left"]) == (1, 2.5, 17.5)
    assert not api.post(f"{path}/decide", {"context": CONTEXT, "label_cost": 18})["wants_reward"]
    many = api.post(f"{path}/decide", {"contexts": [CONTEXT] * 2, "label_costs": [0.5, 30]})["decisions"]
    assert [one["label_cost"] for one in many] == [0.5, 30]
    same = api.post(f"{path}/decide", {"contexts": [CONTEXT] * 2, "label_cost": 30})["decisions"]
    assert [one["wants_reward"] for one in same] == [False, False]
    first, second = api.lines(f"{path}/decide", {"context": CONTEXT, "label_cost": 0.25}, {"context": CONTEXT})
    assert first["label_cost"] == 0.25
    assert "label_cost" not in second
    assert api.post(f"{path}/preview", {"context": CONTEXT, "label_cost": 3})["action"] in ("a", "b")


def test_the_status_shows_the_outlook_on_labels(api: Api) -> None:
    path = api.new(parameters=STOPS)
    for _ in range(40):
        answer = api.post(f"{path}/decide", {"context": CONTEXT})
        if answer["wants_reward"]:
            api.post(f"{path}/reward", {"decision": answer["decision"], "reward": float(answer["action"] == "a")})
    labels = api.get(path)["labels"]
    assert labels["price"] == 0.05
    assert labels["stop_asking_after"] == 5
    assert labels["has_stopped"] == (labels["unworthy"] >= 5)
    assert labels["text"].startswith("One more label is expected to gain ")
    assert labels["left"] == 30 - labels["spent"]
    assert api.get(api.new("LinUCB"))["labels"] is None


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"context": CONTEXT, "label_cost": 0}, "label_cost"),
        ({"context": CONTEXT, "label_cost": "2"}, "label_cost"),
        ({"context": CONTEXT, "label_cost": 1e300}, "label_cost must be a number of ordinary labels"),
        ({"context": CONTEXT, "label_costs": [1]}, "label_costs go with contexts; expected label_cost"),
        ({"contexts": [CONTEXT] * 2, "label_costs": [1]}, "got 1 label_costs for 2 contexts: expected one for each"),
        ({"contexts": [CONTEXT], "label_cost": 1, "label_costs": [1]}, "expected either label_cost, for all contexts"),
        ({"contexts": [CONTEXT] * 2, "label_costs": [1, 1e300]}, "label_cost of row 1 must be a number of"),
    ],
    ids=str,
)
def test_invalid_costs_of_labels_change_nothing(api: Api, body: Any, text: str) -> None:
    path = api.new(parameters=BUDGET)
    assert text in api.refused(422, "invalid", "POST", f"{path}/decide", body)
    assert api.get(path)["counts"]["decisions"] == 0


def test_a_policy_that_learns_every_reward_refuses_them_unless_a_shadow_takes_them(api: Api) -> None:
    path, body = api.new("LinUCB"), {"context": CONTEXT, "label_cost": 2}
    text = api.refused(422, "invalid", "POST", f"{path}/decide", body)
    assert "LinUCB takes no label_cost here: expected none, or an experiment whose policy has label_budget" in text
    assert "takes no label_cost" in api.refused(422, "invalid", "POST", f"{path}/preview", body)
    shadow = {"name": "AdaptiveReleaf", "parameters": {"label_budget": 20, "seed": 0}}
    api.post(f"{path}/shadows", {"name": "frugal", "policy": shadow})
    assert api.post(f"{path}/decide", body)["wants_reward"]


def test_a_key_stands_for_a_context_and_the_cost_of_its_label(api: Api) -> None:
    path = api.new(parameters=BUDGET)
    body = {"context": CONTEXT, "label_cost": 2, "key": "one"}
    first = api.post(f"{path}/decide", body)
    assert api.post(f"{path}/decide", body)["decision"] == first["decision"]
    other = {**body, "label_cost": 3}
    assert "with another label_cost" in api.refused(409, "key_reused", "POST", f"{path}/decide", other)
    both = {"contexts": [CONTEXT] * 2, "label_costs": [2, 0.5], "keys": ["one", "two"]}
    assert [one["label_cost"] for one in api.post(f"{path}/decide", both)["decisions"]] == [2, 0.5]


def test_records_and_exports_have_the_cost_of_the_label(api: Api) -> None:
    path = api.new(parameters=BUDGET)
    api.post(f"{path}/decide", {"context": CONTEXT, "label_cost": 2.5})
    api.post(f"{path}/decide", {"context": CONTEXT})
    records = api.get(f"{path}/decisions")["decisions"]
    assert [one["label_cost"] for one in records] == [None, 2.5]
    rows = list(csv.DictReader(io.StringIO(api.http.get(f"{path}/export", params={"format": "csv"}).text)))
    assert [row["label_cost"] for row in rows] == ["2.5", ""]


def test_after_a_restart_the_learner_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    draw = np.random.default_rng(4)
    with running_api(tmp_path, *PATIENT) as api:
        path = api.new(parameters=STOPS)
        for step in range(60):
            context, cost = draw.random(2).tolist(), float(draw.choice([0.25, 1.0, 4.0]))
            if step % 4:
                given = {"label_cost": cost} if step % 3 else {}
                answers = [api.post(f"{path}/decide", {"context": context, **given})]
            else:
                body = {"contexts": [context, context[::-1]], "label_costs": [cost, 1.5]}
                answers = api.post(f"{path}/decide", body)["decisions"]
            for answer in answers:
                if answer["wants_reward"] and step % 5:
                    api.post(f"{path}/reward", {"decision": answer["decision"], "reward": step % 2})
        before, labels = api.model(path), api.get(path)["labels"]
    with running_api(tmp_path, *PATIENT) as api:
        wait_until(lambda: api.http.get("/readyz").status_code == 200)
        assert (api.model(path), api.get(path)["labels"]) == (before, labels)
    learner = releaf.from_bytes(before)
    assert learner.label_cost_spent == labels["spent"] != learner.labels_spent


def test_logs_of_earlier_versions_are_read() -> None:
    decided = Decided(1.0, 1, [0.5], "wait", 1.0, False, True, None, None, None, None)
    fields = msgspec.msgpack.decode(encode_page([decided]))
    assert decode_page(msgspec.msgpack.encode([fields[0][:-1]])) == [decided]


@pytest.mark.parametrize("kind", KINDS)
def test_both_clients_send_costs_of_labels(tmp_path: Path, kind: Any) -> None:
    made: Any = KINDS[kind]
    with run_service(tmp_path, *PATIENT) as url, made(url) as client:
        client.create("shop", ["a", "b"], 2, policy="AdaptiveReleaf", parameters={**BUDGET, "seed": 0})
        assert client.decide("shop", CONTEXT, label_cost=2.5).label_cost == 2.5
        assert client.decide("shop", CONTEXT).label_cost is None
        assert [one.label_cost for one in client.decide_many("shop", [CONTEXT] * 2, label_cost=2)] == [2, 2]
        each = client.decide_many("shop", [CONTEXT] * 2, label_costs=np.array([0.5, 3.0]))
        assert [one.label_cost for one in each] == [0.5, 3.0]
        assert [one.label_cost for one in client.decide_stream("shop", [CONTEXT] * 2, label_cost=4)] == [4, 4]
        assert client.preview("shop", CONTEXT, label_cost=2)["action"] in ("a", "b")
        with pytest.raises(ServiceError, match="label_cost"):
            client.decide("shop", CONTEXT, label_cost=-1)
        with pytest.raises(ValueError, match="label_costs has 1 entries, contexts has 2: expected one label_cost"):
            client.decide_many("shop", [CONTEXT] * 2, label_costs=[1])
