"""Where contexts and rewards come from: the paper's data, generators with an oracle, a user's own tables and logs."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import math
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import releaf
from releaf import streams
from releaf.streams import data_files
from releaf.streams.webpages import BrokenLineError

DATA = Path(os.environ.get("RELEAF_DATA") or Path(__file__).parents[3] / "shared" / "data")


# --- files ----------------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A web server on this machine with one file, and nothing to be found elsewhere."""
    folder = tmp_path / "web"
    folder.mkdir()
    (folder / "data.txt").write_text("something to learn from")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    class Handler(Quiet):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given, directory=str(folder))

    monkeypatch.setenv("RELEAF_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("RELEAF_CACHE", str(tmp_path / "cache"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


DIGEST = hashlib.sha256(b"something to learn from").hexdigest()


def test_a_file_is_downloaded_once_with_progress_and_then_found(server: str) -> None:
    told: list[tuple[int, int]] = []
    path = data_files.fetch("data.txt", f"{server}/data.txt", DIGEST, lambda *so_far: told.append(so_far))
    assert path.read_text() == "something to learn from"
    assert told == [(23, 23)]
    assert data_files.fetch("data.txt", "http://127.0.0.1:1/never-asked", DIGEST) == path


def test_a_download_that_is_something_else_is_refused_and_not_kept(server: str) -> None:
    with pytest.raises(streams.DataError, match="returned the wrong content"):
        data_files.fetch("data.txt", f"{server}/data.txt", "0" * 64)
    assert data_files.find("data.txt") is None
    assert list(data_files.cache_folder().iterdir()) == []


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/data.txt", "{server}/missing.txt"])
def test_without_a_network_it_says_what_to_do(server: str, address: str) -> None:
    with pytest.raises(streams.DataError, match=r"could not be downloaded .* set RELEAF_DATA to that folder"):
        data_files.fetch("data.txt", address.format(server=server), DIGEST)


def test_a_file_that_is_there_but_another_one_is_refused(server: str, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    (tmp_path / "nothing" / "data.txt").write_text("else")
    with pytest.raises(streams.DataError, match="its sha256 is not"):
        data_files.fetch("data.txt", f"{server}/data.txt", DIGEST)


# --- network intrusion ----------------------------------------------------------------------------------------


@pytest.mark.skipif(not (DATA / "kddcup.data_10_percent.gz").exists(), reason="needs the KDD'99 file in $RELEAF_DATA")
def test_network_intrusion_is_the_first_records_of_the_file_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEAF_DATA", str(DATA))
    stream = streams.intrusion(20_000)
    assert stream.contexts.shape == (20_000, 15)
    assert stream.contexts.min() == 0.0
    assert stream.contexts.max() == 1.0
    assert stream.actions == ("attack", "no attack")
    assert stream.rewards.sum(axis=1).tolist() == [1.0] * 20_000
    assert stream.rewards[:, 0].sum() == 3821
    assert np.array_equal(streams.intrusion(100, start=19_900).contexts, stream.contexts[-100:])
    by_themselves = streams.intrusion(20_000, scaled_by=20_000).contexts
    assert by_themselves.max(axis=0).min() == 1.0  # of every feature
    assert stream.contexts.max(axis=0).min() < 1.0  # the largest of some come later in the file
    with pytest.raises(ValueError, match="more than the file has"):
        streams.intrusion(10, start=494_020)


def test_records_that_can_not_be_are_refused_before_the_file_is_looked_for() -> None:
    with pytest.raises(ValueError, match="steps=10, start=-1: expected at least one record, from 0 on"):
        streams.intrusion(10, start=-1)
    with pytest.raises(ValueError, match="scaled_by=0: expected a number of records from 1 on, or None"):
        streams.intrusion(10, scaled_by=0)


# --- webpages -------------------------------------------------------------------------------------------------

USER = "|user 2:0.1 3:0.2 4:0.3 5:0.4 6:0.0 1:1.0"
POOL = " ".join(f"|{article} 2:0.5 3:0.1 4:0.1 5:0.1 6:0.2 1:1.0" for article in (11, 12, 13))


def yahoo_file(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_yahoo_log_is_read_line_by_line(tmp_path: Path) -> None:
    path = yahoo_file(tmp_path / "r6a", f"1241160900 12 1 {USER} {POOL}", "", f"1241160901 11 0 {USER} {POOL}")
    first, second = streams.read_yahoo(path)
    assert first == (1241160900, "12", True, (0.1, 0.2, 0.3, 0.4, 0.0), ("11", "12", "13"))
    assert (second.displayed, second.clicked) == ("11", False)


BROKEN = {
    f"1241160900 12 2 {USER} {POOL}": "expected a time, an article and a click, 0 or 1",
    f"1241160900 99 1 {USER} {POOL}": "article 99 is displayed, but not in the pool",
    f"1241160900 12 1 |user 2:0.1 {POOL}": "expected the user's features",
    f"1241160900 12 1 {USER.replace('0.3', '7')} {POOL}": "expected user features from 0 to 1",
    f"1241160900 12 1 {USER.replace('2:0.1', '2:x')} {POOL}": "could not convert",
    "nonsense": "",
}


@pytest.mark.parametrize(("line", "why"), BROKEN.items(), ids=list(BROKEN.values()))
def test_a_broken_line_is_told_by_its_number_or_counted(tmp_path: Path, line: str, why: str) -> None:
    good = f"1241160900 12 1 {USER} {POOL}"
    path = yahoo_file(tmp_path / "r6a", good, good, line, good)
    with pytest.raises(BrokenLineError, match=f"r6a, line 3: .*{why}"):
        list(streams.read_yahoo(path))
    log = streams.yahoo(path, articles=["11", "12"], skip_bad=True)
    assert (len(log), log.skipped) == (3, 1)


def test_articles_come_and_go_and_the_log_keeps_those_that_are_up_together(tmp_path: Path) -> None:
    early = POOL.replace("|13", "|19")
    lines = [f"{1000 + t} {11 + t % 2} {t % 3 == 0:d} {USER} {early if t < 4 else POOL}" for t in range(20)]
    path = tmp_path / "r6a.gz"
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    log = streams.yahoo(path, articles=3)
    assert log.actions == ("11", "12", "13")
    assert len(log) == 16
    assert log.probabilities is not None
    assert log.probabilities.tolist() == [1 / 3] * 16
    assert streams.yahoo(path, steps=5, articles=["11", "12"]).taken.tolist() == [0, 1, 0, 1, 0]


@pytest.mark.skipif(not (DATA / "obd-random-men.csv.gz").exists(), reason="needs obd-random-*.csv.gz in $RELEAF_DATA")
def test_the_open_bandit_sample_is_a_log_of_chosen_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEAF_DATA", str(DATA))
    log = streams.open_bandit("men", items=4)
    assert len(log.actions) == 4
    assert set(np.unique(log.rewards)) == {0.0, 1.0}
    assert log.features.names == tuple(f"user_feature_{place}" for place in range(4))
    releaf.LinUCB(log.actions, log.features).decide(log.contexts[0])


def test_without_the_open_bandit_sample_it_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEAF_DATA", str(tmp_path))
    monkeypatch.setenv("RELEAF_CACHE", str(tmp_path))
    with pytest.raises(streams.DataError, match="of the package obp"):
        streams.open_bandit("women")


# --- synthetic ------------------------------------------------------------------------------------------------


def test_the_drafts_stream_expects_what_it_earns() -> None:
    stream = streams.draft(200_000, seed=1)
    assert stream.contexts.shape == (200_000, 12)
    assert stream.expected is not None
    assert stream.rewards.mean(axis=0) == pytest.approx(stream.expected.mean(axis=0), abs=3e-3)
    low = stream.contexts[:, 2] < 0.25
    assert stream.rewards[low, 0].mean() == pytest.approx(stream.expected[low, 0].mean(), abs=0.02)


@pytest.mark.parametrize("drift", ["none", "abrupt", "gradual"])
def test_generated_rewards_are_around_their_expectation_and_lipschitz(drift: Any) -> None:
    stream = streams.generate(20_000, features=3, actions=2, gamma_rel=2, lipschitz=3.0, noise=0.2, drift=drift)
    assert stream.expected is not None
    assert np.abs(stream.rewards - stream.expected).max() <= 0.2
    assert stream.rewards.min() >= 0.0
    assert stream.rewards.max() <= 1.0
    if drift == "none":
        one, other = stream.contexts[:-1], stream.contexts[1:]
        apart = np.linalg.norm(one - other, axis=1)
        slopes = np.abs(np.diff(stream.expected, axis=0)).max(axis=1) / apart
        assert slopes.max() <= 3.0 + 1e-9
        assert slopes.max() > 2.0


def test_only_relevant_features_matter() -> None:
    stream = streams.generate(5_000, features=4, actions=2, relevant=[[1], [3]], noise=0.0)
    for action, feature in ((0, 1), (1, 3)):
        order = np.argsort(stream.contexts[:, feature])
        assert np.abs(np.diff(stream.rewards[order, action])).max() < 0.01


@pytest.mark.parametrize("d", [1, 2])
def test_a_line_is_linear_in_the_relevant_features_and_spans_what_rewards_may_be(d: int) -> None:
    stream = streams.generate(
        2_000,
        features=4,
        actions=2,
        gamma_rel=d,
        relevant=[[0, 1][:d], [2, 3][:d]],
        shape="line",
        lipschitz=9.0,
        noise=0.1,
    )
    assert stream.expected is not None
    design = np.column_stack([stream.contexts, np.ones(len(stream))])
    weights, *_ = np.linalg.lstsq(design, stream.expected, rcond=None)
    assert np.abs(design @ weights - stream.expected).max() < 1e-9
    assert np.flatnonzero(np.abs(weights[:4, 1]) > 1e-9).tolist() == [2, 3][:d]
    assert np.ptp(stream.expected, axis=0) == pytest.approx(0.8, abs=0.05)
    flat = streams.generate(2_000, features=4, actions=2, shape="line", lipschitz=0.2, noise=0.1)
    assert flat.expected is not None
    assert np.ptp(flat.expected, axis=0) == pytest.approx(0.2, abs=0.01)


def test_an_abrupt_change_is_where_it_should_be() -> None:
    still = streams.generate(1_000, features=2, actions=2, relevant=[[0], [1]], noise=0.0, seed=4)
    moved = streams.generate(1_000, features=2, actions=2, relevant=[[0], [1]], noise=0.0, seed=4, drift="abrupt")
    same = (still.rewards == moved.rewards).all(axis=1)
    assert same[:500].all()
    assert not same[500:].all()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"noise": 0.7}, "noise must be from 0 to 0.5"),
        ({"shape": "circle"}, "shape must be 'wave' or 'line', got shape='circle'"),
        ({"drift": "sudden"}, "drift must be 'none', 'abrupt' or 'gradual'"),
        ({"relevant": [[0]]}, "relevant must have the features of each of the 3 actions"),
    ],
)
def test_a_bad_world_is_refused(arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        streams.generate(100, **arguments)


# --- a user's own table ---------------------------------------------------------------------------------------

FRAME = pd.DataFrame(
    {
        "age": [30.0, 60.0, math.nan, 45.0],
        "plan": ["a", "b", "a", None],
        "new": [True, False, True, True],
        "best": ["call", "mail", "call", "mail"],
    }
)


def written(frame: pd.DataFrame, folder: Path, kind: str) -> Any:
    path = folder / f"cases.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "csv.gz":
        frame.to_csv(path, index=False, compression="gzip")
    elif kind == "parquet":
        parquet.write_table(pa.Table.from_pandas(frame), path)
    elif kind == "arrow":
        feather.write_feather(pa.Table.from_pandas(frame), path)
    else:
        return {"pandas": frame, "polars": pl.from_pandas(frame), "pyarrow": pa.Table.from_pandas(frame)}[kind]
    return path


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "arrow", "pandas", "polars", "pyarrow"])
def test_a_table_of_labels_becomes_a_stream_whatever_it_is_kept_in(kind: str, tmp_path: Path) -> None:
    stream = streams.table(written(FRAME, tmp_path, kind), label="best")
    assert stream.actions == ("call", "mail")
    assert stream.rewards.tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]]
    age, plan, new = stream.features.features
    assert age == releaf.Continuous(30, 60, missing=True)
    assert plan == releaf.Categorical("a", "b", missing=True, other=True)
    assert new == releaf.Boolean(missing=True)
    bandit = releaf.LinUCB(stream.actions, stream.features)
    assert len(releaf.replay(bandit, stream.contexts, stream.rewards)) == 4


def test_rewards_may_be_columns_and_features_chosen(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [0.1, 0.9], "y": [1, 2], "r_a": [0.5, 1.0], "r_b": [0.25, 0.0]})
    stream = streams.table(frame, rewards={"r_a": "a", "r_b": "b"}, features=["x"])
    assert stream.actions == ("a", "b")
    assert stream.rewards.tolist() == [[0.5, 0.25], [1.0, 0.0]]
    assert stream.features.names == ("x",)


def test_a_log_becomes_one_with_its_probabilities(tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"
    path.write_text("hour,shown,click,p\n1,10,0,0.5\n2,11,1,0.25\n3,10,1,0.5\n")
    log = streams.log(path, action="shown", reward="click", probability="p")
    assert log.actions == (10, 11)
    assert log.taken.tolist() == [0, 1, 0]
    assert log.rewards.tolist() == [0, 1, 1]
    assert log.probabilities is not None
    assert log.probabilities.tolist() == [0.5, 0.25, 0.5]


CSV = "age,plan,best\n30,a,call\n60,b,mail\n45,a,call\n50,b,mail\n" + "".join(
    f"{age},a,call\n" for age in range(33, 39)
)
BROKEN_CSV = [
    (CSV.replace("60,b,mail", "60,b"), "cases.csv, line 3: 2 fields, expected 3"),
    (
        CSV.replace("45,a,call", "4x5,a,call"),
        "cases.csv, line 4: 'age' is '4x5': expected a number (90% of the column are)",
    ),
    (CSV.replace("50,b,mail", "50,b,"), "cases.csv, line 5: 'best' is None: expected a value"),
]


@pytest.mark.parametrize(("text", "error"), BROKEN_CSV, ids=[error for _, error in BROKEN_CSV])
def test_broken_rows_are_told_by_their_line_or_left_out(text: str, error: str, tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text(text)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        streams.table(path, label="best")
    assert error in str(caught.value)
    left = streams.table(path, label="best", skip_bad=True)
    assert (len(left), left.skipped) == (9, 1)


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("click", "2", "line 3: 'click' is 2.0: expected a number from 0 to 1"),
        ("click", "", "line 3: 'click' is None: expected a number from 0 to 1"),
        ("p", "0", "line 3: 'p' is 0.0: expected a probability above 0"),
    ],
)
def test_a_reward_or_probability_that_can_not_be_is_refused(column: str, value: str, text: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"hour": ["1", "2", "3"], "shown": ["a", "b", "a"], "click": ["0", "1", "1"], "p": ["1", "1", "1"]}
    )
    frame.loc[1, column] = value
    frame.to_csv(tmp_path / "clicks.csv", index=False)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        streams.log(tmp_path / "clicks.csv", action="shown", reward="click", probability="p")
    assert text in str(caught.value)


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="data must be the name of a file or a pandas, polars or pyarrow table"):
        streams.table([1, 2], label="x")
    with pytest.raises(ValueError, match="expected either label or rewards"):
        streams.table(FRAME)
    with pytest.raises(ValueError, match="table has no column 'worst'; it has age, plan, new, best"):
        streams.table(FRAME, label="worst")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ValueError, match="is empty: expected a line with the names"):
        streams.table(tmp_path / "empty.csv", label="x")
