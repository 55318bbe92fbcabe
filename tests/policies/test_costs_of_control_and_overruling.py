"""A budget bounds what control and overruled decisions spend too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance import refused
from learner_comparison import full_state

import releaf

ACTIONS = ("cheap", "dear", "other")
POLICIES: list[Any] = [
    releaf.AdaptiveReleaf,
    releaf.LinUCB,
    releaf.LinTS,
    releaf.LinearEpsilonGreedy,
    releaf.EpsilonGreedy,
    releaf.UCB1,
]
every_policy = pytest.mark.parametrize("policy", POLICIES, ids=[policy.__name__ for policy in POLICIES])
DRAW = np.random.default_rng(4)
CONTEXTS = DRAW.random((600, 2))
REWARDS = DRAW.random((600, 3))
COSTS = DRAW.random((600, 3)) * [0.2, 8.0, 1.0]


@every_policy
@pytest.mark.parametrize("control", ["dear", "uniform"])
def test_control_keeps_to_the_bound_of_a_budget(policy: Any, control: str) -> None:
    given = {"cost": [0.0, 10.0, 0.5], "spend_budget": 30, "budget_period": 50}
    bandit = policy(ACTIONS, 2, seed=1, control_share=0.4, control=control, **given)
    taken = []
    for step, (context, rewards) in enumerate(zip(CONTEXTS, REWARDS, strict=True), 1):
        choice = bandit.decide(context)
        bandit.learn(choice, rewards[choice.index])
        assert bandit.spent <= 0.6 * step + 30 + 1e-9
        if choice.group == "control":
            taken.append(choice.action)
    assert set(taken) == {*ACTIONS}, "where it is not affordable, control draws among what is"


@every_policy
def test_probabilities_with_control_and_a_budget_are_exact(policy: Any) -> None:
    """Both groups together, over draws of the learner, of the group and of control."""
    bandit = policy(ACTIONS, 2, seed=1, control_share=0.5, spend_budget=10, budget_period=100)
    bandit.replay(CONTEXTS[:200], REWARDS[:200], cost=COSTS[:200])
    checked = set()
    for row in range(200, 230):
        cost = [0.0, 0.05, 500.0] if row % 2 else [0.0, 500.0, 500.0]
        draws = bandit.preview_actions(np.repeat(CONTEXTS[row][None], 800, axis=0), cost=cost)
        choice = bandit.decide(CONTEXTS[row], cost=cost)
        affordable = 2 if row % 2 else 1
        own = float(np.mean(draws == choice.index))
        expected = 1.0 if affordable == 1 else 0.5 * own + 0.25
        assert choice.probability == pytest.approx(expected, abs=0.05)
        assert choice.action != "other"
        bandit.learn(choice, REWARDS[row, choice.index])
        checked.add((choice.group, affordable))
    assert checked == {("learner", 1), ("learner", 2), ("control", 1), ("control", 2)}


@every_policy
@pytest.mark.parametrize("control", ["dear", "uniform"])
def test_a_replay_with_control_and_costs_is_that_of_step_by_step(policy: Any, control: str) -> None:
    given = {"control_share": 0.3, "control": control, "spend_budget": 30, "budget_period": 50}
    one_by_one, at_once = (policy(ACTIONS, 2, seed=1, **given) for _ in range(2))
    for context, rewards, cost in zip(CONTEXTS, REWARDS, COSTS, strict=True):
        choice = one_by_one.decide(context, cost=cost)
        one_by_one.learn(choice, rewards[choice.index])
    trace = releaf.replay(at_once, CONTEXTS, REWARDS, cost=COSTS)
    assert full_state(at_once) == full_state(one_by_one)
    assert trace.costs is not None
    assert (np.cumsum(trace.costs) <= 0.6 * np.arange(1, 601) + 30 + 1e-9).all()


@every_policy
def test_an_overruled_decision_is_charged_what_was_taken_instead(policy: Any, tmp_path: Path) -> None:
    bandit = policy(ACTIONS, 2, seed=1, cost=[0.0, 10.0, 0.5], spend_budget=30, budget_period=50)
    decided = []
    for context in CONTEXTS[:8]:
        choice = bandit.decide(context)
        bandit.learn(choice, 1.0, action="dear")
        decided.append(choice.cost)
        assert bandit.spent == pytest.approx(10.0 * len(decided))
    assert bandit.spend_ahead == pytest.approx(80 - 8 * 0.6)
    assert bandit.decide(CONTEXTS[8]).action == "cheap", "the next decisions make up for it"
    bandit.save(tmp_path / "mid.releaf")
    assert full_state(releaf.load(tmp_path / "mid.releaf")) == full_state(bandit)


@every_policy
def test_costs_of_an_overruled_decision_come_with_it_or_are_the_fixed_ones(policy: Any) -> None:
    bandit = policy(ACTIONS, 2, seed=1, cost_weight=100.0)
    choice = bandit.decide(CONTEXTS[0], cost=[0.0, 3.0, 1.0])
    bandit.remove_action("other" if choice.action != "other" else "cheap")
    before = bandit.spent
    bandit.learn(choice, 1.0, action="dear")
    assert bandit.spent == pytest.approx(before + 3.0 - choice.cost)
    by_id = policy(ACTIONS, 2, seed=1, cost=[0.0, 3.0, 1.0], cost_weight=100.0)
    by_id.learn(by_id.decide(CONTEXTS[0]).id, 1.0, action="dear")
    assert by_id.spent == pytest.approx(3.0)


@every_policy
def test_a_period_without_a_budget_is_refused(policy: Any) -> None:
    for given in ({"cost_weight": 0.1}, {}):
        with pytest.raises(ValueError, match="budget_period=50 needs a spend_budget, got none"):
            policy(ACTIONS, 2, budget_period=50, **given)


@pytest.mark.parametrize("policy", [releaf.JointReleaf, releaf.HybridLinUCB])
def test_a_policy_for_an_action_table_takes_neither_costs_nor_an_unknown_control(policy: Any, tmp_path: Path) -> None:
    table = {"a": [0.1], "b": [0.9]}
    with pytest.raises(ValueError, match="control must be 'uniform' or the name of an action, got control='typo'"):
        policy(table, 1, control_share=0.2, control="typo")
    bandit = policy(table, 1, seed=0)
    refused(bandit, lambda: bandit.add_action("c", [0.5], cost=5.0), "this learner has no fixed costs")
    refused(
        bandit,
        lambda: bandit.observe([0.5], "c", 1.0, probability=-3, features=[0.4]),
        "probability must be a positive number and at most 1, got probability=-3",
    )
    later = policy({}, 1, action_features=1, seed=0, control_share=0.2, control="c")
    later.decide([0.5], actions={"a": [0.1], "b": [0.2]})
    later.save(tmp_path / "later.releaf")
    assert releaf.load(tmp_path / "later.releaf").control == "c"
