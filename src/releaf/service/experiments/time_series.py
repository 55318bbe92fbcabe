"""Time series of decisions, rewards and actions: fine for recent decisions, coarse for old ones, and bounded in size.

A point has the sums over consecutive decisions. The size of the newest points is about 1/4096 of all decisions; when
there are more than 32 points of one size, the two oldest of them become one of twice the size. So a series has fewer
than 400 points however long an experiment runs, and the last hour has a good resolution as well as the last year.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from msgspec import Struct

from releaf.service.experiments.action_sums import ActionSums
from releaf.service.log.events import ExperimentAction

MAX_PER_SIZE = 32
FINEST = 1 << 12  # newest points have this share of all decisions
MAX_POINT_ACTIONS = 32  # the most frequent of a point; it has the sums of all others together
MAX_MARKERS = 100
OTHERS = None  # stands for these actions


class TimeSeriesPoint(Struct, array_like=True):
    """Sums over consecutive decisions. Snapshots store the fields by position: new ones go to the end.

    ``weighted`` are the rewarded decisions with a known propensity, ``regrets`` those with the rewards of all actions.
    """

    at: float  # of the first decision
    decisions: int = 0
    explored: int = 0
    asked: int = 0
    rewards: int = 0
    reward_sum: float = 0.0
    first: int = 0  # ordinal of the first decision
    size: int = 0  # decisions that it has when it is full
    until: float = 0.0  # time of the last decision
    reward_squares: float = 0.0
    weighted: int = 0
    weighted_sum: float = 0.0
    weighted_squares: float = 0.0
    regrets: int = 0
    regret_sum: float = 0.0
    actions: dict[ExperimentAction | None, ActionSums] = {}
    spent: float = 0.0  # sum of the costs of the actions taken

    def merge(self, later: TimeSeriesPoint) -> None:
        """Add the sums of the following point; written out, because early decisions pay for it."""
        self.decisions += later.decisions
        self.explored += later.explored
        self.asked += later.asked
        self.until = later.until
        self.size += later.size
        self.spent += later.spent
        if later.rewards:
            self.rewards += later.rewards
            self.reward_sum += later.reward_sum
            self.reward_squares += later.reward_squares
            self.weighted += later.weighted
            self.weighted_sum += later.weighted_sum
            self.weighted_squares += later.weighted_squares
            self.regrets += later.regrets
            self.regret_sum += later.regret_sum
        for action, sums in later.actions.items():
            self.of(action).merge(sums)

    def add_decisions(self, events: list[Any], floors: Mapping[Any, float]) -> None:
        """Add decisions that it can hold."""
        self.decisions += len(events)
        self.explored += sum([event.explored for event in events])
        self.asked += sum([event.wants_reward for event in events])
        for cost in [event.cost for event in events if event.cost]:
            self.spent += cost
        if len(events) == 1:  # as most often: a Counter takes longer than all else here
            self.of(events[0].action).decisions += 1
        else:
            for action, count in Counter([event.action for event in events]).items():
                self.of(action).decisions += count
        if floors:
            for event in events:
                chance = event.probability
                if chance is not None and chance <= floors.get(event.action, 0.0) * (1.0 + 1e-6):
                    self.of(event.action).floored += 1

    def forget_rewards(self) -> None:
        """Keep only what is known when decisions are made."""
        self.rewards = self.weighted = self.regrets = 0
        self.reward_sum = self.reward_squares = self.regret_sum = 0.0
        self.weighted_sum = self.weighted_squares = 0.0
        self.actions = {
            action: ActionSums(decisions=sums.decisions, floored=sums.floored) for action, sums in self.actions.items()
        }

    def of(self, action: ExperimentAction | None) -> ActionSums:
        """The sums of an action; new ones if it has none."""
        sums = self.actions.get(action)
        if sums is None:
            sums = self.actions[action] = ActionSums()
        return sums

    def limit_actions(self) -> None:
        """Keep the sums of the most frequent actions, and add those of all others together."""
        if len(self.actions) <= MAX_POINT_ACTIONS + 1:
            return
        others = self.actions.pop(OTHERS, None) or ActionSums()
        ranked = sorted(self.actions, key=lambda action: -self.actions[action].decisions)
        for action in ranked[MAX_POINT_ACTIONS:]:
            others.merge(self.actions.pop(action))
        self.actions[OTHERS] = others


class Marker(Struct, array_like=True):
    """A change of the experiment: when, after which decision, and of what."""

    at: float
    decision: int
    change: str
    subject: str | None


class TimeSeries(Struct, array_like=True):
    """The points, the changes of the experiment, and when rewards came.

    Snapshots store the fields by position. ``size`` is that of the points of earlier versions, which had no actions;
    ``since`` is the ordinal after which points have all sums, None in snapshots of earlier versions.
    """

    size: int = 1
    points: list[TimeSeriesPoint] = []
    since: int | None = None
    markers: list[Marker] = []
    rewarded_at: float | None = None  # time of the latest reward
    longest_silence: float = 0.0  # between two rewards, and forgotten in seven times its length
    asked_since: int = 0  # decisions that asked for a reward since the latest reward

    def add_decisions(self, at: float, made: list[Any], floors: Mapping[Any, float]) -> None:
        """Add decisions made at the same time.

        Parameters
        ----------
        at
            Their time.
        made
            Their events.
        floors
            Lowest propensity of each action, up to which a decision counts as ``floored``.
        """
        done, point = 0, self.points[-1] if self.points else None
        while done < len(made):
            if point is None or point.decisions == point.size:
                point = self._append_point(at)
            events = made[done : done + point.size - point.decisions]
            done += len(events)
            point.add_decisions(events, floors)
            self.asked_since += sum([event.wants_reward for event in events])
            point.until = at

    def _append_point(self, at: float) -> TimeSeriesPoint:
        points = self.points
        made = points[-1].first + points[-1].decisions - 1 if points else 0
        if points:
            points[-1].limit_actions()
        finest = 1
        while finest * 2 * FINEST <= made:
            finest *= 2
        self._compact(finest)
        points.append(TimeSeriesPoint(at, first=made + 1, size=finest, until=at, actions={}))
        return points[-1]

    def _compact(self, finest: int) -> None:
        """Merge points smaller than the finest size, and the two oldest of a size that too many points have.

        Points get smaller from the oldest to the newest, so points of one size are next to each other.
        """
        end = len(self.points)
        while end:
            size = self.points[end - 1].size
            start = end
            while start and self.points[start - 1].size == size:
                start -= 1
            excess = (end - start) // 2 if size < finest else max(0, (end - start - MAX_PER_SIZE + 1) // 2)
            for place in range(start, start + excess):  # each merge shortens the list by one
                self.points[place].merge(self.points[place + 1])
                self.points[place].limit_actions()
                del self.points[place + 1]
            if not excess:
                return  # larger points have not become more
            end = start + excess

    def add_reward(
        self, ordinal: int, action: ExperimentAction, chance: float | None, reward: float | dict[Any, float]
    ) -> None:
        """Add a reward to the point of its decision: of the action taken, or of all actions."""
        point = self.points[bisect_right(self.points, ordinal, key=attrgetter("first")) - 1]
        known = reward if isinstance(reward, dict) else {}
        gained = known.get(action, 0.0) if isinstance(reward, dict) else reward
        point.rewards += 1
        point.reward_sum += gained
        square = gained * gained
        point.reward_squares += square
        if self.since is None or ordinal <= self.since:
            return  # a decision of an earlier version, which counted no actions
        sums = point.actions.get(action) or point.of(OTHERS)
        sums.rewards += 1
        sums.reward_sum += gained
        sums.reward_squares += square
        if not (known or chance):
            return
        point.weighted += 1
        point.weighted_sum += gained
        point.weighted_squares += square
        if known:
            point.regrets += 1
            point.regret_sum += max(known.values()) - gained
            for name, value in known.items():
                (point.actions.get(name) or point.of(name)).add_weighted(1.0, value)
        elif chance:
            sums.add_weighted(1.0 / chance, gained)

    def note_reward(self, at: float) -> None:
        """Note that a client sent a reward."""
        if self.rewarded_at is not None:
            silence = at - self.rewarded_at
            self.longest_silence = max(silence, self.longest_silence - silence / 7)
        self.rewarded_at, self.asked_since = at, 0

    def add_marker(self, at: float, decision: int, change: str, subject: str | None) -> None:
        """Add a change of the experiment; beyond MAX_MARKERS the oldest is dropped."""
        self.markers.append(Marker(at, decision, change, subject))
        del self.markers[:-MAX_MARKERS]

    def upgrade(self, decisions: int) -> None:
        """Continue the series of an earlier version, whose points have equal sizes and no actions."""
        if self.since is None:
            self.since, first = decisions, 1
            for point in self.points:
                point.first, point.size = first, self.size
                first += point.decisions
            for point, later in zip(self.points, [*self.points[1:], None], strict=True):
                point.until = later.at if later else point.at

    def totals(self) -> tuple[int, ...]:
        """Sums over all points that do not depend on how decisions are grouped."""
        names = ("decisions", "explored", "asked", "rewards")
        return tuple(sum(getattr(point, name) for point in self.points) for name in names)
