"""Request and response messages of the API, from which the OpenAPI description is generated.

Class names are the schema names in that description, and field names those on the wire: both are public.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z", description="Letters, digits, _ . and -")]
Text = Annotated[str, Meta(min_length=1, max_length=200)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]  # fits MessagePack, the format of the log
Value = None | bool | Whole | float | str
# Not . and .., which programs remove from URLs: DELETE …/actions/.. would become DELETE …
RequestAction = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^(?!\.{1,2}\Z)")] | Whole
Context = list[Value] | dict[str, Value]
Options = dict[str, Value | list[Value]]
Parameters = dict[str, Value | list[Value] | dict[str, float]]
Eligible = Annotated[list[RequestAction | list[RequestAction] | None], Meta(min_length=1)]
Key = Annotated[str, Meta(min_length=1, max_length=200, description="The same key gives the same decision again")]
Subject = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="Whom the decision is about, such as a customer's number, so that it can be erased; kept as a hash",
    ),
]
Receipt = Annotated[str, Meta(max_length=100, description="Of the decision's answer, if rewards are signed")]
Number = Annotated[int, Meta(ge=1, le=2**53)]
Reward = float | list[float] | dict[str, float]
# Text as names of actions, since they are keys of JSON; null keeps the features that an action has.
RequestedActions = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^(?!\.{1,2}\Z)")], Context | None],
    Meta(min_length=1, max_length=10_000),
]
Features = Annotated[int, Meta(ge=1, le=2_000)] | Annotated[list[Text | Options], Meta(min_length=1, max_length=2_000)]


class RequestMessage(Struct, forbid_unknown_fields=True, kw_only=True):
    """Base of request messages. Unknown fields are rejected, because most are misspelt ones."""


# --- experiments --------------------------------------------------------------------------------------------


class PolicySpec(RequestMessage):
    """A policy by its class name, and the arguments of its constructor."""

    name: Text = "AdaptiveReleaf"
    parameters: Parameters = {}


class RewardRules(RequestMessage):
    """Deadline of rewards, the default reward of decisions that miss it, and whether rewards need a receipt.

    With ``signed`` (recommended) each decision has a receipt, and a reward is rejected without the receipt of its
    decision.
    """

    within_seconds: Annotated[float, Meta(gt=0, le=10 * 366 * 86_400)] | None = None
    default: Reward | None = None
    signed: bool = False


class RetentionRules(RequestMessage):
    """Days after which the log drops the contexts of decisions, and the decisions themselves; null keeps them.

    With ``hash_contexts``, keyed hashes stay in place of contexts: equal contexts have equal hashes.
    """

    contexts_days: Annotated[float, Meta(gt=0, le=36_600)] | None = None
    decisions_days: Annotated[float, Meta(gt=0, le=36_600)] | None = None
    hash_contexts: bool = False


class NewExperiment(RequestMessage):
    """An experiment to create. Features: a count, names (values in [0, 1]), or descriptions with a kind.

    Actions are names; or, with ``action_features``, an object of names and the features of each, empty if all actions
    come with the requests.

    Names of actions and features have at most 200 characters, and no bidirectional control characters.
    """

    name: Name
    actions: Annotated[list[RequestAction], Meta(min_length=1, max_length=1000)] | dict[str, Context]
    features: Features
    policy: PolicySpec = field(default_factory=PolicySpec)
    rewards: RewardRules = field(default_factory=RewardRules)
    retention: RetentionRules = field(default_factory=RetentionRules)
    model: Annotated[str, Meta(description="A learner saved with `save`, in base64, to continue from")] | None = None
    action_features: Features | None = None


class Counts(Struct):
    """Counts of decisions and rewards of an experiment."""

    decisions: int
    explored: int
    asked: int
    rewards: int
    defaults: int
    dropped: int
    waiting: int
    mean_reward: float | None

    @property
    def unaccounted(self) -> int:
        """Decisions that asked for a reward and are neither waiting nor have come to an end: always 0."""
        return self.asked - self.rewards - self.defaults - self.dropped - self.waiting


class ShadowInfo(Struct):
    """A shadow: a policy that decides on the same contexts without effect, and the off-policy estimate of its value.

    The value is null unless it is ``supported``: if the policy in charge hardly ever takes the actions that the shadow
    prefers (its ``least_probability`` or ``epsilon`` is 0), no reward tells their value.

    ``difference`` is what the shadow would have earned more per decision than the policy in charge, on the same
    ``compared`` decisions, since it was added or another policy took charge; ``in_charge`` is what that one earned on
    them. Its bounds hold at all times at once (a 95 % confidence sequence), so that one may look as often as one likes.
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
    compared: int
    in_charge: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None


class AlertInfo(Struct):
    """Something that its owner should look at, and what to do about it.

    ``kind`` is stalled_rewards, drift, propensity_floor or label_budget; ``severity`` is info, warning or critical.
    """

    kind: str
    severity: str
    text: str
    advice: str
    action: RequestAction | None = None


class ExperimentInfo(Struct):
    """An experiment and its status; counts are null if another process serves it."""

    name: str
    status: str  # live, standby, recovering, damaged, retired
    created: str
    policy: PolicySpec
    actions: list[RequestAction]
    features: list[dict[str, Any]]
    rewards: RewardRules
    counts: Counts | None
    label_budget: int | None
    labels_spent: int | None
    shadows: list[ShadowInfo]
    events: int
    snapshot: int
    messages: list[str]
    retention: RetentionRules
    alerts: list[AlertInfo]
    action_features: list[dict[str, Any]] | None = None


class ExperimentList(Struct):
    """Experiments, in order of creation; pass ``next`` as ``after`` to get later ones."""

    experiments: list[ExperimentInfo]
    next: str | None = None


class PolicyInfo(Struct):
    """A policy that an experiment can use, with its parameters and their defaults."""

    name: str
    summary: str
    parameters: dict[str, Any]


class PolicyList(Struct):
    """Policies; pass ``next`` as ``after`` to get the following ones."""

    policies: list[PolicyInfo]
    next: str | None = None


class NewAction(RequestMessage):
    """An action to add, with its features where actions have some."""

    action: RequestAction
    features: Context | None = None


class NewShadow(RequestMessage):
    """A shadow to add."""

    name: Name
    policy: PolicySpec


class ChangeInfo(Struct):
    """A change in the audit log: of an experiment, or of a key or the settings if ``experiment`` is null.

    ``actor`` is the public id of a key, "anonymous", or "command line"; ``change`` is create, add_action,
    remove_action, add_shadow, remove_shadow, promote, set_retention, erase_subject, retire, add_key, revoke_key, start
    (of a service, with its settings) or restore (of a backup). ``before`` and ``after`` have the fields that differ.
    """

    id: int
    at: str
    experiment: str | None
    actor: str
    request_id: str | None
    change: str
    subject: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class ChangePage(Struct):
    """Changes in the audit log, the latest first; pass ``next`` as ``before`` to get earlier ones."""

    changes: list[ChangeInfo]
    next: int | None


# --- decisions ----------------------------------------------------------------------------------------------


class Ask(RequestMessage):
    """A request for one decision, or for many.

    ``eligible`` has the names of the actions that may be chosen, for all contexts; or, with ``contexts``, such a list
    for each context, null where all actions may be chosen.

    ``actions`` has the actions to choose from with their features, where actions come with the requests: new ones are
    added, null keeps the features of a known one. With ``k`` the decision is a slate of so many actions. Both go with
    one context, and a policy for actions with features.
    """

    context: Context | UnsetType = UNSET
    key: Key | None = None
    contexts: Annotated[list[Context], Meta(min_length=1)] | UnsetType = UNSET
    keys: list[Key] | None = None
    eligible: Eligible | None = None
    subject: Subject | None = None
    subjects: list[Subject | None] | None = None
    actions: RequestedActions | None = None
    k: Annotated[int, Meta(ge=1, le=10_000)] | None = None


class Answer(Struct, gc=False, omit_defaults=True):
    """A decision. Keep its number until the reward is known, and its receipt if the experiment has signed rewards.

    ``eligible`` has the actions that could be chosen, if not all could. ``slate`` has the actions of a slate, the best
    first, and ``slate_probabilities`` the probability of each to be among them.
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
    those that came with the request and their features.
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


class RecordedPage(Struct):
    """Recorded decisions, the latest first; pass ``next`` as ``before`` to get earlier ones."""

    decisions: list[Recorded]
    next: int | None


# --- erasure ------------------------------------------------------------------------------------------------


class Erasure(RequestMessage):
    """The subject whose decisions to erase, as given when they were made."""

    subject: Subject


class ErasureProof(Struct):
    """What an erasure removed, what it searched, and what may still hold the subject's decisions.

    Numbers are 0 if nothing was left to erase. ``subject`` is the keyed hash that stood for the subject in the log, and
    stands for it in the audit log. ``decisions`` of the subject are gone with their contexts and idempotency keys, and
    ``rewards`` with them; ``pending`` of them waited for a reward. ``learner_rows`` are their contexts in samples of
    learners, and in learners' pending decisions.

    All ``searched_pages`` of the log up to event ``searched_events`` were searched, and again after the erasure, which
    found ``found_after`` decisions: 0. The only ``snapshots`` left are those after these events, all made after the
    erasure. ``backups_before``: backups whose manifest is of an earlier time hold the decisions, if it is not earlier
    than ``backups_since``, the time of the first decision. ``set_aside_pages`` of a damaged log were not searched.
    ``kept`` tells in words what stays.
    """

    experiment: str
    subject: str
    at: str
    decisions: int
    rewards: int
    pending: int
    learner_rows: int
    redacted_pages: int
    searched_pages: int
    searched_events: int
    found_after: int
    snapshots: list[int]
    set_aside_pages: int
    backups_since: str | None
    backups_before: str | None
    kept: list[str]


# --- explanations -------------------------------------------------------------------------------------------


class RelevanceInfo(Struct):
    """Relevance of each feature (columns) to each action (rows); null if the policy does not learn it.

    ``certainty`` is that of each relevance, 0 where the learner names no feature; null if the policy does not know it.
    A feature is shown as relevant from ``least_certainty`` on, so that among all features and actions of pure noise
    hardly one ever is.
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

    A preview has the ``distribution`` of the actions over so many ``draws`` of the policy in this context.
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


class Try(RequestMessage):
    """A context to preview a decision for, among the ``eligible`` actions if there are any."""

    context: Context
    eligible: list[RequestAction] | None = None


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
    """Counts over consecutive decisions: explored, asked for a reward, and rewards received so far.

    ``at`` and ``until`` are the times of the first and the last of them, ``low`` and ``high`` the 95 % interval of the
    mean reward. ``actions`` is null for decisions of a version that did not count actions; ``regret`` is the sum of
    what the best action of each decision would have earned more, null unless clients send the rewards of all actions.
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
    why a figure is null. Regret is known if clients send the rewards of all actions: ``mean_regret`` per decision.
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


# --- health and errors --------------------------------------------------------------------------------------


class Health(Struct):
    """Health of the service; ``waiting`` names the experiments that it does not serve."""

    status: str
    version: str
    waiting: list[str]


class ErrorDetail(Struct):
    """An error: its status, a stable code for programs, and a message for people."""

    status: int
    code: str
    message: str


class ErrorAnswer(Struct):
    """The response to every rejected request: a problem document (RFC 9457), with the error in ``error`` as well.

    The type is ``urn:releaf:problem:`` and the error's code; the instance is the path of the request.
    """

    type: str
    title: str
    status: int
    detail: str
    instance: str
    request_id: str
    error: ErrorDetail


class LineError(Struct):
    """The answer to every rejected line."""

    error: ErrorDetail
