"""Messages on decisions and their rewards."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from releaf.service.messages.fields import (
    Context,
    Costs,
    Eligible,
    Key,
    LabelCost,
    Number,
    Receipt,
    RequestAction,
    RequestedActions,
    RequestMessage,
    Reward,
    SlateSize,
    Subject,
)


class Baseline(RequestMessage):
    """What the application decides by itself, and with which probability: 1 where it never varies."""

    action: RequestAction
    probability: Annotated[float, Meta(gt=0, le=1)] = 1.0


class Ask(RequestMessage):
    """A request for one decision, or for many.

    ``eligible`` has the names of the actions that may be chosen, for all contexts; or, with ``contexts``, such a list
    for each context, null where all actions may be chosen.

    ``actions`` has the actions to choose from with their features, where actions come with the requests: new ones are
    added, null keeps the features of a known one. With ``k`` the decision is a slate of so many actions. Both go with
    one context, and a policy for actions with features.

    ``cost`` has what each action costs this time, by name or in the order of the actions, in place of the fixed costs
    of the policy; ``costs`` has that of each context.

    ``label_cost`` is what the reward costs to find out, in ordinary labels, for policies with ``label_budget`` or
    ``observation_cost``; with ``contexts`` it holds for all of them, or ``label_costs`` has that of each.

    ``baseline`` is what the application decides by itself, where the learner is an apprentice, and ``baselines`` that
    for each context. It is the decision until the apprentice is promoted, and ignored from then on.
    """

    context: Context | UnsetType = UNSET
    key: Key | None = None
    contexts: Annotated[list[Context], Meta(min_length=1)] | UnsetType = UNSET
    keys: list[Key] | None = None
    eligible: Eligible | None = None
    subject: Subject | None = None
    subjects: list[Subject | None] | None = None
    actions: RequestedActions | None = None
    k: SlateSize | None = None
    cost: Costs | None = None
    costs: Annotated[list[Costs], Meta(min_length=1)] | None = None
    label_cost: LabelCost | None = None
    label_costs: Annotated[list[LabelCost], Meta(min_length=1)] | None = None
    baseline: Baseline | None = None
    baselines: Annotated[list[Baseline], Meta(min_length=1)] | None = None


class Answer(Struct, gc=False, omit_defaults=True):
    """A decision. Keep its number until the reward is known, and its receipt if the experiment has signed rewards.

    ``eligible`` has the actions that could be chosen, if not all could. ``slate`` has the actions of a slate, the best
    first, and ``slate_probabilities`` the probability of each to be among them. ``cost`` is that of the action, where
    the policy weighs costs. ``label_cost`` is that of the reward, if it came with the request. ``group`` is "control"
    or "learner" in an experiment with a control group; ``probability`` is that of both groups together.
    """

    decision: int
    action: RequestAction
    probability: float | None
    explored: bool
    wants_reward: bool
    deadline: str | None
    estimates: dict[str, float] | None
    relevant: dict[str, list[str] | None] | None
    receipt: str | None = None
    eligible: list[RequestAction] | None = None
    slate: list[RequestAction] | None = None
    slate_probabilities: list[float] | None = None
    cost: float | None = None
    group: str | None = None
    label_cost: float | None = None


class Answers(Struct):
    """Decisions, in the order of the contexts."""

    decisions: list[Answer]


class RewardOf(RequestMessage):
    """The reward of a decision: a number, or one for each action if the policy learns from all.

    Of a slate: the number of its first action, or an object with those of its actions whose rewards were observed.
    """

    decision: Number
    reward: Reward
    receipt: Receipt | None = None


class Rewarding(RequestMessage):
    """The reward of one decision, or of many."""

    decision: Number | UnsetType = UNSET
    reward: Reward | UnsetType = UNSET
    receipt: Receipt | None = None
    rewards: Annotated[list[RewardOf], Meta(min_length=1)] | UnsetType = UNSET


class Observation(RequestMessage):
    """A decision that the application made by itself, such as a default, and its reward.

    ``probability`` is that with which it took the action; null where it is unknown.
    """

    context: Context
    action: RequestAction
    reward: float
    probability: Annotated[float, Meta(gt=0, le=1)] | None = None
    key: Key | None = None
    subject: Subject | None = None


class Discarding(RequestMessage):
    """Idempotency keys of requests for decisions whose answers came too late: the client took a default instead."""

    keys: Annotated[list[Key], Meta(min_length=1)]


class DiscardedKeys(Struct):
    """Result for idempotency keys.

    ``discarded`` decisions were pending, and are dropped without a reward. ``refused`` requests have not come yet, or
    never will. The other decisions had their outcome already.
    """

    discarded: int
    refused: int


class Learnt(Struct, gc=False):
    """Result for a reward: "learnt", or "repeated" if the decision already had the same reward."""

    decision: int
    status: str


class AllLearnt(Struct):
    """Result for each reward."""

    rewards: list[Learnt]


class Recorded(Struct):
    """A recorded decision. Outcome: waiting (pending), rewarded, default, dropped, or unasked.

    The context is empty if it is older than the experiment's retention, which may keep a keyed hash of it. ``subject``
    is a keyed hash as well. ``eligible`` has the actions that could be chosen, null where all could. ``actions`` are
    those that came with the request and their features. ``cost`` is that of the action; ``costs`` are those of
    all actions, in their order, if they came with the request. ``group`` is "control" or "learner", null without a
    control group. ``label_cost`` is what the reward costs to find out, if that came with the request.
    """

    decision: int
    at: str
    context: dict[str, Any]
    action: RequestAction
    probability: float | None
    explored: bool
    wants_reward: bool
    outcome: str
    reward: Reward | None
    rewarded_at: str | None
    eligible: list[RequestAction] | None = None
    subject: str | None = None
    context_hash: str | None = None
    actions: dict[str, Any] | None = None
    slate: list[RequestAction] | None = None
    slate_probabilities: list[float] | None = None
    cost: float | None = None
    costs: list[float] | None = None
    group: str | None = None
    label_cost: float | None = None


class RecordedPage(Struct):
    """Recorded decisions, the latest first; pass ``next`` as ``before`` to get earlier ones."""

    decisions: list[Recorded]
    next: int | None
