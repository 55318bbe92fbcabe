"""Messages that explain: relevance, partitions and single decisions."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from releaf.service.messages.fields import (
    Context,
    Costs,
    LabelCost,
    RequestAction,
    RequestedActions,
    RequestMessage,
    SlateSize,
)


class RelevanceInfo(Struct):
    """Relevance of each feature (columns) to each action (rows); null if the policy does not learn it.

    ``certainty`` is 1 less the p-value of each relevance, 0 where the learner names no feature; null if the policy does
    not know it. A feature is shown as relevant from ``least_certainty`` on, which rises with the number of features and
    actions, so that features of pure noise are rarely shown.
    ``explained`` is the share of the variance of the action's reward that each feature explains, 0 unless it is certain
    to matter; null if the policy does not know it.
    """

    actions: list[RequestAction]
    features: list[str]
    relevance: list[list[float]] | None
    meaning: str
    certainty: list[list[float]] | None
    least_certainty: float
    explained: list[list[float]] | None = None


class IntervalRewards(Struct):
    """Count and mean of an action's rewards in an interval; or the effect of the value on its estimate."""

    action: RequestAction
    count: int | None
    mean: float | None


class IntervalInfo(Struct):
    """An interval of a feature's values, in words, its number of contexts, and the rewards of each action."""

    where: str
    low: float | None
    high: float | None
    arrivals: int | None
    actions: list[IntervalRewards]


class PartitionInfo(Struct):
    """Partition of a feature's values, from low to high. Kind: "intervals", "effects", or "none"."""

    feature: str
    kind: str
    intervals: list[IntervalInfo]


class ExplanationInfo(Struct):
    """Explanation of a decision.

    A preview has the ``distribution`` of the actions over so many ``draws`` of the policy in this context; with ``k``
    or ``actions`` it is exact, that of the first action, without ``draws``. ``slate`` has the actions of a slate, the
    best first, and ``slate_probabilities`` the probability of each to be among them.
    """

    decision: int | None
    action: RequestAction
    explored: bool
    probability: float | None
    estimates: dict[str, float] | None
    relevant: dict[str, list[str] | None] | None
    explanation: str
    details: dict[str, Any] | None = None
    distribution: dict[str, float] | None = None
    draws: int | None = None
    eligible: list[RequestAction] | None = None
    slate: list[RequestAction] | None = None
    slate_probabilities: list[float] | None = None


class Try(RequestMessage):
    """A context to preview a decision for, among the ``eligible`` actions if there are any, at the ``cost`` of each.

    ``label_cost`` is what its reward would cost to find out, in ordinary labels. ``actions`` and ``k`` are those of a
    request for a decision.
    """

    context: Context
    eligible: list[RequestAction] | None = None
    cost: Costs | None = None
    label_cost: LabelCost | None = None
    actions: RequestedActions | None = None
    k: SlateSize | None = None
