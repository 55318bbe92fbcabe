"""`releaf decide` and `releaf explain` with costs, eligible actions and slates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import releaf
from releaf.cli import app

WIDE = {"COLUMNS": "120", "NO_COLOR": "1"}


def run(*arguments: str | Path, expect: int = 0, text: str | None = None) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env=WIDE, input=text)
    assert result.exit_code == expect, result.output + result.stderr
    return result


def decided(*arguments: str | Path, text: str) -> list[Any]:
    return [json.loads(line) for line in run("decide", *arguments, "--json", text=text).stdout.splitlines()]


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A learner that takes the cheaper one of two equal actions."""
    path: Path = tmp_path_factory.mktemp("models") / "priced.releaf"
    bandit = releaf.AdaptiveReleaf(["small", 2], ["x"], seed=0, cost_weight=0.5)
    for step in range(200):
        bandit.learn(bandit.decide([step % 7 / 7], cost=[0.0, 0.0]), 0.5)
    bandit.save(path)
    return path


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A learner with an action table that prefers the last action."""
    path: Path = tmp_path_factory.mktemp("models") / "many.releaf"
    bandit = releaf.JointReleaf({f"a{place}": [place / 10] for place in range(6)}, ["x"], seed=0)
    for step in range(200):
        choice = bandit.decide([step % 7 / 7])
        bandit.learn(choice, float(choice.action == "a5"))
    bandit.save(path)
    return path


@pytest.mark.parametrize("cells", [("small=0|2=1", "2=0| small = 1"), ("0|1", "1|0")])
def test_a_column_has_the_costs_of_each_row(priced: Path, cells: tuple[str, str]) -> None:
    text = f"x,costs\n0.5,{cells[0]}\n0.5,{cells[1]}\n"
    found = decided(priced, "--cost", "costs", text=text)
    assert [(line["action"], line["cost"]) for line in found] == [("small", 0.0), (2, 0.0)]


def test_costs_in_json_are_mappings_or_lists(priced: Path) -> None:
    rows = [{"x": 0.5, "costs": {"small": 1, "2": 0}}, {"x": 0.5, "costs": [0, 1]}]
    found = decided(priced, "--cost", "costs", text="\n".join(map(json.dumps, rows)))
    assert [(line["action"], line["cost"]) for line in found] == [(2, 0.0), ("small", 0.0)]


def test_a_row_without_costs_or_with_wrong_ones_is_reported_and_the_others_are_decided(priced: Path) -> None:
    text = "x,costs\n0.5,\n0.5,small=1\n0.5,1|two\n0.5,1|0\n"
    result = run("decide", priced, "--cost", "costs", text=text, expect=1)
    assert "stdin, line 2: cost is missing" in result.stderr
    assert "stdin, line 3: cost lacks [2]" in result.stderr
    assert "stdin, line 4: cost of 2 must be a number from 0 to 1e+12, got 'two'" in result.stderr
    assert [line.split(",")[0] for line in result.stdout.splitlines()] == ["line", "5"]


def test_the_fixed_cost_of_a_decision_is_printed(tmp_path: Path) -> None:
    releaf.LinUCB(["p", "q"], ["x"], seed=0, cost=[1, 2], cost_weight=0.1).save(tmp_path / "fixed.releaf")
    assert decided(tmp_path / "fixed.releaf", text="x\n0.5\n")[0]["cost"] == 1.0


def test_an_action_table_is_decided_among_eligible_actions(many: Path) -> None:
    """It estimates the eligible actions only."""
    found = decided(many, "--eligible", "could", text="x,could\n0.5,a1|a2\n0.7,\n")
    assert [line["action"] for line in found] == ["a2", "a5"]
    assert [len(line["estimates"]) for line in found] == [2, 6]
    assert found[0]["eligible"] == ["a1", "a2"]


def test_a_slate_has_k_actions_with_their_probabilities(many: Path, priced: Path) -> None:
    (found,) = decided(many, "--k", "2", text="x\n0.5\n")
    assert (found["slate"], found["slate_probabilities"]) == (["a5", "a4"], [1.0, 1.0])
    assert run("decide", many, "--k", "2", text="x\n0.5\n").stdout.splitlines()[1].endswith(",a5|a4")
    result = run("decide", priced, "--k", "2", text="x\n0.5\n", expect=1)
    assert "AdaptiveReleaf chooses no slates: expected no --k" in result.stderr


def test_a_decision_with_costs_among_some_actions_is_explained(priced: Path) -> None:
    shown = run("explain", priced, "0.5", "--cost", "small=1|2=0.5").stdout
    assert "It would choose 2" in shown
    assert "its cost of 1 counts for 0.5" in shown
    assert "no longer awaited" not in shown
    told = json.loads(run("explain", priced, "0.5", "--cost", "1|0.5", "--eligible", "small", "--json").stdout)
    assert (told["action"], told["cost"], told["eligible"]) == ("small", 1.0, ["small"])
