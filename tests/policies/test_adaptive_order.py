"""AdaptiveReleaf with rewards in any order: once all are learnt, estimates differ by less than a standard error."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

import releaf
from releaf.core.adaptive.state import ROWS

STEPS = 6_000


def log_of(seed: int) -> tuple[Any, Any, Any]:
    """Contexts, random actions and their rewards: a step of one feature, and a line of another."""
    draw = np.random.default_rng(seed)
    contexts, taken = draw.random((STEPS, 4)), draw.integers(0, 2, STEPS)
    rewards = draw.random(STEPS) < expected(contexts)[np.arange(STEPS), taken]
    return contexts, taken, rewards.astype(float)


def expected(contexts: Any) -> Any:
    return np.stack([0.2 + 0.5 * (contexts[:, 0] > 0.5), 0.3 + 0.4 * contexts[:, 1]], axis=1)


def ones_first_in_blocks(rewards: Any, length: int) -> Any:
    blocks = np.split(np.arange(len(rewards)), range(length, len(rewards), length))
    return np.concatenate([block[np.argsort(-rewards[block], kind="stable")] for block in blocks])


ORDERS: dict[str, Any] = {
    "shuffled": lambda taken, rewards: np.random.default_rng(9).permutation(len(rewards)),
    "ones first": lambda taken, rewards: np.argsort(-rewards, kind="stable"),
    "zeros first": lambda taken, rewards: np.argsort(rewards, kind="stable"),
    "one action first": lambda taken, rewards: np.argsort(taken, kind="stable"),
    "ones first in each thousand": lambda taken, rewards: ones_first_in_blocks(rewards, 1_000),
}


def standard_errors(bandit: releaf.AdaptiveReleaf, context: Any) -> list[float]:
    """Standard error of each action's estimate, on which its interval is based."""
    bandit.explain(context)  # fits what the intervals need
    return [bandit._explainer._known[action].intervals.deviation(context) for action in bandit.actions]


@pytest.mark.parametrize("order", ORDERS)
def test_the_order_of_rewards_hardly_matters(order: str) -> None:
    ratios, errors = [], []
    for seed in range(3):
        contexts, taken, rewards = log_of(seed)
        tried = np.random.default_rng(50 + seed).random((60, 4))
        found = []
        for rows in (np.arange(STEPS), ORDERS[order](taken, rewards)):
            bandit = releaf.AdaptiveReleaf(2, 4, seed=0)
            bandit.learn_log(contexts[rows], taken[rows], rewards[rows])
            found.append((bandit.estimate(tried), np.array([standard_errors(bandit, row) for row in tried])))
        (usual, usual_spread), (other, other_spread) = found
        ratios.append(np.abs(other - usual) / np.maximum(usual_spread, other_spread))
        errors.append([np.square(estimates - expected(tried)).mean() for estimates in (usual, other)])
    assert np.mean(ratios) < 1.0
    usual_error, other_error = np.sqrt(np.mean(errors, axis=0))
    assert other_error < 2.2 * usual_error  # the weights of the experts depend on the order


@pytest.mark.parametrize("order", ["ones first", "zeros first", "ones first in each thousand"])
@pytest.mark.parametrize("rate", [0.05, 0.4])
def test_the_mean_reward_is_known_after_any_order_of_many_rewards(rate: float, order: str) -> None:
    rows, draw = 30_000, np.random.default_rng(1)
    contexts, rewards = draw.random((rows, 3)), (draw.random(rows) < rate).astype(float)
    taken, tried = np.zeros(rows, dtype=int), draw.random((300, 3))
    found = []
    for placed in (np.arange(rows), ORDERS[order](taken, rewards)):
        bandit = releaf.AdaptiveReleaf(2, 3, seed=0)
        bandit.learn_log(contexts[placed], taken[placed], rewards[placed])
        found.append(bandit.estimate(tried)[:, 0].mean())
    standard_error = np.sqrt(rate * (1.0 - rate) / rows)
    assert np.abs(np.array(found) - rewards.mean()).max() < 1.5 * standard_error


@pytest.mark.parametrize("seed", range(3))
def test_zeros_that_come_thousands_of_steps_after_the_ones_are_made_up_for(seed: int) -> None:
    """A click is known at once, its absence after 40 seconds: meanwhile all known rewards are ones."""
    draw, late = np.random.default_rng(seed), deque[tuple[int, releaf.Decision]]()
    steps, rates, delay = 30_000, {"five": 0.05, "three": 0.03}, 4_000
    bandit = releaf.AdaptiveReleaf(list(rates), 3, seed=seed)
    for step, context in enumerate(draw.random((steps, 3))):
        while late and late[0][0] <= step:
            bandit.learn(late.popleft()[1], 0.0)
        choice = bandit.decide(context)
        if draw.random() < rates[str(choice.action)]:
            bandit.learn(choice, 1.0)
        else:
            late.append((step + delay, choice))
    for _, choice in late:
        bandit.learn(choice, 0.0)
    assert bandit.observations == steps
    estimates = bandit.estimate(draw.random((300, 3)))
    observed = [sample.rewards[: sample.counts[ROWS]].mean() for sample in bandit._engine.samples]
    assert estimates.mean(axis=0) == pytest.approx(observed, abs=0.005)
    assert estimates[:, 0].mean() == pytest.approx(rates["five"], abs=0.005)
    assert (estimates[:, 0] > estimates[:, 1]).mean() > 0.95
