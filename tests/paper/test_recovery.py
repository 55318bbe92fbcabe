"""The experiment on recovering relevant features: its arithmetic by hand, its learners on planted features."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from releaf import AdaptiveReleaf, Random, evaluate, streams
from releaf.cli import app
from releaf.evaluate import execute
from releaf.paper import EXPERIMENTS, agreement, bundled, recovery, scores
from releaf.paper.lasso import LassoBandit
from releaf.streams import DataError

# --- arithmetic -----------------------------------------------------------------------------------------------

SHARES = [[0.5, 0.3, 0.2, 0.0], [0.24, 0.25, 0.26, 0.25], [0.0, 0.0, 0.0, 0.0]]


def test_a_feature_is_reported_from_a_quarter_of_the_actions_relevance_on() -> None:
    named = scores.reported(SHARES)
    assert [np.flatnonzero(row).tolist() for row in named] == [[0, 1], [1, 2, 3], []]


def test_the_rule_does_not_depend_on_what_relevance_adds_up_to() -> None:
    assert (scores.reported(np.array(SHARES) * 2) == scores.reported(SHARES)).all()


def test_precision_recall_and_f1_worked_out_by_hand() -> None:
    """Reported are {0, 1}, {1, 2, 3}, {}; relevant {0}, {2, 3}, {1}: 3 of 5 are right, 3 of 4 are found, F1 = 6/9."""
    found = scores.score(scores.reported(SHARES), [[0], [2, 3], [1]])
    assert (found.precision, found.recall, found.f1) == pytest.approx((3 / 5, 3 / 4, 6 / 9))
    exact = scores.score(scores.reported([[1.0, 0.0]]), [[0]])
    assert (exact.precision, exact.recall, exact.f1) == (1.0, 1.0, 1.0)


def test_a_learner_that_reports_nothing_has_no_precision_and_no_f1() -> None:
    found = scores.score(scores.reported([[0.0, 0.0]]), [[1]])
    assert math.isnan(found.precision)
    assert (found.recall, found.f1) == (0.0, 0.0)


def test_cumulative_shares_count_from_the_checkpoint_before() -> None:
    """Of 10 exploitations 8 name the first feature; of the next 20 all name the second; then there are none."""
    noted: dict[str, list[Any]] = {
        "steps": [5, 20, 50, 60],
        "explored": [5, 10, 20, 30],
        "labels": [5, 20, 50, 60],
        "relevance": [[[0.0, 0.0]], [[0.8, 0.2]], [[8 / 30, 22 / 30]], [[8 / 30, 22 / 30]]],
    }
    fresh = scores.current(noted, cumulative=True)
    assert fresh[:, 0] == pytest.approx(np.array([[0, 0], [0.8, 0.2], [0, 1], [0, 1]]), abs=1e-12)
    assert (scores.current(noted, cumulative=False) == np.array(noted["relevance"])).all()


def a_run(labels: list[int], f1: list[float]) -> scores.Scored:
    return scores.Scored(np.array(labels), [scores.Score(value, value, value) for value in f1])


def test_rewards_are_counted_from_where_the_mean_f1_stays_good() -> None:
    one, other = a_run([10, 20, 40, 80], [0.0, 1.0, 0.5, 1.0]), a_run([10, 30, 60, 90], [1.0, 1.0, 0.9, 1.0])
    assert scores.averaged([one, other], "f1", np.array([10, 30, 40, 60, 80])).tolist() == [0.5, 1.0, 0.75, 0.7, 0.95]
    assert scores.rewards_until([one, other], 0.9) == 80
    assert scores.rewards_until([other], 0.95) is None  # good at the last checkpoint only
    assert scores.rewards_until([other], 0.9) == 10
    assert scores.rewards_until([one, a_run([10], [0.2])], 0.9) is None


def test_the_last_figure_of_a_run_stands_where_others_asked_for_more_rewards() -> None:
    """Both are good once they stop asking; that one asks for two rewards fewer must not hide it."""
    one, other = a_run([10, 48, 48, 48], [0.0, 0.0, 1.0, 1.0]), a_run([10, 47, 50, 50], [0.0, 0.0, 1.0, 1.0])
    assert scores.averaged([one, other], "f1", np.array([5, 10, 48, 50]))[1:].tolist() == [0.0, 0.5, 1.0]
    assert scores.rewards_until([one, other]) == 50


def test_a_run_without_checkpoints_has_no_scores() -> None:
    ledger = evaluate.run(Random(3, 10, seed=0), streams.generate(20))
    with pytest.raises(ValueError, match="the ledger has no checkpoints: expected a run with checkpoints"):
        scores.scored(ledger, [[0], [1], [2]], cumulative=False)


def test_planted_features_differ_between_actions() -> None:
    for features, d in ((5, 1), (5, 2), (200, 2)):
        sets = [set(found) for found in recovery.planted(features, d, seed=3)]
        assert [len(found) for found in sets] == [d] * 3
        assert len(set(map(frozenset, sets))) == 3
        assert max(map(max, sets)) < features
    assert recovery.planted(20, 2, 0) != recovery.planted(20, 2, 1)


# --- learners -------------------------------------------------------------------------------------------------


def result_of(name: str, case: recovery.Case, features: int) -> scores.Scored:
    """The scores of one quick run."""
    runs = [run for run in recovery.Planted().runs(1, True) if run.label == recovery.label_of(name, case, features)]
    ledgers = {runs[0].label: [execute(runs[0])]}
    return recovery.scores(ledgers, name, case, features)[0]


def test_lasso_finds_a_planted_linear_relevance() -> None:
    stream = streams.generate(900, features=30, actions=2, relevant=[[4, 17], [25, 8]], shape="line", seed=1)
    bandit = LassoBandit(2, 30, seed=0)
    assert (bandit.relevance() == 0).all()
    trace = bandit.replay(stream.contexts, stream.rewards)
    assert trace.observed.all()
    assert np.bincount(trace.actions).min() > 350
    shares = bandit.relevance()
    assert shares.sum(axis=1) == pytest.approx(1.0)
    assert [sorted(np.argsort(-row)[:2].tolist()) for row in shares] == [[4, 17], [8, 25]]
    assert scores.score(scores.reported(shares), [[4, 17], [8, 25]]).f1 == 1.0


def test_lasso_sees_nothing_in_noise_even_with_fewer_rewards_than_features() -> None:
    draw = np.random.default_rng(0)
    for rows, features in ((60, 50), (2_000, 5)):
        bandit = LassoBandit(2, features, seed=0)
        bandit.replay(draw.random((rows, features)), draw.random((rows, 2)))
        assert np.count_nonzero(bandit.relevance()) <= 2


def test_lasso_misses_a_symmetric_wave_and_adaptive_releaf_does_not() -> None:
    """A tent over the feature: the best straight line is flat."""
    contexts = np.random.default_rng(0).random((1_500, 6))
    tent = 1.0 - 2.0 * np.abs(contexts[:, [2]] - 0.5)
    rewards = np.hstack([tent, 1.0 - tent])
    found = {}
    for kind in (LassoBandit, AdaptiveReleaf):
        learner: Any = kind(2, 6, seed=0)
        learner.replay(contexts, rewards)
        found[kind] = scores.score(scores.reported(learner.relevance()), [[2], [2]])
    assert found[LassoBandit].recall < 1.0
    assert found[AdaptiveReleaf].f1 == 1.0


@pytest.mark.parametrize("name", ["AdaptiveReleaf", recovery.UNIFORM])
def test_adaptive_releaf_recovers_planted_features(name: str) -> None:
    assert result_of(name, recovery.WAVE, 20).scores[-1].f1 == 1.0


def test_releaf_recovers_planted_features_and_needs_exploitations_to_say_so() -> None:
    found = result_of("RELEAF-ALL", recovery.WAVE, 20)
    assert found.scores[0].recall == 0.0
    assert found.scores[-1].recall == 1.0


# --- real tables ----------------------------------------------------------------------------------------------


def test_a_bundled_table_is_a_stream_in_which_the_right_class_earns_1() -> None:
    stream = bundled.bundled("wine", 356, seed=1)
    assert stream.actions == ("cultivar 1", "cultivar 2", "cultivar 3")
    assert stream.rewards.sum(axis=0).tolist() == [118, 142, 96]
    assert (stream.rewards.sum(axis=1) == 1).all()
    assert not np.array_equal(stream.rewards, bundled.bundled("wine", 356, seed=2).rewards)


def test_a_table_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="name is 'beer': expected one of wine, segments"):
        bundled.bundled("beer")
    monkeypatch.setattr(bundled, "find_spec", lambda package: None)
    with pytest.raises(DataError, match="'wine' comes with the package 'sklearn', which is not installed"):
        bundled.bundled("wine")


def test_overlap_is_of_the_three_highest_of_each_action() -> None:
    one = np.array([[5.0, 4, 3, 2, 1], [1, 0, 0, 0, 0]])
    other = np.array([[1.0, 2, 3, 4, 5], [3, 2, 1, 0, 0]])
    assert agreement.overlap(one, other) == pytest.approx((1 / 3 + 1 / 3) / 2)
    assert agreement.overlap(other, other) == 1.0
    assert agreement.top(np.zeros(4)) == set()


def test_yardsticks_find_a_feature_that_is_known_to_tell_a_cultivar() -> None:
    information, importance = agreement.yardsticks("wine")
    assert information.shape == importance.shape == (3, 13)
    assert 12 in agreement.top(information[0]) & agreement.top(importance[0])  # proline, which cultivar 1 has most of


# --- the experiment -------------------------------------------------------------------------------------------


def test_dear_combinations_are_left_out() -> None:
    labels = {run.label for run in EXPERIMENTS["relevance-recovery"].runs(1, quick=False)}
    assert recovery.label_of("RELEAF", recovery.WAVE, 200) in labels
    assert recovery.label_of("RELEAF", recovery.WAVE_OF_TWO, 20) in labels
    assert recovery.label_of("RELEAF", recovery.WAVE_OF_TWO, 50) not in labels
    assert recovery.label_of("AdaptiveReleaf", recovery.WAVE_OF_TWO, 200) in labels


def test_a_quick_report_has_tables_and_pictures_of_both_parts(tmp_path: Path) -> None:
    options = ["--quick", "--workers", "1", "--report", str(tmp_path / "r.html"), "--store", str(tmp_path / "runs")]
    result = CliRunner().invoke(app, ["reproduce", "relevance-recovery", *options], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    printed = " ".join(result.output.split())  # titles are wrapped
    assert "wave, d = 1, noise ±0.1: AdaptiveReleaf, uniform" in printed
    assert "agreement with yardsticks" in printed
    assert len(list(tmp_path.glob("relevance-recovery-*.png"))) == 5
