"""Time series of an experiment: bounded, exact, cheap; figures of a range with their bounds; alerts."""

from __future__ import annotations

import math
import timeit
from statistics import median
from typing import Any

import numpy as np
import pytest
from simulated_days import DAY, START, UNIFORM, add_shadow, live_through, new_state

from releaf.confidence_sequence import running_half_width
from releaf.service.experiments.alerts import find_alerts, read_series
from releaf.service.experiments.serialization import EXPERIMENT_FORMAT, agree
from releaf.service.experiments.series_summary import SeriesCopy, chart_points, summarise
from releaf.service.experiments.state import ExperimentState
from releaf.service.experiments.time_series import FINEST, MAX_PER_SIZE, MAX_POINT_ACTIONS, TimeSeries, TimeSeriesPoint
from releaf.service.log.events import Decided
from releaf.service.messages import AlertInfo, SummaryInfo


def decided(number: int, action: str | int, chance: float | None = 0.5) -> Decided:
    return Decided(float(number), number, [], action, chance, False, True, None, None, None, None)


def series_of(decisions: int, actions: int = 2) -> TimeSeries:
    series = TimeSeries(points=[], since=0, markers=[])
    for number in range(1, decisions + 1):
        series.add_decisions(float(number), [decided(number, number % actions)], {})
    return series


def summary(state: ExperimentState, baseline: str = "wait", **times: float) -> SummaryInfo:
    copy = SeriesCopy.of(state.series, state.learner.reward_range)
    return summarise(copy, times.get("since"), times.get("until"), baseline, list(state.learner.actions))  # type: ignore[arg-type]


def alerts(state: ExperimentState, now: float) -> list[AlertInfo]:
    reading = read_series(SeriesCopy.of(state.series, state.learner.reward_range), "wait")
    return find_alerts(state, reading.shifts, reading.floored, now)


# --- points -------------------------------------------------------------------------------------------------


def test_a_series_is_bounded_and_finer_for_later_decisions() -> None:
    series, lengths = TimeSeries(points=[], since=0, markers=[]), []
    for number in range(1, 200_001):
        series.add_decisions(float(number), [decided(number, "a")], {})
        if number % 1_000 == 0:
            lengths.append(len(series.points))
    assert max(lengths) <= MAX_PER_SIZE * math.log2(FINEST)
    sizes = [point.size for point in series.points]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] <= 200_000 / FINEST
    assert all(point.size <= max(sizes[-1], (200_000 - point.first) / (MAX_PER_SIZE / 4)) for point in series.points)
    for point, later in zip(series.points, series.points[1:], strict=False):
        assert later.first == point.first + point.decisions
        assert (point.at, point.until) == (point.first, later.first - 1)


def test_the_same_decisions_one_by_one_and_in_batches_give_the_same_points() -> None:
    one_by_one = series_of(20_000)
    batched = TimeSeries(points=[], since=0, markers=[])
    start, rng = 0, np.random.default_rng(0)
    while start < 20_000:
        end = min(20_000, start + int(rng.integers(1, 700)))
        batched.add_decisions(float(end), [decided(number, number % 2) for number in range(start + 1, end + 1)], {})
        start = end
    told = [[(point.first, point.size, point.actions) for point in one.points] for one in (one_by_one, batched)]
    assert told[0] == told[1]


def test_late_rewards_reach_the_point_of_their_decision() -> None:
    series = series_of(5_000)
    for ordinal in range(1, 5_001):
        series.add_reward(ordinal, ordinal % 2, 0.5, float(ordinal))
    for point in series.points:
        numbers = range(point.first, point.first + point.decisions)
        assert point.reward_sum == sum(numbers)
        for action, sums in point.actions.items():
            own = [number for number in numbers if number % 2 == action]
            assert (sums.rewards, sums.reward_sum, sums.w) == (len(own), sum(own), 2 * len(own))


def test_a_point_keeps_its_most_frequent_actions_and_the_sum_of_all_others() -> None:
    series = series_of(20_000, actions=1_000)
    assert max(len(point.actions) for point in series.points) <= MAX_POINT_ACTIONS + 1
    for point in series.points:
        assert sum(sums.decisions for sums in point.actions.values()) == point.decisions


def test_adding_a_decision_costs_the_same_however_many_came_before() -> None:
    """A bounded multiple, so that the comparison holds on a busy machine too."""

    def cost(series: TimeSeries, first: int) -> float:
        numbers = iter(range(first + 1, first + 1_000_000))
        step = lambda: series.add_decisions(1.0, [decided(next(numbers), "a")], {})  # noqa: E731
        return median(timeit.repeat(step, number=500, repeat=15))

    assert cost(series_of(100_000), 100_000) < 5 * cost(series_of(2_000), 2_000)


def test_points_for_a_chart_are_merged_to_a_limit_and_add_up() -> None:
    state = new_state()
    live_through(state, lambda day, x, action: 0.5, 3_000, days=3)
    copy = SeriesCopy.of(state.series, (0.0, 1.0))
    for limit in (1, 7, 40, 200):
        points = chart_points(copy, None, None, limit)
        assert min(limit, 100) / 3 <= len(points) <= limit
        assert sum(point.decisions for point in points) == 3_000
        assert sum(action.decisions for point in points for action in point.actions or ()) == 3_000
        assert sum(point.reward_sum for point in points) == state.counters.reward_sum
    last_day = chart_points(copy, START + 2 * DAY, None, 40)
    assert sum(point.decisions for point in last_day) == pytest.approx(1_000, abs=70)
    for point in last_day:
        assert point.low is not None
        assert point.high is not None
        assert 0.0 <= point.low <= point.reward_sum / point.rewards <= point.high <= 1.0


# --- figures of a range -------------------------------------------------------------------------------------


def test_the_lift_over_an_action_is_estimated_without_bias_from_the_propensities() -> None:
    """wait earns 0.5; treat 0.8 or 0.1 by context. Mean rewards per action would say that treat is better."""
    state = new_state({"name": "AdaptiveReleaf", "parameters": {"least_probability": 0.1, "seed": 3}})
    earned = []

    def chance(day: float, x: float, action: Any) -> float:
        earned.append(0.5 if action == "wait" else 0.8 if x > 0.6 else 0.1)
        return earned[-1]

    live_through(state, chance, 4_000)
    told, lift = summary(state), sum(earned) / len(earned) - 0.5
    wait, treat = told.actions
    assert treat.mean is not None
    assert treat.mean > 0.6  # it is taken where it is good
    assert (treat.value_low or 1) < 0.38 < (treat.value_high or 0)
    assert (wait.value_low or 1) < 0.5 < (wait.value_high or 0)
    assert (treat.lift_low or 1) < -0.12 < (treat.lift_high or -1) < 0
    assert (wait.lift, told.baseline, told.adjusted, told.note) == (None, "wait", True, None)
    assert (told.lift_low or 1) < lift < (told.lift_high or 0)
    assert (told.lift_low or 0) > 0.02
    other = summary(state, baseline="treat")
    assert (other.lift_low or 0) > 0.1


def test_bounds_cover_at_all_times_at_once() -> None:
    """Ordinary 95 % intervals, looked at after every tenth value, miss the mean at some time far more often."""
    rng, missed, naive = np.random.default_rng(0), 0, 0
    counts = np.arange(50, 3_000, 10)
    for _ in range(200):
        means = np.cumsum(rng.random(3_000) < 0.3)[counts - 1] / counts
        halves = np.array([running_half_width(0.21, int(count)) for count in counts])
        missed += bool((abs(means - 0.3) > halves).any())
        naive += bool((abs(means - 0.3) > 1.96 * np.sqrt(0.21 / counts)).any())
    assert missed <= 10
    assert naive > 50


def test_the_lift_is_unknown_where_the_policy_never_takes_the_baseline() -> None:
    state = new_state({"name": "AdaptiveReleaf", "parameters": {"seed": 0}})
    live_through(state, lambda day, x, action: 0.1 if action == "wait" else 0.9, 1_500)
    told = summary(state)
    assert told.lift is None
    assert told.note is not None
    assert "wait" in told.note
    assert [action.lift for action in told.actions] == [None, None]


def test_without_propensities_means_are_compared_and_flagged() -> None:
    series, rng = TimeSeries(points=[], since=0, markers=[]), np.random.default_rng(0)
    for number in range(1, 3_001):
        series.add_decisions(float(number), [decided(number, number % 2, None)], {})
        series.add_reward(number, number % 2, None, float(rng.random() < (0.4, 0.6)[number % 2]))
    told = summarise(SeriesCopy.of(series, (0.0, 1.0)), None, None, 0, [0, 1])
    assert not told.adjusted
    assert (told.actions[1].lift_low or -1) > 0.05
    assert (told.actions[1].lift_high or 1) < 0.35
    assert told.lift == pytest.approx((told.actions[1].lift or 0) / 2, abs=0.01)


def test_regret_is_known_where_clients_send_the_rewards_of_all_actions() -> None:
    state = new_state({"name": "Releaf", "parameters": {"observe": "labels", "seed": 0}}, features=["x", "y"])
    rng, regrets = np.random.default_rng(0), []
    for step in range(200):
        (event,) = state.decide([[float(rng.random()), 0.5]], [None], START + step)
        if not event.wants_reward:
            continue
        rewards = [float(rng.random()), float(rng.random())]
        state.reward(event.number, rewards, START + step)
        regrets.append(max(rewards) - rewards[["wait", "treat"].index(str(event.action))])
    told = summary(state)
    assert told.total_regret == pytest.approx(sum(regrets))
    assert told.mean_regret == pytest.approx(sum(regrets) / len(regrets))
    assert told.actions[0].value is not None
    only_taken = new_state()
    live_through(only_taken, lambda day, x, action: 0.5, 100)
    assert summary(only_taken).total_regret is None


def test_changes_are_markers_on_the_time_axis() -> None:
    state = new_state()
    live_through(state, lambda day, x, action: 0.5, 50)
    add_shadow(state, "chance", "Random", START + 2 * DAY)
    state.promote("chance", START + 3 * DAY, force=True)
    state.add_action("admit", None, START + 4 * DAY)
    told = [(one.change, one.subject, one.decision) for one in summary(state).markers]
    assert told == [("add_shadow", "chance", 50), ("promote", "chance", 50), ("add_action", "admit", 50)]
    assert [one.change for one in summary(state, since=START + 3.5 * DAY).markers] == ["add_action"]
    for step in range(150):
        state.remove_action("admit", START + 5 * DAY + step)
        state.add_action("admit", None, START + 5 * DAY + step)
    assert len(state.series.markers) == 100


# --- snapshots of earlier versions --------------------------------------------------------------------------


def as_saved_before(state: ExperimentState) -> bytes:
    """A snapshot as earlier versions wrote it: points of equal size, without actions."""
    import msgspec

    record = msgspec.msgpack.decode(EXPERIMENT_FORMAT.to_bytes(state))
    points = [
        [one.at, one.decisions, one.explored, one.asked, one.rewards, one.reward_sum] for one in state.series.points
    ]
    assert len({one[1] for one in points}) == 1
    record["series"] = [points[0][1], points]
    return msgspec.msgpack.encode(record)


def test_the_series_of_an_earlier_version_continues_and_agrees_with_a_replay() -> None:
    replayed, same = new_state(), lambda day, x, action: 0.5
    live_through(replayed, same, 30)
    upgraded = EXPERIMENT_FORMAT.load(as_saved_before(replayed))
    assert agree(upgraded, replayed)
    for state in (upgraded, replayed):
        live_through(state, same, 500, start=1, seed=1)
    assert agree(upgraded, replayed)
    assert agree(EXPERIMENT_FORMAT.load(EXPERIMENT_FORMAT.to_bytes(upgraded)), replayed)
    copy = SeriesCopy.of(upgraded.series, (0.0, 1.0))
    points = chart_points(copy, None, None, 200)
    assert sum(point.decisions for point in points) == 530
    assert [point.actions is None for point in points if point.first <= 30].count(False) == 0
    assert summary(upgraded).decisions == pytest.approx(500, abs=5)  # less a point with earlier decisions
    upgraded.series.points[0].rewards += 1
    assert not agree(upgraded, replayed)
    upgraded.series.points[0].rewards -= 1
    upgraded.counters.rewards += 1
    assert not agree(upgraded, replayed)


# --- alerts -------------------------------------------------------------------------------------------------


def test_nothing_is_reported_of_a_stationary_stream_however_often_one_looks() -> None:
    for seed in range(3):
        state = new_state({"name": "AdaptiveReleaf", "parameters": {"least_probability": 0.05, "seed": seed}})
        for part in range(8):
            chance = lambda day, x, action: 0.7 if (x > 0.5) == (action == "treat") else 0.2  # noqa: E731
            live_through(state, chance, 400, start=part, seed=100 * seed + part)
            assert alerts(state, START + DAY * (part + 1)) == []


def test_a_drift_of_what_an_action_earns_is_reported() -> None:
    state = new_state()
    live_through(state, lambda day, x, action: 0.3 if action == "wait" else 0.7 if day < 4 else 0.3, 5_000, days=5)
    (drift,) = alerts(state, START + 5 * DAY)
    assert (drift.kind, drift.severity, drift.action) == ("drift", "warning", "treat")
    assert drift.text.startswith("What treat earns changed: 0.")
    assert "forget" in drift.advice


def test_a_fall_of_the_mean_reward_is_reported_where_no_value_is_known() -> None:
    state = new_state({"name": "UCB1", "parameters": {}})
    live_through(state, lambda day, x, action: 0.8 if day < 4 else 0.3, 4_000, days=5)
    found = alerts(state, START + 5 * DAY)
    assert [(one.kind, one.action) for one in found] == [("drift", None)]


def test_stalled_rewards_are_reported_and_a_usual_silence_is_not() -> None:
    state = new_state()
    half, daytime = (lambda day, x, action: 0.5), (lambda day: day % 1 < 0.5)  # no rewards at night
    live_through(state, half, 2_000, days=4, is_rewarded=daytime)
    assert [one.kind for one in alerts(state, START + 4 * DAY)] == []
    live_through(state, half, 1_000, start=4, days=2, is_rewarded=lambda day: False)
    (stalled,) = alerts(state, START + 6 * DAY)
    assert (stalled.kind, stalled.severity) == ("stalled_rewards", "critical")
    assert "No reward has come for 3 days" in stalled.text
    waiting = min(state.pending)
    state.reward(waiting, 1.0, START + 6 * DAY)
    assert alerts(state, START + 6 * DAY) == []


def test_the_usual_number_of_rewards_is_not_diluted_by_the_decisions_that_wait() -> None:
    state = new_state()
    rng = np.random.default_rng(0)
    for step in range(1_500):
        (event,) = state.decide([[0.5]], [None], START + step)
        if step % 2:
            state.reward(event.number, float(rng.random() < 0.3), START + step)
    state.decide([[0.5]] * 3_500, [None] * 3_500, START + 1_500)
    (stalled,) = alerts(state, START + DAY)
    assert "1,750 would be usual for the 3,500 decisions" in stalled.text


def test_a_drift_of_defaults_alone_is_reported_as_such() -> None:
    state = new_state(rewards={"within_seconds": 60.0, "default": 0.0})
    live_through(state, lambda day, x, action: 0.5, 1_500, days=0.1)
    live_through(state, lambda day, x, action: 0.5, 1_500, start=0.1, days=0.1, is_rewarded=lambda day: False)
    now = START + 0.3 * DAY
    while state.expire(now):
        pass
    drifts = alerts(state, now)
    assert {one.action for one in drifts} == {"wait", "treat"}
    for one in drifts:
        assert one.text.endswith("Only defaults came in for the latest 1,500 decisions whose deadline has passed")
        assert one.advice.startswith("Check that the program that sends rewards runs")


def test_rewards_that_never_come_are_reported() -> None:
    state = new_state()
    live_through(state, lambda day, x, action: 0.5, 300, days=0.1, is_rewarded=lambda day: False)
    assert alerts(state, START + 60) == []
    (stalled,) = alerts(state, START + 0.2 * DAY)
    assert stalled.text.startswith("No reward has come yet: 300 decisions wait")


def test_an_action_at_a_floor_of_its_own_is_reported() -> None:
    parameters = {"least_probability": {"wait": 0.2}, "seed": 0}
    state = new_state({"name": "AdaptiveReleaf", "parameters": parameters})
    assert state.propensity_floors() == {"wait": 0.2}


def test_an_action_at_the_propensity_floor_is_reported() -> None:
    state = new_state({"name": "AdaptiveReleaf", "parameters": {"least_probability": 0.05, "seed": 0}})
    live_through(state, lambda day, x, action: 0.2 if action == "wait" else 0.8, 3_000)
    (floor,) = alerts(state, START + DAY)
    assert (floor.kind, floor.severity, floor.action) == ("propensity_floor", "info", "wait")
    assert "probability 0.05" in floor.text


def test_the_spend_of_the_label_budget_is_reported() -> None:
    policy: dict[str, Any] = {"name": "AdaptiveReleaf", "parameters": {"label_budget": 30, "seed": 0}}
    state, severities = new_state(policy), []
    for part in range(400):
        live_through(state, lambda day, x, action: 0.5, 20, start=part, seed=part)
        severities += [one.severity for one in alerts(state, START) if one.kind == "label_budget"]
    assert set(severities) == {"warning", "critical"}
    assert severities == sorted(severities, reverse=True)


def test_a_copy_of_the_points_is_read_while_the_series_goes_on() -> None:
    state = new_state(UNIFORM)
    live_through(state, lambda day, x, action: 0.5, 100)
    copy = SeriesCopy.of(state.series, (0.0, 1.0))
    live_through(state, lambda day, x, action: 0.5, 100)
    assert sum(point.decisions for point in copy.read().points) == 100
    assert isinstance(copy.read().points[0], TimeSeriesPoint)
