"""The data sets of the quality benchmark: their split, their encoding, and that none appears twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest


def test_the_parts_of_the_split_have_about_the_same_size() -> None:
    from benchmarks.quality.catalogue import CATALOGUE

    counts = Counter(data.split for data in CATALOGUE)
    assert set(counts) == {"development", "validation", "sealed"}
    assert min(counts.values()) > 0.8 * len(CATALOGUE) / 3


def test_no_data_set_that_constants_were_chosen_with_is_sealed() -> None:
    from benchmarks.quality.catalogue import BY_NAME
    from benchmarks.quality.split import SEEN

    assert set(BY_NAME) >= SEEN
    assert all(BY_NAME[name].split != "sealed" for name in SEEN)


def test_the_split_is_what_it_was() -> None:
    """A change of the rule would show sealed data sets to whoever chose constants on the others."""
    from benchmarks.quality.split import split_of

    names = ("iris", "WDBC", "bank", "adult", "letter")
    assert [split_of(name) for name in names] == ["development", "validation", "sealed", "development", "validation"]


def test_a_family_is_in_one_part() -> None:
    from benchmarks.quality.catalogue import BY_NAME

    assert BY_NAME["wine quality red"].split == BY_NAME["wine quality white"].split
    assert len({BY_NAME[name].split for name in ("cm1", "kc1", "pc1")}) == 1


def test_fewer_than_a_third_of_the_data_sets_are_generated_and_each_has_a_licence() -> None:
    from benchmarks.quality.catalogue import CATALOGUE

    assert sum(data.read is None for data in CATALOGUE) < len(CATALOGUE) / 3
    assert all(data.licence and (data.read is None) != (data.draw is None) for data in CATALOGUE)
    assert len({data.name for data in CATALOGUE}) == len(CATALOGUE)


def test_numbers_are_scaled_categories_kept_and_missing_values_marked() -> None:
    from benchmarks.quality.problems import Table, problem_of_table

    columns = {
        "size": np.array([1.0, 3.0, np.nan]),
        "colour": np.array(["red", None, "blue"], dtype=object),
        "same": np.array([7.0, 7.0, 7.0]),
    }
    problem = problem_of_table(Table(columns, np.array(["a", "b", "a"])))
    assert problem.schema.names == ("size", "colour")
    np.testing.assert_allclose(problem.encoded(), [[0.0, 1.5 / 3], [1.0, 2.5 / 3], [-1.0, 0.5 / 3]])
    np.testing.assert_allclose(problem.onehot, [[0.0, 0, 0, 1, 0], [1.0, 0, 0, 0, 1], [0.5, 1, 1, 0, 0]])
    np.testing.assert_array_equal(problem.rewards, [[1, 0], [0, 1], [1, 0]])


def test_a_column_with_too_many_categories_is_left_out() -> None:
    from benchmarks.quality.problems import MOST_CATEGORIES, Table, problem_of_table

    rows = MOST_CATEGORIES + 1
    columns = {"name": np.array([str(row) for row in range(rows)], dtype=object), "x": np.arange(rows, dtype=float)}
    assert problem_of_table(Table(columns, np.arange(rows) % 2)).schema.names == ("x",)


def test_with_ordered_labels_a_near_action_is_worth_more_than_a_far_one() -> None:
    from benchmarks.quality.problems import Table, problem_of_table

    table = Table({"x": np.array([0.0, 1.0, 2.0])}, np.array([3.0, 4.0, 7.0]), ordered=True)
    np.testing.assert_allclose(problem_of_table(table).rewards, [[1, 0.75, 0], [0.75, 1, 0.25], [0, 0.25, 1]])


@pytest.mark.parametrize(("rows", "steps"), [(100, 2_000), (1_500, 1_500), (2_500, 2_500), (30_000, 10_000)])
def test_small_tables_are_passed_over_again_and_long_ones_cut(rows: int, steps: int) -> None:
    from benchmarks.quality.problems import order

    shuffled = order(rows, 0)
    assert len(shuffled) == steps
    assert np.bincount(shuffled, minlength=rows).max() == max(1, steps // rows)
    assert not np.array_equal(shuffled, order(rows, 1))
    np.testing.assert_array_equal(order(rows, None)[:rows], np.arange(min(rows, steps)))


def test_a_table_with_other_names_scales_and_a_few_rows_less_is_a_duplicate() -> None:
    from benchmarks.quality.duplicates import duplicates
    from benchmarks.quality.problems import Table

    generator = np.random.default_rng(0)
    values = generator.normal(size=(500, 3))
    labels = generator.integers(0, 2, 500)
    first = Table({f"x{place}": column for place, column in enumerate(values.T)}, labels)
    again = Table({f"y{place}": 10 * column - 3 for place, column in enumerate(values[:495].T)}, labels[:495])
    other = generator.gamma(2.0, size=(500, 3))
    third = Table({f"x{place}": column for place, column in enumerate(other.T)}, generator.integers(0, 3, 500))
    assert duplicates({"first": first, "again": again, "third": third}) == [("again", "first")]


def test_no_table_of_the_catalogue_that_can_be_read_here_appears_twice() -> None:
    from benchmarks.quality.catalogue import CATALOGUE
    from benchmarks.quality.duplicates import duplicates
    from benchmarks.quality.sources import Absent

    tables = {}
    for data in CATALOGUE:
        if data.read is not None and data.name != "intrusion":  # which may have to be downloaded
            try:
                tables[data.name] = data.read()
            except Absent:
                continue
    assert "iris" in tables
    assert duplicates(tables) == []


def test_a_keel_file_gives_numbers_categories_and_missing_values(tmp_path: Path) -> None:
    from benchmarks.quality.sources import keel

    path = tmp_path / "small.dat"
    path.write_text(
        "@relation small\n@attribute Length real[0.0,2.0]\n@attribute Kind {1, 2}\n@attribute Class {p,n}\n"
        "@inputs Length, Kind\n@data\n0.5, 1, p\n<null>, 2, n\n1.5, ?, p\n"
    )
    table = keel(path)
    np.testing.assert_array_equal(table.columns["Length"], [0.5, np.nan, 1.5])
    assert table.columns["Kind"].tolist() == ["1", "2", None]
    assert table.labels.tolist() == ["p", "n", "p"]


def test_a_package_that_is_absent_is_named() -> None:
    from benchmarks.quality.sources import Absent, debian_file, wheel_file

    with pytest.raises(Absent, match="no-such-package is not installed"):
        wheel_file("no-such-package", "data.csv")
    with pytest.raises(Absent, match="r-cran-nothing is neither in build/debian nor installed"):
        debian_file("r-cran-nothing", "usr/lib/nothing.rda")
