"""The benchmarks' learners can be copied and rewound."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("repository_on_path")


@pytest.fixture
def repository_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    assert sys.path


def test_a_twin_knows_the_same_and_a_rewound_learner_replays_the_same() -> None:
    from benchmarks.workload import experienced, rewinder, stream, twin

    bandit = experienced(500, 4, 3)
    assert twin(bandit)._engine.state.counts.tobytes() == bandit._engine.state.counts.tobytes()
    contexts, rewards = stream(50, 4, 3, seed=1)
    clock = bandit._engine.state.clock.copy()
    rewind = rewinder(bandit)
    bandit._engine.replay(contexts, rewards)
    rewind()
    assert np.array_equal(bandit._engine.state.clock, clock)


def test_the_floor_reads_the_cells_that_a_replay_reads() -> None:
    from benchmarks.floor import floor
    from benchmarks.workload import experienced, stream

    bandit = experienced(500, 4, 3)
    contexts, rewards = stream(50, 4, 3, seed=1)
    chosen = np.zeros(50, dtype=np.int64)
    total = floor(writes=False)(bandit._engine.state.pointer_table, contexts, chosen, rewards[:, 0])
    assert total > 0
