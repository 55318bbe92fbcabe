"""Bandits of other packages, each behind the same two calls: ``decide`` on a context, ``learn`` its action's reward.

All are made from a number of actions, a number of features, a seed, and settings that methods.py lists.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from benchmarks.quality.problems import Array


class Baseline(Protocol):
    """What the run asks of a baseline."""

    def decide(self, context: Array) -> int:
        """The position of the action to take."""
        ...

    def learn(self, context: Array, action: int, reward: float) -> None:
        """Take in the reward of that action in that context."""
        ...


class VowpalWabbit:
    """``--cb_explore_adf``: the context is shared, an action is a feature of its own. Costs are -reward.

    Only what is crossed with the action can tell actions apart, so the base is ``-q SA``, a linear model for each
    action. ``-q ::`` would add products of two of the context's features, but the same for all actions; products for
    each action are ``--interactions SSA``. ``--automl`` chooses interactions itself. Costs from -1 to 0 did better than
    costs from 0 to 1 on most of the data sets that both were tried on; the options tell it their range.
    """

    def __init__(self, actions: int, features: int, seed: int, options: str) -> None:
        from vowpalwabbit import Workspace

        self.workspace = Workspace(f"--cb_explore_adf {options} --random_seed {seed + 1} --quiet")
        self.lines = [f"|A {action}" for action in range(actions)]
        self.generator = np.random.default_rng(seed)
        self.shared, self.probabilities = "", [1.0]

    def decide(self, context: Array) -> int:
        values = " ".join([f"{place}:{value:.6g}" for place, value in enumerate(context.tolist()) if value])
        self.shared = f"shared |S {values}"
        self.probabilities = self.workspace.predict([self.shared, *self.lines])
        reached = self.generator.random() * sum(self.probabilities)
        return min(int(np.searchsorted(np.cumsum(self.probabilities), reached, "right")), len(self.lines) - 1)

    def learn(self, context: Array, action: int, reward: float) -> None:
        lines = [self.shared, *self.lines]
        lines[1 + action] = f"0:{-reward}:{self.probabilities[action]} |A {action}"
        self.workspace.learn(lines)


class MabWiser:
    """A learning policy, alone or in the neighbourhood that a neighbourhood policy finds.

    It must be fitted before it decides, so each action is taken ``first`` times to begin with. Its linear models have
    no intercept: a constant feature is one.
    """

    def __init__(
        self,
        actions: int,
        features: int,
        seed: int,
        policy: str,
        policy_settings: dict[str, Any] | None = None,
        neighbourhood: str = "",
        neighbourhood_settings: dict[str, Any] | None = None,
        first: int = 1,
    ) -> None:
        from mabwiser.mab import MAB, LearningPolicy, NeighborhoodPolicy

        learning = getattr(LearningPolicy, policy)(**policy_settings or {})
        near = getattr(NeighborhoodPolicy, neighbourhood)(**neighbourhood_settings or {}) if neighbourhood else None
        self.bandit = MAB(list(range(actions)), learning, near, seed=seed)
        self.constant = [] if neighbourhood else [1.0]
        self.untried = list(range(actions)) * first
        self.first: list[tuple[int, float, Array]] = []

    def _row(self, context: Array) -> Array:
        return np.concatenate([context, self.constant])[None, :]

    def decide(self, context: Array) -> int:
        return self.untried[0] if self.untried else int(self.bandit.predict(self._row(context)))

    def learn(self, context: Array, action: int, reward: float) -> None:
        if not self.untried:
            self.bandit.partial_fit([action], [reward], self._row(context))
            return
        self.untried.pop(0)
        self.first.append((action, reward, self._row(context)[0]))
        if not self.untried:
            actions, rewards, rows = zip(*self.first, strict=True)
            self.bandit.fit(list(actions), list(rewards), np.array(rows))


class ContextualBandits:
    """A policy that learns from each step, or one around a classifier that is fitted again and again to all steps.

    Its rewards are 0 or 1; one in between is drawn as either, 1 with that probability. It is fitted again after
    ``refit`` steps, later whenever there are ``growth`` more, so that it stays affordable. The classifier is a logistic
    regression, or a random forest of so many ``trees``.
    """

    def __init__(
        self,
        actions: int,
        features: int,
        seed: int,
        policy: str,
        refit: int = 1,
        growth: float = 0.0,
        trees: int = 0,
        **settings: Any,
    ) -> None:
        from contextualbandits import online
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.linear_model import LogisticRegression

        self.generator = np.random.default_rng(seed)
        classifier = RandomForestClassifier(trees, random_state=seed) if trees else LogisticRegression()
        base = () if refit == 1 else (classifier,)
        self.bandit = getattr(online, policy)(*base, nchoices=actions, random_state=seed + 1, **settings)
        self.refit, self.growth, self.due = refit, growth, refit
        self.contexts: list[Array] = []
        self.taken: list[int] = []
        self.rewards: list[float] = []

    def decide(self, context: Array) -> int:
        return int(self.bandit.predict(context[None, :])[0])

    def learn(self, context: Array, action: int, reward: float) -> None:
        drawn = float(self.generator.random() < reward)
        if self.refit == 1:
            self.bandit.partial_fit(context[None, :], np.array([action]), np.array([drawn]))
            return
        self.contexts.append(context)
        self.taken.append(action)
        self.rewards.append(drawn)
        if len(self.taken) >= self.due:
            self.due += max(self.refit, int(self.growth * len(self.taken)))
            self.bandit.fit(np.array(self.contexts), np.array(self.taken), np.array(self.rewards))


class River:
    """LinUCB with a model for each action. It has no intercept: a constant feature is one."""

    def __init__(self, actions: int, features: int, seed: int, **settings: Any) -> None:
        from river.bandit import LinUCBDisjoint

        self.bandit = LinUCBDisjoint(seed=seed, **settings)
        self.arms = list(range(actions))

    def _named(self, context: Array) -> dict[str, float]:
        return {"constant": 1.0, **{str(place): value for place, value in enumerate(context.tolist())}}

    def decide(self, context: Array) -> int:
        return int(self.bandit.pull(self.arms, context=self._named(context)))

    def learn(self, context: Array, action: int, reward: float) -> None:
        self.bandit.update(action, self._named(context), reward)
