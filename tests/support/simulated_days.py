"""An experiment that lives through simulated time: contexts, decisions and rewards at given times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from releaf.service.experiments import learner_factory
from releaf.service.experiments.state import ExperimentState
from releaf.service.messages import NewExperiment, PolicySpec

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
