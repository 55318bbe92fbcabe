"""Tasks in parallel, on this machine's cores and on a Ray cluster of two nodes: the same results, also through losses.

All are of one xdist group: with ``--dist loadgroup`` one worker runs them with one cluster, otherwise each worker
starts its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil
import pytest
from typer.testing import CliRunner

import releaf
import tasks
from releaf import evaluate
from releaf.cli import app
from releaf.evaluate import Run, Store, sweep
from releaf.executors import Executor, Local, LostWorkerError, Ray, executor_for

pytestmark = pytest.mark.xdist_group("ray")
PACKAGE = Path(releaf.__file__).parent
SMALL = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
PATIENCE = 60.0  # seconds
Engine = Callable[..., AbstractContextManager[Executor]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A head and another node of one CPU each, that listen to this machine only, and start in a folder of their own."""
    pytest.importorskip("ray", reason='needs Ray: pip install "releaf[ray]"')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # loopback addresses, before Ray is imported
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        patch.chdir(tmp_path_factory.mktemp("nodes"))
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={**SMALL, "include_dashboard": False})
        made.add_node(**SMALL)
    yield made
    made.shutdown()


@pytest.fixture
def two_nodes(cluster: Any) -> Any:
    """The cluster, with another second node where a test has killed it."""
    if not cluster.worker_nodes:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
            cluster.add_node(**SMALL)
    return cluster


@pytest.fixture(params=["local", "ray"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Makes an engine of two workers."""
    if request.param == "local":
        return lambda **given: Local(2, **given)
    address = request.getfixturevalue("two_nodes").address
    return lambda **given: Ray(address, **given)


def until(happened: Callable[[], Any]) -> Any:
    """What happens before long."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = happened()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def times(folder: Path) -> dict[int, int]:
    """How often each number was done."""
    return {int(path.name): len(path.read_text().splitlines()) for path in folder.iterdir()}


def without_seconds(ledgers: list[evaluate.Ledger]) -> list[dict[str, Any]]:
    return [{**ledger.to_dict(), "seconds": 0.0} for ledger in ledgers]


# --- the same results -----------------------------------------------------------------------------------------


def test_every_place_has_its_result(engine: Engine) -> None:
    with engine() as executor:
        assert dict(executor.map(tasks.square, range(50))) == {number: number**2 for number in range(50)}
        assert list(executor.map(tasks.square, [])) == []
        assert list(executor.map(tasks.square, [7])) == [(0, 49)]


def test_a_sweep_gives_the_ledgers_of_one_process(engine: Engine) -> None:
    tried = {"LinUCB": {"alpha": [0.1, 1.0]}, "UCB1": {}, "Random": {}}
    runs = evaluate.grid(tried, {"breast_cancer": {"steps": 800}}, seeds=range(3))
    with engine() as executor:
        assert without_seconds(sweep(runs, None, executor)) == without_seconds(sweep(runs, None, Local(1)))


def test_results_come_as_they_are_done(engine: Engine) -> None:
    """The first takes longest; with it in flight others are told."""
    with engine() as executor:
        order = [place for place, _ in executor.map(partial(_slow_first, 1.5), range(6))]
    assert sorted(order) == list(range(6))
    assert order[0] != 0


def _slow_first(seconds: float, number: int) -> int:
    return tasks.slow_square(number, seconds if number == 0 else 0.0)


def test_what_the_function_carries_is_there_for_all_tasks(engine: Engine) -> None:
    table = np.random.default_rng(0).random((50_000, 6))
    with engine() as executor:
        found = dict(executor.map(partial(tasks.column_sum, table), range(6)))
    assert found == {column: table[:, column].sum() for column in range(6)}


def test_workers_are_where_the_program_is(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with engine() as executor:
        found = [told for _, told in executor.map(tasks.where, range(4))]
    assert {folder for _, folder, _ in found} == {str(tmp_path)}
    assert os.getpid() not in {process for process, _, _ in found}


def test_processes_stay_for_further_tasks_until_the_executor_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Local(2) as executor:
        first = {process for _, (process, _, _) in executor.map(tasks.where, range(8))}
        monkeypatch.chdir(tmp_path)
        again = [told for _, told in executor.map(tasks.where, range(8))]
        assert {process for process, _, _ in again} <= first
        assert {folder for _, folder, _ in again} == {str(tmp_path)}
    until(lambda: not any(map(_runs, first)))
    assert len(list(executor.map(tasks.square, range(4)))) == 4
    executor.close()


def test_processes_end_with_an_executor_that_nobody_holds() -> None:
    processes = {process for _, (process, _, _) in Local(2).map(tasks.where, range(8))}
    until(lambda: not any(map(_runs, processes)))


def test_tasks_may_be_asked_for_while_others_are_under_way() -> None:
    with Local(2) as executor:
        for place, result in executor.map(tasks.square, range(4)):
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
        found = dict(executor.map(partial(tasks.die_at_first, tmp_path), range(11)))
    assert found == {number: number**2 for number in range(11)}
    assert times(tmp_path) == {number: 2 if number % 5 == 0 else 1 for number in range(11)}
    assert capsys.readouterr().out == ""  # where results may be read from


def test_a_task_that_kills_its_workers_is_given_up_and_named(engine: Engine, tmp_path: Path) -> None:
    with (
        engine(retries=1) as executor,
        pytest.raises(LostWorkerError, match=r"task 3 \(3\) was given up: its worker died 2 times"),
    ):
        list(executor.map(partial(tasks.die, tmp_path), range(6)))
    assert times(tmp_path)[3] == 2


def test_what_a_task_raises_comes_as_it_is_and_names_the_task(engine: Engine) -> None:
    with engine() as executor, pytest.raises(FileNotFoundError) as caught:
        list(executor.map(tasks.missing_file, range(6)))
    assert type(caught.value) is FileNotFoundError
    assert caught.value.filename == "cases.csv"
    assert caught.value.__notes__ == ["task 2 (2) raised this"]


def test_a_stop_ends_what_is_in_flight(engine: Engine, tmp_path: Path) -> None:
    with engine() as executor:
        results = executor.map(partial(tasks.sleep_for_ever, tmp_path), range(8))
        assert next(results) == (0, 0)
        until(lambda: len(times(tmp_path)) >= 2)
        results.close()  # type: ignore[attr-defined]
        asleep = {int(path.read_text()) for path in tmp_path.iterdir() if path.name != "0"}
        until(lambda: not any(map(_runs, asleep)))
        assert len(list(executor.map(tasks.square, range(4)))) == 4


def _runs(process: int) -> bool:
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


# --- a node is lost -------------------------------------------------------------------------------------------


def test_the_tasks_of_a_node_that_is_killed_are_done_elsewhere(two_nodes: Any, tmp_path: Path) -> None:
    doomed = two_nodes.list_all_nodes()[1]
    with Ray(two_nodes.address) as executor:
        results = executor.map(partial(tasks.stuck_on, tmp_path, doomed.node_id), range(40))
        found = dict([next(results)])
        until(lambda: times(tmp_path))  # the node has a task that would never end
        two_nodes.remove_node(doomed, allow_graceful=False)
        found |= dict(results)
    assert found == {number: number**2 for number in range(40)}


def test_a_log_is_fitted_to_the_same_bits_on_a_cluster_also_when_a_node_is_lost(two_nodes: Any, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for number in range(8):
        columns = {name: draw.random(2000) for name in ("x", "y", "z")}
        taken, reward = draw.integers(0, 2, 2000), draw.random(2000)
        frame = pl.DataFrame({**columns, "action": taken, "reward": reward})
        frame.write_parquet(tmp_path / f"{number}.parquet", row_group_size=500)
    alone = releaf.fit_log(tmp_path, ["x", "y", "z"], executor=Local(1)).to_bytes()
    told: list[str] = []

    def lose_a_node(what: str, done: int, total: int) -> None:
        told.append(what)
        if done and what == "summing" and two_nodes.worker_nodes:
            two_nodes.remove_node(two_nodes.list_all_nodes()[1], allow_graceful=False)

    with Ray(two_nodes.address) as executor:
        assert releaf.fit_log(tmp_path, ["x", "y", "z"], executor=executor).to_bytes() == alone
        assert releaf.fit_log(tmp_path, ["x", "y", "z"], executor=executor, progress=lose_a_node).to_bytes() == alone
    assert not two_nodes.worker_nodes
    assert set(told) == {"counting", "summing"}


def test_a_sweep_through_the_loss_of_a_node_is_that_of_one_process(two_nodes: Any, tmp_path: Path) -> None:
    runs = evaluate.grid(["ContextualZooming"], {"breast_cancer": {"steps": 30_000}}, seeds=range(10))
    told: list[bool] = []

    def lose_a_node(run: Run, ledger: evaluate.Ledger, kept: bool) -> None:
        told.append(kept)
        if len(told) == 2:
            two_nodes.remove_node(two_nodes.list_all_nodes()[1], allow_graceful=False)

    with Ray(two_nodes.address) as executor:
        ledgers = sweep(runs, Store(tmp_path), executor, lose_a_node)
    assert told == [False] * 10
    assert without_seconds(ledgers) == without_seconds(sweep(runs, None, Local(1)))
    assert len(list(tmp_path.glob("*.parquet"))) == 10


# --- a stop in mid-sweep --------------------------------------------------------------------------------------

PROGRAM = """
import sys
from functools import partial
from pathlib import Path
import tasks
from releaf import evaluate
from releaf.executors import Local, Ray

store, counts, address = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]

class Counting:
    def __init__(self, executor):
        self.executor = executor
    def map(self, function, runs):
        return self.executor.map(partial(tasks.counted, function, counts), runs)

if __name__ == "__main__":
    tried = {"LinUCB": {"alpha": [0.1, 0.3, 1.0]}, "UCB1": {}, "Random": {}}
    runs = evaluate.grid(tried, {"breast_cancer": {"steps": [100, 200]}}, seeds=range(30))
    assert len(runs) == 300
    executor = Counting(Local(2) if address == "cores" else Ray(address))
    evaluate.sweep(runs, evaluate.Store(store), executor, lambda run, _, kept: print(kept, run.key, flush=True))
"""


@pytest.mark.parametrize(("where", "how"), [("cores", signal.SIGINT), ("ray", signal.SIGKILL), ("ray", signal.SIGINT)])
def test_of_300_runs_none_is_done_again_after_a_stop(
    where: str, how: signal.Signals, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = "cores" if where == "cores" else request.getfixturevalue("two_nodes").address
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "counts").mkdir()
    command = [sys.executable, *(str(tmp_path / name) for name in ("program.py", "runs", "counts")), address]
    settings: dict[str, Any] = {"env": os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, "text": True}
    said = tmp_path / "said"
    with (
        said.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, **settings) as process,
    ):
        assert process.stdout is not None
        for _ in range(100):
            assert process.stdout.readline().startswith("False "), said.read_text()
        process.send_signal(how)
        process.communicate(timeout=PATIENCE)
    finished = {path.stem: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*.parquet")}
    assert 100 <= len(finished) < 300
    done = subprocess.run(command, capture_output=True, timeout=2 * PATIENCE, check=True, **settings)
    kept = {key for told, key in map(str.split, done.stdout.splitlines()) if told == "True"}
    assert kept == set(finished)
    files = {path.stem: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*.parquet")}
    assert len(files) == done.stdout.count("\n") == 300
    assert all(files[key] == written for key, written in finished.items())
    executions = {path.name: len(path.read_text().splitlines()) for path in (tmp_path / "counts").iterdir()}
    assert set(executions) == set(files)
    assert all(executions[key] == 1 for key in finished)
    assert sum(executions.values()) <= 300 + 8  # what was in flight


# --- the cluster ----------------------------------------------------------------------------------------------


def test_this_machines_releaf_can_be_sent_along(two_nodes: Any) -> None:
    with Ray(two_nodes.address, runtime_env={"py_modules": [releaf, tasks]}) as executor:
        ((_, (_, _, file)),) = executor.map(tasks.where, [0])
    assert PACKAGE not in Path(file).parents


def test_a_node_with_another_releaf_is_refused(two_nodes: Any, tmp_path: Path) -> None:
    other = tmp_path / "releaf"
    shutil.copytree(PACKAGE, other, ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "theory.py").open("a") as file:
        file.write("\n# changed\n")
    with (
        Ray(two_nodes.address, runtime_env={"py_modules": [str(other)]}) as executor,
        pytest.raises(ImportError, match="has another releaf than the program that sent the task"),
    ):
        list(executor.map(tasks.square, range(2)))


def test_a_node_without_releaf_is_named(two_nodes: Any, tmp_path: Path) -> None:
    (tmp_path / "releaf").mkdir()
    (tmp_path / "releaf" / "__init__.py").touch()  # in the way of the one that is there
    with (
        Ray(two_nodes.address, runtime_env={"py_modules": [str(tmp_path / "releaf")]}) as executor,
        pytest.raises(ImportError, match=r"a node has no releaf, .* \(ModuleNotFoundError: No module named 'releaf"),
    ):
        list(executor.map(tasks.square, range(2)))


def test_the_cluster_is_found_and_left_as_it_was(two_nodes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setenv("RAY_ADDRESS", two_nodes.address)
    for _ in range(2):
        with executor_for(workers=1, ray="auto") as executor:
            assert len(list(executor.map(tasks.square, range(3)))) == 3
        assert not ray.is_initialized()


def test_a_program_that_is_connected_stays_so(two_nodes: Any) -> None:
    import ray

    ray.init(two_nodes.address, log_to_driver=False)
    try:
        with Ray(two_nodes.address) as executor:
            assert len(list(executor.map(tasks.square, range(3)))) == 3
        assert ray.is_initialized()
    finally:
        ray.shutdown()


def test_a_cluster_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    with pytest.raises(ConnectionError, match=r"there is no Ray cluster at 127\.0\.0\.1:1 .*ray start --head"):
        list(Ray("127.0.0.1:1").map(tasks.square, range(2)))
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ConnectionError, match=r"there is no Ray cluster at 127\.0\.0\.1:1"):
        list(Ray().map(tasks.square, range(2)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"address": "somewhere"}, 'address is \'somewhere\': expected "auto", "local" or host:port'),
        ({"address": "ray://head:10001"}, "ray job submit"),
        ({"workers": 0}, "workers must be at least 1, got workers=0"),
        ({"retries": -1}, "retries must be at least 0, got retries=-1"),
        ({"memory": 0}, "memory must be a number of bytes, got memory=0"),
    ],
)
def test_bad_arguments_are_named(given: dict[str, Any], message: str) -> None:
    pytest.importorskip("ray")
    with pytest.raises(ValueError, match=message):
        Ray(**given)


def test_releaf_is_imported_without_ray() -> None:
    program = "import sys, releaf, releaf.evaluate, releaf.executors, releaf.cli; print('ray' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- commands -------------------------------------------------------------------------------------------------


def command(*arguments: object, expect: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == expect, result.output
    return result


def test_compare_on_ray_finds_what_it_finds_here(two_nodes: Any, tmp_path: Path) -> None:
    given = ("compare", "LinUCB", "UCB1", "--steps", 500, "--seeds", 2, "--json")
    found = json.loads(command(*given, "--ray", two_nodes.address, "--store", tmp_path / "ray").stdout)
    here = json.loads(command(*given, "--workers", 1, "--store", tmp_path / "here").stdout)
    assert [{**line, "seconds": None} for line in found] == [{**line, "seconds": None} for line in here]
    assert len(list((tmp_path / "ray").glob("*.parquet"))) == 4


def test_reproduce_on_ray_finds_what_it_finds_here(two_nodes: Any, tmp_path: Path) -> None:
    given = ("reproduce", "lemma1", "--quick", "--seeds", 1, "--json", "--report")
    found = command(*given, tmp_path / "1", "--store", tmp_path / "ray", "--ray", two_nodes.address)
    here = command(*given, tmp_path / "2", "--store", tmp_path / "here", "--workers", 1)
    told = [json.loads(result.stdout) for result in (found, here)]
    assert told[0] | {"date": None} == told[1] | {"date": None}


@pytest.mark.parametrize("where", ["cores", "ray"])
def test_evaluate_in_parallel_finds_what_it_finds_alone(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    draw = np.random.default_rng(0)
    columns = {"x": draw.random(2_000), "y": draw.random(2_000), "action": draw.choice(["a", "b"], 2_000)}
    likes = np.where(columns["action"] == "a", columns["x"], 1 - columns["x"])
    clicks = (draw.random(2_000) < likes).astype(float)
    pl.DataFrame({**columns, "reward": clicks, "probability": 0.5}).write_parquet(tmp_path / "log.parquet")
    given = ("evaluate", tmp_path / "log.parquet", "--policy", "LinUCB", "--policy", "AdaptiveReleaf", "--json")
    engine = ("--workers", 2) if where == "cores" else ("--ray", request.getfixturevalue("two_nodes").address)
    assert command(*given, *engine).stdout == command(*given).stdout


def test_commands_say_what_is_wrong_with_an_address() -> None:
    pytest.importorskip("ray")
    assert "expected" in command("compare", "--ray", "nowhere", expect=1).stderr
    given = ("compare", "UCB1", "--steps", 100, "--seeds", 1)
    assert "there is no Ray cluster at 127.0.0.1:1" in command(*given, "--ray", "127.0.0.1:1", expect=1).stderr
