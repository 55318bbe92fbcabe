"""Rewards over HTTP: late, out of order, repeated, invalid, unasked and missing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from polling import wait_until
from service_api import Api, running_api

from releaf.service.errors import ApiError
from releaf.service.experiments.memory import read_limit, usable_memory
from releaf.service.experiments.pending_decisions import BYTES_EACH, PendingDecisions, default_limit
from releaf.service.messages import NewExperiment

CONTEXT = [0.25, 0.75]
SOON = 0.2  # seconds until a deadline


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("service")) as api:
        yield api


def decide(api: Api, path: str, count: int = 1) -> list[Any]:
    answers: list[Any] = api.post(f"{path}/decide", {"contexts": [CONTEXT] * count})["decisions"]
    return answers


def reward(api: Api, path: str, decision: int, value: Any) -> str:
    return str(api.post(f"{path}/reward", {"decision": decision, "reward": value})["status"])


def unchanged(api: Api, path: str) -> tuple[bytes, Any]:
    return api.model(path), api.get(path)["counts"]


def test_rewards_may_arrive_late_and_in_any_order(api: Api) -> None:
    path = api.new("LinUCB")
    decide(api, path, 5)
    assert [reward(api, path, number, number / 5) for number in (4, 1, 5, 2, 3)] == ["learnt"] * 5
    counts = api.get(path)["counts"]
    assert (counts["rewards"], counts["waiting"], counts["mean_reward"]) == (5, 0, pytest.approx(0.6))


def test_a_repeated_reward_changes_nothing_and_another_one_is_rejected(api: Api) -> None:
    path = api.new("LinUCB")
    decide(api, path)
    assert reward(api, path, 1, 0.5) == "learnt"
    before = unchanged(api, path)
    assert [reward(api, path, 1, value) for value in (0.5, 0.5)] == ["repeated"] * 2
    assert "0.5" in api.refused(409, "already_rewarded", "POST", f"{path}/reward", {"decision": 1, "reward": 0.75})
    assert unchanged(api, path) == before


def test_an_integer_reward_equals_the_same_float(api: Api) -> None:
    path = api.new("LinUCB")
    decide(api, path)
    answers = [
        api.http.post(
            f"{path}/reward",
            content=b'{"decision": 1, "reward": %s}' % one,
            headers={"Content-Type": "application/json"},
        ).json()["status"]
        for one in (b"1", b"1.0", b"1e0", b"10e-1")
    ]
    assert answers == ["learnt", "repeated", "repeated", "repeated"]


@pytest.mark.parametrize("number", [2, 99, 2**53])
def test_a_reward_for_an_unknown_decision_is_rejected(api: Api, number: int) -> None:
    path = api.new("LinUCB")
    decide(api, path)
    before = unchanged(api, path)
    api.refused(404, "unknown_decision", "POST", f"{path}/reward", {"decision": number, "reward": 1})
    assert unchanged(api, path) == before


def test_a_reward_for_a_decision_that_did_not_ask_is_rejected(api: Api) -> None:
    path = api.new("AdaptiveReleaf", parameters={"label_budget": 1})
    answers = [decide(api, path)[0] for _ in range(12)]
    unasked = next(one["decision"] for one in answers if not one["wants_reward"])
    before = unchanged(api, path)
    api.refused(409, "unasked", "POST", f"{path}/reward", {"decision": unasked, "reward": 1})
    assert unchanged(api, path) == before
    assert api.get(f"{path}/decisions", outcome="unasked")["decisions"][-1]["decision"] == unasked


BAD: dict[str, Any] = {
    "too high": {"decision": 1, "reward": 1.5},
    "too low": {"decision": 1, "reward": -0.1},
    "one for each": {"decision": 1, "reward": [0.5, 0.5]},
    "by name": {"decision": 1, "reward": {"a": 0.5, "b": 0.5}},
    "a text": {"decision": 1, "reward": "1"},
    "nothing": {"decision": 1, "reward": None},
    "a truth value": {"decision": 1, "reward": True},
    "too large for a number": {"decision": 1, "reward": 10**400},
    "no reward": {"decision": 1},
    "no decision": {"reward": 1},
    "decision 0": {"decision": 0, "reward": 1},
    "half a decision": {"decision": 1.5, "reward": 1},
    "a decision beyond": {"decision": 2**53 + 1, "reward": 1},
    "both": {"decision": 1, "reward": 1, "rewards": [{"decision": 1, "reward": 1}]},
    "neither": {},
    "no rewards": {"rewards": []},
    "a misspelt field": {"decision": 1, "reward": 1, "action": "a"},
}


@pytest.mark.parametrize("wrong", BAD)
def test_an_invalid_reward_is_rejected(api: Api, wrong: str) -> None:
    path = api.new("LinUCB")
    decide(api, path)
    before = unchanged(api, path)
    api.refused(422, "invalid", "POST", f"{path}/reward", BAD[wrong])
    assert unchanged(api, path) == before
    assert reward(api, path, 1, 1) == "learnt"


def test_many_rewards_are_learnt_all_or_none(api: Api) -> None:
    path = api.new("LinUCB")
    decide(api, path, 6)
    reward(api, path, 1, 0.5)
    before = unchanged(api, path)

    def all_of(*given: tuple[int, float]) -> dict[str, Any]:
        return {"rewards": [{"decision": number, "reward": value} for number, value in given]}

    for status, code, wrong in (
        (422, "invalid", (3, 1.5)),
        (404, "unknown_decision", (7, 1.0)),
        (409, "already_rewarded", (1, 0.75)),
        (409, "conflict", (2, 0.75)),
    ):
        api.refused(status, code, "POST", f"{path}/reward", all_of((2, 0.5), (4, 0.5), wrong))
        assert unchanged(api, path) == before
    learnt = api.post(f"{path}/reward", all_of((1, 0.5), (2, 0.5), (3, 0.5), (2, 0.5)))["rewards"]
    assert [one["status"] for one in learnt] == ["repeated", "learnt", "learnt", "repeated"]
    assert api.get(path)["counts"]["rewards"] == 3


def test_lines_of_rewards_are_learnt_each_by_itself(api: Api) -> None:
    path = api.new("LinUCB")
    decide(api, path, 3)
    lines = [
        {"decision": 1, "reward": 1},
        {"decision": 1, "reward": 1},
        {"decision": 2, "reward": 7},
        b"{broken",
        {"decision": 9, "reward": 1},
        {"rewards": []},
        {"decision": 3, "reward": 0},
        {"decision": 1, "reward": 0},
    ]
    told = [one.get("status") or one["error"]["code"] for one in api.lines(f"{path}/reward", *lines)]
    assert told[1:] == ["repeated", "invalid", "not_json", "unknown_decision", "invalid", "learnt", "already_rewarded"]
    assert told[0] == "learnt"
    assert api.get(path)["counts"]["rewards"] == 2


def test_of_concurrent_rewards_for_one_decision_one_is_learnt(api: Api) -> None:
    path = api.new("LinUCB")
    decide(api, path, 20)
    body = {"rewards": [{"decision": number, "reward": 0.5} for number in range(1, 21)]}
    with ThreadPoolExecutor(8) as pool:
        told = [one["rewards"] for one in pool.map(lambda _: api.post(f"{path}/reward", body), range(8))]
    for number in range(20):
        assert sorted(one[number]["status"] for one in told) == ["learnt"] + ["repeated"] * 7
    assert api.get(path)["counts"]["rewards"] == 20


def test_rewards_of_all_actions(api: Api) -> None:
    path = api.new("Releaf", actions=["a", 7], parameters={"observe": "all-actions"})
    decide(api, path, 4)
    assert reward(api, path, 1, {"a": 0.25, "7": 0.75}) == "learnt"
    assert reward(api, path, 1, [0.25, 0.75]) == "repeated"
    for wrong in (0.5, [0.5], {"a": 0.5}, {"a": 0.5, "b": 0.5}, {"a": 2, "7": 0}, [0.5, 0.5, 0.5]):
        api.refused(422, "invalid", "POST", f"{path}/reward", {"decision": 2, "reward": wrong})
    listed = api.get(f"{path}/decisions", outcome="rewarded")["decisions"]
    assert [one["reward"] for one in listed] == [[0.25, 0.75]]


def test_rewards_of_all_actions_where_one_was_retired_and_added_again(api: Api) -> None:
    path = api.new("Releaf", actions=["a", "b", "c"], parameters={"observe": "all-actions"})
    first = decide(api, path)[0]["action"]
    gone = next(action for action in ("a", "b", "c") if action != first)
    api.delete(f"{path}/actions/{gone}")
    api.post(f"{path}/actions", {"action": gone})
    stayed = {action: 0.5 for action in ("a", "b", "c") if action != gone}
    api.refused(422, "invalid", "POST", f"{path}/reward", {"decision": 1, "reward": stayed | {"nobody": 0.5}})
    assert reward(api, path, 1, stayed) == "learnt"
    assert api.get(path)["counts"]["mean_reward"] == 0.5


# --- deadlines ----------------------------------------------------------------------------------------------


def test_a_missing_reward_is_replaced_by_the_default(api: Api) -> None:
    path = api.new("LinUCB", rewards={"within_seconds": SOON, "default": 0.25})
    answers = decide(api, path, 3)
    assert all(
        one["deadline"] > one_recorded["at"]
        for one, one_recorded in zip(answers, reversed(api.get(f"{path}/decisions")["decisions"]), strict=True)
    )
    wait_until(lambda: api.get(path)["counts"]["waiting"] == 0)
    counts = api.get(path)["counts"]
    assert (counts["defaults"], counts["dropped"], counts["rewards"]) == (3, 0, 0)
    assert counts["mean_reward"] == 0.25
    before = unchanged(api, path)
    for value in (0.25, 1.0):
        message = api.refused(410, "too_late", "POST", f"{path}/reward", {"decision": 1, "reward": value})
        assert "0.25" in message
    assert unchanged(api, path) == before
    assert [one["reward"] for one in api.get(f"{path}/decisions", outcome="default")["decisions"]] == [0.25] * 3


def test_a_decision_without_a_reward_is_dropped_if_there_is_no_default(api: Api) -> None:
    path = api.new("LinUCB", rewards={"within_seconds": SOON})
    decide(api, path, 3)
    wait_until(lambda: api.get(path)["counts"]["waiting"] == 0)
    counts = api.get(path)["counts"]
    assert (counts["defaults"], counts["dropped"], counts["mean_reward"]) == (0, 3, None)
    api.refused(410, "too_late", "POST", f"{path}/reward", {"decision": 3, "reward": 1})
    assert {one["outcome"] for one in api.get(f"{path}/decisions")["decisions"]} == {"dropped"}


def test_the_default_for_all_actions_follows_changes_of_the_actions(api: Api) -> None:
    """A retired action needs none any more; where one was added, there is no default for it."""
    rules = {"within_seconds": SOON, "default": {"a": 0.1, "b": 0.2, "c": 0.3}}
    options: dict[str, Any] = {"actions": ["a", "b", "c"], "parameters": {"observe": "all-actions"}, "rewards": rules}
    fewer, more = api.new("Releaf", **options), api.new("Releaf", **options)
    api.delete(f"{fewer}/actions/a")
    api.post(f"{more}/actions", {"action": "d"})
    for path in (fewer, more):
        decide(api, path, 3)
        wait_until(lambda path=path: api.get(path)["counts"]["waiting"] == 0)  # type: ignore[misc]
    assert [one["reward"] for one in api.get(f"{fewer}/decisions")["decisions"]] == [[0.2, 0.3]] * 3
    assert {one["outcome"] for one in api.get(f"{more}/decisions")["decisions"]} == {"dropped"}
    assert decide(api, more)[0]["decision"] == 4


def test_decisions_beyond_the_limit_of_pending_ones_are_refused_and_none_is_forgotten(api: Api) -> None:
    path = api.new("LinUCB", parameters={"max_pending": 3})
    decide(api, path, 3)
    why = api.refused(503, "pending_limit", "POST", f"{path}/decide", {"context": [0.5, 0.5]})
    assert "3 decisions wait for their rewards, and 3 may" in why
    assert api.get(path)["counts"]["waiting"] == 3
    assert reward(api, path, 1, 1) == "learnt"
    assert decide(api, path)[0]["decision"] == 4
    assert [one["outcome"] for one in api.get(f"{path}/decisions")["decisions"]] == ["waiting"] * 3 + ["rewarded"]


def test_the_limit_of_pending_decisions_is_that_of_the_policy_in_charge_and_raises_an_alert(api: Api) -> None:
    path = api.new("LinUCB", parameters={"max_pending": 5})
    api.post(f"{path}/shadows", {"name": "larger", "policy": {"name": "LinUCB", "parameters": {"max_pending": 50}}})
    decide(api, path, 3)
    assert api.get(path)["alerts"] == []
    decide(api, path, 1)
    (alert,) = api.get(path)["alerts"]
    assert (alert["kind"], alert["severity"]) == ("pending_limit", "warning")
    assert "4 decisions wait for their rewards, and 5 may" in alert["text"]
    name = path.rpartition("/")[2]
    assert f'releaf_decisions_waiting_limit{{experiment="{name}"}} 5.0' in api.http.get("/metrics").text
    decide(api, path, 1)
    api.refused(503, "pending_limit", "POST", f"{path}/decide", {"context": [0.5, 0.5]})
    assert api.get(path)["alerts"][0]["severity"] == "critical"
    api.post(f"{path}/shadows/larger/promote?force=true")
    decide(api, path, 3)
    assert api.get(path)["alerts"] == []


def test_a_load_test_without_rewards_is_not_refused_while_there_is_memory(tmp_path: Path) -> None:
    file = tmp_path / "memory.max"
    file.write_text(f"{1 << 30}\n")
    assert read_limit(file) == 1 << 30
    file.write_text("max\n")
    assert read_limit(file) is None
    assert read_limit(tmp_path / "absent") is None
    assert default_limit() * BYTES_EACH <= max(usable_memory() / 8, 1_000_000 * BYTES_EACH)
    spec, pending = NewExperiment(name="x", actions=["a", "b"], features=1), PendingDecisions()
    pending.require_capacity_for(default_limit(), spec.policy)
    with pytest.raises(ApiError, match=f"and {default_limit():,} may"):
        pending.require_capacity_for(default_limit() + 1, spec.policy)
