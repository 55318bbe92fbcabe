"""Ensembles: scikit-learn's base classifiers, and weights against closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_baselines import boosted
from sklearn.linear_model import LogisticRegression

import releaf
from releaf.core.baselines.voting import boost
from releaf.ensembles import (
    AdaBoost,
    AverageMajority,
    Blum,
    Experts,
    FixedShare,
    OnlineAdaBoost,
    WeightedMajority,
    train_experts,
)
from releaf.streams import breast_cancer

CASES = breast_cancer(683, rows="complete")
# Three that look at one feature each: the first says 1 above 0.5, the second above 0.25, the third below 0.5.
SLOPES = np.array([[[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]]])
BORDERS = np.array([[0.5, 0.0], [0.25, 0.0], [0.0, 0.5]])
THREE = Experts(SLOPES, BORDERS, 30, (0, 1), releaf.Schema.of(2))


def only(experts: Experts, place: int) -> Experts:
    """One of them."""
    parts = (experts.coefficients[[place]], experts.intercepts[[place]], experts.labels)
    return Experts(*parts, experts.actions, experts.schema)


def advice(contexts: Any) -> Any:
    """What the three say, by hand."""
    x, y = np.asarray(contexts).T
    return np.column_stack([x > 0.5, y > 0.25, x <= 0.5]).astype(int)


def stream(steps: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Contexts, the right actions and the rewards; the first expert is right mostly, the second often."""
    generator = np.random.default_rng(seed)
    contexts = generator.random((steps, 2))
    right = np.where(generator.random(steps) < 0.9, contexts[:, 0] > 0.5, contexts[:, 1] > 0.25).astype(int)
    return contexts, right, np.eye(2)[right]


# --- base classifiers -----------------------------------------------------------------------------------------


def test_base_classifiers_predict_what_scikit_learn_predicts() -> None:
    given = {"actions": CASES.actions, "features": CASES.features, "count": 6, "size": 10, "seed": 0}
    experts = train_experts(CASES.contexts, CASES.rewards, **given)
    assert experts.labels == 60
    order, right = np.random.default_rng(0).permutation(683), CASES.rewards.argmax(axis=1)
    for place in range(6):
        rows = order[10 * place : 10 * place + 10]
        model = LogisticRegression(C=100.0, max_iter=10_000).fit(CASES.contexts[rows], right[rows])
        alone = only(experts, place)
        trace = AverageMajority(CASES.actions, CASES.features, experts=alone).replay(CASES.contexts, CASES.rewards)
        assert np.array_equal(trace.actions, model.predict(CASES.contexts))


def test_base_classifiers_of_more_than_two_actions_predict_what_scikit_learn_predicts() -> None:
    generator = np.random.default_rng(0)
    contexts = generator.random((600, 4))
    right = contexts[:, :3].argmax(axis=1)
    experts = train_experts(contexts, np.eye(3)[right], actions=3, features=4, count=2, size=200, seed=None)
    for place in range(2):
        rows = np.arange(200 * place, 200 * place + 200)
        model = LogisticRegression(C=100.0, max_iter=10_000).fit(contexts[rows], right[rows])
        alone = only(experts, place)
        trace = AverageMajority(3, 4, experts=alone).replay(contexts, np.eye(3)[right])
        assert np.array_equal(trace.actions, model.predict(contexts))


def test_a_slice_of_one_label_predicts_it_and_unseen_labels_are_never_predicted() -> None:
    contexts = np.random.default_rng(0).random((40, 2))
    right = np.repeat([1, 2], 20)
    experts = train_experts(contexts, np.eye(3)[right], actions=3, features=2, count=2, size=20, seed=None)
    for place, label in ((0, 1), (1, 2)):
        alone = only(experts, place)
        assert set(AverageMajority(3, 2, experts=alone).replay(contexts, np.eye(3)[right]).actions) == {label}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"count": 100}, "100 slices of 10 need 1000 labelled cases, got 683"),
        ({"size": 0}, "size must be a whole number of at least 1, got size=0"),
        ({"features": {f"x{place}": releaf.Quantile() for place in range(9)}}, "base classifiers are trained before"),
        ({"actions": 3}, "rewards have shape"),
    ],
)
def test_bad_training_is_refused(arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        train_experts(CASES.contexts, CASES.rewards, **{"actions": 2, "features": 9, **arguments})


@pytest.mark.parametrize(
    ("actions", "features", "text"),
    [
        ([1, 0], 2, r"experts were trained for the actions \(0, 1\), expected \(1, 0\)"),
        (3, 2, r"experts were trained for the actions \(0, 1\), expected \(0, 1, 2\)"),
        (2, 9, "experts were trained for Schema"),
        (2, ["x1", "x0"], "experts were trained for Schema"),
        (2, {"x0": releaf.Continuous(0, 2), "x1": releaf.Continuous()}, "experts were trained for Schema"),
    ],
)
def test_base_classifiers_that_were_trained_for_something_else_are_refused(
    actions: Any, features: Any, text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        AverageMajority(actions, features, experts=THREE)


def test_what_is_no_base_classifiers_is_refused() -> None:
    with pytest.raises(TypeError, match=r"experts must come from releaf.ensembles.train_experts, got \[\]"):
        AverageMajority(2, 9, experts=[])  # type: ignore[arg-type]


def test_rewards_that_are_not_known_can_not_be_trained_with() -> None:
    rewards = CASES.rewards.copy()
    rewards[7, 0] = np.nan
    with pytest.raises(ValueError, match="rewards of row 7 have NaN: expected those of all"):
        train_experts(CASES.contexts, rewards, actions=2, features=9)


@pytest.mark.parametrize("sample", [(CASES.contexts,), CASES.contexts[:2].tolist()[:1]])
def test_a_sample_is_a_pair(sample: Any) -> None:
    with pytest.raises(TypeError, match="sample must be a pair of contexts and rewards"):
        AdaBoost(2, 2, experts=THREE, sample=sample)


@pytest.mark.parametrize("reward", [np.float64(1), np.array(1.0), 1.0])
def test_one_reward_is_not_enough(reward: Any) -> None:
    ensemble = WeightedMajority(2, 2, experts=THREE)
    with pytest.raises(ValueError, match="expected a reward for each of the 2 actions"):
        ensemble.learn(ensemble.decide([0.1, 0.2]), reward)


def test_a_row_of_rewards_goes_by_its_labels() -> None:
    named = Experts(SLOPES, BORDERS, 30, ("no", "yes"), releaf.Schema.of(2))
    ensemble = WeightedMajority(["no", "yes"], 2, experts=named, beta=0.5)
    ensemble.learn(ensemble.decide([0.6, 0.1]), pd.Series({"yes": 1.0, "no": 0.0}))
    assert ensemble.weights() == pytest.approx([0.5, 0.25, 0.25])
    with pytest.raises(ValueError, match="unknown"):
        ensemble.learn(ensemble.decide([0.6, 0.1]), pd.Series({"yes": 1.0, "never": 0.0}))


# --- votes ----------------------------------------------------------------------------------------------------


def test_the_majority_decides_and_its_share_is_told() -> None:
    named = Experts(SLOPES, BORDERS, 30, ("no", "yes"), releaf.Schema.of(2))
    ensemble = AverageMajority(["no", "yes"], 2, experts=named)
    for context, votes in [([0.6, 0.3], 2), ([0.6, 0.2], 1), ([0.4, 0.3], 2), ([0.4, 0.1], 1)]:
        choice = ensemble.decide(context)
        assert choice.action == ("yes" if votes == 2 else "no")
        assert choice.estimates == pytest.approx((1 - votes / 3, votes / 3))
        assert not choice.wants_reward
    assert ensemble.prior_labels == 30


def test_who_asks_for_labels_and_who_does_not() -> None:
    contexts, _, rewards = stream(50)
    for policy, labels in [(AverageMajority, 0), (AdaBoost, 0), (OnlineAdaBoost, 50), (Blum, 50)]:
        trace = policy(2, 2, experts=THREE).replay(contexts, rewards)
        assert trace.observed.sum() == labels
    assert AdaBoost(2, 2, experts=THREE, sample=(contexts, rewards)).prior_labels == 30 + 50


# --- AdaBoost -------------------------------------------------------------------------------------------------


def test_adaboosts_weights_are_the_closed_form() -> None:
    """Ten cases. The first is wrong on cases 0 and 1, the second on 2, 3 and 4, the third on 0, 2, 5 and 6.

    Round 1: ε = 0.2, α = ½ ln 4; cases 0 and 1 then weigh 1/4 each, the other eight 1/16 each.
    Round 2: the second has ε = 3/16, the third 1/4 + 3/16: α = ½ ln(13/3); cases 2, 3, 4 then weigh (1/16)/(2·3/16) =
    1/6 each, case 0 weighs (1/4)/(2·13/16) = 2/13, cases 5 and 6 (1/16)/(26/16) = 1/26 each.
    Round 3: the third has ε = 2/13 + 1/6 + 2/26 = 31/78: α = ½ ln(47/31).
    """
    right = np.ones((10, 3), dtype=np.uint8)
    right[[0, 1], 0] = right[[2, 3, 4], 1] = right[[0, 2, 5, 6], 2] = 0
    weights = np.zeros(3)
    boost(right, 2, weights)
    assert weights == pytest.approx([0.5 * math.log(4), 0.5 * math.log(13 / 3), 0.5 * math.log(47 / 31)])


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 40), experts=st.integers(1, 6), actions=st.integers(2, 5), seed=st.integers(0, 2**16))
def test_adaboost_does_what_its_definition_says(rows: int, experts: int, actions: int, seed: int) -> None:
    right = np.random.default_rng(seed).random((rows, experts)) < np.linspace(0.3, 0.95, experts)
    weights = np.zeros(experts)
    boost(right.astype(np.uint8), actions, weights)
    expected = boosted(right, actions)
    assert weights == pytest.approx(expected if any(expected) else np.ones(experts), abs=1e-9)


def test_adaboost_weighs_by_its_sample_and_then_no_more() -> None:
    contexts, right, rewards = stream(1_500)
    ensemble = AdaBoost(2, 2, experts=THREE, sample=(contexts, rewards))
    expected = np.array(boosted(advice(contexts) == right[:, None], 2))
    assert ensemble.weights() == pytest.approx(expected / expected.sum())
    assert ensemble.weights()[2] == 0.0, "the third is worse than chance"
    ensemble.replay(*(stream(500, seed=1)[place] for place in (0, 2)))
    assert ensemble.weights() == pytest.approx(expected / expected.sum())


def test_online_adaboost_weighs_by_the_latest_labels_only() -> None:
    contexts, right, rewards = stream(700)
    rewards[300:] = rewards[300:, ::-1]  # from then on everybody's predictions are worth the opposite
    right[300:] = 1 - right[300:]
    ensemble = OnlineAdaBoost(2, 2, experts=THREE, window=100)
    for step in range(700):
        ensemble.learn(ensemble.decide(contexts[step]), rewards[step])
        latest = slice(max(0, step - 99), step + 1)
        expected = np.array(boosted(advice(contexts[latest]) == right[latest, None], 2))
        expected = expected if expected.any() else np.ones(3)
        assert ensemble.weights() == pytest.approx(expected / expected.sum(), abs=1e-9)
    assert ensemble.weights()[2] > 0.5


# --- weighted majority, fixed share, Blum ---------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
def test_weighted_majority_weighs_by_the_number_of_mistakes(beta: float) -> None:
    contexts, right, rewards = stream(60)
    ensemble = WeightedMajority(2, 2, experts=THREE, beta=beta)
    ensemble.replay(contexts, rewards)
    mistakes = (advice(contexts) != right[:, None]).sum(axis=0)
    expected = beta ** (mistakes - mistakes.min()).astype(float)
    assert ensemble.weights() == pytest.approx(expected / expected.sum())


def test_rewards_between_0_and_1_cost_as_much_as_is_lost() -> None:
    ensemble = WeightedMajority(2, 2, experts=THREE, beta=0.25)
    ensemble.learn(ensemble.decide([0.6, 0.1]), [0.5, 1.0])  # only the first says 1
    assert ensemble.weights() == pytest.approx([0.5, 0.25, 0.25])


def test_fixed_share_without_sharing_is_weighted_majority() -> None:
    contexts, _, rewards = stream(3_000, seed=2)
    alone, sharing = WeightedMajority(2, 2, experts=THREE), FixedShare(2, 2, experts=THREE, alpha=0.0)
    assert np.array_equal(alone.replay(contexts, rewards).actions, sharing.replay(contexts, rewards).actions)
    assert np.array_equal(alone.weights(), sharing.weights())


def test_fixed_share_worked_out_by_hand() -> None:
    """One case that the first alone gets right: 1, ½, ½ → ½, ¼, ¼; then each passes 0.2 of it on to the other two."""
    ensemble = FixedShare(2, 2, experts=THREE, beta=0.5, alpha=0.2)
    ensemble.learn(ensemble.decide([0.6, 0.1]), [0.0, 1.0])
    assert ensemble.weights() == pytest.approx(
        [0.8 * 0.5 + 0.1 * 0.5, 0.8 * 0.25 + 0.1 * 0.75, 0.8 * 0.25 + 0.1 * 0.75]
    )


def test_fixed_share_follows_a_change_that_weighted_majority_sleeps_through() -> None:
    contexts, _, rewards = stream(3_000)
    rewards[2_000:] = rewards[2_000:, ::-1]
    late = {
        policy: policy(2, 2, experts=THREE).replay(contexts, rewards).rewards[2_000:].mean()
        for policy in (WeightedMajority, FixedShare)
    }
    assert late[FixedShare] > 0.8
    assert late[WeightedMajority] < 0.4


def test_blum_changes_weights_only_when_the_vote_was_wrong() -> None:
    ensemble = Blum(2, 2, experts=THREE)
    ensemble.learn(ensemble.decide([0.6, 0.3]), [0.0, 1.0])  # 1, 1, 0: the vote is right
    assert ensemble.weights() == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    ensemble.learn(ensemble.decide([0.6, 0.3]), [1.0, 0.0])  # the vote is wrong, the third is right: ½, ½, 3/2
    assert ensemble.weights() == pytest.approx([0.2, 0.2, 0.6])
    ensemble.learn(ensemble.decide([0.6, 0.3]), [1.0, 0.0])  # now the third has the majority, and is right
    assert ensemble.weights() == pytest.approx([0.2, 0.2, 0.6])


def test_weights_survive_any_number_of_mistakes() -> None:
    contexts = np.tile([0.6, 0.3], (20_000, 1))
    rewards = np.tile([0.0, 1.0], (20_000, 1))
    for policy in (WeightedMajority, FixedShare, Blum):
        ensemble = policy(2, 2, experts=THREE)
        ensemble.replay(contexts, rewards)
        assert np.isfinite(ensemble.weights()).all()
        ensemble.replay(contexts, rewards[:, ::-1])
        assert np.isfinite(ensemble._state.logs).all()


def test_on_breast_cancer_learnt_votes_beat_equal_ones() -> None:
    cases = breast_cancer(5_000, rows="complete")
    given = {"actions": cases.actions, "features": cases.features}
    errors: dict[str, list[float]] = {"equal": [], "boosted": [], "weighted": []}
    for seed in range(5):
        experts = train_experts(CASES.contexts, CASES.rewards, seed=seed, **given)
        sample = (cases.contexts[:1_500], cases.rewards[:1_500])
        makers: dict[str, Any] = {
            "equal": AverageMajority(**given, experts=experts),
            "boosted": AdaBoost(**given, experts=experts, sample=sample),
            "weighted": WeightedMajority(**given, experts=experts),
        }
        for name, ensemble in makers.items():
            errors[name].append(1 - ensemble.replay(cases.contexts[1_500:], cases.rewards[1_500:]).rewards.mean())
    assert np.mean(errors["boosted"]) < 0.05 < np.mean(errors["equal"])
    assert np.mean(errors["weighted"]) < 0.05
