"""Schemas that tables tell by themselves, and schemas as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from releaf import AdaptiveReleaf, Boolean, Categorical, Continuous, Quantile, Schema

EXPECTED = Schema(
    age=Quantile(missing=True), visits=Quantile(), plan=Categorical("a", "b", missing=True), smoker=Boolean()
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
    assert schema == Schema(age=Continuous(30.5, 41.0, missing=True), visits=Continuous(1, 3))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([None, None], "column 'x' has no values: leave it out, or say in a schema what it is"),
        ([1.0, float("inf")], "column 'x' is inf in row 1: expected a finite number"),
        ([str(i) for i in range(1_001)], "column 'x' has 1001 different texts: leave it out"),
        (pd.to_datetime(["2024-01-01"]).tolist(), "column 'x' has values of type Timestamp: leave it out"),
    ],
)
def test_what_says_nothing_is_refused(column: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Schema.guess({"x": column})


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
)


@given(st.dictionaries(texts, features, min_size=1, max_size=4))
def test_a_schema_survives_toml(given_features: dict[str, Any]) -> None:
    schema = Schema(given_features)
    assert Schema.from_toml(schema.to_toml()) == schema


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", "the schema is not valid TOML"),
        ("x = 1", "the schema has no"),
        ("[features.a]\nlow = 1", "feature 'a' has kind = None: expected one of 'continuous'"),
        ("[features.a]\nkind = 'quantile'\nhigh = 3", "feature 'a' has unknown 'high': expected size, missing"),
        ("[features.a]\nkind = 'quantile'\nmissing = 1", "missing = 1: expected true or false"),
        ("[features.a]\nkind = 'categorical'", "feature 'a' is categorical and needs values"),
        ("[features.a]\nkind = 'continuous'\nlow = 3\nhigh = 1", "feature 'a': Continuous needs finite bounds"),
    ],
)
def test_bad_toml_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Schema.from_toml(text)


def test_a_column_that_looks_like_an_identifier_is_named() -> None:
    with pytest.warns(UserWarning, match="column 'user' has 40 different texts in 40 rows: it looks like an"):
        Schema.guess({"user": [f"u{place}" for place in range(40)], "plan": ["a", "b"] * 20})
