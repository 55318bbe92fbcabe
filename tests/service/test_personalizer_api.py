"""Personalizer's Rank, Reward and Activate over HTTP, by its REST schema."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from service_api import Api, running_api

MENU = [
    {"id": "pasta", "features": [{"taste": {"spice": "mild", "salt": 0.3}}, {"price": 12}]},
    {"id": "curry", "features": [{"taste": {"spice": "hot", "salt": 0.4}}, {"price": 14, "tags": ["asian", "new"]}]},
    {"id": "salad", "features": [{"taste": {"spice": "mild", "salt": 0.1}}, {"price": 9, "vegan": True}]},
]
CONTEXT = [{"user": {"age": 31, "plan": "plus"}}, {"time": "noon", "note": None}]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("service"), "--write-timeout", "60") as api:
        yield api


def new_loop(api: Api, **further: Any) -> str:
    """An experiment as Personalizer's API needs it; its base address is returned."""
    name = f"loop{len(api.get('/v1/experiments')['experiments'])}"
    parameters = {"seed": 0, "reward_range": [-1, 1], "least_probability": 0.05, "max_actions": 100}
    body = {
        "name": name,
        "actions": {},
        "features": 12,
        "action_features": 8,
        "policy": {"name": "HybridLinUCB", "parameters": parameters},
        **further,
    }
    answer = api.http.post("/v1/experiments", json=body)
    assert answer.status_code == 201, answer.text
    return f"/v1/experiments/{name}"


def rank(api: Api, base: str, version: str = "v1.0", **request: Any) -> Any:
    body = {"contextFeatures": CONTEXT, "actions": MENU, **request}
    answer = api.http.post(f"{base}/personalizer/{version}/rank", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def send(api: Api, base: str, event: str, what: str, body: Any = None) -> None:
    answer = api.http.post(f"{base}/personalizer/v1.0/events/{event}/{what}", json=body)
    assert (answer.status_code, answer.content) == (204, b""), answer.text


def error(api: Api, status: int, code: str, path: str, body: Any = None) -> str:
    answer = api.http.post(path, json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json"), answer.text
    assert list(answer.json()) == ["error"]
    assert answer.json()["error"]["code"] == code
    return str(answer.json()["error"]["message"])


def outcomes(api: Api, base: str) -> list[tuple[str, Any]]:
    return [(one["outcome"], one["reward"]) for one in reversed(api.get(f"{base}/decisions")["decisions"])]


@pytest.mark.parametrize("version", ["v1.0", "v1.1-preview.3"])
def test_rank_answers_with_the_ranking_the_event_and_the_action_to_show(api: Api, version: str) -> None:
    answer = rank(api, new_loop(api), version, eventId="event 1")
    assert sorted(answer) == ["eventId", "ranking", "rewardActionId"]
    assert answer["eventId"] == "event 1"
    assert sorted(one["id"] for one in answer["ranking"]) == ["curry", "pasta", "salad"]
    assert answer["ranking"][0]["id"] == answer["rewardActionId"]
    assert sum(one["probability"] for one in answer["ranking"]) == pytest.approx(1)
    assert all(one["probability"] >= 0.05 for one in answer["ranking"])


def test_an_event_without_an_id_gets_one(api: Api) -> None:
    base = new_loop(api)
    first, second = (rank(api, base)["eventId"] for _ in range(2))
    assert first != second
    send(api, base, first, "reward", {"value": 1})
    assert outcomes(api, base) == [("rewarded", 1.0), ("waiting", None)]


def test_excluded_actions_keep_their_places_with_probability_0(api: Api) -> None:
    answer = rank(api, new_loop(api), excludedActions=["pasta", "unknown"])
    assert answer["ranking"][0] == {"id": "pasta", "probability": 0.0}
    assert answer["ranking"][1]["id"] == answer["rewardActionId"] != "pasta"


def test_the_same_rank_again_has_the_same_answer(api: Api) -> None:
    base = new_loop(api)
    first = rank(api, base, eventId="e/1 ä")
    for _ in range(5):
        rank(api, base)
    assert rank(api, base, eventId="e/1 ä") == first
    assert api.get(base)["counts"]["decisions"] == 6
    path = f"{base}/personalizer/v1.0/rank"
    other = {"contextFeatures": [{"user": {"age": 70}}], "actions": MENU, "eventId": "e/1 ä"}
    assert "another context" in error(api, 400, "BadRequest", path, other)
    other = {"contextFeatures": CONTEXT, "actions": MENU[1:], "eventId": "e/1 ä"}
    assert "other actions" in error(api, 400, "BadRequest", path, other)
    send(api, base, "e%2F1%20%C3%A4", "reward", {"value": 0.5})
    assert outcomes(api, base)[0] == ("rewarded", 0.5)


def test_the_first_reward_of_an_event_counts(api: Api) -> None:
    base = new_loop(api)
    event = rank(api, base)["eventId"]
    for value in (-0.5, -0.5, 1):
        send(api, base, event, "reward", {"value": value})
    assert outcomes(api, base) == [("rewarded", -0.5)]


def test_the_loop_learns_what_users_like(api: Api) -> None:
    base = new_loop(api)
    likes = {"mild": "pasta", "hot": "curry"}
    earned = []
    for step in range(300):
        taste = "hot" if step % 2 else "mild"
        answer = rank(api, base, contextFeatures=[{"user": {"taste": taste}}])
        earned.append(float(answer["rewardActionId"] == likes[taste]))
        send(api, base, answer["eventId"], "reward", {"value": earned[-1]})
    assert sum(earned[-100:]) >= 75  # a uniform choice earns a third; 10 % are explored


def test_a_deferred_event_is_learnt_from_only_if_it_is_activated(api: Api) -> None:
    base = new_loop(api)
    before = api.model(base)
    event = rank(api, base, eventId="deferred", deferActivation=True)["eventId"]
    send(api, base, event, "reward", {"value": 1})
    send(api, base, event, "reward", {"value": 0})  # the first one counts
    assert outcomes(api, base) == [("waiting", None)]
    assert api.get(base)["counts"]["rewards"] == 0
    send(api, base, event, "activate")
    send(api, base, event, "activate")
    assert outcomes(api, base) == [("rewarded", 1.0)]
    assert api.model(base) != before
    send(api, base, rank(api, base)["eventId"], "activate")  # active from the start
    assert outcomes(api, base) == [("rewarded", 1.0), ("waiting", None)]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "actions"),
        ({"actions": []}, "length >= 1"),
        ({"actions": [{"id": "a"}]}, "features"),
        ({"actions": [MENU[0], MENU[0]]}, "actions has the id 'pasta' twice"),
        ({"actions": MENU[:1], "excludedActions": ["pasta"]}, "excludedActions has all actions"),
        ({"actions": [{"id": "x" * 257, "features": []}]}, "256"),
        ({"actions": MENU, "eventId": "a\nb"}, "printable"),
        ({"actions": MENU, "eventId": "x" * 257}, "256"),
        ({"actions": [{"id": "a\u202e", "features": []}]}, "bidirectional"),
    ],
    ids=str,
)
def test_invalid_ranks_are_refused_and_change_nothing(api: Api, body: Any, text: str) -> None:
    base = new_loop(api)
    assert text in error(api, 400, "BadRequest", f"{base}/personalizer/v1.0/rank", body)
    assert api.get(base)["counts"]["decisions"] == 0


def test_deeply_nested_features_are_refused(api: Api) -> None:
    nested: Any = 1
    for _ in range(30):
        nested = {"a": nested}
    body = {"contextFeatures": [nested], "actions": MENU}
    assert "nested" in error(api, 400, "BadRequest", f"{new_loop(api)}/personalizer/v1.0/rank", body)


def test_what_is_unknown_is_not_found(api: Api) -> None:
    base = new_loop(api)
    assert "unknown event" in error(
        api, 404, "ResourceNotFound", f"{base}/personalizer/v1.0/events/none/reward", {"value": 1}
    )
    assert "unknown event" in error(api, 404, "ResourceNotFound", f"{base}/personalizer/v1.0/events/none/activate")
    assert "unknown version" in error(api, 404, "ResourceNotFound", f"{base}/personalizer/v9/rank", {"actions": MENU})
    path = "/v1/experiments/none/personalizer/v1.0/rank"
    assert "unknown experiment" in error(api, 404, "ResourceNotFound", path, {"actions": MENU})


def test_rewards_beyond_the_range_and_other_bodies_are_refused(api: Api) -> None:
    base = new_loop(api)
    event = rank(api, base)["eventId"]
    path = f"{base}/personalizer/v1.0/events/{event}/reward"
    assert "reward" in error(api, 400, "BadRequest", path, {"value": 2})
    assert "value" in error(api, 400, "BadRequest", path, {})
    answer = api.http.post(path, content=b"{", headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "BadRequest")
    answer = api.http.post(path, content=b"{}", headers={"Content-Type": "text/plain"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "BadRequest")
    assert outcomes(api, base) == [("waiting", None)]


def test_other_experiments_refuse_to_rank(api: Api) -> None:
    body = {"actions": MENU}
    assert "can't rank" in error(api, 400, "BadRequest", f"{api.new('LinUCB')}/personalizer/v1.0/rank", body)


def test_an_event_is_rewarded_by_its_id_where_rewards_of_decisions_are_signed(api: Api) -> None:
    base = new_loop(api, rewards={"signed": True})
    rank(api, base, eventId="e")
    api.refused(403, "receipt_missing", "POST", f"{base}/reward", {"decision": 1, "reward": 0.5})
    send(api, base, "e", "reward", {"value": 0.5})
    assert outcomes(api, base) == [("rewarded", 0.5)]


def test_events_survive_a_restart_of_the_service(tmp_path: Path) -> None:
    with running_api(tmp_path, "--write-timeout", "60") as api:
        base = new_loop(api)
        first = rank(api, base, eventId="first")
        deferred = rank(api, base, eventId="deferred", deferActivation=True)
        rank(api, base, eventId="unused", deferActivation=True)
        send(api, base, "deferred", "reward", {"value": 0.25})
    with running_api(tmp_path, "--write-timeout", "60") as api:
        assert rank(api, base, eventId="first") == first
        assert rank(api, base, eventId="deferred", deferActivation=True) == deferred
        send(api, base, "first", "reward", {"value": 1})
        send(api, base, "deferred", "activate")
        send(api, base, "unused", "reward", {"value": 1})
        assert outcomes(api, base) == [("rewarded", 1.0), ("rewarded", 0.25), ("waiting", None)]


def test_the_header_of_personalizers_clients_carries_a_key_of_the_service(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "releaf", "keys", "add", "shop", "--json", "--store", str(tmp_path / "releaf.db")]
    admin, limited = (
        json.loads(subprocess.run([*command, "--scope", scope], capture_output=True, check=True).stdout)["key"]
        for scope in ("*:admin", "shop:decide")
    )
    body = {"name": "shop", "actions": {}, "features": 4, "action_features": 4, "policy": {"name": "HybridLinUCB"}}
    path, rank_body = "/v1/experiments/shop/personalizer/v1.0", {"actions": MENU, "eventId": "e"}
    with running_api(tmp_path, "--require-keys", "--write-timeout", "60") as api:
        assert error(api, 401, "401", f"{path}/rank", rank_body)
        api.http.headers["Ocp-Apim-Subscription-Key"] = "wrong"
        assert "wrong" in error(api, 401, "401", f"{path}/rank", rank_body)
        api.http.headers["Ocp-Apim-Subscription-Key"] = admin
        assert api.http.post("/v1/experiments", json=body).status_code == 201
        api.http.headers["Ocp-Apim-Subscription-Key"] = limited
        assert rank(api, "/v1/experiments/shop", eventId="e")["eventId"] == "e"
        assert "shop:reward" in error(api, 403, "403", f"{path}/events/e/reward", {"value": 1})


def test_a_loop_may_have_a_control_share(api: Api) -> None:
    policy = {"name": "HybridLinUCB", "parameters": {"seed": 0, "control_share": 0.3}}
    base = new_loop(api, policy=policy)
    shown, told = set[str](), set[tuple[float, ...]]()
    for _ in range(20):
        answer = rank(api, base)
        chances = {one["id"]: one["probability"] for one in answer["ranking"]}
        assert sum(chances.values()) == pytest.approx(1)
        assert all(chance >= 0.0999 for chance in chances.values())
        shown.add(answer["rewardActionId"])
        told.add(tuple(round(chances[one["id"]], 9) for one in MENU))
    assert len(shown) > 1
    assert len(told) == 1  # without rewards, nothing changes the probabilities
