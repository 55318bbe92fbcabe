"""Eligible actions of decisions over HTTP: answers, records, exports, explanations, recovery, and both clients."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from client_kinds import KINDS
from polling import wait_until
from running_service import run_service
from service_api import Api, running_api

import releaf
from releaf.client import ServiceError
from releaf.service.log.events import Decided, decode_page, encode_page

ACTIONS = ["wait", "treat", 7]
CONTEXT = [0.25, 0.75]
PATIENT = ("--write-timeout", "60")  # nothing here is about a slow disk


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("service"), *PATIENT) as api:
        yield api


@pytest.fixture
def path(api: Api) -> str:
    return api.new("LinUCB", actions=ACTIONS)


def test_a_decision_takes_an_eligible_action_and_says_which_were(api: Api, path: str) -> None:
    answer = api.post(f"{path}/decide", {"context": CONTEXT, "eligible": [7, "treat"]})
    assert answer["action"] in ("treat", 7)
    assert answer["eligible"] == ["treat", 7]
    only = api.post(f"{path}/decide", {"context": CONTEXT, "eligible": [7]})
    assert (only["action"], only["probability"], only["explored"]) == (7, 1.0, False)
    assert "eligible" not in api.post(f"{path}/decide", {"context": CONTEXT, "eligible": ACTIONS})
    assert "eligible" not in api.post(f"{path}/decide", {"context": CONTEXT})


def test_a_batch_has_names_for_all_contexts_or_a_list_for_each(api: Api, path: str) -> None:
    many = api.post(f"{path}/decide", {"contexts": [CONTEXT] * 3, "eligible": ["treat"]})["decisions"]
    assert [answer["action"] for answer in many] == ["treat"] * 3
    body = {"contexts": [CONTEXT] * 3, "eligible": [[7], None, ["wait"]]}
    each = api.post(f"{path}/decide", body)["decisions"]
    assert [answer.get("eligible") for answer in each] == [[7], None, ["wait"]]
    lines = [{"context": CONTEXT, "eligible": ["wait"]}, {"context": CONTEXT}, {"context": CONTEXT, "eligible": ["x"]}]
    first, second, third = api.lines(f"{path}/decide", *lines)
    assert (first["action"], "eligible" in second) == ("wait", False)
    assert "unknown action 'x'" in third["error"]["message"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"context": CONTEXT, "eligible": []}, "length >= 1"),
        ({"context": CONTEXT, "eligible": ["x"]}, "eligible names an unknown action 'x'"),
        ({"context": CONTEXT, "eligible": [7, 7]}, "eligible names 7 twice"),
        ({"context": CONTEXT, "eligible": [[7]]}, "expected names of actions"),
        ({"contexts": [CONTEXT], "eligible": [[]]}, "eligible names no action"),
        ({"contexts": [CONTEXT] * 2, "eligible": [[7]]}, "got 1 lists of eligible actions for 2 contexts"),
        ({"contexts": [CONTEXT] * 2, "eligible": [[7], "wait"]}, "eligible mixes names and lists"),
        ({"contexts": [CONTEXT] * 2, "eligible": [[7], ["x"]]}, "eligible of row 1 names an unknown action 'x'"),
    ],
    ids=str,
)
def test_invalid_eligible_actions_are_refused_and_change_nothing(api: Api, path: str, body: Any, text: str) -> None:
    before = api.model(path)
    assert text in api.refused(422, "invalid", "POST", f"{path}/decide", body)
    assert (api.model(path), api.get(path)["counts"]["decisions"]) == (before, 0)


def test_a_key_stands_for_a_context_and_its_eligible_actions(api: Api, path: str) -> None:
    body = {"context": CONTEXT, "eligible": ["treat", 7], "key": "one"}
    answer = api.post(f"{path}/decide", body)
    assert api.post(f"{path}/decide", body) == answer
    assert api.post(f"{path}/decide", {**body, "eligible": [7, "treat"]}) == answer
    for other in (["treat"], ACTIONS, None):
        text = api.refused(409, "key_reused", "POST", f"{path}/decide", {**body, "eligible": other})
        assert text == "key 'one' was used with other eligible actions: use another key"


def test_records_and_exports_have_the_eligible_actions(api: Api, path: str) -> None:
    for eligible in (None, ["wait", 7], ["treat"]):
        api.post(f"{path}/decide", {"context": CONTEXT, "eligible": eligible})
    records = api.get(f"{path}/decisions")["decisions"]
    assert [record["eligible"] for record in records] == [["treat"], ["wait", 7], None]
    rows = list(csv.DictReader(io.StringIO(api.http.get(f"{path}/export").text)))
    assert [row["eligible"] for row in rows] == ["", "wait|7", "treat"]
    lines = api.http.get(f"{path}/export", params={"format": "ndjson"}).text.splitlines()
    assert [json.loads(line)["eligible"] for line in lines] == [None, ["wait", 7], ["treat"]]
    table = pq.read_table(io.BytesIO(api.http.get(f"{path}/export", params={"format": "parquet"}).content))
    assert table["eligible"].to_pylist() == [None, ["wait", "7"], ["treat"]]


@pytest.mark.parametrize("policy", ["AdaptiveReleaf", "Releaf", "LinTS"])
def test_explanations_and_previews_respect_the_eligible_actions(api: Api, policy: str) -> None:
    path = api.new(policy, actions=ACTIONS)
    api.post(f"{path}/decide", {"context": CONTEXT, "eligible": ["treat"]})
    info = api.get(f"{path}/explain/1")
    assert (info["action"], info["eligible"]) == ("treat", ["treat"])
    assert "not eligible" in info["explanation"]
    seen = api.post(f"{path}/preview", {"context": CONTEXT, "eligible": ["wait", 7]})
    assert seen["eligible"] == ["wait", 7]
    assert seen["distribution"]["treat"] == 0.0
    assert "unknown action" in api.refused(
        422, "invalid", "POST", f"{path}/preview", {"context": CONTEXT, "eligible": ["x"]}
    )


def test_a_shadow_chooses_among_the_same_actions(api: Api, path: str) -> None:
    api.post(f"{path}/shadows", {"name": "other", "policy": {"name": "Random", "parameters": {"seed": 1}}})
    for _ in range(20):
        api.post(f"{path}/decide", {"context": CONTEXT, "eligible": [7]})
    (shadow,) = api.get(path)["shadows"]
    assert shadow["agreed"] == 20


def wait_until_ready(api: Api) -> None:
    wait_until(lambda: api.http.get("/readyz").status_code == 200)


def test_after_a_restart_the_learner_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    models, answers = [], []
    for start in range(2):
        with running_api(tmp_path, *PATIENT) as api:
            if not start:
                path = api.new("AdaptiveReleaf", actions=ACTIONS)
            else:
                wait_until_ready(api)
            models.append(api.model(path))
            for step in range(30):
                eligible = [None, ["wait", 7], ["treat"], [7, "treat"]][step % 4]
                answer = api.post(f"{path}/decide", {"context": [step % 10 / 10, 0.5], "eligible": eligible})
                if step % 3:
                    api.post(f"{path}/reward", {"decision": answer["decision"], "reward": step % 2})
                answers.append(answer)
            last = api.model(path)
    assert models[1] != models[0]
    assert last != models[1]
    learner = releaf.from_bytes(models[1])
    assert learner.steps == 30
    with running_api(tmp_path, *PATIENT) as api:
        wait_until_ready(api)
        assert api.model(path) == last


def test_logs_of_earlier_versions_are_read() -> None:
    event = Decided(1.0, 1, [0.5], "wait", 1.0, False, True, None, None, None, None)
    fields = msgspec.msgpack.decode(encode_page([event]))
    latest = Decided.__struct_fields__.index("eligible") - len(Decided.__struct_fields__)
    assert fields[0][latest] is None
    earlier = msgspec.msgpack.encode([fields[0][:latest]])
    assert decode_page(earlier) == [event]


# --- clients ------------------------------------------------------------------------------------------------------


def client_of(kind: str, url: str) -> Any:
    made: Any = KINDS[kind]
    return made(url)


@pytest.mark.parametrize("kind", KINDS)
def test_both_clients_send_eligible_actions(tmp_path: Path, kind: Any) -> None:
    with run_service(tmp_path, *PATIENT) as url, client_of(kind, url) as client:
        client.create("shop", ACTIONS, 2, policy="LinUCB")
        one = client.decide("shop", CONTEXT, eligible=("treat",))
        assert (one.action, one.eligible, one.probability) == ("treat", ("treat",), 1.0)
        assert client.decide("shop", CONTEXT).eligible is None
        many = client.decide_many("shop", [CONTEXT] * 2, eligible=["wait"])
        assert [decision.action for decision in many] == ["wait", "wait"]
        each = client.decide_many("shop", [CONTEXT] * 3, eligible=[None, ["treat", 7], {"wait"}])
        assert [decision.eligible for decision in each] == [None, ("treat", 7), ("wait",)]
        streamed = list(client.decide_stream("shop", [CONTEXT] * 3, eligible=[7]))
        assert [decision.action for decision in streamed] == [7, 7, 7]
        assert client.preview("shop", CONTEXT, eligible=["wait", 7])["eligible"] == ["wait", 7]
        with pytest.raises(ServiceError, match="eligible names an unknown action 'x'"):
            client.decide("shop", CONTEXT, eligible=["x"])
        with pytest.raises(TypeError, match="eligible must be a sequence of action names, got 'wait'"):
            client.decide("shop", CONTEXT, eligible="wait")
        with pytest.raises(ValueError, match=r"default is 'wait', which is not eligible: expected one of \['treat'\]"):
            client.decide("shop", CONTEXT, eligible=["treat"], default="wait")
