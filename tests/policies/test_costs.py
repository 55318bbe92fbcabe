"""Costs of actions: a fixed weight, a budget that a learnt weight keeps, and its bound."""

from __future__ import annotations

import copy
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.planted_costs import STREAMS, best_within, planted
from conformance import refused
from learner_comparison import full_state, plain

import releaf
from releaf.core.runtime import state_file
from releaf.policies.previews import preview_states

ACTIONS = ("small", "medium", "large")
COSTS = {"small": 0.1, "medium": 0.4, "large": 1.0}
POLICIES: list[Any] = [
    releaf.AdaptiveReleaf,
    releaf.LinUCB,
    releaf.LinTS,
    releaf.LinearEpsilonGreedy,
    releaf.EpsilonGreedy,
    releaf.UCB1,
]
NAMES = [policy.__name__ for policy in POLICIES]
every_policy = pytest.mark.parametrize("policy", POLICIES, ids=NAMES)
CONTEXTS, _, REWARDS, _ = planted(600, seed=3)
DRAW = np.random.default_rng(8)
TABLE = DRAW.random((600, 3)) * [0.2, 0.8, 2.0]
MASKS = DRAW.random((600, 3)) < 0.7
MASKS[np.arange(600), DRAW.integers(0, 3, 600)] = True
RULES: list[dict[str, Any]] = [
    {"cost_weight": 0.3},
    {"spend_budget": 15, "budget_period": 50},
]


def names_in(mask: Any) -> list[str]:
    return [name for name, is_eligible in zip(ACTIONS, mask, strict=True) if is_eligible]


@every_policy
@pytest.mark.parametrize("rule", RULES, ids=["weight", "budget"])
def test_a_replay_with_costs_is_the_same_as_step_by_step(policy: Any, rule: dict[str, Any]) -> None:
    one_by_one, at_once, parts = (policy(ACTIONS, 3, seed=5, **rule) for _ in range(3))
    actions, chances = [], []
    for context, row, mask, cost in zip(CONTEXTS, REWARDS, MASKS, TABLE, strict=True):
        choice = one_by_one.decide(context, eligible=names_in(mask), cost=dict(zip(ACTIONS, cost, strict=True)))
        assert choice.costs == tuple(cost)
        assert choice.cost == cost[choice.index]
        actions.append(choice.index)
        chances.append(choice.probability)
        one_by_one.learn(choice, row[choice.index])
    trace = releaf.replay(at_once, CONTEXTS, REWARDS, eligible=MASKS, cost=TABLE)
    for rows in (slice(0, 65), slice(65, 600)):
        releaf.replay(parts, CONTEXTS[rows], REWARDS[rows], eligible=MASKS[rows], cost=TABLE[rows])
    assert trace.actions.tolist() == actions
    assert trace.costs is not None
    assert trace.costs.tolist() == TABLE[np.arange(600), actions].tolist()
    assert full_state(at_once) == full_state(one_by_one) == full_state(parts)
    assert at_once.spent == pytest.approx(trace.costs.sum())
    assert at_once.cost_weight == one_by_one.cost_weight
    assert min(chances) > 0


@every_policy
@pytest.mark.parametrize("rule", RULES, ids=["weight", "budget"])
def test_many_decisions_with_costs_are_those_of_one_by_one(policy: Any, rule: dict[str, Any]) -> None:
    bandit = policy(ACTIONS, 3, seed=5, **rule)
    bandit.replay(CONTEXTS[:300], REWARDS[:300], cost=TABLE[:300])
    bandit = releaf.from_bytes(bandit.to_bytes())
    bandit.preview(CONTEXTS[0], cost=[1, 2, 3])
    twin = copy.deepcopy(bandit)
    twin.preview(CONTEXTS[0], cost=[1, 2, 3])
    many = bandit.decide_many(CONTEXTS[300:360], cost=TABLE[300:360])
    alone = [twin.decide(context, cost=cost) for context, cost in zip(CONTEXTS[300:360], TABLE[300:360], strict=True)]
    assert [plain(choice) for choice in many] == [plain(choice) for choice in alone]
    assert [choice.costs for choice in many] == [choice.costs for choice in alone]
    assert many.costs is not None
    assert many.costs.tolist() == [choice.cost for choice in alone]
    assert full_state(bandit) == full_state(twin)


@every_policy
@pytest.mark.parametrize("rule", RULES, ids=["weight", "budget"])
def test_fixed_costs_are_those_of_each_decision(policy: Any, rule: dict[str, Any]) -> None:
    fixed = policy(ACTIONS, 3, seed=5, cost=COSTS, **rule)
    given = policy(ACTIONS, 3, seed=5, **rule)
    assert fixed.cost == tuple(COSTS.values())
    one, other = (
        releaf.replay(fixed, CONTEXTS, REWARDS),
        releaf.replay(given, CONTEXTS, REWARDS, cost=[COSTS[name] for name in ACTIONS]),
    )
    assert one.actions.tolist() == other.actions.tolist()
    assert one.costs is not None
    assert other.costs is not None
    assert one.costs.tolist() == other.costs.tolist()
    assert fixed.spent == given.spent == pytest.approx(one.costs.sum())
    choice = fixed.decide(CONTEXTS[0])
    assert choice.cost == COSTS[choice.action]
    assert fixed.decide(CONTEXTS[0], cost=[3, 2, 1]).costs == (3.0, 2.0, 1.0)
    assert fixed.decide(CONTEXTS[0]).costs == tuple(COSTS.values())


@every_policy
def test_without_a_price_costs_change_nothing(policy: Any) -> None:
    """With a weight of 0 the spend is counted, and decisions are those without costs."""
    free, counted = policy(ACTIONS, 3, seed=5), policy(ACTIONS, 3, seed=5, cost=COSTS, cost_weight=0.0)
    plainly, priced = releaf.replay(free, CONTEXTS, REWARDS), releaf.replay(counted, CONTEXTS, REWARDS)
    assert plainly.actions.tolist() == priced.actions.tolist()
    assert plainly.costs is None
    assert (free.spent, free.cost_weight, free.decide(CONTEXTS[0]).cost) == (0.0, None, None)
    assert counted.spent > 0


@every_policy
def test_a_fixed_weight_takes_the_action_with_the_highest_reward_less_weighted_cost(policy: Any) -> None:
    """In the user's units: rewards from -10 to 30, and a unit of cost worth 20 of them."""
    bandit = policy(
        ("cheap", "dear"), 1, seed=0, cost={"dear": 1.0, "cheap": 0.0}, cost_weight=20.0, reward_range=(-10, 30)
    )
    assert bandit.cost_weight == pytest.approx(20.0)
    for step in range(1_200):
        choice = bandit.decide([step % 7 / 7], cost=[0.0, 1.0 if step % 2 else 0.2])
        bandit.learn(choice, 5.0 if choice.action == "cheap" else 20.0)
    assert [bandit.decide([0.5]).action for _ in range(200)].count("cheap") > 150
    assert [bandit.decide([0.5], cost=[0.0, 0.2]).action for _ in range(200)].count("dear") > 150


@every_policy
def test_spend_never_exceeds_the_allowance_by_more_than_one_budget(policy: Any) -> None:
    """However much better the dear action is; and exactly, after every decision."""
    bandit = policy(("cheap", "dear"), 2, seed=1, spend_budget=4.0, budget_period=20)
    draw = np.random.default_rng(2)
    spent = 0.0
    for step in range(1, 1_200):
        cost = [0.0, float(draw.choice([0.5, 3.0]))]
        choice = bandit.decide(draw.random(2), cost=cost)
        spent += choice.cost or 0.0
        bandit.learn(choice, float(choice.index))
        assert spent <= step * 4.0 / 20 + 4.0 + 1e-9
        assert -4.0 <= bandit.spend_ahead <= 4.0 + 1e-9
    assert bandit.spent == pytest.approx(spent)
    assert spent > 0.9 * 1_199 * 4.0 / 20


@every_policy
def test_an_action_that_would_exceed_the_bound_is_impossible_and_the_cheapest_remains(policy: Any) -> None:
    bandit = policy(ACTIONS, 2, seed=1, spend_budget=1.0, budget_period=100)
    choice = bandit.decide([0.5, 0.5], cost=[0.2, 5.0, 9.0])
    assert (choice.action, choice.probability, choice.explored, choice.eligible) == ("small", 1.0, False, None)
    choice = bandit.decide([0.5, 0.5], cost=[0.2, 5.0, 9.0], eligible=["medium", "large"])
    assert (choice.action, choice.probability, choice.explored) == ("medium", 1.0, False)
    assert bandit.spent == pytest.approx(5.2)
    assert {bandit.decide([0.5, 0.5], cost=[0.0, 0.0, 2.0]).action for _ in range(40)} <= {"small", "medium"}


@every_policy
def test_probabilities_are_exact_with_costs(policy: Any) -> None:
    bandit = policy(ACTIONS, 3, seed=5, cost=COSTS, spend_budget=20, budget_period=50)
    bandit.replay(CONTEXTS[:300], REWARDS[:300])
    for context in CONTEXTS[300:303]:
        told: dict[Any, set[float]] = {}
        for state in preview_states(5, 200).tolist():
            bandit.set_random_state(state)
            seen = bandit.preview(context)
            told.setdefault(seen.action, set()).add(seen.probability)
        assert all(len(chances) == 1 for chances in told.values())
        draws = bandit.preview_actions(np.repeat(context[None], 2_000, axis=0), seed=6)
        for name, (probability, *_) in ((name, tuple(chances)) for name, chances in told.items()):
            noise = math.sqrt(probability * (1 - probability) / 2_000)
            assert np.mean(draws == ACTIONS.index(name)) == pytest.approx(probability, abs=4.5 * noise + 1e-9)


@every_policy
def test_saved_or_previewed_it_goes_on_as_if_nothing_had_happened(policy: Any, tmp_path: Path) -> None:
    bandit = policy(ACTIONS, 3, seed=5, cost=COSTS, spend_budget=20, budget_period=50)
    bandit.replay(CONTEXTS[:300], REWARDS[:300])
    before = full_state(bandit)
    bandit.preview(CONTEXTS[300])
    bandit.preview(CONTEXTS[300], cost=[9.0, 1.0, 0.0])
    bandit.preview_actions(CONTEXTS[300:330], cost=TABLE[300:330])
    bandit.estimate(CONTEXTS[300:330])
    assert full_state(bandit) == before
    bandit.save(tmp_path / "mid.releaf")
    again = releaf.load(tmp_path / "mid.releaf")
    assert (again.spent, again.cost_weight, again.spend_ahead) == (bandit.spent, bandit.cost_weight, bandit.spend_ahead)
    assert (again.cost, again.spend_budget, again.budget_period) == (bandit.cost, 20.0, 50)
    for learner in (bandit, again):
        learner.replay(CONTEXTS[300:], REWARDS[300:])
    assert full_state(again) == full_state(bandit)


@every_policy
def test_a_file_has_the_spending_of_learners_that_weigh_costs_only(policy: Any, tmp_path: Path) -> None:
    free = policy(ACTIONS, 3, seed=5)
    free.replay(CONTEXTS[:300], REWARDS[:300])
    free.save(tmp_path / "free.releaf")
    header, arrays = state_file.read(tmp_path / "free.releaf")
    assert "policy.spending" not in arrays
    for name in ("cost", "cost_weight", "spend_budget", "budget_period"):  # which earlier versions did not know
        header["parameters"].pop(name)
    state_file.write(tmp_path / "old.releaf", header, arrays)
    assert full_state(releaf.load(tmp_path / "old.releaf")) == full_state(free)
    bandit = policy(ACTIONS, 3, seed=5, cost=COSTS, spend_budget=20, budget_period=50)
    bandit.replay(CONTEXTS[:300], REWARDS[:300])
    bandit.save(tmp_path / "priced.releaf")
    header, arrays = state_file.read(tmp_path / "priced.releaf")
    wrong = {**arrays, "policy.spending": np.full(9, -1.0)}
    missing = {name: array for name, array in arrays.items() if name != "policy.spending"}
    for altered, text in ((wrong, "its spending contradict"), (missing, "its spending is missing")):
        state_file.write(tmp_path / "wrong.releaf", header, altered)
        with pytest.raises(releaf.StateError, match=text):
            releaf.load(tmp_path / "wrong.releaf")


@every_policy
def test_a_new_action_needs_a_cost_and_a_removed_one_takes_its_along(policy: Any) -> None:
    bandit = policy(ACTIONS, 3, seed=5, cost=COSTS, cost_weight=0.2)
    refused(bandit, lambda: bandit.add_action("huge"), "the new action 'huge' needs a cost, as the others have")
    refused(bandit, lambda: bandit.add_action("huge", cost=-1), "cost of 'huge' must be a number from 0 to 1e+12, got")
    bandit.add_action("huge", cost=3.0)
    bandit.remove_action("medium")
    assert bandit.cost == (0.1, 1.0, 3.0)
    assert bandit.decide(CONTEXTS[0]).costs == (0.1, 1.0, 3.0)
    assert releaf.from_bytes(bandit.to_bytes()).cost == (0.1, 1.0, 3.0)
    free = policy(ACTIONS, 3, seed=5)
    refused(free, lambda: free.add_action("huge", cost=1.0), "this learner has no fixed costs")


@every_policy
def test_logged_decisions_of_others_cost_nothing(policy: Any) -> None:
    bandit = policy(ACTIONS, 3, seed=5, cost=COSTS, spend_budget=20, budget_period=50)
    bandit.replay(CONTEXTS[:100], REWARDS[:100])
    spent, ahead = bandit.spent, bandit.spend_ahead
    bandit.observe(CONTEXTS[0], "large", 1.0)
    bandit.learn_log(CONTEXTS[100:200], ["large"] * 100, REWARDS[100:200, 2])
    assert (bandit.spent, bandit.spend_ahead) == (spent, ahead)


WRONG: list[tuple[Any, type[Exception], str]] = [
    (1.0, TypeError, "cost must be a mapping from actions to costs, or one cost for each action, got 1.0"),
    ("small", TypeError, "cost must be a mapping from actions to costs, or one cost for each action, got 'small'"),
    ([1, 2], ValueError, "cost has 2 values: expected one for each of ('small', 'medium', 'large')"),
    ({"small": 1, "large": 2}, ValueError, "cost lacks ['medium']: expected a cost for each of"),
    ({**COSTS, "huge": 1}, ValueError, "cost names an unknown action 'huge': the actions are"),
    ([1, -2, 3], ValueError, "cost of 'medium' must be a number from 0 to 1e+12, got -2"),
    ([1, math.nan, 3], ValueError, "cost of 'medium' must be a number from 0 to 1e+12, got nan"),
    ([1, "2", 3], ValueError, "cost of 'medium' must be a number from 0 to 1e+12, got '2'"),
    ([1, True, 3], ValueError, "cost of 'medium' must be a number from 0 to 1e+12, got True"),
]
WRONG_OF_MANY: list[tuple[Any, type[Exception], str]] = [
    *WRONG,
    (np.ones((2, 2)), ValueError, "cost has shape (2, 2): expected (2, 3) (steps × actions)"),
    (np.array([[1, 2, 3], [1, math.inf, 2]]), ValueError, "cost of row 1 of 'medium' must be a number from 0 to"),
    ([COSTS], ValueError, "cost has 1 rows: expected 2, one for each context"),
    ([COSTS, [1, 2]], ValueError, "cost of row 1 has 2 values: expected one for each of"),
    ([COSTS, 3], TypeError, "cost of row 1 must be a mapping from actions to costs"),
]


@every_policy
def test_invalid_costs_are_refused_and_change_nothing(policy: Any) -> None:
    bandit = policy(ACTIONS, 3, seed=5, cost_weight=0.2)
    for given, error, text in WRONG:
        refused(bandit, lambda given=given: bandit.decide(CONTEXTS[0], cost=given), text, error)
        refused(bandit, lambda given=given: bandit.preview(CONTEXTS[0], cost=given), text, error)
        with pytest.raises(error) as caught:
            policy(ACTIONS, 3, cost=given, cost_weight=0.2)
        assert text in str(caught.value)
    for given, error, text in WRONG_OF_MANY:
        refused(bandit, lambda given=given: bandit.decide_many(CONTEXTS[:2], cost=given), text, error)
        refused(bandit, lambda given=given: bandit.preview_actions(CONTEXTS[:2], cost=given), text, error)
        refused(bandit, lambda given=given: bandit.replay(CONTEXTS[:2], REWARDS[:2], cost=given), text, error)
    missing = f"cost is missing: this {policy.__name__} weighs costs and has no fixed ones"
    refused(bandit, lambda: bandit.decide(CONTEXTS[0]), missing)
    refused(bandit, lambda: bandit.decide_many(CONTEXTS[:2]), missing)
    refused(bandit, lambda: bandit.replay(CONTEXTS[:2], REWARDS[:2]), missing)
    free = policy(ACTIONS, 3, seed=5)
    text = f"this {policy.__name__} weighs no costs: set cost_weight or spend_budget, or leave out cost"
    refused(free, lambda: free.decide(CONTEXTS[0], cost=COSTS), text)


SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"cost": COSTS}, "cost needs cost_weight (reward per unit of cost) or spend_budget, got neither"),
    (
        {"cost_weight": 1.0, "spend_budget": 2.0},
        "only one of cost_weight and spend_budget can be set, got cost_weight=",
    ),
    ({"cost_weight": -1.0}, "cost_weight must be a number of at least 0 and at most 1e+12, got cost_weight=-1.0"),
    ({"spend_budget": 0.0}, "spend_budget must be a positive number and at most 1e+18, got spend_budget=0.0"),
    ({"spend_budget": 1.0, "budget_period": 0}, "budget_period must be a whole number of at least 1"),
]


@every_policy
@pytest.mark.parametrize(("given", "text"), SETTINGS)
def test_invalid_settings_of_costs_are_refused(policy: Any, given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        policy(ACTIONS, 3, **given)


@pytest.mark.parametrize("policy", [releaf.Releaf, releaf.Random, releaf.ContextualZooming])
def test_policies_that_weigh_no_costs_say_which_do(policy: Any) -> None:
    bandit = policy(ACTIONS, 3, seed=1)
    text = f"{policy.__name__} can't weigh costs: AdaptiveReleaf, LinUCB, LinTS, LinearEpsilonGreedy, EpsilonGreedy and"
    for call in (
        lambda: bandit.decide(CONTEXTS[0], cost=COSTS),
        lambda: bandit.decide_many(CONTEXTS[:2], cost=COSTS),
        lambda: bandit.preview(CONTEXTS[0], cost=COSTS),
        lambda: bandit.replay(CONTEXTS[:2], REWARDS[:2], cost=COSTS),
    ):
        refused(bandit, call, text, TypeError)
    assert bandit.spent == 0.0


def test_what_knows_no_costs_refuses_learners_that_weigh_them() -> None:
    one, other = (releaf.AdaptiveReleaf(ACTIONS, 3, seed=seed, cost=COSTS, cost_weight=0.1) for seed in (0, 1))
    with pytest.raises(ValueError, match="learners that weigh costs can't be merged"):
        one.merge(other)
    with pytest.raises(ValueError, match="a policy that weighs costs can't be exported"):
        one.freeze_policy()


def test_an_explanation_shows_what_costs_count_for() -> None:
    bandit = releaf.AdaptiveReleaf(["cheap", "dear"], 1, seed=0, cost=[0.0, 2.0], cost_weight=15, reward_range=(0, 100))
    for step in range(60):
        choice = bandit.decide([step % 7 / 7], cost=[0.0, 0.0])
        bandit.learn(choice, 40.0 if choice.action == "cheap" else 60.0)
    seen = bandit.preview([0.5])
    assert (seen.action, seen.cost) == ("cheap", 0.0)
    found = bandit.explain([0.5])
    assert [known.action for known in found.actions] == ["cheap", "dear"]
    assert (found.actions[1].cost, found.actions[1].weighted_cost) == (2.0, 30.0)
    assert found.actions[1].net == pytest.approx((found.actions[1].estimate or 0.0) - 30.0)
    assert "its estimated reward less weighted cost is the highest" in found.headline
    assert "    its cost of 2 counts for 30.0, which leaves " in found.text
    assert found.to_dict()["actions"][1]["weighted_cost"] == 30.0
    given = bandit.explain(bandit.decide([0.5], cost=[0.0, 0.0]))
    assert (given.actions[0].action, given.actions[0].cost) == ("dear", 0.0)
    assert "cost" not in releaf.AdaptiveReleaf(2, 1, seed=0).explain([0.5]).to_dict()["actions"][0]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", ["three actions", "varying costs"])
@pytest.mark.parametrize("policy", [releaf.LinUCB, releaf.AdaptiveReleaf], ids=["LinUCB", "AdaptiveReleaf"])
def test_a_budget_is_spent_to_a_percent_for_nearly_all_the_reward_that_it_can_buy(
    policy: Any, name: str, seed: int
) -> None:
    make, budget = STREAMS[name]
    steps = 20_000
    stream, allowance = make(steps, seed), steps * budget / 1_000
    bandit = policy(ACTIONS, 3, seed=seed, spend_budget=budget)
    trace = releaf.replay(bandit, stream.contexts, stream.rewards, cost=stream.costs)
    gained = stream.expected[np.arange(steps), trace.actions].sum()
    assert abs(bandit.spent / allowance - 1) < 0.01
    assert gained >= 0.97 * best_within(stream.expected, stream.costs, allowance)
