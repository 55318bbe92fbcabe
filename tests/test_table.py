"""Contexts in all the shapes that users have them: the same values get the same decisions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from learner_comparison import full_state, plain, run_steps, stream

import releaf
from releaf import Boolean, Categorical, Continuous, Quantile, Schema

PATIENT = Schema(
    age=Continuous(0, 100, missing=True),
    income=Quantile(missing=True),
    city=Categorical("Rome", "Oslo", missing=True),
    smoker=Boolean(missing=True),
)
ROWS = 400


def patients() -> pd.DataFrame:
    generator = np.random.default_rng(7)
    table = pd.DataFrame(
        {
            "smoker": generator.random(ROWS) < 0.4,
            "age": generator.integers(0, 100, ROWS).astype(float),
            "city": generator.choice(["Rome", "Oslo"], ROWS),
            "income": generator.lognormal(10, 1, ROWS),
        }
    ).astype({"smoker": object, "city": object})
    for place, name in enumerate(table.columns):
        table.loc[generator.random(ROWS) < 0.05 * (place + 1), name] = None
    return table


def as_polars(table: pd.DataFrame) -> pl.DataFrame:
    columns = {name: [None if pd.isna(v) else v for v in table[name]] for name in table.columns}
    return pl.DataFrame(columns, schema_overrides={"city": pl.Categorical})


SINGLE: dict[str, Callable[[pd.DataFrame, int], Any]] = {
    "list": lambda table, row: list(table[list(PATIENT.names)].iloc[row]),
    "tuple": lambda table, row: tuple(table[list(PATIENT.names)].iloc[row]),
    "mapping in another order": lambda table, row: dict(table.iloc[row]),
    "numpy row": lambda table, row: table[list(PATIENT.names)].to_numpy(dtype=object)[row],
    "numpy matrix of one row": lambda table, row: table[list(PATIENT.names)].to_numpy(dtype=object)[row : row + 1],
    "pandas series": lambda table, row: table.iloc[row],
    "pandas table of one row": lambda table, row: table.iloc[row : row + 1],
    "polars table of one row": lambda table, row: as_polars(table.iloc[row : row + 1]),
    "polars row": lambda table, row: as_polars(table[list(PATIENT.names)].iloc[row : row + 1]).row(0),
    "polars named row": lambda table, row: as_polars(table.iloc[row : row + 1]).row(0, named=True),
    "pyarrow table of one row": lambda table, row: as_polars(table.iloc[row : row + 1]).to_arrow(),
}
WHOLE: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda table: table,
    "pandas with its own missing values": lambda table: table.convert_dtypes(),
    "pandas category": lambda table: table.astype({"city": "category"}),
    "polars": as_polars,
    "pyarrow": lambda table: as_polars(table).to_arrow(),
    "pyarrow batch": lambda table: as_polars(table).to_arrow().combine_chunks().to_batches()[0],
    "pyarrow dictionary": lambda table: pa.Table.from_pandas(table.astype({"city": "category"}), preserve_index=False),
    "numpy": lambda table: table[list(PATIENT.names)].to_numpy(dtype=object),
    "list of mappings": lambda table: table.to_dict("records"),
    "list of lists": lambda table: table[list(PATIENT.names)].to_numpy(dtype=object).tolist(),
}


@pytest.fixture(scope="module")
def expected() -> list[tuple[Any, ...]]:
    """The decisions of a learner that is given plain lists."""
    table, rewards = patients(), stream(ROWS)[1]
    values = [[None if pd.isna(v) else v for v in row] for row in table[list(PATIENT.names)].to_numpy(dtype=object)]
    return run_steps(releaf.Releaf(2, PATIENT, seed=3), values, rewards)


@pytest.mark.parametrize("shape", SINGLE)
def test_a_context_in_any_shape_gets_the_same_decision(shape: str, expected: list[tuple[Any, ...]]) -> None:
    table = patients()
    contexts = [SINGLE[shape](table, row) for row in range(60)]
    assert run_steps(releaf.Releaf(2, PATIENT, seed=3), contexts, stream(ROWS)[1][:60]) == expected[:60]


@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_table_of_any_kind_is_replayed_as_its_rows(kind: str, expected: list[tuple[Any, ...]]) -> None:
    trace = releaf.replay(releaf.Releaf(2, PATIENT, seed=3), WHOLE[kind](patients()), stream(ROWS)[1])
    assert trace.actions.tolist() == [decision[1] for decision in expected]
    assert trace.explored.tolist() == [decision[2] for decision in expected]


@pytest.mark.parametrize("kind", WHOLE)
def test_many_decisions_at_once_are_those_of_one_by_one_without_rewards(kind: str) -> None:
    table = patients()
    singles = [table[list(PATIENT.names)].iloc[row] for row in range(ROWS)]
    one_by_one, at_once = releaf.Releaf(2, PATIENT, seed=3), releaf.Releaf(2, PATIENT, seed=3)
    decisions = [plain(one_by_one.decide(single)) for single in singles]
    assert [plain(choice) for choice in at_once.decide_many(WHOLE[kind](table))] == decisions
    assert full_state(at_once) == full_state(one_by_one)


def test_names_that_are_numbers_are_found_in_tables_and_mappings_by_their_text() -> None:
    encoder = Schema.of(["0", "1"]).encoder()
    assert encoder.encode({1: 0.25, 0: 0.5}).tolist() == [0.5, 0.25]
    assert encoder.encode_many(pd.DataFrame([[0.5, 0.25]])).tolist() == [[0.5, 0.25]]


@pytest.mark.parametrize(
    "context", [[50, 1e4, "Oslo", 7], [101, 1e4, "Oslo", True], [50, math.inf, "Oslo", True], [50, 1e4, "Paris", True]]
)
def test_a_refused_context_changes_nothing_not_even_a_quantile(context: list[Any]) -> None:
    bandit, rewards = releaf.Releaf(2, PATIENT, seed=3), stream(ROWS)[1]
    bandit.replay(patients(), rewards)
    before, good = full_state(bandit), [50, 1e4, "Oslo", True]
    for refused in (
        lambda: bandit.decide(context),
        lambda: bandit.decide_many([good, good, context]),
        lambda: bandit.replay([good, good, context], rewards[:3]),
        lambda: bandit.replay([good, good, good], rewards[:3] + 1),
    ):
        with pytest.raises(ValueError, match="expected"):
            refused()
        assert full_state(bandit) == before
    decision = bandit.decide(good)
    assert decision.id == ROWS + 1
    assert full_state(bandit) != before


# --- what is no context ---------------------------------------------------------------------------------------

UNIT = Schema.of(["a", "b"])
ONE = "context must be a sequence, a mapping or one row of a table, got"
MANY = "contexts must be a matrix, a table or a sequence of contexts, got"


@pytest.mark.parametrize(
    ("context", "error", "text"),
    [
        ([0.5], ValueError, "context has 1 values, the schema has 2 (missing: 'b')"),
        ([0.5, 0.5, 0.5], ValueError, "context has 3 values, the schema has 2"),
        ({"a": 0.5}, ValueError, "context lacks 'b'; the features are a, b"),
        ({"a": 0.5, "c": 1}, ValueError, "context lacks 'b' and has unknown 'c'; the features are a, b"),
        (np.zeros((2, 2)), ValueError, "context has shape (2, 2): expected one row of 2 values"),
        (
            np.float64(0.5),
            TypeError,
            f"{ONE} np.float64(0.5)",
        ),
        ("ab", TypeError, f"{ONE} 'ab'"),
        (None, TypeError, f"{ONE} None"),
        ({0.5}, TypeError, f"{ONE} {{0.5}}"),
        (pd.DataFrame({"a": [0, 1], "b": [0, 1]}), ValueError, "context is a table of 2 rows: expected one row"),
        (pl.DataFrame({"a": [0.5]}), ValueError, "table lacks 'b'; the features are a, b"),
        (pd.Series({"b": 0.5}), ValueError, "row lacks 'a'; the features are a, b"),
        (
            pd.Series({"a": 0.5, "b": 0.5, "c": 1}),
            ValueError,
            "row has unknown 'c'; the features are a, b: leave others out, as in row[list(schema.inputs)]",
        ),
    ],
)
def test_a_context_of_the_wrong_shape_is_refused_with_what_is_lacking(
    context: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        UNIT.encoder().encode(context)


@pytest.mark.parametrize(
    ("contexts", "error", "text"),
    [
        (np.zeros(2), ValueError, "contexts have shape (2,): expected rows of 2 values"),
        (np.zeros((5, 3)), ValueError, "contexts have shape (5, 3): expected rows of 2 values"),
        ([[0, 1], [0]], ValueError, "row 1: context has 1 values, the schema has 2 (missing: 'b')"),
        (
            [{"a": 0, "b": 1}, None],
            TypeError,
            f"row 1: {ONE} None",
        ),
        (None, TypeError, f"{MANY} None"),
        ("ab", TypeError, f"{MANY} 'ab'"),
        (pa.table({"a": [1], "c": [1]}), ValueError, "table lacks 'b' and has unknown 'c'; the features are a, b"),
        (
            pd.DataFrame([[0, 1, 1]], columns=["a", "b", "c"]),
            ValueError,
            "table has unknown 'c'; the features are a, b: leave others out, as in table[list(schema.inputs)]",
        ),
        (
            pd.DataFrame([[0, 1, 1]], columns=["a", "b", "b"]),
            ValueError,
            "table has more than one 'b'; the features are a, b",
        ),
        (
            np.array([[0, 1], [0, 1.5]]),
            ValueError,
            "feature 'b' of row 1 is 1.5: expected a number in [0, 1]",
        ),
    ],
)
def test_many_contexts_of_the_wrong_shape_are_refused_with_their_row(
    contexts: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        UNIT.encoder().encode_many(contexts)


def test_no_contexts_at_all_are_an_empty_matrix() -> None:
    nothings: list[Any] = [[], np.zeros((0, 2)), pd.DataFrame({"a": [], "b": []})]
    for nothing in nothings:
        assert UNIT.encoder().encode_many(nothing).shape == (0, 2)
