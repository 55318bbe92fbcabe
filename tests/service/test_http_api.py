"""The HTTP API, served by a real process: experiments, decisions, rewards, actions and shadows."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from service_api import Api, running_api

import releaf
from releaf.service.http.routes import OPERATIONS

JSON = {"Content-Type": "application/json"}
LEAST = [0.25, 0.75]  # a context of two features


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("service")) as api:
        yield api


# --- experiments --------------------------------------------------------------------------------------------


def test_an_experiment_is_described_as_created(api: Api) -> None:
    path = api.new(actions=["wait", 7], features=["age", "dose"], rewards={"within_seconds": 60, "default": 0.5})
    info = api.get(path)
    assert info["status"] == "live"
    assert info["actions"] == ["wait", 7]
    assert [feature["name"] for feature in info["features"]] == ["age", "dose"]
    assert info["policy"] == {"name": "AdaptiveReleaf", "parameters": {"seed": 0}}
    assert info["rewards"] == {"within_seconds": 60, "default": 0.5, "signed": False}
    assert info["counts"]["decisions"] == 0
    assert info["counts"]["mean_reward"] is None
    assert info["name"] in [one["name"] for one in api.get("/v1/experiments")["experiments"]]


def test_a_missing_seed_is_drawn_and_returned(api: Api) -> None:
    path = api.new(policy="LinTS", parameters={"seed": None})
    assert api.get(path)["policy"]["parameters"]["seed"] >= 0


def test_the_name_of_an_experiment_can_be_used_once(api: Api) -> None:
    name = api.new().rsplit("/", 1)[1]
    body = {"name": name, "actions": ["a"], "features": 1}
    assert name in api.refused(409, "name_taken", "POST", "/v1/experiments", body)


def test_of_concurrent_creations_of_one_name_one_succeeds(api: Api) -> None:
    body = {"name": "race", "actions": ["a", "b"], "features": 2}
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: api.http.post("/v1/experiments", json=body).status_code, range(8)))
    assert sorted(statuses) == [201] + [409] * 7


BAD_EXPERIMENTS: dict[str, dict[str, Any]] = {
    "a name of dots": {"name": ".."},
    "a name with a slash": {"name": "a/b"},
    "a name that ends with a newline": {"name": "a\n"},
    "no name": {"name": ""},
    "a long name": {"name": "a" * 65},
    "no actions": {"actions": []},
    "an action twice": {"actions": ["a", "a"]},
    "actions that read alike": {"actions": [1, "1"]},
    "an action that addresses lose": {"actions": ["a", ".."]},
    "an action beyond 64 bits": {"actions": [2**70]},
    "an empty action": {"actions": [""]},
    "too many actions": {"actions": list(range(1001))},
    "no features": {"features": []},
    "zero features": {"features": 0},
    "too many features": {"features": 2001},
    "a feature twice": {"features": ["a", "a"]},
    "an unknown kind": {"features": [{"name": "a", "kind": "vague"}]},
    "a kind that is a list": {"features": [{"name": "a", "kind": []}]},
    "a feature without a kind": {"features": [{"name": "a"}]},
    "a feature with an unknown option": {"features": [{"name": "a", "kind": "boolean", "size": 3}]},
    "bounds that are none": {"features": [{"name": "a", "kind": "continuous", "low": 1, "high": 1}]},
    "endless bounds": {"features": [{"name": "a", "kind": "continuous", "low": -1e308, "high": 1e308}]},
    "a category twice": {"features": [{"name": "a", "kind": "categorical", "values": [1, 1]}]},
    "categories within categories": {"features": [{"name": "a", "kind": "categorical", "values": [[1]]}]},
    "a category beyond 64 bits": {"features": [{"name": "a", "kind": "categorical", "values": [2**70]}]},
    "a sample beyond memory": {"features": [{"name": "a", "kind": "quantile", "size": 2**40}]},
    "an unknown policy": {"policy": {"name": "Oracle"}},
    "an unknown parameter": {"policy": {"parameters": {"speed": 1}}},
    "actions as a parameter": {"policy": {"parameters": {"actions": 3}}},
    "a parameter out of range": {"policy": {"parameters": {"optimism": -1}}},
    "a parameter of another type": {"policy": {"parameters": {"seed": "x"}}},
    "a seed beyond 64 bits": {"policy": {"parameters": {"seed": 2**70}}},
    "too many tuples": {"features": 500, "policy": {"name": "Releaf", "parameters": {"gamma_rel": 3}}},
    "more waiting decisions than there is memory": {"policy": {"parameters": {"max_pending": 10**12}}},
    "a misspelt field": {"polici": {}},
    "a deadline that has passed": {"rewards": {"within_seconds": 0}},
    "a default without a deadline": {"rewards": {"default": 0.5}},
    "a default out of range": {"rewards": {"within_seconds": 1, "default": 2}},
    "a default for all actions": {"rewards": {"within_seconds": 1, "default": [0.5, 0.5]}},
    "a model that is none": {"model": "AAAA"},
    "a model that is not base64": {"model": "é"},
}


@pytest.mark.parametrize("wrong", BAD_EXPERIMENTS)
def test_an_invalid_experiment_is_rejected(api: Api, wrong: str) -> None:
    body = {"name": "nonsense", "actions": ["a", "b"], "features": 2} | BAD_EXPERIMENTS[wrong]
    code = "unknown_policy" if wrong == "an unknown policy" else "invalid"
    api.refused(422, code, "POST", "/v1/experiments", body)
    api.refused(404, "unknown_experiment", "GET", "/v1/experiments/nonsense")


def test_every_policy_decides_and_learns(api: Api) -> None:
    for policy in api.get("/v1/policies")["policies"]:
        assert policy["summary"]
        path = api.new(policy["name"], actions=["a", "b", "c"], features=3)
        for step in range(12):
            answer = api.post(f"{path}/decide", {"context": [step / 12, 0.5, 1 - step / 12]})
            assert answer["decision"] == step + 1
            assert answer["action"] in ("a", "b", "c")
            if answer["wants_reward"]:
                learnt = api.post(f"{path}/reward", {"decision": step + 1, "reward": float(answer["action"] == "a")})
                assert learnt == {"decision": step + 1, "status": "learnt"}
        counts = api.get(path)["counts"]
        assert counts["decisions"] == 12
        assert counts["rewards"] == counts["asked"]
        assert counts["waiting"] == 0


@pytest.mark.parametrize("policy", ["AdaptiveReleaf", "Releaf", "LinUCB", "LinTS", "EpsilonGreedy"])
def test_the_service_decides_like_a_local_learner(api: Api, policy: str) -> None:
    path = api.new(policy, parameters={"seed": 11}, features=["age", "dose"])
    home = getattr(releaf.policies, policy)(["a", "b"], ["age", "dose"], seed=11)
    for step in range(60):
        context = [step % 7 / 7, step % 5 / 5]
        own = home.decide(context)
        answer = api.post(f"{path}/decide", {"context": dict(zip(("age", "dose"), context, strict=True))})
        assert (answer["decision"], answer["action"], answer["explored"]) == (own.id, own.action, own.explored)
        assert answer["probability"] == own.probability
        assert answer["wants_reward"] == own.wants_reward
        if own.wants_reward:
            reward = float((context[0] > 0.5) == (own.action == "a"))
            home.learn(own, reward)
            api.post(f"{path}/reward", {"decision": own.id, "reward": reward})
    served_one = releaf.from_bytes(api.model(path))
    assert [served_one.decide([n / 9, 0.5]).action for n in range(10)] == [
        home.decide([n / 9, 0.5]).action for n in range(10)
    ]


def test_an_experiment_continues_from_an_uploaded_model(api: Api) -> None:
    home = releaf.LinUCB(["a", "b"], 2, seed=3)
    for step in range(50):
        choice = home.decide([step % 7 / 7, 0.5])
        home.learn(choice, float(choice.action == "b"))
    path = api.new(policy="LinUCB", model=base64.b64encode(home.to_bytes()).decode())
    assert api.model(path) == home.to_bytes()
    answer = api.post(f"{path}/decide", {"context": LEAST})
    own = home.decide(LEAST)
    assert (answer["decision"], answer["action"]) == (1, own.action)
    assert list(answer["estimates"].values()) == list(own.estimates or ())
    api.post(f"{path}/reward", {"decision": 1, "reward": 1.0})
    home.learn(own, 1.0)
    assert api.model(path) == home.to_bytes()


def test_an_experiment_has_the_policy_of_its_uploaded_model(api: Api) -> None:
    home = releaf.LinUCB(["a", "b"], 2, seed=3)
    path = api.new(model=base64.b64encode(home.to_bytes()).decode())
    assert api.get(path)["policy"]["name"] == "LinUCB"


def test_a_model_of_other_actions_or_features_is_rejected(api: Api) -> None:
    for home in (releaf.LinUCB(["a", "c"], 2, seed=3), releaf.LinUCB(["a", "b"], 3, seed=3)):
        model = base64.b64encode(home.to_bytes()).decode()
        body = {"name": "warm", "actions": ["a", "b"], "features": 2, "model": model}
        assert "the model has actions" in api.refused(422, "invalid", "POST", "/v1/experiments", body)


def test_a_retired_experiment_rejects_decisions_but_stays_readable(api: Api) -> None:
    path = api.new()
    api.post(f"{path}/decide", {"context": LEAST})
    assert api.delete(path)["status"] == "retired"
    assert api.delete(path)["status"] == "retired"
    api.refused(409, "retired", "POST", f"{path}/decide", {"context": LEAST})
    api.refused(409, "retired", "POST", f"{path}/actions", {"action": "c"})
    api.refused(409, "retired", "DELETE", f"{path}/actions/a")
    api.refused(409, "retired", "POST", f"{path}/shadows", {"name": "s", "policy": {"name": "LinUCB"}})
    assert api.post(f"{path}/reward", {"decision": 1, "reward": 1.0})["status"] == "learnt"
    assert len(api.get(f"{path}/decisions")["decisions"]) == 1
    (line,) = api.lines(f"{path}/decide", {"context": LEAST})
    assert line["error"]["code"] == "retired"


def test_every_operation_on_an_unknown_experiment_is_rejected(api: Api) -> None:
    bodies = {
        "decide": {"context": [1]},
        "reward": {"decision": 1, "reward": 1},
        "preview": {"context": [1]},
        "add_action": {"action": "a"},
        "add_shadow": {"name": "s", "policy": {"name": "LinUCB"}},
        "set_retention": {"contexts_days": 1},
        "erase_subject": {"subject": "s"},
        "observe": {"context": [1], "action": "a", "reward": 1},
        "discard": {"keys": ["k"]},
    }
    for operation in OPERATIONS:
        if "{experiment}" in operation.path:
            path = operation.path.replace("{experiment}", "nobody").replace(":path", "")
            for part in ("action", "feature", "decision", "shadow"):
                path = path.replace(f"{{{part}}}", "1")
            api.refused(404, "unknown_experiment", operation.method, path, bodies.get(operation.name))


# --- decisions ----------------------------------------------------------------------------------------------


def test_many_contexts_are_decided_in_order_and_as_one_by_one(api: Api) -> None:
    one, many = api.new("Releaf"), api.new("Releaf")
    contexts = [[n / 20, 1 - n / 20] for n in range(20)]
    single = [api.post(f"{one}/decide", {"context": context}) for context in contexts]
    assert api.post(f"{many}/decide", {"contexts": contexts})["decisions"] == single
    assert api.lines(f"{api.new('Releaf')}/decide", *({"context": context} for context in contexts)) == single


def test_a_batch_with_a_bad_context_decides_nothing(api: Api) -> None:
    path = api.new()
    before = api.model(path)
    message = api.refused(422, "invalid", "POST", f"{path}/decide", {"contexts": [LEAST, [0.5, 1.5], LEAST]})
    assert "1.5" in message
    assert api.model(path) == before
    assert api.get(path)["counts"]["decisions"] == 0


BAD_ASKS: dict[str, Any] = {
    "nothing": {},
    "both": {"context": LEAST, "contexts": [LEAST]},
    "no contexts": {"contexts": []},
    "too short": {"context": [0.5]},
    "too long": {"context": [0.5] * 3},
    "out of range": {"context": [0.5, 1.01]},
    "missing": {"context": [0.5, None]},
    "text": {"context": [0.5, "0.5"]},
    "nested": {"context": [0.5, [0.5]]},
    "an unknown feature": {"context": {"x0": 0.5, "x1": 0.5, "x2": 0.5}},
    "a feature lacks": {"context": {"x0": 0.5}},
    "a number": {"context": 5},
    "beyond 64 bits": {"context": [0.5, 2**70]},
    "keys for one": {"context": LEAST, "keys": ["a"]},
    "a key for many": {"contexts": [LEAST], "key": "a"},
    "too few keys": {"contexts": [LEAST, LEAST], "keys": ["a"]},
    "the same key twice": {"contexts": [LEAST, LEAST], "keys": ["a", "a"]},
    "an empty key": {"context": LEAST, "key": ""},
    "a long key": {"context": LEAST, "key": "k" * 201},
    "a misspelt field": {"contexte": LEAST},
    "a list": [LEAST],
    "a text": "context",
}


@pytest.mark.parametrize("wrong", BAD_ASKS)
def test_an_invalid_context_is_rejected(api: Api, wrong: str) -> None:
    path = api.new()
    api.refused(422, "invalid", "POST", f"{path}/decide", BAD_ASKS[wrong])
    assert api.get(path)["counts"]["decisions"] == 0


BROKEN = {
    "nothing": b"",
    "half": b'{"context": [0.5',
    "NaN": b'{"context": [NaN, 0.5]}',
    "Infinity": b'{"context": [Infinity, 0.5]}',
    "a lone surrogate": b'{"context": [0.5, 0.5], "key": "\\ud800"}',
    "no UTF-8": b'{"context": [0.5, 0.5], "key": "\xff"}',
    "UTF-16": '{"context": [0.5, 0.5]}'.encode("utf-16"),
    "more after the end": b'{"context": [0.5, 0.5]} x',
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_body_that_is_not_json_is_rejected(api: Api, broken: str) -> None:
    path = api.new()
    api.refused(400, "not_json", "POST", f"{path}/decide", content=BROKEN[broken], headers=JSON)
    answered = api.lines(f"{path}/decide", {"context": LEAST}, BROKEN[broken] or b"{", {"context": LEAST})
    assert [one.get("decision") for one in answered] == [1, None, 2]
    assert answered[1]["error"]["code"] == "not_json"


def test_a_deeply_nested_body_is_rejected(api: Api) -> None:
    path = api.new()
    for content in (b"[" * 1_000_000, b'{"context":' + b"[" * 1_000_000, b'{"a":' * 500_000):
        answer = api.http.post(f"{path}/decide", content=content, headers=JSON)
        assert answer.status_code in (400, 422), answer.text
    assert api.post(f"{path}/decide", {"context": LEAST})["decision"] == 1


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonp"])
def test_other_content_types_are_rejected(api: Api, kind: str) -> None:
    path = api.new()
    body = b'{"context": [0.5, 0.5]}'
    api.refused(415, "content_type", "POST", f"{path}/decide", content=body, headers={"Content-Type": kind})
    answer = api.http.post(f"{path}/decide", content=body, headers={"Content-Type": "Application/JSON; charset=utf-8"})
    assert answer.status_code == 200


def test_ndjson_is_for_decisions_and_rewards_only(api: Api) -> None:
    headers = {"Content-Type": "application/x-ndjson"}
    api.refused(415, "content_type", "POST", f"{api.new()}/preview", content=b'{"context": [1, 1]}', headers=headers)


def test_lines_are_decided_each_by_itself(api: Api) -> None:
    path = api.new()
    lines = [{"context": LEAST, "key": "k"}, {"context": [9, 9]}, b"", b"  ", {"contexts": [LEAST]}, {"context": LEAST}]
    answered = api.lines(f"{path}/decide", *lines)
    assert [one.get("decision") for one in answered] == [1, None, None, 2]
    errors = [one["error"] for one in answered if "error" in one]
    assert [(error["status"], error["code"]) for error in errors] == [(422, "invalid"), (422, "invalid")]
    again = api.lines(f"{path}/decide", {"context": LEAST, "key": "k"})
    assert again[0] == answered[0]


# --- lists ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["experiments", "policies"])
def test_lists_are_complete_or_page_by_page(api: Api, what: str) -> None:
    made = [api.new("Random").rsplit("/", 1)[1] for _ in range(5)]
    whole = api.get(f"/v1/{what}")
    assert whole["next"] is None
    names = [entry["name"] for entry in whole[what]]
    if what == "experiments":
        assert names[-5:] == made
    for limit in (1, 2, len(names) - 1, len(names), 1000):
        paged, query = [], {"limit": limit}
        while True:
            page = api.get(f"/v1/{what}", **query)
            assert 1 <= len(page[what]) <= limit
            paged += [entry["name"] for entry in page[what]]
            if page["next"] is None:
                break
            assert page["next"] == paged[-1]
            query = {"limit": limit, "after": page["next"]}
        assert paged == names
    assert api.get(f"/v1/{what}", after=names[-1]) == {what: [], "next": None}


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "1001"}, {"limit": "x"}, {"after": ""}, {"after": "?"}])
def test_invalid_pages_are_rejected(api: Api, query: dict[str, str]) -> None:
    for what in ("experiments", "policies"):
        (name,) = query
        assert api.refused(422, "invalid", "GET", f"/v1/{what}", params=query).startswith(f"{name} is ")


def test_an_invalid_idempotency_key_is_rejected_for_many_contexts_too(api: Api) -> None:
    path = api.new("Random")
    for body in ({"context": LEAST}, {"contexts": [LEAST]}):
        message = api.refused(422, "invalid", "POST", f"{path}/decide", body, headers={"Idempotency-Key": "k" * 201})
        assert message == "the Idempotency-Key header has 201 characters: expected 1 to 200"


# --- idempotency --------------------------------------------------------------------------------------------


def test_the_same_idempotency_key_gives_the_same_decision(api: Api) -> None:
    path = api.new("Random")
    first = api.post(f"{path}/decide", {"context": LEAST, "key": "visit 1"})
    api.post(f"{path}/decide", {"context": LEAST})
    assert api.post(f"{path}/decide", {"context": LEAST, "key": "visit 1"}) == first
    assert api.post(f"{path}/decide", {"context": LEAST}, **{"Idempotency-Key": "visit 1"}) == first
    by_name = {"x0": LEAST[0], "x1": LEAST[1]}
    assert api.post(f"{path}/decide", {"context": by_name, "key": "visit 1"}) == first
    message = api.refused(409, "key_reused", "POST", f"{path}/decide", {"context": [0, 0], "key": "visit 1"})
    assert "visit 1" in message
    assert api.get(path)["counts"]["decisions"] == 2


def test_idempotency_keys_of_a_batch_apply_to_each_context(api: Api) -> None:
    path = api.new("Random")
    first = api.post(f"{path}/decide", {"contexts": [LEAST, LEAST], "keys": ["k1", "k2"]})["decisions"]
    asked = {"contexts": [[0, 0], LEAST, LEAST], "keys": ["k3", "k2", "k1"]}
    second = api.post(f"{path}/decide", asked)["decisions"]
    assert second[1:] == first[::-1]
    assert second[0]["decision"] == 3
    wrong = {"contexts": [[1, 1], [1, 1]], "keys": ["k4", "k2"]}
    api.refused(409, "key_reused", "POST", f"{path}/decide", wrong)
    assert api.get(path)["counts"]["decisions"] == 3


def test_concurrent_requests_with_one_idempotency_key_make_one_decision(api: Api) -> None:
    path = api.new("Random")
    with ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(api.post, f"{path}/decide", {"context": LEAST, "key": "once"}) for _ in range(64)]
        answers = [one.result() for one in asked]
    assert answers == [answers[0]] * 64
    assert api.get(path)["counts"]["decisions"] == 1
    lines = api.lines(f"{path}/decide", *[{"context": LEAST, "key": "twice"}] * 20)
    assert lines == [lines[0]] * 20
    assert api.get(path)["counts"]["decisions"] == 2


# --- actions and shadows ------------------------------------------------------------------------------------


def test_actions_are_added_and_retired_while_decisions_are_pending(api: Api) -> None:
    path = api.new("EpsilonGreedy", actions=["a", "b"])
    answers = api.post(f"{path}/decide", {"contexts": [LEAST] * 30})["decisions"]
    of = {action: [one["decision"] for one in answers if one["action"] == action] for action in ("a", "b")}
    assert api.post(f"{path}/actions", {"action": "a/b c%?#ü"})["actions"] == ["a", "b", "a/b c%?#ü"]
    api.refused(409, "conflict", "POST", f"{path}/actions", {"action": "a"})
    assert api.delete(f"{path}/actions/b")["actions"] == ["a", "a/b c%?#ü"]
    assert api.get(path)["counts"]["dropped"] == len(of["b"]) > 0
    api.refused(410, "too_late", "POST", f"{path}/reward", {"decision": of["b"][0], "reward": 1})
    assert api.post(f"{path}/reward", {"decision": of["a"][0], "reward": 1})["status"] == "learnt"
    assert {one["outcome"] for one in api.get(f"{path}/decisions", action="b")["decisions"]} == {"dropped"}
    later = api.post(f"{path}/decide", {"contexts": [LEAST] * 30})["decisions"]
    assert {one["action"] for one in later} <= {"a", "a/b c%?#ü"}
    assert api.delete(f"{path}/actions/a%2Fb%20c%25%3F%23%C3%BC")["actions"] == ["a"]
    api.refused(404, "unknown_action", "DELETE", f"{path}/actions/b")
    assert "only one" in api.refused(409, "conflict", "DELETE", f"{path}/actions/a")
    assert api.get(f"{path}/explain/1")["action"] in ("a", "b")


@pytest.mark.parametrize("bad", ["", ".", "..", 2**63, 1.5, True, None, "x" * 201])
def test_an_invalid_action_is_rejected(api: Api, bad: Any) -> None:
    path = api.new()
    api.refused(422, "invalid", "POST", f"{path}/actions", {"action": bad})
    assert api.get(path)["actions"] == ["a", "b"]
    assert api.post(f"{path}/decide", {"context": LEAST})["decision"] == 1


def test_a_shadow_is_added_and_promoted(api: Api) -> None:
    path = api.new("EpsilonGreedy", parameters={"epsilon": 0.5})
    shadow = {"name": "rival", "policy": {"name": "LinUCB", "parameters": {"seed": 1}}}
    assert [one["name"] for one in api.post(f"{path}/shadows", shadow)["shadows"]] == ["rival"]
    api.refused(409, "name_taken", "POST", f"{path}/shadows", shadow)
    api.refused(409, "name_taken", "POST", f"{path}/shadows", shadow | {"name": "former"})
    api.refused(422, "unknown_policy", "POST", f"{path}/shadows", {"name": "s", "policy": {"name": "Oracle"}})
    for step in range(40):
        answer = api.post(f"{path}/decide", {"context": [step % 2, 0.5]})
        reward = float((step % 2 == 1) == (answer["action"] == "a"))
        api.post(f"{path}/reward", {"decision": answer["decision"], "reward": reward})
    (told,) = api.get(path)["shadows"]
    assert told["decisions"] == 40
    assert 0 < told["agreed"] < 40
    assert told["matched"] == told["agreed"]
    assert told["low"] <= told["value"] <= told["high"]
    assert "not shown to earn more" in api.refused(409, "not_shown", "POST", f"{path}/shadows/rival/promote")
    promoted = api.post(f"{path}/shadows/rival/promote?force=true")
    assert promoted["policy"]["name"] == "LinUCB"
    assert [(one["name"], one["policy"]["name"]) for one in promoted["shadows"]] == [("former", "EpsilonGreedy")]
    learner = releaf.from_bytes(api.model(path))
    assert learner.steps == 40
    assert api.post(f"{path}/decide", {"context": [0, 0.5]})["action"] == learner.decide([0, 0.5]).action
    assert api.delete(f"{path}/shadows/former")["shadows"] == []
    api.refused(404, "unknown_shadow", "DELETE", f"{path}/shadows/former")
    api.refused(404, "unknown_shadow", "POST", f"{path}/shadows/former/promote")


def test_a_shadow_that_learns_from_other_rewards_can_not_be_promoted(api: Api) -> None:
    path = api.new("LinUCB")
    every = {"name": "every", "policy": {"name": "Releaf", "parameters": {"observe": "all-actions"}}}
    api.post(f"{path}/shadows", every)
    assert "rewards of the action taken" in api.refused(409, "conflict", "POST", f"{path}/shadows/every/promote")


def test_the_number_of_shadows_is_bounded(api: Api) -> None:
    path = api.new("UCB1")
    for number in range(16):
        api.post(f"{path}/shadows", {"name": f"s{number}", "policy": {"name": "UCB1"}})
    assert "16" in api.refused(409, "conflict", "POST", f"{path}/shadows", {"name": "s", "policy": {"name": "UCB1"}})


@pytest.mark.parametrize(
    ("feature", "told"),
    [
        (
            {"name": "age", "kind": "number"},
            "'age' has the kind 'number': expected one of continuous, quantile, boolean, datetime, categorical",
        ),
        ({"name": "age", "kind": "categorical"}, "'age' is categorical and has no values: expected a list of them"),
        ({"name": "age", "kind": ["x"]}, "'age' has the kind ['x']"),
        ({"name": "age", "kind": "categorical", "values": ["a\u202eb"]}, "bidirectional control character U+202E"),
    ],
)
def test_an_invalid_feature_is_named_with_what_was_expected(api: Api, feature: Any, told: str) -> None:
    body = {"name": "invalid", "actions": ["a", "b"], "features": [feature]}
    assert told in api.refused(422, "invalid", "POST", "/v1/experiments", body)


def test_a_misspelt_parameter_is_answered_with_the_nearest_one(api: Api) -> None:
    policy = {"name": "AdaptiveReleaf", "parameters": {"least_prob": 0.1}}
    body = {"name": "invalid", "actions": ["a", "b"], "features": 1, "policy": policy}
    message = api.refused(422, "invalid", "POST", "/v1/experiments", body)
    assert message == "AdaptiveReleaf has no parameter 'least_prob': did you mean 'least_probability'?"


def test_a_policy_that_asks_for_no_rewards_takes_no_shadow(api: Api) -> None:
    path = api.new("Random")
    shadow = {"name": "s", "policy": {"name": "LinUCB", "parameters": {}}}
    message = api.refused(409, "conflict", "POST", f"{path}/shadows", shadow)
    assert "the policy in charge, Random, asks for no rewards" in message
