"""Frozen policies decide as the library does: the same action for the same seed, with the same probability."""

from __future__ import annotations

import numpy as np
import pytest
from frozen_policies import EvaluatorProcess, frozen_text
from frozen_streams import (
    ACTIONS,
    NUMBERS,
    POLICIES,
    SCHEMA,
    cases_of,
    learn_stream,
    random_contexts,
    seeds_of,
)

import releaf
from releaf.policies.previews import preview_states

CONTEXTS = 10_000
PROBABILITIES = 1_000  # of the contexts: a preview one by one takes long for some policies


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("schema", [SCHEMA, NUMBERS], ids=["all kinds of features", "numbers"])
def test_ten_thousand_decisions_are_those_of_the_library(
    name: str, schema: releaf.Schema, node: EvaluatorProcess, plain_python: EvaluatorProcess
) -> None:
    make, parameters = POLICIES[name]
    draw = np.random.default_rng(5)
    policy = learn_stream(make(ACTIONS, schema, seed=1, **parameters), schema, 900, draw)
    contexts = random_contexts(schema, draw, CONTEXTS)
    seeds = seeds_of(preview_states(7, CONTEXTS))
    expected = policy.preview_actions(contexts, seed=7)
    text = frozen_text(policy)
    in_python, in_node = (each.decide(text, cases_of(contexts, seeds)) for each in (plain_python, node))
    assert [made["index"] for made in in_python] == expected.tolist()
    assert [made["index"] for made in in_node] == expected.tolist()
    of_python, of_node = (np.array([made["probabilities"] for made in each]) for each in (in_python, in_node))
    assert np.abs(of_python - of_node).max() <= 1e-12
    assert np.abs(of_python.sum(axis=1) - 1.0).max() <= 1e-12
    for context, seed, made in list(zip(contexts, seeds, in_python, strict=True))[:PROBABILITIES]:
        policy.set_random_state(seed - 2**64 if seed >= 2**63 else seed)
        own = policy.preview(context)
        assert own.action == made["action"]
        assert own.probability is None or abs(own.probability - made["probability"]) <= 1e-12


@pytest.mark.parametrize("steps", [0, 1, 3, 20])
@pytest.mark.parametrize("name", POLICIES)
def test_decisions_after_few_rewards_are_those_of_the_library(
    name: str, steps: int, node: EvaluatorProcess, plain_python: EvaluatorProcess
) -> None:
    make, parameters = POLICIES[name]
    draw = np.random.default_rng(steps)
    policy = learn_stream(make(ACTIONS, SCHEMA, seed=1, **parameters), SCHEMA, steps, draw)
    contexts, seeds = random_contexts(SCHEMA, draw, 200), seeds_of(preview_states(2, 200))
    expected = policy.preview_actions(contexts, seed=2).tolist()
    for each in (node, plain_python):
        assert [made["index"] for made in each.decide(frozen_text(policy), cases_of(contexts, seeds))] == expected


@pytest.mark.parametrize("name", [name for name in POLICIES if name.startswith("AdaptiveReleaf")])
def test_all_probabilities_of_adaptive_releaf_are_those_of_its_next_decision(name: str, node: EvaluatorProcess) -> None:
    make, parameters = POLICIES[name]
    draw = np.random.default_rng(11)
    policy = learn_stream(make(ACTIONS, SCHEMA, seed=1, **parameters), SCHEMA, 400, draw)
    contexts = random_contexts(SCHEMA, draw, 500)
    frozen = releaf.frozen.read_policy(frozen_text(policy))
    in_node = node.decide(frozen_text(policy), cases_of(contexts, [0] * 500))
    for context, made in zip(contexts, in_node, strict=True):
        policy.preview(context)
        expected = policy._state.chances
        assert np.abs(np.array(frozen.probabilities(context)) - expected).max() <= 1e-12
        assert np.abs(np.array(made["probabilities"]) - expected).max() <= 1e-12


def test_a_learner_with_a_label_budget_takes_the_best_known_action(
    node: EvaluatorProcess, plain_python: EvaluatorProcess
) -> None:
    draw = np.random.default_rng(3)
    policy = learn_stream(releaf.AdaptiveReleaf(ACTIONS, SCHEMA, seed=0, label_budget=150), SCHEMA, 600, draw)
    contexts = random_contexts(SCHEMA, draw, 1_000)
    best = policy.estimate(contexts).argmax(axis=1).tolist()
    for each in (node, plain_python):
        made = each.decide(frozen_text(policy), cases_of(contexts, [1] * 1_000))
        assert [one["index"] for one in made] == best
        assert {one["probability"] for one in made} == {1.0}


def test_a_random_candidate_of_releaf_has_its_exact_probability() -> None:
    # contradictory means around every feature: no candidate is relevant, and one is drawn for each action
    policy = releaf.Releaf(3, 3, seed=0, observe="always", lipschitz=1e-3, control_divisor=1e12)
    draw = np.random.default_rng(0)
    for context in draw.random((3_000, 3)):
        policy.learn(policy.decide(context), float(draw.random()))
    frozen = releaf.frozen.read_policy(frozen_text(policy))
    shared = 0
    for context in draw.random((20, 3)).tolist():
        counts = np.bincount([frozen.decide(context, seed=seed).index for seed in range(4_000)], minlength=3) / 4_000
        exact = np.array(frozen.probabilities(context))
        assert np.abs(counts - exact).max() < 4 * 0.5 / np.sqrt(4_000)
        shared += exact.min() > 0.0
    assert shared > 0
    contexts, seeds = draw.random((1_000, 3)), seeds_of(preview_states(3, 1_000))
    made = [frozen.decide(context, seed=seed).index for context, seed in zip(contexts.tolist(), seeds, strict=True)]
    assert made == policy.preview_actions(contexts, seed=3).tolist()


def test_a_frozen_policy_does_not_change_and_needs_a_seed_only_to_be_reproduced() -> None:
    policy = releaf.frozen.read_policy(frozen_text(releaf.Random(4, 2, seed=0)))
    seeds = [policy.decide([0.1, 0.2]).seed for _ in range(10)]
    assert len(set(seeds)) == 10
    assert all(0 <= seed < 2**53 for seed in seeds)
    made = policy.decide([0.1, 0.2])
    assert policy.decide([0.1, 0.2], seed=made.seed) == made


def test_export_leaves_the_learner_as_it_was() -> None:
    draw = np.random.default_rng(0)
    for make in (releaf.Releaf, releaf.AdaptiveReleaf):
        policy = learn_stream(make(ACTIONS, NUMBERS, seed=0), NUMBERS, 300, draw)
        before = policy.to_bytes()
        frozen_text(policy)
        assert policy.to_bytes() == before


@pytest.mark.parametrize("name", POLICIES)
def test_decisions_among_eligible_actions_are_those_of_the_library(
    name: str, node: EvaluatorProcess, plain_python: EvaluatorProcess
) -> None:
    make, parameters = POLICIES[name]
    draw = np.random.default_rng(4)
    for steps in (2, 300):
        policy = learn_stream(make(ACTIONS, SCHEMA, seed=1, **parameters), SCHEMA, steps, draw)
        cases = cases_of(random_contexts(SCHEMA, draw, 150), seeds_of(preview_states(steps, 150)))
        for case in cases:
            case["eligible"] = [ACTIONS[place] for place in draw.permutation(3)[: draw.integers(1, 4)].tolist()]
        in_python, in_node = (each.decide(frozen_text(policy), cases) for each in (plain_python, node))
        for case, one, other in zip(cases, in_python, in_node, strict=True):
            seed = int(case["seed"])
            policy.set_random_state(seed - 2**64 if seed >= 2**63 else seed)
            own = policy.preview(case["context"], eligible=case["eligible"])
            assert one["action"] == other["action"] == own.action
            assert own.probability is None or abs(own.probability - one["probability"]) <= 1e-12
            assert np.abs(np.array(one["probabilities"]) - other["probabilities"]).max() <= 1e-12
            assert all(
                chance == 0.0 or action in case["eligible"]
                for action, chance in zip(ACTIONS, one["probabilities"], strict=True)
            )
