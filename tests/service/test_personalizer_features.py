"""Hashing of nested features, and the order of a ranking."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releaf.service.personalizer.hashed_features import hash_features
from releaf.service.personalizer.messages import RankedAction
from releaf.service.personalizer.ranking import make_ranking

WIDTH = 512  # in which these few features do not meet
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def used(features: Any) -> list[float]:
    """The values of the columns that are not 0.5, by size."""
    return sorted(abs(value - 0.5) for value in hash_features([features], WIDTH) if value != 0.5)


@given(st.lists(st.dictionaries(st.text(), JSON)), st.integers(1, 40))
def test_all_json_becomes_columns_in_0_1(groups: list[dict[str, Any]], width: int) -> None:
    columns = hash_features(groups, width)
    assert len(columns) == width
    assert all(0.0 <= value <= 1.0 for value in columns)
    assert columns == hash_features(groups, width)


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"user": {"plan": "plus"}}, [0.25]),
        ({"user": {"plan": "plus", "age": None}}, [0.25]),
        ({"user": {"likes": ["tea", "milk"]}}, [0.25, 0.25]),
        ({"vegan": True}, [0.25]),
        ({"salt": 0.5}, [0.125]),
        ({"salt": 0}, []),
        ({"price": 4}, [0.25, 0.3]),  # of itself, and of its power of two
        ({"price": 6}, [0.103759, 0.146241, 0.31462]),  # between two powers
    ],
    ids=str,
)
def test_features_are_indicators_and_numbers(features: Any, expected: list[float]) -> None:
    assert used(features) == pytest.approx(expected, abs=1e-5)


def test_what_differs_has_other_columns_and_what_does_not_the_same() -> None:
    same: list[Any] = [[{"a": {"b": 0.5}}, {"c": "x"}], [{"c": "x", "a": {"b": 0.5}}]]
    assert hash_features(same[0], WIDTH) == hash_features(same[1], WIDTH)
    distinct: list[Any] = [{"a": "1"}, {"a": 1}, {"a": False}, {"b": "1"}, {"a": {"1": "1"}}, {"a": -1}, {"a": [1]}]
    assert len({tuple(hash_features([one], WIDTH)) for one in distinct}) == len(distinct)


def test_columns_are_the_same_on_every_machine() -> None:
    columns = hash_features([{"User": {"plan": "plus", "age": 31}}], 4)
    assert columns == pytest.approx([0.5, 0.488549, 0.885306, 0.5], abs=1e-6)


def test_the_ranking_has_the_chosen_action_first_and_excluded_ones_in_their_places() -> None:
    estimates, chances = {"a": 0.1, "c": 0.9, "d": 0.1}, {"a": 0.5, "c": 0.25, "d": 0.15, "e": 0.1}
    assert make_ranking(["a", "b", "c", "d", "e"], {"b"}, "a", estimates, chances) == [
        RankedAction("a", 0.5),
        RankedAction("b", 0.0),
        RankedAction("c", 0.25),
        RankedAction("d", 0.15),
        RankedAction("e", 0.1),
    ]
