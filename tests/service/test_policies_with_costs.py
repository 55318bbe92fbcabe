"""Experiments of the service whose policies weigh costs."""

from __future__ import annotations

from typing import Any

import pytest

import releaf
from releaf.service.errors import ApiError
from releaf.service.experiments.learner_factory import build_policy, policy_spec, precompile
from releaf.service.messages import PolicySpec

ACTIONS = ("small", "large")


def test_a_policy_with_fixed_costs_and_a_budget_is_built_and_described() -> None:
    given: dict[str, Any] = {"cost": [0.1, 1.0], "spend_budget": 400, "budget_period": 1_000, "seed": 3}
    learner = build_policy(PolicySpec("LinUCB", given), ACTIONS, releaf.Schema.of(2))
    choice = learner.decide([0.5, 0.5])
    assert choice.cost == (0.1, 1.0)[choice.index]
    described = policy_spec(learner).parameters
    assert {name: described[name] for name in given} == {**given, "cost": (0.1, 1.0), "spend_budget": 400.0}


def test_a_large_policy_with_costs_is_sized_without_them() -> None:
    costs = [float(number) for number in range(300)]
    given: dict[str, Any] = {"cost": costs, "cost_weight": 0.1, "seed": 3}
    learner = build_policy(PolicySpec("LinUCB", given), tuple(range(300)), releaf.Schema.of(20))
    assert learner.cost == tuple(costs)


def test_a_policy_may_need_costs_with_each_decision_and_is_compiled_before_the_first() -> None:
    learner = build_policy(PolicySpec("LinUCB", {"cost_weight": 0.5, "seed": 3}), ACTIONS, releaf.Schema.of(2))
    before = learner.to_bytes()
    assert precompile(learner) > 0.0
    assert learner.to_bytes() == before


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"cost": [1.0, 2.0, 3.0], "cost_weight": 0.5}, "LinUCB can't be built: cost has 3 values: expected one for"),
        ({"cost": [1.0, 2.0]}, "LinUCB can't be built: cost needs cost_weight"),
    ],
)
def test_costs_that_the_service_cannot_use_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ApiError) as caught:
        build_policy(PolicySpec("LinUCB", given), ACTIONS, releaf.Schema.of(2))
    assert text in str(caught.value)
