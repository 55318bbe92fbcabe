"""HybridLinUCB: shared weights and weights of each action, for actions with features of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance import refused
from learner_comparison import full_state
from plain_hybrid import PlainHybrid

import releaf

FEATURES, OWN = 3, 2


def planted(generator: np.random.Generator, actions: int) -> dict[str, list[float]]:
    return {f"a{i}": generator.random(OWN).tolist() for i in range(actions)}


def expected(context: Any, action: Any) -> float:
    return float(0.5 + 1.2 * (context[0] - 0.5) * (action[0] - 0.5) + 0.2 * (context[1] - 0.5))


def require_equal_scores(bandit: Any, twin: PlainHybrid, table: dict[str, Any], context: Any) -> None:
    wanted = [twin.score(context, name, own) for name, own in table.items()]
    estimates, spreads = bandit._estimates_and_spreads(context[None, :])
    np.testing.assert_allclose(estimates[0], [mean for mean, _ in wanted], atol=1e-8)
    np.testing.assert_allclose(spreads[0], [spread for _, spread in wanted], atol=1e-8)


@pytest.mark.parametrize("ridge", [1.0, 0.05])
def test_it_is_the_regression_on_all_weights_while_actions_come_and_go_and_change(ridge: float) -> None:
    generator = np.random.default_rng(0)
    table = planted(generator, 5)
    bandit = releaf.HybridLinUCB(table, FEATURES, seed=0, ridge=ridge)
    twin = PlainHybrid(FEATURES, OWN, ridge)
    for step in range(120):
        context = generator.random(FEATURES)
        choice = bandit.decide(context)
        reward = float(generator.random() < expected(context, table[str(choice.action)]))
        bandit.learn(choice, reward)
        twin.learn(context, choice.action, table[str(choice.action)], reward)
        if step == 40:
            bandit.remove_action("a1")
            del table["a1"]
        if step == 50:
            table["new"] = [0.9, 0.1]
            bandit.add_action("new", table["new"])
        if step == 60:  # past rewards stay with the features that the action had
            table["a2"] = [0.2, 0.7]
            bandit.set_action_features("a2", table["a2"])
        if step % 10 == 0:
            require_equal_scores(bandit, twin, table, generator.random(FEATURES))


def test_the_action_with_the_highest_bound_is_taken_and_its_probability_is_one() -> None:
    generator = np.random.default_rng(1)
    table, alpha = planted(generator, 150), 0.7  # more than a block of the kernel
    bandit = releaf.HybridLinUCB(table, FEATURES, seed=0, alpha=alpha)
    for context in generator.random((200, FEATURES)):
        estimates, spreads = bandit._estimates_and_spreads(context[None, :])
        bounds = (estimates + alpha * spreads)[0]
        choice = bandit.decide(context, k=4)
        order = np.argsort(-bounds)[:4]
        assert choice.slate == tuple(bandit.actions[place] for place in order)
        assert choice.probability == 1.0
        assert choice.slate_probabilities == pytest.approx([1.0] * 4)
        assert choice.explored == bool((estimates[0, order] < np.sort(estimates[0])[-4]).any())
        assert choice.slate is not None
        bandit.learn(choice, {choice.slate[1]: expected(context, table[str(choice.slate[1])])})


def test_equal_actions_share_their_probability_and_a_floor_keeps_to_the_rest() -> None:
    menu = {name: [0.3] for name in "abcde"}
    assert releaf.HybridLinUCB(menu, 1, seed=0).decide([0.5]).probability == pytest.approx(0.2)
    bandit = releaf.HybridLinUCB(menu, 1, seed=0, least_probability=0.04)
    for value in np.random.default_rng(0).random(100):
        bandit.learn(bandit.decide([value]), 0.3)
    chances = {bandit.decide([0.5]).probability or 0.0 for _ in range(300)}
    assert min(chances) == pytest.approx(0.04)
    assert max(chances) == pytest.approx(0.84)


def test_a_replay_is_the_same_as_step_by_step_with_masks() -> None:
    generator = np.random.default_rng(5)
    table, contexts = planted(generator, 40), generator.random((300, FEATURES))
    rewards = np.array([[expected(context, own) for own in table.values()] for context in contexts])
    mask = generator.random(rewards.shape) < 0.6
    mask[:, 0] = True
    one_by_one, at_once = (releaf.HybridLinUCB(table, FEATURES, seed=3) for _ in range(2))
    names = np.array(list(table))
    for context, row, possible in zip(contexts, rewards, mask, strict=True):
        choice = one_by_one.decide(context, eligible=names[possible].tolist())
        one_by_one.learn(choice, row[choice.index])
    releaf.replay(at_once, contexts, rewards, eligible=mask)
    assert full_state(one_by_one) == full_state(at_once)


def test_actions_come_with_the_request_and_are_learnt_with_the_features_that_they_had() -> None:
    generator = np.random.default_rng(4)
    bandit = releaf.HybridLinUCB({}, FEATURES, action_features=releaf.Schema.of(["price", "heat"]), seed=0)
    twin, waiting = PlainHybrid(FEATURES, OWN), []
    for step in range(30):
        request = {f"a{step % 7 + place}": generator.random(OWN).tolist() for place in range(4)}
        context = generator.random(FEATURES)
        choice = bandit.decide(context, actions=request)
        assert choice.action in request
        waiting.append((context, choice, request))
    for context, choice, request in waiting:  # names have had other features since
        bandit.learn(choice, 1.0)
        twin.learn(context, choice.action, request[str(choice.action)], 1.0)
    now = {
        str(name): ((bandit._state.profiles[place, 1:] + 1) / 2).tolist() for place, name in enumerate(bandit.actions)
    }
    require_equal_scores(bandit, twin, now, generator.random(FEATURES))


def test_the_reward_of_an_action_that_was_removed_teaches_the_shared_weights() -> None:
    generator = np.random.default_rng(7)
    table = planted(generator, 3)
    bandit, twin = releaf.HybridLinUCB(table, FEATURES, seed=0), PlainHybrid(FEATURES, OWN)
    context = generator.random(FEATURES)
    choice = bandit.decide(context, k=2)
    first, second = choice.slate or ()
    bandit.remove_action(first)
    bandit.learn(choice.id, {first: 1.0, second: 0.0})
    for name, reward in ((first, 1.0), (second, 0.0)):
        twin.learn(context, name, table[str(name)], reward)
    left = {name: own for name, own in table.items() if name != first}
    require_equal_scores(bandit, twin, left, generator.random(FEATURES))


def test_new_actions_are_estimated_by_their_features_and_known_ones_depart_from_them() -> None:
    generator = np.random.default_rng(9)
    table = planted(generator, 100)
    bandit = releaf.HybridLinUCB(table, FEATURES, seed=0)
    names = list(table)
    for context in generator.random((4_000, FEATURES)):
        name = names[int(generator.integers(100))]
        bandit.observe(context, name, float(generator.random() < expected(context, table[name])))
    new = {f"new {i}": generator.random(OWN).tolist() for i in range(50)}
    for name, own in new.items():
        bandit.add_action(name, own)
    contexts = generator.random((200, FEATURES))
    truth = np.array([[expected(context, own) for own in new.values()] for context in contexts])
    errors = bandit.estimate(contexts)[:, 100:] - truth
    assert np.sqrt((errors**2).mean()) < 0.4 * truth.std()
    bandit.add_action("surprise", [0.5, 0.5])
    for context in generator.random((300, FEATURES)):
        bandit.observe(context, "surprise", 1.0)
    assert bandit.estimate(contexts)[:, -1].mean() > 0.95


def test_a_saved_learner_goes_on_as_the_original() -> None:
    generator = np.random.default_rng(2)
    table = planted(generator, 6)
    bandit = releaf.HybridLinUCB(table, FEATURES, seed=0, alpha=0.3, least_probability=0.05)
    pending = [bandit.decide(context, k=2) for context in generator.random((5, FEATURES))]
    again = releaf.from_bytes(bandit.to_bytes())
    for learner in (bandit, again):
        for choice in pending:
            learner.learn(choice.id, 1.0)
    assert full_state(again) == full_state(bandit)
    context = generator.random(FEATURES)
    assert again.decide(context).action == bandit.decide(context).action


BAD_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"alpha": -1.0}, "alpha must be"),
    ({"ridge": 0.0}, "ridge must be"),
    ({"ridge": 1e-12}, "ridge must be at least 1e-08 for accurate updates, got ridge=1e-12"),
    ({"least_probability": 0.9}, "least_probability must be"),
    ({"max_actions": 0}, "max_actions must be a whole number of at least 1"),
    ({"features": 60, "action_features": 60, "actions": {}}, "are more than 3,000: expected fewer features"),
]


@pytest.mark.parametrize(("arguments", "text"), BAD_ARGUMENTS, ids=[text for _, text in BAD_ARGUMENTS])
def test_bad_arguments_are_refused(arguments: dict[str, Any], text: str) -> None:
    given = {"actions": {"a": [0.1]}, "features": FEATURES, **arguments}
    with pytest.raises(ValueError, match=text):
        releaf.HybridLinUCB(**given)


def test_a_bad_request_is_refused_and_changes_nothing() -> None:
    bandit = releaf.HybridLinUCB({name: [0.1, 0.2] for name in "abc"}, FEATURES, seed=0)
    context = [0.1, 0.2, 0.3]
    refused(bandit, lambda: bandit.decide(context, k=4), "k must be at most the number of eligible actions, 3, got k=4")
    refused(bandit, lambda: bandit.decide(context, actions={"d": None}), "action 'd' is new and has features None")


def test_a_file_whose_regressions_contradict_each_other_is_refused() -> None:
    bandit = releaf.HybridLinUCB({"a": [0.1]}, 1, seed=0)
    for name in ("inverse", "own_inverse"):
        arrays = bandit._state.learnt_arrays()
        arrays[name][..., 0, 1] += 1e-9
        with pytest.raises(ValueError, match="its regressions contradict the rest"):
            bandit._check_state(bandit._state.with_learnt(arrays))
