"""`Stream`: contexts with the rewards of all actions. `Log`: contexts with the reward of the action taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from releaf.arrays import Array, Matrix
from releaf.decision import ActionName


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Stream:
    """T steps with D features and the rewards of all A actions.

    Attributes
    ----------
    contexts
        T × D: values in [0, 1], or values of the schema's features.
    rewards
        T × A, the reward of every action.
    features
        Names of the features, or a :class:`releaf.Schema`.
    actions
        Names of the actions.
    expected
        T × A, expected rewards, if known; regret is measured against the best of them.
    eligible
        T × A, whether each action could be chosen; None where all could.
    costs
        T × A, the cost of each action, for policies that weigh costs; None where they are fixed or do not matter.
    skipped, problems
        Number of skipped, unusable rows; and their lines or rows, each with its problem.
    """

    contexts: Any
    rewards: Matrix
    features: Any
    actions: tuple[ActionName, ...]
    expected: Matrix | None = None
    skipped: int = 0
    problems: tuple[tuple[int, str], ...] = ()
    eligible: Array | None = None
    costs: Array | None = None

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        return f"Stream({len(self):,} steps, {len(self.actions)} actions)"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Log:
    """T logged decisions of another policy, with the rewards of the actions taken.

    Attributes
    ----------
    contexts
        T × D: values in [0, 1], or values of the schema's features.
    taken
        Position of the action taken at each step.
    rewards
        Its reward.
    probabilities
        Propensities: the probability of each taken action, if known.
    features
        Names of the features, or a :class:`releaf.Schema`.
    actions
        Names of the actions.
    skipped, problems
        Number of skipped, unusable rows; and their lines or rows, each with its problem.
    eligible
        T × A, whether each action could be taken; None where all could.
    costs
        T × A, the cost of each action, for policies that weigh costs; None where they are fixed or do not matter.
    """

    contexts: Any
    taken: Array
    rewards: Array
    probabilities: Array | None
    features: Any
    actions: tuple[ActionName, ...]
    skipped: int = 0
    problems: tuple[tuple[int, str], ...] = ()
    eligible: Array | None = None
    costs: Array | None = None

    def __len__(self) -> int:
        return len(self.taken)

    def __repr__(self) -> str:
        known = "" if self.probabilities is None else ", with probabilities"
        return f"Log({len(self):,} decisions, {len(self.actions)} actions{known})"
