"""The generated click log, and the paper's webpage recommendations on it."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import releaf
from releaf import streams
from releaf.evaluate import Ledger, Run, execute, runs
from releaf.paper import EXPERIMENTS, Picture
from releaf.paper.relevance import PAGES
from releaf.paper.webpages import BEST, POLICIES, expected_rate, open_bandit_outcome
from releaf.report.picture_charts import average_runs, chart
from releaf.statistics import t_half_width
from releaf.streams.clicks import CLICK_RELEVANCE, click_rates

WEBPAGES = EXPERIMENTS["webpages"]


@pytest.fixture
def no_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with nothing in it, and no stream in memory from another one."""
    runs._cached_stream.cache_clear()
    monkeypatch.setenv("RELEAF_DATA", str(tmp_path))
    monkeypatch.setenv("RELEAF_CACHE", str(tmp_path))
    return tmp_path


def results_of(tried: list[Run]) -> dict[str, list[Ledger]]:
    found: dict[str, list[Ledger]] = {}
    for run in tried:
        found.setdefault(run.label, []).append(execute(run))
    return found


# --- the stream -----------------------------------------------------------------------------------------------


def test_users_have_shares_of_five_clusters_and_most_belong_to_one_or_two() -> None:
    users = streams.clicks(5_000).contexts
    assert users.shape == (5_000, 5)
    assert users.min() >= 0.0
    assert users.sum(axis=1) == pytest.approx(np.ones(5_000))
    assert np.mean(np.sort(users, axis=1)[:, -2:].sum(axis=1) > 0.75) > 0.5


def test_clicks_are_as_frequent_as_the_model_says() -> None:
    visits = streams.clicks(200_000, seed=1)
    assert visits.expected is not None
    assert set(np.unique(visits.rewards)) == {0.0, 1.0}
    assert visits.expected.min() >= 0.0
    standard_error = np.sqrt(0.06 / len(visits))
    assert visits.rewards.mean(axis=0) == pytest.approx(visits.expected.mean(axis=0), abs=4 * standard_error)
    active = visits.contexts[:, 4] > 0.4  # where article c is clicked more often
    assert visits.rewards[active, 2].mean() == pytest.approx(0.09, abs=4 * np.sqrt(0.09 / active.sum()))


@pytest.mark.parametrize("article", range(5))
def test_a_click_rate_changes_with_the_features_that_are_told_and_no_others(article: int) -> None:
    low, high = np.full((5, 5), 0.1), np.full((5, 5), 0.1) + np.eye(5) * 0.8  # row i moves feature i alone
    moved = np.flatnonzero(click_rates(low)[:, article] != click_rates(high)[:, article])
    assert set(moved) == set(CLICK_RELEVANCE[article])


def test_no_article_is_best_for_everyone() -> None:
    visits = streams.clicks(10_000)
    assert visits.expected is not None
    best = np.bincount(visits.expected.argmax(axis=1), minlength=5) / len(visits)
    assert best.min() > 0.02
    assert best.max() < 0.6
    assert visits.expected.max(axis=1).mean() > 1.25 * visits.expected.mean(axis=0).max()


def test_the_same_seed_gives_the_same_visits_and_another_seed_others() -> None:
    one, same, other = streams.clicks(100, seed=3), streams.clicks(100, seed=3), streams.clicks(100, seed=4)
    assert np.array_equal(one.contexts, same.contexts)
    assert np.array_equal(one.rewards, same.rewards)
    assert not np.array_equal(one.contexts, other.contexts)


def test_a_stream_of_no_visits_is_refused() -> None:
    with pytest.raises(ValueError, match="steps must be at least 1, got steps=0"):
        streams.clicks(0)


# --- the experiment -------------------------------------------------------------------------------------------


def test_the_expected_rate_of_a_run_is_the_mean_probability_of_a_click_on_what_was_taken() -> None:
    run = Run(stream="clicks", stream_arguments={"steps": 2_000}, policy="LinUCB", seed=0)
    visits = streams.clicks(2_000)
    assert visits.expected is not None
    policy = releaf.LinUCB(visits.actions, visits.features, seed=0)
    taken = policy.replay(visits.contexts, visits.rewards).actions
    assert expected_rate(execute(run)) == pytest.approx(100 * visits.expected[np.arange(2_000), taken].mean())


def test_a_run_without_expected_rewards_has_no_expected_rate() -> None:
    ledger = execute(Run(stream="breast_cancer", stream_arguments={"steps": 100}, policy="Random", seed=0))
    with pytest.raises(ValueError, match="best_reward is None: expected a run over a stream whose expected"):
        expected_rate(ledger)


def test_learners_are_told_from_chance_and_from_the_best_possible(no_logs: Path) -> None:
    results = results_of([run for run in WEBPAGES.runs(4, quick=False) if run.label in ("LinUCB", "Random")])
    linucb, chance = ([expected_rate(ledger) for ledger in results[name]] for name in ("LinUCB", "Random"))
    best = 100 * float(np.mean([ledger.best_reward for ledger in results["LinUCB"]]))
    assert np.mean(linucb) - t_half_width(linucb) > np.mean(chance) + t_half_width(chance)
    assert np.mean(linucb) + t_half_width(linucb) < best


def test_without_any_log_the_generated_visits_remain(no_logs: Path) -> None:
    tried = WEBPAGES.runs(2, quick=True)
    assert {run.stream for run in tried} == {"clicks"}
    assert {run.label for run in tried} == set(POLICIES)
    (figures,) = WEBPAGES.figures(results_of([run for run in tried if run.label in ("RELEAF-ALL", "Random")]))
    assert [line.label for line in figures.lines] == ["RELEAF-ALL", "Random", BEST]
    assert "The Open Bandit Dataset's sample was not at hand." in figures.caption


def open_bandit_file(folder: Path, clicked: Any) -> None:
    """A sample of five items in turn, whose clicks are those given: none in the first half but one for each item."""
    path = folder / "obd-random-all.csv.gz"
    fields = ["item_id", "click", *(f"user_feature_{place}" for place in range(4))]
    with gzip.open(path, "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(fields)
        for row in range(1_000):
            click = row < 5 if row < 500 else clicked(row % 5)
            writer.writerow([row % 5, int(click), *("u" if row % 2 else "v" for _ in range(4))])


@pytest.mark.parametrize(
    ("clicked", "verdict"),
    [
        (lambda item: False, "the 95 % intervals of all policies overlap, and none can be told from another"),
        (lambda item: item == 0, "of 3 pairs of policies have 95 % intervals that don't overlap"),
    ],
    ids=["no clicks", "one item always clicked"],
)
def test_the_open_bandit_sentence_tells_what_the_runs_found(no_logs: Path, clicked: Any, verdict: str) -> None:
    open_bandit_file(no_logs, clicked)
    results = results_of([run for run in WEBPAGES.runs(1, quick=True) if run.stream == "open_bandit"])
    told = open_bandit_outcome(results)
    assert verdict in told
    assert "displayed 500 times in all" in told
    matched = np.mean([ledger.steps for ledgers in results.values() for ledger in ledgers])
    assert f"match {matched:.0f} displays" in told


def test_the_relevance_table_has_the_papers_two_webpages_and_says_that_they_are_of_another_log(no_logs: Path) -> None:
    relevance = EXPERIMENTS["relevance"]
    (run,) = [run for run in relevance.runs(1, quick=True) if run.label == PAGES]
    assert (run.stream, run.policy_arguments["observe"]) == ("clicks", "always")
    a, b = relevance.figures(results_of([run]))
    for figures, planted, printed in ((a, "3 and 1", "3 (46 %), 1 (44 %)"), (b, "2 and 1", "2 (57 %), 1 (32 %)")):
        assert f"depends on the features {planted}" in figures.caption
        assert f"Yahoo!'s log ({printed}" in figures.caption
        assert all(line.paper == (None,) for line in figures.lines)
        assert sum(line.ours[0][0] for line in figures.lines) == pytest.approx(100.0)


# --- pictures of means with their intervals -------------------------------------------------------------------


def test_runs_become_a_mean_with_its_interval_and_a_single_run_has_none() -> None:
    rows = [{"y": "one", "x": value} for value in (1.0, 2.0, 3.0)] + [{"y": "other", "x": 5.0}]
    one, other = average_runs(rows, ("y",), "x")
    assert (one["y"], one["x"]) == ("one", 2.0)
    assert (one["low"], one["high"]) == pytest.approx(
        (2 - t_half_width([1.0, 2.0, 3.0]), 2 + t_half_width([1.0, 2.0, 3.0]))
    )
    assert other == {"y": "other", "x": 5.0, "low": None, "high": None}


def test_estimates_are_points_with_intervals_in_the_order_of_the_rows() -> None:
    rows = [{"y": name, "x": value} for name in ("good", "bad") for value in (1.0, 3.0)]
    spec = chart(Picture("rates", "estimates", rows, "rate", ""), width=400).to_dict()
    values = spec["data"]["values"]
    assert [row["y"] for row in values] == ["good", "bad"]
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["rule", "circle"]
    assert spec["height"] == 90


def test_means_over_a_logarithmic_axis_leave_the_other_axis_linear() -> None:
    rows = [{"series": "a", "x": x, "y": x * y} for x in (1, 10, 100) for y in (1.0, 2.0)]
    for log, kinds in (("x", ("log", None)), (True, ("log", "log")), (False, ("linear", None))):
        spec = chart(Picture("cost", "means", rows, "price", "cost", log=log), width=400).to_dict()  # type: ignore[arg-type]
        encoded = spec["layer"][1]["encoding"]
        assert (encoded["x"]["scale"].get("type"), encoded["y"]["scale"].get("type")) == kinds


def test_points_of_two_series_at_the_same_x_are_drawn_a_little_apart() -> None:
    rows = [{"series": name, "x": x, "y": y} for name in "ab" for x in (1, 10, 100) for y in (1.0, 2.0)]
    values = chart(Picture("cost", "means", rows, "price", "cost", log=True), width=400).to_dict()["data"]["values"]
    places = {name: [row["place"] for row in values if row["series"] == name] for name in "ab"}
    assert all(left < right for left, right in zip(places["a"], places["b"], strict=True))
    assert places["a"] == pytest.approx([1, 10, 100], rel=0.05)
    assert [row["x"] for row in values] == [1, 10, 100] * 2
