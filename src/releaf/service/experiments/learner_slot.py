"""A learner in an experiment, in charge or beside the one in charge, and what it would have earned."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from releaf import from_bytes
from releaf.service.messages import PolicySpec, ShadowInfo

Label = str | int
_Z95 = 1.959963984540054
LEAST_SUPPORT = 0.2  # by which the mean weight may differ from 1


class Sums(Struct):
    """What an off-policy estimate of a learner's value needs, kept as sums over the decisions that were rewarded.

    A reward counts for a shadow where it would have taken the same action, with the weight w = 1 / p of the action's
    probability p; where the rewards of all actions are known, that of its own action counts, with weight 1.
    """

    since: int = 0  # decisions before it began, which don't count
    agreed: int = 0  # decisions in which it would have done the same
    decisions: int = 0
    refused: int = 0  # rewards that it could not learn, since they are out of its range
    seen: int = 0  # rewards of decisions whose probability is known
    matched: int = 0  # those of them with a weight
    w: float = 0.0
    wr: float = 0.0
    ww: float = 0.0
    wwr: float = 0.0
    wwrr: float = 0.0

    def count(self, weight: float, reward: float) -> None:
        """Take in one reward."""
        self.matched += 1
        self.w += weight
        self.wr += weight * reward
        self.ww += weight * weight
        self.wwr += weight * weight * reward
        self.wwrr += weight * weight * reward * reward

    def overlap(self) -> float | None:
        """The mean weight: about 1 where the policy in charge tries now and then whatever this one would do."""
        return self.w / self.seen if self.seen else None

    def is_supported(self) -> bool:
        """Whether the rewards can tell its value at all: the mean weight is 1, as far as chance allows.

        Where the policy in charge never does what this one would do instead, no reward tells what that would earn,
        and the estimate would be of the decisions on which both agree.
        """
        mean = self.overlap()
        if mean is None:
            return False
        spread = math.sqrt(max(self.ww / self.seen - mean * mean, 0.0) / self.seen)
        return abs(mean - 1.0) <= LEAST_SUPPORT + 3.0 * spread

    def value(self) -> tuple[float | None, float | None, float | None]:
        """The self-normalised estimate (SNIPS) of the mean reward, and its 95 % interval by the delta method.

        None where the rewards can't tell.
        """
        if not self.w or not self.is_supported():
            return None, None, None
        value = self.wr / self.w
        if self.matched < 2:
            return value, None, None
        variance = self.wwrr - 2 * value * self.wwr + value * value * self.ww
        half = _Z95 * math.sqrt(max(variance, 0.0)) / self.w
        return value, value - half, value + half

    def effective(self) -> float:
        """Of how many equally weighted rewards the estimate is worth (Kish)."""
        return self.w * self.w / self.ww if self.ww else 0.0


class SeatRecord(Struct, array_like=True):
    """A seat as a snapshot keeps it."""

    name: str
    policy: PolicySpec
    since: int
    offset: int
    sums: Sums
    learner: bytes


class Seat:
    """A learner that sees every decision of an experiment since it took its seat.

    Parameters
    ----------
    name
        Under which a shadow is known.
    policy
        What it was made from.
    learner
        The learner itself.
    since
        How many decisions the experiment had made before.

    Decisions are counted here without numbers that the experiment skipped: by their place, not their number.
    """

    def __init__(self, name: str, policy: PolicySpec, learner: Any, since: int) -> None:
        self.name, self.policy, self.learner, self.since = name, policy, learner, since
        self.offset: int = learner.steps - since  # of the learner's own count of decisions over the experiment's
        self.sums = Sums(since=since)
        self.seconds = 0.0  # that a decision takes, as far as it was measured

    def step(self, place: int) -> int:
        """The learner's own number of a decision."""
        return place + self.offset

    def learn(self, place: int, reward: Any, action: Label) -> None:
        """Learn the reward of the action that was taken, where this learner asked for one too."""
        step = self.step(place)
        if place <= self.since or not self.learner.waits_for(step):
            return
        try:
            if self.learner.wants_all:
                self.learner.learn(step, reward)
            else:
                self.learner.learn(step, reward, action)
        except ValueError:  # a shadow whose rewards are of another kind or range
            self.sums.refused += 1

    def tell(self) -> ShadowInfo:
        """How it did so far."""
        sums = self.sums
        value, low, high = sums.value()
        least, most = getattr(self.learner, "reward_range", (0.0, 1.0))
        low, high = (None if bound is None else min(max(bound, least), most) for bound in (low, high))
        return ShadowInfo(
            name=self.name,
            policy=self.policy,
            decisions=sums.decisions,
            agreed=sums.agreed,
            matched=sums.matched,
            value=value,
            low=low,
            high=high,
            effective=sums.effective(),
            refused=sums.refused,
            overlap=sums.overlap(),
            supported=sums.is_supported(),
        )

    def freeze(self) -> Callable[[], SeatRecord]:
        """Hold on to the seat as it is now; what is returned makes the record of it."""
        sums, learner = msgspec.structs.replace(self.sums), self.learner.freeze()
        return lambda: SeatRecord(self.name, self.policy, self.since, self.offset, sums, learner())

    @classmethod
    def from_record(cls, record: SeatRecord) -> Seat:
        """The seat that ``record`` gave."""
        seat = cls(record.name, record.policy, from_bytes(record.learner), record.since)
        seat.offset, seat.sums = record.offset, record.sums
        return seat


def packed(learner: Any) -> bytes:
    """A learner for the log; one that has learnt little consists of zeros mostly."""
    return zlib.compress(learner.to_bytes(), 1)


def unpacked(content: bytes) -> Any:
    """The learner that ``packed`` gave."""
    return from_bytes(zlib.decompress(content))
