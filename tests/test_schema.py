"""Kinds of features, and how their values become numbers in [0, 1]."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import releaf
from releaf import Boolean, Categorical, Continuous, Quantile, Schema
from releaf.schema import Encoder

quickly = settings(derandomize=True, deadline=None, max_examples=60)
finite = st.floats(allow_nan=False, allow_infinity=False)


def refusal(message: str) -> Any:
    return pytest.raises(ValueError, match=f"^{re.escape(message)}$")


# --- continuous features --------------------------------------------------------------------------------------


def test_the_bounds_of_a_continuous_feature_become_zero_and_one() -> None:
    encoder = Schema(age=Continuous(20, 60)).encoder()
    assert [float(encoder.encode([age])[0]) for age in (20, 30, 60)] == [0.0, 0.25, 1.0]


@pytest.mark.parametrize("value", [19.999, 61, -math.inf, 10**400, "30", None, math.nan, [30], True + 19j])
def test_a_value_beyond_the_bounds_is_refused_by_name_value_and_range(value: Any) -> None:
    what = f"is missing ({value!r})" if value is None or value != value else f"is {value!r}"
    with refusal(f"feature 'age' {what}: expected a number in [20, 60]"):
        Schema(age=Continuous(20, 60)).encoder().encode([value])


@pytest.mark.parametrize(("value", "unit"), [(-5, 0.0), (20, 0.0), (40, 0.5), (61, 1.0), (math.inf, 1.0)])
def test_clipping_moves_a_value_beyond_a_bound_to_the_bound(value: float, unit: float) -> None:
    schema = Schema(age=Continuous(20, 60, clip=True))
    assert schema.encoder().encode([value]).tolist() == [unit]
    assert schema.encoder().encode_many(np.array([[value]])).tolist() == [[unit]]


@quickly
@given(st.tuples(finite, finite, finite).map(sorted).filter(lambda v: 0 < v[2] - v[0] < math.inf))
def test_a_number_between_two_bounds_keeps_its_place_between_them(ordered: list[float]) -> None:
    low, value, high = ordered
    unit = Schema(x=Continuous(low, high)).encoder().encode([value])[0]
    assert 0 <= unit <= 1
    assert unit == (value - low) / (high - low)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "float32", "float64"])
@pytest.mark.parametrize("clip", [False, True])
def test_a_column_of_any_number_type_means_the_same_as_its_values_one_by_one(dtype: str, clip: bool) -> None:
    schema = Schema(x=Continuous(-3, 120, clip=clip), y=Continuous(7, 13, clip=True))
    matrix = np.arange(0, 120, dtype=dtype).reshape(-1, 2) / np.array(1.1 if dtype == "float32" else 1, dtype=dtype)
    matrix = matrix.astype(dtype)
    one_by_one = [schema.encoder().encode(row).tolist() for row in matrix]
    assert schema.encoder().encode_many(matrix).tolist() == one_by_one


@pytest.mark.parametrize(
    ("low", "high", "error", "text"),
    [
        (1, 1, ValueError, "Continuous needs finite bounds with low < high, got low=1, high=1"),
        (2, 1, ValueError, "Continuous needs finite bounds with low < high, got low=2, high=1"),
        (0, math.inf, ValueError, "Continuous needs finite bounds with low < high, got low=0, high=inf"),
        (math.nan, 1, ValueError, "Continuous needs finite bounds with low < high, got low=nan, high=1"),
        ("0", 1, TypeError, "Continuous needs numbers as bounds, got low='0', high=1"),
    ],
)
def test_bounds_that_bound_nothing_are_refused(low: Any, high: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        Continuous(low, high)


# --- quantiles ------------------------------------------------------------------------------------------------


def ranks(values: Any, size: int = 512) -> list[float]:
    encoder = Schema(x=Quantile(size)).encoder()
    return [float(encoder.encode([value])[0]) for value in values]


@pytest.mark.parametrize("name", ["lognormal", "exponential", "standard_normal", "standard_cauchy"])
def test_the_ranks_of_a_skewed_and_shifted_stream_become_near_uniform(name: str) -> None:
    values = getattr(np.random.default_rng(0), name)(size=8192) * 1e3 + 5e6
    settled = np.sort(ranks(values)[4096:])
    assert np.abs(settled - np.linspace(0, 1, len(settled))).max() < 0.06  # Kolmogorov–Smirnov; 512 values are sampled


def test_a_stream_that_moves_is_ranked_by_its_new_values_after_a_while() -> None:
    generator = np.random.default_rng(1)
    values = np.concatenate([generator.normal(0, 1, 300), generator.normal(50, 1, 20_000)])
    assert 0.4 < np.mean(ranks(values)[-2000:]) < 0.6


def test_the_same_stream_gives_the_same_ranks_and_a_whole_table_the_same_as_single_rows() -> None:
    values = np.random.default_rng(2).normal(size=3000)
    assert ranks(values, size=64) == ranks(values, size=64)
    assert Schema(x=Quantile(64)).encoder().encode_many(values[:, None])[:, 0].tolist() == ranks(values, size=64)


def test_the_first_value_and_a_constant_stream_have_rank_one_half() -> None:
    assert ranks([1e9]) == [0.5]
    assert ranks([3.25] * 1000) == [0.5] * 1000


def test_ties_share_the_middle_of_their_ranks() -> None:
    assert ranks([0, 1] * 512, size=1024)[-2:] == [0.25, 0.75]


@quickly
@given(st.lists(finite, min_size=1, max_size=80), finite, finite)
def test_ranks_keep_the_order_and_stay_in_the_unit_interval(values: list[float], one: float, other: float) -> None:
    encoder = Schema(x=Quantile(16)).encoder()
    found = [encoder.encode([value])[0] for value in values]
    assert all(0 <= rank <= 1 for rank in found)
    low, high = (encoder.sketches[0].rank(value) for value in sorted((one, other)))
    assert 0 <= low <= high <= 1


def test_numbers_further_apart_than_the_largest_number_are_ranked_all_the_same() -> None:
    assert ranks([-1.7e308, 1.7e308, 0.0])[-1] == 0.5


@pytest.mark.parametrize("size", [1, 0, 2.5, True, "many"])
def test_a_sample_too_small_to_rank_with_is_refused(size: Any) -> None:
    with refusal(f"Quantile needs a sample of at least 2 values, a whole number, got size={size!r}"):
        Quantile(size)


# --- categories -----------------------------------------------------------------------------------------------


def test_each_category_has_an_interval_of_its_own_that_never_splits() -> None:
    schema = Schema(kind=Categorical("tcp", "udp", "icmp"), urgent=Boolean(), size=Continuous(0, 100))
    generator = np.random.default_rng(0)
    kinds = generator.choice(["tcp", "udp", "icmp"], p=[0.6, 0.3, 0.1], size=5000)
    urgent = generator.random(5000) < 0.2
    table = pd.DataFrame({"kind": kinds, "urgent": urgent, "size": generator.random(5000) * 100})
    bandit = releaf.Releaf(2, schema, seed=0)
    bandit.replay(table, generator.random((5000, 2)))
    bandit.decide(["tcp", False, 50])  # counts the last arrival
    for name, expected in (("kind", [(kinds == kind).sum() for kind in ("tcp", "udp", "icmp")]), ("urgent", None)):
        intervals = bandit.partition(name)
        counts = expected or [(~urgent).sum(), urgent.sum()]
        assert [interval.arrivals for interval in intervals] == counts
        assert [(interval.low, interval.high) for interval in intervals] == [
            (place / len(counts), (place + 1) / len(counts)) for place in range(len(counts))
        ]
        assert {interval.level for interval in intervals} == {None}
    assert len(bandit.partition("size")) > 3


@pytest.mark.parametrize("value", ["ftp", "TCP", 0, ["tcp"], True])
def test_an_unknown_category_is_refused_with_the_known_ones(value: Any) -> None:
    with refusal(f"feature 'kind' is {value!r}: expected one of 'tcp', 'udp'"):
        Schema(kind=Categorical("tcp", "udp")).encoder().encode([value])


@pytest.mark.parametrize("value", [2, -1, 0.5, "maybe", "2"])
def test_what_is_neither_true_nor_false_is_refused(value: Any) -> None:
    spellings = "True or False, or true/false, yes/no, y/n, t/f, on/off, 1/0 as text"
    with refusal(f"feature 'urgent' is {value!r}: expected {spellings}"):
        Schema(urgent=Boolean()).encoder().encode([value])


@pytest.mark.parametrize("value", [True, 1, 1.0, np.bool_(True), np.int8(1), np.float32(1)])
def test_true_may_be_written_in_many_ways(value: Any) -> None:
    assert Schema(urgent=Boolean()).encoder().encode([value]).tolist() == [0.75]


def test_categories_may_be_given_one_by_one_or_as_any_sequence() -> None:
    expected = Categorical("a", "b")
    assert Categorical(["a", "b"]) == Categorical(np.array(["a", "b"])) == Categorical(("a", "b")) == expected


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        ((), ValueError, "Categorical needs at least one value and no value twice, got ()"),
        (("a", "a"), ValueError, "Categorical needs at least one value and no value twice, got ('a', 'a')"),
        (("a", None), TypeError, "the values of Categorical must be text, numbers or booleans, got ('a', None)"),
        ((1.0, math.nan), TypeError, "the values of Categorical must be text, numbers or booleans, got (1.0, nan)"),
        ((b"ab",), TypeError, "the values of Categorical must be text, numbers or booleans, got (b'ab',)"),
    ],
)
def test_categories_that_cannot_be_told_apart_or_saved_are_refused(
    values: tuple[Any, ...], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        Categorical(*values)


# --- missing values -------------------------------------------------------------------------------------------

PATIENT = Schema(
    age=Continuous(0, 100, missing=True),
    income=Quantile(missing=True),
    city=Categorical("Rome", "Oslo", missing=True),
    smoker=Boolean(missing=True),
)


@pytest.mark.parametrize("gone", [None, math.nan, np.float32("nan"), pd.NA, pd.NaT])
def test_missing_values_have_an_interval_of_their_own_where_allowed(gone: Any) -> None:
    bandit = releaf.Releaf(2, PATIENT, seed=0)
    for _ in range(3):
        choice = bandit.decide([gone, gone, gone, gone])
    assert choice.context.tolist() == [-1.0, -1.0, 2.5 / 3, 2.5 / 3]
    bandit.decide([50, 1e4, "Oslo", True])
    for name in PATIENT.names:
        arrivals = [interval.arrivals for interval in bandit.partition(name)]
        assert arrivals[-1] == 3
        assert not any(arrivals[:-1])
    assert math.isnan(bandit.partition("age")[-1].low)
    explained = bandit.explain(choice)
    assert sum(f"{name} missing" in explained for name in PATIENT.names) == 3  # the three finest intervals are told


@pytest.mark.parametrize("feature", [Continuous(), Quantile(), Categorical("a", "b"), Boolean()])
@pytest.mark.parametrize("gone", [None, math.nan, ""])
def test_missing_values_are_refused_where_not_allowed(feature: Any, gone: Any) -> None:
    with refusal(f"feature 'x' is missing ({gone!r}): expected {feature.expects}"):
        Schema(x=feature).encoder().encode([gone])
    with refusal(f"feature 'x' of row 1 is missing ({gone!r}): expected {feature.expects}"):
        Schema(x=feature).encoder().encode_many([["a" if feature.kind == "categorical" else 1], [gone]])


# --- what is refused changes nothing --------------------------------------------------------------------------


@quickly
@given(st.lists(st.sampled_from([1.0, 2.0, 5.0, math.inf, None, "text"]), max_size=40))
def test_a_stream_with_refused_contexts_is_ranked_as_if_they_had_not_come(values: list[Any]) -> None:
    encoder, twin = Schema(x=Quantile(4)).encoder(), Schema(x=Quantile(4)).encoder()
    for value in values:
        if isinstance(value, float) and math.isfinite(value):
            assert encoder.encode([value]) == twin.encode([value])
        else:
            with pytest.raises(ValueError, match="feature 'x' is"):
                encoder.encode([value])


# --- schemas --------------------------------------------------------------------------------------------------

features = st.one_of(
    st.builds(Continuous, st.integers(-5, 0), st.floats(1, 9), clip=st.booleans(), missing=st.booleans()),
    st.builds(Quantile, st.integers(2, 99), missing=st.booleans()),
    st.builds(Boolean, missing=st.booleans()),
    st.builds(
        lambda values, missing: Categorical(*values, missing=missing),
        st.lists(st.one_of(st.text(), st.integers(2), st.booleans()), min_size=1, max_size=9, unique=True),
        st.booleans(),
    ),
)


@quickly
@given(st.dictionaries(st.text(), features, min_size=1))
def test_a_schema_comes_back_from_plain_data_as_it_was(given_features: dict[str, Any]) -> None:
    schema = Schema(given_features)
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    assert again == schema
    assert repr(again) == repr(schema)
    assert hash(again) == hash(schema)


def test_options_given_as_numpy_numbers_are_kept_as_plain_ones() -> None:
    bounds: Any = {"low": np.int64(1), "high": np.float32(2), "missing": np.bool_(True)}
    size: Any = np.int64(9)
    schema = Schema(a=Continuous(**bounds), b=Quantile(size))
    assert repr(schema.to_dict()) == repr(Schema(a=Continuous(1, 2, missing=True), b=Quantile(9)).to_dict())


def test_an_encoder_takes_up_what_another_has_learnt() -> None:
    schema = Schema(x=Quantile(8), y=Quantile(30))
    values = np.random.default_rng(4).normal(size=(500, 2))
    first, second = Encoder(schema), Encoder(schema)
    first.encode_many(values[:333])
    second.restore(first.state())
    assert np.array_equal(first.encode_many(values[333:]), second.encode_many(values[333:]))


@pytest.mark.parametrize(
    ("given_features", "error", "text"),
    [
        ({}, ValueError, "a Schema needs at least one feature, got none"),
        (
            {"x": 3},
            TypeError,
            "feature 'x' must be Continuous, Quantile, Categorical, Boolean or DateTime, got 3",
        ),
        ({"1": Boolean(), 1: Boolean()}, ValueError, "features must have different names, got ['1', '1']"),
    ],
)
def test_a_schema_without_sense_is_refused(given_features: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        Schema(given_features)


def test_encoded_values_are_led_back_to_their_own_terms() -> None:
    schema = releaf.Schema(
        age=releaf.Continuous(20, 120, missing=True),
        plan=releaf.Categorical("a", "b", missing=True),
        member=releaf.Boolean(),
        income=releaf.Quantile(missing=True),
    )
    encoder = schema.encoder()
    for income in range(64):
        encoder.encode([50, "a", True, 1000.0 * income])
    for context in ([70.0, "b", False, 20_000.0], [None, None, True, None], [120.0, "a", True, 0.0]):
        row = encoder.encode(context)
        assert [encoder.from_unit(place, float(unit)) for place, unit in enumerate(row)] == pytest.approx(context)
    assert releaf.Schema(income=releaf.Quantile()).encoder().from_unit(0, 0.3) == 0.3  # before the first value


def test_other_counts_values_that_are_not_known_as_one_category() -> None:
    """One by one and as a column; missing stays a category of its own, and what is no value stays an error."""
    plan = Categorical("a", "b", missing=True, other=True)
    encoder = Schema(plan=plan).encoder()
    assert plan.categories == 4
    units = encoder.encode_many([["a"], ["zzz"], [None], [7], ["b"]], learns=False)[:, 0]
    assert units.tolist() == [0.125, 0.625, 0.875, 0.625, 0.375]
    assert [encoder.encode([value])[0] for value in ("a", "zzz", None)] == [0.125, 0.625, 0.875]
    assert [encoder.from_unit(0, unit) for unit in (0.125, 0.625, 0.875)] == ["a", "other", None]
    assert plan.describe(0.5, 0.75) == "other than all known"
    assert (
        Schema.from_dict(Schema(plan=plan).to_dict())
        == Schema.from_toml(Schema(plan=plan).to_toml())
        == Schema(plan=plan)
    )
    assert Categorical("a", other=True) != Categorical("a")
    with pytest.raises(ValueError, match="plan"):
        encoder.encode([["a"]])
    with pytest.raises(ValueError, match="'plan' is 'b': expected one of 'a'"):
        Schema(plan=Categorical("a")).encoder().encode(["b"])


@pytest.mark.parametrize("gone", [None, math.nan, "", " "])
def test_a_missing_value_counts_as_other_where_it_is_no_category_of_its_own(gone: Any) -> None:
    encoder = Schema(plan=Categorical("a", "b", other=True)).encoder()
    assert encoder.encode([gone]).tolist() == encoder.encode(["zzz"]).tolist()
    assert encoder.encode_many([[gone], ["a"]])[0].tolist() == encoder.encode(["zzz"]).tolist()


def test_blank_text_may_be_a_category() -> None:
    encoder = Schema(plan=Categorical("", "a", missing=True)).encoder()
    assert encoder.encode_many([[""], ["a"], [None]])[:, 0].tolist() == [1 / 6, 0.5, 5 / 6]
    assert encoder.encode([""]).tolist() == [1 / 6]
