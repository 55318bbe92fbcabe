"""Tasks in parallel, on this machine's cores and on a Ray cluster: the same results, also through losses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import executor_tasks
import numpy as np
import pytest
from polling import is_alive, recorded_processes, run_counts, wait_until

from releaf import evaluate
from releaf.evaluate import sweep
from releaf.executors import Executor, Local, LostWorkerError

pytestmark = pytest.mark.xdist_group("ray")
Engine = Callable[..., AbstractContextManager[Executor]]


# --- the same results -----------------------------------------------------------------------------------------


def test_every_place_has_its_result(engine: Engine) -> None:
    with engine() as executor:
        assert dict(executor.map(executor_tasks.square, range(50))) == {number: number**2 for number in range(50)}
        assert list(executor.map(executor_tasks.square, [])) == []
        assert list(executor.map(executor_tasks.square, [7])) == [(0, 49)]


def test_a_sweep_gives_the_ledgers_of_one_process(engine: Engine) -> None:
    tried = {"LinUCB": {"alpha": [0.1, 1.0]}, "UCB1": {}, "Random": {}}
    runs = evaluate.grid(tried, {"breast_cancer": {"steps": 800}}, seeds=range(3))
    with engine() as executor:
        found, expected = sweep(runs, None, executor), sweep(runs, None, Local(1))
    assert executor_tasks.without_seconds(found) == executor_tasks.without_seconds(expected)


def test_results_come_as_they_are_done(engine: Engine, tmp_path: Path) -> None:
    """Task 0 ends only once the caller has another result in hand."""
    order = []
    with engine() as executor:
        for number, _ in executor.map(partial(executor_tasks.wait_for_signal, tmp_path / "another result"), range(6)):
            order.append(number)
            (tmp_path / "another result").touch()
    assert sorted(order) == list(range(6))
    assert order[0] != 0


def test_what_the_function_carries_is_there_for_all_tasks(engine: Engine) -> None:
    table = np.random.default_rng(0).random((50_000, 6))
    with engine() as executor:
        found = dict(executor.map(partial(executor_tasks.column_sum, table), range(6)))
    assert found == {column: table[:, column].sum() for column in range(6)}


def test_what_the_function_carries_is_that_of_the_call() -> None:
    """Of the same size as before, and in processes that stay."""
    tables = [np.full((1_000, 2), float(value)) for value in range(3)]
    with Local(2) as executor:
        for table in tables:
            found = dict(executor.map(partial(executor_tasks.column_sum, table), range(2)))
            assert found == {column: table[:, column].sum() for column in range(2)}


def test_workers_are_where_the_program_is(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with engine() as executor:
        found = [told for _, told in executor.map(executor_tasks.worker_location, range(4))]
    assert {folder for _, folder, _ in found} == {str(tmp_path)}
    assert os.getpid() not in {process for process, _, _ in found}


def test_processes_stay_for_further_tasks_until_the_executor_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Local(2) as executor:
        first = {process for _, (process, _, _) in executor.map(executor_tasks.worker_location, range(8))}
        monkeypatch.chdir(tmp_path)
        again = [told for _, told in executor.map(executor_tasks.worker_location, range(8))]
        assert {process for process, _, _ in again} <= first
        assert {folder for _, folder, _ in again} == {str(tmp_path)}
    wait_until(lambda: not any(map(is_alive, first)))
    assert len(list(executor.map(executor_tasks.square, range(4)))) == 4
    executor.close()


def test_processes_end_with_an_executor_that_nobody_holds() -> None:
    processes = {process for _, (process, _, _) in Local(2).map(executor_tasks.worker_location, range(8))}
    wait_until(lambda: not any(map(is_alive, processes)))


def test_tasks_may_be_asked_for_while_others_are_under_way() -> None:
    with Local(2) as executor:
        for place, result in executor.map(executor_tasks.square, range(4)):
            assert dict(executor.map(partial(_added, result), range(3))) == {
                number: place**2 + number for number in range(3)
            }


def _added(result: int, number: int) -> int:
    return result + number


# --- losses and errors ----------------------------------------------------------------------------------------


def test_a_worker_that_is_killed_costs_only_its_task(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with engine() as executor:
        found = dict(executor.map(partial(executor_tasks.kill_worker_once, tmp_path), range(11)))
    assert found == {number: number**2 for number in range(11)}
    assert run_counts(tmp_path) == {number: 2 if number % 5 == 0 else 1 for number in range(11)}
    assert capsys.readouterr().out == ""  # where results may be read from


def test_a_task_that_kills_its_workers_is_given_up_and_named(engine: Engine, tmp_path: Path) -> None:
    with (
        engine(retries=1) as executor,
        pytest.raises(LostWorkerError, match=r"task 3 \(3\) failed: its worker died 2 times"),
    ):
        list(executor.map(partial(executor_tasks.kill_worker_of_task_3, tmp_path), range(6)))
    assert run_counts(tmp_path)[3] == 2


def test_what_a_task_raises_comes_as_it_is_and_names_the_task(engine: Engine) -> None:
    with engine() as executor, pytest.raises(FileNotFoundError) as caught:
        list(executor.map(executor_tasks.missing_file, range(6)))
    assert type(caught.value) is FileNotFoundError
    assert caught.value.filename == "cases.csv"
    assert caught.value.__notes__ == ["task 2 (2) raised this"]


def test_a_stop_ends_what_is_in_flight(engine: Engine, tmp_path: Path) -> None:
    with engine() as executor:
        results = executor.map(partial(executor_tasks.sleep_forever, tmp_path), range(8))
        assert next(results) == (0, 0)
        (tmp_path / "0").unlink()  # which is done, unlike those that sleep
        wait_until(lambda: recorded_processes(tmp_path))
        results.close()  # type: ignore[attr-defined]
        asleep = recorded_processes(tmp_path)
        wait_until(lambda: not any(map(is_alive, asleep)))
        assert len(list(executor.map(executor_tasks.square, range(4)))) == 4


def test_results_that_are_done_are_yielded_before_an_error(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both tasks are done when the executor looks, since here it waits for all and not for the first."""
    monkeypatch.setattr("releaf.executors.local.wait", lambda busy, return_when: wait(busy))
    monkeypatch.setattr("releaf.executors.ray._wait_for_any", wait_for_all_on_ray)
    with engine() as executor:
        results = executor.map(executor_tasks.fail_first, range(2))
        assert next(results) == (1, 1)
        with pytest.raises(ValueError, match="wrong"):
            next(results)


def wait_for_all_on_ray(in_flight: list[Any]) -> list[Any]:
    import ray

    ready: list[Any] = ray.wait(in_flight, num_returns=len(in_flight))[0]
    return ready


def test_an_error_that_cannot_be_read_by_other_processes_is_no_death_of_a_worker(
    engine: Engine, tmp_path: Path
) -> None:
    with (
        engine() as executor,
        pytest.raises(RuntimeError, match=r"UnpicklableError: odd number 1") as caught,
    ):
        list(executor.map(partial(executor_tasks.raise_unpicklable, tmp_path), range(4)))
    assert caught.value.__notes__ == ["task 1 (1) raised this"]
    assert 'raise UnpicklableError("odd", number)' in str(caught.value.__cause__)
    assert run_counts(tmp_path)[1] == 1


def test_an_error_comes_as_it_is_where_it_need_not_travel(tmp_path: Path) -> None:
    with pytest.raises(executor_tasks.UnpicklableError, match="odd number 1"):
        list(Local(1).map(partial(executor_tasks.raise_unpicklable, tmp_path), range(4)))


def test_an_exit_of_a_task_is_no_death_of_a_worker(engine: Engine, tmp_path: Path) -> None:
    with engine() as executor, pytest.raises(SystemExit) as caught:
        list(executor.map(partial(executor_tasks.exit_worker, tmp_path), range(4)))
    assert caught.value.code == 3
    assert caught.value.__notes__ == ["task 1 (1) raised this"]
    assert run_counts(tmp_path)[1] == 1


def test_a_result_that_cannot_be_read_is_no_death_of_a_worker(tmp_path: Path) -> None:
    with Local(2) as executor, pytest.raises(ValueError, match="no number") as caught:
        list(executor.map(partial(executor_tasks.return_unreadable, tmp_path), range(4)))
    assert caught.value.__notes__ == ["task 1 (1) raised this"]
    assert run_counts(tmp_path)[1] == 1


UNGUARDED = """
import executor_tasks
from releaf.executors import Local

print(list(Local(2, retries=0).map(executor_tasks.square, range(4))))
"""


def test_a_script_without_a_guard_is_told_once_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(UNGUARDED)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert "under `if __name__ == '__main__':`" in done.stderr
