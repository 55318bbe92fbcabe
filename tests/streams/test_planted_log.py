"""The log of `releaf sample`: what is planted is what a learner finds, and its propensities are true."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import releaf
from releaf.streams import planted_log

ROWS = 10_000


def learnt(rows: int, seed: int) -> releaf.AdaptiveReleaf:
    log = planted_log(rows, seed)
    table = pd.DataFrame(log.columns)
    with pytest.warns(UserWarning, match="left out"):
        schema = releaf.Schema.guess(table, leave_out=["action", "reward"])
    bandit = releaf.AdaptiveReleaf(log.actions, schema, seed=0)
    bandit.learn_log(table[list(schema.inputs)], table["action"], table["reward"])
    return bandit


@pytest.mark.parametrize("seed", range(6))
def test_half_a_log_is_enough_to_find_what_is_planted_and_nothing_else(seed: int) -> None:
    bandit, planted = learnt(ROWS, seed), planted_log(1).relevant
    shares = bandit.relevance()
    for action in planted:
        found = {name: float(shares[action, name]) for name in bandit.schema.names}
        assert {name for name, share in found.items() if share >= 0.1} == set(planted[action])
        assert max(share for name, share in found.items() if name not in planted[action]) <= 0.05
        assert max(found, key=found.__getitem__) == planted[action][0]


def test_the_same_seed_is_the_same_log_and_another_one_is_another() -> None:
    first, again, other = (pd.DataFrame(planted_log(500, seed).columns) for seed in (3, 3, 4))
    pd.testing.assert_frame_equal(first, again)
    assert not first["action"].equals(other["action"])


def test_propensities_are_those_of_the_actions_taken() -> None:
    columns = planted_log(60_000).columns
    taken, chance = columns["action"], columns["probability"]
    assert 0.1 < chance.min() < 0.2 < 0.4 < chance.max() < 0.5
    for action in planted_log(1).actions:
        weights = (taken == action) / chance
        assert weights.mean() == pytest.approx(1, abs=4 * weights.std() / np.sqrt(len(weights)))


def test_clicks_come_as_often_as_the_truth_says() -> None:
    log = planted_log(60_000)
    rows = np.arange(60_000)
    taken = np.searchsorted(np.sort(log.actions), log.columns["action"])
    expected = log.expected[rows, np.argsort(log.actions)[taken]]
    assert log.columns["reward"].mean() == pytest.approx(expected.mean(), abs=0.007)
    assert 0.0 < log.expected.min() < log.expected.max() < 1.0


def test_the_log_has_dates_categories_identifiers_and_missing_values() -> None:
    table = pd.DataFrame(planted_log(20_000).columns)
    assert table["at"].is_monotonic_increasing
    assert table["at"].min() >= pd.Timestamp("2025-01-01")
    assert table["at"].max() < pd.Timestamp("2025-12-31")
    assert table["visit"].is_unique
    assert table["city"].nunique() == 36
    assert 0.05 < table["age"].isna().mean() < 0.07


def test_a_log_of_no_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="rows must be at least 1, got rows=0"):
        planted_log(0)


def test_contexts_are_what_is_known_before_the_decision_and_guess_to_the_same_schema() -> None:
    log = planted_log(300)
    with pytest.warns(UserWarning, match="visit"):
        schema = releaf.Schema.guess(log.columns, leave_out=["action", "reward"])
    assert all(list(context) == list(schema.inputs) for context in log.contexts)
    missing = [place for place, context in enumerate(log.contexts) if context["age"] is None]
    assert missing == np.flatnonzero(np.isnan(log.columns["age"])).tolist() != []
    assert releaf.Random(log.actions, schema, seed=0).decide(log.contexts[missing[0]]).action in log.actions
