"""Reward statistics of intervals, against those computed from the full history."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_releaf import PlainReleaf
from releaf_strategies import TIES, configurations, limit_dense_cells, quick, streams, twin_of

import releaf
from releaf.core.releaf.state import HASHED
from releaf.policies.partitioned import PartitionedPolicy

SIZES = st.sampled_from([0, 20_000, 2**29])  # hashed from the start, after a while, never


@dataclass
class History:
    """Every reward with the intervals that held its context when it was learnt."""

    twin: PlainReleaf
    entries: list[tuple[list[Any], int, float]] = field(default_factory=list)

    def observe(self, context: list[float], action: int, reward: float) -> None:
        self.entries.append((self.twin.locate(context), action, reward))

    def forget(self, action: int) -> None:
        self.entries = [(p, a - (a > action), reward) for p, a, reward in self.entries if a != action]

    def expected(self, feature: int) -> list[list[list[float]]]:
        """The rewards of each action in each interval from low to high, missing values last."""
        leaves = sorted(self.twin.arrivals[feature], key=lambda p: (p[0] == -2, p[1] / self.twin.base ** max(p[0], 0)))
        return [self._of_fullest(feature, leaf) for leaf in leaves]

    def _of_fullest(self, feature: int, leaf: Any) -> list[list[float]]:
        best: list[list[float]] = [[] for _ in range(self.twin.actions)]
        for w in self.twin.all_w:
            if feature in w:
                held = [(p, a, r) for p, a, r in self.entries if p[feature] == leaf and self._all_exist(w, p)]
                found = [[r for _, a, r in held if a == action] for action in range(self.twin.actions)]
                best = found if len(held) > sum(map(len, best)) else best
        return best

    def _all_exist(self, w: tuple[int, ...], p: list[Any]) -> bool:
        return all(p[i] in self.twin.arrivals[i] for i in w)


def assert_as_in_history(bandit: PartitionedPolicy, history: History) -> None:
    for feature in range(len(bandit.schema)):
        found, expected = bandit.interval_rewards(feature), history.expected(feature)
        assert len(found) == len(expected) == len(bandit.partition(feature))
        for entries, rewards in zip(found, expected, strict=True):
            assert [entry.count for entry in entries] == [len(each) for each in rewards]
            means = [math.fsum(each) / len(each) if each else math.nan for each in rewards]
            assert [entry.mean for entry in entries] == pytest.approx(means, abs=2**-26, nan_ok=True)


def step(bandit: PartitionedPolicy, history: History, context: Any, row: list[float]) -> None:
    choice = bandit.decide(context)
    unit = choice.context.tolist()
    history.twin.count_last_arrival()
    history.twin.last = history.twin.locate(unit)
    if choice.wants_reward and bandit.observation_mode in ("all-actions", "labels"):
        bandit.learn(choice, row)
        for action, reward in enumerate(row):
            history.observe(unit, action, reward)
    elif choice.wants_reward:
        bandit.learn(choice, row[choice.index])
        history.observe(unit, choice.index, row[choice.index])


@quick
@given(st.data())
def test_counts_and_means_are_those_of_the_history(data: st.DataObject) -> None:
    configuration = data.draw(configurations())
    bandit = releaf.Releaf(**configuration)
    limit_dense_cells(bandit, data.draw(SIZES))
    history = History(twin_of(bandit))
    contexts, table = data.draw(streams(configuration["features"], configuration["actions"]))
    for context, row in zip(contexts, table, strict=True):
        step(bandit, history, context, row)
    assert_as_in_history(bandit, history)


@quick
@given(st.data())
def test_categories_and_missing_values_have_intervals_of_their_own(data: st.DataObject) -> None:
    values: dict[str, list[Any]] = {
        "number": TIES[:6],
        "gap": [None, *TIES[:6]],
        "flag": [True, False, None],
        "letter": ["a", "b", "c"],
    }
    made: dict[str, releaf.features.Feature] = {
        "number": releaf.Continuous(0, 1),
        "gap": releaf.Continuous(0, 1, missing=True),
        "flag": releaf.Boolean(missing=True),
        "letter": releaf.Categorical("a", "b", "c"),
    }
    kinds = data.draw(st.lists(st.sampled_from(sorted(made)), min_size=2, max_size=4))
    schema = releaf.Schema({f"{place} {kind}": made[kind] for place, kind in enumerate(kinds)})
    bandit = releaf.Releaf(3, schema, seed=0, rho=1.5, control_divisor=20.0, observe="always")
    limit_dense_cells(bandit, data.draw(SIZES))
    twin = twin_of(bandit)
    twin.categories = {place: 3 for place, kind in enumerate(kinds) if kind in ("flag", "letter")}
    twin.missing = {place for place, kind in enumerate(kinds) if kind == "gap"}
    twin.__post_init__()
    history = History(twin)
    noise = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    for _ in range(data.draw(st.integers(10, 120))):
        context = [values[kind][noise.integers(len(values[kind]))] for kind in kinds]
        step(bandit, history, context, noise.choice([0.0, 0.25, 1.0], 3).tolist())
    assert_as_in_history(bandit, history)


@quick
@given(st.data())
def test_actions_that_go_take_their_rewards_along_and_new_ones_have_none(data: st.DataObject) -> None:
    configuration = data.draw(configurations()) | {"actions": 3}
    bandit = releaf.Releaf(**configuration)
    limit_dense_cells(bandit, data.draw(SIZES))
    history = History(twin_of(bandit))
    contexts, table = data.draw(streams(configuration["features"], 3))
    removed = data.draw(st.integers(0, 2))
    changes = sorted(data.draw(st.lists(st.integers(0, len(contexts) - 1), min_size=2, max_size=2)))
    for number, (context, row) in enumerate(zip(contexts, table, strict=True)):
        if number == changes[0]:
            bandit.remove_action(removed)
            history.forget(removed)
            history.twin.actions -= 1
            assert_as_in_history(bandit, history)
        if number == changes[1]:
            bandit.add_action()
            history.twin.actions += 1
            assert_as_in_history(bandit, history)
        step(bandit, history, context, row[: history.twin.actions])
    assert_as_in_history(bandit, history)


def test_greedy_releaf_keeps_each_feature_by_itself_and_loses_nothing() -> None:
    bandit = releaf.GreedyReleaf(2, 3, seed=0, rho=2.0, observe="always")
    contexts = np.random.default_rng(0).random((400, 3))
    table = np.random.default_rng(1).random((400, 2))
    trace = releaf.replay(bandit, contexts, table)
    since = max(interval.arrivals for interval in bandit.partition(1))
    assert 0 < since < 400
    for interval, entries in zip(bandit.partition(1), bandit.interval_rewards(1), strict=True):
        within = np.flatnonzero((contexts[:, 1] > interval.low) & (contexts[:, 1] <= interval.high))
        count = sum(entry.count for entry in entries)
        latest = within[len(within) - count :]  # those since the interval exists
        assert count - interval.arrivals in (0, 1)  # the latest context is counted when the next one comes
        for action, entry in enumerate(entries):
            own = trace.rewards[latest][trace.actions[latest] == action]
            assert entry.count == len(own)
            assert entry.mean == pytest.approx(own.mean() if len(own) else math.nan, nan_ok=True)


def test_rewards_that_another_feature_lost_are_taken_from_one_that_has_not() -> None:
    """The number's interval splits again and again; the two flags never do, so together they keep every reward."""
    schema = releaf.Schema({"number": releaf.Continuous(0, 1), "flag": releaf.Boolean(), "other": releaf.Boolean()})
    bandit = releaf.Releaf(["a", "b"], schema, seed=0, rho=0.5, observe="always")
    generator = np.random.default_rng(3)
    earned: dict[tuple[bool, str], list[float]] = {}
    for number in generator.random(500).tolist():
        flag, reward = bool(generator.random() < 0.3), float(generator.random())
        choice = bandit.decide({"number": number, "flag": flag, "other": True})
        bandit.learn(choice, reward)
        earned.setdefault((flag, str(choice.action)), []).append(reward)
    assert len(bandit.partition("number")) > 50
    no, yes = bandit.interval_rewards("flag")
    for entries, flag in ((no, False), (yes, True)):
        for entry, action in zip(entries, ("a", "b"), strict=True):
            count, mean = entry
            assert count == len(earned[flag, action])
            assert mean == pytest.approx(np.mean(earned[flag, action]))
    nothing, all_of_them = bandit.interval_rewards("other")
    assert [entry.count for entry in nothing] == [0, 0]
    assert all(math.isnan(entry.mean) for entry in nothing)
    assert sum(entry.count for entry in all_of_them) == 500


def test_hashed_and_dense_cells_tell_the_same_over_a_long_stream() -> None:
    generator = np.random.default_rng(5)
    contexts = generator.random((20_000, 5))
    table = (generator.random((20_000, 3)) < contexts[:, [0, 2, 4]]).astype(float)  # whole, so sums have no order
    told = []
    for limit in (2**29, 300_000, 0):
        bandit = releaf.Releaf(3, 5, seed=3, rho=2.2, observe="always")
        limit_dense_cells(bandit, limit)
        releaf.replay(bandit, contexts, table)
        assert bandit._engine.clock(HASHED) == (limit < 2**29)
        told.append([bandit.interval_rewards(feature) for feature in range(5)])
    assert repr(told[0]) == repr(told[1]) == repr(told[2])
    assert sum(entry.count for entries in told[0][0] for entry in entries) > 1_000


def test_before_the_first_reward_nothing_is_known() -> None:
    for limit in (0, 2**29):
        bandit = releaf.Releaf(2, ["age", "dose"], seed=0)
        limit_dense_cells(bandit, limit)
        ((first, second),) = bandit.interval_rewards("dose")
        assert first.count == second.count == 0
        assert math.isnan(first.mean)
        assert math.isnan(second.mean)


def test_an_unknown_feature_is_refused() -> None:
    with pytest.raises(ValueError, match="price"):
        releaf.Releaf(2, ["age", "dose"]).interval_rewards("price")
