"""The table of relevance: an array with names."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from conformance import POLICIES, make

import releaf
from releaf.relevance_table import RelevanceTable

SHARES = [[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]]
FINDING = [policy for policy in POLICIES if policy.traits.finds_relevance]


@pytest.fixture
def table() -> RelevanceTable:
    return RelevanceTable(SHARES, ["wait", "treat"], ["age", "dose", "weight"])


@pytest.mark.parametrize("policy", FINDING, ids=[policy.__name__ for policy in FINDING])
def test_relevance_of_every_learner_has_the_names_of_its_actions_and_features(policy: Any) -> None:
    bandit = make(policy, ["wait", "treat"], ["age", "dose", "weight"])
    contexts = np.random.default_rng(0).random((2000, 3))
    bandit.replay(contexts, np.column_stack([contexts[:, 1] > 0.5, contexts[:, 1] < 0.3]).astype(float))
    found = bandit.relevance()
    assert (found.actions, found.features) == (("wait", "treat"), ("age", "dose", "weight"))
    assert found["treat", "dose"] == found[1, 1] == found.to_dict()["treat"]["dose"]
    bandit.add_action("call")
    bandit.remove_action("wait")
    assert bandit.relevance().actions == ("treat", "call")


def test_it_prints_with_names(table: RelevanceTable) -> None:
    expected = "       age dose weight\nwait  0.25 0.75   0.00\ntreat 1.00 0.00   0.00"
    assert str(table) == repr(table) == expected


def test_names_and_positions_index_it(table: RelevanceTable) -> None:
    assert table["wait"].tolist() == table[0].tolist() == SHARES[0]
    assert table[:, "dose"].tolist() == table[:, 1].tolist() == [0.75, 0.0]
    assert table["wait", 1] == table[0, "dose"] == 0.75
    assert table[table > 0.5].tolist() == [0.75, 1.0]


def test_an_unknown_name_is_told_with_the_known_ones(table: RelevanceTable) -> None:
    with pytest.raises(KeyError, match="unknown action 'dose': the actions are wait, treat"):
        table["dose"]
    with pytest.raises(KeyError, match="unknown feature 'wait': the features are age, dose, weight"):
        table[:, "wait"]


def test_whole_numbers_are_positions_also_where_actions_are_numbers() -> None:
    table = RelevanceTable(SHARES, [1, 0], ["a", "b", "c"])
    assert table[0].tolist() == SHARES[0]
    assert table.to_dict()[0] == {"a": 1.0, "b": 0.0, "c": 0.0}


def test_it_is_an_array_wherever_one_is_expected(table: RelevanceTable) -> None:
    plain = np.array(SHARES)
    assert type(np.asarray(table)) is np.ndarray
    assert np.array_equal(table, plain)
    assert (table == plain).all()
    assert table == pytest.approx(plain)
    assert table.tolist() == SHARES
    assert table.max() == 1.0
    assert table.argmax(axis=1).tolist() == [1, 0]
    assert (table @ np.ones(3)).tolist() == [1.0, 1.0]
    assert [row.argmax() for row in table] == [1, 0]
    assert f"{table.max():.0%}" == "100%"


def test_parts_and_results_carry_no_wrong_names(table: RelevanceTable) -> None:
    assert type(table[0]) is type(table * 2) is type(table.sum(axis=1)) is type(np.abs(table)) is np.ndarray
    assert "wait" not in str(table.T)
    assert "wait" not in repr(table.reshape(3, 2))
    with pytest.raises(ValueError, match="a part of a relevance table has no names"):
        table.T.to_dict()


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda table: pickle.loads(pickle.dumps(table))])
def test_copies_keep_the_names(table: RelevanceTable, duplicate: Any) -> None:
    assert str(duplicate(table)) == str(table)
    assert pickle.loads(pickle.dumps(table.T)).tolist() == table.T.tolist()


def test_a_wide_table_lists_the_most_relevant_features_of_each_action() -> None:
    features = [f"feature number {place}" for place in range(40)]
    shares = np.zeros((35, 40))
    shares[0, 7], shares[0, 3] = 0.9, 0.1
    lines = str(RelevanceTable(shares, [f"action {a}" for a in range(35)], features)).splitlines()
    assert lines[0] == "action 0: feature number 7 0.90, feature number 3 0.10 (of 40 features)"
    assert lines[1] == "action 1: none yet (of 40 features)"
    assert lines[-1] == "… and 5 more actions"
    assert len(lines) == 31


def test_it_becomes_a_data_frame(table: RelevanceTable) -> None:
    pytest.importorskip("pandas")
    frame = table.to_pandas()
    assert list(frame.index) == ["wait", "treat"]
    assert list(frame.columns) == ["age", "dose", "weight"]
    assert frame.loc["wait", "dose"] == 0.75


@pytest.mark.parametrize("backend", ["pyarrow", "polars", "pandas"])
def test_it_becomes_a_table_of_any_kind(table: RelevanceTable, backend: Any) -> None:
    pytest.importorskip(backend)
    frame = table.to_frame(backend)
    assert type(frame).__module__.startswith(("pyarrow", "polars", "pandas"))
    assert list(frame["action"].to_pylist() if backend == "pyarrow" else frame["action"]) == ["wait", "treat"]
    assert [float(str(value)) for value in frame["dose"]] == [0.75, 0.0]


def test_a_feature_named_action_is_told() -> None:
    with pytest.raises(ValueError, match="a feature is named 'action'"):
        RelevanceTable([[1.0]], ["a"], ["action"]).to_frame()


def test_names_of_another_number_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shares have shape \(2, 3\): expected 1 actions × 3 features"):
        RelevanceTable(SHARES, ["a"], ["x", "y", "z"])


def test_html_for_notebooks_escapes_names() -> None:
    made = RelevanceTable([[1.0]], ["<b>"], ["a&b"])._repr_html_()
    assert made is not None
    assert "<th>&lt;b&gt;</th><td>1.00</td>" in made
    assert "a&amp;b" in made


def test_it_tells_how_much_of_the_variance_features_explain() -> None:
    draw, rows = np.random.default_rng(0), 6_000
    contexts, taken = draw.random((rows, 3)), draw.integers(0, 3, rows)
    chances = np.column_stack([contexts[:, 0] > 0.5, 0.5 + 0.06 * (contexts[:, 0] > 0.5), np.full(rows, 0.5)])
    rewards = (draw.random(rows) < chances[np.arange(rows), taken]).astype(float)
    bandit = releaf.AdaptiveReleaf(["much", "little", "nothing"], ["x", "y", "z"], seed=0)
    bandit.learn_log(contexts, [bandit.actions[place] for place in taken], rewards)
    found = bandit.relevance()
    assert found.explained is not None
    assert found.certainties is not None
    much, little, nothing = found.explained
    assert 0.7 < much[0] <= 1.0
    assert much[1:].tolist() == [0.0, 0.0]
    assert little.sum() < 0.03
    assert found["nothing"].tolist() == nothing.tolist() == [0.0, 0.0, 0.0]
    assert found.certainties[0, 0] > 0.999 > found.certainties[2].max()
    assert str(found).splitlines()[3].endswith("no feature is certain to matter")
    assert " of the variance" in str(found).splitlines()[1]
    assert "<td>0.00%</td>" in str(found._repr_html_())
    ((feature, share, _, explained),) = bandit.relevant_features()["much"]
    assert (feature, share, explained) == ("x", 1.0, much[0])
    for other in (copy.copy(found), pickle.loads(pickle.dumps(found))):
        assert np.array_equal(np.array(other.explained), found.explained)
        assert np.array_equal(np.array(other.certainties), found.certainties)
    assert found[:, 0].shape == (3,)
    with pytest.raises(ValueError, match=r"^explained has shape \(1, 1\): expected that of the shares, \(3, 3\)$"):
        RelevanceTable(found, bandit.actions, bandit.schema.names, [[1.0]])
