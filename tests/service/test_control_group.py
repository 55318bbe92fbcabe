"""Control groups over HTTP: answers, records, exports, the lift, promotion, recovery, and both clients."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from client_kinds import KINDS
from polling import wait_until
from service_api import Api, running_api

import releaf

ACTIONS = ["wait", "treat", "call"]
CONTROLLED = {"control_share": 0.4, "control": "wait"}
PATIENT = ("--write-timeout", "60")  # nothing here is about a slow disk


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("service"), *PATIENT) as api:
        yield api


def wait_until_ready(api: Api) -> None:
    wait_until(lambda: api.http.get("/readyz").status_code == 200)


def decided(api: Api, path: str, steps: int, start: int = 0) -> list[dict[str, Any]]:
    """Decide and reward; "treat" alone earns something."""
    answers = []
    for step in range(start, start + steps):
        answer = api.post(f"{path}/decide", {"context": [step % 7 / 7, step % 5 / 5]})
        reward = {"decision": answer["decision"], "reward": float(answer["action"] == "treat")}
        api.post(f"{path}/reward", reward)
        answers.append(answer)
    return answers


@pytest.mark.parametrize("policy", ["AdaptiveReleaf", "LinUCB", "EpsilonGreedy"])
def test_the_lift_over_control_is_that_of_the_library(api: Api, policy: str) -> None:
    path = api.new(policy, actions=ACTIONS, parameters=CONTROLLED)
    answers = decided(api, path, 150)
    twin = getattr(releaf, policy)(ACTIONS, 2, seed=0, **CONTROLLED)
    for step, answer in enumerate(answers):
        choice = twin.decide([step % 7 / 7, step % 5 / 5])
        assert (answer["action"], answer["group"]) == (choice.action, choice.group)
        assert answer["probability"] == choice.probability
        twin.learn(choice, float(choice.action == "treat"))
    found, lift = api.get(path)["control"], twin.lift()
    assert (found["share"], found["control"]) == (0.4, "wait")
    assert (found["learner_rewards"], found["control_rewards"]) == (lift.learner_rewards, lift.control_rewards)
    assert (found["lift"], found["lift_low"], found["lift_high"]) == (lift.difference, lift.lower, lift.upper)
    assert (found["learner_mean"], found["control_mean"]) == (lift.learner_mean, lift.control_mean)
    assert found["control_mean"] == 0.0


def test_records_exports_and_explanations_have_the_group(api: Api) -> None:
    path = api.new("LinUCB", actions=ACTIONS, parameters=CONTROLLED)
    groups = [answer["group"] for answer in decided(api, path, 20)]
    assert set(groups) == {"learner", "control"}
    assert [record["group"] for record in api.get(f"{path}/decisions")["decisions"]] == groups[::-1]
    rows = list(csv.DictReader(io.StringIO(api.http.get(f"{path}/export").text)))
    assert [row["group"] for row in rows] == groups
    lines = api.http.get(f"{path}/export", params={"format": "ndjson"}).text.splitlines()
    assert [json.loads(line)["group"] for line in lines] == groups
    table = pq.read_table(io.BytesIO(api.http.get(f"{path}/export", params={"format": "parquet"}).content))
    assert table["group"].to_pylist() == groups
    assert "as the control group does" in api.get(f"{path}/explain/{groups.index('control') + 1}")["explanation"]


def test_an_experiment_without_a_control_group_is_as_before(api: Api) -> None:
    path = api.new("LinUCB", actions=ACTIONS)
    answers = decided(api, path, 3)
    assert "group" not in answers[0]
    assert api.get(path)["control"] is None
    assert api.get(f"{path}/decisions")["decisions"][0]["group"] is None
    assert "group" not in api.http.get(f"{path}/export").text.splitlines()[0]


@pytest.mark.parametrize(
    ("policy", "parameters", "text"),
    [
        ("LinUCB", {"control_share": 1.0}, "LinUCB can't be built: control_share must be a number of at least 0 below"),
        ("LinUCB", {"control_share": "0.1"}, "control_share must be a number of at least 0 below 1"),
        ("LinUCB", {"control_share": 0.1, "control": "x"}, "control must be 'uniform' or the name of an action"),
        ("LinUCB", {"control_share": 0.1, "control": None}, "an action's name must be text, a number or a boolean"),
        ("Random", {"control_share": 0.1}, "Random has no parameter 'control_share'"),
        ("Releaf", {"control_share": 0.1}, "needs a learner that learns the reward of every decision"),
        (
            "AdaptiveReleaf",
            {"control_share": 0.1, "label_budget": 9},
            "needs a learner that learns the reward of every",
        ),
    ],
    ids=str,
)
def test_an_invalid_control_group_is_refused(api: Api, policy: str, parameters: Any, text: str) -> None:
    body = {"name": "bad", "actions": ACTIONS, "features": 2, "policy": {"name": policy, "parameters": parameters}}
    assert text in api.refused(422, "invalid", "POST", "/v1/experiments", body)


def test_a_promoted_shadow_starts_its_lift_with_its_own_decisions(api: Api) -> None:
    path = api.new("LinUCB", actions=ACTIONS)
    shadow = {"name": "new", "policy": {"name": "LinUCB", "parameters": {"seed": 4, **CONTROLLED}}}
    api.post(f"{path}/shadows", shadow)
    decided(api, path, 30)
    late = api.post(f"{path}/decide", {"context": [0.5, 0.5]})
    api.post(f"{path}/shadows/new/promote?force=true")
    api.post(f"{path}/reward", {"decision": late["decision"], "reward": 1.0})
    found = api.get(path)["control"]
    assert (found["learner_rewards"], found["control_rewards"], found["lift"]) == (0, 0, None)
    decided(api, path, 30)
    found = api.get(path)["control"]
    assert found["learner_rewards"] + found["control_rewards"] == 30


def test_decisions_at_the_floor_count_with_the_share_of_control(api: Api) -> None:
    """A floor of 0.1 and a uniform share of 0.4 make the least propensity 0.6 · 0.1 + 0.4 / 3."""
    path = api.new("AdaptiveReleaf", actions=ACTIONS, parameters={"control_share": 0.4, "least_probability": 0.1})
    answers = decided(api, path, 200)
    least = 0.6 * 0.1 + 0.4 / 3
    assert min(answer["probability"] for answer in answers) == pytest.approx(least)
    floored = sum(math.isclose(answer["probability"], least) for answer in answers)
    summary = api.get(f"{path}/summary")
    assert floored > 0
    assert sum(one["at_floor"] * one["decisions"] for one in summary["actions"]) == pytest.approx(floored)


def test_after_a_restart_groups_and_lift_are_the_same(tmp_path: Path) -> None:
    models, found = [], []
    for start in range(2):
        with running_api(tmp_path, *PATIENT) as api:
            wait_until_ready(api)
            if not start:
                path = api.new("AdaptiveReleaf", actions=ACTIONS, parameters=CONTROLLED)
                decided(api, path, 60)
            models.append(api.model(path))
            found.append(api.get(path)["control"])
            groups = [record["group"] for record in api.get(f"{path}/decisions")["decisions"]]
            assert {*groups} == {"learner", "control"}
            if start:
                assert decided(api, path, 1)[0]["decision"] == 61
    assert models[0] == models[1]
    assert found[0] == found[1]


def test_actions_that_come_with_requests_have_groups_and_slates_are_refused(api: Api) -> None:
    policy = {"name": "JointReleaf", "parameters": {"seed": 0, "control_share": 0.5}}
    body = {"name": "offers", "actions": {}, "features": 2, "action_features": ["sweet"], "policy": policy}
    assert api.http.post("/v1/experiments", json=body).status_code == 201
    path, asked = "/v1/experiments/offers", {"context": [0.5, 0.5], "actions": {"tea": [0.1], "cola": [0.9]}}
    answers = [api.post(f"{path}/decide", asked) for _ in range(20)]
    assert {answer["group"] for answer in answers} == {"learner", "control"}
    text = api.refused(422, "invalid", "POST", f"{path}/decide", {**asked, "k": 2})
    assert "a slate can't be decided with control_share=0.5" in text


@pytest.mark.parametrize("kind", KINDS)
def test_clients_create_and_read_a_control_group(api: Api, kind: str) -> None:
    made: Any = KINDS[kind]
    with made(api.url) as client:
        name = f"of-{kind}"
        client.create(name, ACTIONS, 2, policy="LinUCB", parameters={"seed": 1, **CONTROLLED})
        decisions = client.decide_many(name, [[0.1, 0.2]] * 20)
        assert {decision.group for decision in decisions} == {"learner", "control"}
        assert client.decide(name, [0.1, 0.2]).group in ("learner", "control")
        client.create(f"{name}-without", ACTIONS, 2, policy="LinUCB")
        assert client.decide(f"{name}-without", [0.1, 0.2]).group is None
