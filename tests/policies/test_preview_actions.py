"""preview_actions: the actions of `preview` for many contexts, row by row and independent of each other."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from conformance import NAMES, POLICIES, VARIANT_NAMES, VARIANTS, make
from learner_comparison import full_state, run_steps, stream

import releaf
from releaf.policies.previews import preview_states

CONTEXTS, REWARDS = stream(700, actions=3, seed=8)
every_policy = pytest.mark.parametrize("policy", [*POLICIES, *VARIANTS], ids=[*NAMES, *VARIANT_NAMES])


def previewed_one_by_one(bandit: Any, contexts: Any, seed: int) -> list[int]:
    found = []
    for context, state in zip(contexts, preview_states(seed, len(contexts)).tolist(), strict=True):
        twin = copy.deepcopy(bandit)
        twin.set_random_state(state)
        found.append(twin.preview(context).index)
    return found


@every_policy
@pytest.mark.parametrize("steps", [0, 5, 511, 600])  # 512: where AdaptiveReleaf sets its levels
def test_previewed_actions_are_those_of_previews_one_by_one_and_change_nothing(policy: Any, steps: int) -> None:
    bandit = make(policy, 3)
    run_steps(bandit, CONTEXTS[:steps], REWARDS[:steps])
    before = full_state(bandit)
    found = bandit.preview_actions(CONTEXTS[600:], seed=3)
    assert found.tolist() == previewed_one_by_one(bandit, CONTEXTS[600:], seed=3)
    assert full_state(bandit) == before
    assert bandit.preview_actions(CONTEXTS[600:], seed=3).tolist() == found.tolist()
    assert bandit.preview_actions(CONTEXTS[:0]).tolist() == []


@pytest.mark.parametrize("given", [{"label_budget": 60}, {"observation_cost": 0.05}, {"delta": 0.05, "epsilon": 0.1}])
def test_previews_of_a_learner_that_requests_rewards_spend_nothing(given: dict[str, Any]) -> None:
    bandit = releaf.AdaptiveReleaf(3, 3, seed=0, **given)
    run_steps(bandit, CONTEXTS[:300], REWARDS[:300])
    before = full_state(bandit)
    found = bandit.preview_actions(CONTEXTS[600:], seed=1)
    assert found.tolist() == previewed_one_by_one(bandit, CONTEXTS[600:], seed=1)
    assert full_state(bandit) == before


@every_policy
def test_a_preview_between_a_decision_and_its_reward_changes_nothing(policy: Any) -> None:
    bandit, twin = make(policy, 3), make(policy, 3)
    for context, rewards, other in zip(CONTEXTS[:80], REWARDS[:80], CONTEXTS[600:680], strict=True):
        for learner in (bandit, twin):
            choice = learner.decide(context)
            if learner is bandit:
                bandit.preview(other)
            if choice.wants_reward:
                learner.learn(choice, rewards.tolist() if learner.wants_all else float(rewards[choice.index]))
    assert full_state(bandit) == full_state(twin)


def test_a_bad_context_is_named_and_the_learner_is_unchanged() -> None:
    bandit = releaf.LinUCB(2, 2)
    with pytest.raises(ValueError, match="feature 'x1' of row 1"):
        bandit.preview_actions([[0.5, 0.5], [0.5, 1.5]])
    assert np.array_equal(bandit.preview_actions([[0.5, 0.5]]), [0])
