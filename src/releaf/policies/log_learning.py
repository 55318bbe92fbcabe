"""Learning from decisions that another system made: one row, or a log."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from releaf.arrays import Array
from releaf.decision import ActionName
from releaf.policies.argument_checks import positive
from releaf.policies.reward_checks import positions_of, scaled_column
from releaf.schema import Encoder
from releaf.traits import Traits


class LogLearning:
    """Mixin for policies that learn rewards of decisions that they did not make."""

    traits: ClassVar[Traits]
    _action_names: tuple[ActionName, ...]
    reward_range: tuple[float, float]
    _checked_reward: Callable[[Any], float]
    _encode_many: Callable[..., Array]
    _index_of: Callable[[ActionName], int]
    _encoder: Encoder
    _lock: threading.RLock

    @abstractmethod
    def _learn_log(self, units: Array, taken: Array, rewards: Array) -> None:
        """Decide for each context, and learn the reward of the logged action."""

    def observe(self, context: Any, action: ActionName, reward: Any, *, probability: float | None = None) -> None:
        """Learn the reward of an action that another system or a person took: :meth:`learn_log` of one row.

        The policy processes the context as if it arrived now, which counts as one decision, and learns the reward of
        the action, requested or not. Invalid input raises before anything is learnt.

        Parameters
        ----------
        context
            As for ``decide``.
        action
            The action that was taken, one of the learner's.
        reward
            Its reward.
        probability
            The propensity of the action, in (0, 1], if it is known. It is validated and not used: every policy
            estimates the reward given the context and the action, which needs no weights.
            :func:`releaf.fit_log` and off-policy evaluation weight rows by it.

        Examples
        --------
        >>> import releaf
        >>> bandit = releaf.LinUCB(actions=["wait", "treat"], features=["age", "dose"])
        >>> bandit.observe({"age": 0.3, "dose": 0.7}, "treat", 1.0, probability=0.5)
        >>> bandit.steps
        1
        """
        self._require_log_learning()
        if probability is not None:
            positive("probability", probability, most=1.0)
        with self._lock:
            index, gained = self._index_of(action), self._checked_reward(reward)
            unit = self._encoder.encode(context)
            self._learn_log(unit[None, :], np.array([index]), np.array([gained]))

    def learn_log(self, contexts: Any, actions: Any, rewards: Any) -> None:
        """Learn from logged decisions of another policy: a warm start.

        The policy processes each row as if it arrived now, and learns the reward of the logged action, requested or
        not. Invalid input anywhere raises before anything is learnt.

        Parameters
        ----------
        contexts
            A matrix, a table, or a sequence of contexts.
        actions
            The logged action of each row, one of the learner's.
        rewards
            The reward of each logged action.
        """
        self._require_log_learning()
        with self._lock:
            taken, gained = positions_of(actions, self._action_names), scaled_column(rewards, self.reward_range)
            if not len(contexts) == len(taken) == len(gained):
                lengths = f"{len(contexts)} contexts, {len(taken)} actions and {len(gained)} rewards"
                raise ValueError(f"a log needs an action and a reward for each context, got {lengths}")
            self._learn_log(self._encode_many(contexts), taken, gained)

    def _require_log_learning(self) -> None:
        if not self.traits.learns_from_logs:
            raise ValueError(f"{type(self).__name__} can't learn from a log, which has the reward of one action a row")
