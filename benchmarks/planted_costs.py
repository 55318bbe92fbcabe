"""Planted streams whose actions have costs, and the most reward that a budget can buy on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.workload import Array


class PlantedCosts(NamedTuple):
    """A stream of T steps: contexts, expected rewards, rewards of 0 or 1, and costs (T × A)."""

    contexts: Array
    expected: Array
    rewards: Array
    costs: Array


def planted(steps: int, seed: int) -> PlantedCosts:
    """Three actions of fixed costs, the dearer the better in hard contexts; expected rewards are linear."""
    draw = np.random.default_rng(seed)
    contexts = draw.random((steps, 3))
    hardness = contexts[:, 0]
    expected = np.column_stack([0.8 - 0.6 * hardness, 0.8 - 0.25 * hardness, 0.85 - 0.1 * hardness])
    expected += 0.1 * contexts[:, 1:2]
    return _finished(draw, contexts, expected, np.tile([0.1, 0.4, 1.0], (steps, 1)))


def curved(steps: int, seed: int) -> PlantedCosts:
    """Four actions and eight features; what a dearer action adds rises steeply in the middle of a feature."""
    draw = np.random.default_rng(seed)
    contexts = draw.random((steps, 8))
    hardness = 1.0 / (1.0 + np.exp(-12.0 * (contexts[:, 0] - 0.5)))
    special = (contexts[:, 1] > 0.7) & (contexts[:, 2] < 0.5)
    quality = np.array([0.25, 0.5, 0.75, 0.95])
    expected = 0.9 - 0.7 * hardness[:, None] * (1.0 - quality)
    expected[:, 1] += 0.15 * special
    return _finished(draw, contexts, np.clip(expected, 0.02, 0.98), np.tile([0.05, 0.3, 0.8, 2.0], (steps, 1)))


def varying(steps: int, seed: int) -> PlantedCosts:
    """As ``planted``, with costs that vary from decision to decision as the length of a text does."""
    stream = planted(steps, seed)
    length = np.random.default_rng([seed, 1]).lognormal(-0.125, 0.5, steps)
    return stream._replace(costs=stream.costs * length[:, None])


def shifting(steps: int, seed: int) -> PlantedCosts:
    """As ``planted``; in the second half contexts are harder, so that the same budget needs a higher weight."""
    draw = np.random.default_rng(seed)
    contexts = draw.random((steps, 3))
    contexts[steps // 2 :, 0] = np.sqrt(contexts[steps // 2 :, 0])
    hardness = contexts[:, 0]
    expected = np.column_stack([0.8 - 0.6 * hardness, 0.8 - 0.25 * hardness, 0.85 - 0.1 * hardness])
    return _finished(draw, contexts, expected, np.tile([0.1, 0.4, 1.0], (steps, 1)))


STREAMS: dict[str, tuple[Callable[[int, int], PlantedCosts], float]] = {  # and the budget per 1,000 decisions
    "three actions": (planted, 350.0),
    "three actions, small budget": (planted, 180.0),
    "curved rewards": (curved, 400.0),
    "varying costs": (varying, 350.0),
    "shifting contexts": (shifting, 400.0),
}


def _finished(draw: np.random.Generator, contexts: Array, expected: Array, costs: Array) -> PlantedCosts:
    return PlantedCosts(contexts, expected, (draw.random(expected.shape) < expected).astype(np.float64), costs)


def best_weight(expected: Array, costs: Array, budget: float) -> float:
    """Weight of cost with which the best policy that knows the expected rewards spends the budget."""
    low, high = 0.0, 100.0
    for _ in range(60):
        weight = (low + high) / 2
        taken = np.argmax(expected - weight * costs, axis=1)
        if costs[np.arange(len(costs)), taken].sum() > budget:
            low = weight
        else:
            high = weight
    return high


def best_within(expected: Array, costs: Array, budget: float) -> float:
    """Most expected reward within a budget: the dual value of the linear programme over all decisions.

    An upper bound of what any policy gains, even one that knows all expected rewards and contexts beforehand.
    """
    weight = best_weight(expected, costs, budget)
    return float((expected - weight * costs).max(axis=1).sum() + weight * budget)
