"""The breast-cancer table in the package, and the stream that is made of it."""

from __future__ import annotations

import csv
import os
from collections import Counter
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from releaf.streams import breast_cancer

FEATURES = 9


def embedded() -> list[dict[str, str]]:
    text = resources.files("releaf").joinpath("data/breast_cancer.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def test_the_table_has_699_cases_of_nine_graded_features() -> None:
    rows = embedded()
    assert len(rows) == 699
    grades = {value for row in rows for name, value in row.items() if name != "diagnosis" and value}
    assert grades == {str(grade) for grade in range(1, 11)}
    assert all(len(row) == FEATURES + 1 for row in rows)


def test_sixteen_cases_are_incomplete_and_lack_only_the_bare_nuclei() -> None:
    lacking = [[name for name, value in row.items() if not value] for row in embedded()]
    assert [names for names in lacking if names] == [["bare_nuclei"]] * 16


def test_458_cases_are_benign_and_the_rest_malignant() -> None:
    assert Counter(row["diagnosis"] for row in embedded()) == {"benign": 458, "malignant": 241}


def test_the_table_is_the_one_that_was_published() -> None:
    folder = Path(os.environ.get("RELEAF_DATA") or Path(__file__).parents[2] / "shared" / "data")
    source = folder / "breast-cancer-wisconsin.data"
    if not source.exists():
        pytest.skip("needs breast-cancer-wisconsin.data in $RELEAF_DATA or in ../shared/data beside the repository")
    names = {"2": "benign", "4": "malignant"}
    published = Counter(
        (*("" if value == "?" else value for value in row[1:-1]), names[row[-1]])
        for row in csv.reader(source.read_text(encoding="utf-8").splitlines())
        if row
    )
    assert Counter(tuple(row.values()) for row in embedded()) == published


def test_the_stream_holds_each_complete_case_once_in_683_steps() -> None:
    stream = breast_cancer(steps=683, seed=3)
    complete = [row for row in embedded() if all(row.values())]
    expected = Counter(
        (*((int(row[name]) - 1) / 9 for name in stream.features), row["diagnosis"] == "benign") for row in complete
    )
    found = Counter(
        (*map(float, context), bool(reward[0])) for context, reward in zip(stream.contexts, stream.rewards, strict=True)
    )
    assert found == expected


def test_every_feature_is_scaled_to_the_whole_of_the_unit_interval() -> None:
    stream = breast_cancer(steps=683)
    assert stream.contexts.min(axis=0).tolist() == [0.0] * FEATURES
    assert stream.contexts.max(axis=0).tolist() == [1.0] * FEATURES


def test_exactly_one_diagnosis_is_right_and_earns_one() -> None:
    stream = breast_cancer(steps=2000)
    assert stream.actions == ("benign", "malignant")
    assert set(np.unique(stream.rewards)) == {0.0, 1.0}
    assert stream.rewards.sum(axis=1).tolist() == [1.0] * 2000


@pytest.mark.parametrize("steps", [1, 682, 684, 2049, 5000])
def test_no_case_comes_twice_more_often_than_another(steps: int) -> None:
    whole = Counter(map(bytes, breast_cancer(steps=683).contexts))
    found = Counter(map(bytes, breast_cancer(steps=steps, seed=1).contexts))
    assert sum(found.values()) == steps
    for context, copies in whole.items():  # equal cases share a context
        assert steps // 683 * copies <= found[context] <= -(-steps // 683) * copies


def test_the_same_seed_gives_the_same_order_and_another_seed_another() -> None:
    first, again, other = (breast_cancer(steps=1000, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(first.contexts, again.contexts)
    assert np.array_equal(first.rewards, again.rewards)
    assert not np.array_equal(first.contexts, other.contexts)


def test_a_stream_knows_its_length_and_its_names() -> None:
    stream = breast_cancer(steps=10)
    assert len(stream) == 10
    assert stream.features == tuple(list(embedded()[0])[:FEATURES])
