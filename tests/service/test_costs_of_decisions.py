"""Costs of actions over HTTP: answers, records, exports, spend, recovery, and both clients."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from client_kinds import KINDS
from polling import wait_until
from running_service import run_service
from service_api import Api, running_api

import releaf
from releaf.client import ServiceError
from releaf.service.log.events import ActionAdded, Decided, decode_page, encode_page

ACTIONS = ["small", "large", 7]
CONTEXT = [0.25, 0.75]
COST = {"small": 0.1, "large": 1.0, "7": 0.5}
EACH: dict[str, Any] = {"spend_budget": 4, "budget_period": 10}
FIXED: dict[str, Any] = {**EACH, "cost": [0.1, 1.0, 0.5]}
PATIENT = ("--write-timeout", "60")  # nothing here is about a slow disk


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("service"), *PATIENT) as api:
        yield api


@pytest.fixture
def path(api: Api) -> str:
    """An experiment that needs costs with each decision."""
    return api.new("LinUCB", actions=ACTIONS, parameters=EACH)


def test_a_decision_has_the_cost_of_its_action_by_name_or_in_order(api: Api, path: str) -> None:
    for cost in (COST, list(COST.values())):
        answer = api.post(f"{path}/decide", {"context": CONTEXT, "cost": cost})
        assert answer["cost"] == COST[str(answer["action"])]
    many = api.post(f"{path}/decide", {"contexts": [CONTEXT] * 2, "costs": [COST, [2.0, 2.0, 2.0]]})["decisions"]
    assert [answer["cost"] for answer in many] == [COST[str(many[0]["action"])], 2.0]
    same = api.post(f"{path}/decide", {"contexts": [CONTEXT] * 2, "cost": [0.2] * 3})["decisions"]
    assert [answer["cost"] for answer in same] == [0.2, 0.2]
    first, second = api.lines(f"{path}/decide", {"context": CONTEXT, "cost": [0.3] * 3}, {"context": CONTEXT})
    assert first["cost"] == 0.3
    assert "cost is missing" in second["error"]["message"]


def test_costs_of_a_request_take_the_place_of_fixed_ones(api: Api) -> None:
    path = api.new("LinUCB", actions=ACTIONS, parameters=FIXED)
    first, second, third = api.lines(
        f"{path}/decide", {"context": CONTEXT}, {"context": CONTEXT, "cost": [3.0] * 3}, {"context": CONTEXT}
    )
    assert (first["cost"], second["cost"], third["cost"]) == (
        COST[str(first["action"])],
        3.0,
        COST[str(third["action"])],
    )
    spend = api.get(path)["spend"]
    assert spend["spent"] == pytest.approx(first["cost"] + 3.0 + third["cost"])
    assert spend["mean_cost"] == pytest.approx(spend["spent"] / 3)
    assert (spend["budget"], spend["period"]) == (4.0, 10)
    assert spend["ahead"] == pytest.approx(spend["spent"] - 3 * 0.4)


def test_without_a_weight_or_a_budget_nothing_speaks_of_costs(api: Api) -> None:
    path = api.new("LinUCB", actions=ACTIONS)
    assert "cost" not in api.post(f"{path}/decide", {"context": CONTEXT})
    assert api.get(path)["spend"] is None


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"context": CONTEXT}, "cost is missing: LinUCB weighs costs here and has no fixed ones"),
        ({"contexts": [CONTEXT]}, "cost is missing"),
        ({"context": CONTEXT, "cost": {"small": 1, "large": 2}}, "cost lacks [7]"),
        ({"context": CONTEXT, "cost": {**COST, "x": 1}}, "cost names an unknown action 'x'"),
        ({"context": CONTEXT, "cost": [1, 2]}, "cost has 2 values: expected one for each of"),
        ({"context": CONTEXT, "cost": [1, 2, -3]}, "cost of 7 must be a number from 0 to 1e+12, got -3"),
        ({"context": CONTEXT, "cost": 3}, "Expected `object | array | null`, got `int`"),
        ({"context": CONTEXT, "cost": [1, 2, "x"]}, "Expected `float`, got `str`"),
        ({"context": CONTEXT, "costs": [COST]}, "costs go with contexts; expected cost"),
        ({"contexts": [CONTEXT] * 2, "costs": [COST]}, "got 1 costs for 2 contexts: expected one for each"),
        ({"contexts": [CONTEXT] * 2, "costs": [COST, [1]]}, "cost of row 1 has 1 values"),
        ({"contexts": [CONTEXT], "cost": COST, "costs": [COST]}, "expected either cost, for all contexts, or costs"),
    ],
    ids=str,
)
def test_invalid_costs_are_refused_and_change_nothing(api: Api, path: str, body: Any, text: str) -> None:
    before = api.model(path)
    assert text in api.refused(422, "invalid", "POST", f"{path}/decide", body)
    assert (api.model(path), api.get(path)["counts"]["decisions"]) == (before, 0)


def test_a_policy_that_weighs_no_costs_refuses_them(api: Api) -> None:
    for policy in ("LinUCB", "Releaf"):
        path = api.new(policy, actions=ACTIONS)
        text = api.refused(422, "invalid", "POST", f"{path}/decide", {"context": CONTEXT, "cost": COST})
        assert text.startswith(f"{policy} weighs no costs here: expected no cost")


def test_a_key_stands_for_a_context_and_its_costs(api: Api, path: str) -> None:
    body = {"context": CONTEXT, "cost": COST, "key": "one"}
    answer = api.post(f"{path}/decide", body)
    assert api.post(f"{path}/decide", body) == answer
    assert api.post(f"{path}/decide", {**body, "cost": list(COST.values())}) == answer
    assert api.get(path)["spend"]["spent"] == answer["cost"]
    text = api.refused(409, "key_reused", "POST", f"{path}/decide", {**body, "cost": [1, 2, 3]})
    assert text == "key 'one' was used with other costs: use another key"


def test_records_and_exports_have_the_costs(api: Api) -> None:
    path = api.new("LinUCB", actions=ACTIONS, parameters=FIXED)
    first = api.post(f"{path}/decide", {"context": CONTEXT})
    api.post(f"{path}/decide", {"context": CONTEXT, "cost": [0.25] * 3})
    records = api.get(f"{path}/decisions")["decisions"]
    assert [(record["cost"], record["costs"]) for record in records] == [(0.25, [0.25] * 3), (first["cost"], None)]
    rows = list(csv.DictReader(io.StringIO(api.http.get(f"{path}/export").text)))
    assert [(float(row["cost"]), row["costs"]) for row in rows] == [(first["cost"], ""), (0.25, "0.25|0.25|0.25")]
    lines = api.http.get(f"{path}/export", params={"format": "ndjson"}).text.splitlines()
    assert [json.loads(line)["cost"] for line in lines] == [first["cost"], 0.25]
    table = pq.read_table(io.BytesIO(api.http.get(f"{path}/export", params={"format": "parquet"}).content))
    assert table["cost"].to_pylist() == [first["cost"], 0.25]
    assert table["costs"].to_pylist() == [None, [0.25] * 3]


def test_exports_without_costs_have_no_columns_for_them(api: Api) -> None:
    path = api.new("LinUCB", actions=ACTIONS)
    api.post(f"{path}/decide", {"context": CONTEXT})
    (row,) = csv.DictReader(io.StringIO(api.http.get(f"{path}/export").text))
    assert "cost" not in row


@pytest.mark.parametrize("policy", ["AdaptiveReleaf", "LinTS"])
def test_explanations_and_previews_take_the_costs_of_the_decision(api: Api, policy: str) -> None:
    path = api.new(policy, actions=ACTIONS, parameters={"cost_weight": 1.0})
    made = api.post(f"{path}/decide", {"context": CONTEXT, "cost": [9.0, 0.0, 9.0]})
    assert made["action"] == "large"
    seen = api.post(f"{path}/preview", {"context": CONTEXT, "cost": [0.0, 9.0, 9.0]})
    assert (seen["action"], seen["distribution"]["small"]) == ("small", 1.0)
    assert "cost is missing" in api.refused(422, "invalid", "POST", f"{path}/preview", {"context": CONTEXT})
    info = api.get(f"{path}/explain/1")
    assert info["action"] == "large"
    if policy == "AdaptiveReleaf":
        assert {one["action"]: one["cost"] for one in info["details"]["actions"]} == {
            "small": 9.0,
            "large": 0.0,
            7: 9.0,
        }


# --- changes --------------------------------------------------------------------------------------------------------


def shadow_of(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "policy": {"name": "LinTS", "parameters": {"seed": 1, **parameters}}}


def test_shadows_weigh_the_same_costs_and_take_charge_only_if_requests_suit_them(api: Api, path: str) -> None:
    api.post(f"{path}/shadows", shadow_of("each", {"cost_weight": 0.5}))
    api.post(f"{path}/shadows", shadow_of("fixed", {"cost_weight": 0.5, "cost": [1, 2, 3]}))
    api.post(f"{path}/shadows", shadow_of("blind", {}))
    api.post(f"{path}/decide", {"context": CONTEXT, "cost": COST})
    text = api.refused(409, "conflict", "POST", f"{path}/shadows/blind/promote")
    assert "it weighs no costs" in text
    text = api.refused(409, "conflict", "POST", f"{path}/shadows/fixed/promote")
    assert "it has fixed costs, but the policy in charge needs them with each decision" in text
    api.post(f"{path}/shadows/each/promote?force=true")
    assert api.post(f"{path}/decide", {"context": CONTEXT, "cost": COST})["cost"] is not None
    free = api.new("LinUCB", actions=ACTIONS, parameters=FIXED)
    text = api.refused(409, "conflict", "POST", f"{free}/shadows", shadow_of("each", {"cost_weight": 0.5}))
    assert "the shadow needs costs with each decision" in text


def test_an_action_is_added_with_its_cost(api: Api) -> None:
    path = api.new("LinUCB", actions=ACTIONS, parameters=FIXED)
    api.post(f"{path}/shadows", shadow_of("blind", {}))
    text = api.refused(409, "conflict", "POST", f"{path}/actions", {"action": "new"})
    assert "the new action 'new' needs a cost" in text
    assert api.post(f"{path}/actions", {"action": "new", "cost": 0.0})["actions"] == [*ACTIONS, "new"]
    answer = api.post(f"{path}/decide", {"context": CONTEXT, "eligible": ["new"]})
    assert answer["cost"] == 0.0
    free = api.new("LinUCB", actions=ACTIONS)
    text = api.refused(422, "invalid", "POST", f"{free}/actions", {"action": "new", "cost": 1.0})
    assert text == "action 'new' has a cost, but actions of this experiment have no fixed costs"


def test_fixed_costs_by_name_are_taken(api: Api) -> None:
    path = api.new("LinUCB", parameters={"cost": {"a": 0.5, "b": 1.5}, "cost_weight": 0.0})
    answer = api.post(f"{path}/decide", {"context": CONTEXT})
    assert answer["cost"] == {"a": 0.5, "b": 1.5}[answer["action"]]


# --- replay -----------------------------------------------------------------------------------------------------------


def wait_until_ready(api: Api) -> None:
    wait_until(lambda: api.http.get("/readyz").status_code == 200)


@pytest.mark.parametrize("policy", ["AdaptiveReleaf", "LinUCB"])
def test_after_a_restart_the_learner_and_its_spend_are_the_same_bit_for_bit(tmp_path: Path, policy: str) -> None:
    draw = np.random.default_rng(4)
    with running_api(tmp_path, *PATIENT) as api:
        path = api.new(policy, actions=ACTIONS, parameters=EACH)
        api.post(f"{path}/shadows", shadow_of("other", {"spend_budget": 3, "budget_period": 10}))
        spent = 0.0
        for step in range(40):
            costs = (draw.random(3) * [0.2, 2.0, 1.0]).tolist()
            if step % 4:
                answers = [api.post(f"{path}/decide", {"context": [step % 10 / 10, 0.5], "cost": costs})]
            else:
                body = {"contexts": [[0.1, 0.2], [0.3, 0.4]], "costs": [costs, costs[::-1]]}
                answers = api.post(f"{path}/decide", body)["decisions"]
            spent += sum(answer["cost"] for answer in answers)
            for answer in answers[: step % 3]:
                api.post(f"{path}/reward", {"decision": answer["decision"], "reward": step % 2})
        before, spend = api.model(path), api.get(path)["spend"]
    assert spend["spent"] == pytest.approx(spent)
    assert spend["ahead"] < EACH["spend_budget"]
    with running_api(tmp_path, *PATIENT) as api:
        wait_until_ready(api)
        assert (api.model(path), api.get(path)["spend"]) == (before, spend)
    learner = releaf.from_bytes(before)
    assert (learner.spent, learner.cost_weight) == (pytest.approx(spent), spend["cost_weight"])


def test_logs_of_earlier_versions_are_read() -> None:
    decided = Decided(1.0, 1, [0.5], "wait", 1.0, False, True, None, None, None, None)
    added = ActionAdded(1.0, "new", None)
    fields = msgspec.msgpack.decode(encode_page([decided, added]))
    assert (fields[0][-3:], fields[1][-1]) == ([None, None, False], None)  # group, label_cost, observed
    earlier = msgspec.msgpack.encode([fields[0][:-3], fields[1][:-1]])
    assert decode_page(earlier) == [decided, added]


# --- figures ----------------------------------------------------------------------------------------------------------


def test_summary_series_metrics_and_an_alert_show_the_spend(api: Api) -> None:
    path = api.new("LinUCB", actions=ACTIONS, parameters={**EACH, "cost": [3.0, 3.0, 3.0]})
    name = path.rsplit("/", 1)[1]
    for _ in range(4):
        api.post(f"{path}/decide", {"context": CONTEXT})
    summary = api.get(f"{path}/summary")
    assert (summary["spent"], summary["mean_cost"]) == (12.0, 3.0)
    assert sum(point["spent"] for point in api.get(f"{path}/series")["points"]) == 12.0
    text = api.http.get("/metrics").text
    for metric, value in (("releaf_spend_total", 12.0), ("releaf_spend_budget", 4.0), ("releaf_spend_ahead", 10.4)):
        (line,) = re.findall(rf'{metric}{{experiment="{name}"}} (.*)', text)
        assert float(line) == pytest.approx(value)
    (alert,) = [one for one in api.get(path)["alerts"] if one["kind"] == "spend_budget"]
    assert alert["severity"] == "critical"
    assert "10.4 ahead of its allowance, more than the budget of 4 per 10 decisions" in alert["text"]
    assert f'releaf_alerts{{experiment="{name}",kind="spend_budget"}} 1.0' in text


# --- clients ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_both_clients_send_costs(tmp_path: Path, kind: Any) -> None:
    made: Any = KINDS[kind]
    with run_service(tmp_path, *PATIENT) as url, made(url) as client:
        client.create("shop", ACTIONS, 2, policy="LinUCB", parameters=EACH)
        by_name = {"small": 0.1, "large": 1.0, 7: np.float64(0.5)}
        one = client.decide("shop", CONTEXT, cost=by_name)
        assert one.cost == by_name[one.action]
        assert client.decide("shop", CONTEXT, cost=np.array([0.5, 0.5, 0.5])).cost == 0.5
        assert [made.cost for made in client.decide_many("shop", [CONTEXT] * 2, cost=[0.1] * 3)] == [0.1, 0.1]
        each = client.decide_many("shop", [CONTEXT] * 2, costs=np.array([[0.1] * 3, [0.2] * 3]))
        assert [made.cost for made in each] == [0.1, 0.2]
        assert [made.cost for made in client.decide_stream("shop", [CONTEXT] * 2, cost=[0.3] * 3)] == [0.3, 0.3]
        assert client.preview("shop", CONTEXT, cost=by_name)["action"] in ACTIONS
        with pytest.raises(ServiceError, match="cost has 2 values"):
            client.decide("shop", CONTEXT, cost=[1, 2])
        with pytest.raises(TypeError, match="cost must be a mapping from actions to costs, or one cost for each"):
            client.decide("shop", CONTEXT, cost=3)
        with pytest.raises(ValueError, match="costs has 1 entries, contexts has 2: expected one cost for each"):
            client.decide_many("shop", [CONTEXT] * 2, costs=[by_name])
        client.create("priced", ACTIONS, 2, policy="LinUCB", parameters=FIXED)
        assert client.add_action("priced", "new", cost=0.0)["actions"][-1] == "new"
