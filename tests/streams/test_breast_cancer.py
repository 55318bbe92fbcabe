"""The breast-cancer table in the package, and the stream that is made of it."""

from __future__ import annotations

import csv
import os
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

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


def test_the_table_is_the_one_that_was_published_row_by_row() -> None:
    folder = Path(os.environ.get("RELEAF_DATA") or Path(__file__).parents[3] / "shared" / "data")
    source = folder / "breast-cancer-wisconsin.data"
    if not source.exists():
        pytest.skip("needs breast-cancer-wisconsin.data in $RELEAF_DATA or in ../shared/data beside the repository")
    names = {"2": "benign", "4": "malignant"}
    published = [
        (*("" if value == "?" else value for value in row[1:-1]), names[row[-1]])
        for row in csv.reader(source.read_text(encoding="utf-8").splitlines())
        if row
    ]
    assert [tuple(row.values()) for row in embedded()] == published


# --- the rows that the paper used ---------------------------------------------------------------------------------

# Percentages of the paper's table for Average Majority and AdaBoost: missed, false, error.
AM, ADABOOST = (17.20, 4.09, 8.22), (3.82, 4.97, 4.60)


def is_printed(part: int, whole: int, percent: float) -> bool:
    """Whether a fraction is this percentage with two digits, rounded or cut off."""
    exact = 100 * part / whole
    return round(exact, 2) == percent or int(100 * exact) == round(100 * percent)


def parts(largest: int, percent: float) -> list[tuple[int, int]]:
    """All fractions (part, whole) that are printed as this percentage, with wholes of up to ``largest`` cases."""
    return [
        (part, whole)
        for whole in range(1, largest + 1)
        for part in range(whole + 1)
        if is_printed(part, whole, percent)
    ]


def fractions(printed: tuple[float, float, float]) -> dict[tuple[int, int], tuple[int, int]]:
    """For each possible number of malignant and benign cases, how many were missed and falsely alarmed."""
    missed_percent, false_percent, error_percent = printed
    false_alarms = parts(458, false_percent)
    return {
        (malignant, benign): (missed, false)
        for missed, malignant in parts(241, missed_percent)
        for false, benign in false_alarms
        if is_printed(missed + false, malignant + benign, error_percent)
    }


def test_the_papers_percentages_are_fractions_of_157_malignant_and_342_benign_cases_and_of_no_others() -> None:
    majority, boosted = fractions(AM), fractions(ADABOOST)
    assert set(majority) & set(boosted) == {(157, 342)}
    assert majority[157, 342] == (27, 14)
    assert boosted[157, 342] == (6, 17)


def test_the_papers_rows_are_the_499_after_the_first_200_with_missing_values_as_0_and_grades_by_10() -> None:
    stream = breast_cancer(steps=499, seed=3)
    assert stream.rewards.sum(axis=0).tolist() == [342, 157]
    assert cases_of(stream) == expected_cases(embedded()[200:], lowest=0)
    assert sum(context[5] == 0.0 for context in stream.contexts) == 10  # bare nuclei that are missing


def test_the_training_rows_are_the_200_before_them_scaled_alike() -> None:
    assert cases_of(breast_cancer(steps=200, seed=3, rows="training")) == expected_cases(embedded()[:200], lowest=0)


def test_the_complete_rows_are_the_683_of_the_whole_table_without_a_missing_value() -> None:
    complete = [row for row in embedded() if all(row.values())]
    assert len(complete) == 683
    stream = breast_cancer(steps=683, seed=3, rows="complete")
    assert cases_of(stream) == expected_cases(complete, lowest=1)
    assert stream.contexts.min(axis=0).tolist() == [0.0] * FEATURES
    assert stream.contexts.max(axis=0).tolist() == [1.0] * FEATURES


def test_other_rows_and_no_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="steps=0: expected at least one case"):
        breast_cancer(steps=0)
    with pytest.raises(ValueError, match="rows must be 'paper', 'training' or 'complete', got rows='all'"):
        breast_cancer(rows="all")  # type: ignore[arg-type]


def cases_of(stream: Any) -> Counter[Any]:
    return Counter((*map(float, x), bool(r[0])) for x, r in zip(stream.contexts, stream.rewards, strict=True))


def expected_cases(rows: list[dict[str, str]], lowest: int) -> Counter[Any]:
    """The cases that rows of the table are, their grades scaled from ``lowest`` to 10; 0 where one is missing."""
    names = list(rows[0])[:FEATURES]
    return Counter(
        (*((int(row[name] or 0) - lowest) / (10 - lowest) for name in names), row["diagnosis"] == "benign")
        for row in rows
    )


# --- the stream ---------------------------------------------------------------------------------------------------


def test_exactly_one_diagnosis_is_right_and_earns_one() -> None:
    stream = breast_cancer(steps=2000)
    assert stream.actions == ("benign", "malignant")
    assert set(np.unique(stream.rewards)) == {0.0, 1.0}
    assert stream.rewards.sum(axis=1).tolist() == [1.0] * 2000


@pytest.mark.parametrize("steps", [1, 498, 500, 1497, 5000])
def test_no_case_comes_twice_more_often_than_another(steps: int) -> None:
    whole = Counter(map(bytes, breast_cancer(steps=499).contexts))
    found = Counter(map(bytes, breast_cancer(steps=steps, seed=1).contexts))
    assert sum(found.values()) == steps
    for context, copies in whole.items():  # equal cases share a context
        assert steps // 499 * copies <= found[context] <= -(-steps // 499) * copies


def test_the_same_seed_gives_the_same_order_and_another_seed_another() -> None:
    first, again, other = (breast_cancer(steps=1000, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(first.contexts, again.contexts)
    assert np.array_equal(first.rewards, again.rewards)
    assert not np.array_equal(first.contexts, other.contexts)


def test_a_stream_knows_its_length_and_its_names() -> None:
    stream = breast_cancer(steps=10)
    assert len(stream) == 10
    assert stream.features == tuple(list(embedded()[0])[:FEATURES])
