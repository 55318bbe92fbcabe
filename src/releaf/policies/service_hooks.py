"""What a service that keeps decisions and rewards elsewhere needs to know of a learner."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from releaf.decision import ActionName, Decision
from releaf.policies.pending_decisions import PendingDecision
from releaf.policies.reward_checks import checked_rewards

Array = np.ndarray[Any, np.dtype[Any]]


class ServiceHooks:
    """A learner whose decisions are kept by someone else too, by their number."""

    _action_names: tuple[ActionName, ...]
    _steps: int
    _token: int
    _pending: OrderedDict[int, PendingDecision]
    _wants_all: bool
    _checked_reward: Callable[[Any], float]
    _encode_many: Callable[..., Array]

    @property
    def steps(self) -> int:
        """How many decisions it has made; the number of the latest."""
        return self._steps

    @property
    def wants_all(self) -> bool:
        """Whether it learns the rewards of all actions at once, instead of that of the action taken."""
        return self._wants_all

    def waits_for(self, decision: int) -> bool:
        """Whether a decision, given by its number, waits for its reward."""
        return decision in self._pending

    def require_reward(self, decision: int, reward: Any) -> None:
        """Raise the error that ``learn`` would raise for such a reward of a decision; nothing is learnt."""
        if self._wants_all:
            actions = self._pending[decision][2] if decision in self._pending else len(self._action_names)
            checked_rewards(reward, self._action_names[:actions])
        else:
            self._checked_reward(reward)

    def recall(
        self,
        number: int,
        context: Any,
        action: ActionName,
        *,
        actions: Sequence[ActionName],
        explored: bool,
        wants_reward: bool,
        probability: float | None,
        estimates: tuple[float, ...] | None,
        relevant: tuple[tuple[int, ...] | None, ...] | None,
    ) -> Decision:
        """A decision that this learner made, from what someone kept of it, for instance to have it explained.

        Parameters
        ----------
        number
            Its ``id``.
        context
            As it was given to ``decide``; quantiles are those of now.
        actions
            The actions that there were.
        action, explored, wants_reward, probability, estimates, relevant
            As the decision told.
        """
        unit = self._encode_many([context], learns=False)[0]
        labels = tuple(actions)
        index = labels.index(action)
        return Decision(
            *(number, action, index, explored, wants_reward, probability, estimates, relevant),
            *(unit, self._token, labels),
        )
