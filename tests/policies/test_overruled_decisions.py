"""Overruled decisions: the reward of the action that was taken instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance import LOGGED, NAMES, POLICIES, make, refused, takes, wanted
from learner_comparison import full_state, run_steps, stream

import releaf

CONTEXTS, REWARDS = stream(600, actions=3, seed=4)
ACTIONS = ["wait", "treat", "refer"]
all_that_read_logs = pytest.mark.parametrize("policy", LOGGED, ids=[policy.__name__ for policy in LOGGED])


def options(policy: type[Any], observe: str = "always") -> dict[str, Any]:
    """So that those which can choose learn every reward."""
    return {"observe": observe} if takes(policy, "control_divisor") else {}


@all_that_read_logs
def test_a_reward_of_the_action_taken_instead_is_learnt_as_from_a_log(policy: Any) -> None:
    bandit, twin = (make(policy, ACTIONS, **options(policy)) for _ in range(2))
    taken = np.random.default_rng(1).integers(3, size=400)
    overruled = 0
    for context, rewards, index in zip(CONTEXTS, REWARDS, taken, strict=False):
        choice = bandit.decide(context)
        overruled += choice.index != index
        bandit.learn(choice, float(rewards[index]), action=ACTIONS[index])
    twin.learn_log(CONTEXTS[:400], [ACTIONS[index] for index in taken], REWARDS[np.arange(400), taken])
    assert overruled > 100
    assert bandit.pending == 0
    known, expected = full_state(bandit), full_state(twin)
    if policy is releaf.AdaptiveReleaf or policy.traits.takes_action_features:  # a log needs no draws
        assert known.pop("policy.clock") != expected.pop("policy.clock")
    assert known == expected


@all_that_read_logs
def test_the_action_chosen_may_be_named(policy: Any) -> None:
    bandit, twin = make(policy, ACTIONS), make(policy, ACTIONS)
    for context, rewards in zip(CONTEXTS[:200], REWARDS, strict=False):
        ours, theirs = bandit.decide(context), twin.decide(context)
        if ours.wants_reward:
            bandit.learn(ours, wanted(bandit, rewards, ours), action=ours.action)
            twin.learn(theirs.id, wanted(twin, rewards, theirs))
    assert full_state(bandit) == full_state(twin)


@all_that_read_logs
def test_a_late_reward_may_be_of_an_action_that_came_since(policy: Any) -> None:
    bandit = make(policy, ["wait", "treat"], **options(policy))
    choices = bandit.decide_many(CONTEXTS[:20])
    bandit.add_action("refer")
    for choice in choices[::2]:
        bandit.learn(choice.id, 1.0, "refer")
    assert bandit.pending == 10
    again = releaf.from_bytes(bandit.to_bytes())
    assert run_steps(again, CONTEXTS[20:80], REWARDS[20:80]) == run_steps(bandit, CONTEXTS[20:80], REWARDS[20:80])


def test_overruled_it_learns_which_action_is_good() -> None:
    bandit = releaf.LinUCB(ACTIONS, 1, seed=0)
    for _ in range(50):
        for action, reward in zip(ACTIONS, (0.1, 0.2, 0.9), strict=True):
            bandit.learn(bandit.decide([0.5]), reward, action)
    assert bandit.decide([0.5]).action == "refer"


@pytest.mark.parametrize("policy", POLICIES, ids=NAMES)
def test_an_action_that_can_not_have_been_taken_is_refused(policy: Any) -> None:
    bandit = make(policy, ACTIONS)
    choice = bandit.decide(CONTEXTS[0])
    if bandit.observation_mode == "never":
        refused(bandit, lambda: bandit.learn(choice, 1.0, action="wait"), "never requests a reward")
    elif bandit.observation_mode in ("all-actions", "labels"):
        text = f"makes no difference where the rewards of all actions are learnt (observe={bandit.observation_mode!r})"
        refused(bandit, lambda: bandit.learn(choice, [1.0, 0.0, 0.0], action="wait"), text)
    elif not policy.traits.learns_from_logs:
        other = ACTIONS[choice.index - 1]
        text = f"can't learn the reward of {other!r}: expected the action that it chose, {choice.action!r}"
        refused(bandit, lambda: bandit.learn(choice, 1.0, action=other), text)
        bandit.learn(choice, 1.0, action=choice.action)
    else:
        refused(bandit, lambda: bandit.learn(choice, 1.0, action="no"), "unknown action 'no': the actions are ('wait',")
        refused(bandit, lambda: bandit.learn(choice, 1.5, action="wait"), "reward is 1.5: expected a number in [0, 1]")
        refused(bandit, lambda: bandit.learn(choice, 1.0, action=[1]), "an action's name must be text", TypeError)
        bandit.learn(choice, 1.0, action="wait")
        refused(bandit, lambda: bandit.learn(choice, 1.0, action="wait"), "is not pending")


@pytest.mark.parametrize("further", [{"observe": "labels"}, {"observe": "all-actions"}])
def test_where_all_rewards_are_told_the_action_taken_makes_no_difference(further: Any) -> None:
    policy: Any = releaf.AdaptiveReleaf if further["observe"] == "labels" else releaf.Releaf
    bandit = policy(ACTIONS, 3, seed=0, **further)
    choice = bandit.decide(CONTEXTS[0])
    refused(bandit, lambda: bandit.learn(choice, [1.0, 0.0, 0.0], "wait"), "action='wait' makes no difference")


@pytest.mark.parametrize("further", [{}, {"label_budget": 300}, {"reward_range": (0.0, 5.0)}])
def test_the_adaptive_learner_takes_overruled_rewards_in_all_its_ways(further: Any) -> None:
    bandit = releaf.AdaptiveReleaf(ACTIONS, 3, seed=0, **further)
    highest, whims = bandit.reward_range[1], np.random.default_rng(2).integers(3, size=len(CONTEXTS))
    for context, whim in zip(CONTEXTS, whims, strict=True):
        choice = bandit.decide(context)
        if choice.wants_reward:
            instead = ACTIONS[whim]
            bandit.learn(choice, highest if instead == "refer" else 0.0, action=instead)
    assert bandit.preview(CONTEXTS[0]).action == "refer"
    assert bandit.estimate(CONTEXTS[:20])[:, 2].min() > 0.7 * highest
