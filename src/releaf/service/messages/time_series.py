"""Messages on an experiment over time: its series, and a summary of a range of time."""

from __future__ import annotations

from msgspec import Struct

from releaf.service.messages.fields import RequestAction


class ActionPoint(Struct):
    """Decisions that took an action, and the mean of their rewards with its 95 % interval.

    The action is null for all actions that the point does not list: it has the most frequent ones.
    """

    action: RequestAction | None
    decisions: int
    rewards: int
    mean: float | None
    low: float | None
    high: float | None


class SeriesPoint(Struct):
    """Counts over consecutive decisions: explored, asked for a reward, and rewards.

    Where rewards have a deadline, some values come earlier than others. So rewards count only up to the first
    decisions that still wait for theirs: a point with later ones is not ``settled``, and lacks their rewards. Without a
    deadline the rewards that have come count.

    ``at`` and ``until`` are the times of the first and the last of them, ``low`` and ``high`` the 95 % interval of the
    mean reward. ``actions`` is null for decisions of a version that did not count actions; ``regret`` is the sum of
    what the best action of each decision would have earned more, null unless clients send the rewards of all actions.
    ``spent`` is the sum of the costs of the actions taken, 0 where costs do not matter.
    """

    first: int
    decisions: int
    at: str
    explored: int
    asked: int
    rewards: int
    reward_sum: float
    until: str
    low: float | None
    high: float | None
    regret: float | None
    actions: list[ActionPoint] | None
    spent: float = 0.0
    settled: bool = True


class SeriesInfo(Struct):
    """Time series of exploration, rewards and actions."""

    points: list[SeriesPoint]


class MarkerInfo(Struct):
    """A change of the experiment on the time axis; ``decision`` is the last one before it."""

    at: str
    decision: int
    change: str  # as in the audit log
    subject: str | None


class ActionSummary(Struct):
    """An action in a range of time: how often it was taken, and what it earned.

    ``mean`` is over the decisions that took it. ``value`` estimates the mean reward if it were always taken, and
    ``lift`` by how much that is above the value of the baseline; null where rewards can't tell. ``at_floor`` is the
    share of its decisions with the lowest propensity that the policy allows.
    """

    action: RequestAction | None
    decisions: int
    share: float
    rewards: int
    mean: float | None
    mean_low: float | None
    mean_high: float | None
    value: float | None
    value_low: float | None
    value_high: float | None
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    at_floor: float


class SummaryInfo(Struct):
    """Figures of a range of time. All bounds hold with 95 % at all times at once, so that one may look at any time.

    ``lift`` is by how much the policy in charge earned more per decision than the action ``baseline`` would have. If
    ``adjusted`` is false there are no propensities, and it only compares means over different decisions. ``note`` says
    why a figure is null. Figures of rewards leave out the latest ``unsettled`` decisions: where rewards have a
    deadline, those of which some still wait. Without a deadline they are over the rewards that have come. Regret is
    known if clients send the rewards of all actions: ``mean_regret`` per decision. ``spent`` is the sum of the costs of
    the actions taken, 0 where costs do not matter, and ``mean_cost`` that of a decision.
    """

    since: str | None
    until: str | None
    decisions: int
    rewards: int
    mean: float | None
    mean_low: float | None
    mean_high: float | None
    baseline: RequestAction
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    adjusted: bool
    note: str | None
    mean_regret: float | None
    total_regret: float | None
    actions: list[ActionSummary]
    markers: list[MarkerInfo]
    spent: float = 0.0
    mean_cost: float | None = None
    unsettled: int = 0
