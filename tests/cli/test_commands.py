"""The commands for files: schema, train, decide, relevance, explain, evaluate, compare, doctor."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import releaf
from releaf import evaluate, streams
from releaf.cli import COMMANDS, app
from releaf.train import learn_file

WIDE = {"COLUMNS": "120", "NO_COLOR": "1"}
ROWS = 3_000


def run(*arguments: str | Path, expect: int = 0, text: str | None = None) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env=WIDE, input=text)
    assert result.exit_code == expect, result.output + result.stderr
    return result


def told(*arguments: str | Path, **further: Any) -> Any:
    return json.loads(run(*arguments, "--json", **further).stdout)


def clicks(rows: int = ROWS, seed: int = 0) -> pl.DataFrame:
    """A log in which "sport" pleases the young, and "news" those with plan b; nothing else matters."""
    draw = np.random.default_rng(seed)
    age, plan = draw.uniform(18, 80, rows), draw.choice(["a", "b"], rows)
    shown = draw.choice(["news", "sport"], rows)
    likes = np.where(shown == "sport", 0.1 + 0.8 * (age < 40), 0.1 + 0.8 * (plan == "b"))
    return pl.DataFrame(
        {
            "age": age,
            "plan": plan,
            "member": draw.random(rows) < 0.5,
            "noise": draw.normal(size=rows),
            "shown": shown,
            "clicked": (draw.random(rows) < likes).astype(float),
            "p": np.full(rows, 0.5),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("files")
    clicks().write_parquet(made / "log.parquet")
    clicks().write_csv(made / "log.csv")
    arguments = ("--action", "shown", "--reward", "clicked", "--leave-out", "p", "-o", made / "log.releaf")
    run("train", made / "log.parquet", *arguments)
    return made


COLUMNS = ("--action", "shown", "--reward", "clicked", "--leave-out", "p")


@pytest.mark.parametrize("command", [manual.command.__name__ for manual in COMMANDS])
def test_every_command_shows_an_example_and_speaks_json(command: str) -> None:
    shown = run(command, "--help").output
    assert f"releaf {command}" in shown[shown.index("Example: ") :]
    assert "--json" in shown or command == "serve"  # which prints logs


# --- schema ---------------------------------------------------------------------------------------------------


def test_a_schema_is_guessed_edited_and_used(folder: Path, tmp_path: Path) -> None:
    leave_out = [part for name in ("shown", "clicked", "p") for part in ("--leave-out", name)]
    text = run("schema", folder / "log.csv", *leave_out).stdout
    schema = releaf.Schema.from_toml(text)
    assert schema == releaf.Schema(
        age=releaf.Quantile(missing=True),
        plan=releaf.Categorical("a", "b", missing=True, other=True),
        member=releaf.Boolean(missing=True),
        noise=releaf.Quantile(missing=True),
    )
    assert told("schema", folder / "log.parquet", *leave_out) == schema.to_dict()
    edited = tmp_path / "schema.toml"
    edited.write_text(re.sub(r'\[features."noise"\].*?\n\n?$', "", text, flags=re.DOTALL))
    run("train", folder / "log.csv", *COLUMNS, "--schema", edited, "-o", tmp_path / "m.releaf")
    assert releaf.load(tmp_path / "m.releaf").schema.names == ("age", "plan", "member")


# --- train ----------------------------------------------------------------------------------------------------


def test_a_folder_where_a_file_is_wanted_is_told(tmp_path: Path) -> None:
    assert f"{tmp_path} is a folder: expected a file" in run("schema", tmp_path, expect=1).stderr


def test_csv_and_parquet_teach_the_same_as_memory(folder: Path, tmp_path: Path) -> None:
    run("train", folder / "log.csv", *COLUMNS, "-o", tmp_path / "csv.releaf")
    learners = [releaf.load(folder / "log.releaf"), releaf.load(tmp_path / "csv.releaf")]
    table = clicks()
    features = table.select("age", "plan", "member", "noise")
    memory = releaf.AdaptiveReleaf(["news", "sport"], learners[0].schema, seed=0)
    memory.learn_log(features, table["shown"], table["clicked"])
    expected = memory.estimate(features[:50])
    for learner in learners:
        assert learner.observations == ROWS
        assert np.array_equal(learner.estimate(features[:50]), expected)


@pytest.mark.parametrize("size", [1, 7, 1_000, ROWS, 10 * ROWS])
def test_the_size_of_batches_does_not_matter(folder: Path, size: int) -> None:
    learner = releaf.LinUCB(["news", "sport"], releaf.Schema(age=releaf.Continuous(18, 80)), seed=0)
    other = releaf.LinUCB(["news", "sport"], releaf.Schema(age=releaf.Continuous(18, 80)), seed=0)
    learn_file(learner, folder / "log.parquet", action="shown", reward="clicked", size=size)
    other.learn_log(clicks().select("age"), clicks()["shown"], clicks()["clicked"])
    assert np.array_equal(learner.estimate([[20.0], [70.0]]), other.estimate([[20.0], [70.0]]), equal_nan=True)


def broken(folder: Path, tmp_path: Path) -> Path:
    lines = (folder / "log.csv").read_text().splitlines()
    lines[3] = lines[3].replace(lines[3].split(",")[0], "old", 1)  # no age
    lines[10] = "1,2,3"
    lines[20] = lines[20].replace(",news,", ",,").replace(",sport,", ",,")
    fields = lines[30].split(",")
    fields[5] = "7.5"
    lines[30] = ",".join(fields)
    path = tmp_path / "broken.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


EXPECTED = {
    4: "feature 'age' is 'old': expected a finite number",
    11: "3 fields, expected 7 as in the header: fields are missing, or a line break within a field is not in quotes",
    21: "'shown' is missing: expected an action",
    31: "'clicked' is 7.5: expected a number from 0 to 1 (or another reward range)",
}


def test_the_first_broken_row_stops_and_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    leave = releaf.load(folder / "log.releaf").schema.to_toml()
    (tmp_path / "s.toml").write_text(leave)
    arguments = (*COLUMNS, "--schema", tmp_path / "s.toml", "-o", tmp_path / "m.releaf")
    path = broken(folder, tmp_path)
    result = run("train", path, *arguments, expect=1)
    assert f"{path}, line 4: {EXPECTED[4]}" in result.stderr
    assert not (tmp_path / "m.releaf").exists()
    report = told("train", path, *arguments, "--skip-bad")
    assert report["learnt"] == ROWS - 4
    assert {entry["line"]: entry["problem"] for entry in report["problems"]} == EXPECTED
    shown = run("train", path, *arguments, "--skip-bad").stderr
    assert "4 unusable rows were skipped" in shown
    for line, why in EXPECTED.items():
        assert f"line {line}: {why}" in shown


def test_training_goes_on_and_learns_new_actions(folder: Path, tmp_path: Path) -> None:
    clicks(500, seed=1).with_columns(shown=pl.lit("arts")).write_parquet(tmp_path / "more.parquet")
    report = told("train", tmp_path / "more.parquet", *COLUMNS, "--go-on", folder / "log.releaf", "-o", tmp_path / "m")
    assert report["actions"] == ["news", "sport", "arts"]
    assert releaf.load(tmp_path / "m").observations == ROWS + 500


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--action", "done"], "has no column 'done'; it has age, plan"),
        (["--policy", "Magic"], "there is no policy 'Magic'; expected one of"),
        (["--policy", "Random"], "Random can't learn from a log"),
        (["--option", "optimism"], "expected name=value"),
        (["--option", "optimism=-1"], "optimism must be"),
        (["--option", "optimsm=1"], "AdaptiveReleaf has no option 'optimsm'; it has seed, observe, label_budget"),
        (["--reward-range", "2", "3"], "'clicked' is"),
    ],
)
def test_what_cannot_be_trained_is_said(folder: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    result = run("train", folder / "log.parquet", *COLUMNS, *arguments, "-o", tmp_path / "m", expect=1)
    assert message in result.stderr
    assert not (tmp_path / "m").exists()


def misspelt(tmp_path: Path, line: int = 7) -> Path:
    """A log with one misspelt action."""
    text = clicks().write_csv().splitlines()
    text[line - 1] = text[line - 1].replace("sport", "sprot").replace("news", "nwes")
    (tmp_path / "log.csv").write_text("\n".join(text))
    return tmp_path / "log.csv"


def test_a_misspelt_action_is_seen_and_left_out(tmp_path: Path) -> None:
    log = misspelt(tmp_path)
    shown = run("train", log, *COLUMNS, "-o", tmp_path / "m")
    wrong = next(name for name in releaf.load(tmp_path / "m").actions if name in ("sprot", "nwes"))
    assert re.search(rf"  {wrong} +1  [01]\.0000", shown.stdout)
    assert re.search(r"  news +1,\d\d\d  0\.\d{4}", shown.stdout)
    assert f"{wrong!r} has 1 row: is it misspelt? Leave it out with --actions news,sport --skip-bad" in shown.stderr
    chosen = (*COLUMNS, "--actions", "sport,news", "-o", tmp_path / "m")
    assert (
        f"line 7: 'shown' is {wrong!r}: expected one of ('sport', 'news')"
        in run("train", log, *chosen, expect=1).stderr
    )
    report = told("train", log, *chosen, "--skip-bad")
    assert (report["actions"], report["learnt"], report["left_out"]) == (["sport", "news"], ROWS - 1, 1)
    assert {name: rows["rows"] for name, rows in report["by_action"].items()} == {
        name: clicks().filter((pl.col("shown") == name) & (pl.int_range(pl.len()) != 5)).height
        for name in ("news", "sport")
    }
    assert "misspelt?" not in run("train", log, *chosen, "--skip-bad").stderr
    assert (
        "have no action 'sprt'; they have"
        in run("train", log, *COLUMNS, "--actions", "sprt", "-o", "m", expect=1).stderr
    )


def test_a_misspelt_action_is_left_out_of_a_parallel_fit(tmp_path: Path) -> None:
    pl.read_csv(misspelt(tmp_path)).write_parquet(tmp_path / "log.parquet")
    arguments = ("train", tmp_path / "log.parquet", *COLUMNS, "--workers", "1", "-o", tmp_path / "m")
    shown = run(*arguments)
    assert "has 1 row: is it misspelt?" in shown.stderr
    assert re.search(r"  sport +1,\d\d\d  0\.\d{4}", shown.stdout)
    assert "row 5: 'shown' is" in run(*arguments, "--actions", "news,sport", expect=1).stderr
    report = told(*arguments, "--actions", "news,sport", "--skip-bad")
    assert (report["actions"], report["left_out"]) == (["news", "sport"], 1)


def test_a_misspelt_action_of_a_log_to_evaluate_is_named(tmp_path: Path) -> None:
    arguments = ("--action", "shown", "--reward", "clicked", "--probability", "p", "--policy", "AdaptiveReleaf")
    log = misspelt(tmp_path)
    shown = run("evaluate", log, *arguments)
    assert "has 1 row: is it misspelt?" in shown.stderr
    assert re.search(r"AdaptiveReleaf: it takes '(sprot|nwes)' often, which the log has in 0 of", shown.stdout)
    chosen = run("evaluate", log, *arguments, "--actions", "news,sport", "--skip-bad")
    assert "misspelt?" not in chosen.stderr + chosen.stdout


def test_a_column_of_propensities_is_left_out_row_by_row(folder: Path, tmp_path: Path) -> None:
    shown = run("train", folder / "log.csv", "--probability", "p", "-o", tmp_path / "m", expect=1).stderr
    assert "--probability p is not needed: row by row, rewards are not weighted" in shown
    assert "with --leave-out p" in shown


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        (["true", "false"], [False, True]),
        (["1", "2"], [1, 2]),
        (["1", "2", "A"], ["1", "2", "A"]),
        (["07", "7b"], ["07", "7b"]),
    ],
)
def test_actions_of_a_csv_file_mean_the_same_in_all_batches(
    tmp_path: Path, actions: list[str], expected: list[Any]
) -> None:
    lines = [f"{place / 100},{actions[place % len(actions)]},1" for place in range(100)]
    (tmp_path / "a.csv").write_text("x,action,reward\n" + "\n".join(lines) + "\n")
    assert told("train", tmp_path / "a.csv", "-o", tmp_path / "m")["actions"] == expected


def test_blank_lines_records_of_many_lines_and_byte_order_marks(tmp_path: Path) -> None:
    text = '\ufeff"x\',action,reward,note\n0.1,a,1,"one\ntwo"\n\n\n0.2,b,0,ok\n0.3,b,7,ok\n'.replace("x'", 'x"')
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    learner = releaf.LinUCB(["a", "b"], ["x"], seed=0)
    report = learn_file(learner, tmp_path / "a.csv", size=1, skip_bad=True)
    assert report.learnt == 2
    assert [line for line, _ in report.problems] == [7]


def test_what_is_no_log_is_said(tmp_path: Path) -> None:
    cases = {
        "empty.csv": ("", "is empty"),
        "header.csv": ("x,action,reward\n", "has no rows"),
        "semicolons.csv": ("x;action;reward\n1;a;1\n", "expected commas between fields, not ';'"),
        "ids.csv": ("x,action,reward\n" + "".join(f"1,a{n},1\n" for n in range(1_001)), "is it the action"),
        "long.csv": (f"x,action,reward\n1,{'a' * 200_000},1\n", "line 2: field larger than field limit"),
    }
    for name, (text, message) in cases.items():
        (tmp_path / name).write_text(text)
        assert message in run("train", tmp_path / name, "-o", tmp_path / "m", expect=1).stderr
    pl.DataFrame({"x": [], "action": [], "reward": []}).write_parquet(tmp_path / "empty.parquet")
    assert "has no rows" in run("train", tmp_path / "empty.parquet", "-o", tmp_path / "m", expect=1).stderr


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """A log in two files."""
    made = tmp_path / "log"
    made.mkdir()
    for day in range(2):
        clicks(500, day).write_parquet(made / f"{day}.parquet")
    return made


def test_a_folder_is_summed_and_what_it_weighs_is_told(parts: Path, tmp_path: Path) -> None:
    clicks(500, 2).with_columns(pl.lit(1e-5).alias("p")).write_parquet(parts / "2.parquet")
    arguments = ("train", parts, *COLUMNS[:4], "--probability", "p", "-o", tmp_path / "m")
    report = told(*arguments)
    assert (report["learnt"], report["cut"]) == (1500, 500)
    assert "500 rows have a weight above 1,024, which was clipped" in run(*arguments).stderr


def test_a_folder_is_fitted_by_the_policy_that_is_asked_for(parts: Path, tmp_path: Path) -> None:
    arguments = ("train", parts, *COLUMNS, "-o", tmp_path / "m")
    assert told(*arguments)["policy"] == "AdaptiveReleaf"
    assert releaf.load(tmp_path / "m").steps == 1000
    assert told(*arguments, "--policy", "Releaf", "--option", "rho=3")["policy"] == "Releaf"
    assert releaf.load(tmp_path / "m").steps == 1000
    told(*arguments, "--reward-range", "-1", "1", "--workers", "1")
    assert releaf.load(tmp_path / "m").reward_range == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "LinUCB"], "are for AdaptiveReleaf and Releaf: LinUCB learns from one file, row by row"),
        (["--policy", "Magic"], "there is no policy 'Magic'"),
        (["--option", "rho=2"], "AdaptiveReleaf has no option 'rho'; it has seed"),
        (["--go-on", "m.releaf"], "--go-on continues a learner row by row"),
    ],
)
def test_what_cannot_be_fitted_in_parallel_is_said(
    parts: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    assert message in run("train", parts, *COLUMNS, *arguments, "-o", tmp_path / "m", expect=1).stderr


@pytest.mark.parametrize("skip", [(), ("--skip-bad",)])
def test_a_broken_file_of_a_folder_is_named(parts: Path, tmp_path: Path, skip: tuple[str, ...]) -> None:
    content = (parts / "1.parquet").read_bytes()
    for broken in (content[:-50], b"no Parquet"):
        (parts / "1.parquet").write_bytes(broken)
        shown = run("train", parts, *COLUMNS, *skip, "-o", tmp_path / "m", expect=1).stderr
        assert re.search(r"1\.parquet (can't be read|is no Parquet file)", shown)
    shown = run("train", parts / "1.parquet", *COLUMNS, "-o", tmp_path / "m", expect=1).stderr
    assert "1.parquet is not a Parquet file, though its name ends in .parquet" in shown


@pytest.mark.parametrize("where", [("--workers", "2"), ("--ray", "nowhere:1")])
def test_only_parquet_is_summed_in_parts(folder: Path, tmp_path: Path, where: tuple[str, str]) -> None:
    schema = tmp_path / "schema.toml"
    schema.write_text(releaf.Schema(age=releaf.Quantile()).to_toml())
    for further in ((), ("--schema", schema)):
        arguments = (*COLUMNS, *where, *further, "-o", tmp_path / "m")
        shown = run("train", folder / "log.csv", *arguments, expect=1).stderr
        assert "log.csv is no Parquet file" in shown
        assert "releaf train without --workers and --ray" in shown


def test_columns_that_are_not_apart_are_said(parts: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    for log in (parts, parts / "0.parquet"):
        shown = run("train", log, "--action", "shown", "--reward", "shown", "-o", tmp_path / "m", expect=1).stderr
        assert "='shown' is the" in shown
    table = clicks(100).to_arrow()
    twice = pa.table([*table.columns, table["age"]], names=[*table.column_names, "age"])
    parquet.write_table(twice, parts / "0.parquet")
    for log in (parts, parts / "0.parquet"):
        shown = run("train", log, *COLUMNS, "-o", tmp_path / "m", expect=1).stderr
        assert "0.parquet has more than one column 'age'" in shown


def test_folders_that_name_columns_are_said(parts: Path, tmp_path: Path) -> None:
    (parts / "day=1").mkdir()
    for path in (parts / "0.parquet", parts / "1.parquet"):
        path.rename(parts / "day=1" / path.name)
    shown = run("train", parts, "--action", "day", "--reward", "clicked", "-o", tmp_path / "m", expect=1).stderr
    assert "has no column 'day'" in shown
    assert "folders such as 'day=1' are not read: write the column into the files" in shown


def test_too_many_actions_are_refused_in_parts_too(parts: Path, tmp_path: Path) -> None:
    clicks(2_000).with_columns(pl.arange(2_000).alias("shown")).write_parquet(parts / "0.parquet")
    (parts / "1.parquet").unlink()
    for log in (parts, parts / "0.parquet"):
        shown = run("train", log, *COLUMNS, "-o", tmp_path / "m", expect=1).stderr
        assert "different values: is it the action that was taken?" in shown


def test_arrow_files_of_any_batches_are_read_in_parts(folder: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import ipc

    table = clicks().to_arrow()
    for name, rows in (("small.arrow", 7), ("large.arrow", ROWS)):
        with ipc.new_file(tmp_path / name, table.schema) as file:
            for batch in pa.Table.to_batches(table, max_chunksize=rows):
                file.write_batch(batch)
        assert told("train", tmp_path / name, *COLUMNS, "-o", tmp_path / "m")["learnt"] == ROWS


def test_a_learner_to_go_on_with_is_not_made_anew(folder: Path, tmp_path: Path) -> None:
    given = ("--go-on", folder / "log.releaf", "--policy", "LinUCB", "-o", tmp_path / "m")
    assert "--go-on continues a learner unchanged" in run("train", folder / "log.csv", *given, expect=1).stderr


@pytest.mark.parametrize("name", ["none.csv", "none.parquet"])
def test_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    result = run("train", tmp_path / name, "-o", tmp_path / "m", expect=1)
    assert f"there is no file {tmp_path / name}" in result.stderr


# --- decide, relevance, explain ---------------------------------------------------------------------------------

PEOPLE = "age,plan,member,noise\n20,a,true,0.5\n70,b,false,0.1\nold,b,false,0\n70,c,false,0\n70,a\n22,a,true,-0.2\n"


def test_rows_in_decisions_out(folder: Path) -> None:
    result = run("decide", folder / "log.releaf", text=PEOPLE, expect=1)
    lines = result.stdout.splitlines()
    assert lines[0] == "line,id,action,probability,explored,wants_reward"
    assert [line.split(",")[0] for line in lines[1:]] == ["2", "3", "5", "7"]
    assert [line.split(",")[2] for line in lines[1:]][::3] == ["sport", "sport"]
    assert "stdin, line 4: feature 'age' is 'old': expected a finite number" in result.stderr
    assert "line 5" not in result.stderr  # a plan that never came before counts as "other"
    assert "stdin, line 6: 2 fields, expected 4" in result.stderr


def test_rows_of_other_columns_are_refused_before_anything_is_printed(folder: Path) -> None:
    result = run("decide", folder / "log.releaf", text="age,plan\n20,a\n", expect=1)
    assert "stdin has no column 'member'; it has age, plan" in result.stderr
    assert result.stdout == ""


def test_json_in_json_out_and_kept_for_rewards_to_come(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.releaf"
    model.write_bytes((folder / "log.releaf").read_bytes())
    rows = "\n".join(json.dumps({"age": age, "plan": "a", "member": True, "noise": 0.0}) for age in (20, 25))
    decisions = [json.loads(line) for line in run("decide", model, "--save", text=rows).stdout.splitlines()]
    assert [decision["line"] for decision in decisions] == [1, 2]
    assert decisions[0]["action"] == "sport"
    assert set(decisions[0]["estimates"]) == {"news", "sport"}
    assert decisions[0]["relevant"] == ["age"]
    learner = releaf.load(model)
    learner.learn(decisions[0]["id"], 1.0)
    assert learner.pending == 1


def test_relevance_is_shown_drawn_and_told(folder: Path, tmp_path: Path) -> None:
    shown = run("relevance", folder / "log.releaf").stdout
    features = re.findall(r"^ (age|plan|member|noise) ", shown, flags=re.MULTILINE)
    assert sorted(features[:2]) == ["age", "plan"]
    shares = told("relevance", folder / "log.releaf")
    assert shares["sport"]["age"] > 0.9
    assert shares["news"]["plan"] > 0.9
    run("relevance", folder / "log.releaf", "--png", tmp_path / "r.png", "--html", tmp_path / "r.html")
    assert (tmp_path / "r.png").read_bytes()[:4] == b"\x89PNG"
    assert not re.search(r"<script[^>]*src=.http", (tmp_path / "r.html").read_text())


def test_a_policy_without_relevance_says_so(folder: Path, tmp_path: Path) -> None:
    run("train", folder / "log.parquet", *COLUMNS, "--policy", "LinUCB", "-o", tmp_path / "m")
    assert "LinUCB has no relevance" in run("relevance", tmp_path / "m", expect=1).stderr
    assert "LinUCB" not in run("explain", tmp_path / "m", "20,a,true,0").stderr


@pytest.mark.parametrize("row", ["20,a,true,0", '{"age": 20, "plan": "a", "member": true, "noise": 0}'])
def test_a_row_is_explained_and_nothing_changes(folder: Path, row: str) -> None:
    before = (folder / "log.releaf").read_bytes()
    shown = run("explain", folder / "log.releaf", row).stdout
    assert "It would choose 'sport'" in shown
    assert "age" in shown
    assert told("explain", folder / "log.releaf", row)["action"] == "sport"
    assert (folder / "log.releaf").read_bytes() == before


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("20,a", "the row has 2 values, expected 4: age, plan, member, noise"),
        ("{", "the row is no JSON"),
        ("old,a,true,0", "feature 'age' is 'old': expected a finite number"),
    ],
)
def test_a_bad_row_is_refused(folder: Path, row: str, message: str) -> None:
    assert message in run("explain", folder / "log.releaf", row, expect=1).stderr


def test_a_file_that_is_no_model(folder: Path) -> None:
    assert "Error:" in run("relevance", folder / "log.csv", expect=1).stderr


# --- evaluate, compare, doctor ------------------------------------------------------------------------------------


def test_a_log_tells_what_others_would_have_earned(folder: Path) -> None:
    arguments = ("--action", "shown", "--reward", "clicked", "--probability", "p")
    lines = told("evaluate", folder / "log.parquet", *arguments, "--policy", "AdaptiveReleaf", "--policy", "UCB1")
    own, ours, blind = lines
    assert own["policy"] == "the log's own"
    for method in ("ips", "snips", "dr", "sndr", "switch-dr"):
        assert ours[method]["low"] > own[method]["high"]
        assert blind[method]["value"] < ours[method]["low"]
    assert ours[method]["low"] < 0.63 < ours[method]["high"]  # what the best policy earns: 1 - 0.9 · P(neither)
    assert 0.3 * ROWS / 2 < ours["effective_rows"] < 0.7 * ROWS / 2
    turned = clicks().select("noise", "member", "plan", "age", "clicked", "p", "shown")  # columns in another order
    turned.write_parquet(folder / "turned.parquet")
    values = [
        told("evaluate", folder / name, *arguments, "--model", folder / "log.releaf")[1]["dr"]["value"]
        for name in ("log.parquet", "turned.parquet")
    ]
    assert values[0] == values[1] > own["dr"]["high"]
    turned.drop("age").write_parquet(folder / "other.parquet")
    result = run("evaluate", folder / "other.parquet", *arguments, "--model", folder / "log.releaf", expect=1)
    assert "has no column 'age'" in result.stderr


def test_broken_rows_of_a_log_to_evaluate_are_named(folder: Path, tmp_path: Path) -> None:
    path = broken(folder, tmp_path)
    (tmp_path / "s.toml").write_text(releaf.load(folder / "log.releaf").schema.to_toml())
    arguments = ("--action", "shown", "--reward", "clicked", "--probability", "p", "--policy", "LinUCB")
    given = (*arguments, "--schema", tmp_path / "s.toml")
    assert f"{path}, line 11: 3 fields" in run("evaluate", path, *given, expect=1).stderr
    shown = run("evaluate", path, *given, "--skip-bad").stderr
    assert "4 unusable rows were skipped" in shown
    for line in EXPECTED:
        assert f"line {line}: " in shown


def test_a_log_without_probabilities_cannot_be_evaluated(tmp_path: Path) -> None:
    clicks().drop("p").write_csv(tmp_path / "log.csv")
    result = run("evaluate", tmp_path / "log.csv", "--action", "shown", "--reward", "clicked", expect=1)
    assert "has no column 'probability' of propensities, which off-policy estimates need" in result.stderr
    assert "--estimate-propensities" in result.stderr


def test_a_log_without_probabilities_is_evaluated_by_estimated_ones(folder: Path, tmp_path: Path) -> None:
    columns = ("--action", "shown", "--reward", "clicked", "--policy", "LinUCB")
    clicks().drop("p").write_parquet(tmp_path / "without.parquet")
    own, ours = told("evaluate", tmp_path / "without.parquet", *columns, "--estimate-propensities")
    _, known = told("evaluate", folder / "log.parquet", *columns, "--probability", "p")
    assert ours["dr"]["value"] == pytest.approx(known["dr"]["value"], abs=0.02)
    assert ours["effective_rows"] > 0.9 * known["effective_rows"]
    assert ours["breakdown"] > 1.2
    assert own["dr"]["high"] < ours["dr"]["low"]
    shown = run("evaluate", tmp_path / "without.parquet", *columns, "--estimate-propensities").stdout
    assert "no unobserved confounders" in " ".join(shown.split())
    assert "breakdown" in shown


def test_greedy_policies_are_judged_without_their_exploration(folder: Path) -> None:
    arguments = ("evaluate", folder / "log.parquet", "--action", "shown", "--reward", "clicked", "--probability", "p")
    chosen = (*arguments, "--policy", "LinUCB", "--policy", "EpsilonGreedy")
    explores, greedy = told(*chosen), told(*chosen, "--greedy")
    assert explores[0] == greedy[0]
    assert greedy[1]["dr"]["value"] > explores[1]["dr"]["low"]
    assert greedy[2]["overlap"] != explores[2]["overlap"]
    assert "judged as they decide, exploration included" in run(*chosen).stdout
    assert "judged by their highest estimates, without exploration" in run(*chosen, "--greedy").stdout


def test_estimators_are_chosen_and_weights_drawn(folder: Path, tmp_path: Path) -> None:
    arguments = ("--action", "shown", "--reward", "clicked", "--probability", "p", "--policy", "UCB1")
    picture = tmp_path / "weights.png"
    shown = run("evaluate", folder / "log.parquet", *arguments, "--estimator", "dm", "--png", picture).stdout
    assert "DM" in shown
    assert "SNIPS" not in shown
    assert picture.read_bytes().startswith(b"\x89PNG")
    result = run("evaluate", folder / "log.parquet", *arguments, "--estimator", "xx", expect=1)
    assert "there is no estimator 'xx': expected ips, snips, dm, dr, sndr, switch-dr" in result.stderr


def test_a_log_that_hardly_overlaps_says_so(tmp_path: Path) -> None:
    rare = clicks().with_columns(p=pl.when(pl.col("shown") == "sport").then(0.999).otherwise(0.001))
    rare.filter((pl.col("shown") == "sport") | (pl.int_range(pl.len()) % 500 == 0)).write_parquet(
        tmp_path / "rare.parquet"
    )
    arguments = ("--action", "shown", "--reward", "clicked", "--probability", "p", "--policy", "LinUCB")
    shown = " ".join(run("evaluate", tmp_path / "rare.parquet", *arguments).stdout.split())
    assert "carry the variance of the weights" in shown


def test_rewards_of_another_range_are_evaluated(tmp_path: Path) -> None:
    clicks().with_columns(clicked=100 * pl.col("clicked") - 50).write_parquet(tmp_path / "euros.parquet")
    arguments = ("--action", "shown", "--reward", "clicked", "--probability", "p", "--reward-range", "-50", "50")
    chosen = ("--policy", "AdaptiveReleaf", "--policy", "LinUCB")
    own, ours, other = told("evaluate", tmp_path / "euros.parquet", *arguments, *chosen)
    assert ours["dr"]["value"] > own["dr"]["value"] + 10
    assert other["dr"]["value"] > own["dr"]["value"]


def test_policies_are_compared_on_streams_and_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    ages = draw.uniform(0, 100, 400)
    pl.DataFrame({"age": ages, "best": np.where(ages > 60, "old", "young")}).write_csv("ages.csv")
    arguments = ("compare", "AdaptiveReleaf", "Random", "--seeds", "2", "--workers", "1", "--table", "ages.csv:best")
    lines = told(*arguments, "--stream", "draft", "--steps", "500")
    assert [(line["stream"], line["policy"]) for line in lines] == [
        ("draft", "AdaptiveReleaf"),
        ("draft", "Random"),
        ("ages.csv", "AdaptiveReleaf"),
        ("ages.csv", "Random"),
    ]
    assert lines[0]["regret %"]["mean"] < lines[1]["regret %"]["mean"]
    assert lines[2]["error %"]["mean"] < 10 < lines[3]["error %"]["mean"]
    shown = run(*arguments).stdout
    assert shown.index("AdaptiveReleaf") < shown.index("Random")
    assert "Rows shuffled, by seeds 0 to 1." in " ".join(shown.split())
    assert [line["order"] for line in lines] == ["", "", *["rows shuffled, by seeds 0 to 1"] * 2]
    pl.DataFrame({"age": ages, "best": draw.choice(["old", "young"], 400)}).write_csv("ages.csv")
    assert told(*arguments)[0]["error %"]["mean"] > 30  # the file has changed: kept runs are of another one
    assert "there is no stream 'moon'" in run("compare", "--stream", "moon", expect=1).stderr
    assert "expected FILE:COLUMN" in run("compare", "--table", "ages.csv", expect=1).stderr


def test_a_sorted_table_is_shuffled_unless_told_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ages = np.sort(np.random.default_rng(0).uniform(0, 100, 400))
    pl.DataFrame({"age": ages, "best": np.where(ages > 60, "old", "young")}).write_csv("ages.csv")
    arguments = ("compare", "LinUCB", "--seeds", "3", "--workers", "1", "--table", "ages.csv:best")
    (shuffled,), (sorted_,) = told(*arguments), told(*arguments, "--no-shuffle")
    assert shuffled["error %"]["half_width"] > 0.0
    assert sorted_["error %"]["half_width"] == 0.0  # LinUCB draws nothing, and the order is the same
    assert sorted_["order"] == "rows in the order of the file, the same in each run"
    assert told(*arguments) == [shuffled]
    errors = [error_of_linucb(streams.table("ages.csv", label="best", seed=seed)) for seed in range(3)]
    deviation = np.std(errors, ddof=1)
    assert shuffled["error %"] == pytest.approx(
        {"mean": np.mean(errors), "half_width": 4.303 * deviation / np.sqrt(3)}
    )  # Student's t with two degrees of freedom


def error_of_linucb(cases: streams.Stream) -> float:
    return evaluate.run(releaf.LinUCB(cases.actions, cases.features), cases).error


def test_the_doctor_tells_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    report = told("doctor")
    assert report["releaf"] == releaf.__version__
    assert report["packages"]["numpy"] == np.__version__
    assert report["kernels"]["compiled"] > 0
    from importlib import metadata

    real = metadata.version

    def without_river(name: str) -> str:
        if name == "river":
            raise metadata.PackageNotFoundError
        return real(name)

    monkeypatch.setattr(metadata, "version", without_river)
    assert re.search(r"river\s+not installed\s+pip install river", run("doctor").stdout)
