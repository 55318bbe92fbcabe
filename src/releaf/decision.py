"""What a policy answers when it is asked what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

ActionName = str | int | float | bool
Row = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(slots=True, eq=False, repr=False)
class Decision:
    """One decision. Keep it, or its ``id``, until the reward is known.

    Attributes
    ----------
    id
        The step at which it was made, counted from 1; with it the learner finds the decision again.
    action
        What to do: one of the learner's actions.
    explored
        Whether the action was tried to learn about it (True) or taken as the best known (False). A policy that is
        optimistic, not random, explores when it takes an action whose estimate is not the highest.
    wants_reward
        Whether the learner asks for the reward. It accepts none that it did not ask for.
    probability
        The probability with which the policy took this action in this context; 1.0 where it had no choice, None where
        it isn't known.
    estimates
        The estimated reward of each action; None while exploring.
    relevant
        For each action the features its estimate rests on, as a tuple of indices, None for an action where no
        tuple of features explained the rewards (the paper's empty Rel_t(a)); None while exploring.
    index
        The action's position among the learner's actions.
    """

    id: int
    action: ActionName
    index: int
    explored: bool
    wants_reward: bool
    probability: float | None
    estimates: tuple[float, ...] | None
    relevant: tuple[tuple[int, ...] | None, ...] | None
    _context: Row
    _learner: int
    _actions: tuple[ActionName, ...]  # of the learner at that time, which the estimates are about

    @property
    def context(self) -> Row:
        """The context as the learner sees it, each value in [0, 1], -1 where it is missing. It can't be written to."""
        row = self._context.view()
        row.flags.writeable = False
        return row

    def __repr__(self) -> str:
        how = "explored" if self.explored else "exploited"
        return f"Decision({self.id}: {self.action!r}, {how}, wants_reward={self.wants_reward})"
