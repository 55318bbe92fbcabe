"""`BanditPolicy`: a policy trained on a log of decisions, as a scikit-learn estimator."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import assert_all_finite, check_consistent_length, check_is_fitted, column_or_1d

from releaf import policies
from releaf.arrays import Array
from releaf.policies.base import OnlinePolicy
from releaf.policies.class_lookup import policy_classes
from releaf.sklearn.columns import WithColumns, columns_of, is_numeric, validate
from releaf.sklearn.row_buffer import RowBuffer

# Policies that are insensitive to the distribution of numeric features; others get ranks.
SCALE_INVARIANT = ("AdaptiveReleaf", "LinUCB", "LinTS", "LinearEpsilonGreedy")


class BanditPolicy(WithColumns, BaseEstimator):
    """Trains a policy on a log: contexts, the actions taken, and their rewards.

    The log may come from any policy; a random one is the most informative. Rows of X are encoded as by
    :class:`AdaptiveReleafClassifier`.

    Parameters
    ----------
    policy
        The name of a policy that learns from logs ("AdaptiveReleaf", "LinUCB", "CMABRL", …), or a learner with its
        own actions and features, which ``fit`` copies.
    options
        Arguments of a policy that is given by name, for example ``{"alpha": 0.5}``.
    reward_range
        The lowest and the highest possible reward. When None, [0, 1] if it contains the rewards of ``fit``, otherwise
        the lowest and the highest of them. A learner that is given has a range of its own.
    features
        As for :class:`AdaptiveReleafClassifier`.
    random_state
        A seed, a generator, or None for a random one.

    Attributes
    ----------
    learner_
        The policy, which can decide and learn by itself.
    actions_ : array
        The actions, in the order of the columns of ``decision_function``.
    reward_range_ : tuple
        The lowest and the highest reward.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from releaf.sklearn import BanditPolicy
    >>> draw = np.random.default_rng(0)
    >>> X, action = draw.normal(size=(2000, 3)), draw.choice(["wait", "treat"], 2000)
    >>> reward = np.where((action == "treat") == (X[:, 1] > 0), 250.0, -150.0)
    >>> BanditPolicy(random_state=0).fit(X, action, reward).predict([[0, 2, 0], [0, -2, 0]]).tolist()
    ['treat', 'wait']
    """

    learner_: Any  # of the class that ``policy`` names

    def __init__(
        self,
        policy: Any = "AdaptiveReleaf",
        *,
        options: dict[str, Any] | None = None,
        reward_range: tuple[float, float] | None = None,
        features: Any = None,
        random_state: Any = None,
    ) -> None:
        self.policy = policy
        self.options = options
        self.reward_range = reward_range
        self.features = features
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, reward: Any = None, *, action: Any = None) -> Self:
        """Fit a new policy to a log.

        Call ``fit(X, action, reward)``, or with keywords ``fit(X, action=action, reward=reward)``, as a pipeline with
        metadata routing does, whose second argument is always y.

        Parameters
        ----------
        X
            The contexts.
        y, action
            The action taken in each, as one of these arguments.
        reward
            Its reward.
        """
        taken, gained = _log(y, action, reward)
        is_plain = is_numeric(X, self._given_schema)
        rows, _ = validate(self, X, taken, reset=True, plain=is_plain)
        check_consistent_length(rows, taken, gained)
        self._is_numeric = is_plain
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._start_over(X, rows, taken, gained)
        self._buffer = RowBuffer(rows, taken, gained)
        return self

    def partial_fit(self, X: Any, y: Any = None, reward: Any = None, *, action: Any = None) -> Self:
        """Continue training; new actions are added.

        Parameters
        ----------
        X, y, action, reward
            As for ``fit``. While rows are few, the features and the reward range are inferred again each time their
            number has doubled, as by the classifiers. Set ``reward_range`` if later rewards may exceed it.
        """
        if not hasattr(self, "learner_"):
            return self.fit(X, y, reward, action=action)
        taken, gained = _log(y, action, reward)
        rows, _ = validate(self, X, reset=False, plain=self._is_numeric)
        check_consistent_length(rows, taken, gained)
        everything = self._buffer_with(rows, taken, gained) if self._given_schema is None else None
        if everything is None:
            self._learn(self.learner_, rows, taken, gained)
        else:
            self._start_over(X, *everything)
        return self

    def predict(self, X: Any) -> Array:
        """The action with the highest expected reward for each row."""
        contexts, expected = self._expected(X)
        best = np.argmax(np.nan_to_num(expected, nan=-np.inf), axis=1)
        unknown = np.logical_and.reduce(np.isnan(expected), axis=1)
        if unknown.any():  # contexts that the policy would explore
            for row, context in enumerate(contexts):
                if unknown[row]:
                    best[row] = self.learner_.preview(context).index
        return self.actions_[best]  # type: ignore[no-any-return]

    def decision_function(self, X: Any) -> Array:
        """Expected reward of each action for each row (rows × actions); NaN if the policy would explore."""
        return self._expected(X)[1]

    @property
    def actions_(self) -> Array:
        check_is_fitted(self, "learner_")
        return np.array(self.learner_.actions)

    # --- internals ------------------------------------------------------------------------------------------

    @property
    def _given_schema(self) -> Any:
        return self.policy.schema if isinstance(self.policy, OnlinePolicy) else self.features

    def _buffer_with(self, rows: Array, taken: Array, gained: Array) -> tuple[Array, ...] | None:
        """Validate rows and add them to the buffer; returns all rows so far if the columns must be inferred again."""
        if self._buffer.settled:
            return None
        self._columns.contexts(rows)
        if self.reward_range is not None:
            self._require_in_range(gained)
        low, high = self.reward_range_
        return self._buffer.add(rows, taken, gained, at_once=bool((gained < low).any() or (gained > high).any()))

    def _start_over(self, X: Any, rows: Array, taken: Array, gained: Array) -> None:
        """Infer the columns and the reward range from these rows, and train a new learner on them."""
        ranks = self.policy not in SCALE_INVARIANT
        self._columns = columns_of(self, X, rows, schema=self._given_schema, ranks=ranks)
        self.reward_range_ = _range_of(gained) if self.reward_range is None else tuple(self.reward_range)
        made = isinstance(self.policy, OnlinePolicy)
        learner: OnlinePolicy = copy.deepcopy(self.policy) if made else self._new_learner(np.unique(taken).tolist())
        self.reward_range_ = learner.reward_range
        self._learn(learner, rows, taken, gained)
        self.learner_ = learner

    def _new_learner(self, actions: list[Any]) -> OnlinePolicy:
        kind = policy_classes(policies).get(self.policy) if isinstance(self.policy, str) else None
        if kind is None:
            raise ValueError(
                f"policy is {self.policy!r}: expected a learner, or the name of one as in 'AdaptiveReleaf'"
            )
        options = {"seed": self._seed, **(self.options or {}), "reward_range": self.reward_range_}
        learner: OnlinePolicy = kind(actions, self._columns.schema, **options)
        return learner

    def _require_in_range(self, gained: Array) -> None:
        low, high = self.reward_range_
        bad = np.flatnonzero(~((gained >= low) & (gained <= high)))
        if len(bad):
            wanted = f"expected a number in [{low:g}, {high:g}]; set reward_range for other rewards"
            raise ValueError(f"reward of row {bad[0]} is {gained[bad[0]]}: {wanted}")

    def _learn(self, learner: OnlinePolicy, rows: Array, taken: Array, gained: Array) -> None:
        self._require_in_range(gained)
        for action in np.unique(taken).tolist():
            if action not in learner.actions:
                learner.add_action(action)
        learner.learn_log(self._columns.contexts(rows), taken, gained)

    def _expected(self, X: Any) -> tuple[Any, Array]:
        contexts = self._contexts(X)
        return contexts, self.learner_.estimate(contexts)


def _log(y: Any, action: Any, reward: Any) -> tuple[Array, Array]:
    """Validate the actions and rewards of a log."""
    if (y is None) == (action is None):
        raise ValueError("a log needs the actions taken: expected fit(X, action, reward), or action=")
    if reward is None:
        raise ValueError("a log needs the rewards: expected fit(X, action, reward), or reward=")
    taken = column_or_1d(action if y is None else y, warn=True)
    gained = column_or_1d(reward, warn=True, dtype=np.float64)
    assert_all_finite(gained, input_name="reward")
    return taken, gained


def _range_of(rewards: Array) -> tuple[float, float]:
    low, high = float(rewards.min()), float(rewards.max())
    if low >= 0.0 and high <= 1.0:
        return 0.0, 1.0
    return (low, high) if low < high else (low - 0.5, high + 0.5)
