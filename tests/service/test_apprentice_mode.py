"""Apprentice mode of the service: the application decides, the learner watches, and is promoted with one call."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client_kinds import KINDS
from service_api import Api, running_api

import releaf
from releaf.client import Conflict

PATIENT = ("--write-timeout", "60")
CONTEXT = [0.25, 0.75]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("service"), *PATIENT) as api:
        yield api


def watch(api: Api, path: str, action: str, reward: float, probability: float = 1.0, context: Any = CONTEXT) -> Any:
    body = {"context": context, "baseline": {"action": action, "probability": probability}}
    answer = api.post(f"{path}/decide", body)
    api.post(f"{path}/reward", {"decision": answer["decision"], "reward": reward})
    return answer


def watch_many(api: Api, path: str, rounds: int, share: float = 0.5) -> None:
    """An application that takes b with this probability, where b is the better action in most contexts."""
    draw = random.Random(1)
    for _ in range(rounds):
        action, chance = ("b", share) if draw.random() < share else ("a", 1 - share)
        watch(api, path, action, 0.9 if action == "b" else 0.1, chance, [draw.random(), draw.random()])


def apprentice(api: Api, path: str) -> Any:
    (shadow,) = api.get(path)["shadows"]
    assert shadow["name"] == "apprentice"
    return shadow


def test_the_application_decides_and_the_learner_learns_its_rewards(api: Api) -> None:
    path, bandit = api.new("LinUCB", apprentice=True), releaf.LinUCB(["a", "b"], 2, seed=0)
    for step in range(12):
        action, reward = ("a", 0.25) if step % 3 else ("b", 1.0)
        answer = watch(api, path, action, reward, 0.5)
        assert (answer["action"], answer["probability"], answer["explored"]) == (action, 0.5, False)
        bandit.observe(CONTEXT, action, reward, probability=0.5)
    info, served = api.get(path), releaf.from_bytes(api.model(path))
    assert info["apprentice"]
    assert served.estimate([CONTEXT]).tolist() == bandit.estimate([CONTEXT]).tolist()
    assert info["counts"]["rewards"] == 12
    assert [one["action"] for one in api.get(f"{path}/decisions")["decisions"][:3]] == ["a", "a", "b"]


def test_it_shows_how_often_it_agrees_and_what_it_would_have_earned(api: Api) -> None:
    path = api.new("LinUCB", apprentice=True)
    watch_many(api, path, 150)
    shown = apprentice(api, path)
    assert (shown["decisions"], shown["compared"]) == (150, 150)
    assert 0 < shown["agreed"] < 150
    assert shown["in_charge"] == pytest.approx(0.5, abs=0.1)
    assert shown["difference_low"] < shown["difference"] < shown["difference_high"]
    assert shown["difference"] == pytest.approx(0.4, abs=0.15)


def test_it_is_promoted_with_one_call_once_its_lower_bound_is_above_0(api: Api) -> None:
    path = api.new("LinUCB", apprentice=True)
    early = api.refused(409, "not_shown", "POST", f"{path}/shadows/apprentice/promote")
    assert "no rewarded decision compares them yet" in early
    watch_many(api, path, 5)
    assert "after 5 compared decisions" in api.refused(409, "not_shown", "POST", f"{path}/shadows/apprentice/promote")
    watch_many(api, path, 250)
    assert apprentice(api, path)["difference_low"] > 0
    info = api.post(f"{path}/shadows/apprentice/promote")
    assert (info["apprentice"], info["shadows"]) == (False, [])
    assert api.post(f"{path}/decide", {"context": CONTEXT})["action"] == "b"
    body = {"context": CONTEXT, "baseline": {"action": "a"}}  # the application goes on as before
    assert api.post(f"{path}/decide", body)["action"] == "b"
    assert "unknown shadow" in api.refused(404, "unknown_shadow", "POST", f"{path}/shadows/apprentice/promote")
    (change, *_) = api.get("/v1/audit", experiment=info["name"])["changes"]
    assert (change["change"], change["subject"]) == ("promote", "apprentice")
    evidence = change["after"].pop("evidence")
    assert evidence["difference_low"] > 0.0
    assert not evidence["force"]
    assert (change["before"], change["after"]) == ({"apprentice": True, "evidence": None}, {"apprentice": False})


def test_a_shadow_is_promoted_with_evidence_or_by_force_only(api: Api) -> None:
    path = api.new("EpsilonGreedy", features=1, parameters={"epsilon": 1.0})
    for name in ("good", "bad"):
        body = {"name": name, "policy": {"name": "UCB1", "parameters": {}}}
        api.post(f"{path}/shadows", body)
    message = api.refused(409, "not_shown", "POST", f"{path}/shadows/good/promote")
    assert "shadow 'good' is not shown to earn more than the policy in charge: no rewarded decision" in message
    for _ in range(40):
        made = api.post(f"{path}/decide", {"contexts": [[0.5]] * 10})["decisions"]
        rewards = [{"decision": one["decision"], "reward": float(one["action"] == "b")} for one in made]
        api.post(f"{path}/reward", {"rewards": rewards})
    (told,) = [one for one in api.get(path)["shadows"] if one["name"] == "good"]
    assert told["difference_low"] > 0.0
    assert api.post(f"{path}/shadows/good/promote")["policy"]["name"] == "UCB1"
    message = api.refused(409, "not_shown", "POST", f"{path}/shadows/former/promote")
    assert "no rewarded decision compares them yet" in message
    assert api.post(f"{path}/shadows/former/promote?force=true")["policy"]["name"] == "EpsilonGreedy"
    back, change = api.get("/v1/audit", experiment=path.rpartition("/")[2])["changes"][:2]
    assert (change["after"]["evidence"]["force"], back["after"]["evidence"]["force"]) == (False, True)
    assert change["after"]["evidence"]["difference_low"] == told["difference_low"]


def test_a_promotion_that_ends_the_least_probability_is_reported(api: Api) -> None:
    path = api.new("AdaptiveReleaf", parameters={"least_probability": 0.1})
    api.post(f"{path}/shadows", {"name": "sure", "policy": {"name": "LinUCB", "parameters": {}}})
    info = api.post(f"{path}/shadows/sure/promote?force=true")
    assert "sure was promoted, and has no least probability" in info["messages"][-1]


def test_an_application_that_never_varies_promotes_by_force_only(api: Api) -> None:
    path = api.new("LinUCB", apprentice=True)
    for step in range(120):
        watch(api, path, "a", 0.1, 1.0, [step % 7 / 7, 0.5])
    assert apprentice(api, path)["difference_low"] < 0
    api.refused(409, "not_shown", "POST", f"{path}/shadows/apprentice/promote")
    assert "force" in api.refused(422, "invalid", "POST", f"{path}/shadows/apprentice/promote?force=yes")
    assert not api.post(f"{path}/shadows/apprentice/promote?force=true")["apprentice"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"context": CONTEXT}, "expected baseline"),
        ({"context": CONTEXT, "baseline": {"action": "c"}}, "baseline.action is 'c': expected one of ['a', 'b']"),
        ({"context": CONTEXT, "baseline": {"action": "a"}, "eligible": ["b"]}, "expected one of ['b']"),
        ({"context": CONTEXT, "baseline": {"action": "a", "probability": 0}}, "probability"),
        ({"context": CONTEXT, "baseline": {"action": "a", "probability": 1.5}}, "probability"),
        ({"context": CONTEXT, "baseline": {"action": "a", "odds": 1}}, "odds"),
        ({"context": CONTEXT, "baselines": [{"action": "a"}]}, "baselines go with contexts"),
        ({"contexts": [CONTEXT], "baseline": {"action": "a"}}, "baseline goes with context"),
        ({"contexts": [CONTEXT] * 2, "baselines": [{"action": "a"}]}, "got 1 baselines for 2 contexts"),
        ({"contexts": [CONTEXT]}, "expected baseline"),
    ],
    ids=str,
)
def test_invalid_requests_are_refused_and_change_nothing(api: Api, body: Any, text: str) -> None:
    path = api.new("LinUCB", apprentice=True)
    before = api.model(path)
    assert text in api.refused(422, "invalid", "POST", f"{path}/decide", body)
    assert (api.model(path), api.get(path)["counts"]["decisions"]) == (before, 0)


def test_other_experiments_take_no_baseline_and_not_every_policy_can_watch(api: Api) -> None:
    body = {"context": CONTEXT, "baseline": {"action": "a"}}
    assert "is no apprentice" in api.refused(422, "invalid", "POST", f"{api.new('LinUCB')}/decide", body)
    base: dict[str, Any] = {"actions": ["a", "b"], "features": 2, "apprentice": True}
    unable: list[tuple[dict[str, Any], str]] = [
        ({"name": "Releaf"}, "Releaf"),
        ({"name": "AdaptiveReleaf", "parameters": {"label_budget": 10}}, "asks for the reward of every decision"),
        ({"name": "LinUCB", "parameters": {"control_share": 0.1}}, "control_share"),
    ]
    for number, (policy, text) in enumerate(unable):
        body = {**base, "name": f"unable{number}", "policy": policy}
        assert text in api.refused(422, "invalid", "POST", "/v1/experiments", body)


@pytest.mark.parametrize("policy", ["LinUCB", "AdaptiveReleaf"])
def test_an_explanation_tells_what_the_application_took_and_what_the_learner_would_have(api: Api, policy: str) -> None:
    path = api.new(policy, apprentice=True)
    for _ in range(60):
        watch(api, path, "a", 0.0, 0.5)
        watch(api, path, "b", 1.0, 0.5)
    for action, expected in [
        ("a", "The application took 'a'; the learner would have chosen 'b'."),
        ("b", "The application took 'b'; the learner would have chosen it too."),
    ]:
        made = watch(api, path, action, 0.0, 0.5)
        explained = api.get(f"{path}/explain/{made['decision']}")
        assert explained["explanation"].splitlines()[0] == expected
        assert (explained["action"], explained["probability"]) == (action, 0.5)
        if explained["details"] is not None:
            assert explained["details"]["action"] == "b"
        assert " chose " not in explained["explanation"]
    api.post(f"{path}/shadows/apprentice/promote?force=true")
    own = api.post(f"{path}/decide", {"context": CONTEXT})
    assert api.get(f"{path}/explain/{own['decision']}")["explanation"].startswith("Decision")


def test_a_shadow_may_be_named_apprentice_where_none_watches(api: Api) -> None:
    path = api.new("LinUCB")
    api.post(f"{path}/shadows", {"name": "apprentice", "policy": {"name": "EpsilonGreedy", "parameters": {"seed": 0}}})
    body = {"context": CONTEXT, "key": "k"}
    made = api.post(f"{path}/decide", body)
    assert api.post(f"{path}/decide", body) == made
    assert api.get(f"{path}/explain/{made['decision']}")["explanation"].startswith("Decision 1 chose")


def test_shadows_beside_an_apprentice_are_compared_with_the_application(api: Api) -> None:
    path = api.new("LinUCB", apprentice=True)
    reserved = {"name": "apprentice", "policy": {"name": "LinUCB"}}
    assert "reserved" in api.refused(409, "name_taken", "POST", f"{path}/shadows", reserved)
    api.post(f"{path}/shadows", {"name": "other", "policy": {"name": "EpsilonGreedy", "parameters": {"seed": 0}}})
    watch_many(api, path, 20)
    own, other = api.get(path)["shadows"]
    assert (own["name"], other["name"], other["compared"]) == ("apprentice", "other", 20)
    assert other["in_charge"] == own["in_charge"]
    assert "while the application decides" in api.refused(409, "conflict", "POST", f"{path}/shadows/other/promote")
    (left,) = api.post(f"{path}/shadows/apprentice/promote?force=true")["shadows"]
    assert (left["name"], left["compared"]) == ("other", 0)


def test_a_key_gives_the_same_decision_for_the_same_baseline_only(api: Api) -> None:
    path = api.new("LinUCB", apprentice=True)
    body = {"context": CONTEXT, "key": "k", "baseline": {"action": "a", "probability": 0.5}}
    assert api.post(f"{path}/decide", body) == api.post(f"{path}/decide", body)
    body["baseline"] = {"action": "b", "probability": 0.5}
    assert "with another baseline" in api.refused(409, "key_reused", "POST", f"{path}/decide", body)


def test_many_contexts_and_lines_have_a_baseline_each(api: Api) -> None:
    path = api.new("LinUCB", apprentice=True)
    body = {"contexts": [CONTEXT, CONTEXT], "baselines": [{"action": "a"}, {"action": "b", "probability": 0.5}]}
    made = api.post(f"{path}/decide", body)["decisions"]
    assert [(one["action"], one["probability"]) for one in made] == [("a", 1.0), ("b", 0.5)]
    lines = [{"context": CONTEXT, "baseline": {"action": "b"}}, {"context": CONTEXT}]
    first, second = api.lines(f"{path}/decide", *lines)
    assert first["action"] == "b"
    assert "expected baseline" in second["error"]["message"]


@pytest.mark.parametrize("kind", KINDS)
def test_both_clients_watch_and_promote(api: Api, kind: Any) -> None:
    made: Any = KINDS[kind]
    with made(api.url) as client:
        name = f"watched-{kind}"
        assert client.create(name, ["a", "b"], 2, policy="LinUCB", apprentice=True)["apprentice"]
        first = client.decide(name, CONTEXT, baseline="a")
        assert (first.action, first.probability) == ("a", 1.0)
        more = client.decide_many(name, [CONTEXT, CONTEXT], baselines=[("b", 0.25), "a"])
        assert [(one.action, one.probability) for one in more] == [("b", 0.25), ("a", 1.0)]
        with pytest.raises(Conflict, match="not shown to earn more"):
            client.promote(name, "apprentice")
        assert not client.promote(name, "apprentice", force=True)["apprentice"]
        with pytest.raises(TypeError, match="baseline must be an action"):
            client.decide(name, CONTEXT, baseline=("a", 0.5, 1))


def test_an_apprentice_survives_a_restart_of_the_service(tmp_path: Path) -> None:
    with running_api(tmp_path, *PATIENT) as api:
        path, other = (api.new("LinUCB", apprentice=True) for _ in range(2))
        watch_many(api, path, 30)
        waiting = api.post(f"{path}/decide", {"context": CONTEXT, "baseline": {"action": "b", "probability": 0.5}})
        api.post(f"{other}/shadows/apprentice/promote?force=true")
        before = apprentice(api, path)
    with running_api(tmp_path, *PATIENT) as api:
        assert apprentice(api, path) == before
        api.post(f"{path}/reward", {"decision": waiting["decision"], "reward": 1})
        assert apprentice(api, path)["compared"] == 31
        assert not api.get(other)["apprentice"]
        assert api.post(f"{other}/decide", {"context": CONTEXT})["decision"] == 1


def test_an_apprentice_decides_in_personalizers_api_by_the_first_action(api: Api) -> None:
    parameters = {"seed": 0, "reward_range": [-1, 1], "max_actions": 20}
    policy = {"name": "HybridLinUCB", "parameters": parameters}
    body = {"name": "loop", "actions": {}, "features": 8, "action_features": 6, "policy": policy, "apprentice": True}
    assert api.http.post("/v1/experiments", json=body).status_code == 201
    path, api_path = "/v1/experiments/loop", "/v1/experiments/loop/personalizer/v1.1-preview.3"
    actions = [{"id": name, "features": [{"name": name}]} for name in ("first", "second", "third")]
    for step in range(30):
        asked = {"actions": actions, "excludedActions": ["first"] if step % 3 == 0 else [], "eventId": str(step)}
        answer = api.http.post(f"{api_path}/rank", json=asked)
        assert answer.json()["rewardActionId"] == ("second" if step % 3 == 0 else "first")
        chances = {one["id"]: one["probability"] for one in answer.json()["ranking"]}
        assert chances[answer.json()["rewardActionId"]] == 1.0
        assert answer.json() == api.http.post(f"{api_path}/rank", json=asked).json()
        sent = api.http.post(f"{api_path}/events/{step}/reward", json={"value": 0.5})
        assert sent.status_code == 204
    slots = [{"id": "top", "baselineAction": "third"}, {"id": "side", "baselineAction": "first"}]
    for _ in range(2):
        asked = {"actions": actions, "slots": slots, "eventId": "page"}
        answer = api.http.post(f"{api_path}/multislot/rank", json=asked)
        assert [one["rewardActionId"] for one in answer.json()["slots"]] == ["third", "first"]
    shown = apprentice(api, path)
    assert (shown["decisions"], shown["compared"]) == (32, 30)
    api.post(f"{path}/shadows/apprentice/promote?force=true")
    ranked = {api.http.post(f"{api_path}/rank", json={"actions": actions}).json()["rewardActionId"] for _ in range(9)}
    assert ranked <= {"first", "second", "third"}
