"""Typed state: layout hash, pointer table, file and check follow from one declaration."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import releaf
from releaf.arrays import Array
from releaf.core.releaf import decision_step
from releaf.core.runtime.entry_points import state_entry_point
from releaf.core.runtime.jit import IS_COMPILED, inlined
from releaf.core.runtime.layout import Layout
from releaf.core.runtime.state import LearnerState, constant, learnt, scratch


class Sums(LearnerState):
    """A state with one array of each role."""

    grows = "rows"
    limits: Array = constant(np.float64, "features")
    counts: Array = learnt(np.int64, "rows", "actions", least=0)
    totals: Array = learnt(np.float64, "rows", "actions")
    estimates: Array = scratch(np.float64, "actions")


class WiderSums(Sums):
    """The same with another array."""

    squares: Array = learnt(np.float64, "rows", "actions")


def sums(rows: int = 3, actions: int = 2) -> Sums:
    return Sums(
        limits=np.zeros(4),
        counts=np.arange(rows * actions).reshape(rows, actions),
        totals=np.ones((rows, actions)),
        estimates=np.zeros(actions),
    )


@inlined
def add(state, row, action, reward):  # type: ignore[no-untyped-def]
    state.counts[row, action] += 1
    state.totals[row, action] += reward
    return len(state.counts)


add_reward = state_entry_point(add, Sums, arguments=3)


def test_a_kernel_reads_and_writes_the_arrays_of_a_state() -> None:
    state = sums(rows=5)
    assert add_reward(state.pointer_table, 2, 1, 0.25) == 5
    assert state.counts[2, 1] == 6
    assert state.totals[2, 1] == 1.25
    assert state.totals.sum() == 10.25


def test_an_assigned_array_is_the_one_that_kernels_open() -> None:
    state = sums()
    state.totals = np.zeros((3, 2), dtype=np.float32)  # converted
    add_reward(state.pointer_table, 1, 0, 2.0)
    assert state.totals.dtype == np.float64
    assert state.totals[1, 0] == 2.0


def test_a_pointer_table_of_another_layout_raises_and_changes_nothing() -> None:
    other = WiderSums(**dict(sums().items()), squares=np.zeros((3, 2)))
    with pytest.raises(RuntimeError, match="pointer table is of another state"):
        add_reward(other.pointer_table, 0, 0, 1.0)
    assert np.array_equal(other.totals, np.ones((3, 2)))
    bandit = releaf.Releaf(2, 3, seed=0)
    with pytest.raises(RuntimeError, match="pointer table is of another state"):
        decision_step.decide(other.pointer_table, np.zeros(3))
    assert bandit.decide([0.1, 0.2, 0.3]).id == 1


def test_the_layout_hash_changes_with_names_types_ranks_and_order() -> None:
    first, second = constant(np.float64, "features"), learnt(np.int64, "actions")
    fields = [
        {"a": first, "b": second},
        {"b": second, "a": first},
        {"c": first, "b": second},
        {"a": constant(np.float32, "features"), "b": second},
        {"a": constant(np.float64, "features", "features"), "b": second},
    ]
    assert len({Layout("Same", given, flat=False).hash for given in fields}) == len(fields)
    assert Layout("Same", fields[0], flat=True).hash != Layout("Same", fields[0], flat=False).hash


def test_a_state_with_missing_or_inconsistent_arrays_is_refused() -> None:
    arrays = dict(sums().items())
    with pytest.raises(ValueError, match="Sums lacks the arrays totals"):
        Sums(**{name: array for name, array in arrays.items() if name != "totals"})
    with pytest.raises(ValueError, match=r"totals has length 7 along 'rows': expected 3"):
        Sums(**arrays | {"totals": np.zeros((7, 2))})


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("counts", np.zeros((3, 2))),  # type
        ("counts", np.zeros((3, 3), dtype=np.int64)),  # actions
        ("counts", np.full((3, 2), -1)),  # below the lower bound
        ("totals", np.full((3, 2), np.nan)),
        ("totals", np.zeros((4, 2))),  # rows of another number than counts
    ],
)
def test_inconsistent_arrays_of_a_file_are_refused(name: str, array: Array) -> None:
    state = sums()
    with pytest.raises(ValueError, match="contradict"):
        state.with_learnt(state.learnt_arrays() | {name: array})


def test_arrays_of_a_file_may_have_grown() -> None:
    grown = sums(rows=1).with_learnt(sums(rows=8).learnt_arrays())
    assert grown.size_of("rows") == 8
    assert np.array_equal(grown.counts, sums(rows=8).counts)


def test_a_resized_state_keeps_what_it_holds() -> None:
    state = sums().resized("rows", 6)
    assert np.array_equal(state.counts[:3], sums().counts)
    assert not state.counts[3:].any()


def test_a_copy_shares_nothing_and_addresses_are_never_copied() -> None:
    state = sums()
    other = state.copy()
    other.counts[:] = 0
    assert state.counts.any()
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="holds addresses"):
            duplicate(state)


@pytest.mark.parametrize(
    "arrays", [{"weights": np.zeros(3)}, {"totals": np.zeros(3)}], ids=["unknown name", "another rank"]
)
def test_a_state_takes_declared_arrays_only(arrays: dict[str, Array]) -> None:
    with pytest.raises((AttributeError, ValueError), match=r"weights|totals has 1 dimensions"):
        Sums(**arrays)


PLAIN = """
import sys
import numpy as np, releaf
from releaf.core.runtime.jit import IS_COMPILED
draw = np.random.default_rng(0)
contexts, rewards = draw.random((80, 4)), draw.random((80, 3))
print(IS_COMPILED)
for name in sys.argv[1:]:
    bandit = getattr(releaf, name)(3, 4, seed=1)
    actions = bandit.replay(contexts[:60], rewards[:60]).actions.tolist()
    for context, gained in zip(contexts[60:], rewards[60:]):
        decision = bandit.decide(context)
        actions.append(decision.index)
        if decision.wants_reward:
            bandit.learn(decision, gained[decision.index])
    print(name, actions, np.nan_to_num(bandit.estimate(contexts)).round(9).tolist())
"""
LEARNERS = ("Releaf", "LinUCB", "LinTS", "UCB1", "EpsilonGreedy", "ContextualZooming", "HybridEpsilon", "CMABRL")


def test_kernels_run_as_plain_python_with_the_same_actions_and_estimates() -> None:
    printed = []
    for disable in ("0", "1"):
        environment = os.environ | {"NUMBA_DISABLE_JIT": disable, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", PLAIN, *LEARNERS], env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr[-2000:]
        printed.append(done.stdout.splitlines())
    assert (printed[0][0], printed[1][0]) == ("True", "False")
    assert len(printed[0]) == 1 + len(LEARNERS)
    assert printed[0][1:] == printed[1][1:]


@pytest.mark.skipif(not IS_COMPILED, reason="is the test that runs this way")
def test_the_exactness_suite_passes_in_plain_python() -> None:
    """A few examples of each kind, with the bounds of every array checked."""
    suite = Path(__file__).with_name("test_exactness.py")
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(suite)]
    command += ["-k", "plain_algorithm and not many_configurations"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
