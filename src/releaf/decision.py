"""`Decision`: the action that a policy chose for a context."""

from __future__ import annotations

from dataclasses import dataclass

from releaf.arrays import Row

ActionName = str | int | float | bool


@dataclass(slots=True, eq=False, repr=False)
class Decision:
    """One decision. Keep it, or its ``id``, until the reward is known.

    Attributes
    ----------
    id
        The step of the decision, counted from 1; ``learn`` accepts it in place of the decision.
    action
        The chosen action: one of the learner's actions.
    explored
        Whether the action is an exploration (True) or the best known action (False). A decision of an optimistic,
        deterministic policy is an exploration if the action's estimate is not the highest.
    wants_reward
        Whether the learner requests the reward. It rejects rewards that it did not request.
    probability
        The probability (propensity) of this action in this context; 1.0 for a deterministic choice, None where it is
        unknown.
    estimates
        The estimated reward of each action; None while exploring.
    relevant
        The relevant features of each action as a tuple of indices, None for an action where no tuple of features
        explained the rewards (the paper's empty Rel_t(a)); None while exploring.
    index
        The action's index among the learner's actions.
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
    _actions: tuple[ActionName, ...]  # of the learner at that time, in the order of the estimates

    @property
    def context(self) -> Row:
        """Read-only encoded context. Each value is in [0, 1], or -1 where it is missing."""
        row = self._context.view()
        row.flags.writeable = False
        return row

    def __repr__(self) -> str:
        how = "explored" if self.explored else "exploited"
        return f"Decision({self.id}: {self.action!r}, {how}, wants_reward={self.wants_reward})"
