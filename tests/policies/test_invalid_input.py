"""Invalid input: the error names the argument, the value and what was expected; state is unchanged."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from learner_comparison import full_state, run_steps, stream

import releaf
from releaf import Boolean, Categorical, GreedyReleaf, Releaf

CONTEXTS, REWARDS = stream(120, seed=4)
NAMES = ["age", "dose", "weight"]
GOOD = [0.25, 0.5, 0.75]


def experienced(observe: Any = "explored", policy: Any = Releaf) -> Any:
    """A learner that has lived a little, with three explorations, 121 to 123, that still wait for their reward."""
    divisor = 5 if policy is GreedyReleaf else 20
    bandit = policy(["wait", "treat"], NAMES, seed=6, observe=observe, control_divisor=divisor)
    run_steps(bandit, CONTEXTS, REWARDS)
    for context in ([0.02, 0.9, 0.4], [0.03, 0.91, 0.41], [0.04, 0.92, 0.42]):
        assert bandit.decide(context).explored
    return bandit


def assert_refused(bandit: Any, call: Callable[[Any], Any], error: type[Exception], text: str) -> None:
    """The call fails with this text, and the learner is what it was and decides as its untouched twin does."""
    twin = experienced(bandit.observation_mode, type(bandit))
    before = full_state(bandit)
    assert before == full_state(twin)
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call(bandit)
    assert full_state(bandit) == before
    assert run_steps(bandit, CONTEXTS[:40], REWARDS[:40]) == run_steps(twin, CONTEXTS[:40], REWARDS[:40])
    assert full_state(bandit) == full_state(twin)


# --- contexts -------------------------------------------------------------------------------------------------

LACKING = "context has 2 values, the schema has 3 (missing: 'weight')"
UNIT = "expected a number in [0, 1]"
KINDS = "context must be a sequence, a mapping or one row of a table, got"
BAD_CONTEXTS: list[tuple[Any, type[Exception], str]] = [
    ([0.5, math.nan, 0.5], ValueError, f"feature 'dose' is nan: {UNIT}"),
    (np.array([0.5, math.nan, 0.5]), ValueError, f"feature 'dose' is nan: {UNIT}"),
    ({"age": 0.5, "dose": math.nan, "weight": 0.5}, ValueError, f"feature 'dose' is missing (nan): {UNIT}"),
    ([math.inf, 0.5, 0.5], ValueError, f"feature 'age' is inf: {UNIT}"),
    ([0.5, 0.5, -math.inf], ValueError, f"feature 'weight' is -inf: {UNIT}"),
    ([0.5, 1.0000001, 0.5], ValueError, f"feature 'dose' is 1.0000001: {UNIT}"),
    (np.array([0.5, 0.5, -0.25]), ValueError, f"feature 'weight' is -0.25: {UNIT}"),
    ([-1, 0.5, 0.5], ValueError, f"feature 'age' is -1.0: {UNIT}"),  # -1 stands for missing values inside
    (pd.Series({"dose": 7.5, "age": 0, "weight": 1}), ValueError, f"feature 'dose' is 7.5: {UNIT}"),
    ([0.5, 0.5], ValueError, LACKING),
    ((0.5, 0.5), ValueError, LACKING),
    (np.array([0.5, 0.5]), ValueError, LACKING),
    ([], ValueError, "context has 0 values, the schema has 3 (missing: 'age', 'dose', 'weight')"),
    ([0.5] * 4, ValueError, "context has 4 values, the schema has 3"),
    (np.zeros((2, 3)), ValueError, "context has shape (2, 3): expected one row of 3 values"),
    (np.zeros((3, 1)), ValueError, "context has shape (3, 1): expected one row of 3 values"),
    (np.float64(0.5), TypeError, f"{KINDS} np.float64(0.5)"),
    ([[0.5, 0.5, 0.5]], ValueError, "context has 1 values, the schema has 3 (missing: 'dose', 'weight')"),
    (["0.5", 0.5, 0.5], ValueError, f"feature 'age' is '0.5': {UNIT}"),
    ([b"0.5", 0.5, 0.5], ValueError, f"feature 'age' is b'0.5': {UNIT}"),
    ([0.5, "much", 0.5], ValueError, f"feature 'dose' is 'much': {UNIT}"),
    (np.array(["0.5", "0.5", "0.5"]), ValueError, f"feature 'age' is '0.5': {UNIT}"),
    ([0.5, [0.5], 0.5], ValueError, f"feature 'dose' is [0.5]: {UNIT}"),
    ([0.5, 0.5, 1j], ValueError, f"feature 'weight' is 1j: {UNIT}"),
    ([10**400, 0.5, 0.5], ValueError, f"feature 'age' is {10**400}: {UNIT}"),
    ("0.5", TypeError, f"{KINDS} '0.5'"),
    (None, TypeError, f"{KINDS} None"),
    (0.5, TypeError, f"{KINDS} 0.5"),
    ({0.5}, TypeError, f"{KINDS} {{0.5}}"),
    ({"age": 1, "dose": 0}, ValueError, "context lacks 'weight'; the features are age, dose, weight"),
    (
        {"age": 1, "dose": 0, "size": 0.5},
        ValueError,
        "context lacks 'weight' and has unknown 'size'; the features are age, dose, weight",
    ),
    (
        {"age": 1, "dose": 0, "weight": 0.5, "Age": 1},
        ValueError,
        "context has unknown 'Age'; the features are age, dose, weight",
    ),
]


@pytest.mark.parametrize(("context", "error", "text"), BAD_CONTEXTS)
def test_a_bad_context_is_refused(context: Any, error: type[Exception], text: str) -> None:
    assert_refused(experienced(), lambda bandit: bandit.decide(context), error, text)


def test_a_missing_value_in_a_list_is_refused_by_its_feature() -> None:
    with pytest.raises(ValueError, match=r"^feature 'age' is (missing \(None\)|nan): expected a number in \[0, 1\]$"):
        experienced().decide([None, 0.5, 0.5])


@pytest.mark.parametrize("policy", [Releaf, GreedyReleaf])
def test_every_policy_refuses(policy: Any) -> None:
    text = f"feature 'dose' is 1.5: {UNIT}"
    assert_refused(experienced("always", policy), lambda bandit: bandit.decide([0.5, 1.5, 0.5]), ValueError, text)


@pytest.mark.parametrize(
    ("contexts", "error", "text"),
    [
        (np.array([GOOD, GOOD, [0, 0, 1.5]]), ValueError, f"feature 'weight' of row 2 is 1.5: {UNIT}"),
        ([GOOD, [0, math.inf, 1]], ValueError, f"feature 'dose' of row 1 is inf: {UNIT}"),
        (np.array([GOOD, [math.nan, 0, 0]]), ValueError, f"feature 'age' of row 1 is missing (nan): {UNIT}"),
        (np.zeros((4, 2)), ValueError, "contexts have shape (4, 2): expected rows of 3 values"),
        (np.zeros(3), ValueError, "contexts have shape (3,): expected rows of 3 values"),
        ([GOOD, [0.5, 0.5]], ValueError, f"row 1: {LACKING}"),
        (
            pd.DataFrame([GOOD], columns=["age", "dose", "size"]),
            ValueError,
            "table lacks 'weight' and has unknown 'size'; the features are age, dose, weight",
        ),
        (None, TypeError, "contexts must be a matrix, a table or a sequence of contexts, got None"),
    ],
)
def test_one_bad_context_among_many_is_refused_with_its_row_before_any_decision(
    contexts: Any, error: type[Exception], text: str
) -> None:
    assert_refused(experienced(), lambda bandit: bandit.decide_many(contexts), error, text)
    rewards = np.zeros((0 if contexts is None else len(contexts), 2))
    assert_refused(experienced(), lambda bandit: bandit.replay(contexts, rewards), error, text)


# --- rewards --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reward",
    [-0.001, 1.001, 2, math.nan, math.inf, None, "1", "good", b"1", [0.5], 1j, pytest.param(10**400, id="huge")],
)
@pytest.mark.parametrize("observe", ["explored", "always"])
def test_a_reward_that_is_no_number_in_the_unit_interval_is_refused(reward: Any, observe: str) -> None:
    text = f"reward is {reward!r}: expected a number in [0, 1]"
    assert_refused(experienced(observe), lambda bandit: bandit.learn(123, reward), ValueError, text)


ACTIONS = "('wait', 'treat')"
EACH = "expected a reward for each of the 2 actions, got"


@pytest.mark.parametrize(
    ("rewards", "text"),
    [
        (0.5, f"{EACH} 0.5"),
        (None, f"{EACH} None"),
        ("11", f"{EACH} '11'"),
        ([1.0], f"{EACH} [1.0]"),
        ([1.0, 0.0, 0.5], f"{EACH} [1.0, 0.0, 0.5]"),
        ([1.0, 1.5], "reward is 1.5: expected a number in [0, 1]"),
        ([math.nan, 1.0], "reward is nan: expected a number in [0, 1]"),
        ([None, 1.0], "reward is None: expected a number in [0, 1]"),
        ({"wait": 1.0, "treat": -1}, "reward is -1: expected a number in [0, 1]"),
        (
            {"wait": 1.0, "operate": 0.0},
            f"rewards must have each action once: unknown ['operate'], missing ['treat']; the actions are {ACTIONS}",
        ),
        (
            {"wait": 1.0, "treat": 0.0, "operate": 0.0},
            f"rewards must have each action once: unknown ['operate'], missing []; the actions are {ACTIONS}",
        ),
        (
            {"wait": 1.0},
            f"rewards must have each action once: unknown [], missing ['treat']; the actions are {ACTIONS}",
        ),
    ],
)
def test_rewards_that_are_not_one_for_each_action_are_refused(rewards: Any, text: str) -> None:
    assert_refused(experienced("all-actions"), lambda bandit: bandit.learn(121, rewards), ValueError, text)


def test_a_set_of_rewards_has_no_order_and_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^expected a reward for each"):
        experienced("all-actions").learn(121, {0.25, 0.5})


# --- which decision a reward belongs to -----------------------------------------------------------------------

NOT_PENDING = (
    "decision {} is not pending: its reward was learnt already or not requested, it is a row of a log (whose rows "
    "count as decisions), it is older than the newest 100000 pending ones (max_pending), or its action was removed"
)


@pytest.mark.parametrize(
    ("choice", "error", "text"),
    [
        (1, ValueError, NOT_PENDING.format(1)),
        (0, ValueError, "unknown decision 0: this learner has made decisions 1 to 123"),
        (-5, ValueError, "unknown decision -5: this learner has made decisions 1 to 123"),
        (124, ValueError, "unknown decision 124: this learner has made decisions 1 to 123"),
        ("123", TypeError, "choice must be a Decision or its id, got '123'"),
        (1.0, TypeError, "choice must be a Decision or its id, got 1.0"),
        (True, TypeError, "choice must be a Decision or its id, got True"),
        (None, TypeError, "choice must be a Decision or its id, got None"),
    ],
)
def test_a_reward_for_no_decision_that_waits_is_refused(choice: Any, error: type[Exception], text: str) -> None:
    assert_refused(experienced("always"), lambda bandit: bandit.learn(choice, 1.0), error, text)


def test_a_decision_is_learnt_only_once() -> None:
    bandit, twin = experienced(), experienced()
    choice = bandit.decide([0.01, 0.9, 0.4])
    assert choice.wants_reward
    bandit.learn(choice, 1.0)
    twin.learn(twin.decide([0.01, 0.9, 0.4]), 1.0)
    for again in (choice, choice.id):
        with pytest.raises(ValueError, match=f"^{re.escape(NOT_PENDING.format(choice.id))}$"):
            bandit.learn(again, 1.0)
    assert full_state(bandit) == full_state(twin)


def test_a_decision_of_another_learner_is_refused() -> None:
    stranger = experienced().decide(GOOD)
    text = f"{stranger!r} was made by another learner: expected a decision of this one"
    assert_refused(experienced(), lambda bandit: bandit.learn(stranger, 1.0), ValueError, text)


def test_a_reward_that_nobody_asked_for_is_refused() -> None:
    bandit = experienced()
    while (choice := bandit.decide(GOOD)).wants_reward:
        bandit.learn(choice, 0.5)
    before = full_state(bandit)
    text = f"decision {choice.id} did not request a reward (observe='explored'): learn only if wants_reward"
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        bandit.learn(choice, 1.0)
    assert full_state(bandit) == before


@pytest.mark.filterwarnings("ignore:more than max_pending")
def test_a_decision_that_was_forgotten_for_newer_ones_is_refused() -> None:
    bandit = Releaf(2, 3, seed=0, observe="always", max_pending=2)
    choices = [bandit.decide(GOOD) for _ in range(3)]
    with pytest.raises(ValueError, match=r", it is older than the newest 2 pending ones \(max_pending\), or"):
        bandit.learn(choices[0], 1.0)
    assert bandit.pending == 2


# --- replay ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rewards", "text"),
    [
        (np.zeros(50), "rewards have shape (50,): expected (50, 2) (steps × actions)"),
        (np.zeros((49, 2)), "rewards have shape (49, 2): expected (50, 2) (steps × actions)"),
        (np.zeros((50, 3)), "rewards have shape (50, 3): expected (50, 2) (steps × actions)"),
        (np.full((50, 2), 1.5), "reward 1.5 of row 0, action 'wait': expected [0, 1]"),
        (np.array([[0.5, 0.5]] * 49 + [[0.5, -0.5]]), "reward -0.5 of row 49, action 'treat': expected [0, 1]"),
        ([["good", "bad"]] * 50, "rewards must be a matrix of numbers, one row for each step"),
        ([["1", "0"]] * 50, "rewards must be a matrix of numbers, one row for each step"),
        (None, "rewards have shape (): expected (50, 2) (steps × actions)"),
    ],
)
@pytest.mark.parametrize("observe", ["explored", "all-actions"])
def test_rewards_of_a_stream_that_do_not_fit_are_refused(rewards: Any, text: str, observe: str) -> None:
    assert_refused(experienced(observe), lambda bandit: bandit.replay(CONTEXTS[:50], rewards), ValueError, text)


@pytest.mark.parametrize("observe", ["explored", "always", "all-actions", "labels"])
@pytest.mark.parametrize("policy", [Releaf, GreedyReleaf])
def test_a_stream_that_lacks_a_reward_the_learner_needs_leaves_it_as_before_the_stream(
    observe: str, policy: Any
) -> None:
    rewards = REWARDS[:50].copy()
    rewards[20:] = math.nan
    contexts = CONTEXTS[:50] * [0.01, 1, 1]  # where intervals are young, so that it explores
    twin = experienced(observe, policy)
    row = 20 + next(row for row, known in enumerate(twin.replay(contexts, REWARDS[:50]).observed[20:]) if known)
    text = f"rewards of row {row} are [nan, nan]: the learner needs a reward that is NaN"
    assert_refused(experienced(observe, policy), lambda bandit: bandit.replay(contexts, rewards), ValueError, text)


def test_rewards_that_the_learner_does_not_look_at_may_be_unknown() -> None:
    twin, bandit = experienced(), experienced()
    trace = twin.replay(CONTEXTS[:50], REWARDS[:50])
    rewards = np.full_like(REWARDS[:50], math.nan)
    seen = np.flatnonzero(trace.observed)
    rewards[seen, trace.actions[seen]] = REWARDS[seen, trace.actions[seen]]
    assert bandit.replay(CONTEXTS[:50], rewards).actions.tolist() == trace.actions.tolist()
    assert full_state(bandit) == full_state(twin)


# --- actions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "error", "text"),
    [
        ("treat", ValueError, f"action 'treat' exists already; the actions are {ACTIONS}"),
        (("a", "b"), TypeError, "an action's name must be text, a number or a boolean, got ('a', 'b')"),
    ],
)
def test_an_action_that_exists_or_cannot_be_saved_is_not_added(label: Any, error: type[Exception], text: str) -> None:
    assert_refused(experienced(), lambda bandit: bandit.add_action(label), error, text)


@pytest.mark.parametrize("feature", ["size", -1, 3])
def test_the_partition_of_an_unknown_feature_is_refused(feature: Any) -> None:
    known = "age, dose, weight" if isinstance(feature, str) else "features 0 to 2"
    text = f"unknown feature {feature!r}; the schema has {known}"
    assert_refused(experienced(), lambda bandit: bandit.partition(feature), ValueError, text)


def test_a_table_of_rewards_is_read_by_the_labels_of_its_columns() -> None:
    contexts = np.random.default_rng(0).random((200, 2))
    good, bad = np.ones(200), np.zeros(200)
    bandit = Releaf(["call", "wait"], 2, seed=0)
    trace = bandit.replay(contexts, pd.DataFrame({"wait": bad, "call": good}))
    assert trace.rewards.mean() > 0.5
    assert np.array_equal(trace.rewards, (trace.actions == 0).astype(float))
    with pytest.raises(ValueError, match="rewards lacks 'call' and has unknown 'phone'; the actions are call, wait"):
        bandit.replay(contexts, pd.DataFrame({"wait": bad, "phone": good}))


def test_sets_are_refused_where_order_matters_and_mappings_of_features_are_schemas() -> None:
    with pytest.raises(TypeError, match="actions must be a count or a sequence of names"):
        Releaf({"a", "b"}, 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="features must be a count, a sequence of names or a Schema"):
        Releaf(2, {"a", "b"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name must be text, a number or a boolean, got nan"):
        Releaf([1.0, float("nan")], 2)
    bandit = Releaf(2, {"a": Boolean(), "b": Categorical("x", "y")})
    assert [len(bandit.partition(name)) for name in ("a", "b")] == [2, 2]


def test_a_decision_is_explained_by_itself_not_by_its_number() -> None:
    bandit = Releaf(2, 2, seed=0)
    with pytest.raises(TypeError, match="choice must be the Decision itself, or a context, got 1"):
        bandit.explain(bandit.decide([0.5, 0.5]).id)


def test_an_empty_stream_is_lived_through_in_no_time() -> None:
    assert len(Releaf(2, 2, seed=0).replay([], [])) == 0


def test_replay_refuses_a_class_whose_decide_its_loop_would_not_call() -> None:
    class Counted(releaf.LinUCB):
        def decide(self, context: Any, eligible: Any = None, cost: Any = None, label_cost: Any = None) -> Any:
            return super().decide(context)

    bandit = Counted(2, 3, seed=0)
    with pytest.raises(TypeError, match=r"Counted overrides decide, which .* replay does not call: override replay"):
        bandit.replay(np.zeros((2, 3)), np.zeros((2, 2)))
    assert bandit.steps == 0


def test_replay_names_a_policy_without_the_method() -> None:
    with pytest.raises(TypeError, match=r"policy is a list without a method replay"):
        releaf.replay([], np.zeros((2, 3)), np.zeros((2, 2)))  # type: ignore[arg-type]
