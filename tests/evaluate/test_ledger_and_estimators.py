"""The ledger and the off-policy estimators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import releaf
from releaf import evaluate, streams
from releaf.policy import Trace
from releaf.streams import Log, Stream

# --- the ledger -----------------------------------------------------------------------------------------------

REWARDS = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
STREAM = Stream(np.zeros((5, 2)), REWARDS, ("x", "y"), ("no", "yes"))
#               right  wrong  right  wrong  wrong; explored on steps 1 and 4, observed on those
TRACE = Trace(
    np.array([0, 0, 1, 1, 0]),
    np.array([False, True, False, False, True]),
    np.array([False, True, False, False, True]),
    REWARDS[np.arange(5), [0, 0, 1, 1, 0]],
)


def test_the_ledger_of_five_steps_worked_out_by_hand() -> None:
    ledger = evaluate.account(TRACE, STREAM, positive="yes", observation_cost=0.25)
    assert (ledger.steps, ledger.explored, ledger.labels) == (5, 2, 2)
    assert ledger.observation_cost == 0.5
    assert ledger.reward == pytest.approx(0.4)
    assert ledger.error == pytest.approx(60.0)
    assert ledger.missed == pytest.approx(100 * 2 / 3)  # of steps 1, 2 and 4, two were missed
    assert ledger.false == pytest.approx(50.0)  # of steps 0 and 3, one
    assert ledger.exploitation_error == pytest.approx(100 / 3)
    assert ledger.exploitation_missed == 0.0
    assert ledger.exploitation_false == pytest.approx(50.0)
    assert ledger.regret == pytest.approx(3 + 0.5)
    assert ledger.regret_exploring == pytest.approx(2 + 0.5)
    assert ledger.curves["regret"][-1] == ledger.regret
    assert ledger.regret_exploiting == pytest.approx(1.0)
    assert ledger.curves["steps"] == [1, 2, 3, 4, 5]
    assert ledger.curves["regret"] == [0, 1.25, 1.25, 2.25, 3.5]
    assert ledger.curves["labels"] == [0, 1, 1, 1, 2]


def test_regret_is_against_expectations_where_they_are_known() -> None:
    expected = np.tile([0.4, 0.6], (5, 1))
    ledger = evaluate.account(TRACE, Stream(STREAM.contexts, REWARDS, ("x", "y"), ("no", "yes"), expected))
    assert ledger.regret == pytest.approx(3 * 0.2)
    assert ledger.missed is None


def test_a_run_is_the_replay_it_accounts_for() -> None:
    cases = streams.breast_cancer(12_000)
    told: list[tuple[int, int]] = []
    ledger = evaluate.run(
        releaf.Releaf(cases.actions, cases.features, seed=1),
        cases,
        positive="malignant",
        progress=lambda *so_far: told.append(so_far),
    )
    trace = releaf.replay(releaf.Releaf(cases.actions, cases.features, seed=1), cases.contexts, cases.rewards)
    assert ledger.labels == trace.observed.sum()
    assert ledger.error == pytest.approx(100 * np.mean(trace.rewards < 1))
    assert told == [(5_000, 12_000), (10_000, 12_000), (12_000, 12_000)]
    assert np.array(ledger.relevance).shape == (2, 9)
    assert ledger.partition is not None
    assert all(parts[0][0] == 0.0 and parts[-1][1] == 1.0 for parts in ledger.partition)


# --- off-policy estimates -------------------------------------------------------------------------------------

#        taken 0 1 1 0, rewards 1 0 1 1, probabilities 0.5 0.25 0.25 0.8
SMALL = Log(
    np.array([[0.0], [0.2], [0.6], [1.0]]),
    np.array([0, 1, 1, 0]),
    np.array([1.0, 0.0, 1.0, 1.0]),
    np.array([0.5, 0.25, 0.25, 0.8]),
    ("x",),
    ("a", "b"),
)
CHOSEN = np.array([0, 1, 1, 1])  # agrees on the first three: weights 2, 4, 4, 0


def test_the_estimates_of_four_rows_worked_out_by_hand() -> None:
    """IPS: (2·1 + 4·0 + 4·1 + 0)/4 = 1.5. SNIPS: 6/10. With q = ½ everywhere, DR: ½ + (2·½ - 4·½ + 4·½)/4 = 0.75."""
    estimate = evaluate.ips(SMALL, CHOSEN, interval="normal")
    assert (estimate.value, estimate.matched) == (1.5, 3)
    half = 1.959963984540054 * np.std([2, 0, 4, 0], ddof=1) / 2
    assert (estimate.low, estimate.high) == pytest.approx((1.5 - half, 1.5 + half))
    assert evaluate.snips(SMALL, CHOSEN).value == pytest.approx(0.6)
    assert evaluate.doubly_robust(SMALL, CHOSEN, lambda rows, actions: np.full(len(rows), 0.5)).value == pytest.approx(
        0.75
    )


def world(rows: int, seed: int) -> tuple[Any, Any, Any]:
    """Contexts, the expected reward of both actions, and a log that prefers the first action where x is large."""
    generator = np.random.default_rng(seed)
    contexts = generator.random((rows, 1))
    expected = np.column_stack([0.2 + 0.6 * contexts[:, 0], 0.7 - 0.4 * contexts[:, 0] ** 2])
    first = 0.2 + 0.6 * contexts[:, 0]
    taken = (generator.random(rows) > first).astype(int)
    probabilities = np.where(taken == 0, first, 1 - first)
    rewards = (generator.random(rows) < expected[np.arange(rows), taken]).astype(float)
    return contexts, expected, Log(contexts, taken, rewards, probabilities, ("x",), ("a", "b"))


@pytest.mark.parametrize("estimator", [evaluate.ips, evaluate.snips, evaluate.doubly_robust])
def test_estimates_are_right_on_average_and_intervals_hold_the_truth_as_often_as_they_say(estimator: Any) -> None:
    truth = np.mean([np.where(x[:, 0] > 0.5, q[:, 0], q[:, 1]).mean() for x, q, _ in [world(200_000, 999)]])
    values, held = [], 0
    for seed in range(300):
        contexts, _, log = world(400, seed)
        found = estimator(log, (contexts[:, 0] <= 0.5).astype(int))
        values.append(found.value)
        held += found.low <= truth <= found.high
    error = 4 * np.std(values) / math.sqrt(300)
    assert np.mean(values) == pytest.approx(truth, abs=error)
    assert 0.91 <= held / 300 <= 0.985


@pytest.mark.filterwarnings("ignore::releaf.evaluate.SupportWarning")
def test_the_doubly_robust_estimate_varies_least_and_needs_only_one_of_both_to_be_right() -> None:
    found: dict[str, list[float]] = {"ips": [], "dr": [], "wrong p": [], "wrong q": []}
    for seed in range(150):
        contexts, expected, log = world(400, seed)
        chosen = (contexts[:, 0] <= 0.5).astype(int)
        found["ips"].append(evaluate.ips(log, chosen).value)
        found["dr"].append(evaluate.doubly_robust(log, chosen).value)
        lied = Log(log.contexts, log.taken, log.rewards, np.full(400, 0.4), log.features, log.actions)
        found["wrong p"].append(evaluate.doubly_robust(lied, chosen, lambda rows, a: expected[rows, a]).value)  # noqa: B023
        found["wrong q"].append(evaluate.doubly_robust(log, chosen, lambda rows, a: np.full(len(rows), 0.9)).value)
    contexts, expected, _ = world(200_000, 999)
    truth = np.where(contexts[:, 0] > 0.5, expected[:, 0], expected[:, 1]).mean()
    for name in ("dr", "wrong p", "wrong q"):
        assert np.mean(found[name]) == pytest.approx(truth, abs=0.015), name
    assert np.std(found["dr"]) < 0.9 * np.std(found["ips"])


def test_what_a_log_lacks_is_said() -> None:
    without = Log(SMALL.contexts, SMALL.taken, SMALL.rewards, None, ("x",), ("a", "b"))
    with pytest.raises(ValueError, match="the log has no probabilities"):
        evaluate.ips(without, CHOSEN)
    with pytest.raises(ValueError, match="chosen has 2 actions, the log 4 rows"):
        evaluate.ips(SMALL, CHOSEN[:2])
    with pytest.raises(ValueError, match=r"the policy's actions are \(0, 1\), the log's \('a', 'b'\)"):
        evaluate.rejection(releaf.UCB1(2, 1), SMALL)
    with pytest.raises(ValueError, match="asks for the rewards of all actions"):
        evaluate.rejection(releaf.Releaf(["a", "b"], 2, observe="all-actions"), SMALL)


# --- replay by rejection --------------------------------------------------------------------------------------


def test_only_rows_that_the_policy_would_have_decided_alike_are_lived_through() -> None:
    """UCB1 takes a first: rows 0 is its; then b: not row 1's a, but row 2's b; then by its means."""
    log = Log(
        np.zeros((5, 1)), np.array([0, 0, 1, 1, 0]), np.array([1.0, 0.5, 0.0, 0.0, 1.0]), None, ("x",), ("a", "b")
    )
    bandit = releaf.UCB1(["a", "b"], ["x"])
    told: list[int] = []
    found = evaluate.rejection(bandit, log, progress=lambda row, _: told.append(row))
    assert found.matched == 3
    assert found.value == pytest.approx(2 / 3)
    assert bandit._state.counts.tolist() == [2, 1]
    assert told == [1, 2, 3, 4, 5]


def test_rejection_tells_what_the_policy_earns_online() -> None:
    generator = np.random.default_rng(0)
    values, truths = [], []
    for seed in range(12):
        contexts = generator.random((6_000, 2))
        rewards = (generator.random((6_000, 2)) < np.column_stack([contexts[:, 0], 1 - contexts[:, 0]])).astype(float)
        taken = generator.integers(0, 2, 6_000)
        log = Log(contexts, taken, rewards[np.arange(6_000), taken], np.full(6_000, 0.5), ("x", "y"), ("a", "b"))
        found = evaluate.rejection(releaf.LinUCB(["a", "b"], ["x", "y"], seed=seed), log)
        assert found.matched == pytest.approx(3_000, abs=200)
        online = releaf.replay(releaf.LinUCB(["a", "b"], ["x", "y"], seed=seed), contexts[:3_000], rewards[:3_000])
        values.append(found.value)
        truths.append(online.rewards.mean())
    assert np.mean(values) == pytest.approx(np.mean(truths), abs=0.01)


def test_rejection_is_unbiased_also_where_the_log_prefers_actions() -> None:
    runs = 200
    policies = [releaf.Random(["a", "b"], ["x"], seed=seed) for seed in range(runs)]
    found = [evaluate.rejection(policy, world(600, seed)[2], seed) for seed, policy in enumerate(policies)]
    _, expected, _ = world(200_000, 999)
    truth, values = float(expected.mean()), [estimate.value for estimate in found]
    assert np.mean(values) == pytest.approx(truth, abs=4 * float(np.std(values)) / math.sqrt(runs))
    assert 0.91 <= np.mean([estimate.low <= truth <= estimate.high for estimate in found]) <= 0.985


def test_no_click_is_no_certainty() -> None:
    log = Log(np.zeros((50, 1)), np.zeros(50, dtype=int), np.zeros(50), None, ("x",), ("a",))
    found = evaluate.rejection(releaf.UCB1(["a"], ["x"]), log)
    assert found.value == 0.0
    assert found.low == pytest.approx(0.0, abs=1e-12)
    assert 0.03 < found.high < 0.12
    assert found.observed == 50


@pytest.mark.parametrize("name", ["Random", "LinTS", "EpsilonGreedy"])
def test_a_policy_that_draws_at_random_draws_anew_for_each_row(name: str) -> None:
    log = Log(np.zeros((3_000, 1)), np.zeros(3_000, dtype=int), np.zeros(3_000), None, ("x",), ("a", "b", "c"))
    given = {"epsilon": 1.0} if name == "EpsilonGreedy" else {}
    bandit = getattr(releaf, name)(["a", "b", "c"], ["x"], seed=0, **given)
    for _ in range(3):
        choice = bandit.decide([0.0])
        if choice.wants_reward:
            bandit.learn(choice, 0.5)
    before = bandit.preview([0.0]).index
    counts = np.bincount(evaluate.choices(bandit, log), minlength=3)
    assert counts.min() > 150
    assert bandit.preview([0.0]).index == before


@pytest.mark.parametrize("chosen", [["a"] * 4, [0, 1, 2, 9], [-1, 0, 0, 0], [0.5] * 4])
def test_choices_must_be_positions_of_actions(chosen: Any) -> None:
    with pytest.raises(ValueError, match="chosen must be positions of actions, from 0 to 1"):
        evaluate.doubly_robust(SMALL, np.array(chosen))
