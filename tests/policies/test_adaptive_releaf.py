"""AdaptiveReleaf: its documented guarantees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import releaf
from releaf import streams
from releaf.core.adaptive.engine import MOST_WINDOW
from releaf.core.adaptive.state import FORGET_TO
from releaf.policies.adaptive_parameters import LEAST_WINDOW


def wave(steps: int, features: int = 3, actions: int = 2, seed: int = 0, binary: bool = True) -> tuple[Any, Any]:
    """Contexts as exact in half as in full precision, and rewards of which an interaction decides."""
    generator = np.random.default_rng(seed)
    contexts = generator.random((steps, features)).astype(np.float32).astype(np.float64)
    contexts[:, 0] = np.round(contexts[:, 0] * 3) / 4  # with ties
    first = np.where((contexts[:, 1] > 0.4) ^ (contexts[:, 2] > 0.6), 0.85, 0.15)
    expected = np.stack([first, 1.0 - first, 0.3 + 0.3 * contexts[:, 0]][:actions], axis=1)
    rewards = generator.random(expected.shape) < expected if binary else np.clip(expected, 0, 1)
    return contexts, rewards.astype(np.float64)


def total_error(stream: streams.Stream, **arguments: Any) -> tuple[float, int]:
    bandit = releaf.AdaptiveReleaf(stream.actions, len(stream.features), seed=0, **arguments)
    trace = releaf.replay(bandit, stream.contexts, stream.rewards)
    return 1.0 - float(trace.rewards.mean()), int(trace.observed.sum())


def regret(stream: streams.Stream, bandit: Any) -> Any:
    actions = releaf.replay(bandit, stream.contexts, stream.rewards).actions
    expected = np.asarray(stream.expected)
    return expected.max(axis=1) - expected[np.arange(len(actions)), actions]


def test_breast_cancer() -> None:
    error, _ = total_error(streams.breast_cancer())
    assert error <= 0.006
    error, labels = total_error(streams.breast_cancer(), label_budget=1_500)
    assert error <= 0.015
    assert labels <= 1_500


def test_it_beats_linucb_where_features_interact() -> None:
    contexts, rewards = wave(3_000)
    ours = releaf.replay(releaf.AdaptiveReleaf(2, 3, seed=0), contexts, rewards)
    theirs = releaf.replay(releaf.LinUCB(2, 3, seed=0), contexts, rewards)
    assert 1 - ours.rewards.mean() < 0.6 * (1 - theirs.rewards.mean())


@pytest.mark.parametrize("relevant", [[[38], [47]], [[6], [6]], [[38, 47], [10, 39]], [[12, 30], [3, 46]]])
def test_the_relevant_features_are_named(relevant: list[list[int]]) -> None:
    stream = streams.generate(50_000, features=50, actions=2, relevant=relevant, seed=1)
    bandit = releaf.AdaptiveReleaf(2, 50, seed=0)
    releaf.replay(bandit, stream.contexts[:40_000], stream.rewards[:40_000])
    right, decisions = 0, 0
    for context, rewards in zip(stream.contexts[40_000:42_000], stream.rewards[40_000:42_000], strict=True):
        choice = bandit.decide(context)
        bandit.learn(choice, rewards[choice.index])
        if choice.relevant is not None:
            right += choice.relevant == tuple(tuple(features) for features in relevant)
            decisions += 1
    assert decisions > 1_000
    assert right >= 0.99 * decisions
    named = bandit.relevant_features()
    assert all(feature.certainty > 0.999 for features in named.values() for feature in features)


def test_no_feature_is_named_where_none_matters() -> None:
    generator = np.random.default_rng(3)
    named = 0
    for seed in range(20):
        bandit = releaf.AdaptiveReleaf(2, 6, seed=seed)
        releaf.replay(bandit, generator.random((1_500, 6)), (generator.random((1_500, 2)) < 0.5).astype(float))
        named += sum(len(features) for features in bandit.relevant_features().values())
    assert named <= 12  # of 240


@pytest.mark.parametrize(("actions", "gamma", "noise"), [(2, 1, 0.1), (3, 2, 0.2), (5, 1, 0.3)])
def test_bad_actions_are_rarely_exploited(actions: int, gamma: int, noise: float) -> None:
    bad, exploited = 0, 0
    for seed in range(4):
        stream = streams.generate(8_000, features=8, actions=actions, gamma_rel=gamma, noise=noise, seed=seed)
        bandit = releaf.AdaptiveReleaf(actions, 8, seed=seed, delta=0.05, epsilon=0.1)
        trace = releaf.replay(bandit, stream.contexts, stream.rewards)
        expected = np.asarray(stream.expected)
        gaps = expected.max(axis=1) - expected[np.arange(len(expected)), trace.actions]
        bad += int((gaps[~trace.explored] > 0.1).sum())
        exploited += int((~trace.explored).sum())
        assert (trace.observed == trace.explored).all()
    assert exploited > 2_000
    assert bad <= 0.05 * exploited


def test_drift_is_noticed_and_nothing_else() -> None:
    """A world that changes at step 4,000: 1,000 steps later regret is small again."""
    late: dict[Any, list[float]] = {None: [], "auto": [], 500: []}
    for forget, found in late.items():
        for seed in range(3):
            stream = streams.generate(8_000, features=6, actions=3, drift="abrupt", seed=seed)
            bandit = releaf.AdaptiveReleaf(3, 6, seed=seed, forget=forget)
            found.append(regret(stream, bandit)[5_000:6_000].mean())
    assert np.mean(late["auto"]) < 0.02
    assert np.mean(late["auto"]) < 0.2 * np.mean(late[None])
    assert np.mean(late[500]) < np.mean(late[None])
    calm = streams.generate(8_000, features=6, actions=3, seed=5)
    plain, watchful = (regret(calm, releaf.AdaptiveReleaf(3, 6, seed=0, forget=forget)) for forget in (None, "auto"))
    assert np.array_equal(plain, watchful)


def test_a_gradual_drift_is_noticed_too() -> None:
    """Rewards that change by so little that none surprises: a trend of the residuals tells."""
    lost: dict[Any, list[float]] = {None: [], "auto": [], 300: []}
    for forget, found in lost.items():
        for seed in (1, 11, 12):
            stream = streams.generate(
                8_000, features=6, actions=2, lipschitz=2.0, drift="gradual", changes=2, noise=0.1, seed=seed
            )
            found.append(regret(stream, releaf.AdaptiveReleaf(2, 6, seed=0, forget=forget)).mean())
    assert np.mean(lost["auto"]) < 0.5 * np.mean(lost[None])
    assert np.mean(lost["auto"]) < 2.2 * np.mean(lost[300])


@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_nothing_is_forgotten_where_nothing_changes(noise: float) -> None:
    for seed in range(3):
        stream = streams.generate(10_000, features=8, actions=3, lipschitz=2.0, noise=noise, seed=20 + seed)
        bandit = releaf.AdaptiveReleaf(3, 8, seed=0, forget="auto")
        bandit.replay(stream.contexts, stream.rewards)
        assert all(sample.counts[FORGET_TO] == 0 for sample in bandit._engine.samples)


def test_a_higher_cost_asks_for_fewer_rewards_and_a_budget_is_kept() -> None:
    stream = streams.breast_cancer(5_000)
    labels = [total_error(stream, observation_cost=cost)[1] for cost in (0.1, 1.0, 10.0)]
    assert labels == sorted(labels, reverse=True)
    assert labels[0] > 2 * labels[-1]
    for budget in (1, 20, 200):
        assert total_error(stream, label_budget=budget)[1] <= budget


@pytest.mark.parametrize(
    "rule", [{"label_budget": 100}, {"label_budget": 400}, {"observation_cost": 1.0}, {"observation_cost": 10.0}]
)
def test_a_new_kind_of_case_is_noticed_after_thousands_of_another(rule: dict[str, Any]) -> None:
    """Sure of one action for 5,000 steps, it is told too late otherwise that new cases need another one."""
    for seed in range(3):
        draw = np.random.default_rng(seed)
        known, new = draw.normal(0.2, 0.02, (5_000, 12)), draw.normal(0.2, 0.02, (3_000, 12))
        new[:, :4] += 0.2  # no feature leaves the range that a few early cases had
        early = draw.uniform(0.1, 0.6, (60, 12))
        contexts = np.clip(np.concatenate([early, known, new]), 0.0, 1.0)
        right = np.repeat([0, 0, 1], [60, 5_000, 3_000])
        right[:60] = early[:, 6] > 0.55
        rewards = np.eye(2)[right]
        trace = releaf.AdaptiveReleaf(2, 12, seed=seed, **rule).replay(contexts, rewards)
        assert np.mean(trace.actions != right) < 0.05
        assert trace.observed.sum() < 0.2 * len(right)


def test_probabilities_are_those_of_the_draws() -> None:
    """The same decision by many learners that differ in their generator only."""
    contexts, rewards = wave(60, features=3, actions=3)
    bandit = releaf.AdaptiveReleaf(3, 3, seed=0, least_probability=0.05)
    releaf.replay(bandit, contexts[:-1], rewards[:-1])
    chances: dict[int, float] = {}
    counts = np.zeros(3)
    for seed in range(2_000):
        bandit.set_random_state(seed * 7919)
        choice = bandit.preview(contexts[-1])
        assert choice.probability is not None
        chances[choice.index] = choice.probability
        counts[choice.index] += 1
    assert len(chances) == 3
    assert min(chances.values()) >= 0.05
    assert sum(chances.values()) == pytest.approx(1.0)
    for index, chance in chances.items():
        assert counts[index] / 2_000 == pytest.approx(chance, abs=4 * np.sqrt(chance / 2_000))


def test_rewards_of_any_range_are_decided_on_alike() -> None:
    contexts, rewards = wave(400, binary=False)
    plain = releaf.AdaptiveReleaf(2, 3, seed=0)
    euros = releaf.AdaptiveReleaf(2, 3, seed=0, reward_range=(-50, 150))
    one, other = releaf.replay(plain, contexts, rewards), releaf.replay(euros, contexts, rewards * 200 - 50)
    assert np.array_equal(one.actions, other.actions)
    assert other.rewards == pytest.approx(one.rewards * 200 - 50)
    left, right = plain.preview(contexts[0]), euros.preview(contexts[0])
    assert left.estimates is not None
    assert right.estimates == pytest.approx([200 * estimate - 50 for estimate in left.estimates])
    choice = euros.decide(contexts[0])
    with pytest.raises(ValueError, match=r"reward is 151: expected a number in \[-50, 150\]"):
        euros.learn(choice, 151)
    with pytest.raises(ValueError, match="reward is 'a lot'"):
        euros.learn(choice, "a lot")
    euros.learn(choice, 150)


def test_an_explanation_tells_what_decided() -> None:
    generator = np.random.default_rng(0)
    schema = releaf.Schema(
        {"age": releaf.Continuous(0, 100), "colour": releaf.Categorical("red", "green"), "dose": releaf.Continuous()}
    )
    bandit = releaf.AdaptiveReleaf(["wait", "treat"], schema, seed=0)
    for age, dose in generator.random((1_500, 2)):
        choice = bandit.decide([100 * age, "red" if dose < 0.5 else "green", dose])
        bandit.learn(choice, float((age > 0.6) == (choice.action == "treat")))
    choice = bandit.decide([90.0, "red", 0.2])
    told = bandit.explain(choice)
    assert "chose 'treat'" in told
    assert "95 % from" in told
    assert told.counterfactual is not None
    assert told.counterfactual.feature == "age"
    assert told.counterfactual.value == pytest.approx(60, abs=2)
    first = told.text.split("'wait'")[0].splitlines()[1:]
    estimate, *parts = (float(line.split("'")[-1].strip(": ").split()[0]) for line in first if line.strip())
    assert sum(parts) == pytest.approx(estimate, abs=0.004)  # the base rate and the terms add up
    assert [feature.feature for feature in bandit.relevant_features()["treat"]] == ["age"]
    assert bandit.relevance()[1].argmax() == 0


def test_categories_missing_values_and_many_of_both() -> None:
    """27 categories, of which only the rare ones matter, and a number whose absence matters."""
    letters = [chr(ord("a") + place) for place in range(27)]
    schema = releaf.Schema({"letter": releaf.Categorical(*letters), "weight": releaf.Continuous(missing=True)})
    bandit = releaf.AdaptiveReleaf(2, schema, seed=0)
    generator = np.random.default_rng(2)
    wrong = []
    for _ in range(3_000):
        letter = letters[min(int(generator.exponential(4)), 26)]
        weight = None if generator.random() < 0.3 else float(generator.random())
        best = int(weight is None or letter > "h")
        choice = bandit.decide([letter, weight])
        wrong.append(choice.index != best)
        bandit.learn(choice, float(choice.index == best))
    assert np.mean(wrong[1_500:]) < 0.05


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label_budget": 10, "delta": 0.1, "epsilon": 0.1}, "delta can't be set together with label_budget"),
        ({"delta": 0.1}, "delta and epsilon go together"),
        ({"epsilon": 0.1}, "delta and epsilon go together"),
        ({"delta": 1.5, "epsilon": 0.1}, "delta must be"),
        ({"delta": 0.1, "epsilon": 2.0}, "epsilon must be"),
        ({"label_budget": 0}, "label_budget must be"),
        ({"observation_cost": -1.0}, "observation_cost must be"),
        ({"forget": "soon"}, "forget must be"),
        ({"reward_range": (1, 0)}, "reward_range must be"),
        ({"reward_range": 5}, "reward_range must be"),
        ({"reward_range": "01"}, "reward_range must be"),
        ({"forget": 0}, "forget must be"),
        ({"forget": LEAST_WINDOW - 1}, "forget must be"),
        ({"forget": MOST_WINDOW + 1}, "forget must be"),
        ({"forget": 100.5}, "forget must be"),
        ({"reward_range": (0, float("inf"))}, "reward_range must be"),
        ({"optimism": -0.1}, "optimism must be"),
        ({"delta": 0.0, "epsilon": 0.1}, "delta must be"),
        ({"least_probability": 0.6}, "least_probability must be"),
        ({"least_probability": "0.1"}, "least_probability must be a number of at least 0 and at most 0.5"),
        ({"least_probability": {"x": 0.1}}, r"least_probability has an unknown action 'x': the actions are \(0, 1\)"),
        ({"least_probability": {0: -0.1}}, "least_probability of 0 must be a number of at least 0 and at most 1"),
        ({"least_probability": {0: 0.5, 1: 0.6}}, "numbers that sum to 1.1: expected at most 1, got {0: 0.5, 1: 0.6}"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        releaf.AdaptiveReleaf(2, 3, **arguments)


def test_each_action_can_have_a_lower_bound_of_its_own() -> None:
    """The bad action has one of 0.2, the others none; and a saved learner, one less action, and one more keep to it."""
    contexts, rewards = wave(2_000, features=3, actions=3)
    rewards[:, 2] = 0.0
    bandit = releaf.AdaptiveReleaf(["a", "b", 7], 3, seed=0, least_probability={7: 0.2})
    trace = releaf.replay(bandit, contexts, rewards)
    assert np.mean(trace.actions[500:] == 2) == pytest.approx(0.2, abs=0.04)
    again = releaf.from_bytes(bandit.to_bytes())
    assert again.least_probability == {7: 0.2}
    assert (
        again.decide_many(contexts[:200]).probabilities.tolist()
        == bandit.decide_many(contexts[:200]).probabilities.tolist()
    )
    again.remove_action("a")
    again.add_action("new")
    choices = again.decide_many(contexts[:500])
    of_floor = choices.probabilities[choices.indices == 1]
    assert len(of_floor) > 50
    assert of_floor.min() == pytest.approx(0.2)
    again.remove_action(7)
    assert again.least_probability == {}
    assert again.add_action(7) == 7
    copy = releaf.from_bytes(again.to_bytes())
    assert copy.decide(contexts[0]).probability == again.decide(contexts[0]).probability


def test_lower_bounds_that_sum_to_1_leave_nothing_to_choose() -> None:
    contexts, rewards = wave(1_000)
    bandit = releaf.AdaptiveReleaf(2, 3, seed=0, least_probability={0: 0.75, 1: 0.25})
    trace = releaf.replay(bandit, contexts, rewards)
    assert np.mean(trace.actions == 1) == pytest.approx(0.25, abs=0.05)
    chances = {choice.index: choice.probability for choice in bandit.decide_many(contexts[:50])}
    assert chances == {0: 0.75, 1: 0.25}
    assert bandit.decide(contexts[0], eligible=[1]).probability == 1.0


@pytest.mark.parametrize("forget", [None, "auto", LEAST_WINDOW, MOST_WINDOW])
def test_every_way_to_forget_is_taken(forget: Any) -> None:
    bandit = releaf.AdaptiveReleaf(2, 3, seed=0, forget=forget)
    assert bandit.forget == forget
    releaf.replay(bandit, *wave(100))


def test_knowing_nothing_it_says_so() -> None:
    bandit = releaf.AdaptiveReleaf(["a", "b", "c"], 2, seed=0)
    assert "no other is estimated higher" in bandit.explain(bandit.decide([0.5, 0.5]))


def test_knowing_nothing_it_spreads_its_first_decisions() -> None:
    bandit = releaf.AdaptiveReleaf(10, 3, seed=0)
    choices = bandit.decide_many(np.random.default_rng(0).random((200, 3)))
    assert [choice.probability for choice in choices] == pytest.approx([0.1] * 200)
    assert np.bincount([choice.index for choice in choices], minlength=10).min() >= 5


def test_a_replay_stops_at_the_first_reward_that_is_needed_and_unknown() -> None:
    """Also where another draw would have taken an action whose reward is known."""
    contexts, rewards = wave(40)
    rewards[30, 0] = np.nan
    for seed in range(20):
        bandit, careful = (releaf.AdaptiveReleaf(2, 3, seed=seed, least_probability=0.5) for _ in range(2))
        releaf.replay(careful, contexts[:30], rewards[:30])
        if careful.decide(contexts[30]).index == 0:
            with pytest.raises(ValueError, match="rewards of row 30 are"):
                releaf.replay(bandit, contexts, rewards)
        else:
            releaf.replay(bandit, contexts, rewards)


def test_an_effect_is_the_mean_change_of_the_estimates() -> None:
    """Of a category, a number and a missing value, against what ``preview`` estimates for the contexts that came."""
    schema = releaf.Schema(
        letter=releaf.Categorical("a", "b", "c"), age=releaf.Continuous(0, 100, missing=True), idle=releaf.Continuous()
    )
    bandit = releaf.AdaptiveReleaf(["no", "yes"], schema, seed=0, optimism=0.0, reward_range=(0, 10))
    generator = np.random.default_rng(3)
    came = []
    for _ in range(250):
        age = None if generator.random() < 0.2 else float(np.float32(generator.uniform(20, 80)))
        came.append(["abc"[generator.integers(3)], age, 0.5])
        choice = bandit.decide(came[-1])
        good = (age is None or age > 50 or came[-1][0] == "c") == (choice.action == "yes")
        bandit.learn(choice, 10.0 * good)

    def estimates(contexts: Any) -> Any:
        return np.mean([np.array(bandit.preview(context).estimates) for context in contexts], axis=0)

    usual = estimates(came)
    for place, feature in enumerate(("letter", "age")):
        effect = bandit.effect(feature)
        for index in (0, len(effect["no"]) // 2, -1):
            value = effect["no"][index].value
            moved = estimates([[*context[:place], value, *context[place + 1 :]] for context in came]) - usual
            assert [effect[action][index].amount for action in bandit.actions] == pytest.approx(moved, abs=1e-5)
    assert effect["yes"][-1].value is None  # a missing age
    assert min(abs(point.amount) for point in (effect["yes"][0], effect["yes"][-1])) > 1.0
    assert 20 <= effect["yes"][0].value < effect["yes"][-2].value <= 80
    assert [point.amount for point in bandit.effect("idle")["yes"]] == [0.0]
    with pytest.raises(ValueError, match="unknown feature 'weight'"):
        bandit.effect("weight")


def test_decisions_of_a_learner_that_knows_nothing_are_explorations() -> None:
    for seed in range(10):  # whichever action it draws
        bandit = releaf.AdaptiveReleaf(2, 2, seed=seed)
        first, second = bandit.decide([0.2, 0.7]), bandit.decide([0.9, 0.1])
        assert first.explored
        assert second.explored  # still without a reward
        assert first.estimates is None
        bandit.learn(first, 1.0)
        third = bandit.preview([0.2, 0.7])
        assert third.explored == (third.index != first.index)
        together = releaf.AdaptiveReleaf(2, 2, seed=seed)
        assert all(choice.explored for choice in together.decide_many([[0.2, 0.7], [0.9, 0.1]]))
        trace = releaf.replay(releaf.AdaptiveReleaf(2, 2, seed=seed), [[0.2, 0.7]], [[1.0, 0.0]])
        assert trace.explored.tolist() == [True]
