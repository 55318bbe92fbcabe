"""Costs of labels that come with requests, and what further labels are expected to gain."""

from __future__ import annotations

from collections.abc import Sequence

from releaf.policies.label_costs import ORDINARY, checked_label_cost
from releaf.policy import ServedPolicy
from releaf.service.errors import invalid_request
from releaf.service.messages import LabelsInfo

LabelCosts = Sequence[float | None]  # of each context; None: of an ordinary label


def require_label_costs(given: LabelCosts | None, learners: Sequence[ServedPolicy]) -> LabelCosts | None:
    """Validate costs of labels, of which a learner must make use: the one in charge or a shadow. None without any."""
    if given is None or all(cost is None for cost in given):
        return None
    if not any(learner.takes_label_costs for learner in learners):
        raise invalid_request(
            f"{type(learners[0]).__name__} takes no label_cost here: expected none, or an experiment whose policy has "
            "label_budget or observation_cost"
        )
    try:
        rows = [None] if len(given) == 1 else range(len(given))
        return [None if cost is None else checked_label_cost(cost, row) for cost, row in zip(given, rows, strict=True)]
    except ValueError as error:
        raise invalid_request(str(error)) from None


def label_costs_for(learner: ServedPolicy, costs: LabelCosts | None) -> list[float] | None:
    """What a learner is to be told of the costs of labels; None where all are ordinary, or it makes no use of them."""
    if costs is None or not learner.takes_label_costs or all(cost is None for cost in costs):
        return None
    return [ORDINARY if cost is None else cost for cost in costs]


def labels_info(learner: ServedPolicy) -> LabelsInfo | None:
    """The outlook on labels for the API; None for a policy without a budget and a price of labels."""
    if not learner.takes_label_costs:
        return None
    outlook = learner.label_outlook()
    return LabelsInfo(
        spent=learner.label_cost_spent,
        left=outlook.labels_left,
        gain=outlook.gain,
        price=outlook.price,
        unworthy=outlook.unworthy,
        stop_asking_after=outlook.stop_asking_after,
        has_stopped=outlook.has_stopped,
        text=str(outlook),
    )
