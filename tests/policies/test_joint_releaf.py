"""JointReleaf: one regression for many actions with features of their own."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from conformance import refused
from learner_comparison import full_state
from plain_joint import PlainJoint, marginals

import releaf

FEATURES, OWN = 3, 2


def planted(generator: np.random.Generator, actions: int) -> dict[str, list[float]]:
    return {f"a{i}": generator.random(OWN).tolist() for i in range(actions)}


def expected(context: Any, action: Any) -> float:
    """The reward depends on a cross of the first features, on the second of the context, on nothing else."""
    return float(0.5 + 1.2 * (context[0] - 0.5) * (action[0] - 0.5) + 0.2 * (context[1] - 0.5))


def live(bandit: Any, table: dict[str, Any], contexts: Any, seed: int = 1) -> None:
    generator = np.random.default_rng(seed)
    for context in contexts:
        choice = bandit.decide(context)
        bandit.learn(choice, float(generator.random() < expected(context, table[choice.action])))


def learn_at_random(bandit: Any, table: dict[str, Any], contexts: Any, seed: int = 1) -> None:
    generator = np.random.default_rng(seed)
    names = list(table)
    taken = [names[place] for place in generator.integers(len(names), size=len(contexts))]
    chances = [expected(context, table[name]) for context, name in zip(contexts, taken, strict=True)]
    bandit.learn_log(contexts, taken, (generator.random(len(contexts)) < chances).astype(float))


def test_it_estimates_as_the_plain_regression_does_step_by_step_while_actions_come_and_go() -> None:
    generator = np.random.default_rng(0)
    table: dict[Any, Any] = planted(generator, 5)
    bandit, twin = releaf.JointReleaf(table, FEATURES, seed=0), PlainJoint(FEATURES, OWN)
    for step in range(160):
        context = generator.random(FEATURES)
        choice = bandit.decide(context)
        reward = float(generator.random() < expected(context, table[choice.action]))
        bandit.learn(choice, reward)
        twin.learn(context, choice.action, np.array(table[choice.action]), reward)
        if step == 60:
            bandit.remove_action("a1")
            del table["a1"], twin.history["a1"]
            twin.effects.pop("a1", None)
        if step == 70:
            table["new"] = [0.9, 0.1]
            bandit.add_action("new", table["new"])
        if step % 4 == 0:
            context = generator.random(FEATURES)
            wanted = [twin.score(context, name, np.array(own)) for name, own in table.items()]
            estimates, spreads = bandit._estimates_and_spreads(context[None, :])
            np.testing.assert_allclose(estimates[0], [mean for mean, _ in wanted], atol=1e-7)
            np.testing.assert_allclose(spreads[0], [spread for _, spread in wanted], atol=1e-7)


def test_until_the_first_fit_the_weights_are_those_of_a_regression_with_an_effect_for_each_action() -> None:
    generator = np.random.default_rng(3)
    table = planted(generator, 3)
    bandit, twin = releaf.JointReleaf(table, FEATURES, seed=0), PlainJoint(FEATURES, OWN)
    rows, targets = [], []
    for name in ("a0", "a1", "a0", "a2", "a1", "a0", "a0"):
        context, reward = generator.random(FEATURES), float(generator.integers(2))
        bandit.observe(context, name, reward)
        effects = np.eye(3)[int(name[1])]
        rows.append(np.concatenate([twin.row(context, np.array(table[name])), effects]))
        targets.append(reward - 0.5)
    prior = np.concatenate([twin.prior(), np.full(3, 1 / 0.01)])
    matrix = np.array(rows)
    whole = np.linalg.inv(matrix.T @ matrix / 0.15 + np.diag(prior))
    weights = whole @ matrix.T @ np.array(targets) / 0.15
    np.testing.assert_allclose(bandit._state.weights, weights[:-3], atol=1e-12)
    np.testing.assert_allclose(bandit._state.covariance, whole[:-3, :-3], atol=1e-12)
    assert bandit._state.effects[0] == pytest.approx(weights[-3])


def test_a_replay_is_the_same_as_step_by_step_with_features_of_actions() -> None:
    generator = np.random.default_rng(5)
    table, contexts = planted(generator, 40), generator.random((300, FEATURES))
    rewards = np.array([[expected(context, own) for own in table.values()] for context in contexts])
    one_by_one, at_once = (releaf.JointReleaf(table, FEATURES, seed=3) for _ in range(2))
    for context, row in zip(contexts, rewards, strict=True):
        choice = one_by_one.decide(context)
        one_by_one.learn(choice, row[choice.index])
    releaf.replay(at_once, contexts, rewards)
    assert full_state(one_by_one) == full_state(at_once)


# --- slates ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("least", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("k", [1, 3, 7])
def test_marginal_probabilities_are_those_counted_over_all_levels_of_optimism(k: int, least: float) -> None:
    generator = np.random.default_rng(7)
    table = planted(generator, 7)
    bandit = releaf.JointReleaf(table, FEATURES, seed=0, optimism=1.5, least_probability=least)
    live(bandit, table, generator.random((60, FEATURES)))
    for context in generator.random((20, FEATURES)):
        estimates, spreads = bandit._estimates_and_spreads(context[None, :])
        scores = list(zip(estimates[0], spreads[0], strict=True))
        inclusions, firsts = marginals(scores, k, 1.5, least)
        choice = bandit.decide(context, k=k)
        assert inclusions.sum() == pytest.approx(k)
        rows = [bandit.actions.index(name) for name in choice.slate or ()]
        assert len(set(rows)) == k
        assert choice.slate_probabilities == pytest.approx([inclusions[row] for row in rows])
        assert choice.probability == pytest.approx(firsts[rows[0]])
        assert choice.action == (choice.slate or ())[0]


@pytest.mark.parametrize("learnt", [0, 60])
def test_slates_are_drawn_as_often_as_their_probabilities_say(learnt: int) -> None:
    generator = np.random.default_rng(11)
    table, draws, k = planted(generator, 6), 6_000, 3
    bandit = releaf.JointReleaf(table, FEATURES, seed=0, optimism=2.0, least_probability=0.03)
    live(bandit, table, generator.random((learnt, FEATURES)))
    context = generator.random(FEATURES)
    shown, first, told = np.zeros(6), np.zeros(6), dict[str, set[float]]()
    for state in range(draws):
        bandit.set_random_state(state * 7_919)
        choice = bandit.decide(context, k=k)
        bandit.discard_pending(choice)
        rows = [bandit.actions.index(name) for name in choice.slate or ()]
        shown[rows] += 1
        first[rows[0]] += 1
        for name, chance in zip(choice.slate or (), choice.slate_probabilities or (), strict=True):
            told.setdefault(str(name), set()).add(chance)
    estimates, spreads = bandit._estimates_and_spreads(context[None, :])
    inclusions, firsts = marginals(list(zip(estimates[0], spreads[0], strict=True)), k, 2.0, 0.03)
    deviation = 4.5 * np.sqrt(inclusions * (1 - inclusions) / draws) + 1e-12
    assert (np.abs(shown / draws - inclusions) < deviation).all()
    assert (np.abs(first / draws - firsts) < 4.5 * np.sqrt(firsts * (1 - firsts) / draws) + 1e-12).all()
    for row, name in enumerate(bandit.actions):
        assert sorted(told[str(name)]) == pytest.approx([inclusions[row]])


def test_equal_actions_share_their_probability() -> None:
    bandit = releaf.JointReleaf({name: [0.3] for name in "abcde"}, 1, seed=0)
    choice = bandit.decide([0.5], k=2)
    assert choice.probability == pytest.approx(1 / 5)
    assert choice.slate_probabilities == pytest.approx([2 / 5, 2 / 5])


def test_rewards_of_a_slate_are_learnt_each_for_its_action_and_absent_ones_are_not() -> None:
    generator = np.random.default_rng(2)
    table = planted(generator, 6)
    bandit, twin = releaf.JointReleaf(table, FEATURES, seed=0), PlainJoint(FEATURES, OWN)
    for context in generator.random((12, FEATURES)):
        choice = bandit.decide(context, k=3)
        first, _, last = choice.slate or ()
        bandit.learn(choice.id, {last: 1.0, first: 0.0})
        for name, reward in ((last, 1.0), (first, 0.0)):
            twin.learn(context, name, np.array(table[str(name)]), reward)
    assert bandit._state.counts.sum() == 24
    assert bandit.pending == 0
    np.testing.assert_allclose(bandit._state.weights, twin.weights, atol=1e-8)


def test_a_number_is_the_reward_of_the_first_action_of_a_slate() -> None:
    one, other = (releaf.JointReleaf({"a": [0.1], "b": [0.9]}, 1, seed=0) for _ in range(2))
    choice, same = one.decide([0.5], k=2), other.decide([0.5], k=2)
    one.learn(choice, 1.0)
    other.learn(same, {same.action: 1.0})
    assert full_state(one) == full_state(other)


def test_pending_slates_outlive_saving_and_the_removal_of_their_actions() -> None:
    table = {"a": [0.1], "b": [0.5], "c": [0.9]}
    bandit = releaf.JointReleaf(table, 1, seed=0)
    choice = bandit.decide([0.5], k=3)
    first, second, third = choice.slate or ()
    bandit.remove_action(first)
    again = releaf.from_bytes(bandit.to_bytes())
    assert full_state(again) == full_state(bandit)
    for learner in (bandit, again):
        learner.learn(choice.id, {second: 1.0, third: 0.0})
        assert learner.pending == 0
        assert learner._state.numbers[0] == 2
    assert full_state(again) == full_state(bandit)
    assert plain_arrays(again) == plain_arrays(releaf.from_bytes(again.to_bytes()))


def plain_arrays(bandit: Any) -> dict[str, Any]:
    return {name: array.tolist() for name, array in bandit._arrays().items()}


# --- actions of a request ---------------------------------------------------------------------------------


def test_actions_come_with_the_request_and_are_learnt_with_the_features_that_they_had() -> None:
    generator = np.random.default_rng(4)
    schema = releaf.Schema.of(["price", "heat"])
    bandit = releaf.JointReleaf({}, FEATURES, action_features=schema, seed=0)
    twin = PlainJoint(FEATURES, OWN)
    waiting = []
    for step in range(40):
        request = {f"a{step + place}": generator.random(OWN).tolist() for place in range(4)}
        context = generator.random(FEATURES)
        choice = bandit.decide(context, actions=request)
        assert choice.eligible == (tuple(request) if step else None)
        assert choice.action in request
        waiting.append((context, choice, request))
    for context, choice, request in waiting:  # each name has had other features since
        bandit.learn(choice, 1.0)
        twin.learn(context, choice.action, np.array(request[str(choice.action)]), 1.0)
    assert len(bandit.actions) == 43
    if not any(len(past) > 1 for past in twin.history.values()):
        np.testing.assert_allclose(bandit._state.weights, twin.weights, atol=1e-8)
    assert bandit._state.numbers[0] == 40


def test_features_of_none_keep_what_the_table_has() -> None:
    table = {"a": [0.1, 0.2], "b": [0.5, 0.5]}
    one, other = (releaf.JointReleaf(table, FEATURES, seed=0) for _ in range(2))
    context = [0.1, 0.2, 0.3]
    chosen = one.decide(context, actions={"b": None, "c": [0.3, 0.3]})
    same = other.decide(context, actions={"b": [0.5, 0.5], "c": [0.3, 0.3]})
    assert (chosen.action, chosen.probability, chosen.eligible) == (same.action, same.probability, same.eligible)
    assert full_state(one) == full_state(other)


def test_an_action_whose_features_change_keeps_its_effect() -> None:
    generator = np.random.default_rng(6)
    table = planted(generator, 4)
    bandit = releaf.JointReleaf(table, FEATURES, seed=0)
    live(bandit, table, generator.random((30, FEATURES)))
    before = bandit._state.effects.copy()
    bandit.set_action_features("a2", [0.9, 0.9])
    assert bandit._state.profiles[2, 1] == pytest.approx(0.8)
    np.testing.assert_allclose(bandit._state.effects, before)
    live(bandit, {**table, "a2": [0.9, 0.9]}, generator.random((30, FEATURES)))
    assert np.linalg.eigvalsh(bandit._state.covariance).min() > 0


def test_beyond_max_actions_those_that_were_eligible_least_recently_go() -> None:
    bandit = releaf.JointReleaf({}, 1, action_features=1, seed=0, max_actions=4)
    slate = bandit.decide([0.1], actions={"a": [0.1], "b": [0.2]}, k=2)
    bandit.decide([0.1], actions={"c": [0.3], "d": [0.4]})
    bandit.decide([0.1], actions={"b": None, "e": [0.5]})
    assert bandit.actions == ("b", "c", "d", "e")
    bandit.learn(slate, {"a": 1.0, "b": 0.0})
    assert bandit._state.numbers[0] == 2


def test_eligible_actions_are_chosen_as_if_there_were_no_others() -> None:
    generator = np.random.default_rng(8)
    table, contexts = planted(generator, 300), generator.random((80, FEATURES))
    bandit = releaf.JointReleaf(table, FEATURES, seed=0)
    live(bandit, table, contexts)
    pool = [f"a{i}" for i in range(200, 250, 2)]
    narrow = releaf.from_bytes(bandit.to_bytes())
    for name in table:
        if name not in pool:
            narrow.remove_action(name)
    for context in contexts[:30]:
        choice, other = bandit.decide(context, eligible=pool), narrow.decide(context)
        own = bandit.estimate(context[None, :])[0]
        assert choice.action in pool
        assert choice.eligible == tuple(pool)
        assert choice.index == bandit.actions.index(choice.action)
        if not choice.explored:
            assert choice.estimates == pytest.approx([own[bandit.actions.index(name)] for name in pool])
            assert choice.estimates is not None
            assert max(choice.estimates) == pytest.approx(max(narrow.estimate(context[None, :])[0]))
        assert 0 < (choice.probability or 0) <= 1
        assert other.action in pool
    assert bandit.decide(contexts[0], eligible=["a7"]).probability == 1.0


# --- what it learns --------------------------------------------------------------------------------------------


def test_it_knows_what_to_expect_of_actions_that_it_has_never_taken() -> None:
    generator = np.random.default_rng(9)
    table = planted(generator, 200)
    bandit = releaf.JointReleaf(table, FEATURES, seed=0)
    learn_at_random(bandit, table, generator.random((2_000, FEATURES)))
    for _ in range(50):
        bandit.add_action(None, generator.random(OWN).tolist())
    contexts = generator.random((200, FEATURES))
    profiles = (bandit._state.profiles[200:, [1, 3]] + 1) / 2
    truth = np.array([[expected(context, own) for own in profiles] for context in contexts])
    errors = bandit.estimate(contexts)[:, 200:] - truth
    assert np.sqrt((errors**2).mean()) < 0.4 * truth.std()


def test_an_action_with_many_rewards_departs_from_its_features() -> None:
    generator = np.random.default_rng(10)
    bandit = releaf.JointReleaf({name: [0.5] for name in ("good", "bad", "new")}, 1, seed=0)
    for context in generator.random((400, 1)):
        bandit.observe(context, "good", float(generator.random() < 0.8))
        bandit.observe(context, "bad", float(generator.random() < 0.2))
    good, bad, new = bandit.estimate([[0.5]])[0]
    assert good == pytest.approx(0.8, abs=0.06)
    assert bad == pytest.approx(0.2, abs=0.06)
    assert new == pytest.approx(0.5, abs=0.06)


def test_it_finds_the_features_and_crosses_that_matter() -> None:
    generator = np.random.default_rng(12)
    table = planted(generator, 100)
    bandit = releaf.JointReleaf(table, FEATURES, seed=0)
    learn_at_random(bandit, table, generator.random((3_000, FEATURES)))
    crosses = bandit.cross_relevance()
    assert crosses.sum() == pytest.approx(1.0)
    assert crosses["x0", "y0"] + crosses["x1", "every action"] > 0.85
    extreme = max(table, key=lambda name: abs(table[name][0] - 0.5))
    relevance = bandit.relevance()
    np.testing.assert_allclose(relevance.sum(axis=1), 1.0)
    assert relevance[extreme, "x0"] > 0.5
    assert relevance[extreme, "x2"] < 0.1


def test_an_explanation_adds_up_and_names_features_of_both_sides() -> None:
    menu: dict[str, dict[str, Any]] = {
        "tea": {"price": 2.0, "hot": True, "kind": "leaf"},
        "cola": {"price": 3.0, "hot": False, "kind": "sugar"},
        "milk": {"price": None, "hot": False, "kind": "leaf"},
    }
    bandit = releaf.JointReleaf(menu, features=["heat"], seed=0, reward_range=(0.0, 10.0))
    generator = np.random.default_rng(1)
    for context in generator.random((300, 1)):
        choice = bandit.decide(context)
        hot = menu[str(choice.action)]["hot"]
        bandit.learn(choice, 10.0 * float(generator.random() < (0.8 if hot == (context[0] < 0.5) else 0.3)))
    decision = bandit.decide({"heat": 0.1}, k=2)
    explanation = bandit.explain(decision)
    for known in explanation.actions:
        total = (known.base_rate or 0.0) + sum(term.effect for term in known.terms)
        assert known.estimate == pytest.approx(total)
    assert "heat = 0.1 and hot = True together" in explanation.text
    assert "base rate: all actions in all contexts" in explanation
    assert "first of 2" in explanation
    assert {"price missing", "kind = 'leaf'"} & {term.where for known in explanation.actions for term in known.terms}
    assert bandit.explain({"heat": 0.1}).headline.startswith("It would choose 'tea'")
    assert [one.estimate >= two.estimate for one, two in pairwise(explanation.actions)]  # type: ignore[operator]


def test_only_the_crosses_that_are_named_have_terms() -> None:
    table = planted(np.random.default_rng(0), 3)
    bandit = releaf.JointReleaf(table, FEATURES, crosses=[("x0", "y1")])
    every = bandit.cross_relevance()
    assert len(bandit._state.weights) == (1 + 6 + 4) + 3
    assert every.features == ("every action", "y0", "y1", "the action itself")
    assert releaf.from_bytes(bandit.to_bytes()).crosses == [["x0", "y1"]]
    assert len(releaf.JointReleaf(table, FEATURES, degree=1)._state.weights) == 4 * 3


# --- invalid input --------------------------------------------------------------------------------------------

Case = tuple[dict[str, Any], str]
BAD_REQUESTS: list[Case] = [
    ({"k": 0}, "k must be a whole number of at least 1, got k=0"),
    ({"k": 1.5}, "k must be a whole number of at least 1, got k=1.5"),
    ({"k": 4}, "k must be at most the number of eligible actions, 3, got k=4"),
    ({"k": 2, "eligible": ["a"]}, "k must be at most the number of eligible actions, 1, got k=2"),
    ({"eligible": [], "k": 1}, "eligible names no action: expected at least one of ('a', 'b', 'c')"),
    ({"eligible": ["a", "z"], "k": 1}, "eligible names an unknown action 'z': the actions are ('a', 'b', 'c')"),
    ({"eligible": ["a", "a"], "k": 1}, "eligible names 'a' twice: expected each action once"),
    ({"actions": {}}, "there is no action to choose from: expected at least one eligible action"),
    ({"actions": {"d": None}}, "action 'd' is new and has features None: expected its features"),
    ({"actions": {"d": [0.1, 1.5]}}, "action 'd': feature 'y1' is 1.5: expected a number in [0, 1]"),
    ({"actions": {"d": [0.1]}}, "action 'd': its features has 1 values, the schema has 2 (missing: 'y1')"),
    ({"actions": {"d": {"y0": 0.1, "z": 1}}}, "action 'd': its features lacks 'y1' and has unknown 'z'"),
    ({"actions": {"a": None}, "eligible": ["a"]}, "actions names the eligible actions already: expected eligible=None"),
]


@pytest.mark.parametrize(("arguments", "text"), BAD_REQUESTS, ids=[text for _, text in BAD_REQUESTS])
def test_a_bad_request_is_refused_and_changes_nothing(arguments: dict[str, Any], text: str) -> None:
    bandit = releaf.JointReleaf({name: [0.1, 0.2] for name in "abc"}, releaf.Schema(age=releaf.Quantile()), seed=0)
    bandit.decide([30.0])
    refused(bandit, lambda: bandit.decide([40.0], **arguments), text)


def test_a_bad_context_leaves_the_table_as_it_was() -> None:
    bandit = releaf.JointReleaf({"a": [0.1]}, 2, seed=0)
    refused(bandit, lambda: bandit.decide([0.5, 1.5], actions={"b": [0.2]}), "feature 'x1' is 1.5")
    refused(bandit, lambda: bandit.decide([0.5, 1.5], k=1), "feature 'x1' is 1.5")


def test_bad_rewards_of_a_slate_are_refused_and_change_nothing() -> None:
    bandit = releaf.JointReleaf({name: [0.1] for name in "abc"}, 1, seed=0)
    choice = bandit.decide([0.5], k=2)
    shown, (other,) = choice.slate or (), set("abc") - set(map(str, choice.slate or ()))
    refused(bandit, lambda: bandit.learn(choice, {other: 1.0}), f"have unknown ['{other}']: expected some of")
    refused(bandit, lambda: bandit.learn(choice, {shown[0]: 1.0, shown[1]: 2.0}), "reward is 2.0: expected a number in")
    refused(bandit, lambda: bandit.learn(choice, {}), "are empty: expected one, or call discard_pending")
    bandit.learn(choice, {shown[1]: 1.0})
    refused(bandit, lambda: bandit.learn(choice, {shown[0]: 1.0}), "is not pending")


BAD_ARGUMENTS: list[tuple[Any, dict[str, Any], str]] = [
    ({}, {}, "action_features is needed where there are no actions yet"),
    (["a", "b"], {"action_features": 2}, "action_features is given, but actions has names only"),
    ({"a": [0.1], "b": [0.1, 0.2]}, {}, "actions have features of different lengths, or none"),
    ({"a": {"p": 1.0}, "b": {}}, {}, "action 'b' lacks feature 'p', which others have; None where it is missing"),
    ({"a": [0.1]}, {"crosses": "some"}, "crosses must be 'all' or pairs of names of features, got crosses='some'"),
    ({"a": [0.1]}, {"crosses": [("x0", "z")]}, "crosses has unknown feature 'z' of the action: expected one of y0"),
    ({"a": [0.1]}, {"crosses": [("x0",)]}, "crosses must have pairs of a feature of the context and one of the action"),
    ({"a": [0.1]}, {"degree": 3}, "degree must be a whole number of at least 1 and at most 2, got degree=3"),
    ({"a": [0.1] * 40}, {"features": 40}, "terms are more than 3,000: name the crosses that may matter"),
    ({"a": [0.1], "b": [0.1]}, {"max_actions": 1}, "max_actions must be a whole number of at least 2"),
    ({"a": [1]}, {"action_features": {"p": releaf.Quantile()}}, "feature 'p' of the actions is a Quantile"),
]


@pytest.mark.parametrize(("actions", "arguments", "text"), BAD_ARGUMENTS, ids=[text for *_, text in BAD_ARGUMENTS])
def test_bad_arguments_are_refused(actions: Any, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        releaf.JointReleaf(actions, **{"features": 2, **arguments})


def test_adding_an_action_needs_its_features() -> None:
    bandit = releaf.JointReleaf({"a": {"p": 1.0, "q": "u"}, "b": {"p": 2.0, "q": "v"}}, 1, seed=0, max_actions=3)
    refused(bandit, lambda: bandit.add_action("c"), "action 'c' needs its features, got None: expected p, q")
    refused(bandit, lambda: bandit.add_action("c", {"p": 3.0, "q": "u"}), "action 'c': feature 'p' is 3.0")
    bandit.add_action("c", {"p": 1.5, "q": "u"})
    refused(bandit, lambda: bandit.add_action("d", {"p": 1.5, "q": "u"}), "there are max_actions=3 actions already")
    plain = releaf.JointReleaf(["a", "b"], 1)
    with pytest.raises(ValueError, match="action 'c' has features"):
        plain.add_action("c", [0.5])


def test_a_table_of_actions_is_read_from_a_data_frame() -> None:
    import pandas

    frame = pandas.DataFrame({"action": ["tea", "cola"], "price": [2.0, 3.0], "hot": [True, False]})
    table = releaf.ActionTable(frame)
    assert table.names == ("tea", "cola")
    assert table.values.tolist() == [[0.0, 1.5 / 3], [1.0, 0.5 / 3]]  # false, true, missing
    assert releaf.JointReleaf(table, 2).actions == ("tea", "cola")
    with pytest.raises(ValueError, match="actions has no column 'name' of names; it has action, price, hot"):
        releaf.ActionTable(frame, name="name")


def test_altered_slates_of_a_file_are_refused() -> None:
    bandit = releaf.JointReleaf({name: [0.1] for name in "abc"}, 1, seed=0)
    bandit.decide([0.5], k=2)
    header, arrays = bandit._contents()
    for name, value in (
        ("shown.numbers", np.array([[1, 3, 1]])),
        ("shown.numbers", np.array([[9, 2, 1]])),
        ("shown.actions", np.array([0, 7])),
        ("shown.profiles", np.full((2, 3), np.nan)),
    ):
        with pytest.raises(ValueError, match="its slates contradict the rest"):
            type(bandit)._revive(header, {**arrays, name: value})
