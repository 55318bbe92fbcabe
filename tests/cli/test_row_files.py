"""`releaf decide` and `releaf reward` over files of all kinds, and the errors of files that can't be read."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import releaf
from releaf.cli import app

WIDE = {"COLUMNS": "200", "NO_COLOR": "1"}
SCHEMA = releaf.Schema(age=releaf.Continuous(0, 100), plan=releaf.Categorical("a", "b", missing=True))
PEOPLE = pl.DataFrame({"plan": ["a", "b", None, "a"], "age": [20.0, 70.0, 35.5, 120.0], "name": ["k", "l", "m", "n"]})


def run(*arguments: str | Path, expect: int = 0, text: str | bytes | None = None) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env=WIDE, input=text)
    assert result.exit_code == expect, result.output + result.stderr
    return result


@pytest.fixture
def model(tmp_path: Path) -> Path:
    releaf.LinUCB(["news", "sport"], SCHEMA, seed=0).save(tmp_path / "m.releaf")
    return tmp_path / "m.releaf"


# --- decide -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather"])
def test_decide_reads_tables_as_it_reads_csv(model: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"people.{suffix}"
    PEOPLE.write_parquet(path) if suffix == "parquet" else PEOPLE.write_ipc(path)
    PEOPLE.write_csv(tmp_path / "people.csv")
    of_table = run("decide", model, path, expect=1)
    of_csv = run("decide", model, tmp_path / "people.csv", expect=1)
    tables, lines = (list(csv.DictReader(io.StringIO(found.stdout))) for found in (of_table, of_csv))
    assert [row.pop("row") for row in tables] == ["0", "1", "2"]
    assert [row.pop("line") for row in lines] == ["2", "3", "4"]
    assert tables == lines
    assert f"{path}, row 3: " in of_table.stderr
    assert "feature 'age' is 120.0" in of_table.stderr
    assert json.loads(run("decide", model, path, "--json", expect=1).stdout.splitlines()[1])["row"] == 1


def test_decide_tells_the_group_where_there_is_a_control_group(tmp_path: Path) -> None:
    path, people = tmp_path / "m.releaf", tmp_path / "people.csv"
    releaf.LinUCB(["news", "sport"], 1, seed=0, control_share=0.5).save(path)
    people.write_text("x0\n" + "0.5\n" * 20)
    rows = [json.loads(line) for line in run("decide", path, people, "--json").stdout.splitlines()]
    assert {row["group"] for row in rows} == {"learner", "control"}
    releaf.LinUCB(["news", "sport"], 1, seed=0).save(path)
    assert "group" not in run("decide", path, people, "--json").stdout


def test_a_table_that_lacks_a_feature_is_told(model: Path, tmp_path: Path) -> None:
    PEOPLE.select("age").write_parquet(tmp_path / "p.parquet")
    assert "p.parquet has no column 'plan'; it has age" in run("decide", model, tmp_path / "p.parquet", expect=1).stderr


def test_a_file_without_rows_has_the_header_of_decisions(model: Path) -> None:
    assert run("decide", model, text="age,plan\n").stdout == "line,id,action,probability,explored,wants_reward\n"


# --- reward -------------------------------------------------------------------------------------------------------


def decided(model: Path, tmp_path: Path) -> list[dict[str, Any]]:
    PEOPLE[:3].write_csv(tmp_path / "people.csv")
    return list(csv.DictReader(io.StringIO(run("decide", model, tmp_path / "people.csv", "--save").stdout)))


def written(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def by_hand(rows: list[dict[str, Any]], rewards: list[float]) -> releaf.LinUCB:
    bandit = releaf.LinUCB(["news", "sport"], SCHEMA, seed=0)
    for row in PEOPLE[:3].iter_rows(named=True):
        bandit.decide({name: row[name] for name in SCHEMA.names})
    for row, reward in zip(rows, rewards, strict=True):
        bandit.learn(int(row["id"]), reward)
    return bandit


def estimates(bandit: Any) -> Any:
    return bandit.estimate([[20.0, "a"], [70.0, "b"]]).tolist()


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "stdin"])
def test_the_decisions_of_a_file_are_rewarded_later(model: Path, tmp_path: Path, kind: str) -> None:
    rows = decided(model, tmp_path)
    rewards = [1.0, 0.25, 0.5]
    known: list[dict[str, Any]] = [{**row, "reward": reward} for row, reward in zip(rows, rewards, strict=True)]
    path = tmp_path / f"rewards.{kind}"
    if kind == "json":
        path.write_text("".join(json.dumps({"id": int(row["id"]), "reward": row["reward"]}) + "\n" for row in known))
    elif kind == "parquet":
        pl.DataFrame({"id": [int(row["id"]) for row in rows], "reward": rewards}).write_parquet(path)
    else:
        path.write_text(written(known))
    shown = run("reward", model, text=path.read_text()) if kind == "stdin" else run("reward", model, path)
    assert f"{model} has learnt 3 rewards; 0 decisions pending." in shown.stdout
    assert estimates(releaf.load(model)) == estimates(by_hand(rows, rewards))


def test_rows_without_a_reward_wait_and_unusable_ones_are_named(model: Path, tmp_path: Path) -> None:
    rows = decided(model, tmp_path)
    text = (
        f"id,reward\n{rows[0]['id']},1\n{rows[1]['id']},\n99,1\n{rows[2]['id']},many\n{rows[0]['id']},1\nx,1\n1.5,1\n"
    )
    result = run("reward", model, "--json", text=text, expect=1)
    told = json.loads(result.stdout)
    assert told == {
        "model": str(model),
        "learnt": 1,
        "without_reward": 1,
        "unusable": 5,
        "pending": 2,
        "labels_left": None,
    }
    for line, why in ((4, "99"), (5, "reward is 'many': expected a number"), (6, "decision 1"), (7, "id is 'x'")):
        assert any(f"stdin, line {line}: " in shown and why in shown for shown in result.stderr.splitlines()), line
    assert "stdin, line 8: id is '1.5': expected the id of a decision" in result.stderr
    assert estimates(releaf.load(model)) == estimates(by_hand(rows[:1], [1.0]))


def test_the_action_that_was_taken_instead_is_rewarded(model: Path, tmp_path: Path) -> None:
    row = decided(model, tmp_path)[0]
    other = "sport" if row["action"] == "news" else "news"
    run("reward", model, text=f"id,action,reward\n{row['id']},{other},1\n")
    bandit = by_hand([], [])
    bandit.learn(int(row["id"]), 1.0, other)
    assert estimates(releaf.load(model)) == estimates(bandit)


def test_a_budget_tells_what_is_left_and_the_model_may_be_another_file(tmp_path: Path) -> None:
    bandit = releaf.AdaptiveReleaf([1, 2], 2, seed=0, label_budget=10)
    choice = bandit.decide([0.5, 0.5])
    bandit.save(tmp_path / "m.releaf")
    before = (tmp_path / "m.releaf").read_bytes()
    arguments = ("reward", tmp_path / "m.releaf", "-o", tmp_path / "n.releaf")
    shown = run(*arguments, text=f"id,action,reward\n{choice.id},{choice.action},1\n").stdout
    assert "has learnt 1 reward; 0 decisions pending. 9 labels are left." in shown
    assert (tmp_path / "m.releaf").read_bytes() == before
    assert releaf.load(tmp_path / "n.releaf").observations == 1


@pytest.mark.parametrize("given", ["2.5", "price"])
def test_labels_cost_a_number_or_what_a_column_says(tmp_path: Path, given: str) -> None:
    releaf.AdaptiveReleaf([1, 2], 2, seed=0, label_budget=10).save(tmp_path / "m.releaf")
    rows = "x0,x1,price\n0.5,0.5,2.5\n0.1,0.2,\n0.1,0.2,cheap\n"
    arguments = ("decide", tmp_path / "m.releaf", "--label-cost", given, "--save", "--json")
    shown = run(*arguments, text=rows, expect=1 if given == "price" else 0)
    known = [json.loads(line)["label_cost"] for line in shown.stdout.splitlines()]
    assert known == ([2.5, 1.0] if given == "price" else [2.5] * 3)
    assert ("price is 'cheap': expected what the label costs, a number" in shown.stderr) == (given == "price")
    bandit = releaf.load(tmp_path / "m.releaf")
    assert bandit.label_cost_spent == sum(known[: bandit.labels_spent])


def test_a_learner_without_a_budget_takes_no_cost_of_labels(model: Path) -> None:
    shown = run("decide", model, "--label-cost", "2", text="age,plan\n20,a\n", expect=1)
    assert "LinUCB takes no label_cost: AdaptiveReleaf with label_budget or observation_cost does" in shown.stderr


def test_rewards_of_all_actions_come_as_json(tmp_path: Path) -> None:
    bandit = releaf.AdaptiveReleaf(["a", "b"], 2, seed=0, observe="labels")
    choice = bandit.decide([0.5, 0.5])
    bandit.save(tmp_path / "m")
    shown = run("reward", tmp_path / "m", text=f"id,reward\n{choice.id},1\n", expect=1).stderr
    assert "the learner needs the rewards of all actions: expected JSON lines" in shown
    run("reward", tmp_path / "m", text=json.dumps({"id": choice.id, "reward": {"a": 0, "b": 1}}))
    assert releaf.load(tmp_path / "m").pending == 0


# --- files that can't be read -------------------------------------------------------------------------------------


def commands(model: Path, path: Path) -> list[tuple[str | Path, ...]]:
    """Every command that reads tables or texts."""
    log = ("--action", "plan", "--reward", "age")
    return [
        ("schema", path),
        ("train", path, *log, "-o", path.parent / "new.releaf"),
        ("decide", model, path),
        ("reward", model, path),
        ("evaluate", path, *log, "--probability", "p"),
        ("compare", "LinUCB", "--table", f"{path}:plan", "--workers", "1", "--store", path.parent / "runs"),
    ]


LATIN = "age,plan,name\n20,a,Jos\xe9\n".encode("latin1")
FILES = {
    "latin.csv": (LATIN, "is not UTF-8 text: it has the byte 0xe9. Save it as UTF-8, or convert it: iconv"),
    "latin.csv.gz": (gzip.compress(LATIN), "is not UTF-8 text: it has the byte 0xe9"),
    "wide.csv": ("age,plan\n20,a\n".encode("utf-16"), "is UTF-16 text: save it as UTF-8"),
    "parquet.csv": (b"PAR1....PAR1", "is a Parquet file: rename it to end in .parquet"),
    "arrow.csv": (b"ARROW1....", "is an Arrow file: rename it to end in .arrow"),
    "gzip.csv": (gzip.compress(b"age,plan\n20,a\n"), "is compressed with gzip: rename it to end in .gz"),
    "sheet.csv": (b"PK\x03\x04....", "is a spreadsheet or a zip archive: export it as CSV"),
    "plain.csv.gz": (b"age,plan\n20,a\n", "is not compressed with gzip, though its name ends in .gz"),
    "text.parquet": (b"age,plan\n20,a\n", "is not a Parquet file, though its name ends in .parquet"),
    "text.arrow": (b"age,plan\n20,a\n", "is not an Arrow file, though its name ends in .arrow"),
    "cut.parquet": (b"PAR1 and no more", "can't be read: "),
    "empty.csv": (b"", "is empty: expected a line with the names of the columns"),
}


@pytest.mark.parametrize("name", FILES)
def test_every_command_names_a_file_that_it_cannot_read_and_says_what_to_do(
    model: Path, tmp_path: Path, name: str
) -> None:
    content, message = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    for arguments in commands(model, path):
        shown = run(*arguments, expect=1).stderr
        assert f"{path} {message}" in shown, (arguments[0], shown)
        assert shown.count(message) == 1, (arguments[0], shown)
        assert "Traceback" not in shown


def test_json_lines_where_a_table_is_expected_are_told(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"age": 20, "plan": "a"}\n')
    for command in ("schema", "train", "evaluate", "compare"):
        (arguments,) = [entry for entry in commands(model, path) if entry[0] == command]
        assert f"{path} looks like JSON: expected CSV" in run(*arguments, expect=1).stderr


@pytest.mark.parametrize("command", ["decide", "reward"])
def test_stdin_that_is_not_utf_8_is_told(model: Path, command: str) -> None:
    assert "stdin is not UTF-8 text: it has the byte 0xe9" in run(command, model, text=LATIN, expect=1).stderr


@pytest.mark.parametrize("content", [b"caf\xe9", b"[features"])
def test_a_schema_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    PEOPLE.write_csv(tmp_path / "p.csv")
    (tmp_path / "s.toml").write_bytes(content)
    given = ("--action", "plan", "--reward", "age", "--schema", tmp_path / "s.toml", "-o", tmp_path / "m")
    shown = run("train", tmp_path / "p.csv", *given, expect=1).stderr
    assert f"Error: {tmp_path / 's.toml'}" in shown
    assert "Traceback" not in shown
