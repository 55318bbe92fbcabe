"""The baselines in plain Python, written for reading: the reference for their kernels.

Each is asked what a real decision should have been (``expect``), and told what it was and earned (``learn``), so
that both go on from the same past, random draws included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


def difference(one: float, other: float, categories: int = 0) -> float:
    """How far two values of a feature are apart; -1 is a missing value."""
    if categories or one < 0 or other < 0:
        return float(one != other)
    return abs(one - other)


def apart(one: Array, other: Array, categories: list[int]) -> list[float]:
    return [difference(a, b, k) for a, b, k in zip(one, other, categories, strict=True)]


class Ridge:
    """Explicit ridge regressions, solved anew for each estimate."""

    def __init__(self, actions: int, penalty: float, intercept: bool) -> None:
        self.rows: list[list[Array]] = [[] for _ in range(actions)]
        self.rewards: list[list[float]] = [[] for _ in range(actions)]
        self.penalty, self.intercept = penalty, intercept

    def columns(self, context: Array) -> Array:
        return np.concatenate([[1.0], context]) if self.intercept else np.asarray(context)

    def estimates_and_spreads(self, context: Array) -> tuple[list[float], list[float]]:
        x = self.columns(context)
        estimates, spreads = [], []
        for rows, rewards in zip(self.rows, self.rewards, strict=True):
            gram = self.penalty * np.eye(len(x)) + sum((np.outer(row, row) for row in rows), np.zeros((len(x), len(x))))
            target = sum((r * row for r, row in zip(rewards, rows, strict=True)), np.zeros(len(x)))
            estimates.append(float(x @ np.linalg.solve(gram, target)))
            spreads.append(math.sqrt(x @ np.linalg.solve(gram, x)))
        return estimates, spreads

    def learn(self, context: Array, action: int, reward: float) -> None:
        self.rows[action].append(self.columns(context))
        self.rewards[action].append(reward)


@dataclass
class Ball:
    centre: Array
    action: int | None
    radius: float
    chosen: int = 0
    total: float = 0.0


class Zooming:
    """Contextual zooming, as its definition reads."""

    def __init__(self, actions: int, categories: list[int], lipschitz: float, confidence: float, horizon: int | None):
        self.actions, self.categories = actions, categories
        self.lipschitz, self.scale, self.horizon = lipschitz, confidence, horizon
        self.balls = [Ball(np.zeros(len(categories)), None, 1.0)]
        self.steps = 0

    def distance(self, one: Ball, other: Ball) -> float:
        if one.action != other.action:
            return 1.0
        gaps = apart(one.centre, other.centre, self.categories)
        return min(1.0, self.lipschitz * math.sqrt(sum(gap * gap for gap in gaps)))

    def holds(self, ball: Ball, context: Array, action: int) -> bool:
        if ball.action is None:
            return True
        return self.distance(ball, Ball(context, action, 0.0)) <= ball.radius

    def conf(self, ball: Ball) -> float:
        horizon = self.horizon or max(2, 2 ** math.ceil(math.log2(max(self.steps, 1))))
        return self.scale * math.sqrt(math.log(horizon) / (1 + ball.chosen))

    def mean(self, ball: Ball) -> float:
        return ball.total / ball.chosen if ball.chosen else 0.0

    def pre_index(self, ball: Ball) -> float:
        return self.mean(ball) + ball.radius + self.conf(ball)

    def index(self, ball: Ball) -> float:
        larger = [other for other in self.balls if other.radius >= ball.radius]
        return ball.radius + min(
            self.pre_index(other) + (0.0 if other is ball else self.distance(ball, other)) for other in larger
        )

    def domain(self, context: Array, action: int) -> list[Ball]:
        """The balls whose domain has the context and the action: the smallest of those that hold them."""
        held = [ball for ball in self.balls if self.holds(ball, context, action)]
        smallest = min(ball.radius for ball in held)
        return [ball for ball in held if ball.radius == smallest]

    def expect(self, context: Array, eligible: list[int] | None = None) -> list[int]:
        """The actions that may be taken, of the eligible ones."""
        self.steps += 1
        allowed = range(self.actions) if eligible is None else eligible
        relevant = [(self.index(ball), action) for action in allowed for ball in self.domain(context, action)]
        highest = max(index for index, _ in relevant)
        return sorted({action for index, action in relevant if index >= highest - 1e-9})

    def forget(self, action: int) -> None:
        """Be without an action, whose place those after it take."""
        self.actions -= 1
        self.balls = [ball for ball in self.balls if ball.action != action]
        for ball in self.balls:
            if ball.action is not None:
                ball.action -= ball.action > action

    def learn(self, context: Array, action: int, reward: float) -> None:
        ball = max(self.domain(context, action), key=self.index)
        ball.chosen += 1
        ball.total += reward
        if self.conf(ball) <= ball.radius:
            self.balls.append(Ball(context, action, ball.radius / 2))


@dataclass
class Group:
    founder: Array
    visits: int = 0
    rewards: dict[int, list[float]] = field(default_factory=dict)


class Hybrid:
    """ε-greedy within groups of similar contexts."""

    def __init__(self, actions: int, categories: list[int], constant: float, similarity: float, most: int) -> None:
        self.actions, self.categories = actions, categories
        self.constant, self.similarity, self.most = constant, similarity, most
        self.groups: list[Group] = []

    def likeness(self, group: Group, context: Array) -> float:
        return 1.0 - sum(apart(group.founder, context, self.categories)) / len(context)

    def expect(self, context: Array) -> tuple[list[float], float]:
        """The estimates, and ε."""
        group = max(self.groups, key=lambda group: self.likeness(group, context), default=None)
        if group is None or (self.likeness(group, context) < self.similarity and len(self.groups) < self.most):
            group = Group(context)
            self.groups.append(group)
        self.latest = group
        group.visits += 1
        means = [float(np.mean(group.rewards.get(action, [0.0]))) for action in range(self.actions)]
        return means, min(1.0, self.constant * self.actions / group.visits)

    def learn(self, context: Array, action: int, reward: float) -> None:
        self.latest.rewards.setdefault(action, []).append(reward)


class RelevanceLearner:
    """CMAB-RL with a finite set of actions."""

    def __init__(self, actions: int, features: int, gamma: int, m: int, radius: float, lipschitz: float) -> None:
        self.actions, self.gamma, self.m = actions, gamma, m
        self.radius, self.tolerance = radius, 2 * lipschitz * math.sqrt(gamma) / m
        self.tuples = list(combinations(range(features), 2 * gamma))
        self.candidates = list(combinations(range(features), gamma))
        self.seen: dict[Any, list[float]] = {}
        self.taken = [0] * actions

    def cell(self, w: tuple[int, ...], context: Array, action: int) -> list[float]:
        place = tuple(max(math.ceil(context[i] * self.m) - 1, 0) for i in w)
        return self.seen.setdefault((w, place, action), [])

    def expect(
        self, context: Array, eligible: list[int] | None = None
    ) -> tuple[list[int] | None, list[float], list[tuple[int, ...] | None]]:
        """The actions that may be taken (None where chance decides), the estimates and the relevant features.

        Only eligible actions may be taken, and only their lack of relevant features leaves anything to chance.
        """
        possible = list(range(self.actions)) if eligible is None else eligible
        indices, estimates, relevant = [], [], []
        for action in range(self.actions):
            cells = {w: self.cell(w, context, action) for w in self.tuples}
            mean = {w: float(np.mean(seen)) if seen else 0.0 for w, seen in cells.items()}
            doubt = {w: math.sqrt(self.radius / len(seen)) if seen else math.inf for w, seen in cells.items()}
            best, smallest = None, math.inf
            for v in self.candidates:
                around = [w for w in self.tuples if set(v) <= set(w)]
                gaps = [(abs(mean[w] - mean[u]), doubt[w] + doubt[u]) for w in around for u in around]
                spread = max(gap for gap, _ in gaps)
                if all(gap <= self.tolerance + slack for gap, slack in gaps) and spread < smallest:
                    best, smallest = v, spread
            relevant.append(best)
            rewards = [r for w in self.tuples if best and set(best) <= set(w) for r in cells[w]]
            estimates.append(float(np.mean(rewards)) if rewards else 0.0)
            indices.append(estimates[-1] + 5 * max(doubt.values()))
        highest = max(indices[action] for action in possible)
        allowed = [action for action in possible if indices[action] >= highest - 1e-9]
        if math.isinf(highest):  # of those that are unknown, the one least often taken
            allowed = [min(allowed, key=lambda action: self.taken[action])]
        unsure = any(relevant[action] is None for action in possible)
        return (None if unsure else allowed), estimates, relevant

    def learn(self, context: Array, action: int, reward: float) -> None:
        self.taken[action] += 1
        for w in self.tuples:
            self.cell(w, context, action).append(reward)


def boosted(right: np.ndarray[Any, np.dtype[np.bool_]], actions: int) -> list[float]:
    """AdaBoost's weights of given classifiers, from who was right on each row."""
    rows, experts = right.shape
    weights, share = [0.0] * experts, np.full(rows, 1 / rows)
    left = set(range(experts))
    while left:
        errors = {expert: float(share[~right[:, expert]].sum()) for expert in sorted(left)}
        best = next(expert for expert in errors if errors[expert] <= min(errors.values()) + 1e-9)
        error = errors[best]
        if error >= 1 - 1 / actions - 1e-9:
            break
        error = max(error, 0.5 / rows)
        weights[best] = 0.5 * (math.log((1 - error) / error) + math.log(actions - 1))
        share[~right[:, best]] *= math.exp(2 * weights[best])
        share /= share.sum()
        left.remove(best)
    return weights
