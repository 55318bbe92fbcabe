"""Saving and loading: atomic, and exactly the learner that was saved."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learner_comparison import Array, full_state, plain, run_steps, stream

import releaf
from releaf import Boolean, Categorical, Continuous, GreedyReleaf, Quantile, Releaf, Schema
from releaf.core.releaf.engine import EngineSettings
from releaf.core.releaf.state import HASHED
from releaf.core.runtime import state_file

pytestmark = pytest.mark.filterwarnings("ignore:more than max_pending")
STEPS = 400
MIXED = Schema(
    dose=Quantile(32, missing=True), age=Continuous(0, 1, clip=True), old=Boolean(), kind=Categorical("a", "b", "c")
)


def hashed(dense_limit: int, **options: Any) -> Releaf:
    """A learner whose cells are hashed from the start, or from some size on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("releaf.policies.partitioned.EngineSettings", partial(EngineSettings, dense_limit=dense_limit))
        return Releaf(2, 4, seed=1, **options)


def with_an_added_action() -> Releaf:
    bandit = Releaf(["left", "right"], 4, seed=1, observe="always")
    run_steps(bandit, *stream(150, features=4, seed=9))
    bandit.add_action("up")
    return bandit


LEARNERS: dict[str, Callable[[], Any]] = {
    "explored": lambda: Releaf(2, 4, seed=1),
    "always": lambda: Releaf(2, 4, seed=1, observe="always", lipschitz="unknown"),
    "all actions": lambda: Releaf(2, 4, seed=1, observe="all-actions", rho=2.5, delta=0.3, observation_cost=2.0),
    "greedy": lambda: GreedyReleaf(["yes", "no"], 4, seed=1),
    "hashed": lambda: hashed(0),
    "hashed later": lambda: hashed(10_000, observe="always", rho=2.0),
    "two relevant features, hashed": lambda: hashed(0, gamma_rel=2, rho=8.0),
    "in thirds, from a level on": lambda: Releaf(2, 4, seed=1, base=3, epsilon=0.3),
    "mixed features": lambda: Releaf([True, "b"], MIXED, seed=1),
    "an added action": with_an_added_action,
    "two may wait": lambda: Releaf(2, 4, seed=1, observe="always", max_pending=2),
}


def case(name: str) -> tuple[Any, list[Any], Array]:
    """A learner, and contexts and rewards for it."""
    contexts, rewards = stream(STEPS, features=4, actions=3, seed=2)
    if name != "mixed features":
        return LEARNERS[name](), list(contexts), rewards
    kinds = np.array([*"abc"])[(contexts[:, 3] * 3).astype(int)]
    mixed = [[None if x < 0.1 else x**3, 1.2 * y, z < 0.5, k] for (x, y, z, _), k in zip(contexts, kinds, strict=True)]
    return LEARNERS[name](), mixed, rewards


class Late:
    """Runs a stream and learns each reward some steps late."""

    def __init__(self, delay: int, by_id: bool) -> None:
        self.delay, self.by_id = delay, by_id
        self.waiting: list[tuple[Any, Any]] = []

    def run_steps(self, bandit: Any, contexts: list[Any], rewards: Array) -> list[tuple[Any, ...]]:
        decisions = []
        for context, reward in zip(contexts, rewards, strict=True):
            choice = bandit.decide(context)
            decisions.append(plain(choice))
            if choice.wants_reward:
                known = (
                    reward[: len(bandit.actions)] if bandit.observation_mode == "all-actions" else reward[choice.index]
                )
                self.waiting.append((choice, known))
            while len(self.waiting) > self.delay:
                late, known = self.waiting.pop(0)
                bandit.learn(late.id if self.by_id else late, known)
        return decisions


def saved_and_loaded(bandit: Any, folder: Path) -> Any:
    bandit.save(folder / "learner.releaf")
    return releaf.load(folder / "learner.releaf")


@pytest.mark.parametrize("name", LEARNERS)
@settings(derandomize=True, deadline=None, max_examples=15)
@given(data=st.data())
def test_a_loaded_learner_goes_on_exactly_as_the_saved_one(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    moment = data.draw(st.integers(0, STEPS), label="saved at")
    delay = data.draw(st.integers(0, 1 if name == "two may wait" else 9), label="steps a reward is late")
    bandit, contexts, rewards = case(name)
    late = Late(delay, by_id=data.draw(st.booleans(), label="by id"))
    late.run_steps(bandit, contexts[:moment], rewards[:moment])
    twin = saved_and_loaded(bandit, tmp_path_factory.mktemp("state"))
    twin._engine.settings = bandit._engine.settings  # "hashed later" was made with a limit of its own
    assert type(twin) is type(bandit)
    assert (twin.actions, twin.schema, twin.pending) == (bandit.actions, bandit.schema, bandit.pending)
    assert full_state(twin) == full_state(bandit)
    waiting = list(late.waiting)
    rest = late.run_steps(bandit, contexts[moment:], rewards[moment:])
    late.waiting = waiting  # decisions made before saving are learnt by the loaded learner, too
    assert late.run_steps(twin, contexts[moment:], rewards[moment:]) == rest
    assert full_state(twin) == full_state(bandit)
    assert np.array_equal(twin.relevance(), bandit.relevance())


@pytest.mark.parametrize("name", LEARNERS)
def test_saving_what_was_loaded_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    bandit, contexts, rewards = case(name)
    Late(1, by_id=True).run_steps(bandit, contexts, rewards)
    bandit.save(tmp_path / "first")
    releaf.load(tmp_path / "first").save(tmp_path / "second")
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_the_cells_of_the_hashed_learners_here_are_hashed() -> None:
    for name, at_first in (("hashed", 1), ("hashed later", 0), ("two relevant features, hashed", 1)):
        bandit, contexts, rewards = case(name)
        assert bandit._engine.clock(HASHED) == at_first, name
        run_steps(bandit, contexts, rewards)
        assert bandit._engine.clock(HASHED) == 1, name


def test_a_decision_learnt_before_saving_is_not_learnt_again_by_the_loaded_learner(tmp_path: Path) -> None:
    bandit = Releaf(2, 3, seed=0)
    learnt, waiting = bandit.decide([0.1, 0.2, 0.3]), bandit.decide([0.9, 0.2, 0.3])
    bandit.learn(learnt, 1.0)
    twin = saved_and_loaded(bandit, tmp_path)
    with pytest.raises(ValueError, match=r"^decision 1 is not pending: its reward was learnt already"):
        twin.learn(learnt, 1.0)
    twin.learn(waiting, 0.5)
    assert twin.pending == 0
    assert bandit.pending == 1  # the two are independent


# --- the file -------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The file of a small learner that has lived a little."""
    bandit = Releaf(2, 2, seed=0)
    run_steps(bandit, *stream(4, features=2))
    bandit.decide([0.5, 0.5])
    bandit.save(tmp_path / "small.releaf")
    return tmp_path / "small.releaf"


def test_a_file_needs_nothing_but_json_and_the_bytes_of_arrays_to_be_read(small: Path) -> None:
    content = small.read_bytes()
    length = int.from_bytes(content[45:53], "little")
    header = json.loads(content[53 : 53 + length])
    body = bytearray(content[53 + length :])
    for place in header["arrays"].values():
        assert place["dtype"] in ("<i8", "<i4", "<f8")
        here = slice(place["offset"], place["offset"] + place["bytes"])
        assert (53 + length + here.start) % 64 == 0
        body[here] = bytes(place["bytes"])
    assert not any(body)  # between the arrays there is nothing


def test_a_file_cut_off_anywhere_is_refused(small: Path) -> None:
    content = small.read_bytes()
    for length in range(len(content)):
        small.write_bytes(content[:length])
        with pytest.raises(
            releaf.StateError, match="truncated" if length >= 13 else "is not a releaf state file"
        ) as error:
            releaf.load(small)
        assert str(small) in str(error.value)


def test_a_file_with_a_flipped_bit_anywhere_is_refused(small: Path) -> None:
    content = bytearray(small.read_bytes())
    for place in range(len(content)):
        content[place] ^= 1 << place % 8
        small.write_bytes(content)
        with pytest.raises(
            releaf.StateError, match="its checksum does not match" if place >= 13 else "should begin with"
        ):
            releaf.load(small)
        content[place] ^= 1 << place % 8


def test_a_file_with_something_behind_its_end_is_refused(small: Path) -> None:
    small.write_bytes(small.read_bytes() + b"\0")
    with pytest.raises(releaf.StateError, match="its checksum does not match; restore it from a copy"):
        releaf.load(small)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x04K\x01."])
def test_a_file_of_another_kind_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    message = f"{path} is not a releaf state file: it should begin with 'releaf-state'"
    with pytest.raises(releaf.StateError, match=f"^{re.escape(message)}$"):
        releaf.load(path)


def rewrite(path: Path, header: dict[str, Any], arrays: dict[str, Any], format_number: int = 1) -> None:
    """Write a learner's file anew, with another header and a checksum that matches."""
    found = state_file.read(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_file, "FORMAT", format_number)
        state_file.write(path, found[0] | header, found[1] | arrays)


def test_a_future_format_is_refused_with_the_version_that_reads_it(small: Path) -> None:
    rewrite(small, {"version": "9.9"}, {}, format_number=2)
    message = f"{small} has state format 2, this version of releaf reads format 1: load it with releaf 9.9 or a version"
    with pytest.raises(releaf.StateError, match=f"^{re.escape(message)}"):
        releaf.load(small)


def test_a_policy_of_the_future_is_refused_by_its_name(small: Path) -> None:
    rewrite(small, {"class": "Clairvoyant"}, {})
    message = f"{small} holds a 'Clairvoyant', which this version of releaf does not know"
    with pytest.raises(releaf.StateError, match=f"^{re.escape(message)}$"):
        releaf.load(small)


def test_an_array_of_objects_is_refused(small: Path) -> None:
    rewrite(small, {}, {"policy.clock": np.array([None])})
    with pytest.raises(releaf.StateError, match=r"^array type '\|O' is not one of"):
        releaf.load(small)


def test_a_file_that_is_not_there_is_no_state_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        releaf.load(tmp_path / "nowhere")


# --- bytes in memory ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LEARNERS)
def test_its_bytes_are_those_of_its_file_and_it_goes_on_from_them(name: str, tmp_path: Path) -> None:
    bandit, contexts, rewards = case(name)
    Late(1, by_id=True).run_steps(bandit, contexts, rewards)
    bandit.save(tmp_path / "learner")
    content = bandit.to_bytes()
    assert content == (tmp_path / "learner").read_bytes()
    twin = releaf.from_bytes(content)
    assert type(twin) is type(bandit)
    assert (twin.actions, twin.schema, twin.pending) == (bandit.actions, bandit.schema, bandit.pending)
    twin._engine.settings = bandit._engine.settings  # "hashed later" was made with a limit of its own
    for learner in (bandit, twin):
        Late(1, by_id=True).run_steps(learner, contexts, rewards)
    assert full_state(twin) == full_state(bandit)


def test_a_header_and_arrays_of_any_shape_come_back_as_they_went(tmp_path: Path) -> None:
    header = {"class": "Anything", "labels": ["a", 1, 2.5, True]}
    arrays: dict[str, Any] = {
        "empty": np.zeros((0, 3)),
        "table": np.arange(12, dtype=np.int32).reshape(3, 4),
        "flags": np.array([True, False]),
        "across": np.arange(6.0).reshape(2, 3).T,
    }
    content = state_file.to_bytes(header, arrays)
    state_file.write(tmp_path / "file", header, arrays)
    assert (tmp_path / "file").read_bytes() == content
    for found, back in (state_file.from_bytes(content, "it"), state_file.read(tmp_path / "file")):
        assert {key: found[key] for key in header} == header
        assert back.keys() == arrays.keys()
        for name, array in arrays.items():
            assert back[name].dtype == array.dtype
            assert np.array_equal(back[name], array)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_of_any_kind_are_taken(small: Path, kind: Any) -> None:
    content = small.read_bytes()
    assert releaf.from_bytes(kind(content)).to_bytes() == content


def test_bytes_with_a_flipped_bit_anywhere_are_refused(small: Path) -> None:
    content = bytearray(small.read_bytes())
    for place in range(len(content)):
        content[place] ^= 1 << place % 8
        with pytest.raises(
            releaf.StateError, match=r"^content .* its checksum does not match" if place >= 13 else "should begin with"
        ):
            releaf.from_bytes(bytes(content))
        content[place] ^= 1 << place % 8


def test_bytes_cut_off_or_with_something_behind_their_end_are_refused(small: Path) -> None:
    content = small.read_bytes()
    for length in range(len(content)):
        with pytest.raises(releaf.StateError, match=r"^content is (truncated|not a releaf state file)"):
            releaf.from_bytes(content[:length])
    with pytest.raises(releaf.StateError, match="its checksum does not match"):
        releaf.from_bytes(content + b"\0")


def test_crafted_bytes_are_refused_by_what_is_wrong_with_them(small: Path) -> None:
    header, arrays = state_file.read(small)
    with pytest.raises(releaf.StateError, match=r"^content holds a 'Clairvoyant', which this version"):
        releaf.from_bytes(state_file.to_bytes({**header, "class": "Clairvoyant"}, arrays))
    with pytest.raises(releaf.StateError, match=r"^content is not a learner that this version of releaf can load"):
        releaf.from_bytes(state_file.to_bytes(header, {**arrays, "policy.clock": np.zeros(3, dtype=np.int64)}))


@pytest.mark.parametrize("content", ["releaf-state", None, 7, [1, 2]])
def test_what_are_no_bytes_is_refused(content: Any) -> None:
    with pytest.raises(
        TypeError, match=f"content must be bytes, as to_bytes returns them, got {type(content).__name__}"
    ):
        releaf.from_bytes(content)


# --- saving is whole or not at all ----------------------------------------------------------------------------


def test_saving_over_a_file_replaces_it_and_leaves_nothing_else(small: Path) -> None:
    bandit = Releaf(3, 2, seed=5)
    bandit.save(small)
    assert full_state(releaf.load(small)) == full_state(bandit)
    assert os.listdir(small.parent) == [small.name]


def test_a_saved_file_may_be_read_by_whom_any_new_file_may_be(small: Path, tmp_path: Path) -> None:
    (tmp_path / "ordinary").touch()
    assert small.stat().st_mode == (tmp_path / "ordinary").stat().st_mode


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_save_that_fails_leaves_the_old_file_and_no_other(
    step: str, failure: BaseException, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, bandit = small.read_bytes(), Releaf(2, 2, seed=5)

    def fail(*_: Any) -> None:
        raise failure

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(failure)):
        bandit.save(small)
    assert small.read_bytes() == old
    assert os.listdir(small.parent) == [small.name]


def test_a_learner_that_cannot_be_written_down_leaves_the_old_file_and_no_other(small: Path) -> None:
    old, bandit = small.read_bytes(), Releaf(2, 2, seed=5)
    bandit.observation_cost = object()  # type: ignore[assignment]
    with pytest.raises(TypeError, match="not JSON serializable"):
        bandit.save(small)
    assert small.read_bytes() == old
    assert os.listdir(small.parent) == [small.name]


def test_saving_into_a_folder_that_is_gone_fails_and_makes_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Releaf(2, 2, seed=0).save(tmp_path / "gone" / "learner")
    assert os.listdir(tmp_path) == []


# --- several processes ----------------------------------------------------------------------------------------

GO_ON = """
import sys, numpy, releaf
bandit = releaf.load(sys.argv[1])
contexts = numpy.load(sys.argv[2])
for context in contexts:
    choice = bandit.decide(context)
    if choice.wants_reward:
        bandit.learn(choice, float(context[0]))
bandit.save(sys.argv[1])
"""
SAVE_OFTEN = """
import sys, releaf
bandit = releaf.load(sys.argv[1])
for step in range(40):
    bandit.decide([0.5, 0.5])
    bandit.save(sys.argv[1])
"""


def test_a_learner_goes_on_in_another_process_as_it_would_have_in_this_one(small: Path, tmp_path: Path) -> None:
    contexts = stream(300, features=2, seed=8)[0]
    np.save(tmp_path / "contexts.npy", contexts)
    here = releaf.load(small)
    run_steps(here, contexts, contexts[:, [0, 0]])
    subprocess.run([sys.executable, "-c", GO_ON, small, tmp_path / "contexts.npy"], check=True)
    assert full_state(releaf.load(small)) == full_state(here)


def test_a_file_that_two_processes_replace_is_whole_whenever_it_is_read(small: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", SAVE_OFTEN, small]) for _ in range(2)]
    while any(writer.poll() is None for writer in writers):
        assert releaf.load(small).actions == (0, 1)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert os.listdir(small.parent) == [small.name]


@pytest.mark.parametrize("place", [0, 3, 4])
@pytest.mark.parametrize("value", [-1e6, float("inf"), float("nan"), 1e300])
def test_crafted_quantiles_are_refused(tmp_path: Path, place: int, value: float) -> None:
    from releaf.core.runtime import state_file

    bandit = releaf.AdaptiveReleaf(2, Schema(x=Quantile(8)), seed=0)
    for number in range(20):
        bandit.decide([float(number)])
    bandit.save(tmp_path / "m")
    header, arrays = state_file.read(tmp_path / "m")
    arrays["encoder.quantile0"] = arrays["encoder.quantile0"].copy()
    arrays["encoder.quantile0"][place] = value
    state_file.write(tmp_path / "m", header, arrays)
    if place == 4 and np.isfinite(value):
        releaf.load(tmp_path / "m").decide([3.0])  # any number may have been seen
    else:
        with pytest.raises(releaf.StateError, match="quantiles contradict"):
            releaf.load(tmp_path / "m")
