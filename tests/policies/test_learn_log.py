"""learn_log and estimate: learning from logged decisions, and estimates that change no state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance import NAMES, POLICIES, in_own_terms, make, wanted
from learner_comparison import stream

import releaf

LEARN_FROM_LOGS = [policy for policy in POLICIES if policy.traits.learns_from_logs]
MIXED = releaf.Schema(a=releaf.Continuous(0, 10), b=releaf.Categorical("x", "y", "z"), c=releaf.Boolean())


def logged(steps: int, features: int, actions: int, seed: int = 0) -> tuple[Any, Any, Any]:
    contexts, rewards = stream(steps, features, actions, seed=seed)
    taken = np.random.default_rng(seed + 1).integers(0, actions, steps)
    return contexts, taken, rewards[np.arange(steps), taken]


@pytest.mark.parametrize("policy", LEARN_FROM_LOGS, ids=lambda policy: policy.__name__)
def test_a_log_in_parts_is_the_same_as_at_once(policy: type[Any]) -> None:
    contexts, taken, rewards = logged(700, 3, 2)
    whole, parts = make(policy), make(policy)
    whole.learn_log(contexts, taken, rewards)
    for start in range(0, 700, 70):
        stretch = slice(start, start + 70)
        parts.learn_log(contexts[stretch], taken[stretch], rewards[stretch])
    assert [whole.decide(row).index for row in contexts[:50]] == [parts.decide(row).index for row in contexts[:50]]
    assert np.array_equal(whole.estimate(contexts[:20]), parts.estimate(contexts[:20]), equal_nan=True)


@pytest.mark.parametrize("policy", LEARN_FROM_LOGS, ids=lambda policy: policy.__name__)
def test_a_log_teaches_what_to_do(policy: type[Any]) -> None:
    """After a log of random actions it decides at once as one that has lived; a fresh one does not know."""
    draw = np.random.default_rng(3)
    contexts = draw.random((4_000, 3))
    best = (contexts[:, 0] > 0.5).astype(int)
    taken = draw.integers(0, 2, 4_000)
    bandit = make(policy)
    bandit.learn_log(contexts, taken, (taken == best).astype(float))
    late = draw.random((400, 3))
    right = np.mean([bandit.decide(row).index == (row[0] > 0.5) for row in late])
    # they don't look at contexts, or at none without features of the actions
    blind = policy.__name__ in ("UCB1", "EpsilonGreedy", "JointReleaf")
    assert right > (0.3 if blind else 0.75)


@pytest.mark.parametrize("policy", [p for p in POLICIES if not p.traits.learns_from_logs], ids=lambda p: p.__name__)
def test_a_policy_that_cannot_says_so(policy: type[Any]) -> None:
    with pytest.raises(ValueError, match="can't learn from a log"):
        make(policy).learn_log(*logged(10, 3, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"taken": [0] * 9 + [5]}, r"row 9: unknown action 5; the actions are \(0, 1\)"),
        ({"rewards": [0.5] * 9 + [2.0]}, r"row 9: reward is 2.0: expected a number in \[0, 1\]"),
        ({"rewards": [0.5] * 9}, "10 contexts, 10 actions and 9 rewards"),
        ({"contexts": np.full((10, 3), 2.0)}, "expected a number in"),
    ],
)
def test_bad_logs_are_refused_whole(change: dict[str, Any], message: str) -> None:
    contexts, taken, rewards = logged(10, 3, 2)
    bandit = releaf.AdaptiveReleaf(2, 3, seed=0)
    given = {"contexts": contexts, "taken": taken, "rewards": rewards} | change
    with pytest.raises(ValueError, match=message):
        bandit.learn_log(*given.values())
    assert bandit.observations == 0
    assert "0 decisions" in repr(bandit)


@pytest.mark.parametrize("name", NAMES)
def test_estimates_leave_no_trace(name: str) -> None:
    policy = dict(zip(NAMES, POLICIES, strict=True))[name]
    contexts, rewards = stream(600, 3, 2, seed=0)
    rows = in_own_terms(contexts, MIXED)
    asked, other = make(policy, features=MIXED), make(policy, features=MIXED)
    for bandit in (asked, other):
        bandit.replay(rows, rewards)
    once = asked.estimate(rows[:40])
    again = asked.estimate(rows[:40])
    assert once.shape == (40, 2)
    assert np.array_equal(once, again, equal_nan=True)
    assert [asked.decide(row).index for row in rows[:80]] == [other.decide(row).index for row in rows[:80]]


@pytest.mark.parametrize("policy", [releaf.Releaf, releaf.AdaptiveReleaf])
def test_estimates_are_those_of_the_next_decision(policy: type[Any]) -> None:
    contexts, rewards = stream(5_000, 3, 2, seed=1)
    bandit = policy(2, 3, seed=0)
    bandit.replay(contexts, rewards)
    expected = bandit.estimate(contexts[:200])
    assert np.isfinite(expected).all()
    seen = 0
    for row, context in enumerate(contexts[:200]):
        choice = bandit.preview(context)
        if choice.estimates is not None:
            seen += 1
            assert expected[row].tolist() == list(choice.estimates)
    assert seen > 50


def test_quantiles_are_not_taught_by_estimates() -> None:
    bandit = releaf.AdaptiveReleaf(2, releaf.Schema(income=releaf.Quantile()), seed=0)
    bandit.learn_log([[float(i)] for i in range(100)], [i % 2 for i in range(100)], [1.0] * 100)
    before = bandit.estimate([[50.0]])
    bandit.estimate([[1e9]] * 1000)
    assert np.array_equal(bandit.estimate([[50.0]]), before)


def test_labels_teach_all_actions() -> None:
    """Told the right label each time, it makes fewer mistakes than told its own reward only."""
    draw = np.random.default_rng(0)
    contexts = draw.random((1_500, 6))
    right = (contexts[:, :3] > 0.5).astype(int) @ [1, 2, 4]
    rewards = np.eye(8)[right]
    errors = {}
    for observe in ("always", "labels"):
        bandit = releaf.AdaptiveReleaf(8, 6, seed=0, observe=observe)
        errors[observe] = float(np.mean(bandit.replay(contexts, rewards).actions != right))
    assert errors["labels"] < 0.6 * errors["always"]
    choice = bandit.decide(contexts[0])
    bandit.learn(choice, rewards[0])
    assert bandit.observations == 8 * 1_501
    with pytest.raises(ValueError, match="wants every label, so label_budget can't be set"):
        releaf.AdaptiveReleaf(8, 6, observe="labels", label_budget=10)


@pytest.mark.parametrize("label", [None, 1])
def test_a_label_is_no_request_where_every_reward_is_wanted(label: int | None) -> None:
    bandit = releaf.AdaptiveReleaf(2, 1, seed=0)
    assert bandit.learn_label([0.5], label) == (label is not None)
    assert bandit.explorations == 0
    assert releaf.from_bytes(bandit.to_bytes()).steps == 1


@pytest.mark.parametrize("policy", [releaf.AdaptiveReleaf, releaf.LinUCB, releaf.Releaf])
@pytest.mark.parametrize("state", [1.5, True, 2**63, "1"])
def test_an_invalid_random_state_changes_nothing(policy: Any, state: Any) -> None:
    bandit = policy(2, 2, seed=0)
    before = bandit.to_bytes()
    with pytest.raises(
        ValueError, match=r"state must be a whole number of at least -9\d+ and at most 9\d+, got state="
    ):
        bandit.set_random_state(state)
    assert bandit.to_bytes() == before


def test_a_reward_after_the_label_budget_is_refused_by_the_name_of_the_budget() -> None:
    bandit = releaf.AdaptiveReleaf(2, 1, seed=0, label_budget=1)
    choices = [bandit.decide([0.5]) for _ in range(50)]
    assert bandit.labels_left == 0
    with pytest.raises(
        ValueError, match=r"decision 50 did not request a reward \(label_budget=1 is spent\): learn only"
    ):
        bandit.learn(choices[-1], 1.0)
    wary = releaf.AdaptiveReleaf(2, 1, seed=0, observation_cost=1000.0)
    wary.learn_log(np.zeros((100, 1)), [row % 2 for row in range(100)], np.full(100, 0.5))
    with pytest.raises(
        ValueError, match=r"decision 101 did not request a reward \(observation_cost=1000.0\): learn only"
    ):
        wary.learn(wary.decide([0.0]), 1.0)
    with pytest.raises(ValueError, match=r"decision 7 is not pending: .* it is a row of a log"):
        wary.learn(7, 1.0)


def test_rewards_of_another_range_are_learnt_and_expected_in_it() -> None:
    contexts, taken, rewards = logged(500, 3, 2)
    euros = releaf.AdaptiveReleaf(2, 3, seed=0, reward_range=(-100, 100))
    plain = releaf.AdaptiveReleaf(2, 3, seed=0)
    euros.learn_log(contexts, taken, 200 * rewards - 100)
    plain.learn_log(contexts, taken, rewards)
    assert np.allclose(euros.estimate(contexts), 200 * plain.estimate(contexts) - 100)


def test_labels_of_different_types_stay_what_they_are() -> None:
    bandit = releaf.LinUCB([1, "a"], 1, seed=0)
    bandit.learn_log([[0.1], [0.2]], [1, "a"], [1.0, 0.0])
    assert "2 decisions" in repr(bandit)


@pytest.mark.parametrize("name", NAMES)
def test_estimates_between_a_decision_and_its_reward_change_nothing(name: str) -> None:
    policy = dict(zip(NAMES, POLICIES, strict=True))[name]
    contexts, rewards = stream(400, 3, 2, seed=5)
    asked, other = make(policy), make(policy)
    taken: dict[int, list[int]] = {0: [], 1: []}
    for row, context in enumerate(contexts):
        for place, bandit in enumerate((asked, other)):
            choice = bandit.decide(context)
            if bandit is asked:
                bandit.estimate(contexts[::100])
            if choice.wants_reward:
                bandit.learn(choice, wanted(bandit, rewards[row], choice))
            taken[place].append(choice.index)
    assert taken[0] == taken[1]


def test_an_estimate_does_not_depend_on_the_rows_beside_it() -> None:
    bandit = releaf.AdaptiveReleaf(2, releaf.Schema(income=releaf.Quantile()), seed=0)
    draw = np.random.default_rng(0)
    incomes = draw.normal(size=(500, 1))
    bandit.learn_log(incomes, (incomes[:, 0] > 0).astype(int), np.ones(500))
    rows = np.concatenate([incomes[:50], draw.normal(loc=100, size=(5_000, 1)), incomes[:50]])
    together = bandit.estimate(rows)
    assert np.array_equal(together[:50], together[-50:])
    assert np.array_equal(together[:1], bandit.estimate(rows[:1]))


@pytest.mark.parametrize("name", NAMES)
def test_a_learner_from_read_only_memory_owns_what_it_learns(name: str) -> None:
    """As joblib hands learners to other processes: their arrays are files that can't be written to."""
    policy = dict(zip(NAMES, POLICIES, strict=True))[name]
    contexts, rewards = stream(300, 3, 2, seed=0)
    bandit = make(policy)
    bandit.replay(contexts, rewards)
    revive, (header, arrays) = bandit.__reduce__()
    for array in arrays.values():
        array.flags.writeable = False
    one, other = revive(header, arrays), revive(header, arrays)
    one.replay(contexts, rewards)
    assert [other.decide(row).index for row in contexts[:30]] == [bandit.decide(row).index for row in contexts[:30]]
