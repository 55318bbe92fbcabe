"""Eligible actions, actions with features, and costs of actions and labels of a request for decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from releaf.service.errors import invalid_request
from releaf.service.http.name_checks import check_name
from releaf.service.many_actions import ManyActions
from releaf.service.messages import Ask, Baseline

Names = list[str | int]
EligibleActions = Sequence[Names | None]


def eligible_of(ask: Ask) -> EligibleActions | None:
    """The eligible actions of a request for one decision."""
    if ask.eligible is None:
        return None
    if any(name is None or isinstance(name, list) for name in ask.eligible):
        raise invalid_request("eligible has a list in it, as for contexts: expected names of actions")
    return [cast("Names", ask.eligible)]


def eligible_of_many(ask: Ask, count: int) -> EligibleActions | None:
    """The eligible actions of each context."""
    given = ask.eligible
    if given is None:
        return None
    lists = [one is None or isinstance(one, list) for one in given]
    if not any(lists):
        return [cast("Names", given)] * count
    if not all(lists):
        raise invalid_request("eligible mixes names and lists: expected names for all contexts, or a list for each")
    if len(given) != count:
        raise invalid_request(f"got {len(given)} lists of eligible actions for {count} contexts: expected one for each")
    return cast("EligibleActions", given)


def many_actions_of(ask: Ask) -> ManyActions | None:
    """The actions that came with a request, and the size of its slate; None without either."""
    if ask.actions is None and ask.k is None:
        return None
    if ask.actions is not None and ask.eligible is not None:
        raise invalid_request("actions names the eligible actions already: expected no eligible")
    for name in ask.actions or ():
        check_name("action", name)
    return ManyActions(ask.actions, ask.k)


def baselines_of(ask: Ask) -> list[Baseline | None] | None:
    """The application's own decision for a request for one."""
    if ask.baselines is not None:
        raise invalid_request("baselines go with contexts; expected baseline")
    return None if ask.baseline is None else [ask.baseline]


def baselines_of_many(ask: Ask, count: int) -> Sequence[Baseline | None] | None:
    """The application's own decision for each context."""
    if ask.baseline is not None:
        raise invalid_request("baseline goes with context; expected baselines, one for each context")
    if ask.baselines is not None and len(ask.baselines) != count:
        raise invalid_request(f"got {len(ask.baselines)} baselines for {count} contexts: expected one for each")
    return ask.baselines


def costs_of(ask: Ask) -> list[Any] | None:
    """The costs of a request for one decision."""
    if ask.costs is not None:
        raise invalid_request("costs go with contexts; expected cost")
    return None if ask.cost is None else [ask.cost]


def costs_of_many(ask: Ask, count: int) -> list[Any] | None:
    """The costs of each context; ``cost`` holds for all of them."""
    if ask.cost is not None:
        if ask.costs is not None:
            raise invalid_request("expected either cost, for all contexts, or costs, one for each")
        return [ask.cost] * count
    if ask.costs is not None and len(ask.costs) != count:
        raise invalid_request(f"got {len(ask.costs)} costs for {count} contexts: expected one for each")
    return ask.costs


def label_costs_of(ask: Ask) -> list[float | None] | None:
    """The cost of the label of a request for one decision."""
    if ask.label_costs is not None:
        raise invalid_request("label_costs go with contexts; expected label_cost")
    return None if ask.label_cost is None else [ask.label_cost]


def label_costs_of_many(ask: Ask, count: int) -> Sequence[float | None] | None:
    """The cost of the label of each context; ``label_cost`` holds for all of them."""
    if ask.label_cost is not None:
        if ask.label_costs is not None:
            raise invalid_request("expected either label_cost, for all contexts, or label_costs, one for each")
        return [ask.label_cost] * count
    if ask.label_costs is not None and len(ask.label_costs) != count:
        raise invalid_request(f"got {len(ask.label_costs)} label_costs for {count} contexts: expected one for each")
    return ask.label_costs
