"""A table as people have it goes through all commands without an edit: dates, ids, 300 cities, gaps, broken rows."""

from __future__ import annotations

import csv
import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import releaf
from releaf import streams
from releaf.cli import app

ROWS = 6_000
HEADER = ["user_id", "date", "city", "age", "newsletter", "country", "p", "action", "reward"]
FIRST, LAST = date(2024, 1, 1), date(2024, 10, 26)
# Row of the file (the header is line 1), the column, what is written there, and what is said of it.
BROKEN = {
    52: (None, None, "4 fields, expected 9"),
    102: ("age", "old", "feature 'age' is 'old': expected a finite number"),
    152: ("date", "31/02/2024", "feature 'date' is '31/02/2024': expected a date or a time, such as 2024-01-31"),
    202: ("reward", "9", "'reward' is 9.0: expected a number from 0 to 1"),
    252: ("action", "", "'action' is "),
}


def run(*arguments: str | Path, expect: int = 0) -> Any:
    environment = {"COLUMNS": "120", "NO_COLOR": "1"}
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env=environment)
    assert result.exit_code == expect, result.output + result.stderr
    return result


def messy_rows(seed: int = 0) -> list[list[Any]]:
    """Mails are read on weekends, calls are welcome in cities of even numbers; nothing else matters."""
    draw = np.random.default_rng(seed)
    days = np.sort(draw.integers(0, (LAST - FIRST).days + 1, ROWS))
    rows = []
    for day in days.tolist():
        when, city = FIRST + timedelta(days=day), int(draw.integers(0, 300))
        action = str(draw.choice(["mail", "call"], p=[0.6, 0.4]))
        chance = (0.7 if when.weekday() >= 5 else 0.1) if action == "mail" else (0.75 if city % 2 == 0 else 0.1)
        age = "" if draw.random() < 0.1 else "NA" if draw.random() < 0.02 else int(draw.integers(18, 80))
        place = "" if draw.random() < 0.03 else f"City {city:03d}"
        known = [int(draw.integers(1, 4_000)), when, place, age, draw.choice(["yes", "No", "Y", "n"]), "DE"]
        rows.append([*known, 0.6 if action == "mail" else 0.4, action, int(draw.random() < chance)])
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made, rows = tmp_path_factory.mktemp("messy"), messy_rows()
    for line, (column, text, _) in BROKEN.items():
        if column is None:
            rows[line - 2] = rows[line - 2][:4]
        else:
            rows[line - 2][HEADER.index(column)] = text
    with (made / "log.csv").open("w", newline="") as file:
        csv.writer(file).writerows([HEADER, *rows])
    later = [
        [1, "2025-03-01", "City 001", 33, "yes", "DE"],  # a Saturday, and an odd city
        [2, "2025-03-04", "City 002", 33, "no", "DE"],  # a Tuesday, and an even city
        [3, "2031-12-31", "Newtown", "", "no", "FR"],  # a city and a country that never came before
    ]
    with (made / "later.csv").open("w", newline="") as file:
        csv.writer(file).writerows([HEADER[:6], *later])
    run("schema", made / "log.csv", "-o", made / "schema.toml")
    run("train", made / "log.csv", "--schema", made / "schema.toml", "--skip-bad", "-o", made / "model.releaf")
    return made


def test_the_schema_tells_what_it_took_and_what_it_left_out(folder: Path) -> None:
    told = run("schema", folder / "log.csv", "-o", folder / "again.toml").stderr.splitlines()
    assert told[:9] == [
        "Features, guessed from the first rows:",
        "  date        date from 2024-01-01 to 2024-10-26: trend, weekday",
        '  city        300 categories and "other" (has high cardinality, 300 different texts in '
        f"{told[2].rsplit(' in ', 1)[1]}",
        "  age         number",
        "  newsletter  boolean",
        "Left out (--keep makes a column a feature all the same):",
        told[6],
        "  country     is always 'DE'",
        "  p           looks like a propensity, by its name and its values in [0, 1]",
    ]
    assert told[6].startswith("  user_id     has 3,")
    assert told[6].endswith("different whole numbers in 5,997 rows, like an identifier")
    assert told[9] == "3 unusable rows were skipped:"
    schema = releaf.Schema.from_toml((folder / "schema.toml").read_text())
    assert schema.inputs["date"] == releaf.DateTime(FIRST, LAST, ["trend", "weekday"], missing=True)
    assert schema.inputs["newsletter"] == releaf.Boolean(missing=True)
    assert schema.names == ("date: trend", "date: weekday", "city", "age", "newsletter")


def test_training_without_a_schema_tells_the_same_and_learns_the_same(folder: Path) -> None:
    result = run("train", folder / "log.csv", "--skip-bad", "-o", folder / "guessed.releaf")
    told = run("schema", folder / "log.csv", "-o", folder / "again.toml").stderr.splitlines()
    assert result.stderr.splitlines()[:9] == told[:9]
    one, other = releaf.load(folder / "model.releaf"), releaf.load(folder / "guessed.releaf")
    assert one.schema == other.schema
    row = [["2025-03-01", "City 001", 33, True]]
    assert np.array_equal(one.estimate(row), other.estimate(row))


def test_broken_rows_stop_with_their_line_and_the_option_that_skips_them(folder: Path) -> None:
    log, schema = str(folder / "log.csv"), str(folder / "schema.toml")
    for options in (["train", log, "-o", str(folder / "no.releaf")], ["evaluate", log, "--probability", "p"]):
        given = [*options, "--schema", schema]
        told = run(*given, expect=1).stderr
        assert f"{folder / 'log.csv'}, line 52: 4 fields, expected 9" in told
        assert "With --skip-bad, unusable rows are skipped and listed." in told
        skipped = run(*given, "--skip-bad").stderr
        assert "5 unusable rows were skipped" in skipped
        for line, (_, _, why) in BROKEN.items():
            assert f"line {line}: {why}" in skipped


def test_future_dates_and_new_cities_are_decided(folder: Path) -> None:
    lines = run("decide", folder / "model.releaf", folder / "later.csv").stdout.splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == ["2", "3", "4"]
    assert [line.split(",")[2] for line in lines[1:3]] == ["mail", "call"]


def test_relevance_and_explanation_find_what_was_planted(folder: Path) -> None:
    shares = json.loads(run("relevance", folder / "model.releaf", "--json").stdout)
    assert shares["mail"]["date: weekday"] > 0.9
    assert shares["call"]["city"] > 0.9
    context = {"date": "2025-03-01", "city": "City 001", "age": None, "newsletter": "Yes", "country": "DE"}
    told = run("explain", folder / "model.releaf", json.dumps(context)).stdout
    assert "date: weekday = Saturday" in told
    assert "city = City 001" in told
    assert run("explain", folder / "model.releaf", "2025-03-01,City 001,,yes").stdout == told


def test_a_row_of_a_file_is_explained_by_the_number_that_decide_prints(folder: Path) -> None:
    model = folder / "model.releaf"
    told = run("explain", model, folder / "later.csv", "--row", "2").stdout
    assert told == run("explain", model, "2025-03-01,City 001,33,yes").stdout
    texts = {"user_id": "1", "date": "2025-03-01", "city": "City 001", "age": "33", "newsletter": "yes"}
    assert run("explain", model, json.dumps(texts)).stdout == told
    assert "has no line 9 with values" in run("explain", model, folder / "later.csv", "--row", "9", expect=1).stderr
    assert "name one of its rows with --row" in run("explain", model, folder / "later.csv", expect=1).stderr


def test_rows_with_gaps_are_decided_where_the_log_had_none(folder: Path) -> None:
    (folder / "gaps.csv").write_text("date,city,age,newsletter\n,City 001,33,yes\n2025-03-01,,,\n")
    assert len(run("decide", folder / "model.releaf", folder / "gaps.csv").stdout.splitlines()) == 3


def test_the_only_column_that_looks_like_propensities_is_used_and_named(folder: Path, tmp_path: Path) -> None:
    options = ("--skip-bad", "--policy", "UCB1", "--json")
    found = run("evaluate", folder / "log.csv", *options)
    assert "Propensities: column 'p', by its name and its values." in found.stderr
    assert found.stdout == run("evaluate", folder / "log.csv", "--probability", "p", *options).stdout
    lines = (folder / "log.csv").read_text().splitlines()
    twice = [f"{line},{'prob' if not row else 0.5}" for row, line in enumerate(lines[:40])]
    (tmp_path / "two.csv").write_text("\n".join(twice))
    told = run("evaluate", tmp_path / "two.csv", *options, expect=1).stderr
    assert "name it with --probability (such as 'p' or 'prob'), or estimate them" in " ".join(told.split())


def test_a_log_sorted_by_action_is_named_and_shuffled_on_request(folder: Path, tmp_path: Path) -> None:
    header, *lines = (folder / "log.csv").read_text().splitlines()
    ordered = sorted((line for line in lines if line.count(",") == 8), key=lambda line: line.split(",")[7])
    (tmp_path / "sorted.csv").write_text("\n".join([header, *ordered]))
    options = ("--skip-bad", "--policy", "UCB1", "--probability", "p", "--json")
    told = " ".join(run("evaluate", tmp_path / "sorted.csv", *options).stderr.split())
    assert "The halves of the log differ: action" in told
    assert "If the log is sorted, evaluate it with --shuffle." in told
    assert "halves" not in run("evaluate", tmp_path / "sorted.csv", *options, "--shuffle").stderr


def test_policies_are_evaluated_with_and_without_a_schema(folder: Path) -> None:
    options = ("--probability", "p", "--skip-bad", "--policy", "LinUCB", "--json")
    given = run("evaluate", folder / "log.csv", *options, "--schema", folder / "schema.toml").stdout
    guessed = run("evaluate", folder / "log.csv", *options)
    assert json.loads(guessed.stdout) == json.loads(given)
    assert "  user_id     has 3," in guessed.stderr
    own, better = json.loads(given)
    assert better["snips"]["low"] > own["snips"]["high"]
    trained = run("evaluate", folder / "log.csv", *options[:3], "--model", folder / "model.releaf", "--json").stdout
    assert json.loads(trained)[1]["snips"]["low"] > own["snips"]["high"]


def test_a_column_is_kept_on_request(folder: Path) -> None:
    shown = run("schema", folder / "log.csv", "--keep", "p", "--keep", "country", "--json")
    assert [entry["name"] for entry in json.loads(shown.stdout)][-2:] == ["country", "p"]


def test_a_stream_of_the_same_file_leaves_out_the_same_columns(folder: Path) -> None:
    with pytest.warns(UserWarning, match="column 'user_id' was left out: it has"):
        log = streams.log(folder / "log.csv", action="action", reward="reward", probability="p", skip_bad=True)
    assert list(log.features.inputs) == ["date", "city", "age", "newsletter"]
    assert len(log) == ROWS - len(BROKEN)
    assert [line for line, _ in log.problems] == list(BROKEN)


def test_columns_that_are_not_used_break_no_row(tmp_path: Path) -> None:
    """A text in a column of numbers is an error only where the column is a feature."""
    table = pd.DataFrame({"x": np.arange(40) / 7, "note": [str(row) for row in range(40)], "code": ["7", "8"] * 20})
    table.loc[3, "note"] = "see above"
    table.assign(action="a", reward=1).to_csv(tmp_path / "log.csv", index=False)
    schema = releaf.Schema(x=releaf.Continuous(0, 6), code=releaf.Categorical("7", "8", "S"))
    log = streams.log(tmp_path / "log.csv", action="action", reward="reward", features=schema)
    assert log.contexts[3] == [3 / 7, "8"]  # a code of digits stays the category that was declared
    assert len(streams.log(tmp_path / "log.csv", action="action", reward="reward", features=["x"])) == 40
    with pytest.raises(ValueError, match=r"line 5: 'note' is 'see above': expected a number \(97% of the column are\)"):
        streams.log(tmp_path / "log.csv", action="action", reward="reward")


def test_codes_written_as_decimals_are_the_same_category() -> None:
    """As pandas writes whole numbers of a column with missing values."""
    from releaf.streams.csv_columns import parse_column

    feature = releaf.Categorical(1, 2, "S", missing=True, other=True)
    assert parse_column(["1", "2.0", "S", "3.5", "", "x"], feature) == [1, 2, "S", "3.5", None, "x"]
    assert parse_column(["yes", "NA", "n/a", "0"], releaf.Boolean(missing=True)) == ["yes", None, None, "0"]
    assert parse_column(["none", "2"], None) == ["none", 2.0]  # an action may be called so
