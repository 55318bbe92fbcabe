"""Traits, parameters and counters of every policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance import NAMES, POLICIES, VARIANT_NAMES, VARIANTS, make, takes
from learner_comparison import full_state, run_steps, stream

import releaf
from releaf import ensembles, policies
from releaf.evaluate import run
from releaf.policies import OnlinePolicy
from releaf.policies.class_lookup import policy_classes
from releaf.policies.parameters import parameter_defaults, parameters_of
from releaf.policy import ServedPolicy
from releaf.streams import Stream

CONTEXTS, REWARDS = stream(300, seed=4)
each_class = pytest.mark.parametrize("policy", POLICIES, ids=NAMES)
every_policy = pytest.mark.parametrize("policy", [*POLICIES, *VARIANTS], ids=[*NAMES, *VARIANT_NAMES])
OPTIONAL = {
    "finds_relevance": ("relevance",),
    "explains": ("explain",),
    "has_intervals": ("partition", "interval_rewards"),
    "has_effects": ("effect",),
    "mergeable": ("merge",),
}


@each_class
def test_a_class_overrides_the_optional_methods_that_its_traits_name(policy: Any) -> None:
    for trait, methods in OPTIONAL.items():
        for method in methods:
            overrides = getattr(policy, method) is not getattr(OnlinePolicy, method)
            assert overrides == getattr(policy.traits, trait), method


@each_class
def test_other_optional_methods_raise_and_name_the_class(policy: Any) -> None:
    bandit = make(policy)
    choice = bandit.decide(CONTEXTS[0])
    calls = {
        "finds_relevance": bandit.relevance,
        "explains": lambda: bandit.explain(choice),
        "has_intervals": lambda: bandit.partition(0),
        "has_effects": lambda: bandit.effect(0),
        "mergeable": lambda: bandit.merge(make(policy)),
    }
    for trait, call in calls.items():
        if getattr(policy.traits, trait):
            call()
        else:
            with pytest.raises(TypeError, match=f"^{policy.__name__} "):
                call()


@each_class
def test_it_has_all_that_a_service_needs(policy: Any) -> None:
    bandit = make(policy)
    members = {
        name for protocol in (releaf.Policy, ServedPolicy) for name in vars(protocol) if not name.startswith("_")
    }
    assert not [name for name in members if not hasattr(bandit, name)]


@each_class
def test_a_policy_is_built_again_from_its_parameters(policy: Any) -> None:
    bandit = make(policy)
    twin = make(policy, **parameters_of(bandit))
    assert parameters_of(twin) == parameters_of(bandit)
    assert full_state(twin) == full_state(bandit)


@each_class
def test_a_reward_range_is_a_parameter_of_every_policy(policy: Any) -> None:
    assert parameter_defaults(policy)["reward_range"] == (0.0, 1.0)
    assert policy.traits.has_reward_range
    assert make(policy).reward_range == (0.0, 1.0)


def test_parameters_have_the_order_and_the_defaults_of_the_constructor() -> None:
    assert dict(parameter_defaults(releaf.LinTS)) == {
        "seed": None,
        "spread": 0.25,
        "ridge": 1.0,
        "intercept": True,
        "reward_range": (0.0, 1.0),
        "max_pending": 100_000,
        "cost": None,
        "cost_weight": None,
        "spend_budget": None,
        "budget_period": 1_000,
        "control_share": 0.0,
        "control": "uniform",
    }
    assert list(parameter_defaults(ensembles.AdaBoost)) == ["seed", "reward_range"]


def test_classes_are_found_by_name_without_their_base_classes() -> None:
    assert sorted(policy_classes(policies, ensembles)) == NAMES


@every_policy
def test_labels_spent_are_the_decisions_whose_reward_was_requested(policy: Any) -> None:
    one_by_one, at_once = make(policy), make(policy)
    decisions = run_steps(one_by_one, CONTEXTS, REWARDS)
    asked = sum(decision[3] for decision in decisions)
    assert one_by_one.labels_spent == asked
    ledger = run(at_once, Stream(CONTEXTS, REWARDS, features=3, actions=(0, 1)))
    assert ledger.labels == at_once.labels_spent == asked
    assert ledger.prior_labels == at_once.prior_labels
    again = releaf.from_bytes(at_once.to_bytes())
    assert again.labels_spent == asked


def test_a_budget_limits_the_labels_spent() -> None:
    bandit = releaf.AdaptiveReleaf(2, 3, label_budget=20, seed=0)
    bandit.decide_many(CONTEXTS)
    assert bandit.labels_spent == bandit.pending <= 20
    bandit.observe(CONTEXTS[0], 0, 0.5)
    assert bandit.labels_spent <= 20, "a reward that was not requested costs nothing"


@every_policy
def test_a_discarded_decision_is_not_pending_and_nothing_else_changes(policy: Any) -> None:
    bandit = make(policy)
    choice = bandit.decide(CONTEXTS[0])
    before = bandit.to_bytes()
    if not choice.wants_reward:
        bandit.discard_pending(choice)
        assert bandit.to_bytes() == before
        return
    bandit.discard_pending(choice.id)
    assert not bandit.is_pending(choice.id)
    with pytest.raises(ValueError, match="is not pending"):
        bandit.learn(choice, 0.5)
    bandit.discard_pending(choice)
    with pytest.raises(ValueError, match="made by another learner"):
        bandit.discard_pending(make(policy).decide(CONTEXTS[0]))


def test_a_label_teaches_the_rewards_of_all_actions() -> None:
    bandit = releaf.AdaptiveReleaf(["no", "yes"], 1, label_budget=50, seed=0)
    draw = np.random.default_rng(0)
    for value in draw.random(200):
        bandit.learn_label([value], "yes" if value > 0.5 else "no", only_if_requested=True)
    assert bandit.observations == 2 * bandit.labels_spent <= 100
    assert bandit.pending == 0
    assert not bandit.learn_label([0.5], None)
    estimates = bandit.estimate([[0.1], [0.9]])
    assert estimates.argmax(axis=1).tolist() == [0, 1]


@each_class
def test_labels_left_are_a_number_only_where_there_is_a_budget(policy: Any) -> None:
    assert make(policy).labels_left is None
    if takes(policy, "label_budget"):
        bandit = make(policy, label_budget=7)
        contexts = np.random.default_rng(0).random((200, 3))
        left = [bandit.labels_left]
        for context in contexts:
            choice = bandit.decide(context)
            assert bandit.labels_left == left[-1] - choice.wants_reward
            left.append(bandit.labels_left)
            if choice.wants_reward:
                bandit.learn(choice, float(context[choice.index] > 0.5))
        assert left[0] == 7
        assert left[-1] == 7 - bandit.labels_spent < 7
        assert releaf.from_bytes(bandit.to_bytes()).labels_left == left[-1]
