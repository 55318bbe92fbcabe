"""Personalizer's multi-slot API by its REST schema (v1.1-preview.3)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_api import Api, running_api

from releaf.service.personalizer.slot_filling import fillable_actions

NEWS = [
    {"id": "politics", "features": [{"topic": "politics", "length": 900}]},
    {"id": "sports", "features": [{"topic": "sports", "length": 300}]},
    {"id": "music", "features": [{"topic": "music"}]},
]
SLOTS: list[dict[str, Any]] = [
    {"id": "top", "features": [{"size": "large"}], "excludedActions": ["music"], "baselineAction": "politics"},
    {"id": "side", "features": [{"size": "small"}], "excludedActions": ["politics"], "baselineAction": "sports"},
]
CONTEXT = [{"user": {"device": "mobile"}}]
EVENTS = "/personalizer/v1.1-preview.3/multislot/events"
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("service"), "--write-timeout", "60") as api:
        yield api


def new_loop(api: Api, **further: Any) -> str:
    name = f"news{next(_numbers)}"
    parameters = {"seed": 0, "reward_range": [-1, 1], "least_probability": 0.05, "max_actions": 20}
    policy = {"name": "HybridLinUCB", "parameters": parameters}
    body = {"name": name, "actions": {}, "features": 16, "action_features": 8, "policy": policy, **further}
    answer = api.http.post("/v1/experiments", json=body)
    assert answer.status_code == 201, answer.text
    return f"/v1/experiments/{name}"


def rank(api: Api, base: str, **request: Any) -> Any:
    body = {"contextFeatures": CONTEXT, "actions": NEWS, "slots": SLOTS, **request}
    answer = api.http.post(f"{base}/personalizer/v1.1-preview.3/multislot/rank", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def send(api: Api, path: str, body: Any = None) -> None:
    answer = api.http.post(path, json=body)
    assert (answer.status_code, answer.content) == (204, b""), answer.text


def refused(api: Api, status: int, path: str, body: Any) -> str:
    answer = api.http.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["code"] == {400: "BadRequest", 404: "ResourceNotFound"}[status]
    return str(answer.json()["error"]["message"])


def outcomes(api: Api, base: str) -> list[tuple[str, Any]]:
    return [(one["outcome"], one["reward"]) for one in reversed(api.get(f"{base}/decisions")["decisions"])]


def test_each_slot_gets_an_action_of_its_own_that_it_does_not_exclude(api: Api) -> None:
    base = new_loop(api)
    for _ in range(20):
        answer = rank(api, base)
        assert sorted(answer) == ["eventId", "slots"]
        assert [slot["id"] for slot in answer["slots"]] == ["top", "side"]
        top, side = (slot["rewardActionId"] for slot in answer["slots"])
        assert top in {"politics", "sports"}
        assert side in {"sports", "music"} - {top}
    assert api.get(base)["counts"]["decisions"] == 40


def test_the_same_rank_again_has_the_same_answer(api: Api) -> None:
    base = new_loop(api)
    first = rank(api, base, eventId="page")
    for _ in range(3):
        rank(api, base)
    assert rank(api, base, eventId="page") == first
    path = f"{base}/personalizer/v1.1-preview.3/multislot/rank"
    body = {"contextFeatures": CONTEXT, "actions": NEWS, "slots": SLOTS, "eventId": "page"}
    assert "other slots" in refused(api, 400, path, {**body, "slots": SLOTS[:1]})
    assert "another context" in refused(api, 400, path, {**body, "contextFeatures": []})
    assert "another context" in refused(api, 400, path, {**body, "slots": SLOTS[::-1]})
    assert api.get(base)["counts"]["decisions"] == 8


def test_rewards_belong_to_slots_and_the_first_one_counts(api: Api) -> None:
    base = new_loop(api)
    event = rank(api, base)["eventId"]
    send(api, f"{base}{EVENTS}/{event}/reward", {"reward": [{"slotId": "side", "value": 0.5}]})
    assert outcomes(api, base) == [("waiting", None), ("rewarded", 0.5)]
    rewards = [{"slotId": "side", "value": 1}, {"slotId": "top", "value": -1}, {"slotId": "top", "value": 0}]
    send(api, f"{base}{EVENTS}/{event}/reward", {"reward": rewards})
    assert outcomes(api, base) == [("rewarded", -1.0), ("rewarded", 0.5)]


def test_a_deferred_event_is_activated_with_all_its_slots(api: Api) -> None:
    base = new_loop(api)
    event = rank(api, base, deferActivation=True)["eventId"]
    send(api, f"{base}{EVENTS}/{event}/reward", {"reward": [{"slotId": "top", "value": 1}]})
    assert outcomes(api, base) == [("waiting", None)] * 2
    send(api, f"{base}{EVENTS}/{event}/activate")
    assert outcomes(api, base) == [("rewarded", 1.0), ("waiting", None)]
    send(api, f"{base}{EVENTS}/{event}/reward", {"reward": [{"slotId": "side", "value": 0}]})
    assert outcomes(api, base) == [("rewarded", 1.0), ("rewarded", 0.0)]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"slots": []}, "length >= 1"),
        ({"slots": [{"id": "top"}]}, "baselineAction"),
        ({"slots": [{"id": "top", "baselineAction": "weather"}]}, "expected one of actions"),
        ({"slots": [{**SLOTS[0], "excludedActions": ["politics"]}]}, "excludes its baselineAction"),
        ({"slots": [SLOTS[0], {**SLOTS[1], "id": "top"}]}, "slots has the id 'top' twice"),
        ({"slots": [SLOTS[0], {**SLOTS[1], "baselineAction": "politics"}]}, "baselineAction 'politics' twice"),
        ({"actions": [*NEWS, NEWS[0]]}, "actions has the id 'politics' twice"),
        ({"actions": [*NEWS, *({"id": str(i), "features": []} for i in range(18))]}, "expected at most 20"),
        ({"eventId": "a\x1f1"}, "printable"),
    ],
    ids=str,
)
def test_invalid_ranks_are_refused_and_change_nothing(api: Api, change: Any, text: str) -> None:
    base = new_loop(api)
    body = {"contextFeatures": CONTEXT, "actions": NEWS, "slots": SLOTS, **change}
    assert text in refused(api, 400, f"{base}/personalizer/v1.1-preview.3/multislot/rank", body)
    assert api.get(base)["counts"]["decisions"] == 0
    rank(api, base)


def test_unknown_events_and_slots_are_not_found_and_nothing_is_learnt(api: Api) -> None:
    base = new_loop(api)
    event = rank(api, base)["eventId"]
    one = {"reward": [{"slotId": "top", "value": 1}]}
    assert "unknown event" in refused(api, 404, f"{base}{EVENTS}/none/reward", one)
    assert "unknown event" in refused(api, 404, f"{base}{EVENTS}/none/activate", None)
    both = {"reward": [{"slotId": "top", "value": 1}, {"slotId": "left", "value": 1}]}
    assert "no slot 'left'" in refused(api, 404, f"{base}{EVENTS}/{event}/reward", both)
    wrong = {"reward": [{"slotId": "top", "value": 1}, {"slotId": "side", "value": 7}]}
    assert "reward" in refused(api, 400, f"{base}{EVENTS}/{event}/reward", wrong)
    assert outcomes(api, base) == [("waiting", None)] * 2


def test_slots_survive_a_restart_of_the_service(tmp_path: Path) -> None:
    with running_api(tmp_path, "--write-timeout", "60") as api:
        base = new_loop(api)
        first = rank(api, base, eventId="page", deferActivation=True)
    with running_api(tmp_path, "--write-timeout", "60") as api:
        assert rank(api, base, eventId="page", deferActivation=True) == first
        send(api, f"{base}{EVENTS}/page/activate")
        send(api, f"{base}{EVENTS}/page/reward", {"reward": [{"slotId": "side", "value": 1}]})
        assert outcomes(api, base) == [("waiting", None), ("rewarded", 1.0)]


@given(st.lists(st.frozensets(st.sampled_from("abcd")), min_size=1, max_size=4), st.frozensets(st.sampled_from("abcd")))
def test_an_action_is_left_to_a_slot_that_needs_it(allowed: list[frozenset[str]], used: frozenset[str]) -> None:
    solutions = [
        names for names in itertools.product(*(actions - used for actions in allowed)) if len(set(names)) == len(names)
    ]
    assert fillable_actions(allowed, used) == sorted({names[0] for names in solutions})
