"""Relevance, explanations, recorded decisions, exports, feed and model, over HTTP."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from service_api import Api, running_api
from typer.testing import CliRunner

import releaf
from releaf.cli import app

FEATURES = [
    {"name": "income", "kind": "quantile", "missing": True},
    {"name": "town", "kind": "categorical", "values": ["Ulm", "Bern", 3]},
    {"name": "smokes", "kind": "boolean"},
    {"name": "reward", "kind": "continuous", "low": 0, "high": 10},
]
STEPS = 120


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("service")) as api:
        yield api


def context_of(step: int) -> list[Any]:
    income = None if step % 11 == 0 else 9_007_199_254_740_993 if step == 5 else step * 7 % 50
    return [income, ["Ulm", "Bern", 3][step % 3], step % 2 == 0, step % 10]


def reward_of(step: int, action: str) -> float:
    return float((step % 3 == 0) == (action == "a"))


def lived(api: Api, policy: str, **further: Any) -> str:
    """An experiment with some decisions: every fourth reward has not come."""
    path = api.new(policy, features=FEATURES, **further)
    for step in range(STEPS):
        answer = api.post(f"{path}/decide", {"context": context_of(step)})
        if answer["wants_reward"] and step % 4:
            api.post(f"{path}/reward", {"decision": step + 1, "reward": reward_of(step, answer["action"])})
    return path


@pytest.fixture(scope="module")
def adaptive(api: Api) -> str:
    return lived(api, "AdaptiveReleaf")


@pytest.fixture(scope="module")
def original(api: Api) -> str:
    return lived(api, "Releaf")


@pytest.fixture(scope="module")
def linear(api: Api) -> str:
    return lived(api, "LinUCB")


# --- what was learnt ----------------------------------------------------------------------------------------


def test_relevance_equals_that_of_the_learner(api: Api, adaptive: str, original: str, linear: str) -> None:
    for path in (adaptive, original):
        told = api.get(f"{path}/relevance")
        assert told["relevance"] == releaf.from_bytes(api.model(path)).relevance().tolist()
        assert (told["actions"], told["features"]) == (["a", "b"], ["income", "town", "smokes", "reward"])
        assert told["meaning"].startswith("share")
    told = api.get(f"{linear}/relevance")
    assert told["relevance"] is None
    assert "LinUCB does not learn relevance" in told["meaning"]
    shares = api.get(f"{adaptive}/relevance")["relevance"][0]
    assert max(shares) == shares[1]  # the town decides


def test_effects_are_returned_if_the_learner_has_them(api: Api, adaptive: str, linear: str) -> None:
    effects = api.get(f"{adaptive}/partition/town")
    assert effects["kind"] == "effects"
    assert [one["where"] for one in effects["intervals"]] == ["Ulm", "Bern", "3"]
    assert api.get(f"{linear}/partition/town") == {"feature": "town", "kind": "none", "intervals": []}
    assert "income" in api.refused(404, "unknown_feature", "GET", f"{linear}/partition/nothing")


@pytest.mark.skipif(not hasattr(releaf.Releaf, "interval_rewards"), reason="this version of releaf can't tell them")
def test_partitions_equal_those_of_the_learner(api: Api, original: str) -> None:
    learner = releaf.from_bytes(api.model(original))
    for feature in ("income", "town", "smokes", "reward"):
        told = api.get(f"{original}/partition/{feature}")
        assert told["kind"] == "intervals"
        assert [one["arrivals"] for one in told["intervals"]] == [one.arrivals for one in learner.partition(feature)]
        counts = [[of["count"] for of in one["actions"]] for one in told["intervals"]]
        assert counts == [[int(count) for count, _ in row] for row in learner.interval_rewards(feature)]
    assert api.get(f"{original}/partition/income")["intervals"][-1]["where"] == "missing"


def test_features_with_any_name_are_found(api: Api) -> None:
    path = api.new(features=["a/b", "50 %", "ü?#"])
    for name, written in (("a/b", "a%2Fb"), ("50 %", "50%20%25"), ("ü?#", "%C3%BC%3F%23")):
        assert api.get(f"{path}/partition/{written}")["feature"] == name


def test_a_decision_is_explained(api: Api, adaptive: str, original: str, linear: str) -> None:
    for path in (adaptive, original, linear):
        for number in (1, STEPS // 2, STEPS):
            told = api.get(f"{path}/explain/{number}")
            (recorded,) = api.get(f"{path}/decisions", before=number + 1, limit=1)["decisions"]
            assert told["decision"] == recorded["decision"] == number
            assert (told["action"], told["explored"]) == (recorded["action"], recorded["explored"])
            assert told["action"] in told["explanation"]
        api.refused(404, "unknown_decision", "GET", f"{path}/explain/{STEPS + 1}")
    for wrong in ("0", "-1", "1.5", "x", "１", "9" * 30):
        api.refused(422, "invalid", "GET", f"{linear}/explain/{wrong}")


def test_a_preview_equals_the_next_decision_and_changes_nothing(
    api: Api, adaptive: str, original: str, linear: str
) -> None:
    for path in (adaptive, original, linear):
        before, info = api.model(path), api.get(path)
        told = api.post(f"{path}/preview", {"context": context_of(7)})
        assert told["decision"] is None
        assert api.model(path) == before
        assert api.get(path) == info
        own = releaf.from_bytes(before).decide(context_of(7))
        assert (told["action"], told["explored"], told["probability"]) == (own.action, own.explored, own.probability)
        api.refused(422, "invalid", "POST", f"{path}/preview", {"context": [1]})
        assert api.model(path) == before


# --- the log ------------------------------------------------------------------------------------------------


def all_decisions(api: Api, path: str, **query: Any) -> list[Any]:
    """Page after page."""
    found: list[Any] = []
    following: dict[str, Any] = {}
    while True:
        page = api.get(f"{path}/decisions", **query, **following)
        found += page["decisions"]
        if page["next"] is None:
            return found
        following = {"before": page["next"]}


def test_decisions_are_listed_page_by_page(api: Api, adaptive: str) -> None:
    everything = all_decisions(api, adaptive, limit=1000)
    assert [one["decision"] for one in everything] == list(range(STEPS, 0, -1))
    for limit in (1, 7, 40):
        assert all_decisions(api, adaptive, limit=limit) == everything
    assert len(api.get(f"{adaptive}/decisions")["decisions"]) == 50
    for one in everything:
        step = one["decision"] - 1
        assert list(one["context"].values()) == context_of(step)
        assert one["outcome"] == ("waiting" if step % 4 == 0 else "rewarded")
        assert one["reward"] == (None if step % 4 == 0 else reward_of(step, one["action"]))
        assert (one["rewarded_at"] is None) == (one["reward"] is None)


def test_every_filter_selects_the_matching_decisions(api: Api, adaptive: str) -> None:
    everything = all_decisions(api, adaptive, limit=1000)
    middle = everything[STEPS // 2]["at"]
    filters: list[tuple[dict[str, str], Any]] = [
        ({"action": "b"}, lambda one: one["action"] == "b"),
        ({"action": "nobody"}, lambda one: False),
        ({"explored": "true"}, lambda one: one["explored"]),
        ({"explored": "false"}, lambda one: not one["explored"]),
        ({"outcome": "waiting"}, lambda one: one["outcome"] == "waiting"),
        ({"outcome": "rewarded"}, lambda one: one["outcome"] == "rewarded"),
        ({"since": middle}, lambda one: one["at"] >= middle),
        ({"until": middle}, lambda one: one["at"] < middle),
        (
            {"action": "a", "outcome": "rewarded", "since": middle},
            lambda one: one["action"] == "a" and one["outcome"] == "rewarded" and one["at"] >= middle,
        ),
    ]
    for query, wanted in filters:
        expected = [one for one in everything if wanted(one)]
        for limit in (3, 1000):
            assert all_decisions(api, adaptive, limit=limit, **query) == expected


@pytest.mark.parametrize(
    "query",
    [
        *("limit=0", "limit=1001", "limit=x", "limit=-1", "limit=1.5", "limit=", "before=0", "before=x"),
        *("explored=yes", "explored=", "outcome=lost", "since=yesterday", "until=2026-13-01", "since=99999-01-01"),
        *("unknown=1", "limit=1&limit=2", "action=%ff", "limit=%EF%BC%91"),
    ],
)
def test_an_invalid_query_is_rejected(api: Api, adaptive: str, query: str) -> None:
    api.refused(422, "invalid", "GET", f"{adaptive}/decisions?{query}")


def test_csv_parquet_and_ndjson_exports_agree(api: Api, adaptive: str, tmp_path: Path) -> None:
    everything = all_decisions(api, adaptive, limit=1000)[::-1]
    lines = api.http.get(f"{adaptive}/export", params={"format": "ndjson"})
    assert [json.loads(line) for line in lines.text.splitlines()] == everything
    assert "attachment" in lines.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(api.http.get(f"{adaptive}/export").text)))
    content = api.http.get(f"{adaptive}/export", params={"format": "parquet"}).content
    table = pq.read_table(io.BytesIO(content)).to_pylist()
    assert len(rows) == len(table) == STEPS
    for one, row, record in zip(everything, rows, table, strict=True):
        assert row["decision"] == str(one["decision"])
        assert row["action"] == record["action"] == one["action"]
        assert row["town"] == record["town"] == str(one["context"]["town"])
        assert record["smokes"] is one["context"]["smokes"]
        assert record["income"] == (None if one["context"]["income"] is None else float(one["context"]["income"]))
        assert record["context.reward"] == one["context"]["reward"]
        assert record["reward"] == one["reward"]
        assert float(row["probability"]) == record["probability"] == one["probability"]
        assert record["at"].isoformat(timespec="milliseconds") == one["at"].replace("Z", "+00:00")
    api.refused(422, "invalid", "GET", f"{adaptive}/export?format=xls")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_learner_is_trained_on_an_exported_log(api: Api, tmp_path: Path, kind: str) -> None:
    path = api.new("EpsilonGreedy", features=["age", "dose"])
    for step in range(40):
        answer = api.post(f"{path}/decide", {"context": [step % 7 / 7, step % 5 / 5]})
        api.post(f"{path}/reward", {"decision": step + 1, "reward": float(answer["action"] == "a")})
    log, model = tmp_path / f"log.{kind}", tmp_path / "model.releaf"
    log.write_bytes(api.http.get(f"{path}/export", params={"format": kind}).content)
    ours = ("decision", "at", "probability", "explored", "wants_reward", "outcome", "rewarded_at")
    command = ["train", str(log), "--action", "action", "--reward", "reward", "--output", str(model)]
    done = CliRunner().invoke(app, command + [part for name in ours for part in ("--leave-out", name)])
    assert done.exit_code == 0, done.output
    learner = releaf.load(model)
    assert learner.schema.names == ("age", "dose")
    assert learner.steps == 40


def test_features_named_like_fixed_columns_get_a_prefix(api: Api) -> None:
    path = api.new("LinUCB", features=["decision", "context.decision", "at"])
    api.post(f"{path}/decide", {"context": [0.1, 0.2, 0.3]})
    (row,) = csv.DictReader(io.StringIO(api.http.get(f"{path}/export").text))
    table = pq.read_table(io.BytesIO(api.http.get(f"{path}/export", params={"format": "parquet"}).content))
    (record,) = table.to_pylist()
    assert row["decision"] == "1"
    assert record["decision"] == 1
    assert [value for value in record.values() if isinstance(value, float)][:3] == [0.1, 0.2, 0.3]


def test_an_empty_log_is_exported_too(api: Api) -> None:
    path = api.new()
    assert api.http.get(f"{path}/export").text.startswith("decision,at,x0,x1,action")
    content = api.http.get(f"{path}/export", params={"format": "parquet"}).content
    assert pq.read_table(io.BytesIO(content)).num_rows == 0
    assert api.get(f"{path}/decisions") == {"decisions": [], "next": None}
    assert api.get(f"{path}/series") == {"points": []}


def test_the_time_series_adds_up_to_the_log(api: Api) -> None:
    path = api.new("EpsilonGreedy")
    answers = api.post(f"{path}/decide", {"contexts": [[0.5, n / 700] for n in range(700)]})["decisions"]
    given = [{"decision": n, "reward": n % 5 / 4} for n in range(1, 701, 3)]
    api.post(f"{path}/reward", {"rewards": given})
    points = api.get(f"{path}/series")["points"]
    assert 100 <= len(points) <= 200
    for point in points:
        numbers = range(point["first"], point["first"] + point["decisions"])
        assert point["explored"] == sum(answers[n - 1]["explored"] for n in numbers)
        assert point["asked"] == sum(answers[n - 1]["wants_reward"] for n in numbers)
        here = [one["reward"] for one in given if one["decision"] in numbers]
        assert (point["rewards"], point["reward_sum"]) == (len(here), pytest.approx(sum(here)))
    assert sum(point["decisions"] for point in points) == 700


# --- the feed -----------------------------------------------------------------------------------------------


def test_the_feed_sends_decisions_and_rewards(api: Api) -> None:
    path = api.new("LinUCB", rewards={"within_seconds": 0.2})
    with api.http.stream("GET", f"{path}/feed") as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        told = stream.iter_lines()
        assert next(told) == ": watching"
        api.post(f"{path}/decide", {"contexts": [[0.1, 0.2], [0.3, 0.4]]})
        api.post(f"{path}/reward", {"decision": 1, "reward": 1})
        api.post(f"{path}/actions", {"action": "c"})
        events = [next_event(told) for _ in range(5)]
    assert [kind for kind, _ in events[:4]] == ["decision", "decision", "reward", "change"]
    assert events[0][1]["context"] == {"x0": 0.1, "x1": 0.2}
    assert events[0][1]["outcome"] == "waiting"
    assert events[2][1] == {"decision": 1, "reward": 1.0, "outcome": "rewarded"}
    assert events[4] == ("reward", {"decision": 2, "reward": None, "outcome": "dropped"})
    assert api.get(path)["counts"]["decisions"] == 2  # it goes on when nobody watches


def next_event(lines: Iterator[str]) -> tuple[str, Any]:
    kind = next(line for line in lines if line.startswith("event: "))
    return kind.removeprefix("event: "), json.loads(next(lines).removeprefix("data: "))


def test_responses_to_head_have_no_body(api: Api, adaptive: str) -> None:
    for path in ("", "/decisions", "/export", "/feed", "/model", "/series", "/relevance"):
        answer = api.http.head(adaptive + path)
        assert answer.status_code == 200
        assert answer.content == b""
    assert api.http.head("/v1/experiments/nobody").status_code == 404


def test_dates_are_decided_explained_and_exported(api: Api) -> None:
    when = {"name": "when", "kind": "datetime", "start": "2024-01-01", "end": "2024-12-31", "missing": True}
    path = api.new("AdaptiveReleaf", features=[when, "x"])
    assert "feature" in api.refused(
        422, "invalid", "POST", "/v1/experiments", {"name": "t", "actions": ["a"], "features": [{**when, "end": 3}]}
    )
    for context in ({"when": "2024-05-04T10:00:00Z", "x": 0.5}, {"when": "2041-01-01", "x": 0.1}, [None, 0.2]):
        decision = api.post(f"{path}/decide", {"context": context})
        api.post(f"{path}/reward", {"decision": decision["decision"], "reward": 1})
    features = api.get(f"{path}/relevance")["features"]
    assert features[:3] == ["when: trend", "when: weekday", "when: hour"]
    assert features[-1] == "x"
    weekdays = api.get(f"{path}/partition/when: weekday")["intervals"]
    assert [interval["where"] for interval in weekdays][:2] == ["Monday", "Tuesday"]
    assert api.get(f"{path}/partition/when: trend")["intervals"][0]["where"].startswith("20")
    assert all_decisions(api, path)[-1]["context"] == {"when": "2024-05-04T10:00:00Z", "x": 0.5}
    assert "'when' is 'soon': expected a date" in api.refused(
        422, "invalid", "POST", f"{path}/decide", {"context": ["soon", 0.5]}
    )
    content = api.http.get(f"{path}/export", params={"format": "parquet"}).content
    assert pq.read_table(io.BytesIO(content))["when"].to_pylist() == ["2024-05-04T10:00:00Z", "2041-01-01", None]
    described = api.get(path)["features"][0]
    assert releaf.Schema.from_dict([described]) == releaf.Schema.from_dict([when])


# --- series and summary -------------------------------------------------------------------------------------


def test_a_summary_tells_shares_means_and_lift_and_rejects_what_it_does_not_know(api: Api) -> None:
    path = api.new("EpsilonGreedy")
    answers = api.post(f"{path}/decide", {"contexts": [[0.5, 0.5]] * 400})["decisions"]
    rewards = [{"decision": one["decision"], "reward": float(one["action"] == "b")} for one in answers]
    api.post(f"{path}/reward", {"rewards": rewards})
    told = api.get(f"{path}/summary")
    assert [one["action"] for one in told["actions"]] == ["a", "b"]
    for one in told["actions"]:
        taken = sum(answer["action"] == one["action"] for answer in answers)
        assert (one["decisions"], one["share"]) == (taken, pytest.approx(taken / 400))
    assert (told["decisions"], told["rewards"], told["baseline"], told["markers"]) == (400, 400, "a", [])
    assert api.get(f"{path}/summary?since=2099-01-01")["decisions"] == 0
    assert api.get(f"{path}/series?limit=10")["points"][0]["actions"]
    for query, text in (
        ("summary?baseline=x", "baseline is 'x': expected an action of the experiment, such as a, b"),
        ("summary?since=soon", "since is 'soon': expected a time"),
        ("series?since=2026-02-01&until=2026-01-01", "expected a time after since"),
        ("series?limit=0", "limit is '0': expected a whole number from 1 to 200"),
    ):
        assert text in api.refused(422, "invalid", "GET", f"{path}/{query}")


def test_a_preview_has_the_distribution_of_the_actions(api: Api) -> None:
    path = api.new("EpsilonGreedy", parameters={"epsilon": 0.2})
    for _ in range(40):
        one = api.post(f"{path}/decide", {"context": [0.5, 0.5]})
        if one["wants_reward"]:
            api.post(f"{path}/reward", {"decision": one["decision"], "reward": float(one["action"] == "b")})
    before = api.get(path)["events"]
    told = api.post(f"{path}/preview", {"context": [0.5, 0.5]})
    assert told["draws"] == 400
    assert told["distribution"] == {"a": pytest.approx(0.1, abs=0.06), "b": pytest.approx(0.9, abs=0.06)}
    assert api.post(f"{path}/preview", {"context": [0.5, 0.5]})["distribution"] == told["distribution"]
    assert api.get(path)["events"] == before
