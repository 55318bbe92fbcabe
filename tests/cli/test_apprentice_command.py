"""`releaf apprentice`: watch the decisions of a log, report, go on, and promote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import releaf
from releaf.cli import app

WIDE = {"COLUMNS": "120", "NO_COLOR": "1"}
COLUMNS = ("--action", "did", "--reward", "earned", "--policy", "LinUCB")


def run(*arguments: str | Path, expect: int = 0) -> Any:
    result = CliRunner().invoke(app, ["apprentice", *map(str, arguments)], env=WIDE)
    assert result.exit_code == expect, result.output + result.stderr
    return result


def calls(rows: int, seed: int = 0, share: float = 0.3) -> pl.DataFrame:
    """An application that calls a random share of its customers; calls are better for those over 50."""
    draw = np.random.default_rng(seed)
    age, called = draw.uniform(18, 90, rows), draw.random(rows) < share
    success = np.where((age > 50) == called, 0.7, 0.3)
    return pl.DataFrame(
        {
            "age": age,
            "visits": draw.uniform(0, 50, rows),
            "did": np.where(called, "call", "mail"),
            "earned": (draw.random(rows) < success).astype(float),
            "probability": np.where(called, share, 1.0 - share),
        }
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    calls(1_500).write_csv(tmp_path / "log.csv")
    return tmp_path / "log.csv"


def test_the_report_is_that_of_the_library(log: Path) -> None:
    found = json.loads(run(log, *COLUMNS, "--json").stdout)
    table = releaf.streams.log(log, action="did", reward="earned", probability="probability", features=None)
    schema = releaf.Schema.guess(pl.read_csv(log), leave_out=["did", "earned", "probability"])
    watching = releaf.Apprentice(releaf.LinUCB(table.actions, schema, seed=0))
    for row in calls(1_500).to_dicts():
        context = {"age": row["age"], "visits": row["visits"]}
        watching.observe(context, row["did"], row["earned"], probability=row["probability"])
    assert found == json.loads(json.dumps(watching.report().to_dict()))
    assert found["can_promote"]
    assert found["decisions"] == 1_500


def test_an_apprentice_goes_on_with_a_second_log_as_with_one(log: Path, tmp_path: Path) -> None:
    both, later, saved = calls(1_500), tmp_path / "later.csv", tmp_path / "watching.releaf"
    schema = tmp_path / "schema.toml"
    schema.write_text(
        releaf.Schema({"age": releaf.Continuous(18, 90), "visits": releaf.Continuous(0, 50)}).to_toml(), "utf-8"
    )
    both[:600].write_csv(log)
    both[600:].write_csv(later)
    run(log, *COLUMNS, "--schema", schema, "-o", saved, "--warm-up", "100")
    parts = json.loads(run(later, *COLUMNS[:4], "--go-on", saved, "--json").stdout)
    both.write_csv(log)
    whole = json.loads(run(log, *COLUMNS, "--schema", schema, "--warm-up", "100", "--json").stdout)
    assert parts == whole
    assert parts["warm_up"] == 100


def test_a_learner_that_is_shown_to_earn_more_is_saved_for_deciding(log: Path, tmp_path: Path) -> None:
    target = tmp_path / "learner.releaf"
    assert "promotion                     allowed" in run(log, *COLUMNS, "--promote", target).stdout
    bandit = releaf.load(target)
    assert [bandit.decide({"age": age, "visits": 3}).action for age in (30, 75)] == ["mail", "call"]


def test_a_learner_that_is_not_shown_to_earn_more_is_not_promoted(tmp_path: Path) -> None:
    log, target = tmp_path / "fixed.csv", tmp_path / "learner.releaf"
    calls(300).drop("probability").write_csv(log)
    done = run(log, *COLUMNS, "--promote", target, expect=1)
    assert "not allowed" in done.stdout
    assert "Expected a lower bound above 0" in done.stderr
    assert not target.exists()


def test_eligible_actions_of_a_log_are_those_that_the_learner_chooses_from(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    table = calls(300).with_columns(pl.lit("call|mail").alias("could"))
    table[:100].with_columns(pl.col("did").alias("could")).vstack(table[100:]).write_csv(log)
    found = json.loads(run(log, *COLUMNS, "--eligible", "could", "--json").stdout)
    agreed = sum(found["choices"][name].get(name, 0) for name in found["choices"])
    assert agreed >= 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--go-on", "x.releaf", "--seed", "1"), "expected no --seed"),
        (("--probability", "chance"), "no column 'chance'"),
        (("--policy", "Zauber"), "there is no policy 'Zauber'"),
    ],
)
def test_wrong_options_are_named(options: tuple[str, ...], message: str, log: Path) -> None:
    assert message in " ".join(run(log, *COLUMNS[:4], *options, expect=1).stderr.split())


def test_a_learner_can_not_be_continued_as_an_apprentice(log: Path, tmp_path: Path) -> None:
    releaf.LinUCB(["mail", "call"], 2).save(tmp_path / "plain.releaf")
    told = run(log, *COLUMNS[:4], "--go-on", tmp_path / "plain.releaf", expect=1).stderr
    assert "is a LinUCB: expected an apprentice" in " ".join(told.split())
