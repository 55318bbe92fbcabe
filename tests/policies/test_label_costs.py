"""Labels of unequal cost, and when a learner stops asking for more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from adaptive_twin import SCHEMAS, arrays_of, run_in_lock_step, steps_of, stream

import releaf
from releaf.core.adaptive.state import GAIN, GAINS, LABEL_COST, UNWORTHY
from releaf.core.runtime.jit import IS_COMPILED

BOTH: dict[str, Any] = {"label_budget": 120, "observation_cost": 0.05, "stop_asking_after": 10}
RULES: list[dict[str, Any]] = [
    {"label_budget": 150},
    {"observation_cost": 0.05},
    {"observation_cost": 1.0, "stop_asking_after": 5},
    BOTH,
]


def two_kinds(steps: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Contexts of two kinds, equally hard, whose labels cost 1 and 10; a noisy reward."""
    draw = np.random.default_rng(seed)
    contexts = draw.random((steps, 3))
    contexts[:, 0] = draw.random(steps) < 0.5
    chance = 0.5 + 0.4 * np.sin(6.0 * contexts[:, 1]) * np.where(contexts[:, 0] > 0.5, 1.0, -1.0)
    rewards = (draw.random((steps, 2)) < np.stack([chance, 1.0 - chance], axis=1)).astype(float)
    return contexts, rewards, np.where(contexts[:, 0] > 0.5, 10.0, 1.0)


def some_costs(steps: int, seed: int = 3) -> Any:
    return np.random.default_rng(seed).choice([0.25, 1.0, 2.5, 10.0], steps)


def step_by_step(bandit: Any, contexts: Any, rewards: Any, costs: Any) -> list[releaf.Decision]:
    decisions = []
    for context, row, cost in zip(contexts, rewards, costs, strict=True):
        decisions.append(bandit.decide(context, label_cost=cost))
        if decisions[-1].wants_reward:
            bandit.learn(decisions[-1], row[decisions[-1].index])
    return decisions


# --- requests ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("share", [None, 0.6])
def test_every_step_is_that_of_the_plain_twin(rule: dict[str, Any], share: float | None) -> None:
    contexts, rewards = stream("mixed", steps_of(400), actions=3)
    bandit = releaf.AdaptiveReleaf(3, SCHEMAS["mixed"], seed=1, **rule)
    twin = run_in_lock_step(bandit, contexts, rewards, share=share, label_costs=some_costs(len(contexts)))
    labels, requests = bandit._state.labels, twin.requests
    assert labels[LABEL_COST] == pytest.approx(requests.spent)
    assert labels[GAIN] == pytest.approx(requests.gain, rel=1e-6)
    assert labels[GAINS] == requests.gains
    if "observation_cost" in rule:
        assert labels[UNWORTHY] == requests.unworthy
    if IS_COMPILED:
        assert 0 < bandit.explorations < 400


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_replay_and_a_batch_take_the_decisions_of_single_steps(rule: dict[str, Any]) -> None:
    contexts, rewards, _ = two_kinds(steps_of(800))
    costs = some_costs(len(contexts))
    one, other = (releaf.AdaptiveReleaf(2, 3, seed=2, **rule) for _ in range(2))
    decisions = step_by_step(one, contexts, rewards, costs)
    trace = releaf.replay(other, contexts, rewards, label_costs=costs)
    assert trace.actions.tolist() == [choice.index for choice in decisions]
    assert trace.observed.tolist() == [choice.wants_reward for choice in decisions]
    assert trace.label_costs is not None
    assert trace.label_costs.tolist() == costs.tolist()
    assert arrays_of(one) == arrays_of(other)
    spent = sum(choice.label_cost or 0.0 for choice in decisions if choice.wants_reward)
    assert one.label_cost_spent == pytest.approx(spent)
    batch = other.decide_many(contexts[:50], label_cost=costs[:50])
    singles = [one.decide(context, label_cost=cost) for context, cost in zip(contexts[:50], costs, strict=False)]
    assert [choice.action for choice in batch] == [choice.action for choice in singles]
    assert [choice.wants_reward for choice in batch] == [choice.wants_reward for choice in singles]
    assert [choice.label_cost for choice in batch] == [choice.label_cost for choice in singles]
    assert [choice.label_cost for choice in batch[:]] == costs[:50].tolist()
    assert arrays_of(one) == arrays_of(other)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_labels_of_cost_1_are_requested_as_those_of_no_given_cost(rule: dict[str, Any]) -> None:
    contexts, rewards, _ = two_kinds(steps_of(600))
    one, other = (releaf.AdaptiveReleaf(2, 3, seed=2, **rule) for _ in range(2))
    releaf.replay(one, contexts, rewards)
    releaf.replay(other, contexts, rewards, label_costs=1)
    assert arrays_of(one) == arrays_of(other)
    assert one.label_cost_spent == one.labels_spent


@pytest.mark.parametrize("further", [{}, {"observation_cost": 0.01}], ids=str)
def test_a_budget_is_never_exceeded_by_the_cost_of_labels(further: dict[str, Any]) -> None:
    contexts, rewards, _ = two_kinds(steps_of(2_000))
    costs = np.random.default_rng(1).uniform(0.3, 20.0, len(contexts))
    bandit, spent = releaf.AdaptiveReleaf(2, 3, seed=0, label_budget=60, **further), 0.0
    for choice in step_by_step(bandit, contexts, rewards, costs):
        spent += choice.wants_reward * (choice.label_cost or 0.0)
        assert spent <= 60
    assert bandit.label_cost_spent == pytest.approx(spent)
    assert bandit.labels_left == pytest.approx(60 - spent)
    assert bandit.labels_spent < spent


def test_a_label_that_costs_more_than_is_left_is_never_requested() -> None:
    bandit = releaf.AdaptiveReleaf(2, 1, seed=0, label_budget=5)
    assert not any(bandit.decide([0.5], label_cost=5.001).wants_reward for _ in range(200))
    assert bandit.labels_left == 5
    assert bandit.decide([0.5]).wants_reward
    assert bandit.labels_left == 4


@pytest.mark.parametrize("rule", [{"label_budget": 600}, {"observation_cost": 0.2}], ids=str)
def test_cheap_labels_are_requested_more_often_than_dear_ones(rule: dict[str, Any]) -> None:
    contexts, rewards, costs = two_kinds(6_000)
    bandit = releaf.AdaptiveReleaf(2, 3, seed=0, **rule)
    observed = releaf.replay(bandit, contexts, rewards, label_costs=costs).observed
    cheap, dear = observed[costs == 1.0].mean(), observed[costs == 10.0].mean()
    assert dear > 0.0
    assert cheap > 1.5 * dear


def test_a_price_holds_per_ordinary_label() -> None:
    """A label of cost c at price p is requested as an ordinary one at price c·p, in the middle of a stream too."""
    contexts, rewards, _ = two_kinds(steps_of(500))
    one = releaf.AdaptiveReleaf(2, 3, seed=0, observation_cost=0.5)
    other = releaf.AdaptiveReleaf(2, 3, seed=0, observation_cost=0.125)
    traces = [releaf.replay(one, contexts, rewards, label_costs=0.25), releaf.replay(other, contexts, rewards)]
    rate, cheaper = (trace.observed.mean() for trace in traces)
    assert rate == pytest.approx(cheaper, rel=0.25)  # spot checks of cheap labels are more frequent
    ordinary = releaf.replay(releaf.AdaptiveReleaf(2, 3, seed=0, observation_cost=0.5), contexts, rewards)
    assert rate > ordinary.observed.mean()


# --- when to stop ------------------------------------------------------------------------------------------------


def test_a_learner_stops_asking_and_asks_again_when_a_label_is_worth_its_price() -> None:
    draw = np.random.default_rng(0)
    contexts = draw.random((3_000, 2))
    contexts[:, 0] = np.where(draw.random(3_000) < 0.5, 0.1, 0.9)  # far from a boundary: all is known soon
    rewards = np.stack([contexts[:, 0] > 0.5, contexts[:, 0] < 0.5], axis=1).astype(float)
    bandit = releaf.AdaptiveReleaf(2, 2, seed=0, observation_cost=2.0, stop_asking_after=50)
    releaf.replay(bandit, contexts, rewards)
    outlook = bandit.label_outlook()
    assert outlook.has_stopped
    assert outlook.unworthy is not None
    assert outlook.unworthy >= 50
    assert outlook.price is not None
    assert outlook.gain < outlook.price
    assert "asks for none until one is" in str(outlook)
    assert outlook.to_dict()["has_stopped"] is True
    for context in contexts[:500]:
        has_stopped = bandit.label_outlook().has_stopped
        choice = bandit.decide(context)
        assert choice.wants_reward == (bandit.label_outlook().unworthy == 0) or not has_stopped
    asked = bandit.labels_spent
    bandit.add_action("new")  # nothing is known of it
    releaf.replay(bandit, contexts[:20], np.column_stack([rewards[:20], np.full(20, 0.5)]))
    assert bandit.labels_spent > asked


def test_random_checks_go_on_without_a_stopping_rule() -> None:
    contexts, rewards = np.random.default_rng(0).random((3_000, 2)), np.tile([1.0, 0.0], (3_000, 1))
    given: list[dict[str, Any]] = [{}, {"stop_asking_after": 20}]
    spent = []
    for further in given:
        bandit = releaf.AdaptiveReleaf(2, 2, seed=0, observation_cost=5.0, **further)
        releaf.replay(bandit, contexts, rewards)
        spent.append(bandit.labels_spent)
    assert spent[1] < spent[0]


def test_an_outlook_has_no_price_without_one() -> None:
    bandit = releaf.AdaptiveReleaf(2, 1, seed=0, label_budget=50, reward_range=(0, 10))
    bandit.decide([0.5], label_cost=2.5)
    outlook = bandit.label_outlook()
    assert (outlook.price, outlook.unworthy, outlook.has_stopped) == (None, None, False)
    assert outlook.gain == pytest.approx(10 * bandit._state.labels[GAIN])
    assert str(outlook).endswith("47.5 labels are left.")


# --- files and merging ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_loaded_learner_continues_bit_for_bit(rule: dict[str, Any]) -> None:
    contexts, rewards, costs = two_kinds(steps_of(600))
    bandit = releaf.AdaptiveReleaf(2, 3, seed=4, **rule)
    releaf.replay(bandit, contexts[:300], rewards[:300], label_costs=costs[:300])
    loaded = releaf.from_bytes(bandit.to_bytes())
    assert loaded.label_cost_spent == bandit.label_cost_spent >= bandit.labels_spent > 0
    assert loaded.label_outlook() == bandit.label_outlook()
    for one in (bandit, loaded):
        releaf.replay(one, contexts[300:], rewards[300:], label_costs=costs[300:])
    assert arrays_of(loaded) == arrays_of(bandit)


def test_each_request_of_an_earlier_version_cost_one_label() -> None:
    contexts, rewards, _ = two_kinds(steps_of(400))
    bandit = releaf.AdaptiveReleaf(2, 3, seed=4, label_budget=50)
    releaf.replay(bandit, contexts, rewards)
    header, arrays = bandit._contents()
    del arrays["policy.labels"], header["parameters"]["stop_asking_after"]
    loaded = releaf.AdaptiveReleaf._revive(header, arrays)
    assert loaded.label_cost_spent == bandit.labels_spent
    assert loaded.labels_left == bandit.labels_left


def test_files_of_learners_that_learn_every_reward_have_no_labels() -> None:
    assert "labels" not in releaf.AdaptiveReleaf(2, 3)._arrays()


def test_a_preview_changes_nothing() -> None:
    contexts, rewards, costs = two_kinds(steps_of(300))
    bandit = releaf.AdaptiveReleaf(2, 3, seed=4, **BOTH)
    releaf.replay(bandit, contexts, rewards, label_costs=costs)
    before = arrays_of(bandit)
    previewed = bandit.preview(contexts[0], label_cost=0.1)
    bandit.preview_actions(contexts[:20], label_cost=costs[:20])
    assert arrays_of(bandit) == before
    choice = bandit.decide(contexts[0], label_cost=0.1)
    assert (choice.action, choice.wants_reward, choice.label_cost) == (previewed.action, previewed.wants_reward, 0.1)


def test_merging_adds_up_what_labels_cost() -> None:
    parts = [releaf.AdaptiveReleaf(2, 3, seed=seed, label_budget=100) for seed in (0, 1)]
    for seed, part in enumerate(parts):
        contexts, rewards, costs = two_kinds(300, seed)
        releaf.replay(part, contexts[:80], rewards[:80], label_costs=costs[:80] / 4)
    whole = parts[0].merge(parts[1])
    assert whole.label_cost_spent == sum(part.label_cost_spent for part in parts)
    left = sum(part.labels_left or 0.0 for part in parts)
    assert 0 <= left - (whole.labels_left or 0.0) < 1  # a budget is a whole number
    outlooks = [one.label_outlook().gain for one in (whole, *parts)]
    assert min(outlooks[1:]) <= outlooks[0] <= max(outlooks[1:])


def test_a_learnt_label_costs_what_is_said() -> None:
    bandit = releaf.AdaptiveReleaf(["no", "yes"], 1, seed=0, label_budget=50)
    bandit.learn_label([0.5], "yes", label_cost=2.5)
    bandit.learn_label([0.5], None, label_cost=4)
    assert (bandit.labels_spent, bandit.label_cost_spent) == (1, 2.5)


# --- invalid input -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cost", [0, -1.0, float("nan"), float("inf"), "2", True, [1.0]], ids=str)
def test_an_invalid_cost_of_a_label_changes_nothing(cost: Any) -> None:
    bandit = releaf.AdaptiveReleaf(2, 1, seed=0, label_budget=50)
    before = arrays_of(bandit)
    with pytest.raises(ValueError, match="label_cost must be a number of ordinary labels from 1e-06 to 1e\\+12, got"):
        bandit.decide([0.5], label_cost=cost)
    assert arrays_of(bandit) == before
    assert bandit.steps == 0


def test_costs_of_many_labels_are_one_for_each_context() -> None:
    bandit = releaf.AdaptiveReleaf(2, 1, seed=0, label_budget=50)
    with pytest.raises(ValueError, match="label_cost has 1 values: expected 2, one for each context"):
        bandit.decide_many([[0.5], [0.6]], label_cost=[1.0])
    with pytest.raises(ValueError, match=r"label_cost of row 1 must be a number of ordinary labels .* got 0"):
        bandit.decide_many([[0.5], [0.6]], label_cost=[1.0, 0])
    assert bandit.steps == 0
    assert len(bandit.decide_many([], label_cost=2.0)) == 0


def test_learners_that_cannot_use_costs_of_labels_say_what_to_set() -> None:
    plain = releaf.AdaptiveReleaf(2, 1, seed=0)
    with pytest.raises(ValueError, match="takes no label_cost: set label_budget or observation_cost"):
        plain.decide([0.5], label_cost=2.0)
    guaranteed = releaf.AdaptiveReleaf(2, 1, seed=0, delta=0.1, epsilon=0.1)
    with pytest.raises(ValueError, match="has no outlook on labels: set label_budget or observation_cost"):
        guaranteed.label_outlook()
    for other in (releaf.LinUCB(2, 1, seed=0), releaf.JointReleaf(2, 1, seed=0), releaf.UCB1(2, 1, seed=0)):
        with pytest.raises(TypeError, match="takes no label_cost: AdaptiveReleaf with label_budget"):
            other.decide([0.5], label_cost=2.0)
        with pytest.raises(TypeError, match="takes no label_cost: AdaptiveReleaf with label_budget"):
            other.preview([0.5], label_cost=2.0)
    assert plain.steps == 0


@pytest.mark.parametrize("after", [0, 2.5, True, "soon"], ids=str)
def test_an_invalid_stopping_rule_is_rejected(after: Any) -> None:
    with pytest.raises(ValueError, match="stop_asking_after must be a whole number of at least 1"):
        releaf.AdaptiveReleaf(2, 1, observation_cost=0.5, stop_asking_after=after)


def test_a_stopping_rule_needs_a_price() -> None:
    with pytest.raises(ValueError, match="stop_asking_after=5 needs observation_cost"):
        releaf.AdaptiveReleaf(2, 1, label_budget=50, stop_asking_after=5)
    with pytest.raises(ValueError, match="delta can't be set together with label_budget or observation_cost"):
        releaf.AdaptiveReleaf(2, 1, label_budget=50, delta=0.1, epsilon=0.1)


# --- is it better? ---------------------------------------------------------------------------------------------------


def test_known_costs_make_fewer_errors_than_ignored_ones_at_equal_spend() -> None:
    """Ignored: labels are requested as if they cost the same, as many as the budget allows at the mean cost."""
    budget, mean_cost = 900, 5.5
    known, ignored = [], []
    for seed in range(6):
        contexts, rewards, costs = two_kinds(4_000, seed)
        is_second = np.sin(6.0 * contexts[:, 1]) * np.where(contexts[:, 0] > 0.5, 1.0, -1.0) < 0.0
        bandit = releaf.AdaptiveReleaf(2, 3, seed=seed, label_budget=budget)
        known.append((releaf.replay(bandit, contexts, rewards, label_costs=costs).actions != is_second).mean())
        other = releaf.AdaptiveReleaf(2, 3, seed=seed, label_budget=round(budget / mean_cost))
        ignored.append((releaf.replay(other, contexts, rewards).actions != is_second).mean())
        assert bandit.label_cost_spent <= budget
    assert np.mean(known) < 0.9 * np.mean(ignored), (known, ignored)
