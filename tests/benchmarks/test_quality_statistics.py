"""The statistics of the quality benchmark, next to values worked out by hand or by SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest


def test_a_difference_is_significant_by_the_z_test_of_the_bake_off() -> None:
    from benchmarks.quality.statistics import is_better

    # z = 0.05 / √((0.2 · 0.8 + 0.25 · 0.75) / n), which passes 1.645 between n = 376 and n = 377.
    assert not is_better(0.2, 0.25, 376)
    assert is_better(0.2, 0.25, 377)
    assert not is_better(0.25, 0.2, 10_000)
    assert not is_better(0.0, 0.0, 100)
    assert is_better(0.0, 1.0, 2)


def test_equal_losses_are_not_significant_more_often_than_the_level_says() -> None:
    from benchmarks.quality.statistics import is_better

    generator = np.random.default_rng(0)
    pairs = generator.binomial(500, 0.3, size=(4_000, 2)) / 500
    assert np.mean([is_better(first, second, 500) for first, second in pairs]) == pytest.approx(0.05, abs=0.012)


def test_wins_are_counted_on_what_both_ran_on() -> None:
    from benchmarks.quality.statistics import wins

    losses = {
        "good": {"a": [0.1, 0.1], "b": [0.1], "c": [0.2]},
        "bad": {"a": [0.4, 0.9], "b": [0.101], "d": [0.9]},
        "lucky first": {"a": [0.1]},
    }
    counted = wins(losses, dict.fromkeys("abcd", 500))
    assert counted["good"] == {"good": 0, "bad": 1, "lucky first": 0}
    assert counted["bad"]["good"] == 0
    assert counted["lucky first"]["bad"] == 1  # 0.1 against the first seed's 0.4


def test_equals_share_a_rank_and_absentees_have_none() -> None:
    from benchmarks.quality.statistics import mean_ranks

    losses = {
        "a": {"x": [0.1], "y": [0.3]},
        "b": {"x": [0.1], "y": [0.2]},
        "c": {"x": [0.5]},
    }
    assert mean_ranks(losses, ["x", "y"]) == {"a": 1.75, "b": 1.25, "c": 3.0}


def test_holm_rejects_step_by_step() -> None:
    from benchmarks.quality.statistics import holm

    assert holm([0.01, 0.04, 0.03, 0.005]) == [True, False, False, True]
    assert holm([0.012, 0.012, 0.012, 0.012]) == [True] * 4
    assert holm([0.013, 0.001]) == [True, True]


def test_cliques_join_methods_that_do_not_differ() -> None:
    from benchmarks.quality.statistics import cliques, mean_ranks

    generator = np.random.default_rng(1)
    data_sets = [f"d{place}" for place in range(30)]
    hard = generator.uniform(0.2, 0.5, 30)
    noise = generator.normal(0, 0.01, (2, 30))
    columns = {"best": hard - 0.1, "also": hard - 0.1 + noise[0], "same": hard + noise[1], "poor": hard + 0.3}
    losses = {
        name: {data: [float(value)] for data, value in zip(data_sets, column, strict=True)}
        for name, column in columns.items()
    }
    ranks = mean_ranks(losses, data_sets)
    found = cliques(losses, data_sets)
    assert [sorted(clique) for clique in found] == [["also", "best"]]
    assert ranks["poor"] == 4.0


def test_a_clique_inside_another_is_left_out() -> None:
    from benchmarks.quality.statistics import cliques

    generator = np.random.default_rng(2)
    losses = {name: {f"d{place}": [float(generator.random())] for place in range(12)} for name in "abcd"}
    found = cliques(losses, [f"d{place}" for place in range(12)])
    assert len(found) == 1
    assert sorted(found[0]) == ["a", "b", "c", "d"]


def test_half_a_wrong_action_stands_for_none_in_a_ratio() -> None:
    from benchmarks.quality.statistics import geometric_mean, ratio

    assert ratio(0.3, 0.1, 1_000) == pytest.approx(3.0)
    assert ratio(0.01, 0.0, 1_000) == pytest.approx(20.0)
    assert ratio(0.0, 0.0, 1_000) == 1.0
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)


def test_the_summary_tells_where_adaptive_releaf_loses() -> None:
    from benchmarks.quality import suite, summary
    from benchmarks.quality.tasks import Outcome

    size = suite.Size(1_000, 4, 0, 4, 2, False, 1_000, False, "")
    sizes = {"iris": size, "wine": size}
    results = {
        ("iris", "AdaptiveReleaf"): [Outcome(0.1, 0.2, 9, 0.001, 1.0)],
        ("wine", "AdaptiveReleaf"): [Outcome(0.4, 0.2, 9, 0.001, 1.0)],
        ("iris", "LinUCB"): [Outcome(0.2, 0.2, 9, 0.001, 1.0)],
        ("wine", "LinUCB"): [Outcome(0.2, 0.1, 9, 0.001, 1.0)],
        ("iris", "Random"): [Outcome(0.5, 0.5, 9, 0.001, 1.0)],
        ("wine", "Random"): [Outcome()],  # too slow
    }
    found = summary.findings(sizes, results)
    details = {finding.detail["method"]: finding.detail for finding in found if "method" in finding.detail}
    assert details["AdaptiveReleaf"]["over_best"] == pytest.approx(math.sqrt(2))
    assert details["AdaptiveReleaf"]["over_linucb"] == pytest.approx(1.0)
    assert details["AdaptiveReleaf"]["over_best_in_first_pass"] == pytest.approx(math.sqrt(2))
    assert details["AdaptiveReleaf"]["worst_on"] == "wine"
    assert details["LinUCB"]["losses"]["iris"]["microseconds"] == pytest.approx(1.0)
    assert details["Random"]["data_sets"] == 1
    defeats = [finding for finding in found if "defeat" in finding.detail]
    assert [(each.detail["defeat"], each.detail["by"], each.value) for each in defeats] == [("wine", "LinUCB", 2.0)]
    assert defeats[0].detail["significant"] == ["LinUCB"]
    comparison = next(finding for finding in found if "wins" in finding.detail)
    assert comparison.value == 1  # LinUCB and Random beaten on iris, LinUCB ahead on wine
    diagram = next(finding for finding in found if finding.detail.get("diagram") == "all")
    assert set(diagram.detail["ranks"]) == {"AdaptiveReleaf", "LinUCB"}
