"""Time series of exploration and rewards, with a bounded number of points however long an experiment runs."""

from __future__ import annotations

from msgspec import Struct, structs

from releaf.service.messages import SeriesPoint
from releaf.service.timestamps import format_timestamp

MAX_POINTS = 200


class TimeSeriesPoint(Struct, array_like=True):
    """Counts over consecutive decisions."""

    at: float
    decisions: int = 0
    explored: int = 0
    asked: int = 0
    rewards: int = 0
    reward_sum: float = 0.0

    def merge(self, later: TimeSeriesPoint) -> None:
        """Add the counts of the following point."""
        for name in ("decisions", "explored", "asked", "rewards", "reward_sum"):
            setattr(self, name, getattr(self, name) + getattr(later, name))


class TimeSeries(Struct, array_like=True):
    """Points of equally many decisions each; when the series is full, pairs of points are merged."""

    size: int = 1  # decisions per point
    points: list[TimeSeriesPoint] = []

    def add_decisions(self, at: float, explored: list[bool], asked: list[bool]) -> None:
        """Add decisions made at the same time: which of them explored, and which asked for a reward."""
        start, end = 0, len(explored)
        while start < end:
            point = self._open_point(at)
            stop = min(end, start + self.size - point.decisions)
            point.decisions += stop - start
            point.explored += sum(explored[start:stop])
            point.asked += sum(asked[start:stop])
            start = stop

    def _open_point(self, at: float) -> TimeSeriesPoint:
        """The latest point, or a new one if that is full."""
        points = self.points
        if not points or points[-1].decisions == self.size:
            if len(points) == MAX_POINTS:
                self._merge_pairs()
            points.append(TimeSeriesPoint(at))
        return points[-1]

    def add_reward(self, ordinal: int, reward: float) -> None:
        """Add a reward to the point of its decision."""
        point = self.points[(ordinal - 1) // self.size]
        point.rewards += 1
        point.reward_sum += reward

    def _merge_pairs(self) -> None:
        for first, second in zip(self.points[::2], self.points[1::2], strict=True):
            first.merge(second)
        del self.points[1::2]
        self.size *= 2

    def to_messages(self) -> list[SeriesPoint]:
        """The points for the API."""
        return [
            SeriesPoint(**structs.asdict(point) | {"first": index * self.size + 1, "at": format_timestamp(point.at)})
            for index, point in enumerate(self.points)
        ]
