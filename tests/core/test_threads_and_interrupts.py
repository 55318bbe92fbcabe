"""Threads that share a learner, and interrupts that leave it consistent."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import releaf
from releaf.core.releaf import cells, partition
from releaf.core.releaf.state import TIME


def test_threads_may_share_a_learner() -> None:
    bandit = releaf.Releaf(3, 4, seed=0, rho=0.8, observe="always")
    contexts = np.random.default_rng(0).random((4, 3_000, 4))

    def work(part: int) -> list[int]:
        ids = []
        for context in contexts[part]:
            choice = bandit.decide(context)
            ids.append(choice.id)
            bandit.learn(choice, 0.5)
        return ids

    with ThreadPoolExecutor(4) as pool:
        found = [number for ids in pool.map(work, range(4)) for number in ids]
    assert sorted(found) == list(range(1, 12_001))
    assert bandit.observations == 12_000
    assert bandit.pending == 0


SIGNALLED = """
import signal, threading, time, os
import numpy as np, releaf
from releaf.core.releaf.state import TIME
bandit = releaf.Releaf(2, 3, seed=0)
contexts = np.random.default_rng(0).random((3_000_000, 3))
rewards = contexts[:, :2]
releaf.replay(bandit, contexts[:10], rewards[:10])
try:
    threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    releaf.replay(bandit, contexts, rewards)
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted")
choice = bandit.decide(contexts[0])
print(choice.id == bandit._engine.clock(TIME))
"""


def test_a_replay_that_is_interrupted_leaves_a_learner_that_goes_on() -> None:
    command = [sys.executable, "-c", SIGNALLED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["interrupted", "True"]


@pytest.mark.parametrize(("room", "name"), [(cells, "move_dense"), (cells, "_make_rows"), (partition, "grow")])
def test_memory_that_runs_out_while_growing_leaves_the_learner_as_it_was(
    room: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = np.random.default_rng(1).random((400, 3))
    untouched, bandit = (releaf.Releaf(2, 3, seed=0, rho=1.0, observe="always") for _ in range(2))

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    failures = 0
    for context in contexts:
        monkeypatch.setattr(room, name, fail)
        try:
            choice = bandit.decide(context)
        except MemoryError:
            failures += 1
            monkeypatch.undo()
            choice = bandit.decide(context)
        monkeypatch.undo()
        expected = untouched.decide(context)
        assert (choice.id, choice.index, choice.explored) == (expected.id, expected.index, expected.explored)
        bandit.learn(choice, 0.5)
        untouched.learn(expected, 0.5)
    assert failures > 0
    assert bandit._engine.clock(TIME) == 400
