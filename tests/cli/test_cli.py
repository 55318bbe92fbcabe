"""The commands, as a person sees them."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from releaf import __version__
from releaf.cli import app

WIDE = {"COLUMNS": "120", "NO_COLOR": "1"}


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, env=WIDE)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def demo() -> str:
    command = [sys.executable, "-m", "releaf", "demo", "--seeds", "2"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout


def test_the_demo_shows_the_papers_figures_beside_each_variant_of_releaf(demo: str) -> None:
    for name, labels, error in (
        ("RELEAF", "2,630", "1.88"),
        ("RELEAF-ALL", "50,000", "1.24"),
        ("RELEAF-FO", "2,630", "1.68"),
    ):
        (line,) = [line for line in demo.splitlines() if line.split()[:1] == [name] and labels in line]
        assert error in line.split()


def test_the_demo_fits_on_one_screen(demo: str) -> None:
    assert len(demo.splitlines()) <= 48


def test_the_demo_shows_the_relevance_of_all_features_for_each_action_the_papers_first_at_the_top(demo: str) -> None:
    tiles = demo[demo.index("Which features matter") :]
    rows = re.findall(r"^ *([a-z]+ ?[a-z]* ?[a-z]*?) +(\d+) +(\d+)(?: +(\d+))? +(\d+) +(\d+) *$", tiles, re.MULTILINE)
    assert len(rows) == 9
    assert rows[0][0] == "cell shape uniformity"
    assert rows[0][3] == "27"
    for column in (1, 2, 4, 5):
        assert 95 <= sum(int(row[column]) for row in rows) <= 105


def test_the_demo_explains_one_decision(demo: str) -> None:
    explained = demo[demo.index("One case explained") :]
    assert "chose 'malignant'" in explained
    assert "95 %" in explained


def test_the_demos_figures_are_the_papers_and_adaptive_releaf_needs_fewer_labels_for_fewer_errors() -> None:
    ledgers = json.loads(run("demo", "--seeds", "4", "--json"))
    assert list(ledgers) == ["RELEAF", "RELEAF-ALL", "RELEAF-FO", "AdaptiveReleaf"]
    assert all(len(runs) == 4 for runs in ledgers.values())

    def mean(name: str, figure: str) -> float:
        return sum(float(ledger[figure]) for ledger in ledgers[name]) / len(ledgers[name])

    assert 2_500 <= mean("RELEAF", "labels") <= 2_760
    assert mean("RELEAF", "exploitation_error") <= 2.15
    assert mean("RELEAF-ALL", "exploitation_error") <= 1.5
    assert max(ledger["labels"] for ledger in ledgers["AdaptiveReleaf"]) <= 1_000
    assert mean("AdaptiveReleaf", "error") < mean("RELEAF", "exploitation_error")


def test_nothing_is_wider_than_an_ordinary_terminal(demo: str) -> None:
    assert max(map(len, demo.splitlines())) <= 80


def test_output_that_is_no_terminal_has_no_progress_bar(demo: str) -> None:
    assert "compiling" not in demo
    assert "\x1b" not in demo


@pytest.mark.parametrize("command", ["demo", "warmup"])
def test_help_shows_an_example(command: str) -> None:
    assert f"Example: releaf {command}" in run(command, "--help")


def test_version() -> None:
    assert run("--version").strip() == f"releaf {__version__}"


def test_warmup_compiles_the_kernels_of_all_policies() -> None:
    assert "ready, for any number of actions" in run("warmup", "--actions", "2")  # an option of version 0.1


def test_a_wrong_option_is_an_error_with_a_hint() -> None:
    result = CliRunner().invoke(app, ["demo", "--seeds", "0"], env=WIDE)
    assert result.exit_code == 2
    assert "--seeds" in result.output
