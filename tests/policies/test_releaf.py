"""Releaf's interface, beyond the exactness of its steps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import releaf
from releaf import Boolean, Categorical, Continuous, Quantile, Releaf, Schema


def trained(steps: int = 4_000, **options: object) -> Releaf:
    """A learner of two actions, of which the first is good where x0 is large and the second where x2 is small."""
    bandit = Releaf(["left", "right"], 3, seed=0, **options)  # type: ignore[arg-type]
    contexts = np.random.default_rng(1).random((steps, 3))
    rewards = np.column_stack([contexts[:, 0] > 0.5, contexts[:, 2] < 0.5]).astype(float)
    releaf.replay(bandit, contexts, rewards)
    return bandit


def test_it_decides_well_asks_for_few_labels_and_finds_what_is_relevant() -> None:
    bandit = trained(steps=20_000)
    assert bandit.observations < 2_000
    relevance = bandit.relevance()
    assert relevance.shape == (2, 3)
    assert relevance.argmax(axis=1).tolist() == [0, 2]
    assert (relevance.max(axis=1) > 0.6).all()
    assert (relevance.sum(axis=1) <= 1).all()
    assert bandit.decide([0.9, 0.5, 0.9]).action == "left"
    assert bandit.decide([0.1, 0.5, 0.1]).action == "right"


def test_the_same_seed_gives_the_same_decisions_and_another_seed_others() -> None:
    contexts = np.random.default_rng(0).random((300, 3))
    rewards = np.random.default_rng(1).random((300, 4))
    runs = [releaf.replay(Releaf(4, 3, seed=seed), contexts, rewards).actions for seed in (5, 5, 6)]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_decide_many_is_deciding_one_by_one() -> None:
    contexts = np.random.default_rng(3).random((200, 3))
    one_by_one, many = trained(), trained()
    expected = [one_by_one.decide(context) for context in contexts]
    found = many.decide_many(contexts)
    assert [(c.id, c.action, c.explored, c.estimates) for c in found] == [
        (c.id, c.action, c.explored, c.estimates) for c in expected
    ]
    for choice in found:
        if choice.wants_reward:
            many.learn(choice, 1.0)
    assert many.pending == 0


def test_a_count_of_actions_numbers_them_and_labels_stay_as_they_are() -> None:
    assert Releaf(3, 2).actions == (0, 1, 2)
    assert Releaf(["a", 7, 2.5], 2).actions == ("a", 7, 2.5)
    assert Releaf(list(np.array([4, 5])), 2).actions == (4, 5)


def test_an_added_action_is_explored_and_can_win() -> None:
    bandit = trained()
    assert bandit.add_action("middle") == "middle"
    contexts = np.random.default_rng(5).random((6_000, 3))
    good = np.column_stack([contexts[:, 0] > 0.5, contexts[:, 2] < 0.5, np.ones(6_000)]).astype(float)
    trace = releaf.replay(bandit, contexts, good)
    others_fail = (good[:, 0] == 0) & (good[:, 1] == 0) & ~trace.explored
    assert (trace.actions[others_fail] == 2).mean() > 0.95
    assert bandit.relevance().shape == (3, 3)
    assert Releaf(2, 2).add_action() == 2


def test_all_actions_take_rewards_as_a_sequence_or_by_label() -> None:
    bandit = Releaf(["yes", "no"], 2, seed=0, observe="all-actions")
    bandit.learn(bandit.decide([0.2, 0.2]), [1.0, 0.0])
    bandit.learn(bandit.decide([0.2, 0.2]), {"no": 0.0, "yes": 1.0})
    assert bandit.observations == 2


def test_a_decision_of_before_an_action_was_added_takes_the_rewards_of_the_actions_of_its_time() -> None:
    bandit = Releaf(2, 2, seed=0, observe="all-actions")
    choice = bandit.decide([0.2, 0.2])
    bandit.add_action()
    with pytest.raises(ValueError, match="each of the 2 actions"):
        bandit.learn(choice, [1.0, 0.0, 0.5])
    bandit.learn(choice, [1.0, 0.0])


def test_rewards_are_accounted_for() -> None:
    bandit = Releaf(2, 2, seed=0, observe="always", observation_cost=0.25)
    for _ in range(8):
        bandit.learn(bandit.decide([0.1, 0.9]), 0.5)
    assert bandit.observations == 8
    assert bandit.observation_spend == 2.0
    assert 0 < bandit.explorations <= 8


@pytest.mark.filterwarnings("ignore:more than max_pending")
def test_rewards_that_never_come_do_not_pile_up() -> None:
    bandit = Releaf(2, 2, seed=0, observe="always", max_pending=10)
    choices = [bandit.decide([0.1, 0.9]) for _ in range(25)]
    assert bandit.pending == 10
    with pytest.raises(ValueError, match="max_pending"):
        bandit.learn(choices[14], 1.0)
    bandit.learn(choices[15].id, 1.0)


def test_the_partition_covers_the_range_and_counts_arrivals() -> None:
    bandit = trained()
    intervals = bandit.partition("x1")
    assert intervals == bandit.partition(1)
    assert (intervals[0].low, intervals[-1].high) == (0.0, 1.0)
    for left, right in pairwise(intervals):
        assert left.high == right.low
    with pytest.raises(ValueError, match="unknown feature 'x9'"):
        bandit.partition("x9")


def test_unknown_lipschitz_and_any_base_learn_too() -> None:
    for options in ({"lipschitz": "unknown"}, {"base": 5}, {"epsilon": 0.3}, {"observe": "always"}):
        bandit = trained(steps=20_000, **options)
        assert bandit.decide([0.9, 0.5, 0.9]).action == "left", options


# --- explain --------------------------------------------------------------------------------------------------


def test_an_exploitation_is_explained_by_the_intervals_of_the_relevant_features() -> None:
    bandit = trained(steps=20_000)
    choice = next(c for c in map(bandit.decide, [[0.9, 0.5, 0.9]] * 20) if not c.explored)
    text = bandit.explain(choice).text
    assert text.startswith(f"Decision {choice.id} chose 'left': its estimated reward is the highest.")
    assert "'left': 1.000\n" in text
    assert "  from x0 in (0.875, 1]" in text
    assert "  from x2 in (0.875, 1]" in text
    assert text.endswith("No reward was asked for.")


def test_an_exploration_is_explained_by_what_is_not_yet_known() -> None:
    bandit = Releaf(["left", "right"], 3, seed=0)
    text = bandit.explain(bandit.decide([0.1, 0.2, 0.3]))
    assert "one of 2 under-explored actions, at random" in text
    assert "The reward is wanted." in text


def test_an_old_decision_is_explained_with_the_intervals_of_its_time() -> None:
    bandit = trained(steps=1_000)
    choice = next(c for c in map(bandit.decide, [[0.9, 0.5, 0.9]] * 50) if not c.explored)
    then, intervals = bandit.explain(choice).actions[0].terms[0].where, len(bandit.partition(0))
    contexts = np.random.default_rng(9).random((50_000, 3))
    releaf.replay(bandit, contexts, np.column_stack([contexts[:, 0] > 0.5, contexts[:, 2] < 0.5]).astype(float))
    assert len(bandit.partition(0)) > intervals
    assert bandit.explain(choice).actions[0].terms[0].where == then


def test_explanations_speak_the_language_of_the_schema() -> None:
    schema = Schema(
        age=Continuous(0, 120, missing=True), income=Quantile(), plan=Categorical("a", "b", missing=True), new=Boolean()
    )
    bandit = Releaf(2, schema, seed=0, observe="always", control_divisor=1e9, lipschitz=50.0)
    generator = np.random.default_rng(0)
    texts = []
    for _ in range(2_000):
        context = [
            None if generator.random() < 0.2 else generator.uniform(0, 120),
            generator.lognormal(),
            [None, "a", "b"][generator.integers(3)],
            bool(generator.integers(2)),
        ]
        choice = bandit.decide(context)
        texts.append(bandit.explain(choice).text)
        bandit.learn(choice, float(generator.random()))
    everything = "\n".join(texts)
    for phrase in (
        "age missing",
        "age in (",
        "income between the",
        "plan equal to 'a'",
        "plan missing",
        "new equal to",
    ):
        assert phrase in everything, phrase


def test_a_decision_shows_itself_briefly() -> None:
    assert repr(Releaf(["a"], 2, seed=0).decide([0, 0])) == "Decision(1: 'a', explored, wants_reward=True)"
