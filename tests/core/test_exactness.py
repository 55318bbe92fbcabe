"""The compiled learner against the plain one, step by step over random configurations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plain_releaf import PlainReleaf
from releaf_strategies import TIES, configurations, limit_dense_cells, quick, streams, twin_of

import releaf
from releaf.policies.partitioned import PartitionedPolicy

thorough = settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))


def assert_same_partitions(bandit: PartitionedPolicy, twin: PlainReleaf) -> None:
    for feature in range(twin.features):
        expected = sorted((*twin.bounds(p), p[0], n) for p, n in twin.arrivals[feature].items())
        assert [tuple(interval) for interval in bandit.partition(feature)] == expected


def assert_same_decision(
    choice: releaf.Decision, twin: PlainReleaf, context: list[float], eligible: set[int] | None = None
) -> None:
    outcome = twin.arrive(context, eligible)
    assert choice.explored == bool(outcome.under_explored)
    if choice.explored:
        assert choice.index in outcome.under_explored
        assert choice.probability == 1 / len(outcome.under_explored)
        assert choice.estimates is None
        assert choice.relevant is None
        return
    assert choice.estimates is not None
    assert choice.relevant == tuple(outcome.relevant)
    for estimate, expected, possible in zip(choice.estimates, outcome.estimates, outcome.possible, strict=True):
        assert estimate in (possible if expected is None else [expected])
    allowed, estimates = sorted(eligible or range(twin.actions)), choice.estimates
    assert choice.index == max(allowed, key=lambda action: (estimates[action], -action))
    sure = all(outcome.relevant[action] is not None for action in allowed)
    assert choice.probability == (1.0 if sure or len(allowed) == 1 < twin.actions else None)


def learn_both(
    bandit: PartitionedPolicy,
    twin: PlainReleaf,
    choice: releaf.Decision,
    row: list[float],
    eligible: set[int] | None = None,
) -> None:
    context = choice.context.tolist()
    if bandit.observation_mode in ("all-actions", "labels"):
        bandit.learn(choice, row)
        for action, reward in enumerate(row):
            if eligible is None or action in eligible:
                twin.observe(context, action, reward)
    else:
        bandit.learn(choice, row[choice.index])
        twin.observe(context, choice.index, row[choice.index])


def run_in_lock_step(bandit: PartitionedPolicy, twin: PlainReleaf, contexts: Any, table: Any) -> None:
    for context, row in zip(contexts, table, strict=True):
        choice = bandit.decide(context)
        assert_same_decision(choice, twin, context)
        assert_same_partitions(bandit, twin)
        assert choice.wants_reward == (choice.explored or bandit.observation_mode in ("always", "labels"))
        if choice.wants_reward:
            learn_both(bandit, twin, choice, row)


def check_lock_step(data: st.DataObject) -> None:
    configuration = data.draw(configurations())
    bandit = releaf.Releaf(**configuration)
    contexts, table = data.draw(streams(configuration["features"], configuration["actions"]))
    limit_dense_cells(bandit, data.draw(st.sampled_from([0, 20_000, 2**29])))
    run_in_lock_step(bandit, twin_of(bandit), contexts, table)


@quick
@given(st.data())
def test_every_step_is_that_of_the_plain_algorithm(data: st.DataObject) -> None:
    check_lock_step(data)


@pytest.mark.soak
@thorough
@given(st.data())
def test_every_step_is_that_of_the_plain_algorithm_over_many_configurations(data: st.DataObject) -> None:
    check_lock_step(data)


@quick
@given(st.data())
def test_every_step_among_eligible_actions_is_that_of_the_plain_algorithm(data: st.DataObject) -> None:
    configuration = data.draw(configurations()) | {"actions": data.draw(st.integers(2, 6))}
    bandit, actions = releaf.Releaf(**configuration), configuration["actions"]
    contexts, table = data.draw(streams(configuration["features"], actions))
    limit_dense_cells(bandit, data.draw(st.sampled_from([0, 20_000, 2**29])))
    twin, draw = twin_of(bandit), np.random.default_rng(data.draw(st.integers(0, 2**32)))
    for context, row in zip(contexts, table, strict=True):
        count = int(draw.integers(1, actions + 1))
        eligible = set(draw.choice(actions, count, replace=False).tolist())
        choice = bandit.decide(context, eligible=sorted(eligible))
        assert choice.index in eligible
        assert_same_decision(choice, twin, context, eligible)
        assert_same_partitions(bandit, twin)
        if choice.wants_reward:
            learn_both(bandit, twin, choice, row, eligible)


@quick
@given(st.data())
def test_greedy_releaf_is_that_of_the_plain_algorithm(data: st.DataObject) -> None:
    features, actions = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 5))
    observe: Any = data.draw(st.sampled_from(["explored", "always", "all-actions", "labels"]))
    bandit = releaf.GreedyReleaf(actions, features, seed=1, rho=1.5, control_divisor=20.0, observe=observe)
    twin = PlainReleaf(features, actions, tuple_size=1, rho=1.5, control_divisor=20.0, greedy=True)
    contexts, table = data.draw(streams(features, actions))
    run_in_lock_step(bandit, twin, contexts, table)


@quick
@given(st.data())
def test_late_unordered_and_lost_rewards_go_to_the_cells_that_hold_their_context_by_then(data: st.DataObject) -> None:
    configuration = data.draw(configurations()) | {"rho": 1.0}
    bandit = releaf.Releaf(**configuration)
    limit_dense_cells(bandit, data.draw(st.sampled_from([0, 2**29])))
    twin = twin_of(bandit)
    contexts, table = data.draw(streams(configuration["features"], configuration["actions"]))
    draws = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    waiting: list[tuple[releaf.Decision, list[float]]] = []
    for context, row in zip(contexts, table, strict=True):
        choice = bandit.decide(context)
        assert_same_decision(choice, twin, context)
        if choice.wants_reward and draws.random() < 0.9:
            waiting.append((choice, row))
        while waiting and draws.random() < 0.6:
            learn_both(bandit, twin, *waiting.pop(draws.integers(len(waiting))))


@quick
@given(st.data())
def test_an_action_added_while_running_joins_the_plain_algorithm(data: st.DataObject) -> None:
    configuration = data.draw(configurations())
    bandit = releaf.Releaf(**configuration)
    limit_dense_cells(bandit, data.draw(st.sampled_from([0, 2**29])))
    twin = twin_of(bandit)
    contexts, table = data.draw(streams(configuration["features"], configuration["actions"] + 3))
    additions = set(data.draw(st.lists(st.integers(0, len(contexts) - 1), max_size=3)))
    for step, (context, row) in enumerate(zip(contexts, table, strict=True)):
        if step in additions:
            bandit.add_action()
            twin.actions += 1
        run_in_lock_step(bandit, twin, [context], [row[: twin.actions]])


@quick
@given(st.data())
def test_an_action_removed_while_running_leaves_the_plain_algorithm(data: st.DataObject) -> None:
    configuration = data.draw(configurations()) | {"actions": data.draw(st.integers(2, 9))}
    bandit = releaf.Releaf(**configuration)
    limit_dense_cells(bandit, data.draw(st.sampled_from([0, 20_000, 2**29])))
    twin = twin_of(bandit)
    contexts, table = data.draw(streams(configuration["features"], configuration["actions"]))
    changes = set(data.draw(st.lists(st.integers(0, len(contexts) - 1), max_size=5)))
    for step, (context, row) in enumerate(zip(contexts, table, strict=True)):
        if step in changes and twin.actions > 1 and data.draw(st.integers(0, 3)):
            removed = data.draw(st.integers(0, twin.actions - 1))
            bandit.remove_action(bandit.actions[removed])
            twin.forget(removed)
        elif step in changes and twin.actions < configuration["actions"]:
            bandit.add_action()
            twin.actions += 1
        run_in_lock_step(bandit, twin, [context], [row[: twin.actions]])


def all_arrays(bandit: PartitionedPolicy) -> dict[str, bytes]:
    """The state, array by array, without the slack of tables that grew at different times."""
    return {
        name: array.tobytes() for name, array in bandit._engine.learnt_arrays().items() if name not in ("table", "keys")
    }


@quick
@given(st.data())
def test_replay_and_one_by_one_agree_bit_for_bit(data: st.DataObject) -> None:
    configuration = data.draw(configurations())
    contexts, table = data.draw(streams(configuration["features"], configuration["actions"]))
    one_by_one, at_once = releaf.Releaf(**configuration), releaf.Releaf(**configuration)
    limit = data.draw(st.sampled_from([0, 20_000, 2**29]))
    limit_dense_cells(one_by_one, limit)
    limit_dense_cells(at_once, limit)
    cut = data.draw(st.integers(0, len(contexts)))
    traces = [releaf.replay(at_once, np.array(part), np.array(rows)) for part, rows in _parts(contexts, table, cut)]
    step = 0
    for trace in traces:
        for index, explored, observed, reward in zip(
            trace.actions, trace.explored, trace.observed, trace.rewards, strict=True
        ):
            choice = one_by_one.decide(contexts[step])
            assert (choice.index, choice.explored, choice.wants_reward) == (index, explored, observed)
            row = table[step]
            assert reward == row[choice.index]
            if choice.wants_reward:
                one_by_one.learn(
                    choice, row if one_by_one.observation_mode in ("all-actions", "labels") else row[choice.index]
                )
            step += 1
    assert all_arrays(one_by_one) == all_arrays(at_once)


def _parts(contexts: list[Any], table: list[Any], cut: int) -> list[tuple[list[Any], list[Any]]]:
    return [part for part in ((contexts[:cut], table[:cut]), (contexts[cut:], table[cut:])) if part[0]]


def test_hashed_and_dense_cells_decide_alike_over_a_long_stream() -> None:
    generator = np.random.default_rng(5)
    contexts = generator.random((30_000, 6))
    table = (generator.random((30_000, 3)) < contexts[:, [0, 2, 4]]).astype(float)
    traces = []
    for limit in (2**29, 300_000, 0):
        bandit = releaf.Releaf(3, 6, seed=3, rho=2.2, observe="always")
        limit_dense_cells(bandit, limit)
        traces.append(releaf.replay(bandit, contexts, table))
    for trace in traces[1:]:
        assert np.array_equal(trace.actions, traces[0].actions)
        assert np.array_equal(trace.explored, traces[0].explored)


@quick
@given(st.data())
def test_categories_and_missing_values_follow_the_plain_algorithm(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(["number", "gap", "flag", "letter"]), min_size=2, max_size=5))
    made: dict[str, releaf.features.Feature] = {
        "number": releaf.Continuous(0, 1),
        "gap": releaf.Continuous(0, 1, missing=True),
        "flag": releaf.Boolean(missing=True),
        "letter": releaf.Categorical("a", "b", "c"),
    }
    schema = releaf.Schema({f"{place} {kind}": made[kind] for place, kind in enumerate(kinds)})
    observe: Any = data.draw(st.sampled_from(["explored", "always", "all-actions", "labels"]))
    divisor = data.draw(st.sampled_from([20.0, 1e6]))
    bandit = releaf.Releaf(3, schema, seed=0, rho=1.5, control_divisor=divisor, observe=observe)
    limit_dense_cells(bandit, data.draw(st.sampled_from([0, 20_000, 2**29])))
    twin = twin_of(bandit)
    twin.categories = {place: 3 for place, kind in enumerate(kinds) if kind in ("flag", "letter")}
    twin.missing = {place for place, kind in enumerate(kinds) if kind == "gap"}
    twin.__post_init__()
    noise = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    choices: dict[str, list[Any]] = {
        "number": TIES[:6],
        "gap": [None, *TIES[:6]],
        "flag": [True, False, None],
        "letter": ["a", "b", "c"],
    }
    for _ in range(data.draw(st.integers(10, 120))):
        context = [choices[kind][noise.integers(len(choices[kind]))] for kind in kinds]
        row = noise.choice([0.0, 0.25, 1.0], 3).tolist()
        choice = bandit.decide(context)
        assert_same_decision(choice, twin, choice.context.tolist())
        if choice.wants_reward:
            learn_both(bandit, twin, choice, row)
    for place in range(len(kinds)):
        arrivals = sorted(twin.arrivals[place].values())
        assert sorted(interval.arrivals for interval in bandit.partition(place)) == arrivals


def test_many_actions_are_handled_in_several_rounds() -> None:
    generator = np.random.default_rng(6)
    for actions in (8, 9, 16, 19):
        bandit = releaf.Releaf(actions, 3, seed=1, observe="always", rho=4.0)
        contexts = generator.choice([0.2, 0.7], (600, 3)).tolist()
        run_in_lock_step(bandit, twin_of(bandit), contexts, generator.random((600, actions)).tolist())
        assert 100 < bandit.explorations < 500


def test_where_no_features_explain_the_rewards_some_are_drawn_at_random() -> None:
    generator = np.random.default_rng(0)
    bandit = releaf.Releaf(2, 4, seed=0, lipschitz=0.02, control_divisor=1e7, rho=3.0, observe="always")
    twin = twin_of(bandit)
    undetermined = 0
    for context, row in zip(
        generator.choice([0.2, 0.7], (300, 4)).tolist(),
        generator.choice([0.0, 0.5, 1.0], (300, 2)).tolist(),
        strict=True,
    ):
        choice = bandit.decide(context)
        assert_same_decision(choice, twin, context)
        undetermined += choice.relevant is not None and None in choice.relevant
        if choice.relevant is not None and None in choice.relevant:
            assert choice.probability is None
        learn_both(bandit, twin, choice, row)
    assert undetermined > 100


def test_very_deep_intervals_are_found() -> None:
    """Small rho and one value: levels far below the look-up grid, down to the finest."""
    bandit = releaf.Releaf(2, 2, seed=0, rho=0.02, control_divisor=1e9)
    twin = twin_of(bandit)
    run_in_lock_step(bandit, twin, [[0.3, 0.7]] * 75, [[0.0, 1.0]] * 75)
    deepest = max(interval.level or 0 for interval in bandit.partition(0))
    assert deepest > 30
    for _ in range(500):
        bandit.decide([0.3, 1.0])
    assert max(interval.level or 0 for interval in bandit.partition(0)) == 52
