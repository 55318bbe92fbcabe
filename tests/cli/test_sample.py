"""`releaf sample`: the file that it writes, and what the other commands say of it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from releaf.cli import app
from releaf.streams import planted_log

WIDE = {"COLUMNS": "120", "NO_COLOR": "1"}


def run(*arguments: str | Path | int, expect: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env=WIDE)
    assert result.exit_code == expect, result.output + result.stderr
    return result


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_command_alone_writes_a_file_that_the_next_one_takes() -> None:
    shown = run("sample", "--rows", 400).stdout
    assert "clicks.csv has 400 visits, 5 of them broken" in shown
    assert "on sport  by at: weekday and age" in shown
    following = shown.split("Next: releaf ")[1].split()
    assert following == ["train", "clicks.csv", "-o", "clicks.releaf", "--skip-bad"]
    assert "learnt 395 rows" in run(*following).stdout


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_every_broken_row_is_one_that_training_names_and_no_other(name: str) -> None:
    told = json.loads(run("sample", "-o", name, "--rows", "600", "--broken", "7", "--json").stdout)
    assert told["relevant"] == {action: list(names) for action, names in planted_log(1).relevant.items()}
    assert "With --skip-bad" in run("train", name, "-o", "m", expect=1).stderr
    report = json.loads(run("train", name, "-o", "m", "--skip-bad", "--json").stdout)
    unit = "line" if name.endswith("csv") else "row"
    assert [problem[unit] for problem in report["problems"]] == [problem[unit] for problem in told["broken"]]
    assert report["learnt"] == 593
    assert len({problem["problem"].split("'")[1] for problem in report["problems"] if "'" in problem["problem"]}) >= 2


def test_csv_and_parquet_hold_the_values_of_the_function() -> None:
    run("sample", "-o", "a.csv", "--rows", 50, "--broken", 0, "--seed", 4)
    run("sample", "-o", "a.parquet", "--rows", 50, "--broken", 0, "--seed", 4)
    columns = planted_log(50, 4).columns
    with open("a.csv", encoding="utf-8", newline="") as file:
        texts = list(csv.DictReader(file))
    table = pq.read_table("a.parquet").to_pydict()
    assert list(texts[0]) == list(table) == list(columns)
    for name, column in columns.items():
        expected = [None if value != value else value for value in column.tolist()]
        assert table[name] == expected
        assert [row[name] for row in texts] == ["" if value is None else str(value) for value in expected]


def test_the_first_rows_are_sound_so_that_head_shows_and_decides_them() -> None:
    run("sample", "--rows", 100, "--broken", 20)
    with open("clicks.csv", encoding="utf-8", newline="") as file:
        assert [row["action"] in planted_log(1).actions for row in csv.DictReader(file)][:3] == [True] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "log.xlsx"], "--output is 'log.xlsx': expected a name that ends in .csv or .parquet"),
        (["--rows", "5"], "--broken is 5: expected fewer than the 5 rows"),
        (["-o", "there.csv"], "there.csv exists: name another file with --output, or replace it with --force"),
    ],
)
def test_what_cannot_be_written_is_said_and_changes_nothing(arguments: list[str], message: str) -> None:
    Path("there.csv").write_text("mine")
    assert message in run("sample", *arguments, expect=1).stderr
    assert [path.name for path in Path().iterdir()] == ["there.csv"]
    assert Path("there.csv").read_text() == "mine"


def test_a_file_is_replaced_if_that_is_asked_for() -> None:
    Path("clicks.csv").write_text("old")
    run("sample", "--force", "--rows", 10, "--broken", 0)
    assert len(Path("clicks.csv").read_text().splitlines()) == 11
