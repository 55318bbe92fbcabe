"""Copies of a learner are independent, and a decision's attributes can't change the learner."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import releaf

WAYS: dict[str, Callable[[releaf.Releaf], releaf.Releaf]] = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda bandit: pickle.loads(pickle.dumps(bandit)),
}


def stream(seed: int, steps: int = 500) -> tuple[np.ndarray, np.ndarray]:
    contexts = np.random.default_rng(seed).random((steps, 3))
    return contexts, contexts[:, :2]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("steps", [0, 1, 100, 2_000])
def test_a_copy_goes_on_like_the_original_and_neither_disturbs_the_other(way: str, steps: int) -> None:
    original = releaf.Releaf(2, 3, seed=1)
    releaf.replay(original, *stream(0, steps))
    duplicate = WAYS[way](original)
    before = original.partition(0)
    ahead = releaf.replay(duplicate, *stream(5))
    assert original.partition(0) == before
    assert np.array_equal(releaf.replay(original, *stream(5)).actions, ahead.actions)
    assert np.array_equal(original.relevance(), duplicate.relevance())


def test_a_pickle_works_in_another_process(tmp_path: Path) -> None:
    bandit = releaf.Releaf(2, 3, seed=1)
    releaf.replay(bandit, *stream(0))
    (tmp_path / "bandit.pickle").write_bytes(pickle.dumps(bandit))
    program = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).decide([0.5, 0.5, 0.5]).index)"
    command = [sys.executable, "-c", program, str(tmp_path / "bandit.pickle")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) == bandit.decide([0.5, 0.5, 0.5]).index


def test_the_context_of_a_decision_can_be_read_but_not_written_to() -> None:
    choice = releaf.Releaf(2, 3, seed=0).decide([0.1, 0.2, 0.3])
    assert choice.context.tolist() == [0.1, 0.2, 0.3]
    with pytest.raises(ValueError, match="read-only"):
        choice.context[:] = 50.0


def test_two_learners_of_one_file_do_not_take_each_others_decisions(tmp_path: Path) -> None:
    first = releaf.Releaf(2, 3, seed=0)
    first.save(tmp_path / "shared.releaf")
    second = releaf.load(tmp_path / "shared.releaf")
    choice = first.decide([0.1, 0.1, 0.1])
    second.decide([0.9, 0.9, 0.9])
    with pytest.raises(ValueError, match="was made by another learner"):
        second.learn(choice, 1.0)


def test_a_learner_shows_itself_briefly() -> None:
    assert repr(releaf.Releaf(2, 3, seed=0)) == "Releaf(2 actions, 3 features, 0 decisions)"
