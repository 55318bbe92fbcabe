"""`Decision`: the action that a policy chose for a context."""

from __future__ import annotations

from dataclasses import dataclass

from releaf.arrays import Row
from releaf.html_table import html_table

ActionName = str | int | float | bool
LEARNER, CONTROL = "learner", "control"  # groups of decisions


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
    eligible
        The actions that were eligible, in the learner's order; None where all were. The probability is exact among
        them. The only eligible action has probability 1 and is no exploration.
        A policy for actions with features of their own estimates these only.
    slate
        The k actions that ``decide(…, k=k)`` chose, the best first; None without ``k``. ``action`` is its first, and
        ``probability`` the probability of that action to be the first.
    slate_probabilities
        Inclusion probability of each action of the slate: that it is one of the k.
    probabilities
        The probability of each eligible action to be chosen, or to be the first of the slate. Only where a policy for
        actions with features of their own, without a control share, decided on a slate or on actions of a request.
    costs
        The cost of each action in this decision; None where costs do not matter. ``cost`` is that of the action.
    label_cost
        What the reward of this decision costs to find out, in ordinary labels; None where requests do not depend on it.
    group
        "control" where the control group decided, which counts as an exploration if there was a choice; "learner"
        otherwise; None without a ``control_share``. ``probability`` is the total one of both groups.
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
    eligible: tuple[ActionName, ...] | None = None
    slate: tuple[ActionName, ...] | None = None
    slate_probabilities: tuple[float, ...] | None = None
    probabilities: tuple[float, ...] | None = None
    costs: tuple[float, ...] | None = None
    group: str | None = None
    label_cost: float | None = None

    @property
    def cost(self) -> float | None:
        """Cost of the action; None where costs do not matter."""
        return None if self.costs is None else self.costs[self.index]

    @property
    def context(self) -> Row:
        """Read-only encoded context. Each value is in [0, 1], or -1 where it is missing."""
        row = self._context.view()
        row.flags.writeable = False
        return row

    def __repr__(self) -> str:
        how = "explored" if self.explored else "exploited"
        return f"Decision({self.id}: {self.action!r}, {how}, wants_reward={self.wants_reward})"

    def _repr_html_(self) -> str:
        """For notebooks: the estimate of each action, and how the chosen one was taken."""
        estimates = [
            "" if self.estimates is None else f"{estimate:.4g}" for estimate in self.estimates or self._actions
        ]
        chance = "" if self.probability is None else f", with probability {self.probability:.3g}"
        how = f"{'explored' if self.explored else 'exploited'}{chance}"
        marks = [self._mark_of(place, how) for place in range(len(self._actions))]
        wanted = "Its reward is wanted." if self.wants_reward else "No reward was asked for."
        rows = zip(self._actions, estimates, marks, strict=True)
        title = f"Decision {self.id} chose {self.action!r}."
        return html_table(["action", "estimate", "chosen"], rows, title=title, notes=[wanted])

    def _mark_of(self, place: int, chosen: str) -> str:
        if self._actions[place] == self.action:
            return chosen
        return "not eligible" if self.eligible is not None and self._actions[place] not in self.eligible else ""
