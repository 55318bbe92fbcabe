"""Policies and streams of the user's own in sweeps, by the notation of entry points; and checkpoints of runs."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import releaf
from releaf import evaluate, streams
from releaf.evaluate import Run, Store, grid, sweep
from releaf.executors import Local

MODULE = """
import numpy as np
from releaf import Random
from releaf.streams import Stream

class Mine(Random):
    def __init__(self, actions, features, *, seed=None, luck=1.0):
        super().__init__(actions, features, seed=seed)
        self.luck = luck

    def relevance(self):
        return np.full((len(self.actions), len(self.schema)), self.luck)

def coin(steps=100, seed=0):
    draw = np.random.default_rng(seed)
    contexts = draw.random((steps, 2))
    low = contexts[:, 0] < 0.5
    return Stream(contexts, np.column_stack([low, ~low]).astype(float), ("x", "y"), (0, 1))

number = 3
"""


PLURALS = {"policy": "policies", "stream": "streams"}


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of the user's, importable here and in worker processes."""
    path = tmp_path / "mine_of_user.py"
    path.write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mine_of_user", raising=False)
    return path


def a_run(**given: Any) -> Run:
    described = {"stream": "mine_of_user:coin", "policy": "mine_of_user:Mine", "seed": 0}
    return Run(**{**described, **given})


@pytest.mark.usefixtures("mine")
def test_a_sweep_runs_a_policy_and_a_stream_of_the_users_own(tmp_path: Path) -> None:
    runs = grid({"mine_of_user:Mine": {"luck": [0.25, 0.5]}}, {"mine_of_user:coin": {"steps": 300}}, range(2))
    store, kept = Store(tmp_path / "runs"), []
    ledgers = sweep(runs, store, Local(2))
    assert [ledger.relevance for ledger in ledgers[::2]] == [[[0.25] * 2] * 2, [[0.5] * 2] * 2]
    assert ledgers[0].steps == 300
    assert ledgers[0].reward == pytest.approx(0.5, abs=0.1)
    sweep(runs, store, Local(1), lambda run, ledger, old: kept.append(old))
    assert kept == [True] * 4


def test_the_key_follows_the_modules_source(mine: Path) -> None:
    policy, stream = a_run(stream="breast_cancer"), a_run(policy="Random")
    before = policy.key, stream.key
    assert (policy.key, stream.key) == before
    mine.write_text(MODULE.replace("number = 3", "number = 4"))
    assert (policy.key, stream.key) == before, "the code that would run is still the one that was imported"
    importlib.invalidate_caches()
    importlib.reload(sys.modules["mine_of_user"])
    assert policy.key != before[0]
    assert stream.key != before[1]


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("mine_of_nobody:Mine", ValueError, "there is no module 'mine_of_nobody' to import"),
        ("releaf.nowhere.at_all:Mine", ValueError, "there is no module 'releaf.nowhere' to import"),
        ("mine_of_user:Yours", ValueError, "module 'mine_of_user' has no attribute 'Yours'"),
        ("mine_of_user:number", TypeError, "is 'mine_of_user:number', which is 3: expected a class or a function"),
        ("mine_of_user:", ValueError, "is 'mine_of_user:': expected 'module:name'"),
        (":Mine", ValueError, "is ':Mine': expected 'module:name'"),
        ("__main__:Mine", ValueError, "with a module that other processes can import"),
        ("LinUBC", ValueError, "'LinUBC'; expected one of .*, or 'module:name'"),
    ],
)
@pytest.mark.parametrize("kind", ["policy", "stream"])
def test_a_name_that_leads_nowhere_is_an_error_that_says_so(
    kind: str, name: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"{kind} .*{message}" if ":" in name else message):
        evaluate.execute(a_run(**{kind: name}))
    given: dict[str, Any] = {"policies": ["Random"], "streams": ["draft"], PLURALS[kind]: [name]}
    with pytest.raises(error, match=message):
        grid(**given)


def test_a_module_whose_own_import_fails_raises_that_error(mine: Path) -> None:
    mine.write_text("import nothing_of_that_name\n" + MODULE)
    with pytest.raises(ModuleNotFoundError, match="nothing_of_that_name"):
        evaluate.execute(a_run())


# --- checkpoints ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [releaf.Releaf, releaf.AdaptiveReleaf, releaf.CMABRL])
def test_checkpoints_note_what_a_shorter_run_would_end_with_and_change_nothing(kind: Any) -> None:
    stream = streams.generate(1_500, features=4, actions=2, seed=1)
    plain = evaluate.run(kind(2, 4, seed=3), stream)
    noted = evaluate.run(kind(2, 4, seed=3), stream, checkpoints=[20, 333, 1_500])
    assert {**noted.to_dict(), "seconds": 0, "checkpoints": None} == {**plain.to_dict(), "seconds": 0}
    assert plain.checkpoints is None
    found = noted.checkpoints
    assert found is not None
    assert found["steps"] == [20, 333, 1_500]
    for place, steps in enumerate(found["steps"]):
        shorter = kind(2, 4, seed=3)
        trace = shorter.replay(stream.contexts[:steps], stream.rewards[:steps])
        assert found["labels"][place] == trace.observed.sum()
        assert found["explored"][place] == trace.explored.sum()
        assert found["relevance"][place] == shorter.relevance().tolist()


def test_a_policy_without_relevance_has_checkpoints_of_counts() -> None:
    stream = streams.generate(100, features=3, seed=0)
    found = evaluate.run(releaf.UCB1(3, 3, seed=0), stream, checkpoints=(10, 100)).checkpoints
    assert found is not None
    assert found["relevance"] == [None, None]
    assert found["labels"] == [10, 100]


def test_a_store_keeps_checkpoints(tmp_path: Path) -> None:
    runs = grid(["AdaptiveReleaf"], {"draft": {"steps": 200}}, checkpoints=np.array([50, 200]))
    first = sweep(runs, Store(tmp_path), Local(1))
    again = Store(tmp_path).get(runs[0])
    assert again is not None
    assert again.checkpoints == first[0].checkpoints
    assert np.array(again.checkpoints["relevance"]).shape == (2, 5, 12)  # type: ignore[index]
    assert grid(["AdaptiveReleaf"], {"draft": {"steps": 200}})[0].key != runs[0].key


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (3, TypeError, "checkpoints is 3: expected increasing numbers of steps"),
        ([0.5], TypeError, r"checkpoints is \[0\.5\]: expected increasing numbers"),
        ([0, 5], ValueError, r"checkpoints is \[0, 5\]: expected numbers of steps from 1 on"),
        ([5, 5], ValueError, "each above the one before"),
        ([5, 101], ValueError, "checkpoints ends with 101: expected at most the 100 steps"),
        (range(1, 102), ValueError, "checkpoints has 101 entries: expected 100 at most"),
    ],
)
def test_checkpoints_that_make_no_sense_are_refused(given: Any, error: type[Exception], message: str) -> None:
    stream, policy = streams.generate(100, features=3), releaf.UCB1(3, 3)
    before = policy.to_bytes()
    with pytest.raises(error, match=message):
        evaluate.run(policy, stream, checkpoints=given)
    assert policy.to_bytes() == before
