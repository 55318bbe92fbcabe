"""Progress of long calls: a bar in notebooks and terminals, nothing in files, and functions as before."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from console_blocks import console_environment

import releaf
from releaf import evaluate, streams, train
from releaf.executors import Local
from releaf.progress import ProgressBar, report_progress

CASES = streams.breast_cancer(2_000)
FUNCTIONS = """
import releaf
from releaf import evaluate, streams

cases = streams.breast_cancer(12_000)
evaluate.run(releaf.UCB1(cases.actions, cases.features), cases, progress=True)
None
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.csv"
    rows = np.random.default_rng(0).random((200, 1))
    path.write_text("x,action,reward\n" + "".join(f"{row[0]},{'ab'[index % 2]},1\n" for index, row in enumerate(rows)))
    return path


def test_a_terminal_shows_a_bar_and_removes_it_at_the_end() -> None:
    with redirect_stderr(Terminal()) as terminal:
        bar = ProgressBar("working", "rows")
        bar(1, 4)
        first = terminal.getvalue()
        bar(4, 4)
    assert "working" in first
    assert "25%  1 of 4 rows" in first
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_an_unknown_total_has_no_share() -> None:
    with redirect_stderr(Terminal()) as terminal:
        bar = ProgressBar("working", "rows")
        bar(1_500)
        assert "1,500 rows" in terminal.getvalue()
        assert "%" not in terminal.getvalue()
        bar.end()
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_draws_are_limited_but_the_last_is_shown() -> None:
    with redirect_stderr(Terminal()) as terminal:
        bar = ProgressBar("working")
        for step in range(10_000):
            bar(step + 1, 10_000)
    assert terminal.getvalue().count("working") < 5_000
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_nothing_is_written_to_a_file() -> None:
    with redirect_stderr(io.StringIO()) as written:
        evaluate.run(releaf.UCB1(CASES.actions, CASES.features), CASES, progress=True)
    assert written.getvalue() == ""


def test_every_long_call_shows_a_bar(log_file: Path, tmp_path: Path) -> None:
    log = evaluate.sample_log(CASES, np.full((len(CASES), 2), 0.5))
    runs = evaluate.grid({"UCB1": {}}, {"breast_cancer": {"steps": 200}}, seeds=range(2))
    table = pyarrow.table({"x": [0.1, 0.9] * 100, "action": ["a", "b"] * 100, "reward": [1.0, 0.0] * 100})
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    with redirect_stderr(Terminal()) as terminal:
        evaluate.run(releaf.UCB1(CASES.actions, CASES.features), streams.breast_cancer(6_000), progress=True)
        evaluate.rejection(releaf.UCB1(log.actions, log.features), log, progress=True)
        train.learn_file(releaf.UCB1(["a", "b"], ["x"]), log_file, progress=True)
        evaluate.sweep(runs, executor=Local(1), progress=True)
        train.fit_log(tmp_path / "log.parquet", releaf.Schema(x=releaf.Continuous()), executor=Local(1), progress=True)
    shown = terminal.getvalue()
    assert "Running UCB1" in shown
    assert "Rejection sampling with UCB1" in shown
    assert "Learning log.csv" in shown
    assert "1 of 2 runs" in shown
    assert "rows" in shown.rpartition("Sweep")[2]  # of a pass over the log
    assert shown.endswith("\r\x1b[2K")


def test_a_function_is_called_with_the_steps() -> None:
    calls: list[tuple[int, int]] = []
    evaluate.run(
        releaf.UCB1(CASES.actions, CASES.features), CASES, progress=lambda done, total: calls.append((done, total))
    )
    assert calls == [(2_000, 2_000)]


@pytest.mark.parametrize("nothing", [None, False])
def test_no_progress_is_shown_unless_it_is_asked_for(nothing: Any) -> None:
    with redirect_stderr(Terminal()) as terminal:
        report_progress(nothing, "working")(1, 2)
    assert terminal.getvalue() == ""


def test_another_value_is_an_error_that_names_it() -> None:
    with pytest.raises(TypeError, match="progress is 3: expected True for a bar, a function, or None"):
        evaluate.run(releaf.UCB1(CASES.actions, CASES.features), CASES, progress=3)  # type: ignore[arg-type]


def test_a_notebook_shows_one_bar_that_ends_full_and_can_be_read_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", console_environment()["PYTHONPATH"])
    page = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(FUNCTIONS)])
    nbclient.NotebookClient(
        page, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    outputs = page.cells[0].outputs
    drawn = [output for output in outputs if output.output_type == "display_data"]
    assert len(drawn) == 1
    assert '<progress value="1.0000" max="1"' in drawn[0]["data"]["text/html"]
    assert drawn[0]["data"]["text/plain"].startswith("Running UCB1: 12,000 steps in ")
    assert not [output for output in outputs if output.output_type == "stream" and "\r" in output.text]
