"""Explanations: terms that add up, planted features that lead, counterfactuals that hold, and what is not known."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import releaf
from releaf.explanation import ActionExplanation

SCHEMA = releaf.Schema(
    {
        "hour": releaf.Continuous(0, 24),
        "age": releaf.Continuous(18, 80),
        "site": releaf.Categorical("a", "b", "c", missing=True),
        "noise": releaf.Continuous(),
    }
)
ACTIONS = ["news", "deal"]


def planted(rows: int, seed: int) -> tuple[list[list[Any]], Any]:
    """Contexts, and the chance of a click: an evening peak of news, and a deal for the young in the morning."""
    draw = np.random.default_rng(seed)
    hour, age, noise = draw.uniform(0, 24, rows), draw.uniform(18, 80, rows), draw.random(rows)
    site = draw.choice(["a", "b", "c"], rows)
    chances = np.column_stack([0.1 + 0.3 * ((hour > 17) & (hour < 22)), 0.1 + 0.4 * ((age < 40) & (hour < 12))])
    return [list(row) for row in zip(hour.tolist(), age.tolist(), site.tolist(), noise.tolist(), strict=True)], chances


def learner_of_log(rows: int = 12_000, seed: int = 0, **parameters: Any) -> releaf.AdaptiveReleaf:
    contexts, chances = planted(rows, seed)
    draw = np.random.default_rng(seed + 1)
    taken = draw.integers(0, 2, rows)
    rewards = (draw.random(rows) < chances[np.arange(rows), taken]).astype(float)
    low, high = parameters.get("reward_range", (0.0, 1.0))
    bandit = releaf.AdaptiveReleaf(ACTIONS, SCHEMA, seed=seed, **parameters)
    bandit.learn_log(contexts, [ACTIONS[index] for index in taken], low + (high - low) * rewards)
    return bandit


@pytest.fixture(scope="module")
def bandit() -> releaf.AdaptiveReleaf:
    return learner_of_log()


def test_terms_add_up_to_the_estimate_less_the_base_rate(bandit: releaf.AdaptiveReleaf) -> None:
    for context in planted(50, 7)[0]:
        told = bandit.explain(context).to_dict()
        estimates = dict(zip(ACTIONS, bandit.estimate([context])[0], strict=True))
        for known in told["actions"]:
            assert known["estimate"] == pytest.approx(estimates[known["action"]], abs=1e-12)
            total = sum(term["effect"] for term in known["terms"])
            assert total == pytest.approx(known["estimate"] - known["base_rate"], abs=1e-12)
            sizes = [abs(term["effect"]) for term in known["terms"]]
            assert sizes == sorted(sizes, reverse=True)
            assert known["low"] <= known["estimate"] <= known["high"]


def test_the_base_rate_is_the_mean_of_the_action_s_rewards() -> None:
    bandit = releaf.AdaptiveReleaf(["one", "other"], 1, seed=0)
    bandit.learn_log([[0.1]] * 10, ["one"] * 10, [1.0] * 2 + [0.0] * 8)
    told = {known.action: known for known in bandit.explain([0.1]).actions}
    assert told["one"].base_rate == pytest.approx(0.2)
    assert told["one"].rewards == 10
    assert "base rate: mean of its 10 rewards" in bandit.explain([0.1])
    assert told["other"].rewards == 0


def test_a_planted_feature_leads_where_it_matters(bandit: releaf.AdaptiveReleaf) -> None:
    leading = {"news": 0, "deal": 0}
    contexts = planted(200, 11)[0]
    for context in contexts:
        for known in bandit.explain(context).actions:
            leading[str(known.action)] += set(known.terms[0].features) <= {"hour", "age"} and bool(
                known.terms[0].features
            )
    assert min(leading.values()) >= 0.95 * len(contexts)
    evening = {known.action: known.terms[0] for known in bandit.explain([19.5, 60.0, "a", 0.5]).actions}
    assert evening["news"].features == ("hour",)
    assert evening["news"].effect > 0.1


def test_an_interaction_is_named_together(bandit: releaf.AdaptiveReleaf) -> None:
    morning = {known.action: known for known in bandit.explain([8.0, 25.0, "b", 0.5]).actions}
    together = [term for term in morning["deal"].terms if set(term.features) == {"hour", "age"}]
    assert together
    assert together[0].effect > 0.05
    assert "hour = 8 and age = 25 together" in bandit.explain([8.0, 25.0, "b", 0.5])


def test_a_counterfactual_changes_the_decision_and_less_does_not(bandit: releaf.AdaptiveReleaf) -> None:
    context = [19.5, 30.0, "a", 0.5]
    told = bandit.explain(context)
    assert told.action == "news"
    found = told.counterfactual
    assert found is not None
    assert found.feature == "hour"
    changed = [found.value, *context[1:]]
    assert bandit.actions[int(np.argmax(bandit.estimate([changed])))] == found.action == "deal"
    nearer = [found.value + 0.2 * (context[0] - found.value), *context[1:]]
    assert bandit.actions[int(np.argmax(bandit.estimate([nearer])))] == "news"
    assert found.text in told.text


def test_no_counterfactual_where_one_feature_changes_nothing() -> None:
    bandit = releaf.AdaptiveReleaf(["good", "bad"], 2, seed=0)
    draw = np.random.default_rng(0)
    bandit.learn_log(draw.random((200, 2)), ["good", "bad"] * 100, [1.0, 0.0] * 100)
    assert bandit.explain([0.5, 0.5]).counterfactual is None


def test_what_was_never_seen_is_said_to_be_unknown() -> None:
    draw = np.random.default_rng(0)
    bandit = releaf.AdaptiveReleaf(["a", "b"], releaf.Schema({"x": releaf.Continuous(0, 10), "y": releaf.Continuous()}))
    contexts = np.column_stack([draw.uniform(0, 5, 400), draw.random(400)])
    bandit.learn_log(contexts, ["a", "b"] * 200, (contexts[:, 0] > 2).astype(float))
    inside, outside = bandit.explain([4.0, 0.5]).actions[0], bandit.explain([9.0, 0.5]).actions[0]
    assert inside.unknown == ()
    assert inside.low is not None
    assert inside.high is not None
    assert inside.high - inside.low < 0.5
    assert outside.unknown == ("x",)
    assert (outside.low, outside.high) == (0.0, 1.0)
    assert "x: outside of all values with which it was rewarded" in bandit.explain([9.0, 0.5])


def test_a_number_beyond_all_ranks_is_unknown_and_shown_as_it_is() -> None:
    draw = np.random.default_rng(0)
    bandit = releaf.AdaptiveReleaf(
        ["a", "b"], releaf.Schema({"x": releaf.Quantile(), "y": releaf.Continuous()}), seed=0
    )
    contexts = np.column_stack([draw.uniform(0, 5, 2_000), draw.random(2_000)])
    bandit.learn_log(contexts, ["a", "b"] * 1_000, (contexts[:, 0] > 2).astype(float))
    inside, outside = bandit.explain([4.9, 0.5]), bandit.explain([900.0, 0.5])
    assert inside.actions[0].unknown == ()
    assert outside.actions[0].unknown == ("x",)
    assert (outside.actions[0].low, outside.actions[0].high) == (0.0, 1.0)
    assert outside.actions[0].terms[0].where == "x = 900"
    assert bandit.explain(bandit.decide([900.0, 0.5])).actions[0].terms[0].where.startswith("x above 4.9")


def test_a_value_beyond_all_seen_widens_the_interval_only_if_its_feature_may_matter() -> None:
    draw = np.random.default_rng(0)
    schema = releaf.Schema(x=releaf.Quantile(), size=releaf.Continuous(0, 100), weight=releaf.Quantile())
    bandit = releaf.AdaptiveReleaf(["a", "b"], schema, seed=0)
    contexts = np.column_stack([draw.uniform(0, 5, 2_000), draw.uniform(0, 9, 2_000), draw.random(2_000)])
    bandit.learn_log(
        contexts, ["a", "b"] * 1_000, (draw.random(2_000) < 0.2 + 0.6 * (contexts[:, 0] > 2)).astype(float)
    )
    usual, odd, beyond = (bandit.explain(context) for context in ([4, 5, 0.5], [4, 90, 77.0], [5.5, 5, 0.5]))
    for known in usual.actions:
        assert known.unknown == known.outside == ()
    for known in odd.actions:
        assert (known.unknown, known.outside) == ((), ("size", "weight"))
        assert known.low is not None
        assert known.high is not None
        assert known.high - known.low < 0.6
    assert "size and weight: far outside of all values with which it was rewarded; no effect is known" in odd
    assert odd.to_dict()["actions"][0]["outside"] == ["size", "weight"]
    assert "size and weight: far outside" in odd.plot().to_json()
    assert "size and weight: far outside" in odd._repr_html_()
    for known in beyond.actions:  # 5.5 is a tenth of the range beyond all values of x, which matters
        assert (known.unknown, known.outside, known.low, known.high) == (("x",), (), 0.0, 1.0)
    assert "x: outside of all values with which it was rewarded, so any reward is possible" in beyond
    assert "x: outside of all values" in beyond.plot().to_json()


def test_before_any_feature_is_certain_to_matter_every_value_beyond_all_seen_widens_the_interval() -> None:
    bandit = releaf.AdaptiveReleaf(["a"], releaf.Schema(x=releaf.Continuous(0, 100)), seed=0)
    bandit.learn_log(np.linspace(0, 9, 30)[:, None], ["a"] * 30, [0.0, 1.0] * 15)
    (known,) = bandit.explain([90.0]).actions
    assert (known.unknown, known.outside, known.low, known.high) == (("x",), (), 0.0, 1.0)


@pytest.mark.parametrize("parts", [None, ["weekday", "hour"], ["hour"]])
@pytest.mark.parametrize("year", [2024, 2031])
def test_a_counterfactual_of_an_hour_is_a_date_that_can_be_decided(parts: list[str] | None, year: int) -> None:
    draw, rows = np.random.default_rng(0), 3_000
    minutes = np.sort(draw.integers(0, 365 * 1440, rows)).astype("timedelta64[m]")
    dates = (np.datetime64("2024-01-01T00:00") + minutes).tolist()
    evening = np.array([date.hour >= 18 for date in dates])
    taken = draw.integers(0, 2, rows)
    rewards = (draw.random(rows) < np.where(taken == 0, 0.2 + 0.6 * evening, 0.5)).astype(float)
    bounds = ("2024-01-01", "2024-12-31") if parts is None else (None, None)
    schema = releaf.Schema(date=releaf.DateTime(bounds[0], bounds[1], parts=parts), x=releaf.Continuous())
    bandit = releaf.AdaptiveReleaf(["a", "b"], schema, seed=0)
    contexts = [{"date": date, "x": x} for date, x in zip(dates, draw.random(rows), strict=True)]
    bandit.learn_log(contexts, [bandit.actions[index] for index in taken], rewards)
    context = {"date": f"{year}-05-08T15:30:00", "x": 0.5}
    why = bandit.explain(context)
    found = why.to_dict()["counterfactual"]
    assert (found["feature"], found["action"]) == ("date", "a")
    before, after = bandit.estimate([context, {**context, "date": found["value"]}])
    assert before[1] > before[0]
    assert after[0] > after[1]
    assert "(hour 18)" in found["text"] or "(hour 0)" in found["text"] or "(hour 2" in found["text"]


def test_an_old_decision_is_explained_by_the_estimates_of_now(bandit: releaf.AdaptiveReleaf) -> None:
    contexts = planted(4, 3)[0]
    choice = bandit.decide(contexts[0])
    assert "later" not in bandit.explain(choice).text
    bandit.decide_many(contexts[1:])
    assert bandit.explain(choice).closing.endswith("The estimates are those of now, 3 decisions later.")


def test_of_many_actions_the_best_and_the_chosen_are_explained() -> None:
    draw = np.random.default_rng(0)
    bandit = releaf.AdaptiveReleaf(100, 2, seed=0)
    bandit.learn_log(draw.random((3_000, 2)), draw.integers(0, 100, 3_000), draw.random(3_000))
    told = bandit.explain([0.5, 0.5])
    assert len(told.actions) == len(told.to_dict()["actions"]) == 100
    explained = [known for known in told.actions if known.low is not None]
    assert 32 <= len(explained) <= 33
    assert [known["explained"] for known in told.to_dict()["actions"]].count(True) == len(explained)
    assert sum(known.rewards for known in told.actions) == 3_000
    for known in told.actions:
        assert known.estimate is not None
        assert known.base_rate is not None
        assert sum(term.effect for term in known.terms) == pytest.approx(known.estimate - known.base_rate, abs=1e-12)
    assert told.action in [known.action for known in explained]
    estimates = bandit.estimate([[0.5, 0.5]])[0]
    assert [known.estimate for known in told.actions] == pytest.approx(sorted(estimates, reverse=True), abs=1e-12)
    assert len(told.text.splitlines()) < 100
    assert "more actions, estimated no higher" in told.text


def test_where_nothing_matters_no_feature_is_named() -> None:
    draw = np.random.default_rng(0)
    bandit = releaf.AdaptiveReleaf(["constant", "line"], 4, seed=0)
    contexts = draw.random((4_000, 4))
    chances = np.where(np.arange(4_000) % 2, 0.1 + 0.8 * contexts[:, 2], 0.4)
    bandit.learn_log(contexts, ["constant", "line"] * 2_000, (draw.random(4_000) < chances).astype(float))
    for context in draw.random((50, 4)):
        told = bandit.explain(context)
        terms = {known.action: known.terms for known in told.actions}
        assert [term.features for term in terms["constant"]] == [()]
        assert terms["line"][0].features == ("x2",)
        if told.counterfactual is not None:
            assert told.counterfactual.feature == "x2"
    assert "everything: no feature is certain to matter yet" in bandit.explain([0.5] * 4).plot("constant").to_json()


def test_an_old_exploitation_is_not_said_to_be_an_exploration() -> None:
    bandit = releaf.AdaptiveReleaf(["a", "b"], 1, seed=0)
    bandit.replay([[0.5]] * 40, [[1.0, 0.0]] * 40)
    choice = bandit.decide([0.5])
    assert (choice.action, choice.explored) == ("a", False)
    assert bandit.explain(choice).closing == "The reward is wanted."
    bandit.learn(choice, 1.0)
    bandit.learn_log([[0.5]] * 800, ["a", "b"] * 400, [0.0, 1.0] * 400)
    told = bandit.explain(choice)
    assert "its estimated reward was the highest then; now that of 'b' is." in told.headline
    assert told.closing.startswith("Its reward is known, or no longer awaited.")


def test_explanations_are_plain_data_and_in_the_units_of_the_reward() -> None:
    bandit = learner_of_log(3_000, reward_range=(-50.0, 150.0))
    told = bandit.explain({"hour": 19.0, "age": 30.0, "site": None, "noise": 0.1})
    data = json.loads(told.to_json())
    assert data["action"] == told.action
    assert {"action", "estimate", "low", "high", "base_rate", "terms"} <= set(data["actions"][0])
    news = next(known for known in told.actions if known.action == "news")
    assert -50 <= news.low <= news.estimate <= news.high <= 150  # type: ignore[operator]
    assert news.base_rate == pytest.approx(-50 + 200 * 0.1625, abs=8)


def test_effects_of_other_features_are_not_charged_to_the_largest() -> None:
    """Of four features in a sum, one matters most: at its mean it has no effect, whatever the others are."""
    draw = np.random.default_rng(0)
    contexts = draw.random((6_000, 5))
    rewards = contexts @ [0.5, 0.2, 0.2, 0.2, 0.0] / 1.1
    bandit = releaf.AdaptiveReleaf(["one"], 5, seed=0)
    bandit.learn_log(contexts, ["one"] * 6_000, rewards)
    for others in (0.05, 0.95):
        effects = {term.features: term.effect for term in bandit.explain([0.5, *[others] * 4]).actions[0].terms}
        assert abs(effects[("x0",)]) < 0.03
        assert all(effects[(f"x{place}",)] * (others - 0.5) > 0.02 for place in (1, 2, 3))


def test_a_counterfactual_of_ranks_is_a_value_that_came() -> None:
    draw = np.random.default_rng(0)
    ages = draw.integers(0, 12, 3_000)
    bandit = releaf.AdaptiveReleaf(["old", "young"], releaf.Schema({"age": releaf.Quantile()}), seed=0)
    rewards = np.column_stack([ages > 5, ages <= 5]).astype(float)
    bandit.replay(ages[:, None], rewards)
    for age in range(12):
        found = bandit.explain([age]).counterfactual
        assert found is not None
        assert bandit.actions[int(np.argmax(bandit.estimate([[found.value]])))] == found.action
        assert found.value in range(12)


def test_the_range_of_values_does_not_include_missing_ones() -> None:
    draw = np.random.default_rng(0)
    numbers = draw.uniform(0.5, 1.0, 600)
    contexts = [[None if place % 20 == 0 else number] for place, number in enumerate(numbers)]
    bandit = releaf.AdaptiveReleaf(["one"], releaf.Schema({"x": releaf.Continuous(missing=True)}), seed=0)
    bandit.learn_log(contexts, ["one"] * 600, (numbers > 0.7).astype(float))
    assert bandit.explain([0.05]).actions[0].unknown == ("x",)
    assert bandit.explain([None]).actions[0].unknown == ()


def test_an_exploration_has_no_counterfactual_and_small_rewards_have_digits() -> None:
    bandit = learner_of_log(2_000, reward_range=(0.0, 0.01), least_probability=0.5)
    for context in planted(20, 3)[0]:
        choice = bandit.decide(context)
        told = bandit.explain(choice)
        assert (told.counterfactual is None) or told.actions[0].action == choice.action
    assert "0.00" in told
    assert told.actions[0].estimate is not None
    assert f"{told.actions[0].estimate:.5f}" in told


def test_the_paper_s_learner_explains_in_units_of_the_reward() -> None:
    bandit = releaf.Releaf(["a", "b"], 2, seed=0, reward_range=(0.0, 100.0), observe="always")
    draw = np.random.default_rng(0)
    contexts = draw.random((3_000, 2))
    bandit.replay(contexts, 100 * np.column_stack([contexts[:, 0] > 0.5, contexts[:, 0] <= 0.5]))
    exploited = [told for told in map(bandit.explain, draw.random((50, 2))) if told.actions[0].estimate is not None]
    assert exploited
    for known in exploited[0].actions:
        assert 40 < known.base_rate <= 100  # type: ignore[operator]


def test_threads_explain_at_once(bandit: releaf.AdaptiveReleaf) -> None:
    contexts = planted(24, 5)[0]
    one_by_one = [bandit.explain(context) for context in contexts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(bandit.explain, contexts)) == one_by_one


def test_explaining_changes_nothing(bandit: releaf.AdaptiveReleaf) -> None:
    before = bandit.to_bytes()
    bandit.explain([3.0, 30.0, None, 0.2])
    assert bandit.to_bytes() == before


@pytest.mark.parametrize("action", [None, "deal"])
def test_a_waterfall_goes_from_the_base_rate_to_the_estimate(bandit: releaf.AdaptiveReleaf, action: str | None) -> None:
    told = bandit.explain([19.5, 30.0, "a", 0.5])
    chart = told.plot(action).to_dict()
    bars = chart["data"]["values"]
    known = next(known for known in told.actions if known.action == (action or told.action))
    assert bars[0]["to"] == pytest.approx(known.base_rate)
    assert bars[-1]["to"] == pytest.approx(known.estimate)
    steps = bars[1:-1]
    assert [bar["from"] for bar in steps[1:]] == pytest.approx([bar["to"] for bar in steps[:-1]])
    with pytest.raises(ValueError, match="'other' has no estimate"):
        told.plot("other")


def test_a_learner_that_knows_nothing_explains_that() -> None:
    bandit = releaf.AdaptiveReleaf(["a", "b"], 2, seed=0)
    told = bandit.explain([0.2, 0.3])
    assert {known.rewards for known in told.actions} == {0}
    assert "no other is estimated higher" in told


def test_the_paper_s_learner_explains_a_context_too() -> None:
    bandit = releaf.Releaf(["a", "b"], 2, seed=0)
    draw = np.random.default_rng(0)
    contexts = draw.random((3_000, 2))
    bandit.replay(contexts, np.column_stack([contexts[:, 0] > 0.5, contexts[:, 0] <= 0.5]).astype(float))
    told = bandit.explain([0.9, 0.5])
    assert told.to_dict()["action"] in ("a", "b")
    assert told.text.startswith(("It would choose", "It would explore"))


def test_a_main_effect_has_its_sign_in_every_context() -> None:
    draw, rows = np.random.default_rng(3), 6_000
    schema = releaf.Schema(
        city=releaf.Categorical(*range(300)),
        member=releaf.Boolean(),
        age=releaf.Continuous(18, 90),
        other=releaf.Continuous(),
    )
    city, member = draw.integers(0, 300, rows), draw.random(rows) < 0.3
    chances = np.clip(0.3 + draw.normal(0, 0.1, 300)[city] + 0.3 * member, 0.02, 0.98)
    contexts = [list(row) for row in zip(city, member, draw.uniform(18, 90, rows), draw.random(rows), strict=True)]
    bandit = releaf.AdaptiveReleaf(["call"], schema, seed=0)
    bandit.learn_log(contexts, ["call"] * rows, (draw.random(rows) < chances).astype(float))
    for context in contexts[:100]:
        (known,) = bandit.explain(context).actions
        (effect,) = (term.effect for term in known.terms if term.features == ("member",))
        assert (effect > 0) == bool(context[1])


def test_a_gap_or_a_new_category_of_no_effect_leaves_the_interval_as_it_is() -> None:
    draw, rows = np.random.default_rng(5), 8_000
    schema = releaf.Schema(
        hour=releaf.Continuous(0, 24),
        age=releaf.Continuous(18, 80, missing=True),
        device=releaf.Categorical("phone", "desktop", "watch", missing=True),
    )
    hour, age = draw.uniform(0, 24, rows), draw.uniform(18, 80, rows)
    contexts = [list(row) for row in zip(hour, age, draw.choice(["phone", "desktop"], rows), strict=True)]
    bandit = releaf.AdaptiveReleaf(["news"], schema, seed=0)
    bandit.learn_log(contexts, ["news"] * rows, (draw.random(rows) < 0.1 + 0.3 * (hour > 18)).astype(float))
    (usual,) = bandit.explain([20.0, 40.0, "phone"]).actions
    for context, feature in (
        ([20.0, None, "phone"], "age"),
        ([20.0, 40.0, None], "device"),
        ([20.0, 40.0, "watch"], "device"),
    ):
        (known,) = bandit.explain(context).actions
        assert (known.unknown, known.outside) == ((), (feature,))
        assert width_of(known) < 1.25 * width_of(usual)


def width_of(known: ActionExplanation) -> float:
    assert known.low is not None
    assert known.high is not None
    return known.high - known.low


def test_terms_that_are_not_shown_are_told_from_what_other_features_add() -> None:
    from releaf.explanation import Term, _label, _largest

    sizes = {"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1}
    named = tuple(Term((name,), effect, f"{name} = 1") for name, effect in sizes.items())
    other = Term((), 0.05, "")
    texts = {
        "three": [_label(term) for term in _largest(named[:3], 1.0)],
        "four": [_label(term) for term in _largest(named, 1.0)],
        "others": [_label(term) for term in _largest((*named[:3], other), 1.0)],
        "both": [_label(term) for term in _largest((*named, other), 1.0)],
        "only": [_label(term) for term in _largest((other,), 1.0)],
    }
    assert {name: found[3:] for name, found in texts.items()} == {
        "three": [],
        "four": ["smaller terms"],
        "others": ["everything else"],
        "both": ["smaller terms, and everything else"],
        "only": [],
    }
    assert texts["only"] == ["everything else"]
