"""`observe`: one reward of a decision that the policy did not make, for every policy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conformance import NAMES, POLICIES, VARIANT_NAMES, VARIANTS, make, refused
from learner_comparison import full_state, run_steps, stream

import releaf

CONTEXTS, REWARDS = stream(300, seed=4)
ALL: list[tuple[Any, str]] = list(zip([*POLICIES, *VARIANTS], [*NAMES, *VARIANT_NAMES], strict=True))
LOGGED = [(policy, name) for policy, name in ALL if policy.traits.learns_from_logs]
OTHERS = [(policy, name) for policy, name in ALL if not policy.traits.learns_from_logs]
every_log_learner = pytest.mark.parametrize("policy", [p for p, _ in LOGGED], ids=[name for _, name in LOGGED])
MIXED = releaf.Schema(
    age=releaf.Quantile(missing=True),
    plan=releaf.Categorical("free", "team", "firm"),
    score=releaf.Continuous(-1, 1),
)
PEOPLE: list[dict[str, Any]] = [
    {
        "age": None if row % 7 == 0 else 20 + 13 * row % 50,
        "plan": ("free", "team", "firm")[row % 3],
        "score": row / 40 - 1,
    }
    for row in range(80)
]


@every_log_learner
def test_it_is_learn_log_of_one_row_bit_for_bit(policy: Any) -> None:
    one, log = make(policy, ["wait", "treat"]), make(policy, ["wait", "treat"])
    for learner in (one, log):
        run_steps(learner, CONTEXTS[:100], REWARDS[:100])
    for row, context in enumerate(CONTEXTS[100:200]):
        action, reward = ("wait", "treat")[row % 2], float(REWARDS[100 + row, row % 2])
        one.observe(context, action, reward)
        log.learn_log([context], [action], [reward])
    assert full_state(one) == full_state(log)
    assert one.steps == 200
    assert run_steps(one, CONTEXTS[200:], REWARDS[200:]) == run_steps(log, CONTEXTS[200:], REWARDS[200:])


@every_log_learner
def test_it_encodes_contexts_of_all_kinds_as_learn_log_does(policy: Any) -> None:
    one, log = make(policy, 2, MIXED), make(policy, 2, MIXED)
    for row, context in enumerate(PEOPLE):
        one.observe(context, row % 2, 0.5)
        log.learn_log([context], [row % 2], [0.5])
    assert full_state(one) == full_state(log)


@every_log_learner
def test_it_takes_contexts_as_decide_does(policy: Any) -> None:
    names = ["age", "dose", "weight"]
    states = []
    table = pd.DataFrame([[0.5, 0.25, 1.0]], columns=names)
    for context in ([0.5, 0.25, 1.0], np.array([0.5, 0.25, 1.0]), {"weight": 1.0, "age": 0.5, "dose": 0.25}, table):
        learner = make(policy, 2, names)
        learner.observe(context, 1, 1.0)
        states.append(full_state(learner))
    assert all(state == states[0] for state in states)


@every_log_learner
def test_no_decision_is_pending_afterwards(policy: Any) -> None:
    bandit = make(policy)
    bandit.observe(CONTEXTS[0], 1, 0.5)
    assert (bandit.steps, bandit.pending) == (1, 0)


@every_log_learner
def test_a_propensity_makes_no_difference_to_estimates_given_context_and_action(policy: Any) -> None:
    known, unknown = make(policy), make(policy)
    for row, context in enumerate(CONTEXTS[:50]):
        known.observe(context, row % 2, 0.5, probability=(row + 1) / 50)
        unknown.observe(context, row % 2, 0.5)
    assert full_state(known) == full_state(unknown)


BAD: list[tuple[tuple[Any, Any, Any], dict[str, Any], str]] = [
    (([0.5, 0.5], 0, 0.5), {}, "context has 2 values, the schema has 3"),
    (([0.5, 0.5, 1.5], 0, 0.5), {}, "is 1.5: expected a number in [0, 1]"),
    (([0.5, 0.5, math.nan], 0, 0.5), {}, "is missing (nan): expected a number in [0, 1]"),
    (([0.5, 0.5, 0.5], "stay", 0.5), {}, "unknown action 'stay': the actions are (0, 1)"),
    (([0.5, 0.5, 0.5], 0, 1.5), {}, "reward is 1.5: expected a number in [0, 1]"),
    (([0.5, 0.5, 0.5], 0, 0.5), {"probability": 0.0}, "got probability=0.0"),
    (([0.5, 0.5, 0.5], 0, 0.5), {"probability": 1.5}, "got probability=1.5"),
    (([0.5, 0.5, 0.5], 0, 0.5), {"probability": math.nan}, "got probability=nan"),
]


@every_log_learner
@pytest.mark.parametrize(("row", "given", "text"), BAD, ids=[text for *_, text in BAD])
def test_invalid_input_raises_and_changes_nothing(policy: Any, row: Any, given: Any, text: str) -> None:
    bandit = make(policy)
    run_steps(bandit, CONTEXTS[:20], REWARDS[:20])
    refused(bandit, lambda: bandit.observe(*row, **given), text)


@pytest.mark.parametrize("policy", [p for p, _ in OTHERS], ids=[name for _, name in OTHERS])
def test_policies_that_can_not_learn_from_logs_say_so_and_change_nothing(policy: Any) -> None:
    bandit = make(policy)
    run_steps(bandit, CONTEXTS[:20], REWARDS[:20])
    text = f"{policy.__name__} can't learn from a log, which has the reward of one action a row"
    refused(bandit, lambda: bandit.observe(CONTEXTS[20], 0, 0.5), text)


def test_a_reward_is_in_the_reward_range() -> None:
    bandit = releaf.AdaptiveReleaf(2, 1, reward_range=(-10, 10), seed=0)
    bandit.observe([0.5], 0, -10)
    refused(bandit, lambda: bandit.observe([0.5], 0, 11), "reward is 11: expected a number in [-10, 10]")
