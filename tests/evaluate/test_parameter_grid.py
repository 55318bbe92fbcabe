"""Grids of runs, what they refuse at once, and their results as a table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from releaf import evaluate, streams
from releaf.evaluate import Run, grid, sweep, table
from releaf.executors import Local

HERE = {"breast_cancer": {"steps": 100}}


def test_a_grid_has_all_combinations_in_order() -> None:
    runs = grid({"LinUCB": {"alpha": [0.1, 1.0]}, "UCB1": {}}, {"breast_cancer": {"steps": [100, 200]}}, range(2))
    assert len(runs) == 12
    assert [run.label for run in runs[:6]] == ["LinUCB(alpha=0.1)"] * 2 + ["LinUCB(alpha=1.0)"] * 2 + ["UCB1()"] * 2
    assert [run.seed for run in runs[:4]] == [0, 1, 0, 1]
    assert [run.stream_arguments["steps"] for run in runs] == [100] * 6 + [200] * 6
    assert all(run.stream_arguments["seed"] == run.seed for run in runs)


def test_a_stream_keeps_a_seed_of_its_own() -> None:
    runs = grid(["Random"], {"breast_cancer": {"steps": 100, "seed": [7, 8]}}, range(2))
    assert [(run.stream_arguments["seed"], run.seed) for run in runs] == [(7, 0), (7, 1), (8, 0), (8, 1)]


def test_a_tuple_is_one_value_and_an_array_several() -> None:
    (run,) = grid({"AdaptiveReleaf": {"reward_range": (0.0, 1.0)}}, HERE)
    assert run.policy_arguments == {"reward_range": (0.0, 1.0)}
    tried = grid({"LinUCB": {"alpha": np.array([0.5, 1.0])}}, HERE)
    assert [run.label for run in tried] == ["LinUCB(alpha=0.5)", "LinUCB(alpha=1.0)"]


@pytest.mark.parametrize(
    "seeds",
    [
        (0, 1, 2),
        [0, 1, 2],
        {0, 1, 2},
        (seed for seed in range(3)),
        np.arange(3),
        [np.int64(0), np.uint8(1), 2],
    ],
    ids=["tuple", "list", "set", "generator", "array", "numpy integers"],
)
def test_seeds_are_any_whole_numbers(seeds: Iterable[int]) -> None:
    runs = grid(["Random"], HERE, seeds)
    assert [run.seed for run in runs] == [0, 1, 2]
    assert all(type(run.seed) is int and type(run.stream_arguments["seed"]) is int for run in runs)
    assert [run.key for run in runs] == [run.key for run in grid(["Random"], HERE, range(3))]
    json.dumps([run.to_dict() for run in runs])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"seeds": 3}, TypeError, r"seeds is 3: expected several integers, such as range\(3\)"),
        ({"seeds": "012"}, TypeError, "seeds is '0': expected an integer"),
        ({"seeds": [0.5]}, TypeError, r"seeds is 0\.5: expected an integer"),
        ({"policies": "LinUCB"}, TypeError, "policy names are 'LinUCB': expected a list of names, or a mapping"),
        ({"policies": ["LinUBC"]}, ValueError, "there is no policy 'LinUBC'; expected one of .*LinUCB"),
        ({"policies": {"LinUCB": {"alfa": 1}}}, ValueError, "LinUCB has no parameter 'alfa'; it has .*alpha"),
        ({"policies": {"LinUCB": {"seed": 1}}}, ValueError, "LinUCB has no parameter 'seed'"),
        ({"policies": {"LinUCB": {"alpha": {1, 2}}}}, TypeError, r"LinUCB's alpha is \{1, 2\} \(set\): expected plain"),
        ({"streams": ["moon"]}, ValueError, "there is no stream 'moon'; expected one of breast_cancer"),
        ({"streams": ["read_log"]}, ValueError, "there is no stream 'read_log'"),
        ({"streams": {"breast_cancer": {"step": 1}}}, ValueError, "breast_cancer has no parameter 'step'"),
    ],
)
def test_what_is_wrong_is_said_at_once(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        grid(**{"policies": ["Random"], "streams": HERE, **given})


# --- keys -----------------------------------------------------------------------------------------------------


def key(**given: Any) -> str:
    return Run(stream="breast_cancer", policy="LinUCB", seed=0, policy_arguments=given).key


def test_arguments_that_differ_have_keys_that_differ() -> None:
    nothing, something = np.zeros(5_000), np.zeros(5_000)
    something[2_500] = 1.0
    assert key(weights=nothing) != key(weights=something)
    assert key(alpha=np.int64(1)) != key(alpha="1")
    assert key(alpha=1) != key(alpha=2)


def test_arguments_that_are_equal_have_the_same_key() -> None:
    assert key(alpha=np.int64(1)) == key(alpha=1)
    assert key(alpha=np.float64(0.1)) == key(alpha=0.1)
    assert key(alpha=np.bool_(True)) == key(alpha=True)
    assert key(weights=np.arange(3)) == key(weights=[0, 1, 2])
    assert key(cases={"data": Path("a") / "b"}) == key(cases={"data": "a/b"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"policy_arguments": {"model": object()}}, r"policy_arguments\['model'\] is <object .*expected plain data"),
        ({"policy_arguments": {"model": [1, {2}]}}, r"policy_arguments\['model'\]\[1\] is \{2\} \(set\)"),
        ({"stream_arguments": {"costs": {0: 1.0}}}, r"stream_arguments\['costs'\] is \{0: 1\.0\} .*from texts"),
        ({"positive": b"yes"}, r"positive is b'yes' \(bytes\): expected plain data"),
        ({"seed": 0.5}, r"seed is 0\.5: expected an integer"),
    ],
)
def test_a_run_is_numeric_data(given: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Run(**{"stream": "breast_cancer", "policy": "LinUCB", "seed": 0, **given})


def test_all_modules_that_keys_leave_out_are_there() -> None:
    from releaf.evaluate import runs

    package = Path(runs.__file__).parents[1]
    assert all((package / name).is_file() for name in runs.UNRELATED_MODULES)


# --- tables ---------------------------------------------------------------------------------------------------


def test_a_table_has_a_row_for_each_run_and_a_column_for_each_parameter() -> None:
    tried: dict[str, dict[str, Any]] = {"LinUCB": {"alpha": [1, 0.5]}, "AdaptiveReleaf": {"reward_range": (0, 1)}}
    runs = grid(tried, HERE, range(2), positive="malignant")
    ledgers = sweep(runs, None, Local(1))
    found = table(runs, ledgers)
    assert {len(column) for column in found.values()} == {6}
    assert found["label"] == [run.label for run in runs]
    assert found["policy"] == ["LinUCB"] * 4 + ["AdaptiveReleaf"] * 2
    assert found["seed"] == found["stream_seed"] == [0, 1] * 3
    assert found["policy_alpha"] == [1.0, 1.0, 0.5, 0.5, None, None]
    assert all(type(value) is float for value in found["policy_alpha"][:4])
    assert found["policy_reward_range"] == [None] * 4 + ["[0, 1]"] * 2
    assert found["error"] == [ledger.error for ledger in ledgers]
    assert found["reward_low"] == [None] * 6
    assert not {"curves", "relevance", "partition", "reward_interval"} & set(found)


def test_a_table_tells_the_interval_of_an_estimate(tmp_path: Path) -> None:
    rows = "\n".join(f"{place / 40},{'ab'[place % 2]},{place % 3 % 2}" for place in range(40))
    (tmp_path / "log.csv").write_text(f"x,shown,clicked\n{rows}\n")
    log = {"data": tmp_path / "log.csv", "action": "shown", "reward": "clicked"}
    runs = grid(["UCB1"], {"log": log})
    found = table(runs, ledgers := sweep(runs, None, Local(1)))
    assert ledgers[0].reward_interval == [found["reward_low"][0], found["reward_high"][0]]
    assert found["reward_low"][0] < found["reward"][0] < found["reward_high"][0]


def test_a_table_needs_a_ledger_for_each_run() -> None:
    runs = grid(["Random"], HERE, range(2))
    with pytest.raises(ValueError, match="ledgers has 0 entries: expected one for each of 2 runs"):
        evaluate.table(runs, [])


def test_a_table_is_shuffled_by_the_seeds_unless_told_otherwise(tmp_path: Path) -> None:
    (tmp_path / "cases.csv").write_text("x,label\n" + "".join(f"{row / 8},{'ab'[row > 50]}\n" for row in range(100)))
    given: dict[str, Any] = {"data": str(tmp_path / "cases.csv"), "label": "label"}
    shuffled = grid(["LinUCB"], {"table": given}, range(2))
    assert [run.stream_arguments["seed"] for run in shuffled] == [0, 1]
    kept = grid(["LinUCB"], {"table": {**given, "seed": None}}, range(2))
    assert [run.stream_arguments["seed"] for run in kept] == [None, None]
    shuffled_rows, again, in_order = (rows_of(streams.table(**given, seed=seed)) for seed in (1, 1, None))
    assert shuffled_rows == again != in_order
    assert sorted(shuffled_rows) == in_order


def rows_of(stream: streams.Stream) -> list[tuple[Any, Any]]:
    return list(zip(stream.contexts, stream.rewards.tolist(), strict=True))
