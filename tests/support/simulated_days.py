"""An experiment that lives through simulated time: contexts, decisions and rewards at given times."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from releaf.service.experiments import learner_factory
from releaf.service.experiments.clock import MonotonicClock
from releaf.service.experiments.registry import ExperimentRegistry
from releaf.service.experiments.state import ExperimentState
from releaf.service.messages import NewExperiment, NewShadow, PolicySpec, RewardOf
from releaf.service.settings import ServiceSettings
from releaf.service.store import open_store

START = 1_760_000_000.0
DAY = 86_400.0
UNIFORM = {"name": "AdaptiveReleaf", "parameters": {"least_probability": 0.5, "seed": 0}}  # counts as 1/A
Chance = Callable[[float, float, Any], float]  # of a reward, by the day, the context's value and the action


def new_state(
    policy: dict[str, Any] = UNIFORM, actions: tuple[Any, ...] = ("wait", "treat"), **options: Any
) -> ExperimentState:
    """A new experiment with one feature."""
    given = {"name": "simulated", "actions": list(actions), "features": ["x"], "policy": policy, **options}
    spec = msgspec.convert(given, NewExperiment)
    return ExperimentState(spec, learner_factory.make_learner(spec))


def add_shadow(state: ExperimentState, name: str, policy: str, at: float, **parameters: Any) -> None:
    spec = PolicySpec(name=policy, parameters=parameters)
    learner = learner_factory.build_policy(spec, state.learner.actions, state.learner.schema)
    state.add_shadow(name, spec, learner, at)


def live_through(
    state: ExperimentState,
    chance: Chance,
    decisions: int,
    *,
    start: float = 0.0,
    days: float = 1.0,
    seed: int = 0,
    is_rewarded: Callable[[float], bool] = lambda day: True,
) -> None:
    """Decide and reward at equal intervals, from one day to another."""
    rng = np.random.default_rng(seed)
    for step in range(decisions):
        day = start + days * step / decisions
        x, at = float(rng.random()), START + DAY * day
        (event,) = state.decide([[x]], [None], at)
        if event.wants_reward and is_rewarded(day):
            state.reward(event.number, float(rng.random() < chance(day, x, event.action)), at)


def store_some_days(path: Path) -> None:
    """Write a store with the experiment "days", which ends now.

    It has five days, a shadow and its promotion, a drift on the fourth day, and no rewards on the last one.
    """
    with ThreadPoolExecutor(1) as thread:  # the test may have an event loop of its own
        thread.submit(asyncio.run, _store_some_days(path)).result()


async def _store_some_days(path: Path) -> None:
    clock = SimulatedClock(time.time() - 5 * DAY)
    settings = ServiceSettings(store=str(path), snapshot_events=1_000_000)
    registry = ExperimentRegistry(open_store(str(path), lease_timeout=60), settings, clock=clock)
    await registry.start()
    policy = {"name": "AdaptiveReleaf", "parameters": {"least_probability": 0.1, "seed": 1}}
    given = {"name": "days", "actions": ["wait", "treat", "refer"], "features": ["age", "dose"], "policy": policy}
    experiment = await registry.create(msgspec.convert(given, NewExperiment))
    rng, batches, batch, began = np.random.default_rng(0), 120, 50, clock.at
    for step in range(batches):
        day = 5.0 * step / batches
        clock.at = began + day * DAY
        if step == batches // 4:
            forgetting = PolicySpec(parameters={"least_probability": 0.1, "forget": 2_000, "seed": 2})
            await experiment.add_shadow(NewShadow(name="forgetting", policy=forgetting))
        if step == batches // 2:
            await experiment.promote("forgetting", force=True)
        contexts = rng.random((batch, 2)).tolist()
        made = await experiment.decide(contexts, [None] * batch)
        rewards = [
            RewardOf(decision=event.number, reward=float(rng.random() < _chance(day, context[0], event.action)))
            for event, context in zip(made, contexts, strict=True)
            if event.wants_reward
        ]
        if rewards and day < 4.5:
            clock.at += 60.0
            await experiment.reward(rewards)
    clock.at = began + 5 * DAY
    await registry.stop()


def _chance(day: float, age: float, action: Any) -> float:
    if action == "treat":
        return (0.75 if age < 0.4 else 0.2) * (1.0 if day < 3.5 else 0.3)
    return 0.6 if action == "refer" and age > 0.7 else 0.25


class SimulatedClock(MonotonicClock):
    """A clock that goes only where it is set."""

    def __init__(self, at: float) -> None:
        self.at = at
        super().__init__(lambda: self.at, lambda: self.at)
