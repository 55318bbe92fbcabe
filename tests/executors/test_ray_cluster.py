"""A Ray cluster: found and left, nodes that are lost or not as they should be, and the commands that use it."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import executor_tasks
import numpy as np
import polars as pl
import pytest
from polling import run_counts, wait_until
from typer.testing import CliRunner

import releaf
from releaf import evaluate
from releaf.cli import app
from releaf.evaluate import Run, Store, sweep
from releaf.executors import Local, Ray, executor_for
from releaf.train import adaptive_fit

pytestmark = pytest.mark.xdist_group("ray")
PACKAGE = Path(releaf.__file__).parent
SMALL = {"num_cpus": 1, "object_store_memory": 100 * 2**20}  # a node


# --- a node is lost -------------------------------------------------------------------------------------------


def test_the_tasks_of_a_node_that_is_killed_are_done_elsewhere(two_nodes: Any, tmp_path: Path) -> None:
    doomed = two_nodes.list_all_nodes()[1]
    with Ray(two_nodes.address) as executor:
        results = executor.map(partial(executor_tasks.block_on_node, tmp_path, doomed.node_id), range(40))
        found = dict([next(results)])
        wait_until(lambda: run_counts(tmp_path))  # the node has a task that would never end
        two_nodes.remove_node(doomed, allow_graceful=False)
        found |= dict(results)
    assert found == {number: number**2 for number in range(40)}


@pytest.mark.parametrize(("policy", "last"), [(releaf.Releaf, "summing"), (releaf.AdaptiveReleaf, "sampling")])
def test_a_log_is_fitted_to_the_same_bits_on_a_cluster_also_when_a_node_is_lost(
    two_nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: Any, last: str
) -> None:
    monkeypatch.setattr(adaptive_fit, "FITTED_HERE", 10_000)  # so that models are fitted on the cluster too
    fit = partial(releaf.fit_log, tmp_path, ["x", "y", "z"], policy=policy)
    draw = np.random.default_rng(0)
    for number in range(8):
        columns = {name: draw.random(2000) for name in ("x", "y", "z")}
        taken, reward = draw.integers(0, 2, 2000), draw.random(2000)
        frame = pl.DataFrame({**columns, "action": taken, "reward": reward})
        frame.write_parquet(tmp_path / f"{number}.parquet", row_group_size=500)
    alone = fit(executor=Local(1)).to_bytes()
    told: list[str] = []

    def lose_a_node(what: str, done: int, total: int) -> None:
        told.append(what)
        if done and what == last and two_nodes.worker_nodes:
            two_nodes.remove_node(two_nodes.list_all_nodes()[1], allow_graceful=False)

    with Ray(two_nodes.address) as executor:
        assert fit(executor=executor).to_bytes() == alone
        assert fit(executor=executor, progress=lose_a_node).to_bytes() == alone
    assert not two_nodes.worker_nodes
    assert set(told) - {"fitting"} == {"counting", last}


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
    assert executor_tasks.without_seconds(ledgers) == executor_tasks.without_seconds(sweep(runs, None, Local(1)))
    assert len(list(tmp_path.glob("*.parquet"))) == 10


# --- the cluster ----------------------------------------------------------------------------------------------


def test_this_machines_releaf_can_be_sent_along(two_nodes: Any) -> None:
    with Ray(two_nodes.address, runtime_env={"py_modules": [releaf, executor_tasks]}) as executor:
        ((_, (_, _, file)),) = executor.map(executor_tasks.worker_location, [0])
    assert PACKAGE not in Path(file).parents


def test_a_node_with_another_releaf_is_refused(two_nodes: Any, tmp_path: Path) -> None:
    other = tmp_path / "releaf"
    shutil.copytree(PACKAGE, other, ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "policy.py").open("a") as file:
        file.write("\n# changed\n")
    with (
        Ray(two_nodes.address, runtime_env={"py_modules": [str(other)]}) as executor,
        pytest.raises(ImportError, match="has another releaf than the program that sent the task"),
    ):
        list(executor.map(executor_tasks.square, range(2)))


def test_a_node_without_releaf_is_named(two_nodes: Any, tmp_path: Path) -> None:
    (tmp_path / "releaf").mkdir()
    (tmp_path / "releaf" / "__init__.py").touch()  # in the way of the one that is there
    with (
        Ray(two_nodes.address, runtime_env={"py_modules": [str(tmp_path / "releaf")]}) as executor,
        pytest.raises(ImportError, match=r"a node has no releaf, .* \(ModuleNotFoundError: No module named 'releaf"),
    ):
        list(executor.map(executor_tasks.square, range(2)))


def test_the_cluster_is_found_and_left_as_it_was(two_nodes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setenv("RAY_ADDRESS", two_nodes.address)
    for _ in range(2):
        with executor_for(workers=1, ray="auto") as executor:
            assert len(list(executor.map(executor_tasks.square, range(3)))) == 3
        assert not ray.is_initialized()


def test_a_program_that_is_connected_stays_so(two_nodes: Any) -> None:
    import ray

    ray.init(two_nodes.address, log_to_driver=False)
    try:
        with Ray(two_nodes.address) as executor:
            assert len(list(executor.map(executor_tasks.square, range(3)))) == 3
        assert ray.is_initialized()
    finally:
        ray.shutdown()


def test_a_cluster_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    with pytest.raises(ConnectionError, match=r"there is no Ray cluster at 127\.0\.0\.1:1 .*ray start --head"):
        list(Ray("127.0.0.1:1").map(executor_tasks.square, range(2)))
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ConnectionError, match=r"there is no Ray cluster at 127\.0\.0\.1:1"):
        list(Ray().map(executor_tasks.square, range(2)))


def test_memory_that_no_node_has_is_refused(two_nodes: Any) -> None:
    with (
        Ray(two_nodes.address, memory=2**45) as executor,
        pytest.raises(ValueError, match=r"memory is 35,184,372,088,832 bytes: expected at most [0-9,]+, which the "),
    ):
        list(executor.map(executor_tasks.square, range(2)))
    with Ray(two_nodes.address, memory=2**20) as executor:
        assert len(list(executor.map(executor_tasks.square, range(2)))) == 2


class SaidError(Exception):
    """Something was logged."""


class Impatient(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise SaidError(record.getMessage())


def test_a_cluster_that_can_grow_is_waited_for_and_that_is_said(
    two_nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("releaf.executors.ray.IDLE_WARNING_SECONDS", 0.5)
    monkeypatch.setattr(logging.getLogger("releaf.executors"), "handlers", [Impatient(logging.WARNING)])
    grown = two_nodes.add_node(**SMALL, labels={"ray.io/node-group": "workers"})
    try:
        with (
            Ray(two_nodes.address, memory=2**45) as executor,
            pytest.raises(SaidError, match="no node of the Ray cluster has started any of the pending tasks"),
        ):
            list(executor.map(executor_tasks.square, range(3)))
    finally:
        two_nodes.remove_node(grown, allow_graceful=False)


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
