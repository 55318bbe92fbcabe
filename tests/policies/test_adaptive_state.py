"""State files of AdaptiveReleaf: crafted ones are refused, and kernels write to their own arrays only."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from adaptive_twin import MIXED, stream
from learner_comparison import full_state, run_steps

import releaf
from releaf.core.adaptive import engine
from releaf.core.adaptive.levels import MOST_LEVELS, SCALE
from releaf.core.adaptive.sample import KEYS
from releaf.core.adaptive.state import (
    DUE_NOW,
    EFFECT,
    FITTED,
    FITTED_FOR,
    FORGET_TO,
    LATEST_KEY,
    LEAF,
    LEARNT,
    NEXT,
    NONE,
    RATE,
    REQUESTED,
    ROWS,
    SEEN,
    STARTED,
    STARTED_FOR,
    STARTED_LEAF,
)
from releaf.core.runtime import state_file

Change = Callable[[Any], Any]


def put(*places: Any, value: Any) -> Change:
    """Set one entry of an array."""

    def change(array: Any) -> Any:
        array[places] = value
        return array

    return change


CRAFTED: list[tuple[str, Change]] = [
    ("clock", put(REQUESTED, value=-1)),
    ("clock", put(0, value=5)),
    ("seen", put(3, 0, value=1.5)),
    ("seen", put(3, 0, value=-0.5)),
    ("seen", put(3, 1, value=-1.5)),
    ("seen", put(3, 2, value=1.0)),  # one more than all categories
    ("seen", put(3, 3, value=np.nan)),
    ("seen_keys", put(0, value=-1)),
    ("seen_keys", put(0, value=KEYS)),
    ("seen_steps", put(0, value=-1)),
    ("seen_steps", lambda array: array[:-1]),
    ("seen_counts", put(0, value=SEEN + 1)),
    ("seen_counts", put(1, value=63)),
    ("seen_counts", put(1, value=-1)),
    ("fresh_knots", lambda array: np.full_like(array, 0.5)),
    ("fresh_knots", put(0, 0, value=0.1)),
    ("fresh_knots", put(0, SCALE, value=0.0)),
    ("fresh_knots", lambda array: array[:-1]),
    ("fresh_levels", put(0, value=MOST_LEVELS + 1)),
    ("fresh_levels", put(0, value=1)),
    ("fresh_levels", put(2, value=6)),  # there are 5 categories
    ("fresh_levels", put(3, value=40)),  # which have no levels
    ("losses", put(0, 0, value=-1.0)),
    ("losses", put(0, 0, value=1e300)),
    ("losses", lambda array: array[:1]),
    ("pooled_losses", put(0, value=np.inf)),
    ("pooled_losses", put(0, value=1e300)),
    ("reward_sums", put(1, value=1e9)),
    ("sums", put(0, value=-1.0)),
    ("sample_counts", lambda array: array[:1]),
    ("sample_counts", lambda array: array.astype(np.int32)),
    ("sample_counts", lambda array: array[:, :-1].copy()),
    ("sample_counts", put(0, ROWS, value=-1)),
    ("sample_counts", put(0, ROWS, value=10**6)),
    ("sample_counts", put(0, LEARNT, value=0)),
    ("sample_counts", put(0, LEARNT, value=2**60)),
    ("sample_counts", put(0, RATE, value=-1)),
    ("sample_counts", put(0, RATE, value=63)),
    ("sample_counts", put(0, NEXT, value=2**40)),
    ("sample_counts", put(0, DUE_NOW, value=1)),
    ("sample_counts", put(0, FORGET_TO, value=-1)),
    ("sample_counts", put(0, FORGET_TO, value=10**6)),
    ("sample_counts", put(0, FITTED, value=10**6)),
    ("sample_counts", put(0, FITTED, value=-1)),
    ("sample_counts", put(0, FITTED_FOR, value=0)),
    ("sample_counts", put(0, LEAF, value=0)),
    ("sample_counts", put(0, STARTED, value=10**6)),
    ("sample_counts", put(0, STARTED, value=-2)),
    ("sample_counts", put(0, STARTED_FOR, value=-5)),
    ("sample_counts", put(0, STARTED_LEAF, value=0)),
    ("sample_counts", put(0, EFFECT, value=2**40)),
    ("sample_counts", put(0, LATEST_KEY, value=-1)),
    ("sample_contexts", put(0, 0, value=1.5)),
    ("sample_contexts", put(0, 2, value=1.0)),
    ("sample_contexts", put(0, 0, value=np.nan)),
    ("sample_contexts", lambda array: array[:-1]),
    ("sample_contexts", lambda array: array[:, :-1].copy()),
    ("sample_contexts", lambda array: array.astype(np.float64)),
    ("sample_rewards", put(0, value=-0.1)),
    ("sample_rewards", put(0, value=1.1)),
    ("sample_rewards", lambda array: array[:-1]),
    ("sample_keys", put(0, value=-1)),
    ("sample_keys", put(0, value=KEYS)),
    ("sample_keys", lambda array: array[:-1]),
    ("sample_numbers", put(0, value=-1)),
    ("sample_numbers", put(0, value=5)),  # not in order
    ("sample_numbers", lambda array: array + 10**6),
    ("sample_steps", put(0, value=-1)),
    ("sample_steps", lambda array: array[:-1]),
    ("sample_offsets", put(0, 0, value=1.5)),
    ("sample_offsets", put(0, 1, value=-0.5)),
    ("sample_knots", lambda array: np.full_like(array, 0.5)),
    ("sample_knots", lambda array: array[:1]),
    ("sample_knots", put(0, 0, 2, value=np.nan)),
    ("sample_levels", put(0, 0, value=MOST_LEVELS + 1)),
    ("sample_levels", put(0, 0, value=0)),
    ("sample_levels", put(1, 2, value=500)),
    ("sample_next_knots", lambda array: -array),
    ("sample_next_levels", put(0, 1, value=100)),
    ("sample_watch", put(0, 0, value=-1.0)),
    ("sample_watch", put(0, 1, value=1e12)),
]


def learner() -> Any:
    """A learner with a fit under way."""
    bandit = releaf.AdaptiveReleaf(2, MIXED, seed=0, forget="auto")
    contexts, rewards = stream("mixed", 400)
    for step in range(400):
        bandit.replay(contexts[step : step + 1], rewards[step : step + 1])
        if step > 200 and bandit._engine.samples[0].counts[STARTED] != NONE:
            return bandit
    raise AssertionError("no fit was under way")


@pytest.fixture(scope="module")
def content() -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "AT_ONCE", 100)
        made: bytes = learner().to_bytes()
    return made


@pytest.mark.parametrize(
    ("name", "change"), CRAFTED, ids=[f"{place}-{name}" for place, (name, _) in enumerate(CRAFTED)]
)
def test_a_crafted_state_is_refused(content: bytes, name: str, change: Change) -> None:
    header, arrays = state_file.from_bytes(content, "content")
    header.pop("format")
    arrays[f"policy.{name}"] = change(arrays[f"policy.{name}"].copy())
    with pytest.raises(releaf.StateError, match="is not a learner that this version of releaf can load"):
        releaf.from_bytes(state_file.to_bytes(header, arrays))


def test_every_array_of_a_state_is_crafted_and_may_be_missing(content: bytes) -> None:
    header, arrays = state_file.from_bytes(content, "content")
    names = [name.removeprefix("policy.") for name in arrays if name.startswith("policy.")]
    assert set(names) == {name for name, _ in CRAFTED}
    header.pop("format")
    for name in names:
        rest = {key: array for key, array in arrays.items() if key != f"policy.{name}"}
        with pytest.raises(releaf.StateError):
            releaf.from_bytes(state_file.to_bytes(header, rest))


def test_a_state_that_is_refused_leaves_a_learner_as_it_was(content: bytes) -> None:
    bandit = releaf.from_bytes(content)
    before, arrays = full_state(bandit), bandit._arrays()
    arrays["sample_rewards"][0] = 2.0
    with pytest.raises(ValueError, match="its samples contradict the rest"):
        bandit._load_state(arrays)
    assert full_state(bandit) == before


def test_an_unchanged_state_is_loaded_and_continues(content: bytes) -> None:
    header, arrays = state_file.from_bytes(content, "content")
    header.pop("format")
    again = releaf.from_bytes(state_file.to_bytes(header, arrays))
    contexts, rewards = stream("mixed", 100, seed=4)
    assert run_steps(again, contexts, rewards) == run_steps(releaf.from_bytes(content), contexts, rewards)


GUARDED = """
import sys
import numpy as np
from adaptive_twin import SCHEMAS, run_in_lock_step, stream
from releaf.core.adaptive import engine
from releaf.core.adaptive.state import Adaptive, Model, Sample
import releaf
PAD, FILL, padded = 64, 77, []
original = Adaptive.__setattr__
def guarded(self, field, values):
    original(self, field, values)
    array = getattr(self, field)
    whole = np.full(array.size + 2 * PAD, FILL, dtype=array.dtype)
    whole[PAD:-PAD] = array.reshape(-1)
    padded.append((f"{type(self).__name__}.{field}", whole))
    original(self, field, whole[PAD:-PAD].reshape(array.shape))
for state in (Adaptive, Model, Sample):
    state.__setattr__ = guarded
engine.AT_ONCE, engine.SAMPLE_BYTES, engine.LEAST_MOST_ROWS = 300, 0, 128
for kind, rule in (("mixed", {}), ("mixed", {"label_budget": 200}), ("numbers", {"forget": 64}), ("many", {}),
                   ("huge", {"forget": "auto"}), ("mixed", {"observe": "labels"})):
    bandit = releaf.AdaptiveReleaf(3, SCHEMAS[kind], seed=1, **rule)
    contexts, rewards = stream(kind, 400, actions=3)
    bandit.replay(contexts[:300], rewards[:300])
    bandit.add_action()
    bandit.remove_action(0)
    bandit.replay(contexts[300:], rewards[300:])
    bandit.estimate(contexts[:5])
    for feature in SCHEMAS[kind].names[:2]:
        bandit.effect(feature)
    bandit.explain(bandit.decide(contexts[0]))
touched = [field for field, whole in padded if (whole[:PAD] != FILL).any() or (whole[-PAD:] != FILL).any()]
print("guarded:", len({field for field, _ in padded}), "touched:", sorted(set(touched)))
"""


def test_kernels_write_only_to_their_own_arrays() -> None:
    """Every array stands between two guards, which must be as they were in the end."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", GUARDED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    guarded, touched = done.stdout.strip().removeprefix("guarded: ").split(" touched: ")
    assert int(guarded) > 50
    assert touched == "[]"


def test_a_state_from_before_trends_were_watched_loads_and_decides_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "AT_ONCE", 100)
    bandit = learner()
    arrays = bandit._arrays()
    del arrays["seen_steps"], arrays["sample_steps"]
    arrays["sample_watch"] = arrays["sample_watch"][:, :2].copy()
    older = learner()
    older._load_state(arrays)
    contexts, _ = stream("mixed", 50, seed=4)
    assert [older.decide(row).action for row in contexts] == [bandit.decide(row).action for row in contexts]
