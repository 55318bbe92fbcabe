"""Sweeps: runs that are kept and not done again, through kills, failures, damage and files that change."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import executor_tasks
import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from releaf.cli import app
from releaf.evaluate import Ledger, Run, Store, grid, sweep
from releaf.executors import Local, LostWorkerError


def some_runs(count: int, steps: int = 1_000) -> list[Run]:
    return [
        Run(
            stream="breast_cancer",
            stream_arguments={"steps": steps, "seed": seed},
            policy="LinUCB",
            seed=seed,
            label=f"{seed}",
        )
        for seed in range(count)
    ]


def test_finished_runs_are_not_done_again(tmp_path: Path) -> None:
    runs, store = some_runs(4), Store(tmp_path / "runs")
    kept: list[bool] = []
    first = sweep(runs, store, Local(1), lambda run, ledger, old: kept.append(old))
    second = sweep(runs, store, Local(1), lambda run, ledger, old: kept.append(old))
    assert kept == [False] * 4 + [True] * 4
    assert [ledger.to_dict() for ledger in first] == [ledger.to_dict() for ledger in second]


def test_processes_give_the_same_ledgers_as_this_one(tmp_path: Path) -> None:
    runs = some_runs(3)
    here, there = sweep(runs, None, Local(1)), sweep(runs, None, Local(2))
    for one, other in zip(here, there, strict=True):
        assert {**one.to_dict(), "seconds": 0} == {**other.to_dict(), "seconds": 0}


def test_another_setting_seed_or_version_is_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run = some_runs(1)[0]
    keys = {
        run.key,
        Run(**{**run.to_dict(), "seed": 5}).key,
        Run(**{**run.to_dict(), "policy_arguments": {"alpha": 2}}).key,
    }
    assert Run(**{**run.to_dict(), "label": "another name"}).key == run.key
    monkeypatch.setattr("releaf.evaluate.runs.__version__", "99")
    assert len(keys | {run.key}) == 4


def test_a_damaged_file_is_done_again(tmp_path: Path) -> None:
    runs, store = some_runs(1), Store(tmp_path)
    (ledger,) = sweep(runs, store, Local(1))
    path = next(tmp_path.glob("*.parquet"))
    path.write_bytes(path.read_bytes()[:100])
    assert store.get(runs[0]) is None
    (again,) = sweep(runs, store, Local(1))
    assert again.error == ledger.error


PROGRAM = """
import sys, time
from releaf.evaluate import Run, Store, sweep
from releaf.executors import Local
def done(*_):
    print("done", flush=True)
    if sys.argv[2:] == ["block"]:  # here the program is stopped, while its workers are busy
        time.sleep(600)
runs = [
    Run(stream="breast_cancer", stream_arguments={"steps": 50_000, "seed": seed}, policy="ContextualZooming", seed=seed)
    for seed in range(6)
]
if __name__ == "__main__":
    sweep(runs, Store(sys.argv[1]), Local(2), done)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_stop_in_mid_run_loses_only_what_was_in_flight(how: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "runs")]
    settings: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([*command, "block"], start_new_session=True, **settings) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        os.killpg(process.pid, how)
        process.wait(timeout=60)
    finished = list((tmp_path / "runs").glob("*.parquet"))
    assert len(finished) == 1
    before = {path: path.stat().st_mtime_ns for path in finished}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout.count("done") == 6
    assert len(list((tmp_path / "runs").glob("*.parquet"))) == 6
    assert all(path.stat().st_mtime_ns == written for path, written in before.items())


# --- files ----------------------------------------------------------------------------------------------------


def write(path: Path, seed: int) -> None:
    """A table in which another column is right, of the same size."""
    draw = np.random.default_rng(seed)
    rows = (f"{x:.4f},{y:.4f},{'ab'[int((x, y)[seed % 2] > 0.5)]}" for x, y in draw.random((200, 2)))
    path.write_text("x,y,label\n" + "\n".join(rows) + "\n")


def of_table(path: str | Path, seeds: int = 1) -> list[Run]:
    return grid(["LinUCB"], {"table": {"data": path, "label": "label"}}, range(seeds))


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("again", [True, False])
def test_a_file_that_has_changed_is_another_run(
    kept: bool, again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the runs are described again or not, and whether they are kept or not."""
    monkeypatch.chdir(tmp_path)
    store = Store("runs") if kept else None
    write(tmp_path / "table.csv", 0)
    runs = of_table("table.csv")
    first = sweep(runs, store, Local(1))
    write(tmp_path / "table.csv", 1)
    second = sweep(of_table("table.csv") if again else runs, store, Local(1))
    write(tmp_path / "other.csv", 1)
    expected = sweep(of_table("other.csv"), None, Local(1))
    assert executor_tasks.without_seconds(second) == executor_tasks.without_seconds(expected)
    assert executor_tasks.without_seconds(first) != executor_tasks.without_seconds(second)


def test_a_file_is_known_by_its_content_whenever_it_was_written(tmp_path: Path) -> None:
    write(path := tmp_path / "table.csv", 0)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    (run,) = of_table(path)
    first = run.key
    write(path, 1)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert run.key != first
    write(path, 0)
    assert run.key == first


def test_a_folder_of_files_is_known_by_all_of_them(tmp_path: Path) -> None:
    (folder := tmp_path / "cases.parquet").mkdir()
    for part in range(2):
        pl.DataFrame({"x": [0.0, 1.0], "label": ["a", "b"]}).write_parquet(folder / f"{part}.parquet")
    (run,) = of_table(folder)
    first = run.key
    assert len(sweep([run], None, Local(1))) == 1
    pl.DataFrame({"x": [0.0, 1.0], "label": ["b", "a"]}).write_parquet(folder / "1.parquet")
    assert run.key != first


def test_files_of_experts_count_too(tmp_path: Path) -> None:
    write(path := tmp_path / "table.csv", 0)
    experts = {"stream": "table", "arguments": {"data": str(path), "label": "label"}, "count": 3, "size": 10}
    run = Run(stream="breast_cancer", policy="AverageMajority", seed=0, policy_arguments={"experts": experts})
    first = run.key
    write(path, 1)
    assert run.key != first


def test_a_file_that_changes_during_a_sweep_is_said(tmp_path: Path) -> None:
    write(path := tmp_path / "table.csv", 0)

    def change(run: Run, ledger: Ledger, kept: bool) -> None:
        write(path, 1)

    store, runs = Store(tmp_path / "runs"), of_table(path, 3)
    with pytest.raises(ValueError, match=r"an input file of the run has changed since the sweep began"):
        sweep(runs, store, Local(1), change)
    assert len(list((tmp_path / "runs").glob("*.parquet"))) == 1
    assert [store.get(run) for run in runs] == [None] * 3


def test_compare_finds_what_a_sweep_has_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "table.csv", 0)
    sweep(of_table("table.csv", 2), Store("runs"), Local(1))
    before = {path: path.stat().st_mtime_ns for path in Path("runs").iterdir()}
    given = ["compare", "LinUCB", "--table", "table.csv:label", "--seeds", "2", "--workers", "1", "--store", "runs"]
    assert CliRunner().invoke(app, given).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in Path("runs").iterdir()} == before
    write(tmp_path / "table.csv", 1)
    assert CliRunner().invoke(app, given).exit_code == 0
    assert len(list(Path("runs").iterdir())) == 4


# --- failures -------------------------------------------------------------------------------------------------


def with_bad(*bad: int, count: int = 5) -> list[Run]:
    """Runs of which some have a parameter that their policy refuses."""
    runs = some_runs(count, 200)
    return [
        Run(**{**run.to_dict(), "policy_arguments": {"alpha": -1.0 - run.seed}}) if run.seed in bad else run
        for run in runs
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_fails_does_not_bar_the_others(workers: int, tmp_path: Path) -> None:
    runs, store = with_bad(2), Store(tmp_path)
    told: list[int] = []
    with Local(workers) as executor, pytest.raises(ValueError, match="alpha") as caught:
        sweep(runs, store, executor, lambda run, *_: told.append(run.seed))
    (note,) = caught.value.__notes__
    assert note == "in 1 of 5 runs: LinUCB over breast_cancer (seed 2)"
    assert sorted(told) == [0, 1, 3, 4]
    assert [store.get(run) is not None for run in runs] == [True, True, False, True, True]


def test_different_errors_come_together() -> None:
    with pytest.raises(ExceptionGroup, match="2 of 5 runs failed") as caught:
        sweep(with_bad(1, 3), None, Local(1))
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["in 1 of 5 runs: LinUCB over breast_cancer (seed 1)"],
        ["in 1 of 5 runs: LinUCB over breast_cancer (seed 3)"],
    ]
    assert all(isinstance(error, ValueError) for error in caught.value.exceptions)


def test_what_many_runs_raise_alike_is_raised_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        sweep(of_table(tmp_path / "gone.csv", 14), None, Local(1))
    assert caught.value.__notes__ == ["all 14 runs failed so"]
    path = tmp_path / "gone.csv"
    with pytest.raises(FileNotFoundError) as caught:
        sweep([*of_table(path, 7), *some_runs(1, 200)], None, Local(1))
    assert caught.value.__notes__ == [f"in 7 of 8 runs: LinUCB over {path} (seeds 0, 1, 2, 3, 4, …)"]


def test_an_interrupt_ends_a_sweep_at_once() -> None:
    told: list[int] = []

    def interrupt(run: Run, ledger: Ledger, kept: bool) -> None:
        told.append(run.seed)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        sweep(some_runs(4), None, Local(1), interrupt)
    assert told == [0]


def test_a_command_tells_of_each_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "good.csv", 0)
    for name in ("one", "other"):
        (tmp_path / f"{name}.csv").write_text("x,label\n")
    tables = [part for name in ("one", "good", "other") for part in ("--table", f"{name}.csv:label")]
    done = CliRunner().invoke(app, ["compare", "LinUCB", *tables, "--seeds", "2", "--workers", "1"])
    assert done.exit_code == 1
    assert "Error: 4 of 6 runs failed" in done.stderr
    assert "one.csv" in done.stderr
    assert "other.csv" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(list(Path("releaf-runs").iterdir())) == 2


class Deadly:
    """Cores on which runs of some seeds kill their workers."""

    def __init__(self, *seeds: int) -> None:
        self.seeds = seeds

    def map(self, function: Callable[[Any], Any], runs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        with Local(2, retries=1) as executor:
            yield from executor.map(partial(executor_tasks.kill_worker_of_seeds, function, self.seeds), runs)


def test_a_run_that_its_workers_die_of_does_not_bar_the_others(tmp_path: Path) -> None:
    runs, store = some_runs(8, 200), Store(tmp_path)
    with pytest.raises(LostWorkerError, match="its worker died 2 times") as caught:
        sweep(runs, store, Deadly(3))
    assert caught.value.__notes__ == ["in 1 of 8 runs: LinUCB over breast_cancer (seed 3)"]
    assert [store.get(run) is not None for run in runs] == [True] * 3 + [False] + [True] * 4


def test_a_sweep_ends_where_all_workers_die() -> None:
    with pytest.raises(LostWorkerError, match="its worker died 2 times"):
        sweep(some_runs(40), None, Deadly(*range(40)))


# --- the store ------------------------------------------------------------------------------------------------


def test_no_bit_of_a_kept_file_flips_unnoticed(tmp_path: Path) -> None:
    """A file is found to be damaged, or it still gives what was kept."""
    (run,), store = some_runs(1, 200), Store(tmp_path)
    (ledger,) = sweep([run], store, Local(1))
    (path,) = tmp_path.glob("*.parquet")
    sound, draw = path.read_bytes(), random.Random(0)
    found = []
    for bit in draw.sample(range(8 * len(sound)), 1_500):
        damaged = bytearray(sound)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        found.append(store.get(run))
    assert {None if kept is None else str(kept.to_dict()) for kept in found} <= {None, str(ledger.to_dict())}
    path.write_bytes(sound)
    assert store.get(run) == ledger


AT_THE_SAME_TIME = """
import sys
from functools import partial
from pathlib import Path
import executor_tasks
from releaf.evaluate import Store, grid, sweep
from releaf.executors import Local

class Counting:
    def map(self, function, runs):
        return Local(1).map(partial(executor_tasks.count_runs_slowly, function, Path(sys.argv[2])), runs)

if __name__ == "__main__":
    runs = grid(["UCB1"], {"breast_cancer": {"steps": 100}}, seeds=range(40))
    print(len(sweep(runs, Store(sys.argv[1]), Counting())))
"""


def test_sweeps_at_the_same_time_share_the_runs_of_a_store(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(AT_THE_SAME_TIME)
    (counts := tmp_path / "counts").mkdir()
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "runs"), str(counts)]
    settings: dict[str, Any] = {"env": os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, "text": True}
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, **settings) as one,
        subprocess.Popen(command, stdout=subprocess.PIPE, **settings) as other,
    ):
        assert [program.communicate(timeout=120)[0] for program in (one, other)] == ["40\n", "40\n"]
    executions = [len(path.read_text().splitlines()) for path in counts.iterdir()]
    assert len(executions) == 40
    assert sum(executions) < 55  # of 80 when each does all
