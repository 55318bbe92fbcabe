"""The words of the API: what requests and answers consist of. The OpenAPI description is made from these."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z", description="Letters, digits, _ . and -")]
Text = Annotated[str, Meta(min_length=1, max_length=200)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]  # which the log can keep
Value = None | bool | Whole | float | str
# Not . and .. because programs take them out of addresses: DELETE …/actions/.. would be DELETE …
Label = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^(?!\.{1,2}\Z)")] | Whole
Context = list[Value] | dict[str, Value]
Options = dict[str, Value | list[Value]]
Key = Annotated[str, Meta(min_length=1, max_length=200, description="The same key gives the same decision again")]
Number = Annotated[int, Meta(ge=1, le=2**53)]
Reward = float | list[float] | dict[str, float]


class Request(Struct, forbid_unknown_fields=True, kw_only=True):
    """What clients send: fields that are not known are refused, since they are mostly misspelt ones."""


# --- experiments --------------------------------------------------------------------------------------------


class PolicySpec(Request):
    """A policy of the package, and the arguments of its constructor."""

    name: Text = "AdaptiveReleaf"
    parameters: Options = {}


class RewardRules(Request):
    """What becomes of rewards that do not come."""

    within_seconds: Annotated[float, Meta(gt=0, le=10 * 366 * 86_400)] | None = None
    default: Reward | None = None


class NewExperiment(Request):
    """An experiment to be created. Features: a count, names (values in [0, 1]), or descriptions with a kind."""

    name: Name
    actions: Annotated[list[Label], Meta(min_length=1, max_length=1000)]
    features: (
        Annotated[int, Meta(ge=1, le=2_000)] | Annotated[list[Text | Options], Meta(min_length=1, max_length=2_000)]
    )
    policy: PolicySpec = field(default_factory=PolicySpec)
    rewards: RewardRules = field(default_factory=RewardRules)
    model: Annotated[str, Meta(description="A learner saved with `save`, in base64, to go on from")] | None = None


class Counts(Struct):
    """What has happened in an experiment."""

    decisions: int
    explored: int
    asked: int
    rewards: int
    defaults: int
    dropped: int
    waiting: int
    mean_reward: float | None


class ShadowInfo(Struct):
    """A policy that decides beside the one in charge, and what it would have earned.

    The value is null where it is not ``supported``: where the policy in charge hardly ever does what this one would do
    instead (its ``least_probability`` or ``epsilon`` is 0), rewards can't tell what that would earn.
    """

    name: str
    policy: PolicySpec
    decisions: int
    agreed: int
    matched: int
    value: float | None
    low: float | None
    high: float | None
    effective: float
    refused: int
    overlap: float | None
    supported: bool


class ExperimentInfo(Struct):
    """An experiment and how it stands; counts are not known where another process serves it."""

    name: str
    status: str  # live, standby, recovering, damaged, retired
    created: str
    policy: PolicySpec
    actions: list[Label]
    features: list[dict[str, Any]]
    rewards: RewardRules
    counts: Counts | None
    label_budget: int | None
    labels_spent: int | None
    shadows: list[ShadowInfo]
    events: int
    snapshot: int
    messages: list[str]


class ExperimentList(Struct):
    """All experiments."""

    experiments: list[ExperimentInfo]


class PolicyInfo(Struct):
    """A policy that an experiment can use; the parameters with their defaults."""

    name: str
    summary: str
    parameters: dict[str, Any]


class PolicyList(Struct):
    """All policies."""

    policies: list[PolicyInfo]


class NewAction(Request):
    """An action to be added."""

    action: Label


class NewShadow(Request):
    """A policy to decide beside the one in charge."""

    name: Name
    policy: PolicySpec


# --- decisions ----------------------------------------------------------------------------------------------


class Ask(Request):
    """One context to decide on, or many."""

    context: Context | UnsetType = UNSET
    key: Key | None = None
    contexts: Annotated[list[Context], Meta(min_length=1)] | UnsetType = UNSET
    keys: list[Key] | None = None


class Answer(Struct, gc=False):
    """A decision. Keep its number until the reward is known."""

    decision: int
    action: Label
    probability: float | None
    explored: bool
    wants_reward: bool
    deadline: str | None
    estimates: dict[str, float] | None
    relevant: dict[str, list[str] | None] | None


class Answers(Struct):
    """Decisions, in the order of the contexts."""

    decisions: list[Answer]


class RewardOf(Request):
    """The reward of a decision: a number, or one for each action where the policy asks for all."""

    decision: Number
    reward: Reward


class Rewarding(Request):
    """The reward of one decision, or of many."""

    decision: Number | UnsetType = UNSET
    reward: Reward | UnsetType = UNSET
    rewards: Annotated[list[RewardOf], Meta(min_length=1)] | UnsetType = UNSET


class Learnt(Struct, gc=False):
    """What became of a reward: "learnt", or "repeated" where the same one had come before."""

    decision: int
    status: str


class AllLearnt(Struct):
    """What became of each reward."""

    rewards: list[Learnt]


class Recorded(Struct):
    """A decision as the log has it. Outcome: waiting, rewarded, default, dropped, or unasked."""

    decision: int
    at: str
    context: dict[str, Any]
    action: Label
    probability: float | None
    explored: bool
    wants_reward: bool
    outcome: str
    reward: Reward | None
    rewarded_at: str | None


class RecordedPage(Struct):
    """Decisions, the latest first; ``next`` is what to pass as ``before`` for those that came earlier."""

    decisions: list[Recorded]
    next: int | None


# --- what was learnt ----------------------------------------------------------------------------------------


class RelevanceInfo(Struct):
    """How relevant each feature (columns) is to each action (rows); None where the policy does not tell."""

    actions: list[Label]
    features: list[str]
    relevance: list[list[float]] | None
    meaning: str


class IntervalRewards(Struct):
    """How often an action was rewarded in an interval, and the mean; or what the value adds to its estimate."""

    action: Label
    count: int | None
    mean: float | None


class IntervalInfo(Struct):
    """A part of a feature's range, in words, how many contexts came there, and what actions earned."""

    where: str
    low: float | None
    high: float | None
    arrivals: int | None
    actions: list[IntervalRewards]


class PartitionInfo(Struct):
    """How a feature's values are divided, from low to high. Kind: "intervals", "effects", or "none"."""

    feature: str
    kind: str
    intervals: list[IntervalInfo]


class ExplanationInfo(Struct):
    """Why an action was chosen, in words."""

    decision: int | None
    action: Label
    explored: bool
    probability: float | None
    estimates: dict[str, float] | None
    relevant: dict[str, list[str] | None] | None
    explanation: str


class Try(Request):
    """A context to be looked at without deciding on it."""

    context: Context


class SeriesPoint(Struct):
    """Some consecutive decisions: how many explored and asked, and the rewards that came for them so far."""

    first: int
    decisions: int
    at: str
    explored: int
    asked: int
    rewards: int
    reward_sum: float


class SeriesInfo(Struct):
    """Exploration and rewards over time."""

    points: list[SeriesPoint]


# --- the rest -----------------------------------------------------------------------------------------------


class Health(Struct):
    """Whether the service can decide; ``waiting`` names what it waits for."""

    status: str
    version: str
    waiting: list[str]


class ErrorDetail(Struct):
    """What is wrong: the status, also of a line among many, a word for programs, a sentence for people."""

    status: int
    code: str
    message: str


class ErrorAnswer(Struct):
    """What every refused request is answered with."""

    error: ErrorDetail
