"""Policies that can be frozen, schemas, and streams with planted rewards for them."""

from __future__ import annotations

from typing import Any

import numpy as np

import releaf

ACTIONS = ("wait", "treat", 3)
SCHEMA = releaf.Schema(
    age=releaf.Continuous(0, 120, missing=True),
    income=releaf.Quantile(missing=True),
    plan=releaf.Categorical("a", "b", "c", other=True, missing=True),
    city=releaf.Categorical(*range(30)),
    smoker=releaf.Boolean(missing=True),
    since=releaf.DateTime("2024-01-01", "2024-12-31", time_zone="Europe/Berlin", missing=True),
)
NUMBERS = releaf.Schema.of(4)
POLICIES: dict[str, Any] = {
    "AdaptiveReleaf": (releaf.AdaptiveReleaf, {}),
    "AdaptiveReleaf with a least probability": (releaf.AdaptiveReleaf, {"least_probability": 0.05}),
    "AdaptiveReleaf with a floors of actions": (releaf.AdaptiveReleaf, {"least_probability": {"treat": 0.2, 3: 0.1}}),
    "AdaptiveReleaf of other rewards": (releaf.AdaptiveReleaf, {"reward_range": (-1.0, 3.0), "forget": 200}),
    "AdaptiveReleaf of labels": (releaf.AdaptiveReleaf, {"observe": "labels"}),
    "Releaf": (releaf.Releaf, {}),
    "Releaf of all rewards": (releaf.Releaf, {"observe": "always", "control_divisor": 50_000.0, "base": 3}),
    "Releaf of unknown smoothness": (releaf.Releaf, {"lipschitz": "unknown", "tuples": "gamma+1", "epsilon": None}),
    "Releaf of pairs": (releaf.Releaf, {"gamma_rel": 2, "control_divisor": 1e6}),
    "LinUCB": (releaf.LinUCB, {"alpha": 0.5}),
    "LinUCB without intercept": (releaf.LinUCB, {"intercept": False}),
    "LinearEpsilonGreedy": (releaf.LinearEpsilonGreedy, {}),
    "EpsilonGreedy": (releaf.EpsilonGreedy, {"epsilon": 0.2}),
    "UCB1": (releaf.UCB1, {}),
    "Random": (releaf.Random, {}),
}


def random_context(draw: np.random.Generator) -> dict[str, Any]:
    def sometimes_missing(value: Any) -> Any:
        return None if draw.random() < 0.1 else value

    day, hour = draw.integers(1, 29), draw.integers(24)
    return {
        "age": sometimes_missing(float(draw.uniform(0, 120))),
        "income": sometimes_missing(float(draw.lognormal(10))),
        "plan": sometimes_missing(str(draw.choice(list("abcdef")))),
        "city": int(draw.integers(30)),
        "smoker": sometimes_missing(bool(draw.integers(2))),
        "since": sometimes_missing(f"2024-{draw.integers(1, 13):02}-{day:02}T{hour:02}:30:00+02:00"),
    }


def random_contexts(schema: releaf.Schema, draw: np.random.Generator, count: int) -> list[Any]:
    if schema is NUMBERS:
        # a coarse grid as well, where borders of intervals and knots are
        rows = draw.random((count, len(schema)))
        grid = draw.random(rows.shape) < 0.3
        return list(np.where(grid, np.round(rows * 16) / 16, rows).tolist())
    return [random_context(draw) for _ in range(count)]


def planted_reward(context: Any, action: Any, draw: np.random.Generator) -> float:
    age, smoker = (context[0], context[1] > 0.5) if isinstance(context, list) else (context["age"], context["smoker"])
    share = {"wait": (age or 60.0) / 120, "treat": 0.7 if smoker else 0.1, 3: 0.4}[action]
    return float(draw.random() < share)


def learn_stream(policy: Any, schema: releaf.Schema, steps: int, draw: np.random.Generator) -> Any:
    low, high = policy.reward_range
    for context in random_contexts(schema, draw, steps):
        decision = policy.decide(context)
        if policy.wants_all and decision.wants_reward:
            rewards = {name: planted_reward(context, name, draw) for name in ACTIONS}
            policy.learn(decision, rewards)
        elif decision.wants_reward and draw.random() < 0.9:  # some rewards never come
            policy.learn(decision, low + (high - low) * planted_reward(context, decision.action, draw))
    return policy


def seeds_of(states: np.ndarray[Any, Any]) -> list[int]:
    """Seeds of the evaluators for states of the library's generator, which are signed."""
    return [int(state) % 2**64 for state in states.tolist()]


def cases_of(contexts: list[Any], seeds: list[int]) -> list[dict[str, Any]]:
    return [{"context": context, "seed": str(seed)} for context, seed in zip(contexts, seeds, strict=True)]
