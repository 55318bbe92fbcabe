"""Apprentice mode: the application decides, and the learner in charge watches until it is promoted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from releaf.policy import ServedPolicy
from releaf.service.errors import ApiError, invalid_request
from releaf.service.experiments.learner_slot import LearnerSlot
from releaf.service.log.events import Decided, EligibleActions, ExperimentAction
from releaf.service.many_actions import ManyActions
from releaf.service.messages import Baseline, NewExperiment

APPRENTICE = "apprentice"  # name of the learner that watches, among the shadows
Baselines = Sequence[Baseline | None]


def require_able_to_watch(learner: ServedPolicy, what: str = "be an apprentice") -> None:
    """Raise unless a learner learns from decisions that it did not make, and from the reward of each."""
    name = type(learner).__name__
    if not learner.traits.learns_from_logs:
        raise invalid_request(f"{name} can't {what}: expected a policy that learns from logs (observe)")
    if learner.wants_all or learner.observation_mode != "always" or learner.label_budget is not None:
        raise invalid_request(
            f"{name} as given can't {what}: expected one that asks for the reward of every decision, and of its action "
            "only"
        )
    if learner.cost_weight is not None or learner.control_share:
        raise invalid_request(f"{name} can't {what} with costs or a control_share: leave them out")


def require_baselines(
    baselines: Baselines | None,
    count: int,
    actions: Sequence[ExperimentAction],
    eligible: EligibleActions | None,
    many: ManyActions | None,
) -> list[Baseline]:
    """The application's decision for each context; an error unless each is one of the actions that may be taken."""
    given = [one for one in baselines or () if one is not None]
    if len(given) < count:
        raise invalid_request(
            "the learner of this experiment is an apprentice: expected baseline, the action that the application takes "
            "by itself and its probability, for each context"
        )
    if many is not None and many.k is not None:
        raise invalid_request("k is given, but an apprentice watches single actions: expected none")
    for place, one in enumerate(given):
        allowed = None if eligible is None else eligible[place]
        names = list(many.actions) if many is not None and many.actions is not None else allowed or actions
        if one.action not in names or type(one.action) is bool:
            raise invalid_request(f"baseline.action is {one.action!r}: expected one of {list(names)[:20]}")
    return given


def as_watched(event: Decided, baseline: Baseline) -> Decided:
    """The event of the application's decision, with the learner's choice among those of the shadows."""
    many = None if event.many is None else msgspec.structs.replace(event.many, chances=None)
    return msgspec.structs.replace(
        event,
        action=baseline.action,
        probability=baseline.probability,
        explored=False,
        shadows={**(event.shadows or {}), APPRENTICE: event.action},
        many=many,
    )


def apprentices_choice(event: Decided, spec: NewExperiment) -> ExperimentAction | None:
    """What the learner would have chosen in a decision of the application; None where the learner decided."""
    return (event.shadows or {}).get(APPRENTICE) if spec.apprentice else None


def require_evidence(slot: LearnerSlot) -> None:
    """Raise an error with status 409 unless a learner is shown to earn more than what decides."""
    told = slot.to_message()
    if told.difference_low is not None and told.difference_low > 0.0:
        return
    watches = slot.name == APPRENTICE
    what, other, remedy = f"shadow {slot.name!r}", "the policy in charge", "decisions (least_probability)"
    if watches:
        what, other = "the apprentice", "the application"
        remedy = "some of the application's decisions and send their probability"
    known = "no rewarded decision compares them yet"
    if told.difference_low is not None and told.difference_high is not None:
        known = (
            f"after {told.compared:,} compared decisions its reward differs by {told.difference_low:+.4g} to "
            f"{told.difference_high:+.4g}"
        )
    raise ApiError(
        409,
        "not_shown",
        f"{what} is not shown to earn more than {other}: {known}. Expected a lower bound above 0: let it watch on, "
        f"randomise {remedy}, or set force",
    )


def describe_evidence(slot: LearnerSlot, *, force: bool) -> dict[str, Any]:
    """What is known at a promotion, for the audit log."""
    told = slot.to_message()
    fields = ("compared", "difference", "difference_low", "difference_high")
    return {"force": force, **{name: getattr(told, name) for name in fields}}
