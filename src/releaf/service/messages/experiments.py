"""Messages on experiments: what to create, and what is known of one."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from releaf.service.messages.fields import (
    Context,
    Features,
    Name,
    Parameters,
    RequestAction,
    RequestMessage,
    Reward,
    Text,
)


class PolicySpec(RequestMessage):
    """A policy by its class name, and the arguments of its constructor."""

    name: Text = "AdaptiveReleaf"
    parameters: Parameters = {}  # noqa: RUF012 - msgspec copies it


class RewardRules(RequestMessage):
    """Deadline of rewards, the default reward of decisions that miss it, and whether rewards need a receipt.

    With ``signed`` each decision has a receipt, and a reward is rejected without the receipt of its decision, unless a
    key with the scope ``admin`` sends it. By default rewards are signed where requests need keys.
    """

    within_seconds: Annotated[float, Meta(gt=0, le=10 * 366 * 86_400)] | None = None
    default: Reward | None = None
    signed: bool | None = None


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

    With ``apprentice`` the application decides, sends its decisions as ``baseline``, and the learner watches until the
    shadow “apprentice” is promoted.

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
    apprentice: bool = False


class Counts(Struct):
    """Counts of decisions and rewards of an experiment. ``dropped`` includes the ``discarded`` ones."""

    decisions: int
    explored: int
    asked: int
    rewards: int
    defaults: int
    dropped: int
    waiting: int
    mean_reward: float | None
    discarded: int = 0

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


class SpendInfo(Struct):
    """What the actions of an experiment cost, where its policy weighs costs.

    ``spent`` is the sum of the costs of all actions taken, ``mean_cost`` that of a decision. ``cost_weight`` is the
    current weight of a unit of cost: the policy maximises reward less weighted cost. With a ``budget`` per ``period``
    decisions, ``ahead`` is the spend of the policy in charge ahead of its allowance, or behind where negative; it stays
    below the budget of a period as long as some eligible action is affordable.
    """

    spent: float
    mean_cost: float | None
    cost_weight: float
    budget: float | None
    period: int | None
    ahead: float | None


class LabelsInfo(Struct):
    """Labels of an experiment whose policy has a budget or a price of them, in ordinary labels.

    ``spent`` is what all requested rewards cost, ``left`` what remains of the budget. ``gain`` is the expected gain of
    one more label, in units of the reward, a mean over the latest decisions; ``price`` is what it costs, in the same
    units, and ``unworthy`` the number of latest decisions in a row whose label was not worth that. If there are
    ``stop_asking_after`` of these, ``has_stopped`` is true: the policy asks for nothing until a label is worth its
    price again. ``text`` says it in a sentence.
    """

    spent: float
    left: float | None
    gain: float
    price: float | None
    unworthy: int | None
    stop_asking_after: int | None
    has_stopped: bool
    text: str


class AlertInfo(Struct):
    """Something that its owner should look at, and what to do about it.

    ``kind`` is stalled_rewards, drift, propensity_floor, label_budget, spend_budget or pending_limit; ``severity`` is
    info, warning or critical.
    """

    kind: str
    severity: str
    text: str
    advice: str
    action: RequestAction | None = None


class ControlInfo(Struct):
    """The control group of an experiment: a share of its decisions, by a uniform draw or a named action.

    ``lift`` is by how much the learner earned more per decision than control; null before both have rewards. Its bounds
    hold at all times at once (a 95 % confidence sequence), so that one may look as often as one likes.
    """

    share: float
    control: RequestAction
    learner_rewards: int
    control_rewards: int
    learner_mean: float | None
    control_mean: float | None
    lift: float | None
    lift_low: float
    lift_high: float


class ExperimentInfo(Struct):
    """An experiment and its status; counts are null if another process serves it.

    ``apprentice`` is whether the application decides: its learner is then the shadow “apprentice”.
    """

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
    apprentice: bool = False
    spend: SpendInfo | None = None
    control: ControlInfo | None = None
    labels: LabelsInfo | None = None


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
    """An action to add, with its features where actions have some, and its cost where actions have fixed ones."""

    action: RequestAction
    features: Context | None = None
    cost: float | None = None


class NewShadow(RequestMessage):
    """A shadow to add."""

    name: Name
    policy: PolicySpec
