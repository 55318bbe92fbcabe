"""Runs, off-policy estimates, apprentices and MLflow with costs of actions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from typer.testing import CliRunner

import releaf
import releaf.mlflow
from releaf import evaluate, streams
from releaf.cli import app

STEPS, ACTIONS = 4_000, ("small", "large")
DRAW = np.random.default_rng(3)
CONTEXTS = DRAW.random((STEPS, 2))
EXPECTED = np.column_stack([0.8 - 0.6 * CONTEXTS[:, 0], np.full(STEPS, 0.8)])
COSTS = CONTEXTS[:, 1:] * [0.2, 2.0]
REWARDS = (DRAW.random((STEPS, 2)) < EXPECTED).astype(float)
STREAM = streams.Stream(CONTEXTS, REWARDS, ("x", "y"), ACTIONS, EXPECTED, costs=COSTS)
LOG = evaluate.sample_log(STREAM, seed=5)


def trained(**further: Any) -> Any:
    router = releaf.LinUCB(ACTIONS, ("x", "y"), seed=0, alpha=0.0, **further)
    router.learn_log(CONTEXTS, [ACTIONS[index] for index in LOG.taken], LOG.rewards)
    return router


def test_a_log_of_a_stream_and_its_halves_have_the_costs_of_their_rows() -> None:
    assert LOG.costs is COSTS
    first, second = evaluate.halves(LOG)
    assert first.costs is not None
    assert second.costs is not None
    assert np.concatenate([first.costs, second.costs]).tolist() == COSTS.tolist()


def test_choices_weigh_the_costs_of_the_log() -> None:
    router = trained(cost_weight=0.3)
    chosen = evaluate.choices(router, LOG)
    plain = [router.preview(context, cost=cost).index for context, cost in zip(CONTEXTS, COSTS, strict=True)]
    assert chosen.tolist() == plain
    assert 0.2 < chosen.mean() < 0.8
    truth = float(EXPECTED[np.arange(STEPS), chosen].mean())
    for name, found in evaluate.estimate_all(LOG, chosen).items():
        assert found.low < truth < found.high, name


def test_a_policy_that_weighs_no_costs_is_evaluated_on_the_same_log() -> None:
    assert evaluate.choices(trained(), LOG).mean() > 0.85
    assert evaluate.rejection(trained(), LOG).value == pytest.approx(0.8, abs=0.05)
    assert evaluate.run(trained(), STREAM).reward == pytest.approx(0.8, abs=0.03)


def test_rejection_sampling_spends_a_budget_on_the_matching_rows() -> None:
    router = trained(spend_budget=40, budget_period=100)
    evaluate.rejection(router, LOG)
    assert 0.0 < router.spent <= 0.4 * STEPS + 40


def test_a_run_over_a_stream_is_a_replay_with_its_costs() -> None:
    one, other = (trained(spend_budget=40, budget_period=100) for _ in range(2))
    ledger = evaluate.run(one, STREAM)
    trace = releaf.replay(other, CONTEXTS, REWARDS, cost=COSTS)
    assert ledger.reward == pytest.approx(trace.rewards.mean())
    assert one.spent == other.spent <= 0.4 * STEPS + 40


def test_estimated_propensities_use_the_costs_that_a_router_has_weighed() -> None:
    """Costs that do not follow from the context, so that without them the choice looks random."""
    hidden = np.column_stack([np.zeros(STEPS), DRAW.random(STEPS)])
    table = np.where(hidden[:, 1:] < 0.5, [0.1, 0.9], [0.9, 0.1])
    log = evaluate.sample_log(replace(STREAM, costs=hidden), table)
    found = evaluate.estimate_propensities(replace(log, probabilities=None))
    assert np.abs(found.table - table).mean() < 0.1


def as_table(form: str) -> Any:
    texts = [f"small={one}|large={other}" for one, other in COSTS.tolist()]
    dollars = texts if form == "named" else [{"large": other, "small": one} for one, other in COSTS.tolist()]
    return polars.DataFrame(
        {
            "x": CONTEXTS[:, 0],
            "y": CONTEXTS[:, 1],
            "action": [ACTIONS[index] for index in LOG.taken],
            "reward": LOG.rewards,
            "probability": LOG.probabilities,
            "dollars": dollars,
        }
    )


COLUMNS: dict[str, Any] = {"action": "action", "reward": "reward", "probability": "probability", "cost": "dollars"}


@pytest.mark.parametrize("form", ["named", "mappings"])
def test_a_column_of_a_log_has_its_costs(form: str, tmp_path: Path) -> None:
    read = streams.log(as_table(form), **COLUMNS, actions=ACTIONS)
    assert read.costs is not None
    assert read.costs.tolist() == COSTS.tolist()
    assert read.features.names == ("x", "y")
    as_table(form).write_parquet(tmp_path / "log.parquet")
    again = streams.log(tmp_path / "log.parquet", **COLUMNS, actions=ACTIONS)
    assert again.costs is not None
    assert again.costs.tolist() == COSTS.tolist()


def test_a_row_without_a_cost_is_unusable() -> None:
    table = as_table("named").with_columns(
        dollars=polars.when(polars.col("x") == CONTEXTS[2, 0]).then(polars.lit("small=1")).otherwise("dollars")
    )
    with pytest.raises(ValueError, match=r"row 2: 'dollars': cost lacks \['large'\]: expected a cost for each of"):
        streams.log(table, **COLUMNS, actions=ACTIONS)
    assert streams.log(table, **COLUMNS, actions=ACTIONS, skip_bad=True).skipped == 1


def test_the_command_evaluates_a_router_at_the_costs_of_a_file(tmp_path: Path) -> None:
    as_table("named").write_csv(tmp_path / "log.csv")
    trained(cost_weight=0.3).save(tmp_path / "router.releaf")
    given = [str(tmp_path / "log.csv"), "--cost", "dollars", "--model", str(tmp_path / "router.releaf"), "--json"]
    result = CliRunner().invoke(app, ["evaluate", *given])
    assert result.exit_code == 0, result.output + result.stderr
    result = CliRunner().invoke(app, ["evaluate", given[0], "--cost", "euros"])
    assert "has no column 'euros' of costs; it has x, y, action" in result.stderr


def test_an_apprentice_chooses_at_the_costs_of_each_observation() -> None:
    apprentice = releaf.Apprentice(trained(cost_weight=0.3))
    before = apprentice.policy.to_bytes()
    with pytest.raises(ValueError, match="cost is missing"):
        apprentice.observe(CONTEXTS[0], "small", 1.0)
    assert apprentice.policy.to_bytes() == before
    assert apprentice.observe([0.9, 0.5], "small", 1.0, cost=[0.0, 0.0]).action == "large"
    assert apprentice.observe([0.9, 0.5], "small", 1.0, cost={"large": 9.0, "small": 0.0}).action == "small"
    learner: Any = apprentice.policy
    assert learner.spent == 0.0


def test_mlflow_predicts_at_the_costs_in_columns() -> None:
    model = releaf.mlflow.PyfuncPolicy(trained(cost_weight=0.3))
    frame = pandas.DataFrame({"x": [0.9, 0.9], "y": [0.5, 0.5], "cost: small": [0.0, 0.0], "cost: large": [0.0, 9.0]})
    assert model.predict(frame)["action"].tolist() == ["large", "small"]
    with pytest.raises(ValueError, match="cost is missing"):
        model.predict(frame[["x", "y"]])
