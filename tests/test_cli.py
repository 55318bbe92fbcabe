"""The commands, as a person sees them."""

from __future__ import annotations

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
    command = [sys.executable, "-m", "releaf", "demo", "--seeds", "2", "--steps", "50000"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


def test_the_demo_shows_each_learner_with_the_papers_figures_below(demo: str) -> None:
    for name, error, labels in (
        ("RELEAF", 1.88, "2,630"),
        ("RELEAF-ALL", 1.24, "50,000"),
        ("RELEAF-FO", 1.68, "2,630"),
    ):
        ours = next(line for line in demo.splitlines() if line.split()[:1] == [name])
        paper = demo.splitlines()[demo.splitlines().index(ours) + 1]
        assert paper.split()[:3] == ["the", "paper", f"{error}"]
        assert labels in paper
        assert 0 < float(ours.split()[1]) < 6


def test_the_demo_asks_for_about_as_many_labels_as_the_paper(demo: str) -> None:
    ours = next(line for line in demo.splitlines() if line.split()[:1] == ["RELEAF"])
    labels = int(re.findall(r"\d,\d{3}", ours)[0].replace(",", ""))
    assert 2_500 < labels < 3_000


def test_the_demo_shows_all_features_the_most_relevant_first(demo: str) -> None:
    relevance = demo[demo.index("Relevance to") :]
    shares = [int(share) for share in re.findall(r"^\s+[a-z ]+?\s+(\d+) ", relevance, flags=re.MULTILINE)]
    assert len(shares) == 9
    assert shares == sorted(shares, reverse=True)
    assert 95 <= sum(shares) <= 105
    first = next(line for line in relevance.splitlines() if "█" in line)
    assert "cell shape uniformity" in first


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


def test_warmup_compiles_for_the_numbers_of_actions_asked_for() -> None:
    assert "RELEAF's for 2 actions" in run("warmup", "--actions", "2")


def test_a_wrong_option_is_an_error_with_a_hint() -> None:
    result = CliRunner().invoke(app, ["demo", "--seeds", "0"], env=WIDE)
    assert result.exit_code == 2
    assert "--seeds" in result.output
