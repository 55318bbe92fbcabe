"""Runs and off-policy estimates with eligible actions: no other is taken, weighted or regretted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

import releaf
from releaf import evaluate, streams
from releaf.cli import app

STEPS, ACTIONS = 6_000, ("wait", "treat", "test")


def restricted_stream(steps: int = STEPS) -> streams.Stream:
    """The best action of a row is often not eligible."""
    draw = np.random.default_rng(3)
    contexts = draw.random((steps, 2))
    expected = np.column_stack([contexts[:, 0], 1.0 - contexts[:, 0], np.full(steps, 0.95)])
    eligible = draw.random((steps, 3)) < 0.5
    eligible[np.arange(steps), draw.integers(0, 2, steps)] = True
    rewards = (draw.random((steps, 3)) < expected).astype(float)
    return streams.Stream(contexts, rewards, ("x", "y"), ACTIONS, expected, eligible=eligible)


STREAM = restricted_stream()
LOG = evaluate.sample_log(STREAM, seed=5)


def rule(log: Any) -> Any:
    """A fixed policy: the last eligible action."""
    return 2 - np.argmax(log.eligible[:, ::-1], axis=1)


def test_a_sampled_log_is_uniform_over_the_eligible_actions() -> None:
    assert LOG.eligible is STREAM.eligible
    assert LOG.eligible is not None
    assert LOG.probabilities is not None
    assert LOG.eligible[np.arange(STEPS), LOG.taken].all()
    assert LOG.probabilities == pytest.approx(1.0 / LOG.eligible.sum(axis=1))
    with pytest.raises(ValueError, match="probabilities must be 0 for actions that are not eligible"):
        evaluate.sample_log(STREAM, np.full((STEPS, 3), 1 / 3))


def test_all_estimates_of_a_policy_cover_its_true_value() -> None:
    chosen = rule(LOG)
    assert STREAM.expected is not None
    truth = float(STREAM.expected[np.arange(STEPS), chosen].mean())
    for name, found in evaluate.estimate_all(LOG, chosen).items():
        assert found.low < truth < found.high, name
        assert found.value == pytest.approx(truth, abs=0.04), name
    with pytest.warns(evaluate.SupportWarning, match="the log never takes some of the policy's actions"):
        wrong = evaluate.estimate_all(replace(LOG, eligible=None), np.full(STEPS, 2))["ips"].value
    assert abs(wrong - float(STREAM.expected[:, 2].mean())) > 0.2, "a log that hides what was eligible misleads"


def test_a_policy_that_takes_what_was_not_eligible_is_refused() -> None:
    assert LOG.eligible is not None
    row = int(np.argmin(LOG.eligible[:, 2]))
    text = f"chosen takes 'test' in row {row}, which was not eligible there: decide with eligible=log.eligible"
    with pytest.raises(ValueError, match=text):
        evaluate.ips(LOG, np.full(STEPS, 2))
    with pytest.raises(ValueError, match="which was not eligible there"):
        evaluate.doubly_robust(LOG, np.full((STEPS, 3), 1 / 3))
    even = LOG.eligible / LOG.eligible.sum(axis=1, keepdims=True)
    assert evaluate.ips(LOG, even).value == pytest.approx(float(LOG.rewards.mean()))


@pytest.mark.parametrize("policy", [releaf.LinUCB, releaf.AdaptiveReleaf])
def test_choices_and_halves_keep_to_the_eligible_actions(policy: Any) -> None:
    first, second = evaluate.halves(LOG)
    learner = policy(ACTIONS, ("x", "y"), seed=0)
    learner.learn_log(first.contexts, [ACTIONS[index] for index in first.taken], first.rewards)
    chosen = evaluate.choices(learner, second)
    assert second.eligible is not None
    assert second.eligible[np.arange(len(second)), chosen].all()
    assert evaluate.overlap(second, chosen).mean_weight == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("has_propensities", [True, False])
def test_rejection_sampling_is_unbiased_among_eligible_actions(has_propensities: bool) -> None:
    """Rows with many eligible actions are matched less often, and must count as much as the others."""
    log = LOG if has_propensities else replace(LOG, probabilities=None)
    learner = releaf.LinUCB(ACTIONS, ("x", "y"), alpha=0.0)
    learner.learn_log(LOG.contexts, [ACTIONS[index] for index in LOG.taken], LOG.rewards)
    chosen = evaluate.choices(learner, LOG)
    assert STREAM.expected is not None
    truth = float(STREAM.expected[np.arange(STEPS), chosen].mean())
    found = evaluate.rejection(learner, log)
    assert found.low < truth < found.high
    assert found.value == pytest.approx(truth, abs=0.05)


def test_regret_is_against_the_best_eligible_action() -> None:
    ledger = evaluate.run(releaf.AdaptiveReleaf(ACTIONS, ("x", "y"), seed=0), STREAM)
    free = evaluate.run(releaf.AdaptiveReleaf(ACTIONS, ("x", "y"), seed=0), replace(STREAM, eligible=None))
    assert STREAM.expected is not None
    assert STREAM.eligible is not None
    best = np.where(STREAM.eligible, STREAM.expected, -1.0).max(axis=1)
    assert ledger.best_reward == pytest.approx(float(best.mean()))
    assert free.best_reward is not None
    assert ledger.best_reward is not None
    assert ledger.best_reward < free.best_reward
    assert 0.0 <= ledger.regret < 0.05 * STEPS


def test_estimated_propensities_are_0_where_an_action_was_not_eligible() -> None:
    assert LOG.probabilities is not None
    assert LOG.eligible is not None
    found = evaluate.estimate_propensities(replace(LOG, probabilities=None))
    assert (found.table[~LOG.eligible] == 0.0).all()
    assert found.table.sum(axis=1) == pytest.approx(1.0)
    assert np.abs(found.log.probabilities - LOG.probabilities).mean() < 0.05


# --- from files ---------------------------------------------------------------------------------------------------


def as_table(steps: int, joined: bool) -> Any:
    assert LOG.eligible is not None
    assert LOG.probabilities is not None
    names = [[ACTIONS[place] for place in np.flatnonzero(mask)] for mask in LOG.eligible[:steps]]
    return polars.DataFrame(
        {
            "x": LOG.contexts[:steps, 0],
            "y": LOG.contexts[:steps, 1],
            "action": [ACTIONS[index] for index in LOG.taken[:steps]],
            "reward": LOG.rewards[:steps],
            "probability": LOG.probabilities[:steps],
            "could": ["|".join(found) for found in names] if joined else names,
        }
    )


@pytest.mark.parametrize("form", ["table", "csv", "parquet"])
def test_a_log_reads_the_eligible_actions_of_a_column(tmp_path: Path, form: str) -> None:
    data: Any = as_table(300, joined=form == "csv")
    if form == "csv":
        data.write_csv(tmp_path / "log.csv")
        data = tmp_path / "log.csv"
    elif form == "parquet":
        data.write_parquet(tmp_path / "log.parquet")
        data = tmp_path / "log.parquet"
    log = streams.log(data, action="action", reward="reward", probability="probability", eligible="could")
    assert log.actions == ("test", "treat", "wait")
    assert LOG.eligible is not None
    assert log.eligible is not None
    assert np.array_equal(log.eligible, LOG.eligible[:300][:, [2, 1, 0]])
    assert releaf.Schema.of(log.features).names == ("x", "y")


def test_numbers_and_empty_cells_are_understood(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("x,action,reward,could\n0.1,1,1,1\n0.2,2,0,2|3\n0.3,1,1,\n")
    log = streams.log(tmp_path / "log.csv", action="action", reward="reward", eligible="could")
    assert log.actions == (1, 2, 3)
    assert log.eligible is not None
    assert log.eligible.tolist() == [[True, False, False], [False, True, True], [True, True, True]]


def test_rows_that_contradict_their_eligible_actions_are_unusable(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("x,action,reward,could\n0.1,a,1,a|b\n0.2,a,1,b\n0.3,b,1,b|c\n")
    given: Any = {"action": "action", "reward": "reward", "eligible": "could"}
    text = "line 3: 'action' is 'a', which was not eligible: 'could' does not name it"
    with pytest.raises(ValueError, match=text):
        streams.log(tmp_path / "log.csv", **given)
    log = streams.log(tmp_path / "log.csv", actions=["a", "b"], skip_bad=True, **given)
    assert (len(log), log.skipped) == (1, 2)
    assert "'could' names unknown action 'c': expected some of ('a', 'b')" in dict(log.problems)[4]


def test_the_commands_read_the_eligible_actions_of_a_column(tmp_path: Path) -> None:
    as_table(800, joined=True).write_csv(tmp_path / "log.csv")
    run = CliRunner().invoke
    done = run(app, ["evaluate", str(tmp_path / "log.csv"), "--eligible", "could", "--policy", "LinUCB", "--json"])
    assert done.exit_code == 0, done.output
    assert '"policy": "LinUCB"' in done.output
    lacking = run(app, ["evaluate", str(tmp_path / "log.csv"), "--eligible", "nothing", "--policy", "LinUCB"])
    assert lacking.exit_code != 0
    assert "has no column 'nothing' of eligible actions" in " ".join(lacking.output.split())
    releaf.LinUCB(ACTIONS, ("x", "y")).save(tmp_path / "model.releaf")
    (tmp_path / "rows.csv").write_text("x,y,could\n0.1,0.2,test\n0.1,0.2,wait|test\n0.1,0.2,\n0.1,0.2,x\n")
    decided = run(app, ["decide", str(tmp_path / "model.releaf"), str(tmp_path / "rows.csv"), "--eligible", "could"])
    assert decided.exit_code == 1
    lines = [line for line in decided.output.splitlines() if line[:1].isdigit()]
    assert lines[0].split(",")[2] == "test"
    assert len(lines) == 3
    assert "eligible names an unknown action 'x'" in decided.output
    (tmp_path / "rows.json").write_text('{"x": 0.1, "y": 0.2, "could": ["treat"]}\n')
    decided = run(app, ["decide", str(tmp_path / "model.releaf"), str(tmp_path / "rows.json"), "--eligible", "could"])
    assert '"eligible": ["treat"]' in decided.output
