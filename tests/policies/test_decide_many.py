"""decide_many: the same decisions as one by one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from conformance import POLICIES, make
from learner_comparison import full_state, plain, stream

import releaf
from releaf.policies.pending_decisions import SHARED

CONTEXTS, REWARDS = stream(600, actions=3, seed=8)
every_policy = pytest.mark.parametrize("policy", POLICIES, ids=[policy.__name__ for policy in POLICIES])
NUMBERS: list[list[Any]] = [
    [0.25, 0.5],
    [True, 0.5],
    [1, 0],
    [np.float64(0.1), np.float32(0.5)],
    [np.int64(1), np.array(0.5)],
    [Decimal("0.5"), 0.25],
]


def live_in_batches(bandit: Any, batches: list[Any], one_by_one: bool) -> list[tuple[Any, ...]]:
    """Decide for each batch, then learn the rewards it wants by the numbers of its decisions."""
    decisions = []
    for batch in batches:
        made = [bandit.decide(context) for context in batch] if one_by_one else bandit.decide_many(batch)
        for choice in made:
            rewards = REWARDS[choice.id - 1]
            if choice.wants_reward:
                bandit.learn(choice.id, rewards.tolist() if bandit.wants_all else float(rewards[choice.index]))
        decisions += [plain(choice) for choice in made]
    return decisions


@every_policy
def test_batches_of_lists_and_of_rows_are_decided_as_one_by_one(policy: Any) -> None:
    rows = [CONTEXTS[start : start + 50] for start in range(0, 600, 50)]
    lists = [batch.tolist() for batch in rows]
    twins = [make(policy, 3) for _ in range(3)]
    expected = live_in_batches(twins[0], rows, one_by_one=True)
    assert live_in_batches(twins[1], rows, one_by_one=False) == expected
    assert live_in_batches(twins[2], lists, one_by_one=False) == expected
    assert full_state(twins[0]) == full_state(twins[1]) == full_state(twins[2])


def test_a_decision_keeps_its_context_whatever_becomes_of_the_matrix() -> None:
    given = CONTEXTS[:100].copy()
    bandit, twin = (releaf.AdaptiveReleaf(3, 3, seed=0) for _ in range(2))
    choices, expected = bandit.decide_many(given), twin.decide_many(CONTEXTS[:100])
    given[:] = 0.5
    assert np.array_equal([choice.context for choice in choices], CONTEXTS[:100])
    for choice, other in zip(choices, expected, strict=True):
        bandit.learn(choice, 1.0)
        twin.learn(other, 1.0)
    assert full_state(bandit) == full_state(twin)


@pytest.mark.parametrize("features", [1, 3, 100, 200])
def test_a_decision_that_waits_keeps_little_of_its_batch_in_memory(features: int) -> None:
    bandit = releaf.UCB1(2, features, seed=0)
    for choice in bandit.decide_many(np.random.default_rng(0).random((300, features))):
        memory = choice._context.base
        assert memory is not None
        assert memory.nbytes <= max(SHARED, 8 * features)
        assert memory.base is None


@pytest.mark.parametrize("row", NUMBERS, ids=repr)
def test_rows_of_all_kinds_of_numbers_are_read_as_one_by_one(row: list[Any]) -> None:
    batch = [[0.25, 0.75], row]
    one_by_one = [releaf.UCB1(2, 2, seed=0).decide(context).context.tolist() for context in batch]
    assert [choice.context.tolist() for choice in releaf.UCB1(2, 2, seed=0).decide_many(batch)] == one_by_one


@pytest.mark.parametrize(
    "value", ["0.5", b"1", None, 2**70, 10**400, 1j, float("nan"), [0.5]], ids=lambda v: repr(v)[:9]
)
def test_what_is_no_number_among_floats_is_named_with_its_row(value: Any) -> None:
    with pytest.raises(ValueError, match=r"feature 'x1' of row 1 is .*: expected a number in \[0, 1\]"):
        releaf.UCB1(2, 2).decide_many([[0.25, 0.75], [0.5, value]])


def test_no_contexts_are_no_decisions() -> None:
    assert len(releaf.UCB1(2, 2).decide_many([])) == 0
    assert list(releaf.UCB1(2, 2).decide_many(np.empty((0, 2)))) == []


@every_policy
def test_columns_say_what_the_decisions_say(policy: Any) -> None:
    bandit = make(policy, 3)
    bandit.replay(CONTEXTS[:300], REWARDS[:300])
    made = bandit.decide_many(CONTEXTS[300:400])
    decisions = list(made)
    assert made.ids.tolist() == [choice.id for choice in decisions] == list(range(301, 401))
    assert made.actions == [choice.action for choice in decisions]
    assert made.indices.tolist() == [choice.index for choice in decisions]
    assert made.explored.tolist() == [choice.explored for choice in decisions]
    assert made.wants_reward.tolist() == [choice.wants_reward for choice in decisions]
    for choice, probability, estimates in zip(decisions, made.probabilities, made.estimates, strict=True):
        assert np.isnan(probability) if choice.probability is None else choice.probability == probability
        assert np.isnan(estimates).all() if choice.estimates is None else choice.estimates == tuple(estimates)


def test_a_batch_is_a_sequence() -> None:
    made = releaf.UCB1(("a", "b"), 2, seed=0).decide_many(CONTEXTS[:5, :2])
    assert [choice.id for choice in made[1:3]] == [2, 3]
    assert made[-1].id == made[4].id == 5
    with pytest.raises(IndexError):
        made[5]
    assert repr(made) == "Decisions(5: 5 explored, 5 rewards wanted)"


def test_estimates_of_a_batch_are_in_the_units_of_the_reward() -> None:
    bandit = releaf.AdaptiveReleaf(2, 1, seed=0, reward_range=(-10.0, 30.0))
    bandit.replay([[0.5]] * 200, [[10.0, -5.0]] * 200)
    made = bandit.decide_many([[0.5]] * 20)
    exploited = made.estimates[~made.explored]
    assert len(exploited) > 0
    assert np.allclose(exploited, bandit.estimate([[0.5]])[0])
    assert np.allclose(exploited[:, 0], 10.0, atol=0.01)


@pytest.mark.filterwarnings("ignore:more than max_pending")
def test_the_oldest_of_a_batch_beyond_max_pending_are_dropped_as_one_by_one() -> None:
    many, one = (releaf.UCB1(2, 2, seed=0, max_pending=7) for _ in range(2))
    many.decide_many(CONTEXTS[:20, :2])
    for context in CONTEXTS[:20, :2]:
        one.decide(context)
    assert list(many._pending) == list(one._pending) == list(range(14, 21))


@pytest.mark.parametrize(
    "settings",
    [{}, {"control_share": 0.3}, {"cost": [0.1, 0.2], "cost_weight": 0.5}],
    ids=["plain", "control", "costs"],
)
def test_a_loop_over_decisions_gives_the_same_as_their_positions(settings: dict[str, Any]) -> None:
    bandit = releaf.AdaptiveReleaf(["a", "b"], 2, seed=0, **settings)
    contexts = np.random.default_rng(0).random((60, 2))
    for choice in bandit.decide_many(contexts):
        if choice.wants_reward:
            bandit.learn(choice, 1.0 if choice.action == "a" else 0.0)
    for eligible in (None, [["a"], None] * 30):
        made = bandit.decide_many(contexts, eligible)
        one_by_one = [made[place] for place in range(len(made))]
        assert [plain(choice) for choice in made] == [plain(choice) for choice in one_by_one]
