"""Costs of actions that come with requests: their conversion, and the learners for which they count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from releaf.policies.costs import checked_costs
from releaf.policy import ServedPolicy
from releaf.service.errors import ApiError, invalid_request
from releaf.service.log.events import ExperimentAction

CostsOfContexts = Sequence[Sequence[float] | None]  # of each context, in the order of the actions; None: the fixed ones


def weighs_costs(learner: ServedPolicy) -> bool:
    """Whether a learner has a weight of costs or a budget."""
    return learner.cost_weight is not None


def needs_costs(learner: ServedPolicy) -> bool:
    """Whether a learner needs costs with each decision."""
    return weighs_costs(learner) and learner.cost is None


def convert_costs(
    given: Sequence[Any] | None, count: int, learner: ServedPolicy
) -> list[tuple[float, ...] | None] | None:
    """Costs of each context in the order of the actions. None where none are given."""
    costs = [None] * count if given is None else given
    if needs_costs(learner) and any(one is None for one in costs):
        raise invalid_request(
            f"cost is missing: {type(learner).__name__} weighs costs here and has no fixed ones; expected cost with "
            "context, or costs with contexts"
        )
    if all(one is None for one in costs):
        return None
    if not weighs_costs(learner):
        raise invalid_request(
            f"{type(learner).__name__} weighs no costs here: expected no cost, or an experiment whose policy has "
            "cost_weight or spend_budget"
        )
    names = learner.actions
    rows = [None] if count == 1 else range(count)
    return [None if one is None else named_costs(one, names, row) for one, row in zip(costs, rows, strict=True)]


def named_costs(cost: Any, names: Sequence[Any], row: int | None = None) -> tuple[float, ...]:
    """Costs in the order of the actions, from a list or from an object, whose keys are the text of the names."""
    if isinstance(cost, dict):
        known = {str(name): name for name in names}
        cost = {known.get(text, text): value for text, value in cost.items()}
    try:
        return tuple(checked_costs(cost, tuple(names), row).tolist())
    except (ValueError, TypeError) as error:
        raise invalid_request(str(error)) from None


def costs_for(learner: ServedPolicy, costs: CostsOfContexts | None) -> list[Any] | None:
    """What a learner is to be told of the costs of each context; None where it knows them, or weighs none."""
    if costs is None or not weighs_costs(learner) or all(one is None for one in costs):
        return None
    return [learner.cost if one is None else one for one in costs]


def is_same_cost(recorded: Sequence[float] | None, given: Any, actions: Sequence[ExperimentAction]) -> bool:
    """Whether the costs of a request are those that the log has of a decision among these actions."""
    if given is None or recorded is None:
        return given is None and recorded is None
    return tuple(recorded) == named_costs(given, actions)


def require_same_costs_in_requests(learner: ServedPolicy, shadow: ServedPolicy) -> None:
    """Raise for a shadow that would need costs that requests may lack."""
    if needs_costs(shadow) and not needs_costs(learner):
        raise ApiError(
            409,
            "conflict",
            "the shadow needs costs with each decision, and requests may come without: give it fixed costs (cost)",
        )


def require_promotable(learner: ServedPolicy, shadow: ServedPolicy, name: str) -> None:
    """Raise for a shadow that can't decide on the same requests as the learner in charge, or counts no spend."""
    if weighs_costs(learner) and not weighs_costs(shadow):
        message = (
            f"shadow {name!r} can't be promoted: it weighs no costs, so that the spend would no longer be counted; "
            "expected a shadow with cost_weight=0, which counts it"
        )
    elif needs_costs(learner) and not needs_costs(shadow):
        message = (
            f"shadow {name!r} can't be promoted: it has fixed costs, but the policy in charge needs them with each "
            "decision, and would be a shadow then; expected a shadow without fixed costs"
        )
    else:
        return
    raise ApiError(409, "conflict", message)
