"""Regret against the number of features, and total cost against the price of a label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from releaf import streams
from releaf.evaluate import Ledger, Run, execute
from releaf.paper import EXPERIMENTS
from releaf.paper.dimension import growth_text, split
from releaf.paper.price import AWARE, PRICES, UNAWARE, costs, total_cost

DIMENSION, PRICE = EXPERIMENTS["regret-and-dimension"], EXPERIMENTS["price"]


def results_of(runs: list[Run]) -> dict[str, list[Ledger]]:
    found: dict[str, list[Ledger]] = {}
    for run in runs:
        found.setdefault(run.label, []).append(execute(run))
    return found


# --- the problem stays the same while features are added ------------------------------------------------------


def test_streams_of_one_problem_expect_the_same_rewards_whatever_their_other_features() -> None:
    given: dict[str, Any] = {"actions": 2, "relevant": [[0], [1]], "problem": 7}
    few, many = (
        streams.generate(4_000, features=2, seed=1, **given),
        streams.generate(4_000, features=50, seed=2, **given),
    )
    assert few.expected is not None
    assert many.expected is not None
    for action in range(2):
        order = np.argsort(few.contexts[:, action])
        read_off = np.interp(many.contexts[:, action], few.contexts[order, action], few.expected[order, action])
        assert np.abs(read_off - many.expected[:, action]).max() < 0.01


def test_another_problem_expects_other_rewards_of_the_same_contexts() -> None:
    one, other = (streams.generate(100, features=3, actions=2, problem=problem, seed=1) for problem in (1, 2))
    assert np.array_equal(one.contexts, other.contexts)
    assert not np.allclose(one.expected, other.expected)  # type: ignore[arg-type]


def test_each_seed_has_one_problem_at_every_dimension() -> None:
    runs = DIMENSION.runs(2, quick=False)
    assert sorted({run.stream_arguments["features"] for run in runs}) == [5, 10, 20, 50, 100, 200]
    assert all(run.stream_arguments["problem"] == run.seed for run in runs)
    varied = {"features", "seed", "problem"}
    assert len({str({k: v for k, v in run.stream_arguments.items() if k not in varied}) for run in runs}) == 1


# --- what must be found ---------------------------------------------------------------------------------------


def test_with_features_that_do_not_matter_releaf_loses_little_and_zooming_all_that_it_had_learnt() -> None:
    chosen = ("RELEAF", "CZ", "Random")
    results = results_of([run for run in DIMENSION.runs(2, quick=True) if split(run.label)[0] in chosen])
    regret = {label: float(np.mean([ledger.regret for ledger in ledgers])) for label, ledgers in results.items()}
    assert regret["CZ, D = 5"] < 0.75 * regret["Random, D = 5"]
    assert regret["CZ, D = 50"] > 0.95 * regret["Random, D = 50"]
    assert regret["RELEAF, D = 50"] < 0.5 * regret["Random, D = 50"]
    assert regret["RELEAF, D = 5"] < regret["RELEAF, D = 50"] < 3 * regret["RELEAF, D = 5"]  # it does grow
    factor = regret["RELEAF, D = 50"] / regret["RELEAF, D = 5"]
    assert f"From D = 5 to D = 50 regret grows by the factor RELEAF {factor:.2f}" in growth_text(results)
    (figures,) = DIMENSION.figures(results)
    assert "T = 5,000" in figures.caption
    (picture,) = DIMENSION.pictures(results)
    assert (picture.kind, picture.log) == ("means", "x")
    assert len(picture.rows) == 2 * len(results)


def ledger_of(price: float) -> Ledger:
    arguments = {"steps": 1_000}
    return execute(
        Run(stream="breast_cancer", stream_arguments=arguments, policy="Releaf", seed=0, observation_cost=price)
    )


def test_the_total_cost_is_errors_and_what_labels_cost_whatever_price_the_run_was_accounted_with() -> None:
    free, dear = ledger_of(0.0), ledger_of(0.5)
    assert total_cost(free, 0.5) == pytest.approx(dear.regret)
    assert total_cost(dear, 0.0) == pytest.approx(free.regret)
    errors = round(free.error / 100 * free.steps)
    assert total_cost(free, 0.2) == pytest.approx(errors + 0.2 * free.labels)


def test_only_the_learner_that_knows_the_price_asks_for_fewer_labels_where_they_cost_more() -> None:
    runs = [run for run in PRICE.runs(2, quick=True) if "breast cancer" in run.label]
    found = costs(results_of(runs))
    assert {cost.policy for cost in found} == {*UNAWARE, AWARE}
    assert all([cost.price for cost in found if cost.policy == policy] == list(PRICES) for policy in (*UNAWARE, AWARE))
    for policy in UNAWARE:
        assert len({tuple(cost.labels) for cost in found if cost.policy == policy}) == 1
    labels = [float(np.mean(cost.labels)) for cost in found if cost.policy == AWARE]
    assert labels == sorted(labels, reverse=True)
    assert labels[-1] < 0.5 * labels[0]
    dearest = {cost.policy: float(np.mean(cost.totals)) for cost in found if cost.price == PRICES[-1]}
    assert dearest[AWARE] < dearest["AdaptiveReleaf, always"] / 2


def test_the_tables_and_pictures_of_the_price_are_one_for_each_stream() -> None:
    results = results_of([run for run in PRICE.runs(1, quick=True) if "generated" not in run.label])
    cancer, _ = PRICE.figures(results)
    assert [line.label for line in cancer.lines] == [*UNAWARE, AWARE]
    lowest, highest = cancer.lines[0].ours[0][0], cancer.lines[0].ours[3][0]
    labels = cancer.lines[0].ours[4][0]
    assert highest - lowest == pytest.approx((PRICES[-1] - PRICES[0]) * labels)
    pictures = PRICE.pictures(results)
    assert [picture.log for picture in pictures] == [True, True]
    assert len(pictures[0].rows) == len(PRICES) * (len(UNAWARE) + 1)
