"""Alerts of an experiment: stalled rewards, drift, the propensity floor, budgets, and too many pending decisions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from releaf.service.experiments.action_sums import ActionSums
from releaf.service.experiments.pending_decisions import pending_limit
from releaf.service.experiments.series_summary import LEAST_REWARDS, Estimates, SeriesCopy
from releaf.service.experiments.state import ExperimentState
from releaf.service.experiments.time_series import TimeSeriesPoint
from releaf.service.log.events import ExperimentAction
from releaf.service.messages import AlertInfo

LEAST_SILENCE = 60.0  # seconds without a reward before rewards can have stalled
FIRST_SILENCE = 600.0  # the same, before the first reward
MISSING_REWARDS = 20.0  # expected by now, so that none of them comes by chance once in e^20 times
FIRST_DECISIONS = 100
SCALES = 7  # of recent decisions: half of all, a quarter, …
LEVEL = 0.01  # α of all comparisons together
FLOOR_SHARE = 0.95  # of an action's decisions
FLOOR_DECISIONS = 20
MAINLY = 0.5  # of the recent decisions
CHECK_SENDER = "Check that the program that sends rewards runs, and that its requests succeed"
NEARLY_SPENT = 0.8
NEARLY_FULL = 0.8  # of the decisions that may be pending
NEARLY_BOUND = 0.95  # of the most that the spend may be ahead of its allowance


Measured = tuple[float, float]  # a value, and the half-width of its bounds


class Shift(NamedTuple):
    """A change of a value between recent decisions and those before them; of all rewards if the action is None."""

    action: ExperimentAction | None
    decisions: int  # recent ones
    before: float
    after: float


# --- from the experiment as it is ---------------------------------------------------------------------------


def find_alerts(
    state: ExperimentState, shifts: list[Shift], floored: list[ExperimentAction], now: float
) -> list[AlertInfo]:
    """The alerts of an experiment, the gravest first."""
    if state.retired:
        return []
    budgets = (*_label_budget(state), *_spend_budget(state), *_pending_limit(state))
    found = [*budgets, *_stalled_rewards(state, now), *_drifts(state, shifts), *_floors(state, floored)]
    order = ("critical", "warning", "info")
    return sorted(found, key=lambda alert: order.index(alert.severity))


def _label_budget(state: ExperimentState) -> Iterator[AlertInfo]:
    budget, spent = state.learner.label_budget, state.learner.label_cost_spent
    if budget is None or spent < NEARLY_SPENT * budget:
        return
    advice = "Create an experiment with a larger budget from this model"
    if spent >= budget:
        text = (
            f"The label budget of {budget:,} is spent: the learner asks for no more rewards and learns nothing more, "
            "not even of new actions and shadows"
        )
        yield AlertInfo("label_budget", "critical", text, advice)
        return
    text = f"{spent:,.12g} of the label budget of {budget:,} are spent: at its end the learner learns nothing more"
    yield AlertInfo("label_budget", "warning", text, advice)


def _spend_budget(state: ExperimentState) -> Iterator[AlertInfo]:
    learner = state.learner
    budget, ahead = learner.spend_budget, learner.spend_ahead
    if budget is None or ahead is None or ahead < NEARLY_BOUND * budget:
        return
    spend = f"The spend is {ahead:,.4g} ahead of its allowance"
    period = f"the budget of {budget:,g} per {learner.budget_period:,} decisions"
    if ahead > budget * (1.0 + 1e-9):
        text = f"{spend}, more than {period}: even the cheapest action costs too much"
        advice = "Make a cheaper action eligible, or let a policy with a larger budget take charge, as a shadow first"
        yield AlertInfo("spend_budget", "critical", text, advice)
        return
    text = f"{spend}, close to {period}: dear actions are not taken for a while"
    advice = "Nothing, if costs have just risen. Otherwise compare a policy with a larger budget, as a shadow"
    yield AlertInfo("spend_budget", "warning", text, advice)


def _pending_limit(state: ExperimentState) -> Iterator[AlertInfo]:
    limit, waiting = pending_limit(state.slot.policy), len(state.pending)
    if waiting >= NEARLY_FULL * limit:
        yield AlertInfo(
            "pending_limit",
            "critical" if waiting >= limit else "warning",
            f"{waiting:,} decisions wait for their rewards, and {limit:,} may: beyond that new ones are refused (503)",
            "Check that the program that sends rewards runs. Or let a policy with a larger max_pending take charge, as "
            "a shadow first",
        )


def _stalled_rewards(state: ExperimentState, now: float) -> Iterator[AlertInfo]:
    series, counts = state.series, state.counters
    advice = CHECK_SENDER
    waiting = len(state.pending)
    if not waiting:
        return
    if series.rewarded_at is None:
        silence = now - series.points[0].at if series.points else 0.0
        allowed = max(FIRST_SILENCE, (state.spec.rewards.within_seconds or 0.0) / 2)
        if counts.rewards == 0 and waiting >= FIRST_DECISIONS and silence > allowed:
            text = f"No reward has come yet: {waiting:,} decisions wait, the first for {_duration(silence)}"
            yield AlertInfo("stalled_rewards", "critical", text, advice)
        return
    usual = counts.rewards / max(counts.asked - series.asked_since, 1)  # of the decisions up to the latest reward
    silence, expected = now - series.rewarded_at, series.asked_since * usual
    if expected >= MISSING_REWARDS and silence > max(LEAST_SILENCE, 2.0 * series.longest_silence):
        text = (
            f"No reward has come for {_duration(silence)}: {expected:,.0f} would be usual for the "
            f"{series.asked_since:,} decisions that asked for one since"
        )
        yield AlertInfo("stalled_rewards", "critical", text, advice)


def _drifts(state: ExperimentState, shifts: list[Shift]) -> Iterator[AlertInfo]:
    silent = state.series.asked_since - len(state.pending) if state.spec.rewards.default is not None else 0
    for shift in shifts:
        what = "The mean reward fell" if shift.action is None else f"What {shift.action} earns changed"
        text = f"{what}: {shift.after:.3g} for the latest {shift.decisions:,} decisions, {shift.before:.3g} before"
        advice = (
            "Find out what changed in the world or in the contexts. A policy that forgets (forget=…), as a shadow, "
            "adapts sooner"
        )
        if silent >= MAINLY * shift.decisions:
            text += f". Only defaults came in for the latest {silent:,} decisions whose deadline has passed"
            advice = f"{CHECK_SENDER}: learners take each default for a reward"
        yield AlertInfo("drift", "warning", text, advice, shift.action)


def _floors(state: ExperimentState, floored: list[ExperimentAction]) -> Iterator[AlertInfo]:
    floors = state.propensity_floors()
    for action in floored:
        if action in floors:
            yield AlertInfo(
                "propensity_floor",
                "info",
                f"{action} is taken only as rarely as the policy allows, with probability {floors[action]:.3g}",
                "Retire it if it is not needed; keep it if you want to notice that it gets better",
                action,
            )


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"


# --- from its time series, in a thread ----------------------------------------------------------------------


class SeriesReading(NamedTuple):
    """What a time series tells about drift, floors and totals."""

    shifts: list[Shift]
    floored: list[ExperimentAction]
    totals: dict[ExperimentAction | None, ActionSums]
    lift: Lift | None = None


class Lift(NamedTuple):
    """By how much the policy earns more than an action would, with its bounds."""

    baseline: ExperimentAction
    lift: float
    low: float
    high: float


def read_series(copy: SeriesCopy, baseline: ExperimentAction) -> SeriesReading:
    """Look for drift and for actions at the propensity floor, and estimate the lift over a baseline action."""
    series = copy.read_all()
    points = [point for point in series.points if point.first > (series.since or 0)]
    sums = _sums_of_latest(points)
    if not sums:
        return SeriesReading([], [], {})
    settled = _sums_of_latest([point for point in points if copy.is_settled(point)])
    known = settled[0] if settled else TimeSeriesPoint(0.0, actions={})
    (lift, low, high), _ = Estimates(known, copy.reward_range).lift_of_policy(baseline)
    return SeriesReading(
        _find_shifts(settled, copy.reward_range),
        _find_floored(sums),
        sums[0].actions,
        None if lift is None or low is None or high is None else Lift(baseline, lift, low, high),
    )


def _sums_of_latest(points: list[TimeSeriesPoint]) -> list[TimeSeriesPoint]:
    """The sums of all decisions, of the latest half of them, of the latest quarter, and so on."""
    made, latest = sum(point.decisions for point in points), TimeSeriesPoint(0.0, actions={})
    found: list[TimeSeriesPoint] = []
    for point in reversed(points):
        latest.merge(point)
        if latest.decisions * 2 ** (SCALES - len(found)) >= made:
            found.append(_copy(latest))
    if found and found[-1].decisions < made:
        found.append(latest)
    return found[::-1]


def _copy(point: TimeSeriesPoint) -> TimeSeriesPoint:
    copied = TimeSeriesPoint(0.0, actions={})
    copied.merge(point)
    return copied


def _find_shifts(sums: list[TimeSeriesPoint], reward_range: tuple[float, float]) -> list[Shift]:
    """The largest shift of each action's value, or a fall of the mean reward if no value is known."""
    if not sums:
        return []
    names = [action for action in sums[0].actions if action is not None]
    level = LEVEL / (2 * SCALES * max(len(names), 1))
    shifts: dict[ExperimentAction | None, tuple[float, Shift]] = {}
    is_any_known = False
    for place, recent in enumerate(sums[1:], 1):
        before = _minus(sums[max(0, place - 2)], recent)  # up to three times as many decisions
        after, earlier = Estimates(recent, reward_range), Estimates(before, reward_range)
        known = [name for name in names if after.is_adjusted and after.is_known(name) and earlier.is_known(name)]
        is_any_known |= bool(known)
        found: list[tuple[ExperimentAction | None, Measured, Measured]] = [
            (name, earlier.value_with_error(name, level), after.value_with_error(name, level)) for name in known
        ]
        if not is_any_known and min(recent.rewards, before.rewards) >= LEAST_REWARDS:
            found = [(None, earlier.mean_with_error(level), after.mean_with_error(level))]
        for name, (old, old_error), (new, new_error) in found:
            excess = (old - new if name is None else abs(new - old)) / (old_error + new_error or math.inf)
            if excess > max(1.0, shifts[name][0] if name in shifts else 0.0):
                shifts[name] = excess, Shift(name, recent.decisions, old, new)
    return [shift for _, shift in shifts.values()]


def _minus(longer: TimeSeriesPoint, recent: TimeSeriesPoint) -> TimeSeriesPoint:
    """The sums of the decisions before the recent ones."""
    before = _copy(longer)
    for name in ("decisions", "rewards", "reward_sum", "reward_squares", "weighted", "weighted_sum"):
        setattr(before, name, getattr(longer, name) - getattr(recent, name))
    before.actions = {
        action: sums.minus(recent.actions.get(action, ActionSums())) for action, sums in longer.actions.items()
    }
    return before


def _find_floored(sums: list[TimeSeriesPoint]) -> list[ExperimentAction]:
    """Actions that the policy has taken with the lowest propensity only, in the latest quarter of decisions."""
    latest = sums[min(2, len(sums) - 1)].actions
    return [
        action
        for action, one in latest.items()
        if action is not None and one.decisions >= FLOOR_DECISIONS and one.floored >= FLOOR_SHARE * one.decisions
    ]
