"""Bandits made of a regressor for each action, as one would build them from scikit-learn, LightGBM or River.

Regressors for tables are fitted again to all of an action's rewards whenever there are some percent more of them, so
that the cost of all fits is that of a few. River's learn from each reward.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from benchmarks.quality.problems import Array

EPSILON = 0.05  # as VowpalWabbit's default


class _Refitted:
    """Rewards by action, and a regressor of each action that is fitted again when they have grown enough."""

    def __init__(self, actions: int, features: int, seed: int, growth: float) -> None:
        self.generator = np.random.default_rng(seed)
        self.contexts: list[list[Array]] = [[] for _ in range(actions)]
        self.rewards: list[list[float]] = [[] for _ in range(actions)]
        self.due = [1] * actions
        self.growth, self.seed = growth, seed

    def learn(self, context: Array, action: int, reward: float) -> None:
        self.contexts[action].append(context)
        self.rewards[action].append(reward)
        count = len(self.rewards[action])
        if count >= self.due[action]:
            self.due[action] = max(count + 1, int(np.ceil(count * self.growth)))
            self.fit(action, np.array(self.contexts[action]), np.array(self.rewards[action]))

    def untried(self) -> int | None:
        return next((action for action, rewards in enumerate(self.rewards) if not rewards), None)

    def fit(self, action: int, contexts: Array, rewards: Array) -> None:
        raise NotImplementedError


class ExtraTrees(_Refitted):
    """Extremely randomised trees; the upper bound is the trees' mean and ``width`` times their standard deviation.

    The trees agree where there are few rewards, so an action with n rewards is uncertain by 1 / √n at least. A width of
    0.25 was better than 0.5 and 1 on seven development sets.
    """

    def __init__(self, actions: int, features: int, seed: int, growth: float = 1.1, width: float = 0.25) -> None:
        super().__init__(actions, features, seed, growth)
        self.forests: list[Any] = [None] * actions
        self.width = width

    def fit(self, action: int, contexts: Array, rewards: Array) -> None:
        from sklearn.ensemble import ExtraTreesRegressor

        forest = ExtraTreesRegressor(n_estimators=100, min_samples_leaf=1, random_state=self.seed)
        forest.fit(contexts, rewards)
        self.forests[action] = _flat([tree.tree_ for tree in forest.estimators_])

    def decide(self, context: Array) -> int:
        if (action := self.untried()) is not None:
            return action
        row = context.astype(np.float32)  # as the trees were fitted
        means = [_forest_mean(row, *forest) for forest in self.forests]
        bounds = [
            mean + self.width * np.sqrt(variance + 1 / len(rewards))
            for (mean, variance), rewards in zip(means, self.rewards, strict=True)
        ]
        return int(np.argmax(bounds))


def _flat(trees: list[Any]) -> tuple[Array, ...]:
    """All nodes of all trees in one array each, so that a context is predicted without a call for each tree."""
    starts = np.cumsum([0, *(tree.node_count for tree in trees)])
    left = [tree.children_left + start for tree, start in zip(trees, starts[:-1], strict=True)]
    right = [tree.children_right + start for tree, start in zip(trees, starts[:-1], strict=True)]
    features = np.concatenate([tree.feature for tree in trees])
    thresholds = np.concatenate([tree.threshold for tree in trees])
    values = np.concatenate([tree.value[:, 0, 0] for tree in trees])
    return starts[:-1], np.concatenate(left), np.concatenate(right), features, thresholds, values


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _forest_mean(
    row: Array, starts: Array, left: Array, right: Array, features: Array, thresholds: Array, values: Array
) -> tuple[float, float]:
    """Mean and variance of the trees' predictions."""
    total = squares = 0.0
    for node in starts:
        while features[node] >= 0:
            node = left[node] if row[features[node]] <= thresholds[node] else right[node]
        total += values[node]
        squares += values[node] ** 2
    mean = total / len(starts)
    return mean, max(squares / len(starts) - mean * mean, 0.0)


class LightGBM(_Refitted):
    """Gradient-boosted trees with ε-greedy exploration: they have no measure of their uncertainty."""

    def __init__(self, actions: int, features: int, seed: int, growth: float = 1.3, **settings: Any) -> None:
        super().__init__(actions, features, seed, growth)
        self.boosters: list[Any] = [None] * actions
        self.settings = settings

    def fit(self, action: int, contexts: Array, rewards: Array) -> None:
        from lightgbm import LGBMRegressor

        booster = LGBMRegressor(n_jobs=1, verbose=-1, random_state=self.seed, **self.settings)
        # A single row is refused; twice, it is the same.
        repeated = contexts.repeat(2, axis=0) if len(contexts) < 2 else contexts
        booster.fit(repeated, np.resize(rewards, len(repeated)))
        self.boosters[action] = booster.booster_

    def decide(self, context: Array) -> int:
        if (action := self.untried()) is not None:
            return action
        if self.generator.random() < EPSILON:
            return int(self.generator.integers(len(self.boosters)))
        row = context[None, :]
        return int(np.argmax([booster.predict(row, num_threads=1)[0] for booster in self.boosters]))


class RiverForest:
    """A forest of River for each action, by its class in ``river.forest``, with ε-greedy exploration."""

    def __init__(self, actions: int, features: int, seed: int, forest: str) -> None:
        import river.forest

        self.forests = [getattr(river.forest, forest)(seed=seed + action) for action in range(actions)]
        self.generator = np.random.default_rng(seed)

    def decide(self, context: Array) -> int:
        if self.generator.random() < EPSILON:
            return int(self.generator.integers(len(self.forests)))
        row = _named(context)
        predicted = np.array([_prediction(forest, row) for forest in self.forests])
        return int(self.generator.choice(np.flatnonzero(predicted == predicted.max())))

    def learn(self, context: Array, action: int, reward: float) -> None:
        self.forests[action].learn_one(_named(context), reward)


def _named(context: Array) -> dict[int, float]:
    return dict(enumerate(context.tolist()))


def _prediction(forest: Any, row: dict[int, float]) -> float:
    """What a forest predicts; 1, the best reward there is, as long as it has no prediction."""
    predicted = forest.predict_one(row)
    return 1.0 if predicted is None or np.isnan(predicted) else float(predicted)
