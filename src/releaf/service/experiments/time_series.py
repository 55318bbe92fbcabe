"""Exploration and rewards over time, in a few hundred numbers however long an experiment runs."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct

from releaf.service.messages import SeriesPoint

MOST_POINTS = 200


def iso(at: float) -> str:
    """A time as people and programs read it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Point(Struct, array_like=True):
    """Some consecutive decisions."""

    at: float
    decisions: int = 0
    explored: int = 0
    asked: int = 0
    rewards: int = 0
    reward_sum: float = 0.0

    def absorb(self, later: Point) -> None:
        """Take in the decisions that came right after."""
        self.decisions += later.decisions
        self.explored += later.explored
        self.asked += later.asked
        self.rewards += later.rewards
        self.reward_sum += later.reward_sum


class Series(Struct, array_like=True):
    """Points of equally many decisions each; when there are too many points, pairs of them become one."""

    size: int = 1  # decisions to a point
    points: list[Point] = []

    def decided(self, at: float, explored: list[bool], asked: list[bool]) -> None:
        """Count decisions of one moment: which explored, and which asked for a reward."""
        start, end = 0, len(explored)
        while start < end:
            point = self._open_point(at)
            stop = min(end, start + self.size - point.decisions)
            point.decisions += stop - start
            point.explored += sum(explored[start:stop])
            point.asked += sum(asked[start:stop])
            start = stop

    def _open_point(self, at: float) -> Point:
        """The latest point, a new one where that is full."""
        points = self.points
        if not points or points[-1].decisions == self.size:
            if len(points) == MOST_POINTS:
                self._halve()
            points.append(Point(at))
        return points[-1]

    def rewarded(self, decision: int, reward: float) -> None:
        """Count the reward of a decision where that was made."""
        point = self.points[(decision - 1) // self.size]
        point.rewards += 1
        point.reward_sum += reward

    def _halve(self) -> None:
        for first, second in zip(self.points[::2], self.points[1::2], strict=True):
            first.absorb(second)
        del self.points[1::2]
        self.size *= 2

    def tell(self) -> list[SeriesPoint]:
        """The points for a chart."""
        return [
            SeriesPoint(
                first=place * self.size + 1,
                decisions=point.decisions,
                at=iso(point.at),
                explored=point.explored,
                asked=point.asked,
                rewards=point.rewards,
                reward_sum=point.reward_sum,
            )
            for place, point in enumerate(self.points)
        ]
