"""Theorem 1's bound and the balance of Theorems 2 and 3, measured: the account, and what the experiments must show."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import releaf
from releaf import evaluate, streams, theory
from releaf.evaluate import Ledger, Run, Store
from releaf.evaluate.theorem1_check import MULTIPLES
from releaf.executors import Local
from releaf.paper import EXPERIMENTS
from releaf.paper.balance import BALANCED, RHOS, bounds_crossing, crossing, exploration_exponent, label_of
from releaf.paper.guarantee import CASES, COARSE, COLUMNS, FINE
from releaf.policy import Trace
from releaf.streams import Stream

RELEVANT = [0, 1]
GENERATED: dict[str, Any] = {"steps": 3_000, "features": 3, "actions": 2, "relevant": [[0], [1]], "lipschitz": 2.0}


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    """Of any run, to plant figures in."""
    stream = streams.generate(500, features=2, actions=2)
    return evaluate.run(releaf.Releaf(stream.actions, stream.features, seed=0), stream)


def results_of(name: str, seeds: int, *labels: str) -> dict[str, list[Ledger]]:
    """Quick runs of an experiment."""
    runs = [run for run in EXPERIMENTS[name].runs(seeds, quick=True) if not labels or run.label in labels]
    found: dict[str, list[Ledger]] = {}
    for run, ledger in zip(runs, evaluate.sweep(runs, None, Local(1)), strict=True):
        found.setdefault(run.label, []).append(ledger)
    return found


# --- the account of Theorem 1's bound -------------------------------------------------------------------------


def test_the_account_of_four_exploitations_worked_out_by_hand() -> None:
    # with ρ = 1 the intervals of both features have lengths 1, 1/2, 1/2, 1/4, 1/4; step 0 explores
    contexts = np.full((5, 2), 0.3)
    expected = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.5, 0.5]])
    actions, explored = np.array([1, 1, 0, 1, 0]), np.array([True, False, False, False, False])
    stream = Stream(contexts, expected, ("x", "y"), (0, 1), expected)
    trace = Trace(actions, explored, explored, expected[np.arange(5), actions])
    policy = releaf.Releaf(2, 2, lipschitz=0.15, rho=1.0)
    found = evaluate.account(trace, stream, policy, relevant=RELEVANT).guarantee
    assert found is not None
    # bounds 8 · 0.15 · (s + s′): 1.2, 1.2, 0.6, 0.6; losses 0.8, 0, 0.8, 0; of the worst action 0.8, 0.8, 0.8, 0
    assert (found["exploitations"], found["held"], found["tested"]) == (4, 3, 1)
    assert found["constant"] == pytest.approx(0.8 / (0.15 * 0.5))
    shares = dict(zip(found["multiples"], found["exceeding"], strict=True))
    assert shares[MULTIPLES[0]] == 0.5, "two of four lost something"
    assert {shares[x] for x in MULTIPLES if 5.4 < x < 10.6} == {0.25}
    assert shares[MULTIPLES[-1]] == 0.0


@pytest.mark.parametrize("settings", [{"rho": 2.0}, {}, {"rho": 2.5, "base": 3}, {"rho": 2.0, "epsilon": 1.0}])
def test_the_account_is_what_a_look_at_the_partition_before_each_decision_tells(settings: dict[str, Any]) -> None:
    stream = streams.generate(**GENERATED, seed=4)
    given = {"lipschitz": 0.1, "control_divisor": 1e6, "seed": 4, **settings}
    ledger = evaluate.run(releaf.Releaf(2, 3, **given), stream, relevant=RELEVANT)
    bandit, judged, held, largest = releaf.Releaf(2, 3, **given), 0, 0, 0.0
    assert stream.expected is not None
    for context, rewards, means in zip(stream.contexts, stream.rewards, stream.expected, strict=True):
        choice = bandit.decide(context)
        if choice.explored:
            bandit.learn(choice, rewards[choice.action])
            continue
        intervals = [
            next(p for p in bandit.partition(feature) if p.low < context[feature] <= p.high)
            for feature in (RELEVANT[int(choice.action)], RELEVANT[int(means.argmax())])
        ]
        loss, (s, other) = means.max() - means[choice.action], (p.high - p.low for p in intervals)
        judged += 1
        held += loss <= theory.instantaneous_bound(0.1, s, other)
        largest = max(largest, loss / (0.1 * (s + other)))
    assert ledger.guarantee is not None
    assert (ledger.guarantee["exploitations"], ledger.guarantee["held"]) == (judged, held)
    assert ledger.guarantee["constant"] == pytest.approx(largest)
    assert held < judged, "an L that is twenty times too small breaks the bound"


def test_without_exploitations_there_is_no_constant() -> None:
    stream = streams.generate(**GENERATED)
    ledger = evaluate.run(releaf.Releaf(2, 3, seed=0, control_divisor=1), stream, relevant=RELEVANT)
    assert ledger.guarantee is not None
    assert (ledger.guarantee["exploitations"], ledger.guarantee["constant"]) == (0, None)
    assert [column.find(ledger) for column in COLUMNS] == [0.0, None, None, None, None]


def test_a_kept_run_has_its_guarantee(tmp_path: Path) -> None:
    run = Run(
        stream="generate",
        stream_arguments={**GENERATED, "seed": 1},
        policy="Releaf",
        policy_arguments={"lipschitz": 2.0},
        seed=1,
        relevant=RELEVANT,
    )
    store = Store(tmp_path)
    (done,) = evaluate.sweep([run], store, Local(1))
    assert done.guarantee is not None
    assert store.get(run) == done
    assert "guarantee" not in evaluate.table([run], [done])
    assert replace(run, relevant=[1, 0]).key != run.key


@pytest.mark.parametrize(
    ("policy", "relevant", "message"),
    [
        (releaf.LinUCB(2, 3), [0, 1], "relevant=[0, 1] needs a new Releaf with gamma_rel=1 and a known lipschitz"),
        (releaf.Releaf(2, 4, gamma_rel=2), [0, 1], "relevant=[0, 1] needs a new Releaf with gamma_rel=1"),
        (releaf.Releaf(2, 3, lipschitz="unknown"), [0, 1], "relevant=[0, 1] needs a new Releaf with gamma_rel=1"),
        (
            releaf.Releaf(2, 3),
            [0],
            "relevant=[0]: expected for each of 2 actions the position of a feature, from 0 to 2",
        ),
        (releaf.Releaf(2, 3), [0, 3], "relevant=[0, 3]: expected for each of 2 actions the position of a feature"),
    ],
)
def test_what_theorem_1_says_nothing_about_is_refused_before_it_is_run(
    policy: Any, relevant: list[int], message: str
) -> None:
    stream = streams.generate(**GENERATED)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        evaluate.run(policy, stream, relevant=relevant)
    assert policy.steps == 0
    unknown = Stream(stream.contexts, stream.rewards, stream.features, stream.actions)
    with pytest.raises(ValueError, match="needs a stream whose expected rewards are known"):
        evaluate.run(releaf.Releaf(2, 3), unknown, relevant=[0, 1])


# --- the experiment on Theorem 1 ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarantees() -> dict[str, list[Ledger]]:
    return results_of("guarantee", 2)


def test_with_undivided_control_numbers_there_are_exploitations_and_none_breaks_the_bound(
    guarantees: dict[str, list[Ledger]],
) -> None:
    undivided = [label for label, (_, divisor, _) in CASES.items() if divisor == 1]
    assert len(undivided) == 2
    for ledger in (ledger for label in undivided for ledger in guarantees[label]):
        assert ledger.guarantee is not None
        assert ledger.guarantee["exploitations"] > 10_000
        assert ledger.guarantee["held"] == ledger.guarantee["exploitations"]


def test_fewer_rewards_in_a_cell_lose_more_and_a_wrong_lipschitz_constant_most(
    guarantees: dict[str, list[Ledger]],
) -> None:
    *divided, understated = [label for label, (setting, _, _) in CASES.items() if setting is FINE]
    needed = {label: np.mean([COLUMNS[-1].find(ledger) for ledger in guarantees[label]]) for label in CASES}
    assert needed[divided[0]] < needed[divided[-1]] < needed[understated]


def test_where_the_bound_is_below_1_every_run_could_have_broken_it(guarantees: dict[str, list[Ledger]]) -> None:
    for label, (setting, _, _) in CASES.items():
        for ledger in guarantees[label] if setting is COARSE else ():
            assert ledger.guarantee is not None
            assert ledger.guarantee["tested"] > 0.9 * ledger.guarantee["exploitations"] > 0


def test_an_exploitation_is_tested_by_the_bound_of_the_action_that_would_break_it() -> None:
    # at the last step the intervals are of lengths 1/4 and 1/2; the bounds 0.15 · 8 · (1/4 + 1/4) = 0.6 for the
    # action taken, the best one, and 0.15 · 8 · (1/2 + 1/4) = 0.9 for the other, which would lose 0.8
    contexts = np.array([[0.3, 0.3], [0.3, 0.8], [0.3, 0.3], [0.3, 0.8]])
    expected = np.array([[0.9, 0.1]] * 4)
    stream = Stream(contexts, expected, ("x", "y"), (0, 1), expected)
    explored = np.array([True, True, True, False])
    trace = Trace(np.zeros(4, dtype=int), explored, explored, expected[:, 0])
    policy = releaf.Releaf(2, 2, lipschitz=0.15, rho=1.0)
    found = evaluate.account(trace, stream, policy, relevant=RELEVANT).guarantee
    assert found is not None
    assert (found["exploitations"], found["held"], found["tested"]) == (1, 1, 0)


def test_the_caption_is_right_about_where_the_bound_says_nothing(guarantees: dict[str, list[Ledger]]) -> None:
    for label, (setting, _, told) in CASES.items():
        if setting is FINE and told == FINE.lipschitz:
            assert all(ledger.guarantee and ledger.guarantee["tested"] == 0 for ledger in guarantees[label])
    values = np.random.default_rng(0).random(FINE.steps)
    shortest = theory.interval_lengths(values, rho=FINE.rho).min()
    assert theory.instantaneous_bound(FINE.lipschitz, shortest, shortest) > 1
    values = np.random.default_rng(0).random(COARSE.steps)
    assert set(theory.interval_lengths(values, rho=COARSE.rho)) == {1.0, 0.5}
    (figures,) = EXPERIMENTS["guarantee"].figures(guarantees)
    assert "the bound is 0.4" in figures.caption
    assert "for divisors 10, 100, 1000, 5000 the probability that its proof gives is 0" in figures.caption
    assert [line.paper[1] for line in figures.lines] == [95.0, None, None, None, None] * 2 + [None]


def test_the_picture_of_losses_has_a_line_for_each_divisor_and_the_theorems_constant(
    guarantees: dict[str, list[Ledger]],
) -> None:
    (picture,) = EXPERIMENTS["guarantee"].pictures(guarantees)
    names = list(dict.fromkeys(row["series"] for row in picture.rows))
    assert names == [*(f"divisor {c}" for c in (1, 10, 100, 1000, 5000)), "told 0.1, divisor 5000", "Theorem 1: 8"]
    assert all(row["x"] > 0 and 0 < row["y"] <= 1 for row in picture.rows), "logarithms exist"


# --- the experiment on Theorems 2 and 3 -----------------------------------------------------------------------


def with_explorations(ledger: Ledger, steps: Any, explored: Any) -> Ledger:
    curves = {"steps": list(map(float, steps)), "explored": list(map(float, explored))}
    return replace(ledger, steps=int(steps[-1]), curves=curves)


@pytest.mark.parametrize("exponent", [0.4, 0.7])
def test_a_planted_exponent_is_found_whether_explorations_grow_evenly_or_in_stairs(
    ledger: Ledger, exponent: float
) -> None:
    rho, steps = 4.0, np.geomspace(1, 500_000, 400)
    evenly = with_explorations(ledger, steps, steps**exponent)
    assert exploration_exponent(evenly, rho) == pytest.approx(exponent, abs=0.01)
    stairs = 2 ** ((1 + rho) * np.floor(np.log2(steps) / (1 + rho)) * exponent)
    assert exploration_exponent(with_explorations(ledger, steps, stairs), rho) == pytest.approx(exponent, abs=0.01)
    plain = np.polyfit(np.log(steps[100:]), np.log(stairs[100:]), 1)[0]
    assert abs(plain - exponent) > 0.01, "a plain fit depends on where the stairs begin and end"


def test_no_exponent_is_fitted_to_a_learner_that_only_explores_or_to_a_stream_that_is_too_short(ledger: Ledger) -> None:
    steps = np.geomspace(1, 500_000, 400)
    assert exploration_exponent(with_explorations(ledger, steps, steps), 4.0) is None
    assert exploration_exponent(with_explorations(ledger, steps, steps**0.5), 12.0) is None
    assert exploration_exponent(with_explorations(ledger, [1, 10, 100], [1, 2, 3]), 4.0) is None


def test_regrets_cross_where_their_logarithms_do() -> None:
    assert crossing([4.0, 5.0, 6.0], [100, 10, 1], [1, 10, 100]) == 5.0
    assert crossing([4.0, 6.0], [100, 1], [10, 10]) == 5.0
    assert crossing([4.0, 6.0], [100, 20], [10, 10]) is None
    assert crossing([4.0, 6.0], [1, 1], [10, 10]) is None


def test_the_bounds_themselves_cross_at_the_balanced_rho_when_the_horizon_grows() -> None:
    near, far = bounds_crossing(10**6), bounds_crossing(10**150)
    assert near is not None
    assert far is not None
    assert abs(far - BALANCED) < abs(near - BALANCED) < 0.5
    assert far == pytest.approx(BALANCED, abs=0.05)


@pytest.fixture(scope="module")
def balanced() -> dict[str, list[Ledger]]:
    return results_of("balance", 2)


def test_explorations_grow_no_faster_than_theorem_2_allows_and_as_uniform_contexts_make_them(
    balanced: dict[str, list[Ledger]],
) -> None:
    judged = [rho for rho in RHOS if 4.0 < rho < 7.0]
    for rho in judged:
        slopes = [exploration_exponent(ledger, rho) for ledger in balanced[label_of(rho, 100)]]
        assert all(slope is not None and slope <= 4 / rho for slope in slopes)
        assert np.mean([slope for slope in slopes if slope]) == pytest.approx(4 / (1 + rho), abs=0.06)


def test_a_longer_duration_loses_less_exploring_and_more_exploiting(balanced: dict[str, list[Ledger]]) -> None:
    for divisor in (100, 1000, 5000):
        first, last = (balanced[label_of(rho, divisor)] for rho in (RHOS[0], RHOS[-1]))
        for short, long in zip(first, last, strict=True):
            assert short.regret_exploring > 10 * long.regret_exploring
            assert short.regret_exploiting < long.regret_exploiting / 3
            assert short.regret_exploring > short.regret_exploiting
            assert long.regret_exploring < long.regret_exploiting


def test_the_tables_stand_next_to_the_theorems(balanced: dict[str, list[Ledger]]) -> None:
    growth, crossings = EXPERIMENTS["balance"].figures(balanced)
    assert [line.paper[0] for line in growth.lines] == [4 / rho for rho in RHOS]
    for line in crossings.lines:
        assert line.paper[0] == pytest.approx(2 + 2 * 2**0.5)
        assert all(RHOS[0] < rho < RHOS[-1] for rho in line.ours[0])
    exponents, regrets = EXPERIMENTS["balance"].pictures(balanced)
    assert all(row["y"] > 0 for picture in (exponents, regrets) for row in picture.rows)
