"""Policies that decide at every step and learn the reward of some steps only, a budget of them.

At a step whose reward is not asked for, all take the action with the highest estimate: nothing would be learnt from
another. Those that are not AdaptiveReleaf know the length of the stream, and spread their budget over it.

scikit-activeml's strategies choose what a classifier is told. A classifier is told the *right action* for each label it
pays for, while the others are told the reward of the action they took: with A actions, a wrong one rules out only one
of A. Their errors are a bound to compare with, not those of a bandit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

import releaf
from benchmarks.quality.problems import Array, Problem
from benchmarks.quality.runs import Clock, replay

ALL = 0  # the budget that stands for the rewards of all steps
_LOOK_EVERY = 50  # steps
Taken = tuple[Array | None, int]  # the actions, or None when it would take too long, and the number of labels


def adaptive(problem: Problem, budget: int, seed: int) -> Taken:
    """AdaptiveReleaf, which asks where the reward can change a decision; it does not know the stream's length."""
    policy = releaf.AdaptiveReleaf(len(problem.actions), problem.schema, seed=seed, label_budget=budget or None)
    return replay(policy, problem.contexts, problem.rewards)


def adaptive_random(problem: Problem, budget: int, seed: int) -> Taken:
    """AdaptiveReleaf told the rewards of random steps."""
    policy = releaf.AdaptiveReleaf(len(problem.actions), problem.schema, seed=seed)
    asked, clock = _random_steps(len(problem), budget, seed), Clock(len(problem))
    actions = np.empty(len(problem), dtype=np.int64)
    for step, context in enumerate(problem.contexts):
        decision = policy.decide(context)
        if asked[step]:
            actions[step] = decision.index
            policy.learn(decision, float(problem.rewards[step, decision.index]))
        else:
            actions[step] = int(np.argmax(policy.estimate(context[None, :])))
        if step % _LOOK_EVERY == 0 and clock.is_hopeless(step + 1):
            return None, 0
    return actions, int(asked.sum())


def linucb_all(problem: Problem, budget: int, seed: int) -> Taken:
    """LinUCB told all rewards."""
    policy = releaf.LinUCB(len(problem.actions), problem.onehot.shape[1], seed=seed)
    return replay(policy, problem.onehot, problem.rewards)


def linucb_random(problem: Problem, budget: int, seed: int) -> Taken:
    """LinUCB told the rewards of random steps."""
    asked = _random_steps(len(problem), budget, seed)
    return _linucb(problem, lambda step, *_: bool(asked[step]))


def _random_steps(steps: int, budget: int, seed: int) -> Array:
    asked = np.zeros(steps, dtype=bool)
    asked[np.random.default_rng(seed).choice(steps, min(budget, steps), replace=False)] = True
    return asked


def linucb_uncertain(problem: Problem, budget: int, seed: int) -> Taken:
    """LinUCB with uncertainty sampling: it asks where the intervals of its two best actions overlap most.

    That is where their estimates differ least for the width of both intervals: of four measures, the one with the
    lowest geometric mean of the loss on six development sets. The threshold is a quantile of the overlaps of the latest
    steps, such that what is left of the budget lasts until the end of the stream.
    """
    latest: deque[float] = deque(maxlen=500)

    def asks(step: int, labels: int, means: Array, widths: Array) -> bool:
        first, second = np.argsort(-(means + widths), kind="stable")[:2]
        overlap = -float(abs(means[first] - means[second]) / (widths[first] + widths[second]))
        latest.append(overlap)
        rate = (budget - labels) / (len(problem) - step)
        return labels < budget and overlap >= float(np.quantile(latest, max(0.0, 1 - rate)))

    return _linucb(problem, asks)


def _linucb(problem: Problem, asks: Callable[[int, int, Array, Array], bool]) -> Taken:
    """LinUCB where it asks, which it is told by step, labels so far, estimates and widths; else the best estimate."""
    steps, clock = len(problem), Clock(len(problem))
    model = _Ridge(len(problem.actions), problem.onehot.shape[1])
    actions, labels = np.empty(steps, dtype=np.int64), 0
    for step, context in enumerate(problem.onehot):
        row = np.append(context, 1.0)
        means, widths = model.predict(row)
        if asks(step, labels, means, widths):
            labels += 1
            action = actions[step] = int(np.argmax(means + widths))
            model.learn(row, action, float(problem.rewards[step, action]))
        else:
            actions[step] = int(np.argmax(means))
        if step % _LOOK_EVERY == 0 and clock.is_hopeless(step + 1):
            return None, labels
    return actions, labels


class _Ridge:
    """A ridge regression for each action, λ = 1, with confidence widths for α = 1: releaf.LinUCB's, with its widths."""

    def __init__(self, actions: int, features: int) -> None:
        self.inverse = np.tile(np.eye(features + 1), (actions, 1, 1))
        self.sums = np.zeros((actions, features + 1))
        self.weights = np.zeros((actions, features + 1))

    def predict(self, row: Array) -> tuple[Array, Array]:
        return self.weights @ row, np.sqrt((self.inverse @ row) @ row)

    def learn(self, row: Array, action: int, reward: float) -> None:
        inverse = self.inverse[action]
        direction = inverse @ row
        inverse -= np.outer(direction, direction) / (1.0 + row @ direction)
        self.sums[action] += reward * row
        self.weights[action] = inverse @ self.sums[action]


class ActiveClassifier:
    """A strategy of scikit-activeml with a logistic regression, which is told right actions.

    A classifier that knows one class only is sure of it, so the first labels are asked for outright: two for each
    action, or half of the budget. It is fitted again whenever there are 5 % more labels.
    """

    def __init__(self, strategy: str) -> None:
        self.strategy = strategy

    def __call__(self, problem: Problem, budget: int, seed: int) -> Taken:
        steps, actions = len(problem), len(problem.actions)
        rows, labels = problem.onehot, problem.rewards.argmax(axis=1)
        strategy, classifier = self._make(budget / steps, actions, seed)
        first = min(2 * actions, budget // 2)
        predicted, asked, due, clock = np.zeros(steps, dtype=np.int64), list[int](), 1, Clock(steps)
        for step in range(steps):
            if step < first or (len(asked) < budget and self._asks(strategy, classifier, rows[step : step + 1])):
                asked.append(step)
                if len(asked) >= due:
                    due = max(due + 1, int(1.05 * due))
                    classifier.fit(rows[asked], labels[asked])
                    if step + 1 < steps:
                        predicted[step + 1 :] = classifier.predict(rows[step + 1 :])
            if step % _LOOK_EVERY == 0 and clock.is_hopeless(step + 1):
                return None, len(asked)
        return predicted, len(asked)

    def _make(self, rate: float, actions: int, seed: int) -> tuple[Any, Any]:
        from skactiveml import stream
        from skactiveml.classifier import SklearnClassifier
        from sklearn.linear_model import LogisticRegression

        classes = list(range(actions))
        settings = {"classes": classes} if self.strategy == "FixedUncertainty" else {}
        strategy = getattr(stream, self.strategy)(budget=rate, random_state=seed, **settings)
        return strategy, SklearnClassifier(LogisticRegression(max_iter=300), classes=classes, random_state=seed)

    def _asks(self, strategy: Any, classifier: Any, row: Array) -> bool:
        found = strategy.query(candidates=row, clf=classifier)
        strategy.update(candidates=row, queried_indices=found)
        return len(found) > 0
