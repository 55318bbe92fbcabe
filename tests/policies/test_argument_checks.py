"""Invalid constructor arguments: the error names the argument, its value and what was expected."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from releaf import Boolean, GreedyReleaf, Releaf, Schema
from releaf.policies.argument_checks import positive, whole

POLICIES = (Releaf, GreedyReleaf)


def assert_refused(error: type[Exception], text: str, policies: Any = POLICIES, **arguments: Any) -> None:
    for policy in policies:
        with pytest.raises(error, match=f"^{re.escape(text)}$"):
            policy(**({"actions": 2, "features": 4} | arguments))


@pytest.mark.parametrize("name", ["lipschitz", "rho", "delta", "control_divisor"])
@pytest.mark.parametrize("value", [0, -1, -0.5, math.nan, math.inf, "2", True, [1.0], 1j])
def test_what_must_be_positive_is_refused_otherwise(name: str, value: Any) -> None:
    below = " below 1" if name == "delta" else ""
    assert_refused(ValueError, f"{name} must be a positive number{below}, got {name}={value!r}", **{name: value})


@pytest.mark.parametrize("name", ["lipschitz", "delta", "control_divisor", "observation_cost"])
def test_what_has_no_default_of_none_may_not_be_none(name: str) -> None:
    kind = "a number of at least 0" if name == "observation_cost" else "a positive number"
    below = " below 1" if name == "delta" else ""
    assert_refused(ValueError, f"{name} must be {kind}{below}, got {name}=None", **{name: None})


@pytest.mark.parametrize("value", [1, 1.0, 1.5])
def test_a_probability_of_failure_of_one_or_more_is_refused(value: float) -> None:
    assert_refused(ValueError, f"delta must be a positive number below 1, got delta={value!r}", delta=value)


@pytest.mark.parametrize("value", [-0.1, math.nan, "free"])
def test_a_price_below_zero_is_refused(value: Any) -> None:
    text = f"observation_cost must be a number of at least 0, got observation_cost={value!r}"
    assert_refused(ValueError, text, observation_cost=value)


@pytest.mark.parametrize("value", [0, -0.1, math.nan, math.inf, "small"])
def test_an_epsilon_that_is_not_positive_is_refused(value: Any) -> None:
    assert_refused(ValueError, f"epsilon must be a positive number, got epsilon={value!r}", [Releaf], epsilon=value)


@pytest.mark.parametrize("value", [1, 0, -2, 2.0, 2.5, "2", None, True, 1025, 2**40, 10**30])
def test_an_interval_splits_into_two_parts_at_least_and_not_into_too_many(value: Any) -> None:
    text = f"base must be a whole number of at least 2 and at most 1024, got base={value!r}"
    assert_refused(ValueError, text, base=value)


@pytest.mark.parametrize("name", ["lipschitz", "control_divisor"])
@pytest.mark.parametrize("value", [1e200, 1e-200])
def test_a_number_that_would_make_control_numbers_overflow_is_refused(name: str, value: float) -> None:
    assert_refused(ValueError, f"{name} must be between 1e-50 and 1e+50, got {name}={value!r}", **{name: value})


def test_an_array_is_no_lipschitz_constant() -> None:
    with pytest.raises(ValueError, match=r"^lipschitz must be a positive number, got lipschitz=array"):
        Releaf(2, 2, lipschitz=np.array([1.0, 2.0]))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-1, 0.5, "luck", True])
def test_a_seed_that_is_no_natural_number_is_refused(value: Any) -> None:
    assert_refused(ValueError, f"seed must be a whole number of at least 0, got seed={value!r}", seed=value)


@pytest.mark.parametrize("value", [0, -1, 1.5, 1.0, "1", None, True])
def test_fewer_than_one_relevant_feature_are_refused(value: Any) -> None:
    text = f"gamma_rel must be a whole number of at least 1, got gamma_rel={value!r}"
    assert_refused(ValueError, text, [Releaf], gamma_rel=value)


@pytest.mark.parametrize(("gamma", "features"), [(1, 1), (2, 3), (3, 5), (10**9, 9)])
def test_more_relevant_features_than_half_of_all_are_refused(gamma: int, features: int) -> None:
    text = f"gamma_rel={gamma} is too large for {features} features: expected 2·gamma_rel ≤ features"
    assert_refused(ValueError, text, [Releaf], gamma_rel=gamma, features=features)


@pytest.mark.parametrize(("gamma", "features"), [(1, 1), (2, 2), (5, 5)])
def test_tuples_of_one_more_than_the_relevant_features_need_as_many_features(gamma: int, features: int) -> None:
    text = f"gamma_rel={gamma} is too large for {features} features: expected gamma_rel + 1 ≤ features"
    assert_refused(ValueError, text, [Releaf], gamma_rel=gamma, features=features, tuples="gamma+1")
    assert Releaf(2, features + 1, gamma_rel=gamma, tuples="gamma+1").gamma_rel == gamma


def test_more_tuples_than_fit_into_memory_are_refused_with_a_way_out() -> None:
    with pytest.raises(
        ValueError, match=r"^100 features have 1,192,052,400 tuples of 6 with 20 candidates in each, .*: use fewer"
    ):
        Releaf(2, 100, gamma_rel=3)
    with pytest.raises(ValueError, match=r"^30 features have 1 tuples of 30 with 155,117,520 candidates in each"):
        Releaf(2, 30, gamma_rel=15)


@pytest.mark.parametrize("value", ["explore", "ALWAYS", None, 1, True, ""])
def test_an_unknown_way_to_observe_is_refused_with_the_known_ones(value: Any) -> None:
    text = f"observe must be one of 'explored', 'always', 'all-actions', 'labels', got observe={value!r}"
    assert_refused(ValueError, text, observe=value)


@pytest.mark.parametrize("value", ["gamma", "2γ", None, 2])
def test_unknown_tuples_are_refused_with_the_known_ones(value: Any) -> None:
    text = f"tuples must be one of '2gamma', 'gamma+1', got tuples={value!r}"
    assert_refused(ValueError, text, [Releaf], tuples=value)


@pytest.mark.parametrize("value", [0, -1, 1.5, None, "many"])
def test_fewer_than_one_waiting_decision_are_refused(value: Any) -> None:
    text = f"max_pending must be a whole number of at least 1, got max_pending={value!r}"
    assert_refused(ValueError, text, max_pending=value)


def test_an_epsilon_that_would_need_too_many_intervals_is_refused_with_their_number() -> None:
    text = (
        "epsilon=1e-05 would start at level 18, with more than 65,536 intervals for each feature: "
        "expected a larger epsilon or a smaller lipschitz"
    )
    assert_refused(ValueError, text, [Releaf], epsilon=1e-5)
    assert len(Releaf(2, 2, epsilon=1.5 / 2**9).partition(0)) == 512


@pytest.mark.parametrize("epsilon", [1e-300, 5e-324])
def test_an_epsilon_beyond_all_measure_is_refused_too(epsilon: float) -> None:
    with pytest.raises(ValueError, match=rf"^epsilon={epsilon} (would start at level|is too small)"):
        Releaf(2, 2, epsilon=epsilon)


def test_an_epsilon_needs_a_known_lipschitz_constant() -> None:
    text = "epsilon=0.1 needs a known Lipschitz constant, got lipschitz='unknown'"
    assert_refused(ValueError, text, [Releaf], epsilon=0.1, lipschitz="unknown")


@pytest.mark.parametrize(
    ("actions", "error", "text"),
    [
        (0, ValueError, "actions must be at least 1, got actions=0"),
        (-1, ValueError, "actions must be at least 1, got actions=-1"),
        ([], ValueError, "actions must have at least one name, got none"),
        (["a", "b", "a"], ValueError, "actions must have different names, got ('a', 'b', 'a')"),
        ([1, True], ValueError, "actions must have different names, got (1, True)"),
        ("ab", TypeError, "actions must be a count or a sequence of names, got 'ab'"),
        (2.0, TypeError, "actions must be a count or a sequence of names, got 2.0"),
        (True, TypeError, "actions must be a count or a sequence of names, got True"),
        (None, TypeError, "actions must be a count or a sequence of names, got None"),
        (["a", None], TypeError, "an action's name must be text, a number or a boolean, got None"),
        (["a", b"b"], TypeError, "an action's name must be text, a number or a boolean, got b'b'"),
    ],
)
def test_actions_that_cannot_be_chosen_among_are_refused(actions: Any, error: type[Exception], text: str) -> None:
    assert_refused(error, text, actions=actions)


@pytest.mark.parametrize(
    ("features", "error", "text"),
    [
        (0, ValueError, "features must be at least 1, got features=0"),
        (-3, ValueError, "features must be at least 1, got features=-3"),
        ([], ValueError, "a Schema needs at least one feature, got none"),
        (["a", "b", "a"], ValueError, "features must have different names, got ['a', 'b', 'a']"),
        ("ab", TypeError, "features must be a count, a sequence of names or a Schema, got 'ab'"),
        (4.0, TypeError, "features must be a count, a sequence of names or a Schema, got 4.0"),
        (None, TypeError, "features must be a count, a sequence of names or a Schema, got None"),
    ],
)
def test_features_that_tell_nothing_apart_are_refused(features: Any, error: type[Exception], text: str) -> None:
    assert_refused(error, text, features=features)


def test_numbers_of_numpy_are_as_good_as_others() -> None:
    numbers: Any = {"seed": np.int64(3), "rho": np.float32(2.5), "base": np.int8(3), "delta": np.float64(0.1)}
    bandit = Releaf(np.int64(2), np.int64(3), **numbers)  # type: ignore[arg-type]
    assert (bandit.seed, bandit.rho, bandit.base, bandit.delta) == (3, 2.5, 3, 0.1)
    assert {type(value) for value in (bandit.seed, bandit.rho, bandit.base, bandit.delta)} == {int, float}


def test_the_smallest_learners_that_make_sense_decide() -> None:
    assert GreedyReleaf(1, 1, seed=0).decide([0.0]).action == 0
    assert Releaf(["only"], Schema(a=Boolean(), b=Boolean()), seed=0).decide([True, False]).action == "only"


def test_the_limits_themselves() -> None:
    assert positive("cost", 0, zero=True) == 0.0
    assert positive("delta", np.nextafter(1.0, 0.0), below=1.0) < 1
    assert positive("rho", 5e-324) == 5e-324
    assert whole("base", 2, least=2) == 2
