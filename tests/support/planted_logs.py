"""Logs with known expected rewards and a logistic logging policy, of which the value of another policy is known."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from releaf.streams import Log

ACTIONS = ("a", "b", "c")
FEATURES = ("x0", "x1", "x2")


class PlantedLog(NamedTuple):
    """A log, the decisions of the policy to evaluate, its value, and what the log does not tell."""

    log: Log
    chosen: Any
    truth: float
    expected: Any
    propensities: Any


def expected_rewards(contexts: Any, rate: float) -> Any:
    curves = [0.2 + 0.6 * contexts[:, 0], 0.7 - 0.4 * contexts[:, 1] ** 2, 0.3 + 0.3 * (contexts[:, 2] > 0.5)]
    return rate * np.column_stack(curves)


def logging_policy(contexts: Any, strength: float) -> Any:
    """A logistic policy; the stronger, the smaller are its smallest probabilities."""
    scores = strength * np.column_stack([contexts[:, 0] - 0.5, 0.5 - contexts[:, 0], contexts[:, 1] - 0.5])
    chances = np.exp(scores)
    return chances / chances.sum(axis=1, keepdims=True)


def target_policy(contexts: Any, rate: float) -> Any:
    """A policy that takes nearly the best action."""
    return (expected_rewards(contexts, rate) + 0.1 * np.sin(20 * contexts)).argmax(axis=1)


@cache
def truth(rate: float) -> float:
    contexts = np.random.default_rng(10**6).random((1_000_000, 3))
    rows = np.arange(len(contexts))
    return float(expected_rewards(contexts, rate)[rows, target_policy(contexts, rate)].mean())


def planted_log(rows: int, seed: int, *, strength: float = 2.0, rate: float = 1.0) -> PlantedLog:
    """A log of rewards 0 and 1; ``rate`` scales how often there is a reward."""
    generator = np.random.default_rng(seed)
    contexts = generator.random((rows, 3))
    expected, chances = expected_rewards(contexts, rate), logging_policy(contexts, strength)
    taken = np.minimum((chances.cumsum(axis=1) <= generator.random((rows, 1))).sum(axis=1), 2)
    row = np.arange(rows)
    rewards = (generator.random(rows) < expected[row, taken]).astype(float)
    log = Log(contexts, taken, rewards, chances[row, taken], FEATURES, ACTIONS)
    return PlantedLog(log, target_policy(contexts, rate), truth(rate), expected, chances)
