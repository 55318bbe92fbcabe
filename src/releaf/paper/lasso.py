"""LASSO on the log of a uniform policy: a baseline for finding relevant features."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.policy import Actions, Trace, action_names
from releaf.schema import Features, Schema

LEAST_ROWS = 10  # rewards of an action before anything is fitted to them


class LassoBandit:
    """Takes every action with the same probability, and fits a LASSO to the rewards of each.

    It serves experiments only: it keeps the whole log and never exploits. Contexts must
    be numbers in [0, 1].

    The penalty is the one with the least Bayesian information criterion on the LARS path (scikit-learn's
    ``LassoLarsIC``). Cross-validation chooses the penalty that predicts best, which keeps features that are not
    relevant; BIC finds the relevant ones as the log grows, and takes a tenth of the time. Where an action has not yet
    twice as many rewards as there are features, least squares tell too little of the noise, and the variance of the
    rewards stands for it; this keeps fewer features, not more.

    Parameters
    ----------
    actions, features, seed
        As for :class:`releaf.Releaf`.

    Examples
    --------
    >>> from releaf.streams import generate
    >>> stream = generate(600, features=4, relevant=[[1], [3]], actions=2, shape="line")
    >>> bandit = LassoBandit(2, 4, seed=0)
    >>> trace = bandit.replay(stream.contexts, stream.rewards)
    >>> bandit.relevance().argmax(axis=1).tolist()
    [1, 3]
    """

    def __init__(self, actions: Actions, features: Features, *, seed: int | None = None) -> None:
        self.actions = action_names(actions)
        self.schema = Schema.of(features)
        self.seed = seed
        self._generator = np.random.default_rng(seed)
        self._contexts: list[Array] = [np.empty((0, len(self.schema)))]
        self._taken: list[Array] = [np.empty(0, dtype=np.int64)]
        self._rewards: list[Array] = [np.empty(0)]

    def replay(self, contexts: Any, rewards: Any) -> Trace:
        """Take actions at random for a recorded stream, and note their rewards."""
        table = np.asarray(rewards, dtype=np.float64)
        taken = self._generator.integers(len(self.actions), size=len(table))
        gained = table[np.arange(len(table)), taken]
        self._contexts.append(np.array(contexts, dtype=np.float64))
        self._taken.append(taken)
        self._rewards.append(gained)
        always = np.ones(len(table), dtype=np.bool_)
        return Trace(taken, always, always, gained)

    def relevance(self) -> Array:
        """The share of each feature in what the LASSO explains of each action's reward now (A × D).

        A feature explains the variance of its contribution, its squared coefficient times its own variance. A row sums
        to 1, or to 0 while nothing is explained.
        """
        contexts, taken, rewards = map(np.concatenate, (self._contexts, self._taken, self._rewards))
        rows = [_shares(contexts[taken == action], rewards[taken == action]) for action in range(len(self.actions))]
        return np.array(rows)


def _shares(contexts: Array, rewards: Array) -> Array:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LassoLarsIC

    count, features = contexts.shape
    if count < LEAST_ROWS or not np.ptp(rewards):
        return np.zeros(features)
    noise = None if count > 2 * features else float(rewards.var())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the path ends early where features are collinear
        fitted = LassoLarsIC(criterion="bic", noise_variance=noise).fit(contexts, rewards)
    explained: Array = fitted.coef_**2 * contexts.var(axis=0)
    return explained / (explained.sum() or 1.0)
