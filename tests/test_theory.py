"""The theorems' formulas, against values worked out by hand."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from itertools import combinations, combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import releaf
from releaf import theory

# --- the balanced duration parameter (Theorems 3 and 5) -------------------------------------------------------


def test_the_balanced_rho_of_one_relevant_feature_is_two_plus_two_roots_of_two() -> None:
    assert theory.balanced_rho(1) == pytest.approx(2 + 2 * math.sqrt(2), rel=1e-15)


@pytest.mark.parametrize("d", range(1, 6))
def test_the_balanced_rho_solves_its_defining_equation(d: int) -> None:
    rho = theory.balanced_rho(d)
    assert rho / (1 + rho) == pytest.approx((2 + 2 * d) / rho, rel=1e-14)


def test_the_regret_exponent_of_one_relevant_feature_is_twice_the_root_of_two_less_one() -> None:
    assert theory.regret_exponent(1) == pytest.approx(2 * (math.sqrt(2) - 1), rel=1e-15)


@pytest.mark.parametrize("d", range(1, 6))
def test_the_regret_exponent_is_the_one_that_the_balanced_rho_gives_both_parts(d: int) -> None:
    rho = theory.balanced_rho(d)
    assert theory.regret_exponent(d) == pytest.approx(rho / (1 + rho), rel=1e-14)


@pytest.mark.parametrize("d", range(1, 30))
def test_the_regret_exponent_is_at_most_what_the_introduction_promises(d: int) -> None:
    assert theory.regret_exponent(d) <= (2 * d + 3) / (2 * d + 4)


@pytest.mark.parametrize("features", range(4, 40))
def test_the_exponent_is_better_than_that_of_generic_contextual_bandits_up_to_half_the_features(features: int) -> None:
    for d in range(1, math.floor(features / 2 - 1) + 1):
        assert theory.regret_exponent(d) < (features + 1) / (features + 2)


# --- control numbers ------------------------------------------------------------------------------------------


def test_the_control_number_of_a_half_at_the_first_step() -> None:
    # D* = C(2, 1) = 2, so 2 ln(1 · 2 · 2 / 0.05) / 0.5² = 8 ln 80
    assert theory.control_number(1, 0.5, actions=2, features=3) == pytest.approx(8 * math.log(80))


def test_the_control_number_with_two_relevant_features_counts_the_tuples_of_four() -> None:
    # D* = C(5, 3) = 10, so 2 ln(10 · 10 · 3 / 0.5) / (2 · 0.25)² / 5000 = ln 600 / 625
    found = theory.control_number(
        10, 0.25, actions=3, features=6, lipschitz=2, delta=0.5, gamma_rel=2, control_divisor=5000
    )
    assert found == pytest.approx(math.log(600) / 625)


def test_the_estimate_of_an_unknown_lipschitz_constant_grows_by_one_half_with_each_factor_e() -> None:
    assert theory.lipschitz_estimate(1) == 1.0
    assert theory.lipschitz_estimate(8) == pytest.approx(1 + 1.5 * math.log(2))
    assert theory.lipschitz_estimate(7) < 2 < theory.lipschitz_estimate(8)  # as its text tells
    assert theory.lipschitz_estimate(2980) < 5 < theory.lipschitz_estimate(2981)


# --- bounds ---------------------------------------------------------------------------------------------------


def test_one_exploitation_loses_at_most_eight_lipschitz_times_both_lengths() -> None:
    assert theory.instantaneous_bound(2.0, 0.25, 0.5) == 12.0


def test_the_exploitation_bound_at_a_point() -> None:
    # 16 · 1 · 2 · 2^(2 · 3) · 16^(3/4) = 32 · 64 · 8
    assert theory.exploitation_bound(16, features=2, rho=3.0) == pytest.approx(16_384)
    # three times L, and √4 for four relevant features
    assert theory.exploitation_bound(16, features=2, rho=3.0, lipschitz=3.0, d_rel=4) == pytest.approx(6 * 16_384)


def test_the_exploration_bound_at_a_point() -> None:
    # ln(16 · 1 · 1 / δ) = 5, T^(4/ρ) = 16, T^(2/ρ) = 4: 960 · 4 · 5 · 16 / 7 + 64 · 4 · 4 / 3
    delta = 16 / math.exp(5)
    by_hand = 307_200 / 7 + 1024 / 3
    assert theory.exploration_bound(16, features=2, actions=1, rho=4.0, delta=delta) == pytest.approx(by_hand)
    costly = theory.exploration_bound(16, features=2, actions=1, rho=4.0, delta=delta, observation_cost=1.5)
    assert costly == pytest.approx(2.5 * by_hand)
    steep = theory.exploration_bound(16, features=2, actions=1, rho=4.0, delta=delta, lipschitz=2.0)
    assert steep == pytest.approx(307_200 / 28 + 1024 / 3)


def test_the_epsilon_optimal_bounds_multiply_exploration_by_eighty_one_over_epsilon_to_the_fourth() -> None:
    delta = 16 / math.exp(5)
    bounds = theory.epsilon_optimal_bounds(16, 0.5, features=2, actions=1, rho=4.0, delta=delta)
    assert bounds.exploitation == pytest.approx(16 * 2 * 256 * 16**0.8)
    assert bounds.exploration == pytest.approx(81 * 16 * (307_200 / 7 + 1024 / 3))
    steep = theory.epsilon_optimal_bounds(16, 0.5, features=2, actions=1, rho=4.0, delta=delta, lipschitz=2.0)
    assert steep.exploration == pytest.approx(81 * 16 * 16 * (307_200 / 28 + 1024 / 3))
    assert steep.exploitation == pytest.approx(2 * bounds.exploitation)
    assert bounds.total == bounds.exploitation + bounds.exploration


@pytest.mark.parametrize(("d", "features"), [(1, 4), (2, 5)])
@pytest.mark.parametrize("horizon", [1, 100, 10**6])
def test_the_general_bound_is_the_sum_over_all_levels_that_the_proof_writes_down(
    d: int, features: int, horizon: int
) -> None:
    rho, actions, lipschitz, delta, cost = 3.0, 3, 1.5, 0.1, 0.25
    top = math.floor(1 + math.log2(horizon) / rho)
    needed = 2 * math.log(horizon * actions * math.comb(features - 1, 2 * d - 1) / delta) / lipschitz**2
    summed = sum(
        2 ** sum(levels) * (needed * 4 ** levels[-1] + 1)
        for levels in combinations_with_replacement(range(top + 1), 2 * d)
    )
    bounds = theory.general_bounds(
        horizon,
        features=features,
        actions=actions,
        d_rel=d,
        rho=rho,
        lipschitz=lipschitz,
        delta=delta,
        observation_cost=cost,
    )
    orders = math.perm(features, 2 * d)  # C(D, 2d) (2d)!
    assert bounds.exploration == pytest.approx(orders * (1 + cost) * summed)
    exploited = theory.exploitation_bound(horizon, features=features, rho=rho, lipschitz=lipschitz, d_rel=d)
    assert bounds.exploitation == exploited


@pytest.mark.parametrize("d", [1, 2, 3])
def test_with_the_balanced_rho_both_parts_of_the_general_bound_grow_with_the_regret_exponent(d: int) -> None:
    rho = theory.balanced_rho(d)
    earlier, later = (2.0 ** (rho * (level + 0.5)) for level in (60, 64))
    first, second = (theory.general_bounds(horizon, features=8, actions=2, d_rel=d) for horizon in (earlier, later))
    for before, after in zip(first, second, strict=True):
        growth = math.log(after / before) / math.log(later / earlier)
        assert growth == pytest.approx(theory.regret_exponent(d), abs=0.01)


# --- lemmas: accuracy of cells (corr, corrhigh) ---------------------------------------------------------------


def test_the_chance_of_an_inaccurate_cell_at_a_point() -> None:
    # D* = C(4, 1) = 4: 2 · (0.08 / (10 · 2 · 4))⁴
    assert theory.inaccuracy_bound(10, actions=2, features=5, delta=0.08) == pytest.approx(2e-12)
    # D* = C(5, 3) = 10 and γ = 2: 2 · (0.5 / (1 · 5 · 10))⁸
    assert theory.inaccuracy_bound(1, actions=5, features=6, delta=0.5, gamma_rel=2) == pytest.approx(2e-16)
    # four times fewer rewards: 2 · 0.001
    assert theory.inaccuracy_bound(10, actions=2, features=5, delta=0.08, control_divisor=4) == pytest.approx(0.002)
    assert theory.inaccuracy_bound(10, actions=2, features=5, control_divisor=5000) == 1.0


@settings(derandomize=True, deadline=None)
@given(
    t=st.integers(1, 10**9),
    actions=st.integers(1, 50),
    features=st.integers(6, 50),
    delta=st.floats(1e-6, 0.999),
    gamma=st.integers(1, 3),
)
def test_lemmas_corr_and_corrhigh_follow_for_every_setting(
    t: int, actions: int, features: int, delta: float, gamma: int
) -> None:
    given: dict[str, Any] = {"actions": actions, "features": features, "gamma_rel": gamma, "delta": delta}
    terms = math.comb(features - 1, 2 * gamma - 1)
    assert theory.inaccuracy_bound(t, **given) <= 2 * delta / (actions * terms * t**4) * (1 + 1e-9)
    assert theory.correctness_bound(**given) >= 1 - delta


@pytest.mark.parametrize(("gamma", "divisor"), [(1, 1.0), (1, 2.5), (1, 4.0), (1, 10.0), (2, 5.0)])
@pytest.mark.parametrize("horizon", [1, 2, 1000])
def test_the_union_bound_is_at_least_the_sum_over_steps_actions_and_tuples(
    gamma: int, divisor: float, horizon: int
) -> None:
    actions, features, delta = 3, 6, 1e-4
    given: dict[str, Any] = {"actions": actions, "features": features, "delta": delta}
    given |= {"gamma_rel": gamma, "control_divisor": divisor}
    cells = actions * math.comb(features - 1, 2 * gamma - 1)
    summed = sum(cells * theory.inaccuracy_bound(t, **given) for t in range(2, horizon + 1))
    failure = 1 - theory.correctness_bound(horizon, **given)
    assert min(1.0, summed) <= failure + 1e-15 <= min(1.0, 3 * summed) + 1e-12


def test_no_number_of_steps_is_covered_once_the_divisor_reaches_four_for_each_relevant_feature() -> None:
    given: dict[str, Any] = {"actions": 2, "features": 4, "delta": 1e-9}
    assert theory.correctness_bound(**given, control_divisor=3.9) > 0.99
    assert theory.correctness_bound(**given, control_divisor=4.0) == 0.0
    assert theory.correctness_bound(1000, **given, control_divisor=4.0) > 0.99
    assert theory.correctness_bound(**given, gamma_rel=2, control_divisor=7.9) > 0.99
    assert theory.correctness_bound(**given, gamma_rel=2, control_divisor=8.0) == 0.0


@pytest.mark.parametrize("divisor", [1.0, 3.0])
def test_means_of_as_many_rewards_as_the_control_number_are_inaccurate_no_more_often_than_that(divisor: float) -> None:
    """The most spread-out rewards there are, at the edge of what the Similarity Assumption allows."""
    length = 0.25
    given: dict[str, Any] = {"actions": 1, "features": 2, "delta": 0.5, "control_divisor": divisor}
    count = math.ceil(theory.control_number(1, length, lipschitz=1.0, **given))
    means = np.random.default_rng(0).binomial(count, 0.5 + length / 2, 200_000) / count
    inaccurate = np.mean(np.abs(means - 0.5) > 1.5 * length)
    assert 0 < inaccurate <= theory.inaccuracy_bound(1, **given)


# --- lemmas: accuracy of estimates (estimatedrel, estimatedrelhigh) -------------------------------------------


def estimate_of(means: dict[tuple[int, ...], float], counts: dict[tuple[int, ...], int], gamma: int) -> float:
    """The paper's estimate of one action from its cells: the tuple that varies least, and the mean over its cells."""
    features = sorted({feature for cell in means for feature in cell})
    held = {v: [cell for cell in means if set(v) <= set(cell)] for v in combinations(features, gamma)}
    least = min(held, key=lambda v: np.ptp([means[cell] for cell in held[v]]))
    return float(np.average([means[cell] for cell in held[least]], weights=[counts[cell] for cell in held[least]]))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(data=st.data(), features=st.integers(4, 6), gamma=st.integers(1, 2), length=st.floats(0.01, 0.2))
def test_an_estimate_is_as_accurate_as_the_lemmas_say_whatever_irrelevant_cells_hold(
    data: st.DataObject, features: int, gamma: int, length: float
) -> None:
    relevant, truth, unit = tuple(range(gamma)), 0.5, math.sqrt(gamma) * length  # L = 1, all intervals equal
    centre = truth + data.draw(st.floats(-1, 1)) * unit / 2
    means, counts = {}, {}
    for cell in combinations(range(features), 2 * gamma):
        accurate = set(relevant) <= set(cell)
        spread = 1.5 * unit if accurate else data.draw(st.sampled_from([0.0, 3 * unit, 0.5]))
        means[cell] = centre + data.draw(st.floats(-1, 1)) * spread
        counts[cell] = data.draw(st.integers(1, 1000))
    found = abs(estimate_of(means, counts, gamma) - truth)
    lengths = dict.fromkeys(("estimated_length", "containing_length", "relevant_length"), length)
    allowed = theory.tuple_estimate_accuracy(1.0, d_rel=gamma, **lengths)
    assert allowed == pytest.approx(8 * unit)
    assert found <= 5 / 8 * allowed + 1e-12, "what follows without the detour of (A.2)"


def test_an_irrelevant_feature_can_make_an_estimate_wrong_by_nearly_five_lengths() -> None:
    # feature 0 is relevant; its cells are at ±3/2, which is as accurate as CORR_T makes them, around a centre 1/2 off
    means: dict[tuple[int, ...], float] = {(0, 1): 2.0, (0, 2): -1.0, (1, 2): 4.999}
    counts: dict[tuple[int, ...], int] = {(0, 1): 1, (0, 2): 1, (1, 2): 10**6}
    assert estimate_of(means, counts, 1) == pytest.approx(4.999, abs=1e-3)
    assert theory.estimate_accuracy(1.0, 1.0) == 8


def test_the_accuracy_with_several_relevant_features_adds_up_the_three_lengths() -> None:
    # 3 · 2 · √4 · (0.25 + 0.5) + 2 · 2 · √4 · 0.125
    found = theory.tuple_estimate_accuracy(
        2.0, d_rel=4, estimated_length=0.25, containing_length=0.5, relevant_length=0.125
    )
    assert found == 10


@settings(derandomize=True, deadline=None)
@given(
    accuracy=st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
    lengths=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)),
    gap=st.floats(0, 20),
)
def test_an_action_with_the_higher_of_two_accurate_estimates_loses_theorem_1s_bound_at_most(
    accuracy: tuple[float, float], lengths: tuple[float, float], gap: float
) -> None:
    chosen, best = (share * theory.estimate_accuracy(1.5, s) for share, s in zip(accuracy, lengths, strict=True))
    if chosen >= gap + best:  # the estimate of the action that is worse by the gap is the higher one
        assert gap <= theory.instantaneous_bound(1.5, *lengths) + 1e-9


def test_with_one_relevant_feature_and_equal_intervals_theorem_5_allows_what_theorem_1_does() -> None:
    one = theory.instantaneous_bound(1.5, 0.25, 0.25)
    assert theory.general_instantaneous_bound(1.5, 0.25, d_rel=1) == one
    assert theory.general_instantaneous_bound(1.5, 0.25, d_rel=4) == 2 * one


# --- lengths of intervals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rho", "base", "epsilon"), [(1.0, 2, None), (2.5, 2, None), (1.5, 3, None), (1.2, 4, None), (2.0, 2, 0.4)]
)
def test_the_lengths_of_intervals_are_those_that_the_learner_has_at_each_step(
    rho: float, base: int, epsilon: float | None
) -> None:
    draw = np.random.default_rng(1)
    contexts = np.round(draw.beta(0.5, 1.0, (600, 2)), 2)  # with ties, borders and both ends
    bandit = releaf.Releaf(2, 2, rho=rho, base=base, epsilon=epsilon, seed=0)
    start = 0 if epsilon is None else theory.starting_level(1.0, epsilon, base)
    found = [theory.interval_lengths(column, rho=rho, base=base, start_level=start) for column in contexts.T]
    for step, context in enumerate(contexts):
        bandit.decide(context)
        for feature, value in enumerate(context):
            (held,) = (p for p in bandit.partition(feature) if p.low < value <= p.high or value == p.low == 0)
            assert found[feature][step] == pytest.approx(held.high - held.low)
    assert min(map(min, found)) < 0.1, "several splits"


# --- the starting level of ε-optimality (Theorem 4) -----------------------------------------------------------


@settings(derandomize=True, deadline=None)
@given(lipschitz=st.floats(0.01, 100), epsilon=st.floats(1e-6, 100), base=st.integers(2, 5))
def test_the_starting_level_is_the_least_whose_intervals_are_short_enough(
    lipschitz: float, epsilon: float, base: int
) -> None:
    level = theory.starting_level(lipschitz, epsilon, base)
    assert 1.5 * lipschitz * base**-level <= epsilon * (1 + 1e-12)
    assert level == 0 or 1.5 * lipschitz * base ** (1 - level) > epsilon * (1 - 1e-12)


@pytest.mark.parametrize("base", [2, 3, 4, 5])
@pytest.mark.parametrize("level", range(12))
def test_an_epsilon_that_a_level_meets_exactly_starts_at_that_level(base: int, level: int) -> None:
    assert theory.starting_level(base**level / 3, 0.5, base) == level


# --- documentation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in theory.__all__ if name != "RegretBounds"])
def test_every_parameter_of_a_function_is_documented(name: str) -> None:
    function = getattr(theory, name)
    documented = (inspect.getdoc(function) or "").partition("Parameters\n----------\n")[2].splitlines()
    assert set(inspect.signature(function).parameters) <= set(documented)


# --- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.balanced_rho(0), "d_rel must be a positive number, got d_rel=0"),
        (lambda: theory.balanced_rho("one"), "d_rel must be a positive number, got d_rel='one'"),  # type: ignore[arg-type]
        (lambda: theory.regret_exponent(-1), "d_rel must be a positive number, got d_rel=-1"),
        (lambda: theory.lipschitz_estimate(0), "t must be a positive number, got t=0"),
        (lambda: theory.instantaneous_bound(1, 0.5, 0), "best_length must be a positive number, got best_length=0"),
        (lambda: theory.inaccuracy_bound(0, actions=2, features=2), "t must be a positive number, got t=0"),
        (
            lambda: theory.correctness_bound(actions=2, features=2, delta=1.0),
            "delta must be above 0 and below 1, got delta=1.0",
        ),
        (lambda: theory.estimate_accuracy(0, 0.5), "lipschitz must be a positive number, got lipschitz=0"),
        (
            lambda: theory.tuple_estimate_accuracy(
                1, d_rel=2, estimated_length=1, containing_length=0.25, relevant_length=0.5
            ),
            "containing_length must be at least 0.5, got containing_length=0.25",
        ),
        (
            lambda: theory.general_instantaneous_bound(1, -1, d_rel=2),
            "longest must be a positive number, got longest=-1",
        ),
        (lambda: theory.interval_lengths([0.5], rho=0), "rho must be a positive number, got rho=0"),
        (lambda: theory.interval_lengths([0.5, 1.5], rho=1), "values[1] is 1.5: expected numbers from 0 to 1"),
        (lambda: theory.control_number(0, 1, actions=2, features=2), "t must be a positive number, got t=0"),
        (
            lambda: theory.control_number(1, 1, actions=0, features=2),
            "actions must be a positive number, got actions=0",
        ),
        (lambda: theory.control_number(1, 1, actions=2, features=1), "features must be at least 2, got features=1"),
        (
            lambda: theory.control_number(1, 1, actions=2, features=3, gamma_rel=2),
            "features must be at least 4, got features=3",
        ),
        (
            lambda: theory.exploitation_bound(math.nan, features=2, rho=1),
            "horizon must be a positive number, got horizon=nan",
        ),
        (lambda: theory.exploitation_bound(9, features=2, rho=math.inf), "rho must be a positive number, got rho=inf"),
        (
            lambda: theory.exploration_bound(9, features=1, actions=2, rho=1),
            "features must be at least 2, got features=1",
        ),
        (
            lambda: theory.exploration_bound(9, features=2, actions=2, rho=1, observation_cost=-1),
            "observation_cost must be at least 0, got observation_cost=-1",
        ),
        (lambda: theory.starting_level(1, 0), "epsilon must be a positive number, got epsilon=0"),
        (lambda: theory.starting_level(1, 0.1, 1), "base must be at least 2, got base=1"),
        (
            lambda: theory.starting_level(1.0, 5e-324),
            "epsilon=5e-324 is too small for lipschitz=1.0: expected a finite 3L / 2ε",
        ),
        (
            lambda: theory.epsilon_optimal_bounds(9, -0.1, features=2, actions=2, rho=1),
            "epsilon must be a positive number, got epsilon=-0.1",
        ),
        (
            lambda: theory.general_bounds(9, features=3, actions=2, d_rel=2),
            "d_rel=2 needs at least 4 features, got features=3",
        ),
        (
            lambda: theory.general_bounds(9, features=3, actions=2, d_rel=1, rho=-2.0),
            "rho must be a positive number, got rho=-2.0",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_value(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()
