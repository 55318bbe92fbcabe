"""AdaptiveReleaf against its twin in plain numpy, step by step: estimates, probabilities, actions and requests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adaptive_twin import SCHEMAS, run_in_lock_step, steps_of, stream

import releaf
from releaf.core.adaptive import engine
from releaf.core.adaptive.levels import FINE, MOST_TABLED, ROUGH
from releaf.core.adaptive.state import MOST_EFFECTS
from releaf.core.runtime.jit import IS_COMPILED


def learner(kind: str, actions: int, **further: Any) -> Any:
    return releaf.AdaptiveReleaf(actions, SCHEMAS[kind], seed=1, **further)


@pytest.mark.parametrize(
    ("kind", "steps", "actions"),
    [("numbers", 700, 2), ("numbers", 500, 4), ("mixed", 600, 3), ("many", 200, 2), ("huge", 200, 2)],
)
def test_every_step_is_that_of_the_plain_twin(kind: str, steps: int, actions: int) -> None:
    contexts, rewards = stream(kind, steps_of(steps), actions)
    twin = run_in_lock_step(learner(kind, actions), contexts, rewards)
    if IS_COMPILED:
        assert all(action.model.forest for action in twin.actions)
        assert min(len(action.model.tables) for action in twin.actions) > 1


def test_streams_hold_all_kinds_of_tables_and_effects() -> None:
    """The comparison would prove little if no pair, no coarse table and no shared effect was among them."""
    twin = run_in_lock_step(learner("mixed", 2), *stream("mixed", steps_of(500)))
    tables = {table for action in twin.actions for table in action.model.tables}
    assert any(feature.categories > MOST_TABLED for feature in SCHEMAS["mixed"].features)
    assert SCHEMAS["huge"].features[1].categories > MOST_EFFECTS
    if IS_COMPILED:
        assert any(second is not None for _, second, _ in tables)
        assert {resolution for _, _, resolution in tables} & {ROUGH, FINE}
        assert all(np.abs(action.model.effects.means[3]).max() > 0.1 for action in twin.actions)


@pytest.mark.parametrize("share", [0.2, 0.6])
@pytest.mark.parametrize(
    "further",
    [
        {},
        {"least_probability": 0.3},
        {"least_probability": {0: 0.05, 2: 0.25}},
        {"optimism": 5.0},
        {"observe": "labels"},
        {"label_budget": 80},
        {"observation_cost": 0.05},
        {"delta": 0.1, "epsilon": 0.2},
    ],
    ids=str,
)
def test_decisions_among_eligible_actions_are_those_of_the_plain_twin(share: float, further: Any) -> None:
    """Also where an ineligible action leads by far: the variance of those that can be chosen must be exact then."""
    contexts, rewards = stream("mixed", steps_of(300), 4)
    rewards[:, 0] = 1.0
    run_in_lock_step(learner("mixed", 4, **further), contexts, rewards, share=share)


@pytest.mark.parametrize("late", [0, 30])
def test_a_fit_takes_effect_some_rewards_after_its_start(late: int) -> None:
    contexts, rewards = stream("many", steps_of(450))
    bandit = learner("many", 2)
    twin = run_in_lock_step(bandit, contexts, rewards, late=late)
    if IS_COMPILED:  # the last fit is larger than those that are done at once
        fitted_for = max(action.fitted_for for action in twin.actions)
        assert fitted_for * len(SCHEMAS["many"]) > engine.AT_ONCE


@pytest.mark.parametrize("forget", [None, 200, "auto"])
def test_small_fits_in_a_thread_and_thinned_samples(monkeypatch: pytest.MonkeyPatch, forget: Any) -> None:
    """A sample of 128 rows at most, of a world that changes halfway."""
    monkeypatch.setattr(engine, "AT_ONCE", 400)
    monkeypatch.setattr(engine, "SAMPLE_BYTES", 0)
    monkeypatch.setattr(engine, "LEAST_MOST_ROWS", 128)
    steps = steps_of(1_000)
    contexts, rewards = stream("mixed", steps)
    rewards = np.where(np.arange(steps)[:, None] < steps // 2, 0.75, 0.0) + 0.25 * rewards
    twin = run_in_lock_step(learner("mixed", 2, forget=forget), contexts, rewards, late=5)
    if IS_COMPILED:
        assert any(action.forgotten for action in twin.actions) == (forget == "auto")
        assert max(len(action.rewards) for action in twin.actions) < 200


def test_a_gradual_drift_is_noticed_at_the_same_reward() -> None:
    steps = steps_of(1_000)
    draw = np.random.default_rng(5)
    contexts = draw.random((steps, 3))
    slope = np.cos(2.0 * np.pi * np.arange(steps) / 900.0)
    chance = np.clip(0.5 + 0.5 * slope * (contexts[:, 0] - 0.5) + draw.normal(0.0, 0.05, steps), 0.0, 1.0)
    rewards = np.round(np.stack([chance, 1.0 - chance], axis=1) * 8) / 8
    twin = run_in_lock_step(learner("numbers", 2, forget="auto"), contexts, rewards)
    if IS_COMPILED:
        assert any(action.forgotten for action in twin.actions)
        assert all(action.excess < 50.0 for action in twin.actions)


@pytest.mark.parametrize(
    "rule",
    [
        {"label_budget": 150},
        {"observation_cost": 0.5},
        {"delta": 0.2, "epsilon": 0.5},
        {"least_probability": 0.1},
        {"optimism": 2.0},
        {"observe": "labels"},
    ],
    ids=lambda rule: next(iter(rule)),
)
def test_requests_and_probabilities_are_those_of_the_plain_twin(rule: dict[str, Any]) -> None:
    contexts, rewards = stream("mixed", steps_of(400), actions=3)
    bandit = learner("mixed", 3, **rule)
    run_in_lock_step(bandit, contexts, rewards)
    if bandit.observation_mode == "explored" and IS_COMPILED:
        assert 0 < bandit.explorations < 400


@pytest.mark.skipif(not IS_COMPILED, reason="is the test that runs this way")
def test_kernels_that_run_as_plain_python_pass_too() -> None:
    """With the bounds of every array checked; a replay also equals decisions one by one."""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    suites = (Path(__file__).with_name(name) for name in ("test_adaptive_twin.py", "test_adaptive_schedule.py"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, suites)]
    command += ["-k", "(every_step and not many) or (agree and mixed-always)"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "5 passed" in done.stdout
