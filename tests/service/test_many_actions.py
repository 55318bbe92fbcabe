"""Actions with features of their own over HTTP: requests that bring them, slates, rewards, recovery, both clients."""

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
from running_service import run_service
from service_api import Api, running_api
from service_process import FREQUENT_SNAPSHOTS, ServiceProcess

import releaf
from releaf.client import ServiceError
from releaf.service.log.events import Decided, decode_page, encode_page
from releaf.service.many_actions import ManyActions

PATIENT = ("--write-timeout", "60")  # nothing here is about a slow disk
MENU = {"tea": {"price": 2.0, "hot": True}, "cola": {"price": 3.0, "hot": False}, "milk": {"price": 1.0, "hot": False}}
DESCRIBED: list[dict[str, Any]] = [
    {"name": "price", "kind": "continuous", "low": 0.0, "high": 5.0},
    {"name": "hot", "kind": "boolean"},
]
OPEN = {"actions": {}, "action_features": DESCRIBED}
CONTEXT = [0.25, 0.75]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("service"), *PATIENT) as api:
        yield api


def new(api: Api, actions: Any = MENU, **further: Any) -> str:
    """An experiment whose actions have features."""
    name = f"many{len(api.get('/v1/experiments')['experiments'])}"
    policy = {"name": "JointReleaf", "parameters": {"seed": 0, **further.pop("parameters", {})}}
    body = {"name": name, "actions": actions, "features": 2, "action_features": DESCRIBED, "policy": policy, **further}
    answer = api.http.post("/v1/experiments", json=body)
    assert answer.status_code == 201, answer.text
    return f"/v1/experiments/{name}"


def test_an_experiment_has_a_table_of_actions_or_none_yet(api: Api) -> None:
    info = api.get(new(api))
    assert info["actions"] == list(MENU)
    assert [feature["name"] for feature in info["action_features"]] == ["price", "hot"]
    assert info["policy"]["parameters"]["max_actions"] == 10_000
    assert api.get(new(api, {}))["actions"] == []


def test_the_table_has_as_many_places_as_fit_unless_the_request_says_how_many(api: Api) -> None:
    policy = {"name": "HybridLinUCB", "parameters": {"seed": 0}}
    body = {"name": "wide", "actions": {}, "features": 24, "action_features": 16, "policy": policy}
    info = api.http.post("/v1/experiments", json=body).json()
    assert 2_000 < info["policy"]["parameters"]["max_actions"] < 10_000


def test_the_service_decides_as_the_library_does(api: Api) -> None:
    path, bandit = new(api), releaf.JointReleaf(MENU, 2, action_features=releaf.Schema.from_dict(DESCRIBED), seed=0)
    requests: list[Any] = [
        {},
        {"k": 2},
        {"actions": {"cola": None, "soup": {"price": 4.0, "hot": True}, "tea": [2.5, True]}, "k": 2},
        {"eligible": ["milk", "soup"]},
        {"actions": {"soup": None}},
    ]
    for step in range(40):
        request, context = requests[step % len(requests)], [step % 7 / 7, 0.5]
        size, own = request.get("k"), request.get("actions")
        expected = bandit.decide(context, request.get("eligible"), k=size, actions=own)
        answer = api.post(f"{path}/decide", {"context": context, **request})
        assert (answer["action"], answer["probability"]) == (expected.action, expected.probability)
        assert answer.get("slate") == (None if expected.slate is None else list(expected.slate))
        if expected.slate_probabilities is not None:
            assert answer["slate_probabilities"] == list(expected.slate_probabilities)
        names = [str(name) for name in expected.eligible or bandit.actions]
        known = None if expected.estimates is None else dict(zip(names, expected.estimates, strict=True))
        assert answer["estimates"] == known
        reward: Any = step % 2 if expected.slate is None else {expected.slate[-1]: 1.0, expected.slate[0]: 0.0}
        bandit.learn(expected, reward)
        assert api.post(f"{path}/reward", {"decision": answer["decision"], "reward": reward})["status"] == "learnt"
    assert api.get(path)["actions"] == ["tea", "cola", "milk", "soup"]
    saved = releaf.from_bytes(api.model(path))
    ours, theirs = (one.preview(CONTEXT, ["soup", "tea", "milk"], k=3) for one in (bandit, saved))
    assert theirs.slate_probabilities == ours.slate_probabilities
    assert list(saved.estimate([CONTEXT])[0]) == list(bandit.estimate([CONTEXT])[0])


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"actions": {"soup": None}}, "action 'soup' is new and has features None"),
        ({"actions": {"soup": {"price": 9.0, "hot": True}}}, "action 'soup'"),
        ({"actions": {"soup": {"price": 1.0}}}, "hot"),
        ({"actions": {}}, "length >= 1"),
        ({"actions": {"tea": None}, "eligible": ["tea"]}, "actions names the eligible actions already"),
        ({"actions": {"tea": None}, "k": 2}, "k must be at most the number of eligible actions, 1, got k=2"),
        ({"k": 0}, ">= 1"),
        ({"k": 4}, "k must be at most the number of eligible actions, 3"),
    ],
    ids=str,
)
def test_invalid_requests_are_refused_and_change_nothing(api: Api, body: Any, text: str) -> None:
    path = new(api)
    before = api.model(path)
    assert text in api.refused(422, "invalid", "POST", f"{path}/decide", {"context": CONTEXT, **body})
    assert (api.model(path), api.get(path)["counts"]["decisions"]) == (before, 0)


def test_what_does_not_go_together_is_refused(api: Api) -> None:
    path, plain = new(api), api.new("LinUCB")
    many = {"contexts": [CONTEXT], "k": 2}
    assert "k goes with one context" in api.refused(422, "invalid", "POST", f"{path}/decide", many)
    (line,) = api.lines(f"{path}/decide", {"context": CONTEXT, "actions": {"tea": None}})
    assert "actions goes with one context" in line["error"]["message"]
    body = {"context": CONTEXT, "k": 1}
    assert "LinUCB takes neither" in api.refused(422, "invalid", "POST", f"{plain}/decide", body)
    named = api.new("JointReleaf")
    body = {"context": CONTEXT, "actions": {"a": None}}
    assert "have no features: expected eligible" in api.refused(422, "invalid", "POST", f"{named}/decide", body)
    shadow = {"name": "other", "policy": {"name": "LinUCB"}}
    assert "can't have shadows" in api.refused(409, "conflict", "POST", f"{path}/shadows", shadow)
    base = {"name": "wrong", "features": 2, "policy": {"name": "JointReleaf"}}
    for given, text in (
        ({"actions": {}}, "expected their description in action_features"),
        ({"actions": ["a"], "action_features": 1}, "action_features is given, but actions has names only"),
        ({"actions": {"a": [2.0]}, "action_features": 1}, "actions are invalid: action 'a'"),
        (
            {**OPEN, "policy": {"name": "LinUCB"}},
            "LinUCB knows no features of actions",
        ),
        ({**OPEN, "policy": {"name": "JointReleaf", "parameters": {"max_actions": 10**9}}}, "would take"),
    ):
        assert text in api.refused(422, "invalid", "POST", "/v1/experiments", {**base, **given})


def test_actions_are_added_and_retired_with_their_features(api: Api) -> None:
    path = new(api)
    api.post(f"{path}/actions", {"action": "soup", "features": {"price": 4.0, "hot": True}})
    assert api.delete(f"{path}/actions/tea")["actions"] == ["cola", "milk", "soup"]
    assert "needs its features" in api.refused(409, "conflict", "POST", f"{path}/actions", {"action": "x"})
    assert "expected text" in api.refused(422, "invalid", "POST", f"{path}/actions", {"action": 7, "features": [1, 0]})
    plain = api.new("LinUCB")
    assert "have none" in api.refused(422, "invalid", "POST", f"{plain}/actions", {"action": "x", "features": [1]})


def test_rewards_of_slates_are_numbers_or_objects(api: Api) -> None:
    path = new(api)
    first, second, third = (api.post(f"{path}/decide", {"context": CONTEXT, "k": 2}) for _ in range(3))
    address = f"{path}/reward"
    wrong = {"decision": first["decision"], "reward": {"nobody": 1.0}}
    assert "have unknown ['nobody']" in api.refused(422, "invalid", "POST", address, wrong)
    assert "are empty: expected one" in api.refused(422, "invalid", "POST", address, {**wrong, "reward": {}})
    given = {"decision": first["decision"], "reward": {first["slate"][1]: 1.0}}
    assert [api.post(address, given)["status"] for _ in range(2)] == ["learnt", "repeated"]
    assert "already" in api.refused(409, "already_rewarded", "POST", address, {**given, "reward": 1.0})
    api.post(address, {"decision": second["decision"], "reward": dict.fromkeys(second["slate"], 0.5)})
    api.post(address, {"decision": third["decision"], "reward": 0.0})
    counts = api.get(path)["counts"]
    assert (counts["rewards"], counts["waiting"], counts["mean_reward"]) == (3, 0, 0.5)


def test_a_key_stands_for_actions_and_size(api: Api) -> None:
    path = new(api, {})
    body = {"context": CONTEXT, "actions": MENU, "k": 2, "key": "one"}
    answer = api.post(f"{path}/decide", body)
    assert api.post(f"{path}/decide", body) == answer
    for other in ({"k": 1}, {"actions": {"tea": None, "cola": None}}):
        text = api.refused(409, "key_reused", "POST", f"{path}/decide", {**body, **other})
        assert text == "key 'one' was used with other actions or k: use another key"
    plain = {"context": CONTEXT, "key": "two"}
    assert api.post(f"{path}/decide", plain) == api.post(f"{path}/decide", plain)


def test_records_exports_and_explanations_have_slates(api: Api) -> None:
    path = new(api, {})
    slate = api.post(f"{path}/decide", {"context": CONTEXT, "actions": MENU, "k": 2})
    api.post(f"{path}/reward", {"decision": 1, "reward": dict.fromkeys(slate["slate"], 0.25)})
    api.post(f"{path}/decide", {"context": CONTEXT, "eligible": ["tea"]})
    second, first = api.get(f"{path}/decisions")["decisions"]
    assert (first["actions"], first["slate"], second["slate"]) == (MENU, slate["slate"], None)
    assert first["reward"] == dict.fromkeys(slate["slate"], 0.25)
    rows = list(csv.DictReader(io.StringIO(api.http.get(f"{path}/export").text)))
    assert [(row["slate"], row["reward"]) for row in rows] == [("|".join(slate["slate"]), "0.25"), ("", "")]
    assert json.loads(rows[0]["slate_rewards"]) == first["reward"]
    table = pq.read_table(io.BytesIO(api.http.get(f"{path}/export", params={"format": "parquet"}).content))
    assert table["slate_probabilities"].to_pylist() == [slate["slate_probabilities"], None]
    assert table["reward"].to_pylist() == [0.25, None]
    info = api.get(f"{path}/explain/1")
    assert info["explanation"].startswith(f"Decision 1 chose '{slate['action']}' first of 2")
    assert set(info["eligible"]) == set(MENU)
    seen = api.post(f"{path}/preview", {"context": CONTEXT, "eligible": ["tea", "cola"]})
    assert sum(seen["distribution"].values()) == pytest.approx(1.0)
    assert api.get(f"{path}/summary")["actions"]


def test_a_preview_of_a_slate_or_of_new_actions_is_the_next_decision_without_a_trace(api: Api) -> None:
    path = new(api)
    for step in range(20):
        made = api.post(f"{path}/decide", {"context": CONTEXT})
        api.post(f"{path}/reward", {"decision": made["decision"], "reward": float(step % 3 == 0)})
    before = api.model(path)
    own = {"actions": {"soup": {"price": 4.0, "hot": True}, "tea": None, "cola": [3.5, False]}, "k": 2}
    for request in ({"k": 2}, {"k": 1, "eligible": ["tea", "milk"]}, own, {"actions": own["actions"]}):
        seen = api.post(f"{path}/preview", {"context": CONTEXT, **request})
        assert api.model(path) == before
        assert seen["explanation"].startswith(f"It would choose '{seen['action']}'")
        assert sum(seen["distribution"].values()) == pytest.approx(1)
        assert seen["distribution"][seen["action"]] == seen["probability"]
        assert seen["draws"] is None
        made = api.post(f"{path}/decide", {"context": CONTEXT, **request})
        for name in ("action", "probability", "estimates", "slate", "slate_probabilities"):
            assert seen[name] == made.get(name)
        explained = api.get(f"{path}/explain/{made['decision']}")
        assert (explained["slate"], explained["slate_probabilities"]) == (seen["slate"], seen["slate_probabilities"])
        before = api.model(path)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"k": 0}, "k"),
        ({"k": 4}, "k must be at most the number of eligible actions, 3"),
        ({"actions": {"soup": None}}, "soup"),
        ({"actions": {"tea": None}, "eligible": ["tea"]}, "expected no eligible"),
        ({"k": 2, "cost": [1, 2, 3]}, "weighs no costs"),
    ],
    ids=str,
)
def test_previews_of_many_actions_are_refused_as_decisions_are(api: Api, body: Any, text: str) -> None:
    path = new(api)
    assert text in api.refused(422, "invalid", "POST", f"{path}/preview", {"context": CONTEXT, **body})
    other = api.refused(422, "invalid", "POST", f"{api.new('LinUCB')}/preview", {"context": CONTEXT, "k": 2})
    assert "takes neither actions nor k" in other


def test_an_experiment_without_actions_yet_says_so(api: Api) -> None:
    path = new(api, {})
    assert "no action to choose from" in api.refused(422, "invalid", "POST", f"{path}/decide", {"context": CONTEXT})
    assert "no action to choose from" in api.refused(422, "invalid", "POST", f"{path}/preview", {"context": CONTEXT})
    assert "no actions yet" in api.refused(409, "conflict", "GET", f"{path}/summary")
    assert api.get(f"{path}/relevance")["actions"] == []


def test_after_kill_9_the_learner_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    policy = {"name": "JointReleaf", "parameters": {"seed": 3, "max_actions": 6, "least_probability": 0.02}}
    body = {"name": "news", "features": 2, "policy": policy, **OPEN}
    path = "/v1/experiments/news"
    with ServiceProcess(tmp_path, str(tmp_path / "news.db"), *FREQUENT_SNAPSHOTS, *PATIENT) as service:
        assert service.call("POST", "/v1/experiments", body)[0] == 201
        waiting: list[tuple[int, list[str]]] = []
        for step in range(240):
            new = {f"a{step // 4 + i}": [i / 2, step % 3 == i] for i in range(3)}
            changed = {name: [0.5, True] for name in new}
            choices: list[Any] = [{"actions": new, "k": 2}, {"k": 3}, {"actions": changed}, {}]
            request = choices[step % 4]
            status, _, answer = service.call("POST", f"{path}/decide", {"context": [step % 9 / 9, 0.5], **request})
            assert status == 200, answer
            waiting.append((answer["decision"], answer.get("slate", [])))
            if step % 3:  # of an earlier decision, whose actions may be gone
                number, slate = waiting.pop(len(waiting) // 2)
                reward: Any = {name: (number + i) % 2 for i, name in enumerate(slate)} if slate else number % 2
                status, _, told = service.call("POST", f"{path}/reward", {"decision": number, "reward": reward})
                assert status == 200, told
        model, info = service.call("GET", f"{path}/model")[2], service.call("GET", path)[2]
        service.kill()
        service.start()
        assert service.call("GET", f"{path}/model")[2] == model
        again = service.call("GET", path)[2]
        assert (again["actions"], again["counts"]) == (info["actions"], info["counts"])
        assert again["messages"] == []
        number, slate = waiting[0]
        reward = {slate[-1]: 1.0} if slate else 1.0
        assert service.call("POST", f"{path}/reward", {"decision": number, "reward": reward})[0] == 200


def test_events_of_many_actions_are_read_back() -> None:
    many = ManyActions({"tea": [1.0, True], "cola": None}, 2, ("cola", "tea"), (1.0, 1.0))
    event = Decided(1.0, 1, [0.5], "cola", 0.5, False, True, None, None, None, None, ("tea", "cola"), None, None, many)
    assert decode_page(encode_page([event])) == [event]
    tag, *fields = msgspec.msgpack.decode(encode_page([event]))[0]
    assert (tag, fields[Decided.__struct_fields__.index("many")][1]) == (1, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_both_clients_send_actions_and_sizes(tmp_path: Path, kind: Any) -> None:
    made: Any = KINDS[kind]
    with run_service(tmp_path, *PATIENT) as url, made(url) as client:
        schema = releaf.Schema.from_dict(DESCRIBED)
        client.create("menu", MENU, 2, action_features=schema, policy="JointReleaf")
        slate = client.decide("menu", CONTEXT, k=2, actions={"tea": None, "soup": {"price": 4, "hot": True}})
        assert sorted(slate.slate) == ["soup", "tea"]
        assert slate.slate_probabilities == (1.0, 1.0)
        seen = client.preview("menu", CONTEXT, k=2, actions={"tea": None, "juice": {"price": 1, "hot": False}})
        assert sorted(seen["slate"]) == ["juice", "tea"]
        assert client.reward("menu", slate, {slate.slate[1]: 1.0}) == "learnt"
        assert client.decide("menu", CONTEXT).slate is None
        assert "juice" in client.add_action("menu", "juice", [1.0, False])["actions"]
        with pytest.raises(TypeError, match="actions must be a mapping from names to features, got 3"):
            client.decide("menu", CONTEXT, actions=3)
        with pytest.raises(ServiceError, match="k must be at most the number of eligible actions"):
            client.decide("menu", CONTEXT, k=9)
