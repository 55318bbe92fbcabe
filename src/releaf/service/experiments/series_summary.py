"""Summaries of a time series: points of a chart; shares, mean rewards, values, lift and regret in a range of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from releaf.confidence_sequence import running_half_width
from releaf.service.experiments.action_sums import ActionSums
from releaf.service.experiments.time_series import Marker, TimeSeries, TimeSeriesPoint
from releaf.service.log.events import ExperimentAction
from releaf.service.messages import ActionPoint, ActionSummary, MarkerInfo, SeriesPoint, SummaryInfo
from releaf.service.timestamps import format_timestamp
from releaf.statistics import Z95

MAX_SERIES_POINTS = 200  # of a chart
LEAST_REWARDS = 30  # from which on asymptotic bounds are shown
PSEUDO_REWARDS = 2  # at both ends of the range, so that few equal rewards don't seem certain (Agresti and Coull)
UNKNOWN = (None, None, None)
Bounds = tuple[float | None, float | None, float | None]


class SeriesCopy(NamedTuple):
    """A time series as it was when it was captured, to be summarised in a thread."""

    content: bytes
    reward_range: tuple[float, float]
    unsettled_from: int | None = None  # first decision that does not count yet (see `cohorts`)

    @classmethod
    def of(cls, series: TimeSeries, reward_range: tuple[float, float], unsettled_from: int | None = None) -> SeriesCopy:
        return cls(msgspec.msgpack.encode(series), reward_range, unsettled_from)

    def read(self) -> TimeSeries:
        """The series, without the rewards of points whose decisions are not all settled."""
        series = self.read_all()
        for point in series.points:
            if not self.is_settled(point):
                point.forget_rewards()
        return series

    def read_all(self) -> TimeSeries:
        """The series with all rewards that have come."""
        return msgspec.msgpack.decode(self.content, type=TimeSeries)

    def is_settled(self, point: TimeSeriesPoint) -> bool:
        """Whether the outcomes of all decisions of a point, and of those before them, are known."""
        return self.unsettled_from is None or point.first + point.decisions <= self.unsettled_from


# --- points of a chart --------------------------------------------------------------------------------------


def chart_points(copy: SeriesCopy, since: float | None, until: float | None, limit: int) -> list[SeriesPoint]:
    """Points of a range of time for the API, merged until there are at most ``limit`` of about equal size."""
    series = copy.read()
    points = merge_points(points_within(series.points, since, until), limit)
    return [_point_message(point, series.since or 0, copy) for point in points]


def points_within(points: list[TimeSeriesPoint], since: float | None, until: float | None) -> list[TimeSeriesPoint]:
    """The points with decisions in a range of time."""
    first, last = since if since is not None else -math.inf, until if until is not None else math.inf
    return [point for point in points if point.until >= first and point.at < last]


def merge_points(points: list[TimeSeriesPoint], limit: int) -> list[TimeSeriesPoint]:
    """Merge neighbours, which changes them, into at most ``limit`` points of about equally many decisions."""
    size = sum(point.decisions for point in points) / limit
    while len(points) > limit:
        merged: list[TimeSeriesPoint] = []
        for point in points:
            if merged and merged[-1].decisions + point.decisions <= size:
                merged[-1].merge(point)
            else:
                merged.append(point)
        points, size = merged, size * 1.2
    return points


def _point_message(point: TimeSeriesPoint, counted_from: int, copy: SeriesCopy) -> SeriesPoint:
    reward_range = copy.reward_range
    _, low, high = pointwise(point.rewards, point.reward_sum, point.reward_squares, reward_range)
    has_actions = point.first > counted_from
    return SeriesPoint(
        first=point.first,
        decisions=point.decisions,
        at=format_timestamp(point.at),
        explored=point.explored,
        asked=point.asked,
        rewards=point.rewards,
        reward_sum=point.reward_sum,
        until=format_timestamp(point.until),
        low=low if has_actions else None,
        high=high if has_actions else None,
        regret=point.regret_sum if point.regrets else None,
        actions=[_action_point(action, sums, reward_range) for action, sums in point.actions.items()]
        if has_actions
        else None,
        spent=point.spent,
        settled=copy.is_settled(point),
    )


def _action_point(action: ExperimentAction | None, sums: ActionSums, reward_range: tuple[float, float]) -> ActionPoint:
    bounds = pointwise(sums.rewards, sums.reward_sum, sums.reward_squares, reward_range)
    return ActionPoint(action, sums.decisions, sums.rewards, *bounds)


def pointwise(count: int, total: float, squares: float, reward_range: tuple[float, float]) -> Bounds:
    """Mean, and its 95 % interval for one look, with pseudo-rewards at both ends of the range."""
    if not count:
        return UNKNOWN
    low, high = reward_range
    padded = count + 2 * PSEUDO_REWARDS
    centre = (total + PSEUDO_REWARDS * (low + high)) / padded
    variance = max((squares + PSEUDO_REWARDS * (low * low + high * high)) / padded - centre * centre, 0.0)
    half = Z95 * math.sqrt(variance / padded)
    return total / count, max(centre - half, low), min(centre + half, high)


# --- figures of a range -------------------------------------------------------------------------------------


def summarise(
    copy: SeriesCopy,
    since: float | None,
    until: float | None,
    baseline: ExperimentAction,
    actions: Sequence[ExperimentAction],
) -> SummaryInfo:
    """Figures of a range of time, with the lift over a baseline action."""
    series = copy.read()
    points = points_within([point for point in series.points if point.first > (series.since or 0)], since, until)
    total = TimeSeriesPoint(points[0].at if points else 0.0, actions={action: ActionSums() for action in actions})
    for point in points:
        total.merge(point)
    estimates = Estimates(total, copy.reward_range)
    lift, note = estimates.lift_of_policy(baseline)
    mean = estimates.mean(total.rewards, total.reward_sum, total.reward_squares)
    return SummaryInfo(
        since=format_timestamp(points[0].at) if points else None,
        until=format_timestamp(points[-1].until) if points else None,
        decisions=total.decisions,
        rewards=total.rewards,
        mean=mean[0],
        mean_low=mean[1],
        mean_high=mean[2],
        baseline=baseline,
        lift=lift[0],
        lift_low=lift[1],
        lift_high=lift[2],
        adjusted=estimates.is_adjusted,
        note=note,
        mean_regret=total.regret_sum / total.regrets if total.regrets else None,
        total_regret=total.regret_sum if total.regrets else None,
        actions=[estimates.of_action(action, baseline) for action in total.actions],
        markers=[_marker(one) for one in series.markers if _is_within(one.at, since, until)],
        spent=total.spent,
        mean_cost=total.spent / total.decisions if total.decisions else None,
        unsettled=sum(point.decisions for point in points if not copy.is_settled(point)),
    )


def _is_within(at: float, since: float | None, until: float | None) -> bool:
    return (since is None or at >= since) and (until is None or at < until)


def _marker(marker: Marker) -> MarkerInfo:
    return MarkerInfo(format_timestamp(marker.at), marker.decision, marker.change, marker.subject)


class Estimates:
    """Estimates from the sums of a range, with bounds that hold at all times at once.

    Parameters
    ----------
    total
        The sums.
    reward_range
        Lowest and highest reward.
    """

    def __init__(self, total: TimeSeriesPoint, reward_range: tuple[float, float]) -> None:
        self.total, self.reward_range = total, reward_range
        self.is_adjusted = total.weighted > 0 or not total.rewards
        self._knows_all = total.regrets > 0

    def of_action(self, action: ExperimentAction | None, baseline: ExperimentAction) -> ActionSummary:
        """Figures of an action."""
        sums = self.total.actions[action]
        mean = self.mean(sums.rewards, sums.reward_sum, sums.reward_squares)
        value: Bounds = UNKNOWN
        if action is not None and self.is_known(action):
            half = running_half_width(self._variance(action), self._count)
            value = self._clipped(self._value(action), half)
        lift = UNKNOWN if action in (None, baseline) else self._lift(action, baseline)
        return ActionSummary(
            action,
            sums.decisions,
            sums.decisions / self.total.decisions if self.total.decisions else 0.0,
            sums.rewards,
            *mean,
            *value,
            *lift,
            at_floor=sums.floored / sums.decisions if sums.decisions else 0.0,
        )

    def mean(self, count: int, total: float, squares: float) -> Bounds:
        """A mean reward with its bounds; those of few rewards are unknown."""
        if not count:
            return UNKNOWN
        mean = total / count
        if count < LEAST_REWARDS:
            return mean, None, None
        return self._clipped(mean, running_half_width(max(squares / count - mean * mean, 0.0), count))

    def is_known(self, action: ExperimentAction) -> bool:
        """Whether rewards tell what an action would earn if it were always taken."""
        sums = self.total.actions.get(action)
        if sums is None:
            return False
        if not self.is_adjusted:
            return sums.rewards >= LEAST_REWARDS
        return sums.matched >= LEAST_REWARDS and sums.is_supported(self.total.weighted)

    def lift_of_policy(self, baseline: ExperimentAction) -> tuple[Bounds, str | None]:
        """By how much the policy earned more than the baseline would have, and why that is unknown."""
        if not self.is_known(baseline):
            return UNKNOWN, self._why_unknown(baseline)
        total, value, variance = self.total, self._value(baseline), self._variance(baseline)
        if not self.is_adjusted:
            mean = total.reward_sum / total.rewards
            own = max(total.reward_squares / total.rewards - mean * mean, 0.0)
            return self._bounds(mean - value, own + variance), None
        mean = total.weighted_sum / total.weighted
        own = max(total.weighted_squares / total.weighted - mean * mean, 0.0)
        if self._knows_all:  # the covariance is unknown: the largest that is possible
            return self._bounds(mean - value, (math.sqrt(own) + math.sqrt(variance)) ** 2), None
        joint = total.actions[baseline].covariance_with_mean(mean)
        return self._bounds(mean - value, own + variance - 2.0 * joint), None

    def value_with_error(self, action: ExperimentAction, level: float) -> tuple[float, float]:
        """Value of an action, and the half-width of its bounds of a level."""
        return self._value(action), running_half_width(self._variance(action), self._count, level)

    def mean_with_error(self, level: float) -> tuple[float, float]:
        """Mean reward, and the half-width of its bounds of a level."""
        count = self.total.rewards
        mean = self.total.reward_sum / count
        return mean, running_half_width(max(self.total.reward_squares / count - mean * mean, 0.0), count, level)

    @property
    def _count(self) -> int:
        return self.total.weighted if self.is_adjusted else self.total.rewards

    def _lift(self, action: ExperimentAction | None, baseline: ExperimentAction) -> Bounds:
        if action is None or not (self.is_known(action) and self.is_known(baseline)):
            return UNKNOWN
        one, other = self._variance(action), self._variance(baseline)
        variance = (math.sqrt(one) + math.sqrt(other)) ** 2 if self._knows_all else one + other
        return self._bounds(self._value(action) - self._value(baseline), variance)

    def _value(self, action: ExperimentAction) -> float:
        sums = self.total.actions[action]
        return sums.value() if self.is_adjusted else sums.reward_sum / sums.rewards

    def _variance(self, action: ExperimentAction) -> float:
        """Variance of the value, times the number of rewarded decisions."""
        sums = self.total.actions[action]
        if self.is_adjusted:
            return sums.variance(self.total.weighted)
        mean = sums.reward_sum / sums.rewards
        return max(sums.reward_squares / sums.rewards - mean * mean, 0.0) * self.total.rewards / sums.rewards

    def _bounds(self, difference: float, variance: float) -> Bounds:
        half = running_half_width(max(variance, 0.0), self._count)
        return difference, difference - half, difference + half

    def _clipped(self, value: float, half: float) -> Bounds:
        low, high = self.reward_range
        return value, max(value - half, low), min(value + half, high)

    def _why_unknown(self, action: ExperimentAction) -> str:
        sums = self.total.actions.get(action)
        known = 0 if sums is None else sums.matched if self.is_adjusted else sums.rewards
        if known < LEAST_REWARDS:
            return f"{action} has {known} rewards in this range: from {LEAST_REWARDS} on there is a comparison"
        return (
            f"the policy never takes {action} in some contexts, so rewards can't tell what it would earn there: give "
            "it a least_probability or an epsilon above 0"
        )
