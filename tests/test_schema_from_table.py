"""Schemas that tables tell by themselves, and schemas as text."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from releaf import AdaptiveReleaf, Boolean, Categorical, Continuous, DateTime, Quantile, Schema

EXPECTED = Schema(
    age=Quantile(missing=True),
    visits=Quantile(missing=True),
    plan=Categorical("a", "b", missing=True, other=True),
    smoker=Boolean(missing=True),
)
ROWS = {"age": [30.5, None, 41.0], "visits": [1, 2, 3], "plan": ["b", "a", None], "smoker": [True, False, True]}
TABLES: dict[str, Any] = {
    "mapping": ROWS,
    "pandas": pd.DataFrame(ROWS),
    "pandas, nullable": pd.DataFrame(ROWS).convert_dtypes(),
    "pandas, categories": pd.DataFrame(ROWS).astype({"plan": "category"}),
    "polars": pl.DataFrame(ROWS),
    "polars, categories": pl.DataFrame(ROWS).with_columns(pl.col("plan").cast(pl.Categorical)),
    "pyarrow": pa.table(ROWS),
    "pyarrow, dictionary": pa.table({**ROWS, "plan": pa.array(ROWS["plan"]).dictionary_encode()}),
    "pyarrow batch": pa.RecordBatch.from_pydict(ROWS),
}


@pytest.mark.parametrize("name", TABLES)
def test_types_tell_the_features(name: str) -> None:
    assert Schema.guess(TABLES[name]) == EXPECTED


@pytest.mark.parametrize("name", [name for name in TABLES if name != "mapping"])
def test_what_was_guessed_is_what_can_be_decided_on(name: str) -> None:
    bandit = AdaptiveReleaf(2, Schema.guess(TABLES[name]), seed=0)
    assert len(bandit.decide_many(TABLES[name])) == 3


def test_columns_can_be_left_out_and_numbers_have_a_range() -> None:
    schema = Schema.guess(pd.DataFrame(ROWS), leave_out=["plan", "smoker"], numbers="range")
    assert schema == Schema(age=Continuous(30.5, 41.0, missing=True), visits=Continuous(1, 3, missing=True))


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ([None, None], "has no values"),
        ([float("inf"), float("-inf")], "has no finite numbers"),
        ([[1], [2]], "has values of type list"),
        ([1, 10**400], "has numbers that are too large"),
        (["a", "a"], "is always 'a'"),
        ([3, 3], "is always 3"),
        ([True, True], "is always True"),
        (["2024-01-01", "2024-01-01"], "is always '2024-01-01'"),
        ([f"u{i}" for i in range(40)], "has 40 different texts in 40 rows, like an identifier"),
        (["31.12.2024", "30.12.2024"], "has dates that are not ISO, such as '31.12.2024': write them as 2024-01-31"),
        (["12/31/2024", "12/30/2024"], "has dates that are not ISO, such as '12/31/2024': write them as 2024-01-31"),
        ([1, "a", 2], "has mixed types, 2 numbers such as 1 (row 0) and 1 texts such as 'a' (row 1)"),
        (
            [str(i) if i % 2 else f"x{i}" for i in range(100)] * 9,
            "has mixed types, 450 texts such as 'x0' (row 0) and 450 numbers such as '1' (row 1)",
        ),
        (list(range(5, 205)), "has 200 different whole numbers in 200 rows, like an identifier"),
        ([10_000_019 * i for i in range(1, 201)], "has 200 different whole numbers in 200 rows, like an identifier"),
    ],
)
def test_what_says_nothing_is_left_out_with_the_reason(column: list[Any], reason: str) -> None:
    table = {"x": column, "age": [30, 40.5] * (len(column) // 2) + [50] * (len(column) % 2)}
    with pytest.warns(UserWarning, match=re.escape(f"column 'x' was left out: it {reason}")):
        schema = Schema.guess(table)
    assert schema.left_out == {"x": reason}
    assert list(schema.inputs) == ["age"]
    assert f"# Left out: 'x' {reason}\n" in schema.to_toml()
    assert Schema.from_toml(schema.to_toml()) == schema
    with pytest.raises(ValueError, match=re.escape(f"no column can be a feature: column 'x' {reason}")):
        Schema.guess({"x": column})


@pytest.mark.parametrize(
    "name", ["user_id", "userId", "UserID", "ID", "id", "session-uuid", "customerid", "index", "Unnamed: 0"]
)
def test_a_name_tells_an_identifier_that_recurs(name: str) -> None:
    """A log has several rows of each user, so that its ids are not unique."""
    table = {name: [7 * (row % 200) for row in range(2_000)], "text": [f"t{row % 60}" for row in range(2_000)]}
    with pytest.warns(UserWarning, match="200 different whole numbers in 2,000 rows, like an identifier"):
        schema = Schema.guess(table)
    assert list(schema.left_out) == [name]
    assert schema.notes == {"text": "has high cardinality, 60 different texts in 2,000 rows"}


def test_a_few_codes_are_categories_and_an_amount_is_a_number() -> None:
    draw = np.random.default_rng(0)
    table = {
        "store_id": draw.integers(1, 12, 500),
        "income": draw.integers(20_000, 90_000, 500),
        "width": [1, 20] * 250,
    }
    with pytest.warns(UserWarning, match="column 'store_id' has whole numbers, taken for categories"):
        schema = Schema.guess(table)
    number = Quantile(missing=True)
    assert schema == Schema(store_id=Categorical(range(1, 12), other=True, missing=True), income=number, width=number)


@pytest.mark.parametrize(
    "name",
    [
        "p",
        "P",
        "prob",
        "probability",
        "propensity",
        "pscore",
        "action_prob",
        "logProb",
        "ps",
        "pScore",
        "probs",
        "proba",
    ],
)
def test_a_propensity_is_no_feature_unless_it_is_kept(name: str) -> None:
    chances = np.random.default_rng(0).random(50)
    table = {name: chances, "x": chances}
    with pytest.warns(UserWarning, match=f"column '{name}' was left out: it looks like a propensity"):
        assert list(Schema.guess(table).inputs) == ["x"]
    number = Quantile(missing=True)
    assert Schema.guess(table, keep=[name]) == Schema({name: number, "x": number})
    assert Schema.guess({name: 30 * chances}) == Schema({name: number})  # an amount, of another name


@pytest.mark.parametrize("name", ["p_a", "p_logged", "action_p", "p_mail", "p(a|x)", "p0", "p1", "pi0"])
def test_what_may_be_a_propensity_is_noted(name: str) -> None:
    chances = np.random.default_rng(0).random(50)
    with pytest.warns(UserWarning, match=re.escape(f"column '{name}' may be a propensity, by its name")):
        schema = Schema.guess({name: chances, "x": chances})
    assert list(schema.inputs) == [name, "x"]
    assert not Schema.guess({name: 30 * chances}).notes


def test_numbers_that_each_come_once_are_identifiers_in_small_tables_too() -> None:
    with pytest.warns(UserWarning, match="30 different whole numbers in 30 rows, like an identifier"):
        assert list(Schema.guess({"user_id": range(30), "x": np.linspace(0, 1, 30)}).inputs) == ["x"]
    with pytest.warns(UserWarning, match="taken for categories"):
        assert Schema.guess({"store_id": [1, 2, 3] * 10}).features[0].categories == 5  # other, missing


@pytest.mark.parametrize("kept", [["x"] * 5, list(range(300)), [f"u{i}" for i in range(99)]])
def test_what_is_kept_is_a_feature_whatever_it_looks_like(kept: list[Any]) -> None:
    schema = Schema.guess({"id": kept}, keep="id")
    assert list(schema.inputs) == ["id"]
    assert not schema.left_out


def test_what_has_no_type_cannot_be_kept() -> None:
    with pytest.raises(ValueError, match=r"column 'x' has mixed types, .*: say in a schema what it is"):
        Schema.guess({"x": [1, "a"]}, keep=["x"])


TRUE, FALSE = ("true", "yes", "y", "t", "on", "1", "1.0"), ("false", "no", "n", "f", "off", "0", "0.0")


@given(st.data())
def test_booleans_are_known_in_every_spelling(data: st.DataObject) -> None:
    spelt = st.tuples(st.sampled_from(range(len(TRUE))), st.sampled_from([str.lower, str.upper, str.title]))
    rows = data.draw(st.lists(st.tuples(st.booleans(), spelt, st.sampled_from(["", " "])), max_size=20))
    rows += [(True, (0, str.lower), ""), (False, (0, str.lower), "")]
    texts = [space + case((TRUE if truth else FALSE)[index]) for truth, (index, case), space in rows]
    schema = Schema.guess({"flag": [*texts, None]})
    assert schema == Schema.guess({"flag": texts}) == Schema(flag=Boolean(missing=True))
    plain = schema.encoder().encode_many([[truth] for truth, *_ in rows])
    assert schema.encoder().encode_many(pd.DataFrame({"flag": texts})).tolist() == plain.tolist()
    assert [schema.encoder().encode([text]).tolist() for text in texts] == plain.tolist()


@pytest.mark.parametrize(
    "column", [[0, 1, 1], ["0", "1", "1"], [0.0, 1.0, 1.0], np.array([0, 1, 1]), [True, "no", 1], ["1.0", "0.0"]]
)
def test_zeros_and_ones_are_booleans(column: Any) -> None:
    assert Schema.guess({"flag": column}) == Schema(flag=Boolean(missing=True))


def test_rare_categories_of_many_count_as_other() -> None:
    texts = [f"c{i % 1_500}" for i in range(9_000)] + ["often"] * 10
    with pytest.warns(UserWarning, match='1,501 different texts .* but the 1,000 most frequent count as "other"'):
        feature = Schema.guess({"page": texts}).inputs["page"]
    assert isinstance(feature, Categorical)
    assert len(feature.values) == 1_000
    assert feature.other
    assert "often" in feature.values


LATER: dict[str, Any] = {
    "plan": ["a", "b"] * 100,
    "x": np.arange(200) / 7,
    "on": [True, False] * 100,
    "day": ["2024-01-01", "2024-03-01"] * 100,
}


def test_what_came_later_counts_as_other_for_a_bandit() -> None:
    bandit = AdaptiveReleaf(2, Schema.guess(LATER), seed=0)
    assert bandit.decide({"plan": "c", "x": 1.0, "on": True, "day": "2030-01-01"}).action in (0, 1)


@pytest.mark.parametrize("gone", [None, float("nan"), "", " "])
def test_any_guessed_feature_may_be_missing_later(gone: Any) -> None:
    bandit = AdaptiveReleaf(2, Schema.guess(LATER), seed=0)
    bandit.learn_log(pd.DataFrame(LATER), [0, 1] * 100, [0.0, 1.0] * 100)
    assert bandit.decide(dict.fromkeys(LATER, gone)).action in (0, 1)
    assert len(bandit.decide_many([dict.fromkeys(LATER, gone)] * 2)) == 2


@pytest.mark.parametrize("blank", ["", " "])
def test_blank_text_is_missing_in_every_table(blank: str) -> None:
    dates = [blank if row % 5 == 0 else f"2024-01-{row % 28 + 1:02d}" for row in range(200)]
    rows = {"day": dates, "note": [("a", "b", blank)[row % 3] for row in range(200)]}
    without = {name: [value if value.strip() else None for value in values] for name, values in rows.items()}
    for table in (rows, pd.DataFrame(rows), pl.DataFrame(rows), pa.table(rows)):
        schema = Schema.guess(table)
        assert schema == Schema.guess(without)
        assert schema.inputs["day"].kind == "datetime"
    units = schema.encoder().encode_many(pd.DataFrame(rows))
    assert np.array_equal(
        units, schema.encoder().encode_many([list(row) for row in zip(*without.values(), strict=True)])
    )


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (
            ["unknown", *(f"2024-01-{row % 28 + 1:02d}" for row in range(4))] * 40,
            "has mixed dates and texts, 160",
        ),
        ([f"{row % 24:02d}:{row % 60:02d}" for row in range(200)], "has times of day, such as '00:00': write them as"),
        ([f"{row / 7:.1f}%" for row in range(200)], "looks like numbers with units, such as '0.0%': write them as 0.0"),
        ([f"${row + 1200:,.2f}" for row in range(200)], "such as '$1,200.00': write them as 1200.00"),
        ([f"{row / 7:.3f}" if row else "?" for row in range(200)], "has numbers as text, 199 numbers such as '0.143'"),
        ([1_704_067_200 + 7_001 * row for row in range(200)], "like an identifier, or like seconds since 1970: write"),
        (
            [1_704_067_200_000 + 7_001 * row for row in range(200)],
            "like an identifier, or like milliseconds since",
        ),
    ],
)
def test_what_is_in_another_format_is_left_out_with_the_right_reason(column: list[Any], reason: str) -> None:
    with pytest.warns(UserWarning, match="column 'a' was left out"):
        assert reason in Schema.guess({"a": column, "x": np.arange(200) / 7}).left_out["a"]


def test_a_few_texts_among_numbers_are_noted() -> None:
    column = [*(row / 7 for row in range(190)), *["unknown"] * 10]
    note = "has 10 values that are no numbers, such as 'unknown' (row 190): such rows are unusable"
    with pytest.warns(UserWarning, match=re.escape(note)):
        assert Schema.guess({"a": column}) == Schema(a=Quantile(missing=True))


def test_days_written_as_digits_are_noted() -> None:
    with pytest.warns(UserWarning, match="looks like dates, such as 20240101: write them as 2024-01-31"):
        schema = Schema.guess({"day": [20_240_101 + row % 28 for row in range(200)]})
    assert schema == Schema(day=Quantile(missing=True))
    assert not Schema.guess({"amount": [20_240_101 + 41 * (row % 28) for row in range(200)]}).notes


def test_an_infinite_number_among_others_is_noted() -> None:
    with pytest.warns(UserWarning, match="column 'x' is inf in row 1: such rows are unusable"):
        assert Schema.guess({"x": [1.5, float("inf"), 3]}) == Schema(x=Quantile(missing=True))


def test_a_column_that_is_not_there_cannot_be_left_out() -> None:
    with pytest.raises(ValueError, match="the table has no column 'best'; it has x"):
        Schema.guess({"x": [1]}, leave_out=["best"])


def test_a_matrix_of_plain_numbers_is_not_copied() -> None:
    """The learner sees the very memory of a polars column, as far as polars gives it."""
    from releaf.table import ordered_columns

    table = pl.DataFrame({"a": np.arange(5.0), "b": np.arange(5.0)})
    columns = ordered_columns(table, ("a", "b"))
    assert np.shares_memory(columns[0], table["a"].to_numpy())


# --- TOML ---------------------------------------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
numbers = st.floats(-1e6, 1e6)
features = st.one_of(
    st.builds(
        lambda low, span, clip, missing: Continuous(low, low + span, clip, missing),
        numbers,
        st.floats(0.5, 10),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(Quantile, st.integers(2, 2_000), st.booleans()),
    st.builds(
        lambda values, missing: Categorical(values, missing=missing),
        st.lists(st.one_of(texts, st.integers(-99, 99)), min_size=1, max_size=5, unique_by=repr).filter(
            lambda values: len(set(values)) == len(values)
        ),
        st.booleans(),
    ),
    st.builds(Boolean, st.booleans()),
    st.builds(
        lambda start, days, parts, zone, missing: DateTime(start, start + days, sorted(parts), zone, missing),
        st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
        st.timedeltas(timedelta(seconds=1), timedelta(days=9_999)),
        st.sets(st.sampled_from(["trend", "weekday", "hour", "day of year"]), min_size=1),
        st.sampled_from(["UTC", "Europe/Berlin"]),
        st.booleans(),
    ),
)


@given(st.dictionaries(texts, features, min_size=1, max_size=4))
def test_a_schema_survives_toml(given_features: dict[str, Any]) -> None:
    schema = Schema(given_features)
    assert Schema.from_toml(schema.to_toml()) == schema
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", "the schema is not valid TOML"),
        ("x = 1", "the schema has no"),
        ("[features.a]\nlow = 1", "feature 'a' has kind = None: expected one of 'continuous'"),
        ("[features.a]\nkind = 'quantile'\nhigh = 3", "feature 'a' has unknown 'high': expected size, missing"),
        ("[features.a]\nkind = 'quantile'\nmissing = 1", "missing = 1: expected true or false"),
        ("[features.a]\nkind = 'categorical'", "feature 'a' is categorical and needs values"),
        ("[features.a]\nkind = 'datetime'\nstart = 3", "start = 3: expected a date"),
        ("[features.a]\nkind = 'datetime'\nstart = 2024-01-01", "DateTime needs dates as start and end, or neither"),
        ("[features.a]\nkind = 'datetime'\nparts = ['month']", "must be some of trend, weekday, hour, day of year"),
        ("[features.a]\nkind = 'continuous'\nlow = 3\nhigh = 1", "feature 'a': Continuous needs finite bounds"),
    ],
)
def test_bad_toml_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Schema.from_toml(text)


@pytest.mark.parametrize(
    ("texts", "plain"),
    [
        (["950", "5,500", "1,234,567.5"], "5500"),
        (["950", "5.500,25", "1.234.567"], "5500.25"),
        (["0,5", "1,25", "2"], "0.5"),
        (["1 234", "20 000", "7"], "1234"),
    ],
)
def test_numbers_with_separators_are_named_as_such(texts: list[str], plain: str) -> None:
    table = {"income": texts * 30, "x": np.linspace(0, 1, 90)}
    message = f"column 'income' was left out: it looks like numbers with separators, .* write them as {plain}$"
    with pytest.warns(UserWarning, match=message):
        assert list(Schema.guess(table).inputs) == ["x"]
    with pytest.warns(UserWarning, match="taken for categories"):
        assert Schema.guess(table, keep=["income"]).inputs["income"].kind == "categorical"


@pytest.mark.parametrize("rows", [20, 40, 50])
def test_ids_of_a_small_table_are_no_categories(rows: int) -> None:
    draw = np.random.default_rng(0)
    table = {"customer_id": draw.integers(1, 30, rows), "row": range(7, 7 + rows), "x": draw.random(rows)}
    with pytest.warns(UserWarning, match="like an identifier"):
        schema = Schema.guess(table)
    assert list(schema.inputs) == ["x"]
    assert list(schema.left_out) == ["customer_id", "row"]
